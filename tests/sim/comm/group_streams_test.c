/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group whose calls name several streams: it waits for what each stream holds, and each stream
 * waits for all of it, as if it had been posted on all of them. Here one stream fills what a call
 * of the group reads immediately before the group, and one copies its result immediately after; the
 * host waits for the streams that copy alone.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

enum { BYTES = 64 << 10, FILLS = 8, ROUNDS = 3 };

/* Buffers of the device, BYTES each. */
struct buffers {
	uint8_t *pattern[2]; /* what is sent in even and odd rounds */
	uint8_t *out, *in, *copy, *small;
};

static void buffer_make(uint8_t **mem, int value)
{
	EXPECT(cudaMalloc((void **)mem, BYTES) == cudaSuccess);
	EXPECT(cudaMemset(*mem, value, BYTES) == cudaSuccess);
}

static void buffers_make(struct buffers *b)
{
	buffer_make(&b->pattern[0], 1);
	buffer_make(&b->pattern[1], 2);
	buffer_make(&b->out, 0);
	buffer_make(&b->in, 0);
	buffer_make(&b->copy, 0);
	buffer_make(&b->small, 0);
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
}

static void buffers_free(struct buffers *b)
{
	uint8_t *all[] = {b->pattern[0], b->pattern[1], b->out, b->in, b->copy, b->small};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		EXPECT(cudaFree(all[i]) == cudaSuccess);
}

static void device_copy(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
	EXPECT(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream) == cudaSuccess);
}

/* In several copies, the last of which is late. */
static void out_fill(const struct buffers *b, int round, cudaStream_t stream)
{
	for (int i = 0; i < FILLS; i++)
		device_copy(b->out + i * (BYTES / FILLS), b->pattern[round % 2], BYTES / FILLS,
			    stream);
}

static void copy_check(const struct buffers *b, int32_t rank, int round)
{
	uint8_t *host = malloc(BYTES);

	ck_assert_ptr_nonnull(host);
	EXPECT(cudaMemcpy(host, b->copy, BYTES, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (size_t k = 0; k < BYTES; k++) {
		if (host[k] == 1 + round % 2)
			continue;
		fprintf(stderr, "rank %d, round %d: byte %zu is %u, expected %d\n", rank, round, k,
			host[k], 1 + round % 2);
		abort();
	}
	free(host);
}

/* The calls of the group, and the streams of the copies before and after it. */
enum kind { MESSAGE, TO_SELF, COLLECTIVE };

struct order {
	enum kind first, second; /* in streams 0 and 1 */
	int filled,
		read; /* the streams that fill the input, and copy the result, of the second call */
};

/* All ranks have the same input, and each expects it. */
static void streams_call(enum kind kind, uint8_t *in, uint8_t *out, size_t bytes, int32_t rank,
			 int32_t nranks, ncclComm_t comm, cudaStream_t stream)
{
	int32_t peer = kind == TO_SELF || nranks == 1 ? rank : 1 - rank;

	if (kind == COLLECTIVE) {
		EXPECT_NCCL(ncclSuccess,
			    ncclAllReduce(in, out, bytes, ncclUint8, ncclMax, comm, stream));
		return;
	}
	EXPECT_NCCL(ncclSuccess, ncclSend(in, bytes, ncclUint8, peer, comm, stream));
	EXPECT_NCCL(ncclSuccess, ncclRecv(out, bytes, ncclUint8, peer, comm, stream));
}

static void streams_round(const struct buffers *b, const struct order *o, int32_t rank,
			  int32_t nranks, int round, ncclComm_t comm, const cudaStream_t stream[2])
{
	out_fill(b, round, stream[o->filled]);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	streams_call(o->first, b->small, b->small + 64, 8, rank, nranks, comm, stream[0]);
	streams_call(o->second, b->out, b->in, BYTES, rank, nranks, comm, stream[1]);
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	device_copy(b->copy, b->in, BYTES, stream[o->read]);
	EXPECT(cudaStreamSynchronize(stream[o->read]) == cudaSuccess);
	copy_check(b, rank, round);
}

static void streams_rank(int32_t rank, int32_t nranks, void *order)
{
	cudaStream_t stream[2];
	ncclComm_t comm;
	struct buffers b;

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	for (int i = 0; i < 2; i++)
		EXPECT(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking) == cudaSuccess);
	buffers_make(&b);
	for (int round = 0; round < ROUNDS; round++)
		streams_round(&b, order, rank, nranks, round, comm, stream);
	for (int i = 0; i < 2; i++)
		EXPECT(cudaStreamSynchronize(stream[i]) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	for (int i = 0; i < 2; i++)
		EXPECT(cudaStreamDestroy(stream[i]) == cudaSuccess);
	buffers_free(&b);
}

/* In each stream before and after, on one host and two, or a rank alone. */
static void streams_run(enum kind first, enum kind second, uint32_t nranks)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct ranks_config config = {.hosts = seed % 3 ? 1 : nranks,
					      .per_host = seed % 3 ? nranks : 1,
					      .seed = seed};
		struct order order = {.first = first,
				      .second = second,
				      .filled = (int)(seed % 2),
				      .read = (int)(seed / 2 % 2)};

		ranks_run(&config, streams_rank, &order);
	}
}

