/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective through the API, the plan, the kernel and the proxy: all types and operations,
 * every root, 1 to 8 ranks on 1 and 2 hosts, in place and out of place, counts that nothing
 * divides. The test compares a rank's buffers element by element with its own expectation, also the
 * bytes that the call must not change.
 */
#include <check.h>

#include "sim/lab/check/payload.h"
#include "tests/collectives/calls.h"
#include "tests/sample.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define MOST_RANKS 8
#define MOST_COUNT 40000
#define GUARD      64
#define FILLER     0xa5

/* One call of one rank. */
struct one {
	const struct call *call;
	struct payload payload;
	int32_t rank;
	int root;
	size_t count;
	bool in_place;
};

/* A rank's memory: `send` and `recv` in one device buffer each, with a guard after the bytes in
 * use. */
struct buffers {
	ncclComm_t comm;
	cudaStream_t stream;
	size_t bytes;
	uint8_t *send, *recv, *host, *want;
};

static size_t blocks_bytes(const struct one *o, bool per_rank)
{
	return o->count * payload_type_bytes(o->payload.type) *
	       (size_t)call_blocks(per_rank, o->payload.nranks);
}

static void buffers_open(struct buffers *b, int32_t rank, int32_t nranks, size_t count)
{
	b->bytes = count * 8 * (size_t)nranks + GUARD;
	comm_buffers(rank, (void **)&b->send, &b->stream, b->bytes);
	EXPECT(cudaMalloc((void **)&b->recv, b->bytes) == cudaSuccess);
	b->host = malloc(b->bytes);
	b->want = malloc(b->bytes);
	EXPECT(b->host && b->want);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&b->comm, nranks, ranks_id(), rank));
}

static void buffers_close(struct buffers *b)
{
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(b->comm));
	EXPECT(cudaFree(b->recv) == cudaSuccess);
	comm_buffers_free(b->send, b->stream);
	free(b->host);
	free(b->want);
}

/* Fills `to` with this rank's elements: one block, or one for each rank. */
static void one_fill(const struct one *o, uint8_t *to)
{
	size_t blocks = (size_t)call_blocks(o->call->send_per_rank, o->payload.nranks);

	payload_fill(&o->payload, o->rank, 0, o->count * blocks, to);
}

static bool one_has(const struct one *o, bool root_only)
{
	return !root_only || o->rank == o->root;
}

/* Fills in the expected receive buffer, in elements of the type. */
static void one_expect(const struct one *o, uint8_t *want)
{
	size_t size = payload_type_bytes(o->payload.type);

	if (o->call->reduces) {
		size_t first = o->call->send_per_rank ? (size_t)o->rank * o->count : 0;

		payload_expect(&o->payload, first, o->count, want);
		return;
	}
	if (!o->call->recv_per_rank) {
		payload_fill(&o->payload, o->root, 0, o->count, want);
		return;
	}
	for (int r = 0; r < o->payload.nranks; r++)
		payload_fill(&o->payload, r, 0, o->count, want + (size_t)r * o->count * size);
}

static void one_fail(const struct one *o, const char *what, size_t where)
{
	fprintf(stderr,
		"%s, rank %d of %d, root %d: %zu x %s, op %s%s: %s at element or byte %zu\n",
		o->call->name, o->rank, o->payload.nranks, o->root, o->count,
		payload_type_name(o->payload.type), payload_op_name(o->payload.op),
		o->in_place ? ", in place" : "", what, where);
	abort();
}

static void one_check(const struct one *o, const uint8_t *got, uint8_t *want)
{
	size_t n = o->count * (size_t)call_blocks(o->call->recv_per_rank, o->payload.nranks);
	struct payload p = o->payload;
	size_t where = 0;

	one_expect(o, want);
	if (!o->call->reduces)
		p.op = ncclSum; /* bit by bit */
	if (payload_compare(&p, 0, n, got, want, &where))
		one_fail(o, "wrong", where);
}

