/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages by themselves, on the connections of the rings of device_ring.h: every rank sends to the
 * next one, in SIMPLE, LL and LL128, and in all at the same time over connections of one channel;
 * long and short ones, at odd addresses, in batches of one work, of one channel or a part for each
 * of several, several launches over one connection; through slots, and straight into the receiver's
 * buffer; beside messages to oneself. The connections' steps are those that steps_of_message
 * derives. Then a launch that is aborted, and after it a sender that finds the buffer withdrawn.
 */
#include "tests/collectives/device_ring_check.h"

enum { MOST_MESSAGES = 40 };

/* The offset of a message in the buffers. */
static void *message_at(int i)
{
	return (void *)(uintptr_t)(i * (int)(MAX_BYTES / MOST_MESSAGES) + i % 9);
}

static enum dev_proto messages_draw_proto(struct ring *g)
{
	return (enum dev_proto)(ring_random(g) % DEV_PROTO_COUNT);
}

static struct dev_work messages_draw(struct ring *g, int i)
{
	static const uint64_t bytes[] = {1, 7, 8, 312, 320, 321, 512, 513, 3000, 6000};
	struct dev_work w =
		message_work(bytes[ring_random(g) % ARRAY_LEN(bytes)], messages_draw_proto(g),
			     messages_draw_proto(g), i % CHANNELS, i / CHANNELS);

	w.send = w.recv = message_at(i);
	return w;
}

/* Over all channels: the last ones may have a part of fewer bytes, or none. */
static struct dev_work messages_draw_wide(struct ring *g, int i)
{
	static const uint64_t each[] = {1, 16, 320, 1000, 2000};
	const enum dev_proto proto = messages_draw_proto(g);
	struct dev_work w =
		message_work(each[ring_random(g) % ARRAY_LEN(each)], proto, proto, 0, i);

	w.channel_hi = CHANNELS - 1;
	w.pair.send_bytes = w.pair.recv_bytes = 1 + ring_random(g) % (CHANNELS * w.pair.send_each);
	w.send = w.recv = message_at(i);
	return w;
}

/* In the batch of another message. */
static struct dev_work messages_draw_self(struct ring *g, int i, const struct dev_work *beside)
{
	struct dev_work w = message_work(1 + ring_random(g) % 6000, DEV_SIMPLE, DEV_SIMPLE,
					 beside->channel_lo, (int)beside->pair.nth);

	w.pair.to_self = true;
	w.send = w.recv = message_at(MOST_MESSAGES / 2 + i / 2);
	return w;
}

static void messages_want(struct ring *g, const struct dev_work *w, int rank)
{
	for (int c = w->channel_lo; c <= w->channel_hi; c++) {
		int before = w->pair.to_self
				     ? rank
				     : ring_rank_at(g, c, ring_position_of(g, c, rank) + g->n - 1);
		uintptr_t from = offset_of(w->send) +
				 (uintptr_t)(c - w->channel_lo) * (uintptr_t)w->pair.send_each;

		memcpy(g->want + from, g->rank[before].host_input + from, message_part(w, c));
	}
}

/* Each rank has received the message of the previous rank, and no byte around it has changed. */
static void messages_check(struct ring *g, const struct dev_work *works, int n)
{
	for (int i = 0; i < g->n; i++) {
		memset(g->want, 0x5a, MAX_BYTES);
		for (int k = 0; k < n; k++)
			messages_want(g, &works[k], i);
		CUDA_OK(cudaMemcpy(g->got, g->rank[i].output, MAX_BYTES, cudaMemcpyDeviceToHost));
		CHECK(memcmp(g->got, g->want, MAX_BYTES) == 0, "%s: %d ranks, rank %d: other bytes",
		      g->run->where, g->n, i);
	}
}

static uint64_t message_steps(const struct ring *g, uint64_t bytes, uint8_t proto)
{
	return g->put && proto == DEV_SIMPLE
		       ? 1
		       : steps_of_message(bytes, (enum dev_proto)proto, step_bytes[proto]);
}

