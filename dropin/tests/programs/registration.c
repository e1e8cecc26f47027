/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that can be registered, and memory that cannot, with the kernel's error. Completion queues
 * of sizes that no device has, and resizes below the number of completions in the queue. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "pair.h"

static int failed;

static void expect(const struct pair *p, const char *what, const void *at, size_t bytes, int access,
		   int error)
{
	errno = 0;
	struct ibv_mr *mr = ibv_reg_mr(p->pd, (void *)(uintptr_t)at, bytes, access);

	if (!mr != (error != 0) || (!mr && errno != error)) {
		printf("%s: %s, expected %s\n", what, mr ? "registered" : strerror(errno),
		       error ? strerror(error) : "a region");
		failed = 1;
	}
	if (mr)
		pair_need(!ibv_dereg_mr(mr), "the end of a region");
}

static void memory(const struct pair *p)
{
	const int rw = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		  anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
	char *m = mmap(NULL, 16384, PROT_READ | PROT_WRITE, anonymous, -1, 0);
	char *read_only = mmap(NULL, 4096, PROT_READ, anonymous, -1, 0);
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char *file = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	pair_need(m != MAP_FAILED && read_only != MAP_FAILED && file != MAP_FAILED, "mappings");
	munmap(m + 8192, 4096);
	expect(p, "a hole", m, 16384, rw, EFAULT);
	expect(p, "nothing mapped", (void *)0x10000, 4096, rw, EFAULT);
	expect(p, "address 0", NULL, 4096, rw, EFAULT);
	expect(p, "around the end of the address space", (void *)-4096ul, 8192, rw, EINVAL);
	expect(p, "pages that are only read, to be written", read_only, 4096,
	       IBV_ACCESS_LOCAL_WRITE, EFAULT);
	expect(p, "pages that are only read, to be sent", read_only, 4096, 0, 0);
	expect(p, "pages that are only read, for READs", read_only, 4096, IBV_ACCESS_REMOTE_READ,
	       0);
	expect(p, "a shared file that is only read, to be sent", file, 4096, 0, 0);
	expect(p, "a shared file that is only read, to be written", file, 4096,
	       IBV_ACCESS_LOCAL_WRITE, EFAULT);
	expect(p, "the program's text, to be sent", (void *)(uintptr_t)memory, 64, 0, 0);
	expect(p, "a constant, to be written", "constant", 8, IBV_ACCESS_LOCAL_WRITE, EFAULT);
	expect(p, "WRITEs of others without one's own", m, 4096, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	expect(p, "atomics of others without one's own", m, 4096, IBV_ACCESS_REMOTE_ATOMIC, EINVAL);
	expect(p, "an optional right that is unknown", m, 4096, rw | 1 << 29, 0);
	expect(p, "a right that is unknown", m, 4096, rw | 1 << 15, EINVAL);
}

static void queues(struct pair *p)
{
	struct ibv_device_attr device;

	pair_need(!ibv_query_device(p->context, &device), "the device");
	const struct {
		int size, good;
	} queue[] = {{0, 0},        {-1, 0}, {1, 1}, {device.max_cqe, 1}, {device.max_cqe + 1, 0},
		     {INT32_MAX, 0}};

	for (size_t i = 0; i < sizeof queue / sizeof queue[0]; i++) {
		struct ibv_cq *cq = ibv_create_cq(p->context, queue[i].size, NULL, NULL, 0);

		if (!cq != !queue[i].good || (cq && cq->cqe < queue[i].size)) {
			printf("a completion queue of %d: %s\n", queue[i].size,
			       cq ? "made" : "not made");
			failed = 1;
		}
		if (cq)
			pair_need(!ibv_destroy_cq(cq), "the end of a queue");
	}
	pair_connect(p);
	for (int i = 0; i < 10; i++)
		pair_need(!pair_post(p, IBV_WR_RDMA_WRITE, p->mr->rkey), "a write");
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR}; /* after which all have completed */

	pair_need(!ibv_modify_qp(p->qp[0], &a, IBV_QP_STATE), "ERR");
	pair_need(ibv_resize_cq(p->cq, 4) != 0, "a queue smaller than what is in it is refused");
	pair_need(ibv_resize_cq(p->cq, 0) != 0, "a queue of nothing is refused");
	pair_need(ibv_resize_cq(p->cq, device.max_cqe + 1) != 0,
		  "a queue that is too large is refused");
	pair_need(!ibv_resize_cq(p->cq, 12) && p->cq->cqe >= 12, "a queue of 12");
	for (int i = 0; i < 10; i++)
		pair_wait(p);
}

int main(void)
{
	struct pair p;

	pair_open(&p);
	memory(&p);
	queues(&p);
	return failed;
}
