/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Works of the rings of device_ring.h, and launches of them, with the works in the kernel's
 * arguments or in a FIFO. Messages go over the rings' connections.
 */
#ifndef TESTS_COLLECTIVES_DEVICE_RING_LAUNCH_H
#define TESTS_COLLECTIVES_DEVICE_RING_LAUNCH_H

#include "tests/collectives/device_ring.h"

static inline bool program_has_root(enum dev_program program)
{
	return steps_program(program).func == DEV_BROADCAST ||
	       steps_program(program).func == DEV_REDUCE;
}

/* Until the launch, send and recv are offsets in the ranks' buffers, in bytes. */
static inline uintptr_t offset_of(const void *buffer)
{
	return (uintptr_t)buffer;
}

static inline struct dev_work program_work(enum dev_program program, uint64_t count,
					   enum dev_type type, enum dev_op op, int lo, int hi)
{
	uint32_t size = steps_type_bytes(type);
	struct dev_program_row row = steps_program(program);
	uint32_t chunk = steps_chunk_bytes(&row, step_bytes[row.proto]) / size;
	uint64_t channels = (uint64_t)(hi - lo + 1), grain = steps_grain_bytes(row.proto) / size;
	uint64_t share = ALIGN_UP(DIV_UP(count, channels), grain);
	struct dev_work w;

	memset(&w, 0, sizeof w);
	w.count = count;
	w.count_lo = MIN_OF(share, count);
	if (hi > lo) {
		uint64_t rest = count - w.count_lo, mids = channels - 2;

		w.count_mid = mids ? MIN_OF(share, rest / mids) : 0;
		w.count_hi = rest - mids * w.count_mid;
	}
	w.chunk_lo = w.chunk_mid = w.chunk_hi = chunk;
	w.channel_lo = (uint8_t)lo;
	w.channel_hi = (uint8_t)hi;
	w.program = (uint8_t)program;
	w.root = -1;
	w.type = (uint8_t)type;
	w.op = (uint8_t)op;
	return w;
}

/* An all-reduce. */
static inline struct dev_work ring_work(enum dev_proto proto, uint64_t count, enum dev_type type,
					enum dev_op op, int lo, int hi)
{
	static const enum dev_program program[DEV_PROTO_COUNT] = {
		[DEV_SIMPLE] = DEV_ALL_REDUCE_RING_SIMPLE,
		[DEV_LL] = DEV_ALL_REDUCE_RING_LL,
		[DEV_LL128] = DEV_ALL_REDUCE_RING_LL128};

	return program_work(program[proto], count, type, op, lo, hi);
}

static inline void message_set_send(struct dev_work *w, enum dev_proto proto)
{
	w->pair.send_ll = proto == DEV_LL ? UINT32_MAX : 0;
	w->pair.send_ll128 = proto == DEV_LL128 ? UINT32_MAX : 0;
}

static inline void message_set_recv(struct dev_work *w, enum dev_proto proto)
{
	w->pair.recv_ll = proto == DEV_LL ? UINT32_MAX : 0;
	w->pair.recv_ll128 = proto == DEV_LL128 ? UINT32_MAX : 0;
}

/* A message of each rank to the next one, in the protocol `even` if the sender is an even rank. */
static inline struct dev_work message_work(uint64_t bytes, enum dev_proto even, enum dev_proto odd,
					   int channel, int batch)
{
	struct dev_work w;

	memset(&w, 0, sizeof w);
	w.kind = DEV_WORK_SEND_RECV;
	w.pair.send_bytes = w.pair.recv_bytes = bytes;
	w.pair.send_each = w.pair.recv_each = bytes;
	message_set_send(&w, even);
	message_set_recv(&w, odd);
	w.channel_lo = w.channel_hi = (uint8_t)channel;
	w.pair.nth = (uint32_t)batch;
	w.root = -1;
	return w;
}

