/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of device_kernels.h. Device code: built for each warp width, and by nvcc. */
#include "tests/conformance/device_kernels.h"

#include "core/device/shim/shim.h"

DEV_FN void litmus_wait_word(struct dev *d, uint64_t word, uint64_t want, const char *why)
{
	struct wait w;

	memset(&w, 0, sizeof w);
	w.on = (const void *)(uintptr_t)word;
	w.want = want;
	w.mask = WAIT_MASK_ALL;
	w.kind = WAIT_GE;
	w.bytes = 8;
	w.why = why;
	w.from.rank = w.from.channel = -1;
	w.from.step = (int64_t)want;
	if (!dev_wait(d, &w, NULL))
		dev_trap(d, "litmus: a wait was aborted that no host task aborts");
}

/* Polls with acquire loads at the scope under test. On the double a kernel must not poll without a
 * wait: after each fruitless poll it waits, then polls again. */
DEV_FN void litmus_acquire(struct dev *d, uint64_t word, uint64_t want, enum shared_scope scope)
{
	const shared_u64 *p = (const shared_u64 *)(uintptr_t)word;

	while (dev_load_u64(d, p, SHARED_ACQUIRE, scope) < want) {
#ifndef __CUDACC__
		litmus_wait_word(d, word, want, "litmus: post");
#endif
	}
}

DEV_FN void litmus_report(struct dev *d, const struct litmus_args *a, uint64_t step, uint64_t got,
			  uint64_t want)
{
	uint64_t seen[4];
	uint64_t before = dev_add_u64(d, (shared_u64 *)(uintptr_t)a->errors, 1, SHARED_RELAXED,
				      SHARED_SYSTEM);

	seen[0] = step;
	seen[1] = dev_thread(d);
	seen[2] = got;
	seen[3] = want;
	if (before == 0)
		dev_copy_out(d, (void *)(uintptr_t)a->first, seen, sizeof seen);
}

DEV_FN uint64_t litmus_word_of(const struct litmus_args *a, uint64_t step, uint32_t thread,
			       uint32_t threads)
{
	return a->slots_at + ((step % a->slots) * threads + thread) * sizeof(uint64_t);
}

DEV_FN void litmus_write(struct dev *d, const struct litmus_args *a, uint64_t step, uint32_t thread)
{
	uint64_t v = litmus_value(step, thread);

	dev_copy_out(d, (void *)(uintptr_t)litmus_word_of(a, step, thread, dev_threads(d)), &v,
		     sizeof v);
}

DEV_FN void litmus_read(struct dev *d, const struct litmus_args *a, uint64_t step, uint32_t thread)
{
	uint64_t v, want = litmus_value(step, thread);

	dev_copy_in(d, &v, (const void *)(uintptr_t)litmus_word_of(a, step, thread, dev_threads(d)),
		    sizeof v);
	if (v != want)
		litmus_report(d, a, step, v, want);
}

DEV_FN void litmus_post(struct dev *d, uint64_t word, uint64_t v, const struct litmus_args *a)
{
	shared_u64 *p = (shared_u64 *)(uintptr_t)word;
	enum shared_scope scope = (enum shared_scope)a->scope;

	if (a->form == LITMUS_RELEASE) {
		dev_store_u64(d, p, v, SHARED_RELEASE, scope);
	} else {
		dev_fence(d, SHARED_RELEASE, scope);
		dev_store_u64(d, p, v, SHARED_RELAXED, scope);
	}
}

/* One step of a block. With LITMUS_RELEASE thread 0 does all the work, so that only the release
 * store orders it; otherwise every thread does its own word. */
DEV_FN void litmus_step(struct dev *d, const struct litmus_args *a, uint64_t step, bool produce)
{
	enum shared_scope scope = (enum shared_scope)a->scope;
	bool alone = a->form == LITMUS_RELEASE;
	uint32_t from = alone ? 0 : dev_thread(d), to = from + 1;

	if (alone)
		to = dev_thread(d) == 0 ? dev_threads(d) : 0;
	if (dev_thread(d) == 0) {
		if (!produce)
			litmus_acquire(d, a->tail, step + 1, scope);
		else if (step >= a->slots)
			litmus_acquire(d, a->head, step + 1 - a->slots, scope);
	}
	dev_barrier(d);
	for (uint32_t t = from; t < to; t++) {
		if (produce)
			litmus_write(d, a, step, t);
		else
			litmus_read(d, a, step, t);
	}
	if (!alone)
		dev_barrier(d);
	if (dev_thread(d) == 0)
		litmus_post(d, produce ? a->tail : a->head, step + 1, a);
}

DEV_FN uint64_t litmus_line_of(const struct litmus_args *a, uint64_t step, uint32_t thread,
			       uint32_t threads)
{
	return a->slots_at + ((step % a->slots) * threads + thread) * sizeof(struct v16);
}

/* Every thread has lines of its own. Data and flag of step s: the line shows when it is there. */
DEV_FN void litmus_line_send(struct dev *d, const struct litmus_args *a, uint64_t step)
{
	uint64_t v = litmus_value(step, dev_thread(d)), flag = (step + 1) << 32;
	struct v16 line;

	line.lo = flag | (v & 0xffffffffu);
	line.hi = flag | v >> 32;
	dev_store_line16(
		d, (void *)(uintptr_t)litmus_line_of(a, step, dev_thread(d), dev_threads(d)), line);
}

