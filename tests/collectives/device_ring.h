/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings without the stack: dev_comm, channels and connections are laid out by hand for 2 to 4 GPUs
 * of one process (direct pointers, no transport, no proxy). Odd channels go round the ring
 * backwards. Every two ranks are also connected directly, for the programs that need it; each
 * channel has a tree, and PAT has its connections. device_ring_launch.h launches works on them,
 * device_ring_check.h computes the expected results of a launch of collectives.
 *
 * Used by device_*_test.c here, in the body of tests/device_harness.h. A failing check aborts.
 */
#ifndef TESTS_COLLECTIVES_DEVICE_RING_H
#define TESTS_COLLECTIVES_DEVICE_RING_H

/* With NVLink, over which lines of 128 bytes arrive whole. */
#define DEVICE_MACHINE "a100-4nic"

#include "core/base/shared.h"
#include "core/device/reduce/reduce_copy_host.h"
#include "tests/device_harness.h"

/* A test of its own may have more. */
#ifndef MAX_RANKS
#define MAX_RANKS 4
#endif
#define MOST_WORKS 100

/* Sizes that a bench enlarges. Bytes of a connection's step; in steps of lines, 320 and 3840 bytes
 * are data. */
#ifndef CHANNELS
#define CHANNELS  3
#define MAX_BYTES (1u << 18)
enum { STEP_SIMPLE = 512, STEP_LL = 640, STEP_LL128 = 4096 };
/* Lines arrive whole everywhere, and odd channels do not rely on it. */
#define WHOLE_LINES(channel) ((channel) % 2 == 0)
#endif
static const uint32_t step_bytes[DEV_PROTO_COUNT] = {
	[DEV_SIMPLE] = STEP_SIMPLE, [DEV_LL] = STEP_LL, [DEV_LL128] = STEP_LL128};
/* The offset of each protocol's buffer in a connection's memory; the last one is the total. */
static const uint32_t buffer_at[DEV_PROTO_COUNT] = {
	[DEV_SIMPLE] = DEV_STEPS * STEP_LL128, [DEV_LL] = DEV_STEPS * (STEP_LL128 + STEP_SIMPLE)};
#define BUFFERS_BYTES ((unsigned)DEV_STEPS * (STEP_LL128 + STEP_SIMPLE + STEP_LL))

/* Connections of a rank, in this order: of its rings; on every channel to each other rank, with
 * buffers of LL; of its links in the trees; of PAT, with buffers of SIMPLE. The memory of a
 * connection is at its receiving end. */
enum {
	MAX_OTHERS = MAX_RANKS - 1,
	OTHERS_CONNS = CHANNELS * MAX_OTHERS,
	TREE_CONNS = CHANNELS * DEV_TREE_LINKS,
	MAX_LEVELS = 4,
	PAT_CONNS = MAX_LEVELS * CHANNELS,
	DIRECT_FIRST = 2 * CHANNELS,
	TREE_FIRST = DIRECT_FIRST + 2 * OTHERS_CONNS,
	PAT_FIRST = TREE_FIRST + 2 * TREE_CONNS,
	DOUBLING_FIRST = PAT_FIRST + 2 * PAT_CONNS,
	PAIRS_FIRST = DOUBLING_FIRST + 2 * PAT_CONNS,
	/* of messages: [2][CHANNELS], send and then receive */
	ALL_CONNS = PAIRS_FIRST + 2 * CHANNELS
};
#define DIRECT_BYTES ((unsigned)DEV_STEPS * STEP_LL)
#define PAT_BYTES    ((unsigned)DEV_STEPS * STEP_SIMPLE)

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
	struct dev_conn *conns;        /* [ALL_CONNS] */
	int32_t *ranks;                /* [CHANNELS][MAX_RANKS] */
	uint8_t *buffers;              /* [CHANNELS][BUFFERS_BYTES] */
	struct dev_recv_mem *recv_mem; /* [CHANNELS] */
	struct dev_send_mem *send_mem; /* [CHANNELS] */
	/* of the other ranks: [MAX_OTHERS][CHANNELS] */
	uint8_t *direct_buffers; /* DIRECT_BYTES each */
	struct dev_recv_mem *direct_recv_mem;
	struct dev_send_mem *direct_send_mem;
	/* of its links: [CHANNELS][DEV_TREE_LINKS] */
	uint8_t *tree_buffers; /* BUFFERS_BYTES each */
	struct dev_recv_mem *tree_recv_mem;
	struct dev_send_mem *tree_send_mem;
	uint8_t *toward; /* [CHANNELS][MAX_RANKS] */
	/* for PAT: [MAX_LEVELS][CHANNELS] */
	uint8_t *pat_buffers; /* PAT_BYTES each */
	struct dev_recv_mem *pat_recv_mem;
	struct dev_send_mem *pat_send_mem;
	/* for DOUBLING: the same; DIRECT_BYTES each */
	uint8_t *doubling_buffers;
	struct dev_recv_mem *doubling_recv_mem;
	struct dev_send_mem *doubling_send_mem;
	uint8_t *input, *output;
	uint8_t *host_input;
	struct piece *piece; /* host memory */
	cudaStream_t stream;
};