static void one_check_guard(const struct one *o, const uint8_t *from, size_t n, const char *what)
{
	for (size_t i = 0; i < n; i++)
		if (from[i] != FILLER)
			one_fail(o, what, i);
}

static void copy(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
	EXPECT(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream) == cudaSuccess);
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
}

/* The addresses of input and output. In place, one of them lies in the other. */
static void one_place(const struct one *o, const struct buffers *b, uint8_t **in, uint8_t **out)
{
	size_t at = call_place(o->call, o->rank, o->count) * payload_type_bytes(o->payload.type);

	*in = o->in_place ? b->recv : b->send;
	*out = b->recv;
	if (o->in_place && o->call->recv_per_rank)
		*in += at;
	if (o->in_place && o->call->send_per_rank)
		*out += at;
}

/* Writes filler everywhere, and the input. */
static void one_prepare(const struct one *o, struct buffers *b, uint8_t *in)
{
	memset(b->host, FILLER, b->bytes);
	copy(b->recv, b->host, b->bytes, b->stream);
	one_fill(o, b->host);
	copy(in, b->host, blocks_bytes(o, o->call->send_per_rank), b->stream);
}

/* The input of a call out of place is as before; a rank without an output has nothing written. */
static void one_verify(const struct one *o, struct buffers *b, const uint8_t *in,
		       const uint8_t *out)
{
	size_t sent = blocks_bytes(o, o->call->send_per_rank);
	size_t received = blocks_bytes(o, o->call->recv_per_rank);

	copy(b->host, b->recv, b->bytes, b->stream);
	if (!one_has(o, o->call->recv_root_only)) {
		if (!o->in_place)
			one_check_guard(o, b->host, b->bytes, "written without being the root");
		return;
	}
	one_check(o, b->host + (out - b->recv), b->want);
	received = MAX_OF(received, o->in_place ? sent : 0);
	one_check_guard(o, b->host + received, b->bytes - received, "written after the end");
	if (o->in_place)
		return;
	copy(b->host, in, sent, b->stream);
	one_fill(o, b->want);
	if (memcmp(b->host, b->want, sent))
		one_fail(o, "sendbuff changed", 0);
}

static void one_run(const struct one *o, struct buffers *b)
{
	uint8_t *in, *out;

	one_place(o, b, &in, &out);
	one_prepare(o, b, in);
	EXPECT_NCCL(ncclSuccess, o->call->fn(&(struct call_args){
					 .send = one_has(o, o->call->send_root_only) ? in : NULL,
					 .recv = one_has(o, o->call->recv_root_only) ? out : NULL,
					 .count = o->count,
					 .type = o->payload.type,
					 .op = o->payload.op,
					 .root = o->root,
					 .comm = b->comm,
					 .stream = b->stream}));
	EXPECT(cudaStreamSynchronize(b->stream) == cudaSuccess);
	one_verify(o, b, in, out);
}

/* ---- worlds --------------------------------------------------------------------------------- */

static const struct place {
	uint32_t hosts, per_host, per_proc;
} places[] = {
	{1, 1, 1}, {1, 2, 1}, {2, 1, 1}, {1, 3, 3}, {1, 4, 2},
	{2, 2, 1}, {1, 5, 1}, {2, 4, 4}, {1, 8, 1},
};

static void run_at(const struct place *p, uint64_t seed, enum sim_engine engine,
		   const char *const *env, void (*fn)(int32_t, int32_t, void *), void *arg)
{
	struct ranks_config c = {.hosts = p->hosts,
				 .per_host = p->per_host,
				 .per_proc = p->per_proc,
				 .engine = engine,
				 .seed = seed,
				 .env = env};

	ranks_run(&c, fn, arg);
}

/* Each type with each operation once, with a count, a place and a root that change from call to
 * call. Data movers have one operation. */
