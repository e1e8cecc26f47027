/* SPDX-License-Identifier: BSD-3-Clause */
/* Other communicators whose kernels run on the GPU of one that ends; the caller's own GPU. */
#include "core/comm/comm_internal.h"
#include "core/rank/cuda_result.h"

/* Time to wait for kernels of other communicators on the GPU, and between two checks. */
#define COMM_BUSY_NS      120000000000ull
#define COMM_BUSY_LOOK_NS 10000000ull
/* Maximum number of other communicators of a process that are checked. */
#define COMM_OTHERS 64

/* Finds communicators on the GPU that are not ending. They may end as soon as the lock is
 * released. */
static int comm_others_find(int32_t cuda_dev, struct ncclComm *found[COMM_OTHERS])
{
	struct registry_node *first = registry_lock();
	struct ncclComm *c;
	int n = 0;

	for (struct registry_node *node = first; node && n < COMM_OTHERS; node = node->next)
		if ((c = comm_of(node)) && !c->life->claimed && c->life->state >= COMM_READY &&
		    c->cuda_dev == cuda_dev)
			found[n++] = c;
	registry_unlock(first);
	return n;
}

bool comm_is_busy(struct ncclComm *comm)
{
	bool busy;

	if (comm_enter(comm, NULL, COMM_NEED_ANY))
		return false;
	busy = comm_launches_query(comm) == cudaErrorNotReady;
	os_poll_hit(); /* these checks have their own limit */
	comm_leave(comm);
	return busy;
}

bool comm_others_are_busy(const struct ncclComm *comm)
{
	struct ncclComm *other[COMM_OTHERS];
	int n = comm_others_find(comm->cuda_dev, other), busy = 0;

	while (busy < n && !comm_is_busy(other[busy]))
		busy++;
	OS_PROBE("comm.held", "kernels of another communicator keep memory from being freed",
		 busy < n);
	return busy < n;
}

bool comm_let_others_end(const struct ncclComm *comm, uint64_t until_ns)
{
	const uint64_t limit_ns = until_ns ? until_ns : os_now_ns() + COMM_BUSY_NS;

	while (comm_others_are_busy(comm)) {
		if (comm_is_aborted(comm) && !until_ns)
			break;
		if (os_now_ns() >= limit_ns)
			return !until_ns;
		os_sleep_ns(COMM_BUSY_LOOK_NS);
	}
	return true;
}

int comm_device_save(void)
{
	int dev = -1;

	return cudaGetDevice(&dev) == cudaSuccess ? dev : -1;
}

void comm_device_restore(int before)
{
	if (before >= 0)
		(void)cuda_result(cudaSetDevice(before),
				  "cudaSetDevice back to the caller's device");
}
