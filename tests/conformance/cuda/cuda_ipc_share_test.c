/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real processes that share a world (struct world_share): IPC of GPU memory, and segments of host
 * memory. Each test forks two processes, which take turns. A process may be killed.
 */
#include <cuda.h>
#include <errno.h>
#include <signal.h>

#include "tests/conformance/cuda/cuda_harness.h"

/* Memory of the test and its processes. */
static struct stage {
	uint32_t turn;
	int32_t pid, fd;
	cudaIpcMemHandle_t handle;
	void *pointer;
} * stage;
static void *arena;

/* ---- processes ------------------------------------------------------------------------------ */

static void need_at(bool ok, int line, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "line %d: not so: %s\n", line, what);
	_exit(1);
}
#define NEED(what) need_at(what, __LINE__, #what)

static void says(cudaError_t got, cudaError_t want, struct ch_capture *c, const char *words,
		 int line)
{
	ch_capture_end(c);
	if (got == want && strstr(c->text, words))
		return;
	fprintf(stderr, "line %d: %s, expected %s and '%s': %s\n", line, cudaGetErrorName(got),
		cudaGetErrorName(want), words, c->text);
	_exit(1);
}
#define SAYS(call, want, words)                                                                    \
	do {                                                                                       \
		struct ch_capture c_;                                                              \
		ch_capture_begin(&c_);                                                             \
		says(call, want, &c_, words, __LINE__);                                            \
	} while (0)

static void give_turn(void)
{
	__atomic_fetch_add(&stage->turn, 1, __ATOMIC_ACQ_REL);
}

static void wait_turn(uint32_t turn)
{
	for (int i = 0; __atomic_load_n(&stage->turn, __ATOMIC_ACQUIRE) < turn; i++) {
		need_at(i < 60000, (int)turn, "the other process comes to this turn in 60 s");
		usleep(1000);
	}
}

static void *join(void)
{
	return arena;
}

static int joined(void)
{
	return 0;
}

static void leave(void)
{
}

static void body(void *arg)
{
	void (*fn)(void) = *(void (**)(void))arg;

	fn();
}

/* Starts process `index` of two on one host; it runs fn. */
static pid_t start(uint32_t index, void (*fn)(void))
{
	static const struct world_joiner joiner = {join, joined, leave};
	const struct sim_config sim = {.engine = SIM_ENGINE_THREADS, .seed = 1};
	const struct world_config world = {.hosts = 1,
					   .machine = "a100-4nic",
					   .real = true,
					   .share = {.process = index, .processes = 2}};
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	world_on_join(&joiner);
	NEED(!sim_start(&sim) && !world_create(&world));
	NEED(sim_run(body, &fn) == SIM_PASS);
	NEED(world_destroy() == 0);
	_exit(0);
}

static void ends(pid_t pid, int code)
{
	int status = 0;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), code);
}

/* Runs both to their ends. The first is killed, and reaped, when it has given its last turn. */
static void run(void (*first)(void), int32_t kill_at, void (*second)(void))
{
	int memory = memfd_create("arena", 0);

	ck_assert(memory >= 0 && !ftruncate(memory, (off_t)WORLD_ARENA_BYTES));
	arena = mmap(NULL, WORLD_ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		     memory, 0);
	stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	ck_assert(arena != MAP_FAILED && stage != MAP_FAILED);
	((struct world_arena_head *)arena)->used = WORLD_ARENA_FIRST;
	pid_t a = start(0, first);

	wait_turn(1); /* one makes the tables, as the joiner ensures */
	pid_t b = start(1, second);

	if (kill_at > 0) {
		wait_turn((uint32_t)kill_at);
		kill(a, SIGKILL);
		ends(a, -SIGKILL);
		give_turn();
	} else {
		ends(a, 0);
	}
	ends(b, 0);
}

static uint64_t word(const void *p)
{
	uint64_t v = 0;

	NEED(!cudaMemcpy(&v, p, 8, cudaMemcpyDeviceToHost));
	return v;
}

static void *make(uint64_t v)
{
	void *p = NULL;

	NEED(!cudaSetDevice(0) && !cudaMalloc(&p, 4096));
	NEED(!cudaMemcpy(p, &v, 8, cudaMemcpyHostToDevice));
	return p;
}

/* Exports memory with 41 in it, at turn 1. */
static void *export(void)
{
	void *p = make(41);

	NEED(!cudaIpcGetMemHandle(&stage->handle, p));
	stage->pointer = p;
	give_turn();
	return p;
}

