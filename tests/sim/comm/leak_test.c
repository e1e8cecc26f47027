/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One of each is leaked on purpose: the world counts every kind at its end, and a run that would
 * have passed ends with the verdict of a leak (exit code 13).
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/engine/sim.h"
#include "sim/lab/run/runner.h"
#include "sim/world/world.h"

#define EXPECT(x)                                                                                  \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			dprintf(test_stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #x);     \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static int test_stderr = 2;

static void leak_cuda(void)
{
	void *device, *host;
	cudaStream_t stream;
	cudaEvent_t event;
	int fd;
	EXPECT(cudaSetDevice(0) == cudaSuccess);
	EXPECT(cudaMalloc(&device, 8192) == cudaSuccess);
	uintptr_t page = ((uintptr_t)device + 4095) & ~(uintptr_t)4095;
	EXPECT(cuMemGetHandleForAddressRange(&fd, page, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					     0) == CUDA_SUCCESS);
	EXPECT(cudaHostAlloc(&host, 4096, cudaHostAllocMapped) == cudaSuccess);
	EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
	EXPECT(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
}

static void leak_verbs(void *memory)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	EXPECT(list && list[0]);
	struct ibv_context *context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	EXPECT(context);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	EXPECT(pd && cq && ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	EXPECT(ibv_create_qp(pd, &init));
}

static void leak_os(void)
{
	struct os_addr any = {.family = 4}, bound;
	void *segment;
	int fd;
	EXPECT(os_listen(&any, &fd, &bound) == 0);
	EXPECT(os_shm_create("leaked", 4096, &segment) == 0);
	leak_verbs(os_alloc(4096, "leaked on purpose"));
}

static void leak_forever(void *arg)
{
	shared_u32 *never = arg;
	struct wait w = {.on = never,
			 .bytes = 4,
			 .kind = WAIT_EQ,
			 .want = 1,
			 .mask = WAIT_MASK_ALL,
			 .why = "nothing: leaked on purpose",
			 .from = {-1, -1, -1, NULL}};
	os_wait_one(&w, NULL);
}

static void leak_objects(void *arg)
{
	(void)arg;
	leak_cuda();
	leak_os();
}

static void leak_task(void *arg)
{
	static shared_u32 never;
	struct os_thread_attr attr = {.name = "leaked task", .rank = 1, .background = true};
	struct os_thread *t;
	(void)arg;
	EXPECT(os_thread_start(&t, &attr, leak_forever, &never) == 0);
}

/* A process ends after its tasks, so the one with the leaked task is left to the world. */
static void leak_main(void *arg)
{
	struct os_thread_attr attr = {.name = "rank main", .rank = 0};
	struct os_thread *t[2];
	struct os_proc *proc[2];
	(void)arg;
	EXPECT(world_proc_create(0, "host0/p0", &proc[0]) == 0);
	EXPECT(world_proc_create(0, "host0/p1", &proc[1]) == 0);
	EXPECT(world_thread_start(proc[0], &t[0], &attr, leak_objects, NULL) == 0);
	EXPECT(world_thread_start(proc[1], &t[1], &attr, leak_task, NULL) == 0);
	EXPECT(os_thread_join(t[0]) == 0 && os_thread_join(t[1]) == 0);
	world_proc_exit(proc[0]);
}

static void every_kind_is_counted(void)
{
	static const char *const kinds[] = {"device",
					    "host",
					    "stream",
					    "event",
					    "dma-buf",
					    "queue pair|qp",
					    "memory region|mr",
					    "completion queue|cq",
					    "protection domain|pd",
					    "context",
					    "descriptor|socket",
					    "shared memory|shm|segment",
					    "alloc|memory",
					    "task"};
	struct sim_config sim = {.seed = 1};
	struct world_config world = {
		.hosts = 1, .machine = "h100-8nic", .strict_device_view = true};
	FILE *said = tmpfile();
	char line[512];
	int seen[sizeof kinds / sizeof kinds[0]] = {0};
	EXPECT(said);
	dup2(fileno(said), 2);
	EXPECT(sim_start(&sim) == 0 && world_create(&world) == 0);
	EXPECT(sim_run(leak_main, NULL) == SIM_PASS);
	uint64_t leaks = world_destroy();
	sim_stop();
	fflush(stderr);
	dup2(test_stderr, 2);
	rewind(said);
	while (fgets(line, sizeof line, said)) {
		if (strncmp(line, "leak: ", 6))
			continue;
		printf("%s", line);
		for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
			char copy[128], *save = NULL;
			snprintf(copy, sizeof copy, "%s", kinds[k]);
			for (char *word = strtok_r(copy, "|", &save); word;
			     word = strtok_r(NULL, "|", &save))
				seen[k] |= strcasestr(line, word) != NULL;
		}
	}
	fclose(said);
	for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
		if (!seen[k])
			fprintf(stderr, "no leak line names a %s\n", kinds[k]);
		EXPECT(seen[k]);
	}
	EXPECT(leaks >= sizeof kinds / sizeof kinds[0]);
}

static void leak_event(int32_t rank, ncclComm_t comm, void *arg)
{
	cudaEvent_t event;
	(void)comm, (void)arg;
	if (rank == 0)
		EXPECT(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
}

static void a_leak_is_the_verdict(void)
{
	struct lab_config c;
	struct lab_result r;
	lab_config_default(&c);
	c.gpus = 2;
	c.bytes_max = 8;
	EXPECT(lab_run(&c, &r) == 0 && r.verdict == SIM_PASS && r.leaks == 0);
	c.on_ready = leak_event;
	EXPECT(lab_run(&c, &r) == 0);
	EXPECT(r.verdict == SIM_LEAK && r.leaks == 1 && (int)r.verdict == 13);
}

int main(void)
{
	test_stderr = dup(2);
	every_kind_is_counted();
	a_leak_is_the_verdict();
	return 0;
}
