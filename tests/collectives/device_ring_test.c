/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring programs by themselves: dev_comm, channels and connections are laid out by hand for 2 to
 * 4 GPUs of one process (direct pointers, no transport, no proxy), the kernel runs on each, and
 * every element is compared bit by bit with the same reductions done on the host in the order in
 * which the ring does them: every program, every root, all types and operations, random bits, in
 * place and out of place, counts that no chunk divides, several works in a launch, in its arguments and
 * in a FIFO, several launches over one connection. Then once more with every connection through a stand-in for the proxy, which
 * checks the FIFO that the kernel fills; and a kernel that is aborted, and one that meets another
 * build's communicator.
 */
#include "tests/device_harness.h"

#include <sys/wait.h>
#include <unistd.h>

#include "core/base/shared.h"
#include "core/device/reduce_copy_host.h"
#include "tests/sample.h"

#define MAX_GPUS   4
#define CHANNELS   3
#define STEP_BYTES 512u
#define MAX_BYTES  (1u << 18)
#define MOST_WORKS 100

/* The works of one launch in pinned memory. */
struct piece {
	struct dev_share share[CHANNELS];
	uint16_t number[CHANNELS * MOST_WORKS];
	struct dev_work work[MOST_WORKS];
	shared_u64 consumed[DEV_MAX_CHANNELS];
};

struct rank {
	struct dev_comm *comm; /* device memory, as all below */
	struct dev_channel *channels;
	struct dev_conn *conns;        /* [CHANNELS][2]: receive, send */
	int32_t *ranks;                /* [CHANNELS][MAX_GPUS] */
	uint8_t *slots;                /* [CHANNELS][DEV_STEPS * STEP_BYTES] */
	struct dev_recv_mem *recv_mem; /* [CHANNELS] */
	struct dev_send_mem *send_mem; /* [CHANNELS] */
	uint8_t *input, *output;
	uint8_t *host_input;
	struct piece *piece; /* host memory */
	cudaStream_t stream;
};

struct ring {
	const struct device_run *run;
	int n;
	struct rank rank[MAX_GPUS];
	shared_u32 *abort;
	uint8_t *want, *got;
	uint64_t launches; /* every second one has its works in the FIFO */
	struct steps_count steps[MAX_GPUS][CHANNELS]; /* where every connection should be */
};

static uint64_t rng_state;

