/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A batch of messages on one channel: works whose ends all run at the same time. Each end has a
 * group of the block's threads, and the protocol of its message. Included by kernels.c.
 */
#ifndef CORE_DEVICE_RUN_MESSAGES_H
#define CORE_DEVICE_RUN_MESSAGES_H

#include "core/device/programs/send_recv.h"

/* Returns how many of the loaded works are the first batch. */
DEV_FN uint32_t dev_batch_works(const struct dev_block *b, uint32_t loaded)
{
	uint32_t n = 1;

	ASSERT(loaded >= 1 && loaded <= DEV_BATCH_WORKS);
	while (n < loaded && b->work[n].pair.nth == b->work[0].pair.nth)
		n++;
	return n;
}

/* Returns the bytes of the i-th channel of a work. */
DEV_FN uint64_t dev_part_bytes(uint64_t bytes, uint64_t each, uint64_t i)
{
	return i * each < bytes ? MIN_OF(each, bytes - i * each) : 0;
}

/* Reduces a loaded work to this channel's part. Called by one thread. */
DEV_FN void dev_part_take(struct dev_work *w, int channel)
{
	struct dev_send_recv *p = &w->pair;
	const uint64_t i = (uint64_t)(channel - w->channel_lo);

	ASSERT(channel >= w->channel_lo && channel <= w->channel_hi);
	w->send = (const uint8_t *)w->send + i * p->send_each;
	w->recv = (uint8_t *)w->recv + i * p->recv_each;
	p->send_bytes = dev_part_bytes(p->send_bytes, p->send_each, i);
	p->recv_bytes = dev_part_bytes(p->recv_bytes, p->recv_each, i);
	p->recv_mapped += p->recv_mapped ? i * p->recv_each : 0;
	p->send_conn = p->send_conn && p->send_bytes ? p->send_conn + i : NULL;
	p->recv_conn = p->recv_conn && p->recv_bytes ? p->recv_conn + i : NULL;
	p->send_proto = (uint8_t)steps_message_proto(p->send_bytes, p->send_ll, p->send_ll128);
	p->recv_proto = (uint8_t)steps_message_proto(p->recv_bytes, p->recv_ll, p->recv_ll128);
	w->channel_lo = w->channel_hi = (uint8_t)channel;
}

/* Loads this channel's part of work n, with its two connections. Called by one warp, which has
 * loaded the work. A barrier must follow. */
DEV_FN void dev_part_load(struct dev *d, struct dev_block *b, uint32_t n, int channel)
{
	const struct dev_send_recv *p = &b->work[n].pair;

	dev_warp_sync(d);
	if (dev_lane(d) == 0)
		dev_part_take(&b->work[n], channel);
	dev_warp_sync(d);
	if (p->send_conn)
		dev_copy_in_warp(d, &b->pair[2 * n], p->send_conn, sizeof b->pair[0]);
	if (p->recv_conn)
		dev_copy_in_warp(d, &b->pair[2 * n + 1], p->recv_conn, sizeof b->pair[0]);
}

/* The threads of a block that have one end of a work: group 2n sends for work n, group 2n + 1
 * receives. */
struct dev_group {
	uint32_t number, first, warps; /* number, first warp and number of warps */
};

/* Sets *p for one end of a work. */
DEV_FN void dev_pair_init(struct prim *p, struct dev *d, struct dev_block *b,
			  const struct dev_work *w, const struct dev_group *g, enum dev_proto proto)
{
	prim_init(p, d, b, w);
	prim_group_set(p, g->first * DEV_WARP_WIDTH, g->warps * DEV_WARP_WIDTH,
		       g->warps > 1 ? 1 + g->number : 0);
	p->proto = proto;
	p->chunk_steps = p->slice_steps = 1;
	p->recv = p->send = &b->pair[g->number];
	p->type = DEV_U8;
	p->op = DEV_SUM;
	p->type_bytes = 1;
}

DEV_FN bool dev_pair_valid(const struct dev_work *w, const struct dev_conn *c, bool sends,
			   enum dev_proto proto)
{
	return w->kind == DEV_WORK_SEND_RECV && w->channel_lo == w->channel_hi &&
	       c->channel == w->channel_lo && c->step_bytes[proto] &&
	       (sends ? w->pair.send_bytes && w->send : w->pair.recv_bytes && w->recv);
}

