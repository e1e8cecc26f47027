/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of several processes: waking across, and the end of those that a dead one had. */
#include <sched.h>

#include "backends/fakeverbs/hca.h"

#define HCA_IDLE_POLLS 64u

const struct hca_far *hca_far;

uint32_t hca_proc_id(const struct os_proc *proc)
{
	if (!hca_far)
		return proc->id;
	ASSERT(proc->id < 1u << HCA_FAR_NUMBER_BITS);
	return hca_far->self << HCA_FAR_NUMBER_BITS | proc->id;
}

void hca_item_post(struct hca_item *it)
{
	if (hca_is_here(it->proc)) {
		os_event_post((const void *)(uintptr_t)it->handle);
		return;
	}
	__atomic_fetch_add(&it->posts, 1, __ATOMIC_ACQ_REL);
	hca_far->ring(it->proc >> HCA_FAR_NUMBER_BITS);
}

bool hca_far_idle(void)
{
	static __thread uint32_t polls;

	if (++polls % HCA_IDLE_POLLS)
		return false;
	sched_yield();
	return true;
}

static void hca_far_look(struct hca_slab *s, void (*show)(void *item))
{
	uint32_t at = 0;
	struct hca_item *it;

	while ((it = hca_slab_next(s, UINT32_MAX, &at))) {
		uint32_t posts = __atomic_load_n(&it->posts, __ATOMIC_ACQUIRE);

		if (!hca_is_here(it->proc) || it->heard == posts)
			continue;
		it->heard = posts;
		show(it);
		os_event_post((const void *)(uintptr_t)it->handle);
	}
}

void hca_far_rung(void)
{
	struct hca_world *w = __atomic_load_n(&fakeverbs.world, __ATOMIC_ACQUIRE);

	if (!w)
		return;
	hca_far_look(&w->channel, hca_channel_show);
	hca_far_look(&w->context, hca_context_show);
}

/* What a process that died on its way to ring has left: a channel with an event, a queue inside whose
 * lock it was. */
void hca_far_unrung(void)
{
	struct hca_world *w = __atomic_load_n(&fakeverbs.world, __ATOMIC_ACQUIRE);
	uint32_t at;
	struct hca_cq *cq;
	struct hca_channel *ch;

	if (!w)
		return;
	for (at = 0; (cq = hca_slab_next(&w->cq, UINT32_MAX, &at));) {
		uint32_t holder = __atomic_load_n(&cq->item.lock, __ATOMIC_RELAXED);

		if (!hca_is_here(cq->item.proc) || !holder || holder == hca_lock_me() ||
		    hca_far->alive(holder - 1))
			continue;
		hca_cq_lock(cq);
		hca_unlock(&cq->item.lock);
	}
	for (at = 0; (ch = hca_slab_next(&w->channel, UINT32_MAX, &at));) {
		if (!hca_is_here(ch->item.proc) || !__atomic_load_n(&ch->first, __ATOMIC_RELAXED))
			continue;
		hca_channel_show(ch);
		os_event_post((const void *)(uintptr_t)ch->item.handle);
	}
}

/* ---- the end of others ---------------------------------------------------------------------- */

static void hca_far_reap_kind(struct hca_slab *s, uint32_t member, void (*end)(void *item))
{
	uint32_t at = 0;
	struct hca_item *it;

	while ((it = hca_slab_next(s, UINT32_MAX, &at)))
		if (it->proc != UINT32_MAX && it->proc >> HCA_FAR_NUMBER_BITS == member)
			end(it);
}

static void hca_far_end_packet(void *packet)
{
	hca_slab_give(&fakeverbs.world->packet, packet);
}
static void hca_far_end_small(void *buffer)
{
	hca_slab_give(&fakeverbs.world->small, buffer);
}
static void hca_far_end_large(void *buffer)
{
	hca_slab_give(&fakeverbs.world->large, buffer);
}

void hca_far_reap(uint32_t member)
{
	struct hca_world *w = hca_world();

	hca_world_each_kind(w, member, hca_far_reap_kind);
	hca_far_reap_kind(&w->packet, member, hca_far_end_packet);
	hca_far_reap_kind(&w->small, member, hca_far_end_small);
	hca_far_reap_kind(&w->large, member, hca_far_end_large);
}

void hca_far_close(struct hca_context *c, uint64_t caller)
{
	struct hca_world *w = hca_world();
	uint32_t at, index = c->item.index, proc = c->item.proc;
	struct hca_qp *qp;
	struct hca_srq *srq;
	struct hca_cq *cq;

	for (at = 0; (qp = hca_slab_next(&w->qp, proc, &at));)
		if (qp->context == index) {
			hca_handle_end((void *)(uintptr_t)qp->item.handle, caller);
			hca_qp_destroy(qp);
		}
	for (at = 0; (srq = hca_slab_next(&w->srq, proc, &at));)
		if (srq->context == index) {
			hca_handle_end((void *)(uintptr_t)srq->item.handle, caller);
			hca_srq_destroy(srq);
		}
	for (at = 0; (cq = hca_slab_next(&w->cq, proc, &at));)
		if (cq->context == index) {
			hca_handle_end((void *)(uintptr_t)cq->item.handle, caller);
			hca_cq_destroy(cq);
		}
}