/* The protocol in which a rank sends. */
static inline enum dev_proto message_proto(const struct dev_work *w, int sender)
{
	const struct dev_send_recv *p = &w->pair;

	return sender % 2 ? steps_message_proto(1, p->recv_ll, p->recv_ll128)
			  : steps_message_proto(1, p->send_ll, p->send_ll128);
}

static inline bool messages_have_ll128(const struct dev_work *works, int n)
{
	bool have = false;

	for (int i = 0; i < n; i++)
		have = have || works[i].pair.send_ll128 || works[i].pair.recv_ll128;
	return have;
}

/* Bytes of one channel of the work. */
static inline uint64_t message_part(const struct dev_work *w, int channel)
{
	uint64_t from = (uint64_t)(channel - w->channel_lo) * w->pair.send_each;

	return from < w->pair.send_bytes ? MIN_OF(w->pair.send_each, w->pair.send_bytes - from) : 0;
}

static inline struct dev_work message_work_of(const struct ring *g, const struct dev_work *w, int i)
{
	const struct rank *r = &g->rank[i];
	int c = w->channel_lo, at = ring_position_of(g, c, i);
	struct dev_work mine = *w;

	mine.send = r->input + offset_of(w->send);
	mine.recv = r->output + offset_of(w->recv);
	if (w->pair.to_self)
		return mine;
	mine.pair.send_conn = r->conns + PAIRS_FIRST + c;
	mine.pair.recv_conn = mine.pair.send_conn + CHANNELS;
	message_set_send(&mine, message_proto(w, i));
	message_set_recv(&mine, message_proto(w, ring_rank_at(g, c, at + g->n - 1)));
	return mine;
}

/* Connections of messages are consecutive copies of the rings' connections. Copies them before the
 * launches, and copies them back after the launches. */
static inline void ring_pairs_copy(struct ring *g, bool back)
{
	for (int i = 0; i < g->n; i++) {
		const struct rank *r = &g->rank[i];

		for (int c = 0; c < CHANNELS; c++) {
			struct dev_conn *ring[2] = {r->conns + end_at(g, DEV_RING, c, 0, true),
						    r->conns + end_at(g, DEV_RING, c, 0, false)};

			for (int k = 0; k < 2; k++) {
				struct dev_conn *pair = r->conns + PAIRS_FIRST + k * CHANNELS + c;

				CUDA_OK(cudaMemcpy(back ? ring[k] : pair, back ? pair : ring[k],
						   sizeof *pair, cudaMemcpyDeviceToDevice));
			}
		}
	}
}

/* Blocks of `count` elements in a rank's input, and in its output. */
static inline uint64_t blocks_in(const struct ring *g, const struct dev_work *w)
{
	return steps_program(w->program).func == DEV_REDUCE_SCATTER ? (uint64_t)g->n : 1;
}

static inline uint64_t blocks_out(const struct ring *g, const struct dev_work *w)
{
	return steps_program(w->program).func == DEV_ALL_GATHER ? (uint64_t)g->n : 1;
}

/* The offset in bytes of a rank's own block in a buffer of one block per rank. */
static inline uint64_t own_block(uint64_t blocks, const struct dev_work *w, int rank)
{
	return blocks > 1 ? (uint64_t)rank * w->count * steps_type_bytes(w->type) : 0;
}

static inline void ring_fill(struct ring *g, const struct dev_work *w, size_t bytes, bool in_place)
{
	for (int i = 0; i < g->n; i++) {
		struct rank *r = &g->rank[i];
		uint8_t *to = in_place ? r->output + own_block(blocks_out(g, w), w, i) : r->input;

		for (size_t k = 0; k < bytes; k += 8) {
			uint64_t v = ring_random(g);
			memcpy(r->host_input + k, &v, 8);
		}
		CUDA_OK(cudaMemcpy(to, r->host_input, bytes, cudaMemcpyHostToDevice));
	}
}

