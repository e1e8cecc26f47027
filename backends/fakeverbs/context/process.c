/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of processes and of the world. Frees the remaining objects when a process ends or dies,
 * or when a context closes. Wakes the process whose objects another process changed. */
#include "backends/fakeverbs/context/process.h"

#include <stdio.h>

#include "backends/fakeverbs/context/context.h"

/* Frees every object of one kind that the process still has. Reports them as leaks, unless the
 * process was killed. */
static void hca_proc_end_kind(struct hca_slab *s, const struct os_proc *proc, bool killed,
			      const char *kind, void (*end)(void *item))
{
	uint64_t n = 0;
	uint32_t at = 0;
	struct hca_item *it;
	char first[160];
	struct hca_site made;

	while ((it = hca_slab_next(s, hca_proc_id(proc), &at))) {
		void *memory = (void *)(uintptr_t)it->handle;

		if (s == &fakeverbs.world->context)
			memory = hca_context_of(memory);
		if (n++ == 0)
			snprintf(first, sizeof first, "number %u of %s, made at %s", it->index,
				 proc->name, hca_site(it->proc, it->made, &made));
		end(it);
		os_unlabel(memory);
		hca_handle_sweep(memory, killed);
	}
	if (!killed)
		world_leak(kind, n, first);
}

/* Defines hca_end_qp and so on, which end an object of a kind. */
#define HCA_END(kind, call)                                                                        \
	static void hca_end_##kind(void *item)                                                     \
	{                                                                                          \
		call;                                                                              \
	}
HCA_END(qp, hca_qp_release(item, true))
HCA_END(qp_open, hca_qp_open_end(item))
HCA_END(xrcd_open, hca_xrcd_open_end(item))
HCA_END(cq, hca_cq_destroy(item))
HCA_END(srq, hca_srq_destroy(item))
HCA_END(ah, hca_slab_free(&fakeverbs.world->ah, item))
HCA_END(mr, hca_mr_destroy(item))
HCA_END(mw, hca_mw_destroy(item))
HCA_END(pd, hca_slab_free(&fakeverbs.world->pd, item))
HCA_END(channel, hca_channel_destroy(item))
HCA_END(context, hca_context_destroy(item))

static void hca_world_each_kind(struct hca_world *w, uint32_t member,
				void (*one)(struct hca_slab *s, uint32_t member,
					    void (*end)(void *item)))
{
	one(&w->qp_open, member, hca_end_qp_open);
	one(&w->qp, member, hca_end_qp);
	one(&w->srq, member, hca_end_srq);
	one(&w->cq, member, hca_end_cq);
	one(&w->ah, member, hca_end_ah);
	one(&w->xrcd_open, member, hca_end_xrcd_open);
	one(&w->mw, member, hca_end_mw);
	one(&w->mr, member, hca_end_mr);
	one(&w->pd, member, hca_end_pd);
	one(&w->channel, member, hca_end_channel);
	one(&w->context, member, hca_end_context);
}

/* Frees the remaining objects of a process that ends, from the top down. */
static void hca_proc_end(struct os_proc *proc, bool killed)
{
	struct hca_world *w = fakeverbs.world;

	if (!w)
		return;
	hca_proc_end_kind(&w->qp_open, proc, killed, "opened queue pair", hca_end_qp_open);
	hca_proc_end_kind(&w->qp, proc, killed, "queue pair", hca_end_qp);
	hca_proc_end_kind(&w->srq, proc, killed, "shared receive queue", hca_end_srq);
	hca_proc_end_kind(&w->cq, proc, killed, "completion queue", hca_end_cq);
	hca_proc_end_kind(&w->ah, proc, killed, "address handle", hca_end_ah);
	hca_proc_end_kind(&w->xrcd_open, proc, killed, "XRC domain", hca_end_xrcd_open);
	hca_proc_end_kind(&w->mw, proc, killed, "memory window", hca_end_mw);
	hca_proc_end_kind(&w->mr, proc, killed, "memory region", hca_end_mr);
	hca_proc_end_kind(&w->pd, proc, killed, "protection domain", hca_end_pd);
	hca_proc_end_kind(&w->channel, proc, killed, "completion channel", hca_end_channel);
	hca_proc_end_kind(&w->context, proc, killed, "verbs context", hca_end_context);
	hca_devices_end(proc, killed);
	hca_handles_sweep(hca_proc_id(proc));
}