/* Called by the threads of one group. `proto` is a constant for the compiler. Returns false if the
 * launch was aborted. */
DEV_FN bool dev_run_pair(struct dev *d, struct dev_block *b, const struct dev_work *w,
			 const struct dev_group *g, enum dev_proto proto)
{
	bool sends = g->number % 2 == 0;
	struct dev_conn *conn = sends ? w->pair.send_conn : w->pair.recv_conn;
	struct dev_conn *mine = &b->pair[g->number];
	struct prim p;

	dev_pair_init(&p, d, b, w, g, proto);
	if (!dev_pair_valid(w, mine, sends, proto))
		dev_trap(d, "dev_messages: these messages are not ones that the kernel can move");
	p.send_step = p.recv_step = mine->step;
	dev_work_begins(d, w);
	if (sends)
		send_recv_send(&p, &w->pair);
	else
		send_recv_recv(&p, &w->pair);
	dev_work_ends(d, w);
	if (p.thread == 0 && !p.stopped) {
		mine->step = sends ? p.send_step : p.recv_step;
		prim_conn_save(d, conn, mine);
	}
	return !p.stopped;
}

/* Copies a message from the rank to itself: each of the two groups copies half of it. */
DEV_FN void dev_run_self(struct dev *d, const struct dev_work *w, const struct dev_group *g)
{
	const uint64_t bytes = w->pair.send_bytes, half = ALIGN_UP(bytes / 2, 16);
	const uint64_t from = g->number % 2 ? MIN_OF(half, bytes) : 0;
	const void *src = (const uint8_t *)w->send + from;
	void *dst = (uint8_t *)w->recv + from;

	if (w->pair.send_conn || w->pair.recv_conn || bytes != w->pair.recv_bytes || !w->send ||
	    !w->recv)
		dev_trap(d, "dev_messages: this message to oneself is not one that the kernel can "
			    "move");
	dev_work_begins(d, w);
	dev_reduce_copy(d, dev_thread(d) - g->first * DEV_WARP_WIDTH, g->warps * DEV_WARP_WIDTH,
			&src, 1, &dst, 1, g->number % 2 ? bytes - from : MIN_OF(half, bytes),
			DEV_U8, DEV_SUM, 0, false);
	dev_work_ends(d, w);
}

/* Runs the group's end of the work, if the work has that end. `ll128` is a constant for the
 * compiler. */
DEV_FN bool dev_run_group(struct dev *d, struct dev_block *b, const struct dev_group *g, bool ll128)
{
	const struct dev_work *w = &b->work[g->number / 2];
	bool sends = g->number % 2 == 0;

	if (w->pair.to_self) {
		dev_run_self(d, w, g);
		return true;
	}
	if (!(sends ? w->pair.send_conn : w->pair.recv_conn))
		return true;
	switch (sends ? w->pair.send_proto : w->pair.recv_proto) {
	case DEV_SIMPLE:
		return dev_run_pair(d, b, w, g, DEV_SIMPLE);
	case DEV_LL:
		return dev_run_pair(d, b, w, g, DEV_LL);
	case DEV_LL128:
		if (ll128)
			return dev_run_pair(d, b, w, g, DEV_LL128);
		/* fall through */
	default:
		dev_trap(d, "dev_messages: a message in a protocol that messages do not have");
		return false;
	}
}

/* Returns the group of this thread's warp. Its number is beyond the works if the warp has nothing
 * to do. */
DEV_FN struct dev_group dev_group_of(struct dev *d, uint32_t works)
{
	const uint32_t share = dev_warps(d) / (2 * works), number = dev_warp(d) / share;

	return (struct dev_group){number, number * share, share};
}

/* Runs the first `works` works in shared memory. Called by all threads of the block. */
DEV_FN bool dev_run_batch(struct dev *d, struct dev_block *b, uint32_t works, bool ll128)
{
	struct dev_group g;
	bool ok = true;

	if (dev_warps(d) < 2 * works)
		dev_trap(d, "dev_messages: a batch has more messages than the block has warps");
	g = dev_group_of(d, works);
	if (g.number < 2 * works)
		ok = dev_run_group(d, b, &g, ll128);
	return !dev_barrier_any(d, !ok);
}

#endif
