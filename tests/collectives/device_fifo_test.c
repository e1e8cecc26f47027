/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The FIFO of works as kernels see it (struct dev_fifo), on the rings of device_ring.h: several
 * works of a launch on overlapping channels, more works than a kernel's arguments hold, launch
 * after launch, and the word by which each block frees its works, after an abort too. How the host
 * fills the FIFO: tests/internal/plan_fifo_test.c.
 */
#include "tests/collectives/device_ring_check.h"
#include "tests/sample.h"

/* Several works of one launch, on overlapping channels, each in a part of the buffers of its own:
 * nothing orders the channels of one against those of another. */
static void fifo_overlapping(struct ring *g)
{
	struct dev_work w[2];

	for (int i = 0; i < 2; i++) {
		w[i] = ring_work(DEV_SIMPLE, 3000, DEV_F32, i ? DEV_MAX : DEV_SUM, i, CHANNELS - 1);
		w[i].recv = (void *)((uintptr_t)i * 3000 * 4);
		w[i].send = w[i].recv;
		w[i].nwarps = (uint8_t)(2 - i); /* the second with half of the block */
	}
	ring_fill(g, &w[0], 2 * 3000 * 4, false);
	reference(g, &w[0]);
	reference(g, &w[1]);
	ring_launch(g, w, 2, (1u << CHANNELS) - 1, 2, false);
	ring_sync(g);
	ring_check(g, &w[0], false, "first of two works");
	ring_check(g, &w[1], false, "second of two works");
}

/* More works than arguments hold, on one to three channels each. */
static void fifo_many(struct ring *g, enum dev_program program)
{
	static struct dev_work w[MOST_WORKS];
	const uint64_t count = 500;
	int n = g->run->slow || g->run->light ? 30 : MOST_WORKS;

	for (int i = 0; i < n; i++) {
		w[i] = program_work(program, count, DEV_F32, i % 2 ? DEV_MAX : DEV_SUM,
				    i % 7 % CHANNELS, CHANNELS - 1);
		w[i].recv = (void *)((uintptr_t)i * count * 4);
		w[i].send = w[i].recv;
	}
	ring_fill(g, &w[0], (size_t)n * count * 4, false);
	for (int i = 0; i < n; i++)
		reference(g, &w[i]);
	ring_launch(g, w, n, (1u << CHANNELS) - 1, 2, false);
	ring_sync(g);
	for (int i = 0; i < n; i++)
		ring_check(g, &w[i], false, "one of many works");
	ring_check_consumed(g, (1u << CHANNELS) - 1);
}

/* The words of the channels rise from launch to launch; those of other channels stay. */
static void fifo_launch_after_launch(struct ring *g)
{
	for (int turn = 0; turn < 6; turn++) {
		int lo = turn % CHANNELS;
		uint64_t before = shared_load_u64(&g->rank[0].piece->consumed[0], SHARED_ACQUIRE);

		ring_once(g, ring_work(DEV_SIMPLE, 700, DEV_U8, DEV_SUM, lo, CHANNELS - 1),
			  1 + turn % 2, turn % 2, "one after the other");
		CHECK(lo == 0 || shared_load_u64(&g->rank[0].piece->consumed[0], SHARED_ACQUIRE) ==
					 before,
		      "a launch on channels %d-%d freed works of channel 0", lo, CHANNELS - 1);
	}
}

/* Rank 0 launches alone, and its kernel ends by the abort word; so does the one launched after it.
 * Each frees its works, since the host waits for room. */
static void fifo_abort(struct ring *g)
{
	struct dev_work w = ring_work(DEV_SIMPLE, 1000, DEV_U8, DEV_SUM, 0, 1);
	int n = g->n;

	g->n = 1;
	ring_launch(g, &w, 1, 3, 2, false);
	os_sleep_ns(1000000);
	shared_store_u32(g->abort, 1, SHARED_RELEASE);
	ring_sync(g);
	ring_check_consumed(g, 3);
	ring_launch(g, &w, 1, 3, 2, false);
	ring_sync(g);
	ring_check_consumed(g, 3);
	g->n = n;
}

static void fifo_body(const struct device_run *run)
{
	static struct ring g;
	int most = device_ranks(run, MAX_RANKS);

	device_peers_enable(run, most);
	for (int n = 2; n <= most; n++) {
		ring_alloc(&g, run, n);
		ring_connect(&g);
		fifo_overlapping(&g); /* in the FIFO, then in the arguments */
		fifo_overlapping(&g);
		fifo_many(&g, DEV_ALL_REDUCE_RING_SIMPLE);
		fifo_many(&g, DEV_ALL_REDUCE_RING_LL);
		fifo_many(&g, DEV_ALL_REDUCE_RING_LL128);
		g.in_fifo = true;
		fifo_launch_after_launch(&g);
		ring_check_steps(&g);
		fifo_abort(&g);
		ring_free(&g);
	}
}

int main(void)
{
	return device_harness(fifo_body, SAMPLE_THIN > 1 ? 1 : 3);
}