static void messages_count(struct ring *g, const struct dev_work *w, int c)
{
	uint64_t bytes = message_part(w, c);

	for (int i = 0; i < g->n && bytes && !w->pair.to_self; i++) {
		int at = ring_position_of(g, c, i);
		uint8_t out = message_proto(w, i);
		uint8_t in = message_proto(w, ring_rank_at(g, c, at + g->n - 1));

		g->steps[i][end_at(g, DEV_RING, c, 0, true)] += message_steps(g, bytes, out);
		g->steps[i][end_at(g, DEV_RING, c, 0, false)] += message_steps(g, bytes, in);
	}
}

/* `selves`: each second one is to oneself. */
static void messages_once(struct ring *g, int n, int warps, bool wide, bool selves)
{
	static const struct dev_work all = {.kind = DEV_WORK_COLLECTIVE};
	const int channels = wide ? CHANNELS : MIN_OF(selves ? DIV_UP(n, 2) : n, CHANNELS);
	struct dev_work works[MOST_MESSAGES];

	ring_fill(g, &all, MAX_BYTES, false);
	for (int i = 0; i < n; i++) {
		works[i] = wide      ? messages_draw_wide(g, i)
			   : !selves ? messages_draw(g, i)
			   : i % 2   ? messages_draw_self(g, i, &works[i - 1])
				     : messages_draw(g, i / 2);
		for (int c = works[i].channel_lo; c <= works[i].channel_hi; c++)
			messages_count(g, &works[i], c);
	}
	ring_pairs_copy(g, false);
	for (int i = 0; i < g->n; i++) {
		CUDA_OK(cudaSetDevice(device_of_rank(g->run, i)));
		CUDA_OK(cudaMemset(g->rank[i].output, 0x5a, MAX_BYTES));
		CUDA_OK(cudaDeviceSynchronize());
	}
	ring_launch(g, works, n, (1ull << channels) - 1, warps, false);
	ring_sync(g);
	ring_pairs_copy(g, true);
	messages_check(g, works, n);
	ring_check_steps(g);
}

static void messages_launch_aborted(struct ring *g, const struct dev_work *w)
{
	shared_store_u32(g->abort, 0, SHARED_RELEASE);
	ring_launch(g, w, 1, 1, 2, false);
	os_sleep_ns(1000000);
	shared_store_u32(g->abort, 1, SHARED_RELEASE);
	ring_sync(g);
}

/* One rank sends and receives alone: its kernel ends when the abort word is set. Then all ranks are
 * launched: the first one's kernel does nothing more, and no other kernel writes into its
 * buffer. */
static void messages_abort(struct ring *g, enum dev_proto proto)
{
	struct dev_work w = message_work(30000, proto, proto, 0, 0);
	int n = g->n;

	ring_pairs_copy(g, false);
	CUDA_OK(cudaMemset(g->rank[0].output, 0x5a, MAX_BYTES));
	CUDA_OK(cudaDeviceSynchronize());
	g->n = 1;
	messages_launch_aborted(g, &w);
	g->n = n;
	messages_launch_aborted(g, &w);
	memset(g->want, 0x5a, MAX_BYTES);
	CUDA_OK(cudaMemcpy(g->got, g->rank[0].output, MAX_BYTES, cudaMemcpyDeviceToHost));
	CHECK(memcmp(g->got, g->want, MAX_BYTES) == 0, "%s: %d ranks: bytes after an abort",
	      g->run->where, n);
}

static void messages_body(const struct device_run *run)
{
	static const int counts[] = {1, 3, 24, MOST_MESSAGES};
	static struct ring g;
	int most = device_ranks(run, MAX_RANKS);

	device_peers_enable(run, most);
	for (int i = 4; i < 2 * (most + 1); i++) {
		int n = i / 2;

		ring_alloc(&g, run, n);
		g.put = i % 2 ? ~0u : 0;
		ring_connect(&g);
		for (size_t k = 0; k < ARRAY_LEN(counts); k++)
			for (int wide = 0; wide < 2; wide++)
				messages_once(&g, counts[k], 2 + 2 * (int)(k % 2), wide, false);
		for (int warps = 4; warps <= 8; warps += 4)
			messages_once(&g, 24, warps, false, true);
		messages_abort(&g, g.put ? DEV_SIMPLE : (enum dev_proto)(n % DEV_PROTO_COUNT));
		ring_free(&g);
	}
}

int main(void)
{
	return device_harness(messages_body, 1);
}
