/* SPDX-License-Identifier: BSD-3-Clause */
/* Readiness by an eventfd, whose counter is 0 exactly while the queue is empty. */
#include "backends/fakeverbs/arena/hca_ready.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/engine/sim.h"

int hca_ready_make(struct hca_ready *r)
{
	*r = (struct hca_ready){.fd = -1};
	if (sim_engine_kind() != SIM_ENGINE_THREADS)
		return 0;
	r->fd = eventfd(0, EFD_CLOEXEC);
	return r->fd < 0 ? errno : 0;
}

/* Wakes the sleepers. They are threads of the descriptor's owner, and the caller is one, too. */
static void hca_ready_wake(struct hca_ready *r)
{
	__atomic_store_n(&r->on, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &r->on, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void hca_ready_signal(struct hca_ready *r)
{
	const uint64_t one = 1;

	if (r->fd < 0)
		return;
	hca_ready_wake(r);
	/* fails only at 2^64 - 2 events that no task has read */
	ssize_t n = write(r->fd, &one, sizeof one);

	ASSERT(n == (ssize_t)sizeof one);
}

void hca_ready_clear(struct hca_ready *r)
{
	uint64_t count;

	if (r->fd < 0 || !r->on)
		return;
	__atomic_store_n(&r->on, 0, __ATOMIC_RELAXED);
	/* the eventfd is readable, so read does not block, whatever the descriptor's flags are */
	ssize_t n = read(r->fd, &count, sizeof count);

	ASSERT(n == (ssize_t)sizeof count);
}

void hca_ready_close(struct hca_ready *r)
{
	if (r->fd < 0)
		return;
	close(r->fd);
	r->fd = -1;
	hca_ready_wake(r);
}

/* Waits on a futex instead of the descriptor. A read would consume the event, and poll(2) fails
 * with EINTR even with SA_RESTART. Without a timeout the kernel restarts this call like a read. */
int hca_ready_sleep(const struct hca_ready *r)
{
	int type;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	long rc = syscall(SYS_futex, &r->on, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	int error = rc < 0 ? errno : 0;

	pthread_setcanceltype(type, &type);
	return error == EINTR ? EINTR : 0;
}

bool hca_ready_nonblocking(const struct hca_ready *r)
{
	return r->fd >= 0 && (fcntl(r->fd, F_GETFL) & O_NONBLOCK);
}