static void types_of_call(const struct call *call, struct buffers *b, int32_t rank, int32_t nranks)
{
	static const size_t counts[] = {1, 17, 130, 1003};
	int turn = 0;

	for (int type = 0; type < ncclNumTypes; type++) {
		for (int op = 0; op < (call->reduces ? ncclNumOps : 2); op++, turn++) {
			struct one o = {.call = call,
					.payload = {.type = (ncclDataType_t)type,
						    .op = call->reduces ? (ncclRedOp_t)op : ncclSum,
						    .nranks = nranks,
						    .salt = (uint64_t)turn},
					.rank = rank,
					.root = turn % nranks,
					.count = counts[turn % (int)ARRAY_LEN(counts)],
					.in_place = turn / 2 % 2};

			if (turn % SAMPLE_THIN == 0)
				one_run(&o, b);
		}
	}
}

static void types_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct buffers b;

	buffers_open(&b, rank, nranks, 1003);
	for (int c = 0; c < CALLS; c++)
		types_of_call(&calls[c], &b, rank, nranks);
	buffers_close(&b);
}

START_TEST(every_type_and_operation)
{
	run_at(&places[_i], 1, SIM_ENGINE_SIM, NULL, types_rank, NULL);
}
END_TEST

/* Counts around the borders of channels, chunks and loops, each in place and out of place. */
static void counts_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const size_t counts[] = {1, 127, 511, 1025, 4099, 16411, MOST_COUNT - 3};
	struct buffers b;

	buffers_open(&b, rank, nranks, MOST_COUNT);
	for (int c = 0; c < CALLS; c++)
		for (int i = 0; i < 2 * (int)ARRAY_LEN(counts); i += SAMPLE_THIN) {
			struct one o = {.call = &calls[c],
					.payload = {.type = i % 4 < 2 ? ncclInt8 : ncclInt64,
						    .op = ncclSum,
						    .nranks = nranks,
						    .salt = (uint64_t)i},
					.rank = rank,
					.root = i % nranks,
					.count = counts[i / 2],
					.in_place = i % 2};

			one_run(&o, &b);
		}
	buffers_close(&b);
}

START_TEST(counts_that_nothing_divides)
{
	run_at(&places[_i], 2, SIM_ENGINE_SIM, NULL, counts_rank, NULL);
}
END_TEST

/* Steps of 512 bytes: many loops, and the eight slots of every connection are used up often. */
START_TEST(small_buffers)
{
	static const char *const env[] = {"NCCL_BUFFSIZE=4096", NULL};

	run_at(&places[_i], 3, SIM_ENGINE_SIM, env, counts_rank, NULL);
}
END_TEST

START_TEST(real_threads)
{
	run_at(&places[_i], 1, SIM_ENGINE_THREADS, NULL, counts_rank, NULL);
}
END_TEST

/* ---- groups --------------------------------------------------------------------------------- */

/* All calls in one group, on parts of two buffers. */
static void group_rank(int32_t rank, int32_t nranks, void *arg)
{
	enum { COUNT = 301, EACH = COUNT * MOST_RANKS };
	struct one o = {.payload = {.type = ncclInt32, .op = ncclMax, .nranks = nranks, .salt = 5},
			.rank = rank,
			.root = nranks - 1,
			.count = COUNT};
	struct buffers b;
	int32_t *send, *recv;

	buffers_open(&b, rank, nranks, (size_t)CALLS * EACH);
	send = (int32_t *)b.send;
	recv = (int32_t *)b.recv;
	for (int c = 0; c < CALLS; c++) {
		o.call = &calls[c];
		one_fill(&o, b.host);
		copy(send + c * EACH, b.host, blocks_bytes(&o, calls[c].send_per_rank), b.stream);
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int c = 0; c < CALLS; c++)
		EXPECT_NCCL(ncclSuccess, calls[c].fn(&(struct call_args){
						 send + c * EACH, recv + c * EACH, COUNT, ncclInt32,
						 ncclMax, o.root, b.comm, b.stream}));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	copy(b.host, b.recv, (size_t)CALLS * EACH * sizeof *recv, b.stream);
	for (int c = 0; c < CALLS; c++) {
		o.call = &calls[c];
		if (one_has(&o, calls[c].recv_root_only))
			one_check(&o, b.host + (size_t)c * EACH * sizeof *recv, b.want);
	}
	buffers_close(&b);
}

