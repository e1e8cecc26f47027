/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of several processes: process numbers, and wakes across processes. */
#include <sched.h>

#include "backends/fakeverbs/arena/arena.h"
#include "backends/fakeverbs/arena/point.h"
#include "backends/fakeverbs/arena/report.h"

#define HCA_IDLE_POLLS 64u

const struct hca_members *hca_members;

_Static_assert(HCA_NO_PROC >> HCA_MEMBER_NUMBER_BITS == 0, "a number leaves the member as it is");

uint32_t hca_proc_id(const struct os_proc *proc)
{
	if (!hca_members)
		return proc->id;
	ASSERT(proc->id < HCA_NO_PROC); /* the number of the member's packets */
	return hca_members->self << HCA_MEMBER_NUMBER_BITS | proc->id;
}

void hca_item_post(struct hca_item *it)
{
	if (hca_is_here(it->proc)) {
		os_event_post((const void *)(uintptr_t)it->handle);
		return;
	}
	ASSERT(it->proc != UINT32_MAX); /* contexts and channels have an owner */
	__atomic_fetch_add(&it->posts, 1, __ATOMIC_ACQ_REL);
	hca_members->ring(it->proc >> HCA_MEMBER_NUMBER_BITS);
}

bool hca_members_idle(void)
{
	static __thread uint32_t polls;

	if (++polls % HCA_IDLE_POLLS)
		return false;
	sched_yield();
	return true;
}