static inline struct dev_work ring_work_of(const struct ring *g, const struct dev_work *w, int i,
					   int warps, bool in_place)
{
	const struct rank *r = &g->rank[i];
	struct dev_work mine = *w;

	if (w->kind == DEV_WORK_SEND_RECV)
		return message_work_of(g, w, i);
	mine.send = (in_place ? r->output + own_block(blocks_out(g, w), w, i) : r->input) +
		    offset_of(w->send);
	mine.recv =
		r->output + (in_place ? own_block(blocks_in(g, w), w, i) : 0) + offset_of(w->recv);
	if (!mine.nwarps)
		mine.nwarps = (uint8_t)(g->uneven && i % 2 ? 1 : warps);
	return mine;
}

/* Puts the works into pinned memory, and the numbers of each block's. */
static inline void piece_fill(struct ring *g, struct piece *p, const struct dev_work *works, int n,
			      struct dev_args *args)
{
	uint32_t block = 0, first = 0;

	for (int c = 0; c < CHANNELS; c++) {
		if (!(args->channel_mask >> c & 1))
			continue;
		p->share[block].first = first;
		for (int i = 0; i < n; i++)
			if (works[i].channel_lo <= c && c <= works[i].channel_hi)
				p->number[first++] = (uint16_t)i;
		p->share[block].count = first - p->share[block].first;
		block++;
	}
	memcpy(p->work, works, (size_t)n * sizeof *works);
	args->fifo.work = p->work;
	args->fifo.share = p->share;
	args->fifo.number = p->number;
	args->fifo.consumed = p->consumed;
	args->fifo.end = g->launches;
}

/* Every second launch uses the kernel for the works' program, type and operation alone, if there is
 * one. */
static inline const struct dev_kernel *works_kernel(const struct ring *g,
						    const struct dev_work *works, int n)
{
	const struct dev_work *w = &works[0];
	const int width = g->run->width;
	const struct dev_kernel *one = NULL;
	bool alike = g->launches % 2;

	if (w->kind == DEV_WORK_SEND_RECV)
		return dev_kernel_messages(messages_have_ll128(works, n), width);
	for (int i = 1; i < n; i++)
		alike = alike && works[i].program == w->program && works[i].type == w->type &&
			works[i].op == w->op;
	if (alike)
		one = dev_kernel_one(w->program, w->type, w->op, width);
	return one ? one : dev_kernel_of(w->program, width);
}

static inline void ring_launch(struct ring *g, const struct dev_work *works, int n, uint64_t mask,
			       int warps, bool in_place)
{
	const struct dev_kernel *k = works_kernel(g, works, n);
	int blocks = __builtin_popcountll(mask);

	g->launches++;
	g->was_in_fifo = n > (int)DEV_ARGS_WORKS || g->in_fifo || (g->launches % 2 && !g->in_args);
	for (int i = 0; i < g->n; i++) {
		struct dev_work mine[MOST_WORKS];
		struct dev_args args;

		memset(&args, 0, sizeof args);
		args.comm = g->rank[i].comm;
		args.channels = g->rank[i].channels;
		args.channel_mask = mask;
		args.work_count = (uint32_t)n;
		args.conns = g->rank[i].conns;
		edges_fill(g, args.edges);
		for (int j = 0; j < n; j++)
			mine[j] = ring_work_of(g, &works[j], i, warps, in_place);
		if (g->was_in_fifo)
			piece_fill(g, g->rank[i].piece, mine, n, &args);
		else
			memcpy(args.work, mine, (size_t)n * sizeof mine[0]);
		CUDA_OK(cudaSetDevice(device_of_rank(g->run, i)));
		device_launch(k, blocks, warps, g->run->width, &args, g->rank[i].stream);
	}
}

static inline void ring_sync(struct ring *g)
{
	for (int i = 0; i < g->n; i++)
		CUDA_OK(cudaStreamSynchronize(g->rank[i].stream));
}

#endif