DEV_FN void litmus_line_receive(struct dev *d, const struct litmus_args *a, uint64_t step)
{
	uint64_t want = litmus_value(step, dev_thread(d)), v;
	struct v16 line;
	struct wait w;

	memset(&w, 0, sizeof w);
	memset(&line, 0, sizeof line);
	w.on = (const void *)(uintptr_t)litmus_line_of(a, step, dev_thread(d), dev_threads(d));
	w.want = step + 1;
	w.mask = WAIT_MASK_ALL;
	w.kind = WAIT_LINE16;
	w.why = "litmus: line";
	w.from.rank = w.from.channel = -1;
	w.from.step = (int64_t)step;
	if (!dev_wait(d, &w, &line))
		dev_trap(d, "litmus: a wait was aborted that no host task aborts");
	v = (line.lo & 0xffffffffu) | line.hi << 32;
	if (v != want)
		litmus_report(d, a, step, v, want);
}

DEV_FN void *litmus_pairs_of(struct dev *d, const struct litmus_args *a, uint64_t step)
{
	uint64_t at = (step % a->slots) * dev_warps(d) + dev_warp(d);

	return (void *)(uintptr_t)(a->slots_at + at * DEV_WARP_PAIRS * DEV_PAIR_BYTES);
}

/* A word of the lane; the others of a warp of 32 lanes are not always its own. */
DEV_FN uint64_t litmus_pairs_value(struct dev *d, uint64_t step, uint32_t word)
{
	return litmus_value(step, dev_thread(d) * DEV_LANE_WORDS + word);
}

DEV_FN void litmus_pairs_send(struct dev *d, const struct litmus_args *a, uint64_t step)
{
	uint64_t data[DEV_LANE_WORDS];

	for (uint32_t i = 0; i < DEV_LANE_WORDS; i++)
		data[i] = litmus_pairs_value(d, step, i);
	dev_store_pairs(d, litmus_pairs_of(d, a, step), data, DEV_WARP_DATA,
			DEV_LINE128_FLAG(step));
}

DEV_FN void litmus_pairs_receive(struct dev *d, const struct litmus_args *a, uint64_t step)
{
	uint64_t data[DEV_LANE_WORDS];
	struct wait w;

	memset(&w, 0, sizeof w);
	w.on = litmus_pairs_of(d, a, step);
	w.want = DEV_LINE128_FLAG(step);
	w.mask = WAIT_MASK_ALL;
	w.kind = WAIT_EQ;
	w.bytes = 8;
	w.why = "litmus: line of 128 bytes";
	w.from.rank = w.from.channel = -1;
	w.from.step = (int64_t)step;
	if (!dev_wait_pairs(d, &w, data, DEV_WARP_DATA))
		dev_trap(d, "litmus: a wait was aborted that no host task aborts");
	for (uint32_t i = 0; i < DEV_LANE_WORDS; i++) {
		if (DEV_WARP_WIDTH > 1 && i % 4 > 1)
			continue;
		if (data[i] != litmus_pairs_value(d, step, i))
			litmus_report(d, a, step, data[i], litmus_pairs_value(d, step, i));
	}
}

DEV_FN void litmus_line_step(struct dev *d, const struct litmus_args *a, uint64_t step,
			     bool produce)
{
	if (produce) {
		if (dev_thread(d) == 0 && step >= a->slots)
			litmus_wait_word(d, a->head, step + 1 - a->slots, "litmus: credit");
		dev_barrier(d);
		if (a->form == LITMUS_LINE)
			litmus_line_send(d, a, step);
		else
			litmus_pairs_send(d, a, step);
		return;
	}
	if (a->form == LITMUS_LINE)
		litmus_line_receive(d, a, step);
	else
		litmus_pairs_receive(d, a, step);
	dev_barrier(d);
	if (dev_thread(d) == 0)
		dev_store_u64(d, (shared_u64 *)(uintptr_t)a->head, step + 1, SHARED_RELEASE,
			      SHARED_SYSTEM);
}

DEV_FN void litmus(struct dev *d, const struct litmus_args *a)
{
	bool produce = (a->role ^ dev_block(d)) == LITMUS_PRODUCER;

	for (uint64_t step = 0; step < a->steps; step++) {
		if (a->form == LITMUS_LINE || a->form == LITMUS_PAIRS)
			litmus_line_step(d, a, step, produce);
		else
			litmus_step(d, a, step, produce);
	}
}

DEV_KERNEL(litmus, litmus_args, 0)

DEV_FN void reduce(struct dev *d, const struct reduce_args *a)
{
	const void *srcs[2];
	void *dsts[2];

	for (int i = 0; i < 2; i++) {
		srcs[i] = (const void *)(uintptr_t)a->src[i];
		dsts[i] = (void *)(uintptr_t)a->dst[i];
	}
	dev_reduce_copy(d, dev_thread(d), dev_threads(d), srcs, (int)a->nsrc, dsts, (int)a->ndst,
			a->count, (enum dev_type)a->type, (enum dev_op)a->op, a->scale,
			a->post != 0);
}

DEV_KERNEL(reduce, reduce_args, 0)