START_TEST(messages_are_in_order_with_each_stream_of_their_group)
{
	streams_run(MESSAGE, MESSAGE, 2);
}
END_TEST

START_TEST(a_message_to_oneself_is_in_order_with_each_stream_of_its_group)
{
	streams_run(MESSAGE, TO_SELF, 2);
}
END_TEST

START_TEST(collectives_are_in_order_with_each_stream_of_their_group)
{
	streams_run(COLLECTIVE, COLLECTIVE, 2);
}
END_TEST

START_TEST(messages_and_collectives_are_in_order_with_each_stream_of_their_group)
{
	streams_run(COLLECTIVE, MESSAGE, 2);
	streams_run(MESSAGE, COLLECTIVE, 2);
}
END_TEST

START_TEST(copies_of_a_rank_alone_are_in_order_with_each_stream_of_their_group)
{
	streams_run(COLLECTIVE, COLLECTIVE, 1);
	streams_run(COLLECTIVE, MESSAGE, 1);
}
END_TEST

/* ---- more streams, several communicators, calls of all kinds --------------------------------- */

enum { MANY_CALLS = 12, MANY_COMMS = 2, MANY_STREAMS = 5, MANY_BYTES = 4096, MANY_ROUNDS = 3 };

/* One call of a group. Its input is filled in one of the streams that the group's calls on the same
 * communicator name, and its result is copied in one. */
struct many_call {
	enum kind kind;
	int comm, stream, filled, read;
};

struct many {
	bool nonblocking;
	uint64_t seed;
};

/* A rank's side. */
struct many_rank {
	int32_t rank, nranks;
	ncclComm_t comm[MANY_COMMS];
	cudaStream_t stream[MANY_STREAMS];
	uint8_t *pattern, *in, *out, *copy; /* pattern: MANY_ROUNDS of them */
};

static int many_stream_of(const struct many_call *calls, int comm, struct sim_rng *rng)
{
	int n = 0, stream = -1;

	for (int i = 0; i < MANY_CALLS; i++)
		if (calls[i].comm == comm && sim_rng_below(rng, (uint64_t)++n) == 0)
			stream = calls[i].stream;
	return stream;
}

/* The same on all ranks. */
static void many_draw(uint64_t seed, int round, struct many_call *calls)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed + (uint64_t)round, "many streams");
	for (int i = 0; i < MANY_CALLS; i++) {
		calls[i].kind = (enum kind)sim_rng_below(&rng, 3);
		calls[i].comm = (int)sim_rng_below(&rng, MANY_COMMS);
		calls[i].stream = (int)sim_rng_below(&rng, MANY_STREAMS);
	}
	for (int i = 0; i < MANY_CALLS; i++) {
		calls[i].filled = many_stream_of(calls, calls[i].comm, &rng);
		calls[i].read = many_stream_of(calls, calls[i].comm, &rng);
	}
}

static uint8_t many_byte(int round, int call)
{
	return (uint8_t)(1 + round * MANY_CALLS + call);
}

static void many_make(struct many_rank *m)
{
	size_t bytes = (size_t)MANY_CALLS * MANY_BYTES;

	EXPECT(cudaMalloc((void **)&m->pattern, MANY_ROUNDS * bytes) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&m->in, bytes) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&m->out, bytes) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&m->copy, bytes) == cudaSuccess);
	for (int round = 0; round < MANY_ROUNDS; round++)
		for (int i = 0; i < MANY_CALLS; i++)
			EXPECT(cudaMemset(m->pattern + round * bytes + (size_t)i * MANY_BYTES,
					  many_byte(round, i), MANY_BYTES) == cudaSuccess);
	for (int i = 0; i < MANY_STREAMS; i++)
		EXPECT(cudaStreamCreateWithFlags(&m->stream[i], cudaStreamNonBlocking) ==
		       cudaSuccess);
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
}

static void many_free(struct many_rank *m)
{
	for (int i = 0; i < MANY_STREAMS; i++)
		EXPECT(cudaStreamDestroy(m->stream[i]) == cudaSuccess);
	EXPECT(cudaFree(m->pattern) == cudaSuccess && cudaFree(m->in) == cudaSuccess);
	EXPECT(cudaFree(m->out) == cudaSuccess && cudaFree(m->copy) == cudaSuccess);
}

/* Until the launches of a non-blocking communicator are made: only then the program may use the
 * streams. */