static uint64_t rng(void)
{
	uint64_t z = rng_state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* ---- laying it out ------------------------------------------------------------------------------
 */

static void ring_alloc(struct ring *g, int n)
{
	g->n = n;
	g->launches = 0;
	g->abort = device_host_alloc(sizeof *g->abort);
	g->want = malloc(MAX_BYTES);
	g->got = malloc(MAX_BYTES);
	memset(g->steps, 0, sizeof g->steps);
	for (int i = 0; i < n; i++) {
		struct rank *r = &g->rank[i];

		r->comm = device_alloc(i, sizeof *r->comm);
		r->channels = device_alloc(i, CHANNELS * sizeof *r->channels);
		r->conns = device_alloc(i, CHANNELS * 2 * sizeof *r->conns);
		r->ranks = device_alloc(i, CHANNELS * MAX_GPUS * sizeof *r->ranks);
		r->slots = device_alloc(i, CHANNELS * DEV_STEPS * STEP_BYTES);
		r->recv_mem = device_alloc(i, CHANNELS * sizeof *r->recv_mem);
		r->send_mem = device_alloc(i, CHANNELS * sizeof *r->send_mem);
		r->input = device_alloc(i, MAX_BYTES);
		r->output = device_alloc(i, MAX_BYTES);
		r->host_input = malloc(MAX_BYTES);
		r->piece = device_host_alloc(sizeof *r->piece);
		CUDA_OK(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
	}
}

/* Odd channels go round the other way. */
static int ring_rank_at(const struct ring *g, int channel, int position)
{
	return channel % 2 ? (g->n - position % g->n) % g->n : position % g->n;
}

/* The same for the position of a rank: going the other way twice leads back. */
static int ring_position_of(const struct ring *g, int channel, int rank)
{
	return ring_rank_at(g, channel, rank);
}

/* Connection from rank `from` to rank `to`, seen from one end. */
static struct dev_conn ring_conn(const struct ring *g, int from, int to, int channel, int peer)
{
	struct dev_conn c = {
		.buffer = {g->rank[to].slots + channel * DEV_STEPS * STEP_BYTES},
		.tail = &g->rank[to].recv_mem[channel].tail,
		.head = &g->rank[from].send_mem[channel].head,
		.step_bytes = {STEP_BYTES},
		.peer = peer,
		.channel = channel,
	};
	return c;
}

static void ring_connect_channel(const struct ring *g, int rank, int c)
{
	const struct rank *r = &g->rank[rank];
	int i = ring_position_of(g, c, rank), prev = ring_rank_at(g, c, i + g->n - 1);
	int next = ring_rank_at(g, c, i + 1);
	int32_t ranks[MAX_GPUS];
	struct dev_channel channel = {.ring = {.prev = prev,
					       .next = next,
					       .index = i,
					       .recv = 2 * c,
					       .send = 2 * c + 1,
					       .ranks = r->ranks + c * MAX_GPUS}};
	struct dev_conn conns[2] = {ring_conn(g, prev, rank, c, prev),
				    ring_conn(g, rank, next, c, next)};

	for (int k = 0; k < g->n; k++)
		ranks[k] = ring_rank_at(g, c, k);
	CUDA_OK(cudaMemcpy(r->ranks + c * MAX_GPUS, ranks, sizeof ranks, cudaMemcpyHostToDevice));
	CUDA_OK(cudaMemcpy(&r->conns[2 * c], conns, sizeof conns, cudaMemcpyHostToDevice));
	CUDA_OK(cudaMemcpy(&r->channels[c], &channel, sizeof channel, cudaMemcpyHostToDevice));
}

static void ring_connect(struct ring *g)
{
	for (int i = 0; i < g->n; i++) {
		struct dev_comm comm = {.magic = DEV_COMM_MAGIC,
					.rank = i,
					.nranks = g->n,
					.nchannels = CHANNELS,
					.abort = g->abort,
					.channels = g->rank[i].channels,
					.conns = g->rank[i].conns,
					.warp_width = (uint32_t)g->run->width};

		for (int c = 0; c < CHANNELS; c++)
			ring_connect_channel(g, i, c);
		CUDA_OK(cudaMemcpy(g->rank[i].comm, &comm, sizeof comm, cudaMemcpyHostToDevice));
	}
}

static void ring_free(struct ring *g)
{
	for (int i = 0; i < g->n; i++) {
		struct rank *r = &g->rank[i];
		void *device[] = {r->comm,     r->channels, r->conns, r->ranks, r->slots,
				  r->recv_mem, r->send_mem, r->input, r->output};

		CUDA_OK(cudaSetDevice(i));
		for (size_t k = 0; k < ARRAY_LEN(device); k++)
			CUDA_OK(cudaFree(device[k]));
		CUDA_OK(cudaStreamDestroy(r->stream));
		CUDA_OK(cudaFreeHost(r->piece));
		free(r->host_input);
	}
	CUDA_OK(cudaFreeHost(g->abort));
	free(g->want);
	free(g->got);
}

/* ---- the reference ------------------------------------------------------------------------------
 */

/* In the reference a work's buffers are offsets, in bytes. */
static uintptr_t offset_of(const void *buffer)
{
	return (uintptr_t)buffer;
}

static uint8_t *input_at(const struct ring *g, const struct dev_work *w, int rank, uint64_t at)
{
	return g->rank[rank].host_input + offset_of(w->send) + at * steps_type_bytes(w->type);
}

static uint8_t *want_at(const struct ring *g, const struct dev_work *w, uint64_t at)
{
	return g->want + offset_of(w->recv) + at * steps_type_bytes(w->type);
}

/* `count` elements from `at` on, reduced along the ring so that `last` completes them: the position
 * after it sends first, each next one adds its own input. */
static void reference_fold(const struct ring *g, const struct dev_work *w, int channel, int last,
			   uint64_t at, uint64_t count)
{
	uint8_t *result = want_at(g, w, at);

	for (int k = 1; k <= g->n; k++) {
		int rank = ring_rank_at(g, channel, last + k);
		struct rc_job job = {.src = {input_at(g, w, rank, at), result},
				     .dst = {result},
				     .nsrc = k == 1 ? 1 : 2,
				     .ndst = 1,
				     .count = count,
				     .type = (enum dev_type)w->type,
				     .op = (enum dev_op)w->op,
				     .scale = w->scale,
				     .post = k == g->n};
		rc_reduce_copy(&job);
	}
}

/* Which rank completes an element of an all-reduce depends on its place in the loop. */
static void reference_all_reduce(const struct ring *g, const struct dev_work *w, int channel,
				 const struct steps_part *part)
{
	uint32_t size = steps_type_bytes(w->type);
	uint64_t loop = (uint64_t)part->chunk * (uint64_t)g->n;

	for (uint64_t done = 0; done < part->count; done += loop) {
		uint64_t left = part->count - done;
		uint64_t chunk = steps_ring_chunk(left, part->chunk, g->n, size);

		for (int c = 0; c < g->n; c++) {
			uint64_t at = (uint64_t)c * chunk;
			uint64_t n = at < left ? MIN_OF(chunk, left - at) : 0;

			reference_fold(g, w, channel, c, part->offset + done + at, n);
		}
	}
}

static void reference_part(const struct ring *g, const struct dev_work *w, int channel,
			   const struct steps_part *part)
{
	size_t bytes = part->count * steps_type_bytes(w->type);

	switch (steps_program(w->program).func) {
	case DEV_ALL_REDUCE:
		reference_all_reduce(g, w, channel, part);
		return;
	case DEV_REDUCE:
		reference_fold(g, w, channel, ring_position_of(g, channel, w->root), part->offset,
			       part->count);
		return;
	case DEV_BROADCAST:
		memcpy(want_at(g, w, part->offset), input_at(g, w, w->root, part->offset), bytes);
		return;
	case DEV_ALL_GATHER:
		for (int r = 0; r < g->n; r++)
			memcpy(want_at(g, w, (uint64_t)r * w->count + part->offset),
			       input_at(g, w, r, part->offset), bytes);
		return;
	case DEV_REDUCE_SCATTER:
		for (int r = 0; r < g->n; r++)
			reference_fold(g, w, channel, ring_position_of(g, channel, r),
				       (uint64_t)r * w->count + part->offset, part->count);
		return;
	default:
		CHECK(false, "program %d has no reference", w->program);
	}
}

/* Each end rounds its step up to the chunk, unless the work leaves the connection alone. */
static void reference_steps(struct ring *g, const struct dev_work *w, int channel)
{
	uint32_t chunk = steps_program(w->program).chunk_steps;

	for (int r = 0; r < g->n; r++) {
		int i = ring_position_of(g, channel, r);
		struct dev_ring ring = {.prev = ring_rank_at(g, channel, i + g->n - 1),
					.next = ring_rank_at(g, channel, i + 1)};
		struct steps_count n = steps_of(w, channel, &ring, r, g->n);
		struct steps_count *at = &g->steps[r][channel];

		if (n.recv)
			at->recv = ALIGN_UP(at->recv, chunk) + n.recv;
		if (n.send)
			at->send = ALIGN_UP(at->send, chunk) + n.send;
	}
}

static void reference(struct ring *g, const struct dev_work *w)
{
	for (int channel = w->channel_lo; channel <= w->channel_hi; channel++) {
		struct steps_part part = steps_part_of(w, channel);

		reference_part(g, w, channel, &part);
		reference_steps(g, w, channel);
	}
}

/* ---- running ------------------------------------------------------------------------------------
 */

/* Until the launch, send and recv are offsets in the ranks' buffers, in bytes. */
static struct dev_work program_work(enum dev_program program, uint64_t count, enum dev_type type,
				    enum dev_op op, int lo, int hi)
{
	uint32_t size = steps_type_bytes(type);
	uint32_t chunk = STEP_BYTES * steps_program(program).chunk_steps / size;
	uint64_t channels = (uint64_t)(hi - lo + 1), grain = steps_grain_bytes(DEV_SIMPLE) / size;
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

static struct dev_work ring_work(uint64_t count, enum dev_type type, enum dev_op op, int lo, int hi)
{
	return program_work(DEV_ALL_REDUCE_RING_SIMPLE, count, type, op, lo, hi);
}

static uint64_t scale_of(enum dev_type type, enum dev_op op, int n)
{
	if (op == DEV_SUM_POSTDIV)
		return (uint64_t)n;
	switch (type) {
	case DEV_F16:
		return rc_f16_of_f32(1.0f / (float)n);
	case DEV_BF16:
		return rc_bf16_of_f32(1.0f / (float)n);
	case DEV_F8E4M3:
		return rc_f8e4m3_of_f32(1.0f / (float)n);
	case DEV_F8E5M2:
		return rc_f8e5m2_of_f32(1.0f / (float)n);
	case DEV_F32:
		return rc_bits_of_f32(1.0f / (float)n);
	case DEV_F64:
		return rc_bits_of_f64(1.0 / n);
	default:
		return (uint64_t)n;
	}
}

/* Blocks of `count` elements in a rank's input, and in its output. */
static uint64_t blocks_in(const struct ring *g, const struct dev_work *w)
{
	return steps_program(w->program).func == DEV_REDUCE_SCATTER ? (uint64_t)g->n : 1;
}

static uint64_t blocks_out(const struct ring *g, const struct dev_work *w)
{
	return steps_program(w->program).func == DEV_ALL_GATHER ? (uint64_t)g->n : 1;
}

/* Where, in bytes, a rank's own block is in a buffer of one block per rank. */
static uint64_t own_block(uint64_t blocks, const struct dev_work *w, int rank)
{
	return blocks > 1 ? (uint64_t)rank * w->count * steps_type_bytes(w->type) : 0;
}

/* At the end of PIPELINE_TO only the root has an output. */
static bool has_result(const struct dev_work *w, int rank)
{
	return steps_program(w->program).pattern != DEV_PIPELINE_TO || rank == w->root;
}

static bool program_reduces(enum dev_program program)
{
	return steps_program(program).func == DEV_REDUCE_SCATTER ||
	       steps_program(program).func == DEV_REDUCE;
}

static void ring_fill(struct ring *g, const struct dev_work *w, size_t bytes, bool in_place)
{
	for (int i = 0; i < g->n; i++) {
		struct rank *r = &g->rank[i];
		uint8_t *to = in_place ? r->output + own_block(blocks_out(g, w), w, i) : r->input;

		for (size_t k = 0; k < bytes; k += 8) {
			uint64_t v = rng();
			memcpy(r->host_input + k, &v, 8);
		}
		CUDA_OK(cudaMemcpy(to, r->host_input, bytes, cudaMemcpyHostToDevice));
	}
}

static struct dev_work ring_work_of(const struct ring *g, const struct dev_work *w, int i,
				    int warps, bool in_place)
{
	const struct rank *r = &g->rank[i];
	struct dev_work mine = *w;

	mine.send = (in_place ? r->output + own_block(blocks_out(g, w), w, i) : r->input) +
		    offset_of(w->send);
	mine.recv =
		r->output + (in_place ? own_block(blocks_in(g, w), w, i) : 0) + offset_of(w->recv);
	if (!mine.nwarps)
		mine.nwarps = (uint8_t)warps;
	return mine;
}

/* Puts the works into pinned memory, and the numbers of each block's. */
static void piece_fill(struct ring *g, struct piece *p, const struct dev_work *works, int n,
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

static void ring_launch(struct ring *g, const struct dev_work *works, int n, uint64_t mask,
			int warps, bool in_place)
{
	const struct dev_kernel *k = dev_kernel_collective(g->run->width);
	int blocks = __builtin_popcountll(mask);

	g->launches++;
	for (int i = 0; i < g->n; i++) {
		struct dev_work mine[MOST_WORKS];
		struct dev_args args;

		memset(&args, 0, sizeof args);
		args.comm = g->rank[i].comm;
		args.channel_mask = mask;
		args.work_count = (uint32_t)n;
		for (int j = 0; j < n; j++)
			mine[j] = ring_work_of(g, &works[j], i, warps, in_place);
		if (n > (int)DEV_ARGS_WORKS || g->launches % 2)
			piece_fill(g, g->rank[i].piece, mine, n, &args);
		else
			memcpy(args.work, mine, (size_t)n * sizeof mine[0]);
		CUDA_OK(cudaSetDevice(i));
		device_launch(k, blocks, warps, g->run->width, &args, g->rank[i].stream);
	}
}

static void ring_sync(struct ring *g)
{
	for (int i = 0; i < g->n; i++)
		CUDA_OK(cudaStreamSynchronize(g->rank[i].stream));
}

/* Each block of a launch that had its works in the FIFO has let them go. */
static void ring_check_consumed(const struct ring *g, uint64_t mask)
{
	for (int i = 0; i < g->n; i++)
		for (int c = 0; c < CHANNELS; c++) {
			const shared_u64 *word = &g->rank[i].piece->consumed[c];

			CHECK(!(mask >> c & 1) ||
				      shared_load_u64(word, SHARED_ACQUIRE) == g->launches,
			      "%s: rank %d channel %d has not let go of the FIFO", g->run->where, i,
			      c);
		}
}

static void ring_check(struct ring *g, const struct dev_work *w, bool in_place, const char *what)
{
	uint32_t size = steps_type_bytes(w->type);
	uint64_t count = w->count * blocks_out(g, w);

	for (int i = 0; i < g->n; i++) {
		uint64_t mine = own_block(blocks_in(g, w), w, i);
		const uint8_t *want = g->want + offset_of(w->recv) + mine;

		if (!has_result(w, i))
			continue;
		CUDA_OK(cudaMemcpy(g->got,
				   g->rank[i].output + offset_of(w->recv) + (in_place ? mine : 0),
				   count * size, cudaMemcpyDeviceToHost));
		for (uint64_t at = 0; at < count; at++)
			CHECK(!memcmp(g->got + at * size, want + at * size, size),
			      "%s, %s: program %d root %d: %d ranks, rank %d, type %d op %d count "
			      "%llu, channels %d-%d%s: element %llu differs",
			      g->run->where, what, w->program, w->root, g->n, i, w->type, w->op,
			      (unsigned long long)w->count, w->channel_lo, w->channel_hi,
			      in_place ? ", in place" : "", (unsigned long long)at);
	}
}

/* Both ends of every connection stand at the step that steps.h derives. */
static void ring_check_steps(struct ring *g)
{
	for (int i = 0; i < g->n; i++) {
		struct dev_conn conns[CHANNELS][2];

		CUDA_OK(cudaMemcpy(conns, g->rank[i].conns, sizeof conns, cudaMemcpyDeviceToHost));
		for (int c = 0; c < CHANNELS; c++)
			CHECK(conns[c][0].step == g->steps[i][c].recv &&
				      conns[c][1].step == g->steps[i][c].send,
			      "%s: rank %d channel %d at %llu and %llu, expected %llu and %llu",
			      g->run->where, i, c, (unsigned long long)conns[c][0].step,
			      (unsigned long long)conns[c][1].step,
			      (unsigned long long)g->steps[i][c].recv,
			      (unsigned long long)g->steps[i][c].send);
	}
}

static void ring_once(struct ring *g, struct dev_work w, int warps, bool in_place, const char *what)
{
	uint32_t size = steps_type_bytes(w.type);
	uint64_t mask = 0;

	w.scale = scale_of((enum dev_type)w.type, (enum dev_op)w.op, g->n);
	for (int c = w.channel_lo; c <= w.channel_hi; c++)
		mask |= 1ull << c;
	ring_fill(g, &w, ALIGN_UP(w.count * blocks_in(g, &w) * size, 8), in_place);
	reference(g, &w);
	ring_launch(g, &w, 1, mask, warps, in_place);
	ring_sync(g);
	ring_check(g, &w, in_place, what);
	if (g->launches % 2)
		ring_check_consumed(g, mask);
}

/* Every program but the all-reduce's, whose cases are many; every root. */
static void ring_programs(struct ring *g)
{
	static const uint64_t counts[] = {1, 130, 3001};
	int turn = 0;

	for (int program = 0; program < DEV_PROGRAM_COUNT; program++) {
		enum dev_pattern pattern = steps_program(program).pattern;
		bool rooted = pattern == DEV_PIPELINE_FROM || pattern == DEV_PIPELINE_TO;
		bool reduces = program_reduces((enum dev_program)program);

		for (int root = 0; root < (rooted ? g->n : 1); root++)
			for (size_t c = 0; c < ARRAY_LEN(counts); c++, turn++) {
				struct dev_work w = program_work(
					(enum dev_program)program, counts[c],
					reduces ? DEV_F16 : DEV_U8,
					reduces ? DEV_PREMUL_SUM : DEV_SUM, 0, turn % CHANNELS);

				w.root = rooted ? root : -1;
				ring_once(g, w, 1 + turn % 3, turn % 2, "programs");
				ring_once(g, w, 1 + turn % 2, turn % 2 == 0, "programs");
			}
	}
}

/* Several works of one launch, on overlapping channels, each in a part of the buffers of its own:
 * nothing orders the channels of one against those of another. */
static void ring_many(struct ring *g)
{
	struct dev_work w[2];

	for (int i = 0; i < 2; i++) {
		w[i] = ring_work(3000, DEV_F32, i ? DEV_MAX : DEV_SUM, i, CHANNELS - 1);
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
static void ring_launch_of_many_works(struct ring *g)
{
	static struct dev_work w[MOST_WORKS];
	const uint64_t count = 500;
	int n = g->run->slow || g->run->light ? 30 : MOST_WORKS;

	for (int i = 0; i < n; i++) {
		w[i] = ring_work(count, DEV_F32, i % 2 ? DEV_MAX : DEV_SUM, i % 7 % CHANNELS,
				 CHANNELS - 1);
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

/* ---- through a proxy ------------------------------------------------------------------------ */

/* One connection in pinned host memory, in two halves that a host task copies between. */
struct link {
	uint8_t send_slots[DEV_STEPS * STEP_BYTES], recv_slots[DEV_STEPS * STEP_BYTES];
	struct dev_recv_mem send_tail; /* and the FIFO: what the sending kernel fills */
	struct dev_send_mem send_head;
	struct dev_recv_mem recv_tail;
	struct dev_send_mem recv_head;
	uint64_t end; /* step at which to stop */
	uint32_t slice_steps, pad0;
	struct os_thread *thread;
};

static void link_wait(const shared_u64 *word, uint64_t want, const char *why)
{
	struct wait w = {.on = word,
			 .want = want,
			 .mask = WAIT_MASK_ALL,
			 .kind = WAIT_GE,
			 .bytes = 8,
			 .why = why,
			 .from = {.rank = -1, .channel = -1}};

	CHECK(os_wait_one(&w, NULL) == 0, "%s", why);
}

static uint32_t link_slot_bytes(struct link *l, uint64_t step)
{
	struct dev_fifo_slot *slot = &l->send_tail.fifo[step % DEV_STEPS];
	uint32_t size = shared_load_u32(&slot->size, SHARED_RELAXED);
	uint32_t next = shared_load_u32(&slot[1].size, SHARED_RELAXED);
	uint32_t offset = shared_load_u32(&slot->offset, SHARED_RELAXED);

	CHECK(size <= l->slice_steps * STEP_BYTES, "step %llu: size %#x", (unsigned long long)step,
	      size);
	CHECK(offset == step % DEV_STEPS * STEP_BYTES, "offset %u", offset);
	CHECK(next == DEV_FIFO_SIZE_NONE, "the slice's second slot says %u", next);
	return size;
}

static void link_task(void *arg)
{
	struct link *l = (struct link *)arg;
	uint8_t bytes[DEV_STEPS * STEP_BYTES];

	for (uint64_t step = 0; step < l->end; step += l->slice_steps) {
		size_t at = step % DEV_STEPS * STEP_BYTES;
		uint32_t size;

		link_wait(&l->send_tail.tail, step + l->slice_steps, "proxy: slot filled");
		size = link_slot_bytes(l, step);
		shared_read(bytes, l->send_slots + at, size);
		shared_store_u32(&l->send_tail.fifo[step % DEV_STEPS].size, DEV_FIFO_SIZE_NONE,
				 SHARED_RELAXED);
		shared_store_u64(&l->send_head.head, step + l->slice_steps, SHARED_RELEASE);
		if (step >= DEV_STEPS)
			link_wait(&l->recv_head.head, step + l->slice_steps - DEV_STEPS,
				  "proxy: slot emptied");
		shared_write(l->recv_slots + at, bytes, size);
		shared_store_u64(&l->recv_tail.tail, step + l->slice_steps, SHARED_RELEASE);
	}
}

/* Puts the link under the connection of channel 0 from rank `i` to the next. */
static void link_connect(struct ring *g, struct link *l, int i)
{
	int next = (i + 1) % g->n;
	struct dev_conn c = {.buffer = {l->send_slots},
			     .tail = &l->send_tail.tail,
			     .head = &l->send_head.head,
			     .fifo = l->send_tail.fifo,
			     .step_bytes = {STEP_BYTES},
			     .peer = next};

	for (int s = 0; s < DEV_STEPS; s++)
		shared_store_u32(&l->send_tail.fifo[s].size, DEV_FIFO_SIZE_NONE, SHARED_RELAXED);
	CUDA_OK(cudaMemcpy(&g->rank[i].conns[1], &c, sizeof c, cudaMemcpyHostToDevice));
	c.buffer[DEV_SIMPLE] = l->recv_slots;
	c.tail = &l->recv_tail.tail;
	c.head = &l->recv_head.head;
	c.fifo = NULL;
	c.peer = i;
	CUDA_OK(cudaMemcpy(&g->rank[next].conns[0], &c, sizeof c, cudaMemcpyHostToDevice));
}

static void ring_proxied(struct ring *g)
{
	struct dev_work w = ring_work(9001, DEV_BF16, DEV_PREMUL_SUM, 0, 0);
	struct link *links = device_host_alloc((size_t)g->n * sizeof *links);

	for (int i = 0; i < g->n; i++) {
		struct os_thread_attr attr = {.name = "proxy", .rank = i};
		struct dev_ring ring = {.prev = (i + g->n - 1) % g->n, .next = (i + 1) % g->n};

		link_connect(g, &links[i], i);
		links[i].end = steps_of(&w, 0, &ring, i, g->n).send;
		links[i].slice_steps = steps_program(w.program).slice_steps;
		CHECK(os_thread_start(&links[i].thread, &attr, link_task, &links[i]) == 0,
		      "thread");
	}
	ring_once(g, w, 2, false, "through a proxy");
	for (int i = 0; i < g->n; i++)
		CHECK(os_thread_join(links[i].thread) == 0, "join");
	CUDA_OK(cudaFreeHost(links));
}

/* ---- ends that are no results --------------------------------------------------------------- */

/* What rank 0 has put into the slots of all others. */
static void ring_slots(const struct ring *g, uint8_t *out)
{
	size_t bytes = (size_t)CHANNELS * DEV_STEPS * STEP_BYTES;

	for (int i = 1; i < g->n; i++)
		CUDA_OK(cudaMemcpy(out + (size_t)i * bytes, g->rank[i].slots, bytes,
				   cudaMemcpyDeviceToHost));
}

/* One rank starts alone: its kernel waits for the others until the abort word is set. The kernel
 * behind it moves nothing: what is in the slots may be on its way through an HCA. */
static void ring_abort(struct ring *g)
{
	static uint8_t before[MAX_GPUS][CHANNELS * DEV_STEPS * STEP_BYTES], after[sizeof before];
	struct dev_work w = ring_work(1000, DEV_U8, DEV_SUM, 0, 1);
	int n = g->n;

	g->n = 1;
	ring_launch(g, &w, 1, 3, 2, false);
	os_sleep_ns(1000000);
	shared_store_u32(g->abort, 1, SHARED_RELEASE);
	CUDA_OK(cudaStreamSynchronize(g->rank[0].stream));
	g->n = n;
	ring_slots(g, before[0]);
	CUDA_OK(cudaSetDevice(0));
	CUDA_OK(cudaMemset(g->rank[0].input, 0x5a, 1000));
	CUDA_OK(cudaMemset(g->rank[0].output, 0x5a, 1000));
	CUDA_OK(cudaDeviceSynchronize());
	g->n = 1;
	ring_launch(g, &w, 1, 3, 2, false);
	CUDA_OK(cudaStreamSynchronize(g->rank[0].stream));
	if (g->launches % 2)
		ring_check_consumed(g, 3);
	g->n = n;
	ring_slots(g, after);
	CHECK(memcmp(before, after, sizeof after) == 0,
	      "a launch behind an aborted one moved data");
}

#ifdef DOPPEL_FAKECUDA
static void ring_bad_magic_body(const struct device_run *run)
{
	static struct ring g;
	struct dev_work w = ring_work(1, DEV_U8, DEV_SUM, 0, 0);
	uint32_t magic = DEV_COMM_MAGIC + 1;

	g.run = run;
	ring_alloc(&g, 2);
	ring_connect(&g);
	CUDA_OK(cudaMemcpy(&g.rank[0].comm->magic, &magic, sizeof magic, cudaMemcpyHostToDevice));
	g.n = 1;
	ring_launch(&g, &w, 1, 1, 1, false);
	(void)cudaStreamSynchronize(g.rank[0].stream);
	exit(EXIT_SUCCESS); /* it should not come to this */
}

/* In a process of its own, because it ends loudly. */
static void ring_bad_magic(void)
{
	int status = 0;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		freopen("/dev/null", "w", stderr);
		device_harness_one(ring_bad_magic_body, SIM_ENGINE_SIM, 1, 1);
		exit(EXIT_SUCCESS);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork");
	CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS,
	      "a kernel ran with a communicator of another layout");
	printf("ok: another layout traps\n");
}
#else
static void ring_bad_magic(void)
{
	/* on real GPUs it would end the context for the rest of the test */
}
#endif

static void ring_body(const struct device_run *run)
{
	static const uint64_t counts[] = {1, 7, 1023, 5000, 20001};
	static struct ring g;
	int most = run->light ? 2 : MIN_OF(run->gpus, MAX_GPUS);

	rng_state = run->seed;
	if (run->gpus < 2) {
		printf("skipped: %d GPU\n", run->gpus);
		return;
	}
	device_peers_enable(most);
	for (int n = 2; n <= most; n++) {
		int turn = 0;

		g.run = run;
		ring_alloc(&g, n);
		ring_connect(&g);
		for (size_t c = 0; c < ARRAY_LEN(counts) - (run->slow && run->width > 1 ? 2 : 0);
		     c++)
			for (int ch = 1; ch <= CHANNELS; ch++, turn++)
				ring_once(&g, ring_work(counts[c], DEV_F32, DEV_SUM, 0, ch - 1),
					  1 + turn % 4, turn % 2, "counts");
		for (int type = 0; type < DEV_TYPE_COUNT; type++)
			for (int op = 0; op < DEV_OP_COUNT; op++, turn++)
				if (op != DEV_SUM_POSTDIV || type <= DEV_U64)
					ring_once(&g,
						  ring_work(900, (enum dev_type)type,
							    (enum dev_op)op, 0, turn % 2),
						  1 + turn % 2, turn % 3 == 0, "types");
		ring_many(&g);
		ring_launch_of_many_works(&g);
		ring_programs(&g);
		ring_check_steps(&g);
		ring_abort(&g);
		ring_free(&g);
		ring_alloc(&g, n);
		ring_connect(&g);
		ring_proxied(&g);
		ring_free(&g);
	}
}

int main(void)
{
	ring_bad_magic();
	return device_harness(ring_body, SAMPLE_THIN > 1 ? 1 : 3);
}