static void *import(void)
{
	void *p = NULL;

	NEED(!cudaSetDevice(1));
	NEED(!cudaIpcOpenMemHandle(&p, stage->handle, cudaIpcMemLazyEnablePeerAccess));
	NEED(p == stage->pointer);
	return p;
}

/* ---- the same address, the same memory ------------------------------------------------------ */

struct bump_args {
	uint64_t word;
};

CH_KERNEL(bump, 0)
{
	fakedev_add(d, (void *)(uintptr_t)a->word, 8, 1, SHARED_RELAXED, SHARED_SYSTEM);
}

static void exports_and_looks(void)
{
	void *p = export();

	wait_turn(2);
	NEED(word(p) == 42);
	NEED(!cudaFree(p));
}

static void imports_and_adds(void)
{
	void *own = make(7), *p = import(), *again = import();
	struct bump_args a = {.word = (uintptr_t)p};

	NEED(own != p); /* on the same GPU */
	NEED(word(p) == 41);
	NEED(!ch_launch_on(&bump_w1, 1, 1, &a, 0));
	NEED(!cudaDeviceSynchronize());
	NEED(!cudaIpcCloseMemHandle(p));
	NEED(again == p && word(p) == 42); /* opened twice, closed once */
	NEED(!cudaIpcCloseMemHandle(p));
	SAYS(cudaMemcpy(own, p, 8, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue,
	     "no allocation there");
	NEED(!cudaSetDevice(0) && !cudaFree(own));
	give_turn();
}

START_TEST(a_kernel_writes_memory_of_another_process)
{
	run(exports_and_looks, 0, imports_and_adds);
}
END_TEST

/* ---- memory that was freed ------------------------------------------------------------------ */

static void frees_early(void)
{
	void *p = make(41);

	NEED(!cudaIpcGetMemHandle(&stage->handle, p) && !cudaFree(p));
	give_turn();
	wait_turn(2);
}

static void opens_too_late(void)
{
	void *p;

	NEED(!cudaSetDevice(1));
	SAYS(cudaIpcOpenMemHandle(&p, stage->handle, cudaIpcMemLazyEnablePeerAccess),
	     cudaErrorInvalidResourceHandle, "was freed since the handle was made");
	give_turn();
}

START_TEST(freed_memory_cannot_be_opened)
{
	run(frees_early, 0, opens_too_late);
}
END_TEST

static void frees_what_is_open(void)
{
	void *p = export(), *next;

	wait_turn(2);
	sim_expect_misuse("still have open");
	SAYS(cudaFree(p), cudaSuccess, "which 1 other processes still have open by IPC");
	next = make(1);
	NEED(next != p); /* not given away while it is open */
	give_turn();
	wait_turn(4);
	NEED(!cudaFree(next));
	NEED(make(2) == p && !cudaFree(p));
}

static void reads_after_the_free(void)
{
	void *p = import();

	give_turn();
	wait_turn(3);
	NEED(word(p) == 41);
	NEED(!cudaIpcCloseMemHandle(p));
	give_turn();
}

START_TEST(memory_that_another_process_has_open_stays)
{
	run(frees_what_is_open, 0, reads_after_the_free);
}
END_TEST

/* ---- deaths --------------------------------------------------------------------------------- */

static void exports_and_waits(void)
{
	export();
	wait_turn(100); /* is killed */
}

static void outlives_the_exporter(void)
{
	void *p = import(), *again;

	give_turn();
	wait_turn(3);
	NEED(word(p) == 41);
	NEED(!cudaIpcCloseMemHandle(p));
	NEED(!cudaIpcOpenMemHandle(&again, stage->handle, cudaIpcMemLazyEnablePeerAccess));
	NEED(!cudaIpcCloseMemHandle(again)); /* this process still has its pages */
}

START_TEST(open_memory_outlives_its_process)
{
	run(exports_and_waits, 2, outlives_the_exporter);
}
END_TEST

static void opens_after_the_death(void)
{
	void *p;

	NEED(!cudaSetDevice(1));
	give_turn();
	wait_turn(3);
	SAYS(cudaIpcOpenMemHandle(&p, stage->handle, cudaIpcMemLazyEnablePeerAccess),
	     cudaErrorInvalidResourceHandle, "which made the handle, has ended");
}

START_TEST(memory_of_a_dead_process_cannot_be_opened)
{
	run(exports_and_waits, 2, opens_after_the_death);
}
END_TEST

static void imports_and_waits(void)
{
	give_turn();
	wait_turn(2);
	import();
	give_turn();
	wait_turn(100); /* is killed */
}

static void frees_after_the_death(void)
{
	void *p = export();

	wait_turn(4);
	NEED(!cudaFree(p)); /* no misuse: world_destroy and sim_run would report it */
	NEED(make(1) == p && !cudaFree(p));
}

START_TEST(a_dead_process_has_nothing_open)
{
	run(imports_and_waits, 3, frees_after_the_death);
}
END_TEST

/* ---- cuMem: refused ------------------------------------------------------------------------- */

static void exports_memory_of_cumem(void)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .requestedHandleTypes =
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemGenericAllocationHandle h = 0;

	NEED(!cudaSetDevice(0) && !cuMemCreate(&h, 2 << 20, &prop, 0));
	NEED(!cuMemExportToShareableHandle(&stage->fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					   0));
	stage->pid = getpid();
	give_turn();
	wait_turn(2);
	NEED(!close(stage->fd) && !cuMemRelease(h));
}