void hca_forget(void)
{
	hca_handles_end(true);
	hca_devices_forget();
	hca_world_gone();
	hca_members = NULL;
}

/* Forgets everything that ends with the world's arena. */
static void hca_world_end(void)
{
	hca_handles_end(false);
	hca_world_gone();
	if (hca_alone)
		hca_alone = false;
}

static void hca_port_changed(struct world_port *port)
{
	struct hca_world *w = fakeverbs.world;
	uint32_t at = 0;
	struct hca_context *c;
	bool moved;

	if (!w)
		return;
	moved = port->up && hca_port_move(port->index);
	__atomic_store_n(&w->port[port->index].up, port->up, __ATOMIC_RELEASE);
	if (!port->up)
		hca_count(port->index, HCA_LINK_DOWNED);
	while ((c = hca_slab_next(&w->context, UINT32_MAX, &at))) {
		hca_lock(&c->item.lock);
		bool mine = !c->closed && c->port == port->index;

		hca_unlock(&c->item.lock);
		if (mine)
			hca_event_post(c->item.index,
				       port->up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, 1, 0);
		if (mine && moved)
			hca_event_post(c->item.index, IBV_EVENT_GID_CHANGE, 1, 0);
	}
}

static void hca_member_look(struct hca_slab *s, void (*show)(void *item))
{
	uint32_t at = 0;
	struct hca_item *it;

	while ((it = hca_slab_next(s, UINT32_MAX, &at))) {
		uint32_t posts = __atomic_load_n(&it->posts, __ATOMIC_ACQUIRE);

		if (!hca_is_here(it->proc) || it->posts_seen == posts)
			continue;
		it->posts_seen = posts;
		show(it);
		os_event_post((const void *)(uintptr_t)it->handle);
	}
}

void hca_member_notified(void)
{
	struct hca_world *w = __atomic_load_n(&fakeverbs.world, __ATOMIC_ACQUIRE);

	if (!w)
		return;
	hca_member_look(&w->channel, hca_channel_show);
	hca_member_look(&w->context, hca_context_show);
}

/* Repairs event channels and CQ locks that a process held when it died before notifying. */
void hca_member_silent(void)
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
		    hca_members->alive(holder - 1))
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

/* ---- the end of other processes -------------------------------------------------------------- */

static void hca_member_reap_kind(struct hca_slab *s, uint32_t member, void (*end)(void *item))
{
	uint32_t at = 0;
	struct hca_item *it;

	while ((it = hca_slab_next(s, UINT32_MAX, &at)))
		if (it->proc != UINT32_MAX && it->proc >> HCA_MEMBER_NUMBER_BITS == member)
			end(it);
}

static void hca_peer_end_packet(void *packet)
{
	hca_slab_free(&fakeverbs.world->packet, packet);
}

static void hca_peer_end_small(void *buffer)
{
	hca_slab_free(&fakeverbs.world->small, buffer);
}

static void hca_peer_end_large(void *buffer)
{
	hca_slab_free(&fakeverbs.world->large, buffer);
}

void hca_member_reap(uint32_t member)
{
	struct hca_world *w = hca_world();

	hca_world_each_kind(w, member, hca_member_reap_kind);
	hca_member_reap_kind(&w->packet, member, hca_peer_end_packet);
	hca_member_reap_kind(&w->small, member, hca_peer_end_small);
	hca_member_reap_kind(&w->large, member, hca_peer_end_large);
}

void hca_context_close_objects(struct hca_context *c, uint64_t caller)
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

__attribute__((constructor)) static void hca_process_load(void)
{
	world_on_proc_exit(hca_proc_end);
	world_on_destroy(hca_world_end);
	world_on_port_change(hca_port_changed);
}