static void many_settle(const struct many_rank *m)
{
	for (int i = 0; i < MANY_COMMS; i++) {
		ncclResult_t state = ncclInProgress;

		while (state == ncclInProgress)
			EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(m->comm[i], &state));
		EXPECT_NCCL(ncclSuccess, state);
	}
}

static void many_post(const struct many_rank *m, const struct many_call *calls)
{
	ncclResult_t rc;

	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < MANY_CALLS; i++)
		streams_call(calls[i].kind, m->in + i * MANY_BYTES, m->out + i * MANY_BYTES,
			     MANY_BYTES, m->rank, m->nranks, m->comm[calls[i].comm],
			     m->stream[calls[i].stream]);
	rc = ncclGroupEnd();
	EXPECT(rc == ncclSuccess || rc == ncclInProgress);
	many_settle(m);
}

static void many_check(const struct many_rank *m, int round)
{
	static const size_t bytes = (size_t)MANY_CALLS * MANY_BYTES;
	uint8_t *host = malloc(bytes);

	ck_assert_ptr_nonnull(host);
	EXPECT(cudaMemcpy(host, m->copy, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (size_t k = 0; k < bytes; k++) {
		uint8_t want = many_byte(round, (int)(k / MANY_BYTES));

		if (host[k] == want)
			continue;
		fprintf(stderr, "rank %d, round %d, call %zu: byte %zu is %u, expected %u\n",
			m->rank, round, k / MANY_BYTES, k % MANY_BYTES, host[k], want);
		abort();
	}
	free(host);
}

static void many_round(const struct many_rank *m, uint64_t seed, int round)
{
	const uint8_t *pattern = m->pattern + (size_t)round * MANY_CALLS * MANY_BYTES;
	struct many_call calls[MANY_CALLS];

	many_draw(seed, round, calls);
	for (int i = 0; i < MANY_CALLS; i++)
		device_copy(m->in + i * MANY_BYTES, pattern + i * MANY_BYTES, MANY_BYTES,
			    m->stream[calls[i].filled]);
	many_post(m, calls);
	for (int i = 0; i < MANY_CALLS; i++)
		device_copy(m->copy + i * MANY_BYTES, m->out + i * MANY_BYTES, MANY_BYTES,
			    m->stream[calls[i].read]);
	for (int i = 0; i < MANY_CALLS; i++)
		EXPECT(cudaStreamSynchronize(m->stream[calls[i].read]) == cudaSuccess);
	many_check(m, round);
}

static void many_run_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct many *many = arg;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct many_rank m = {.rank = rank, .nranks = nranks};

	config.blocking = !many->nonblocking;
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	for (int i = 0; i < MANY_COMMS; i++) {
		ncclResult_t rc =
			ncclCommInitRankConfig(&m.comm[i], nranks, ranks_id(), rank, &config);

		EXPECT(rc == ncclSuccess || rc == ncclInProgress);
		ranks_barrier();
	}
	many_settle(&m);
	many_make(&m);
	for (int round = 0; round < MANY_ROUNDS; round++)
		many_round(&m, many->seed, round);
	for (int i = 0; i < MANY_COMMS; i++)
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(m.comm[i]));
	many_free(&m);
}

static void many_run(enum sim_engine engine, bool nonblocking, uint64_t seeds)
{
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		bool two = seed % 3 == 0;
		struct ranks_config config = {.hosts = two ? 2 : 1,
					      .per_host = two ? 1 : 2,
					      .per_proc = seed % 3 == 1 ? 2 : 1,
					      .engine = engine,
					      .seed = seed};
		struct many many = {.nonblocking = nonblocking, .seed = seed};

		ranks_run(&config, many_run_rank, &many);
	}
}

START_TEST(groups_of_drawn_calls_are_in_order_with_all_their_streams)
{
	many_run(SIM_ENGINE_SIM, _i, 12);
}
END_TEST

START_TEST(groups_of_drawn_calls_are_in_order_on_real_threads)
{
	many_run(SIM_ENGINE_THREADS, _i, 3);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("group streams");
	TCase *t = tcase_create("streams");

	tcase_add_test(t, messages_are_in_order_with_each_stream_of_their_group);
	tcase_add_test(t, a_message_to_oneself_is_in_order_with_each_stream_of_its_group);
	tcase_add_test(t, collectives_are_in_order_with_each_stream_of_their_group);
	tcase_add_test(t, messages_and_collectives_are_in_order_with_each_stream_of_their_group);
	tcase_add_test(t, copies_of_a_rank_alone_are_in_order_with_each_stream_of_their_group);
	tcase_add_loop_test(t, groups_of_drawn_calls_are_in_order_with_all_their_streams, 0, 2);
	tcase_add_loop_test(t, groups_of_drawn_calls_are_in_order_on_real_threads, 0, 2);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