struct ring {
	const struct device_run *run;
	int n;
	struct rank rank[MAX_RANKS];
	shared_u32 *abort;
	uint8_t *want, *got;
	uint64_t random; /* state of ring_random */
	uint64_t first;  /* step of all connections */
	/* A bit for each rank: what it sends over its ring in SIMPLE, messages or results, goes
	 * straight into the receiver's buffer. Before ring_connect. */
	uint32_t put;
	uint64_t launches;
	bool in_fifo;     /* every launch has its works in the FIFO; else every second one; */
	bool in_args;     /* no launch has */
	bool was_in_fifo; /* the last one had */
	bool uneven;      /* every second rank works with one of the block's warps */
	uint64_t steps[MAX_RANKS][PAIRS_FIRST]; /* where every end should be */
};

static inline uint64_t ring_random(struct ring *g)
{
	uint64_t z = g->random += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* ---- layout --------------------------------------------------------------------------------- */

static inline void ring_alloc(struct ring *g, const struct device_run *run, int n)
{
	*g = (struct ring){.run = run, .n = n, .random = run->seed + (uint64_t)n};
	g->abort = device_host_alloc(sizeof *g->abort);
	g->want = malloc(MAX_BYTES);
	g->got = malloc(MAX_BYTES);
	for (int i = 0; i < n; i++) {
		struct rank *r = &g->rank[i];
		int gpu = device_of_rank(run, i);

		r->comm = device_alloc(gpu, sizeof *r->comm);
		r->channels = device_alloc(gpu, CHANNELS * sizeof *r->channels);
		r->conns = device_alloc(gpu, ALL_CONNS * sizeof *r->conns);
		r->ranks = device_alloc(gpu, CHANNELS * MAX_RANKS * sizeof *r->ranks);
		r->buffers = device_alloc(gpu, CHANNELS * BUFFERS_BYTES);
		r->recv_mem = device_alloc(gpu, CHANNELS * sizeof *r->recv_mem);
		r->send_mem = device_alloc(gpu, CHANNELS * sizeof *r->send_mem);
		r->direct_buffers = device_alloc(gpu, (size_t)OTHERS_CONNS * DIRECT_BYTES);
		r->direct_recv_mem = device_alloc(gpu, OTHERS_CONNS * sizeof *r->direct_recv_mem);
		r->direct_send_mem = device_alloc(gpu, OTHERS_CONNS * sizeof *r->direct_send_mem);
		r->tree_buffers = device_alloc(gpu, (size_t)TREE_CONNS * BUFFERS_BYTES);
		r->tree_recv_mem = device_alloc(gpu, TREE_CONNS * sizeof *r->tree_recv_mem);
		r->tree_send_mem = device_alloc(gpu, TREE_CONNS * sizeof *r->tree_send_mem);
		r->toward = device_alloc(gpu, CHANNELS * MAX_RANKS);
		r->pat_buffers = device_alloc(gpu, (size_t)PAT_CONNS * PAT_BYTES);
		r->pat_recv_mem = device_alloc(gpu, PAT_CONNS * sizeof *r->pat_recv_mem);
		r->pat_send_mem = device_alloc(gpu, PAT_CONNS * sizeof *r->pat_send_mem);
		r->doubling_buffers = device_alloc(gpu, (size_t)PAT_CONNS * DIRECT_BYTES);
		r->doubling_recv_mem = device_alloc(gpu, PAT_CONNS * sizeof *r->doubling_recv_mem);
		r->doubling_send_mem = device_alloc(gpu, PAT_CONNS * sizeof *r->doubling_send_mem);
		r->input = device_alloc(gpu, MAX_BYTES);
		r->output = device_alloc(gpu, MAX_BYTES);
		r->host_input = malloc(MAX_BYTES);
		r->piece = device_host_alloc(sizeof *r->piece);
		CUDA_OK(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
	}
}

/* Odd channels go round backwards. */
static inline int ring_rank_at(const struct ring *g, int channel, int position)
{
	return channel % 2 ? (g->n - position % g->n) % g->n : position % g->n;
}

/* The position of a rank. The mapping of odd channels is its own inverse. */
static inline int ring_position_of(const struct ring *g, int channel, int rank)
{
	return ring_rank_at(g, channel, rank);
}

/* Rank r's parent in the tree of a channel: one rank that has all others as its children, a chain,
 * and one where each has up to two; another rank is the root of each. -1: it is the root. */
static inline int tree_parent(const struct ring *g, int channel, int rank)
{
	int at = (rank - channel % g->n + g->n) % g->n; /* from the root on */
	int degree = channel % 3 == 0 ? DEV_TREE_LINKS - 1 : channel % 3;

	return at ? ((at - 1) / degree + channel) % g->n : -1;
}

/* The rank at the other end of a link; -1: there is no link. */
static inline int tree_peer(const struct ring *g, int channel, int rank, int link)
{
	int child = 0;

	if (!link)
		return tree_parent(g, channel, rank);
	for (int r = 0; r < g->n; r++)
		if (tree_parent(g, channel, r) == rank && ++child == link)
			return r;
	return -1;
}

static inline int tree_link_to(const struct ring *g, int channel, int rank, int peer)
{
	int link = 0;

	while (tree_peer(g, channel, rank, link) != peer)
		link++;
	return link;
}

/* The link over which another rank is reached. */
static inline uint32_t tree_toward(const struct ring *g, int channel, int rank, int other)
{
	int below = -1, at = other;

	if (rank == other)
		return DEV_TREE_SELF;
	for (; at >= 0 && at != rank; at = tree_parent(g, channel, at))
		below = at;
	return at < 0 ? 0 : (uint32_t)tree_link_to(g, channel, rank, below);
}

/* The connection's buffers, which begin at `at`. */
static inline void conn_place(struct dev_conn *c, uint8_t *at)
{
	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		c->buffer[p] = at + buffer_at[p];
	memcpy(c->step_bytes, step_bytes, sizeof c->step_bytes);
}

/* Connection from rank `from` to rank `to`, seen from one end. */
static inline struct dev_conn ring_conn(const struct ring *g, int from, int to, int channel,
					int peer)
{
	struct dev_conn c = {
		.tail = &g->rank[to].recv_mem[channel].tail,
		.head = &g->rank[from].send_mem[channel].head,
		.step = g->first,
		.peer = peer,
		.channel = channel,
		.whole_lines = WHOLE_LINES(channel),
		.put = g->put >> from & 1,
	};

	conn_place(&c, g->rank[to].buffers + channel * BUFFERS_BYTES);
	return c;
}

/* One end of a link: its memory is that of the receiving rank's link. */
static inline struct dev_conn tree_conn(const struct ring *g, int rank, int channel, int link,
					bool sends)
{
	int peer = tree_peer(g, channel, rank, link);
	int mine = channel * DEV_TREE_LINKS + link;
	int theirs = channel * DEV_TREE_LINKS + tree_link_to(g, channel, peer, rank);
	const struct rank *to = &g->rank[sends ? peer : rank],
			  *from = &g->rank[sends ? rank : peer];
	int at_receiver = sends ? theirs : mine, at_sender = sends ? mine : theirs;
	struct dev_conn c = {
		.tail = &to->tree_recv_mem[at_receiver].tail,
		.head = &from->tree_send_mem[at_sender].head,
		.step = g->first,
		.peer = peer,
		.channel = channel,
		.index = 3,
		.whole_lines = WHOLE_LINES(channel),
	};

	conn_place(&c, to->tree_buffers + (size_t)at_receiver * BUFFERS_BYTES);
	return c;
}

/* Its ends of each algorithm. */
static inline void edges_fill(const struct ring *g, struct dev_edges edges[DEV_EDGE_SETS])
{
	bool direct = g->n <= DEV_DIRECT_RANKS;

	edges[DEV_RING] = (struct dev_edges){0, 2, CHANNELS};
	edges[DEV_ONE_SHOT] =
		(struct dev_edges){DIRECT_FIRST, (uint16_t)(2 * (g->n - 1)), direct ? CHANNELS : 0};
	edges[steps_edges(DEV_COLLNET_CHAIN)] = (struct dev_edges){0}; /* none */
	edges[DEV_TREE] = (struct dev_edges){TREE_FIRST, 2 * DEV_TREE_LINKS, CHANNELS};
	edges[DEV_DOUBLING] = (struct dev_edges){DOUBLING_FIRST,
						 (uint16_t)(2 * steps_pat_levels(g->n)), CHANNELS};
	edges[DEV_PAT] =
		(struct dev_edges){PAT_FIRST, (uint16_t)(2 * steps_pat_levels(g->n)), CHANNELS};
}

/* The number of an end. */
static inline int end_at(const struct ring *g, enum dev_algo algo, int channel, int edge,
			 bool sends)
{
	struct dev_edges edges[DEV_EDGE_SETS];

	edges_fill(g, edges);
	ASSERT(steps_edges(algo) < DEV_EDGE_SETS); /* programs on windows have no ends */
	return (int)edges[steps_edges(algo)].first + channel * edges[steps_edges(algo)].count +
	       2 * edge + sends;
}

static inline void toward_fill(const struct ring *g, int rank)
{
	uint8_t toward[CHANNELS * MAX_RANKS] = {0};

	for (int c = 0; c < CHANNELS; c++)
		for (int r = 0; r < g->n; r++)
			toward[c * MAX_RANKS + r] = (uint8_t)tree_toward(g, c, rank, r);
	CUDA_OK(cudaMemcpy(g->rank[rank].toward, toward, sizeof toward, cudaMemcpyHostToDevice));
}

static inline void ring_connect_channel(const struct ring *g, int rank, int c)
{
	const struct rank *r = &g->rank[rank];
	int i = ring_position_of(g, c, rank), prev = ring_rank_at(g, c, i + g->n - 1);
	int next = ring_rank_at(g, c, i + 1);
	int32_t ranks[MAX_RANKS];
	struct dev_channel channel = {
		.ring = {.prev = prev, .next = next, .index = i, .ranks = r->ranks + c * MAX_RANKS},
		.tree_toward = r->toward + c * MAX_RANKS};

	for (int k = 0; k < g->n; k++)
		ranks[k] = ring_rank_at(g, c, k);
	CUDA_OK(cudaMemcpy(r->ranks + c * MAX_RANKS, ranks, sizeof ranks, cudaMemcpyHostToDevice));
	CUDA_OK(cudaMemcpy(&r->channels[c], &channel, sizeof channel, cudaMemcpyHostToDevice));
}

/* Connection from rank `from` to rank `to`, seen from rank `rank`. Its index among the other ranks
 * is its number, less one if it is above `rank`. */
static inline struct dev_conn direct_conn(const struct ring *g, int from, int to, int channel,
					  int rank)
{
	int at_receiver = (from - (from > to)) * CHANNELS + channel;
	int at_sender = (to - (to > from)) * CHANNELS + channel;
	struct dev_conn c = {
		.tail = &g->rank[to].direct_recv_mem[at_receiver].tail,
		.head = &g->rank[from].direct_send_mem[at_sender].head,
		.step = g->first,
		.step_bytes = {[DEV_LL] = STEP_LL},
		.peer = rank == from ? to : from,
		.channel = channel,
		.index = 2,
	};

	c.buffer[DEV_LL] = g->rank[to].direct_buffers + (size_t)at_receiver * DIRECT_BYTES;
	return c;
}

/* One end of a level of PAT at rank `rank`: from the rank 2^level before it, or to the one 2^level
 * after it. */
static inline struct dev_conn pat_conn(const struct ring *g, int rank, int channel, int level,
				       bool sends)
{
	int far = 1 << level, at = level * CHANNELS + channel;
	int from = sends ? rank : (rank + g->n - far) % g->n, to = (from + far) % g->n;
	struct dev_conn c = {
		.tail = &g->rank[to].pat_recv_mem[at].tail,
		.head = &g->rank[from].pat_send_mem[at].head,
		.step = g->first,
		.step_bytes = {[DEV_SIMPLE] = STEP_SIMPLE},
		.peer = sends ? to : from,
		.channel = channel,
		.index = 4,
	};

	c.buffer[DEV_SIMPLE] = g->rank[to].pat_buffers + (size_t)at * PAT_BYTES;
	return c;
}

/* One end of bit k of DOUBLING at rank `rank`. */
static inline struct dev_conn doubling_conn(const struct ring *g, int rank, int channel, int k,
					    bool sends)
{
	int peer = rank ^ 1 << k, at = k * CHANNELS + channel;
	const struct rank *to = &g->rank[sends ? peer : rank],
			  *from = &g->rank[sends ? rank : peer];
	struct dev_conn c = {
		.tail = &to->doubling_recv_mem[at].tail,
		.head = &from->doubling_send_mem[at].head,
		.step = g->first,
		.step_bytes = {[DEV_LL] = STEP_LL},
		.peer = peer,
		.channel = channel,
		.index = 5,
	};

	c.buffer[DEV_LL] = to->doubling_buffers + (size_t)at * DIRECT_BYTES;
	return c;
}

/* Can so many ranks run the program? Chains need a network. */
static inline bool program_runs(int program, int n)
{
	if (steps_program(program).algo == DEV_COLLNET_CHAIN)
		return false;
	return steps_program(program).algo != DEV_DOUBLING || !(n & (n - 1));
}

/* The ends of one channel. */
static inline void ends_fill(const struct ring *g, int rank, int c, struct dev_conn *conns)
{
	int i = ring_position_of(g, c, rank), prev = ring_rank_at(g, c, i + g->n - 1);
	int next = ring_rank_at(g, c, i + 1);

	conns[end_at(g, DEV_RING, c, 0, false)] = ring_conn(g, prev, rank, c, prev);
	conns[end_at(g, DEV_RING, c, 0, true)] = ring_conn(g, rank, next, c, next);
	for (int sends = 0; sends < 2; sends++) {
		for (int peer = 0; peer < g->n; peer++)
			if (peer != rank)
				conns[end_at(g, DEV_ONE_SHOT, c, peer - (peer > rank), sends)] =
					direct_conn(g, sends ? rank : peer, sends ? peer : rank, c,
						    rank);
		for (int k = 0; k < DEV_TREE_LINKS; k++)
			if (tree_peer(g, c, rank, k) >= 0)
				conns[end_at(g, DEV_TREE, c, k, sends)] =
					tree_conn(g, rank, c, k, sends);
		for (int k = 0; k < (int)steps_pat_levels(g->n); k++)
			conns[end_at(g, DEV_PAT, c, k, sends)] = pat_conn(g, rank, c, k, sends);
		for (int k = 0; 1 << k < g->n && program_runs(DEV_ALL_REDUCE_DOUBLING_LL, g->n);
		     k++)
			conns[end_at(g, DEV_DOUBLING, c, k, sends)] =
				doubling_conn(g, rank, c, k, sends);
	}
}

static inline void ends_connect(const struct ring *g, int rank)
{
	static struct dev_conn conns[PAIRS_FIRST];

	for (int i = 0; i < PAIRS_FIRST; i++)
		conns[i] = (struct dev_conn){.peer = -1};
	for (int c = 0; c < CHANNELS; c++)
		ends_fill(g, rank, c, conns);
	CUDA_OK(cudaMemcpy(g->rank[rank].conns, conns, sizeof conns, cudaMemcpyHostToDevice));
}

static inline void ring_connect(struct ring *g)
{
	for (int i = 0; i < g->n; i++) {
		struct dev_comm comm = {.magic = DEV_COMM_MAGIC,
					.result_least = 1,
					.rank = i,
					.nranks = g->n,
					.nchannels = CHANNELS,
					.abort = g->abort,
					.channels = g->rank[i].channels,
					.conns = g->rank[i].conns,
					.warp_width = (uint32_t)g->run->width};

		for (int c = 0; c < CHANNELS; c++)
			ring_connect_channel(g, i, c);
		edges_fill(g, comm.edges);
		ends_connect(g, i);
		toward_fill(g, i);
		CUDA_OK(cudaMemcpy(g->rank[i].comm, &comm, sizeof comm, cudaMemcpyHostToDevice));
	}
}

static inline void ring_free(struct ring *g)
{
	for (int i = 0; i < g->n; i++) {
		struct rank *r = &g->rank[i];
		void *device[] = {r->comm,
				  r->channels,
				  r->conns,
				  r->ranks,
				  r->buffers,
				  r->recv_mem,
				  r->send_mem,
				  r->direct_buffers,
				  r->direct_recv_mem,
				  r->direct_send_mem,
				  r->tree_buffers,
				  r->tree_recv_mem,
				  r->tree_send_mem,
				  r->toward,
				  r->pat_buffers,
				  r->pat_recv_mem,
				  r->pat_send_mem,
				  r->doubling_buffers,
				  r->doubling_recv_mem,
				  r->doubling_send_mem,
				  r->input,
				  r->output};

		CUDA_OK(cudaSetDevice(device_of_rank(g->run, i)));
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

#endif
