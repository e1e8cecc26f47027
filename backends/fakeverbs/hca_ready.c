/* SPDX-License-Identifier: BSD-3-Clause */
/* Readiness by an eventfd, whose counter is 0 exactly while the queue is empty. */
#include "backends/fakeverbs/hca_ready.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
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

void hca_ready_signal(struct hca_ready *r)
{
	const uint64_t one = 1;

	if (r->fd < 0)
		return;
	r->on = 1;
	/* it fails only at 2^64 - 2 events that nobody took */
	ssize_t n = write(r->fd, &one, sizeof one);

	ASSERT(n == (ssize_t)sizeof one);
}

void hca_ready_clear(struct hca_ready *r)
{
	uint64_t count;

	if (r->fd < 0 || !r->on)
		return;
	r->on = 0;
	/* what is readable does not block, whatever the descriptor's flags */
	ssize_t n = read(r->fd, &count, sizeof count);

	ASSERT(n == (ssize_t)sizeof count);
}

void hca_ready_close(struct hca_ready *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

bool hca_ready_nonblocking(const struct hca_ready *r)
{
	return r->fd >= 0 && (fcntl(r->fd, F_GETFL) & O_NONBLOCK);
}