/* In LL each program has a kernel of its own, and a launch of several takes the protocol's. */
START_TEST(different_collectives_in_one_group)
{
	static const char *const lines[] = {"NCCL_PROTO=LL", NULL};

	for (uint64_t seed = 1; seed <= 3; seed += SAMPLE_THIN)
		run_at(&places[_i], seed, SIM_ENGINE_SIM, NULL, group_rank, NULL);
	run_at(&places[_i], 1, SIM_ENGINE_SIM, lines, group_rank, NULL);
}
END_TEST

/* ---- one task for all ranks ----------------------------------------------------------------- */

#define TASK_RANKS 4

static void task_open(struct buffers *b, ncclComm_t comm, int rank)
{
	b->comm = comm;
	b->bytes = MOST_COUNT * 8;
	EXPECT(cudaSetDevice(rank) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&b->send, b->bytes) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&b->recv, b->bytes) == cudaSuccess);
	EXPECT(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking) == cudaSuccess);
	b->host = malloc(b->bytes);
	b->want = malloc(b->bytes);
	EXPECT(b->host && b->want);
}

/* All ranks' side of one call, in one group. */
static void task_call(struct one *o, struct buffers *b)
{
	uint8_t *in, *out;

	for (o->rank = 0; o->rank < TASK_RANKS; o->rank++) {
		one_place(o, &b[o->rank], &in, &out);
		EXPECT(cudaSetDevice(o->rank) == cudaSuccess);
		one_prepare(o, &b[o->rank], in);
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (o->rank = 0; o->rank < TASK_RANKS; o->rank++) {
		one_place(o, &b[o->rank], &in, &out);
		EXPECT_NCCL(ncclSuccess, o->call->fn(&(struct call_args){
						 in, out, o->count, o->payload.type, o->payload.op,
						 o->root, b[o->rank].comm, b[o->rank].stream}));
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	for (o->rank = 0; o->rank < TASK_RANKS; o->rank++) {
		one_place(o, &b[o->rank], &in, &out);
		EXPECT(cudaSetDevice(o->rank) == cudaSuccess);
		EXPECT(cudaStreamSynchronize(b[o->rank].stream) == cudaSuccess);
		one_verify(o, &b[o->rank], in, out);
	}
}

static void task_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm[TASK_RANKS];
	struct buffers b[TASK_RANKS];

	EXPECT_NCCL(ncclSuccess, ncclCommInitAll(comm, TASK_RANKS, NULL));
	for (int r = 0; r < TASK_RANKS; r++)
		task_open(&b[r], comm[r], r);
	for (int i = 0; i < 4 * CALLS; i++) {
		struct one o = {.call = &calls[i / 4],
				.payload = {.type = ncclFloat16,
					    .op = ncclMin,
					    .nranks = TASK_RANKS,
					    .salt = (uint64_t)i},
				.root = i % TASK_RANKS,
				.count = i & 2 ? 9001 : 77,
				.in_place = i & 1};

		task_call(&o, b);
	}
	for (int r = 0; r < TASK_RANKS; r++)
		buffers_close(&b[r]);
}

START_TEST(one_task_drives_all_ranks)
{
	for (uint64_t seed = 1; seed <= 3; seed += SAMPLE_THIN)
		run_at(&places[0], seed, SIM_ENGINE_SIM, NULL, task_rank, NULL);
}
END_TEST

int main(void)
{
	const int n = (int)ARRAY_LEN(places);
	Suite *suite = suite_create("calls");
	TCase *t = tcase_create("places");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, every_type_and_operation, 0, n);
	tcase_add_loop_test(t, counts_that_nothing_divides, 0, n);
	tcase_add_loop_test(t, small_buffers, 0, n);
	tcase_add_loop_test(t, real_threads, 0, n);
	tcase_add_loop_test(t, different_collectives_in_one_group, 0, n);
	tcase_add_test(t, one_task_drives_all_ranks);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