static void cannot_import_memory_of_cumem(void)
{
	CUmemGenericAllocationHandle h = 0, own = 0;
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	struct ch_capture c;
	char path[64];
	int has = 1;

	NEED(!cudaSetDevice(0) && !cuMemCreate(&own, 2 << 20, &prop, 0));
	NEED(!cuDeviceGetAttribute(
		     &has, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0) &&
	     !has);
	snprintf(path, sizeof path, "/proc/%d/fd/%d", stage->pid, stage->fd);
	int fd = open(path, O_RDONLY);
	NEED(fd >= 0);
	ch_capture_begin(&c);
	CUresult rc = cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd,
						     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	ch_capture_end(&c);
	NEED(rc == CUDA_ERROR_INVALID_VALUE && strstr(c.text, "real processes cannot import"));
	NEED(!close(fd) && !cuMemRelease(own));
	give_turn();
}

START_TEST(memory_of_cumem_is_refused)
{
	run(exports_memory_of_cumem, 0, cannot_import_memory_of_cumem);
}
END_TEST

/* ---- segments ------------------------------------------------------------------------------- */

static void makes_segments(void)
{
	void *mem, *other;
	size_t found;

	NEED(!os_shm_create("seen", 8192, &mem) && !os_shm_create("kept", 4096, &other));
	NEED(os_shm_create("seen", 8192, &other) == EEXIST);
	*(uint32_t *)mem = 7;
	NEED(access("/dev/shm/seen", F_OK) != 0); /* in no file */
	give_turn();
	wait_turn(2);
	NEED(os_shm_open("seen", 8192, &other, &found) == ENOENT); /* the other one removed it */
	NEED(*(uint32_t *)mem == 8);
	give_turn();
	wait_turn(100); /* is killed */
}

static void opens_segments(void)
{
	void *mem;
	size_t found;

	NEED(os_shm_open("none", 8192, &mem, &found) == ENOENT);
	NEED(os_shm_open("seen", 4096, &mem, &found) == EINVAL && found == 8192);
	NEED(!os_shm_open("seen", 8192, &mem, &found) && *(uint32_t *)mem == 7);
	NEED(!os_shm_unlink("seen") && os_shm_unlink("seen") == ENOENT);
	*(uint32_t *)mem = 8;
	give_turn();
	wait_turn(4);
	NEED(*(uint32_t *)mem == 8); /* a mapping outlives its maker, a name does not */
	NEED(os_shm_open("kept", 4096, &mem, &found) == ENOENT);
	NEED(!os_shm_create("kept", 4096, &mem) && !os_shm_unlink("kept"));
}

START_TEST(a_segment_has_no_file_and_ends_with_its_maker)
{
	run(makes_segments, 3, opens_segments);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("ipc_share");

	tcase_add_test(tc, a_kernel_writes_memory_of_another_process);
	tcase_add_test(tc, freed_memory_cannot_be_opened);
	tcase_add_test(tc, memory_that_another_process_has_open_stays);
	tcase_add_test(tc, open_memory_outlives_its_process);
	tcase_add_test(tc, memory_of_a_dead_process_cannot_be_opened);
	tcase_add_test(tc, a_dead_process_has_nothing_open);
	tcase_add_test(tc, memory_of_cumem_is_refused);
	tcase_add_test(tc, a_segment_has_no_file_and_ends_with_its_maker);
	return ch_suite_run("cuda_ipc_share", tc);
}
