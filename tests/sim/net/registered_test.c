/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered buffers: the arguments and results of ncclCommRegister and ncclCommDeregister,
 * messages between processes that go straight into what the receiver has registered, and results of
 * collectives that do. Every byte is checked.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sample.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define BYTES  200000u
#define OFFSET 4096u                /* of what is received in its buffer */
#define ALL    (OFFSET + 2 * BYTES) /* 8 * RING_BLOCK, too */
#define ROUNDS 12
#define LIFE   4 /* rounds of a buffer that is renewed: the other rank maps it in the second */

/* How often a probe was hit. */
static uint64_t probe_hits(const char *name)
{
	const struct sim_probe_stat *stats;
	uint32_t n = sim_probe_stats(&stats);

	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(stats[i].name, name))
			return stats[i].hits;
	return 0;
}

/* ---- messages and collectives
 * ------------------------------------------------------------------ */

enum calls {
	MESSAGES,
	ALL_GATHER,
	ALL_REDUCE,
	BROADCAST, /* whose results go in slots */
	CALLS_COUNT,
	MIXED = CALLS_COUNT /* in turns */
};

/* The probe that shows that registered buffers are of use. */
static const char *const used[] = {[MESSAGES] = "registered.put",
				   [ALL_GATHER] = "registered.result",
				   [ALL_REDUCE] = "registered.result",
				   [MIXED] = "registered.result"};

struct traffic {
	enum calls calls;
	bool registers[2]; /* the rank */
	bool renews;       /* other buffers every LIFE rounds */
	bool overlaps;     /* ranges that overlap, and one twice */
	bool leaves;       /* registrations are left at the end */
};

struct side {
	ncclComm_t comm;
	cudaStream_t stream;
	uint8_t *send, *recv;
	void *handle[5];
	int handles;
};

static void side_register(struct side *s, void *buffer, size_t bytes)
{
	EXPECT_NCCL(ncclSuccess, ncclCommRegister(s->comm, buffer, bytes, &s->handle[s->handles]));
	EXPECT(s->handle[s->handles++]);
}

static void side_make(struct side *s, const struct traffic *t, int32_t rank)
{
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc((void **)&s->send, ALL));
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc((void **)&s->recv, ALL));
	s->handles = 0;
	if (!t->registers[rank])
		return;
	side_register(s, s->send, ALL);
	side_register(s, s->recv, ALL);
	if (!t->overlaps)
		return;
	side_register(s, s->recv, ALL);
	EXPECT(s->handle[2] == s->handle[1]);
	side_register(s, s->recv + OFFSET, ALL - OFFSET);
	EXPECT(s->handle[3] != s->handle[1]);
}

static void side_deregister(struct side *s)
{
	for (int i = 0; i < s->handles; i++)
		EXPECT_NCCL(ncclSuccess, ncclCommDeregister(s->comm, s->handle[i]));
}

static void side_free(struct side *s)
{
	EXPECT_NCCL(ncclSuccess, ncclMemFree(s->send));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(s->recv));
}

static uint8_t traffic_byte(int32_t from, int round, size_t k)
{
	return (uint8_t)((size_t)from * 31 + (size_t)round * 57 + k * 13 + (k >> 8));
}

/* Byte k of what the rank receives; both ranks send and receive. */
static uint8_t traffic_result(enum calls calls, int32_t rank, int round, size_t k)
{
	switch (calls) {
	case MESSAGES:
		return traffic_byte(!rank, round, k);
	case ALL_GATHER:
		return traffic_byte((int32_t)(k / BYTES), round, k % BYTES);
	case ALL_REDUCE:
		return (uint8_t)(traffic_byte(0, round, k) + traffic_byte(1, round, k));
	default:
		return traffic_byte(round % 2, round, k);
	}
}

static void side_messages(struct side *s, int32_t peer)
{
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess,
		    ncclSend(s->send + OFFSET, BYTES, ncclInt8, peer, s->comm, s->stream));
	EXPECT_NCCL(ncclSuccess,
		    ncclRecv(s->recv + OFFSET, BYTES, ncclInt8, peer, s->comm, s->stream));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
}

static void side_call(struct side *s, enum calls calls, int32_t rank, int round)
{
	const uint8_t *send = s->send + OFFSET;
	uint8_t *recv = s->recv + OFFSET;

	if (calls == MESSAGES)
		side_messages(s, !rank);
	else if (calls == ALL_GATHER)
		EXPECT_NCCL(ncclSuccess,
			    ncclAllGather(send, recv, BYTES, ncclInt8, s->comm, s->stream));
	else if (calls == ALL_REDUCE)
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(send, recv, BYTES, ncclUint8, ncclSum,
						       s->comm, s->stream));
	else
		EXPECT_NCCL(ncclSuccess, ncclBroadcast(send, recv, BYTES, ncclInt8, round % 2,
						       s->comm, s->stream));
}

/* The bytes before and after the result do not change. */
static void side_check(const uint8_t *host, enum calls calls, int32_t rank, int round)
{
	const size_t bytes = calls == ALL_GATHER ? 2 * BYTES : BYTES;

	for (size_t k = 0; k < OFFSET; k++)
		EXPECT(host[k] == 0xa5);
	for (size_t k = 0; k < bytes; k++)
		EXPECT(host[OFFSET + k] == traffic_result(calls, rank, round, k));
	for (size_t k = OFFSET + bytes; k < ALL; k++)
		EXPECT(host[k] == 0xa5);
}

static void side_round(struct side *s, enum calls calls, int32_t rank, int round)
{
	uint8_t *host = malloc(ALL);

	EXPECT(host);
	calls = calls == MIXED ? (enum calls)(round % CALLS_COUNT) : calls;
	for (size_t k = 0; k < BYTES; k++)
		host[OFFSET + k] = traffic_byte(rank, round, k);
	EXPECT(cudaMemcpy(s->send + OFFSET, host + OFFSET, BYTES, cudaMemcpyHostToDevice) ==
	       cudaSuccess);
	EXPECT(cudaMemset(s->recv, 0xa5, ALL) == cudaSuccess);
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	side_call(s, calls, rank, round);
	EXPECT(cudaStreamSynchronize(s->stream) == cudaSuccess);
	EXPECT(cudaMemcpy(host, s->recv, ALL, cudaMemcpyDeviceToHost) == cudaSuccess);
	side_check(host, calls, rank, round);
	free(host);
}

static void traffic_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct traffic *t = arg;
	struct side s = {.comm = comm_open(rank, nranks, ranks_id())};

	EXPECT(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking) == cudaSuccess);
	side_make(&s, t, rank);
	for (int i = 0; i < ROUNDS; i++) {
		side_round(&s, t->calls, rank, i);
		if (!t->renews || i % LIFE != LIFE - 1)
			continue;
		side_deregister(&s);
		side_free(&s);
		side_make(&s, t, rank);
	}
	if (!t->leaves)
		side_deregister(&s);
	EXPECT(cudaStreamDestroy(s.stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(s.comm));
	side_free(&s);
}

static const char *const simple[] = {"NCCL_PROTO=Simple", "NCCL_ALGO=Ring", NULL};

static uint64_t traffic_run(const struct traffic *t, uint64_t seed, const char *const *env)
{
	struct traffic copy = *t;
	const struct ranks_config c = {.hosts = 1, .per_host = 2, .seed = seed, .env = env};

	ranks_run(&c, traffic_rank, &copy);
	return probe_hits(used[t->calls]); /* of this run */
}

/* Maps a loop index to a kind of call that can use registered buffers. */
#define CALLS_USED 4
static enum calls calls_of(int i)
{
	static const enum calls all[CALLS_USED] = {MESSAGES, ALL_GATHER, ALL_REDUCE, MIXED};

	return all[i];
}

START_TEST(messages_and_results_between_processes_go_straight_into_registered_buffers)
{
	const struct traffic t = {.calls = calls_of(_i), .registers = {true, true}};

	for (uint64_t seed = 1; seed <= 10; seed += SAMPLE_THIN)
		ck_assert_uint_gt(traffic_run(&t, seed, simple), 0);
}
END_TEST

START_TEST(one_rank_alone_that_registers_gets_everything_all_the_same)
{
	for (int rank = 0; rank < 2; rank++) {
		const struct traffic t = {.calls = calls_of(_i),
					  .registers = {rank == 0, rank == 1}};

		ck_assert_uint_eq(traffic_run(&t, 3, simple), 0);
	}
}
END_TEST

START_TEST(buffers_come_and_go)
{
	const struct traffic t = {.calls = calls_of(_i), .registers = {true, true}, .renews = true};
	uint64_t puts = 0;

	for (uint64_t seed = 1; seed <= 20; seed += SAMPLE_THIN)
		puts += traffic_run(&t, seed, simple);
	ck_assert_uint_gt(puts, 0);
}
END_TEST

START_TEST(ranges_overlap_and_repeat)
{
	const struct traffic t = {
		.calls = calls_of(_i), .registers = {true, true}, .overlaps = true};

	ck_assert_uint_gt(traffic_run(&t, 2, simple), 0);
}
END_TEST

START_TEST(communicator_ends_with_registrations_left)
{
	const struct traffic t = {.calls = calls_of(_i), .registers = {true, true}, .leaves = true};

	ck_assert_uint_gt(traffic_run(&t, 2, simple), 0);
}
END_TEST

/* Memory of cuMem, of which the connections are there, needs no rank to wait at the end; a
 * registered buffer does. */
START_TEST(buffers_are_freed_when_the_other_rank_has_closed_them)
{
	static const char *const cumem[] = {"NCCL_PROTO=Simple", "NCCL_ALGO=Ring",
					    "NCCL_CUMEM_ENABLE=1", NULL};
	const struct traffic t = {.calls = calls_of(_i), .registers = {true, true}};

	for (uint64_t seed = 1; seed <= 20; seed += SAMPLE_THIN)
		ck_assert_uint_gt(traffic_run(&t, seed, cumem), 0);
}
END_TEST

/* Both ranks abort at times of their own while they write into each other's buffers, and free
 * them. */
struct aborts {
	enum calls calls;
	uint64_t seed;
};

static void aborted_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct aborts *a = arg;
	const struct traffic t = {.registers = {true, true}};
	struct side s = {.comm = comm_open(rank, nranks, ranks_id())};

	EXPECT(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking) == cudaSuccess);
	side_make(&s, &t, rank);
	for (int i = 0; i < 4; i++)
		side_round(&s, a->calls, rank, i);
	for (int i = 0; i < 3; i++)
		side_call(&s, a->calls, rank, i);
	os_sleep_ns(1000 * (rank ? a->seed * 13 % 50 : a->seed * 7 % 50));
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(s.comm));
	side_free(&s);
	EXPECT(cudaStreamDestroy(s.stream) == cudaSuccess);
}

START_TEST(ranks_that_abort_may_free_their_buffers)
{
	for (uint64_t seed = 1; seed <= 40; seed += SAMPLE_THIN) {
		struct ranks_config c = {.hosts = 1, .per_host = 2, .seed = seed, .env = simple};
		struct aborts a = {_i ? ALL_GATHER : MESSAGES, seed};

		ranks_run(&c, aborted_rank, &a);
		ck_assert_uint_gt(probe_hits(used[a.calls]), 0);
	}
}
END_TEST

/* ---- rings in which a rank comes after many others
 * ----------------------------------------------- */

#define RING_RANKS  8
#define RING_BLOCK  50000u
#define RING_ROUNDS 6

/* Rank 0 comes after ranks 7, 6, 2, 1 and 4: works have no address for the last one. Before that
 * rank 4 comes before rank 5 alone, so it could take the output of rank 0. */
static void rings_write(const char *path)
{
	static const char rings[][RING_RANKS + 1] = {"01234567", "02451376", "03145762",
						     "06453271", "01235674", "07654321"};
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	fprintf(f, "<graphs version=\"1\">\n");
	for (int id = 0; id < 2; id++) {
		fprintf(f,
			"<graph id=\"%d\" pattern=\"%d\" crossnic=\"0\" nchannels=\"%zu\" "
			"speedintra=\"30\" speedinter=\"30\" latencyinter=\"0\" "
			"typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"1\">\n",
			id, id ? 1 : 4, ARRAY_LEN(rings));
		for (size_t c = 0; c < ARRAY_LEN(rings); c++) {
			fprintf(f, "<channel>");
			for (int i = 0; i < RING_RANKS; i++)
				fprintf(f, "<gpu dev=\"%c\"/>", rings[c][i]);
			fprintf(f, "</channel>\n");
		}
		fprintf(f, "</graph>\n");
	}
	fprintf(f, "</graphs>\n");
	ck_assert_int_eq(fclose(f), 0);
}

static void rings_exchange(struct side *s)
{
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int peer = 0; peer < RING_RANKS; peer++) {
		size_t at = (size_t)peer * RING_BLOCK;

		EXPECT_NCCL(ncclSuccess,
			    ncclSend(s->send + at, RING_BLOCK, ncclInt8, peer, s->comm, s->stream));
		EXPECT_NCCL(ncclSuccess,
			    ncclRecv(s->recv + at, RING_BLOCK, ncclInt8, peer, s->comm, s->stream));
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
}

/* An exchange of all ranks, so that each has mapped what every other one has registered, and an
 * all-gather. */
static void rings_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct traffic t = {.registers = {true, true}};
	struct side s = {.comm = comm_open(rank, nranks, ranks_id())};
	const size_t all = RING_RANKS * (size_t)RING_BLOCK;
	uint8_t *host = malloc(all);

	(void)arg;
	EXPECT(host);
	EXPECT(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking) == cudaSuccess);
	side_make(&s, &t, rank % 2);
	for (int round = 0; round < RING_ROUNDS; round++) {
		rings_exchange(&s);
		EXPECT(cudaStreamSynchronize(s.stream) == cudaSuccess);
		EXPECT(cudaMemset(s.send, 16 * round + rank, RING_BLOCK) == cudaSuccess);
		EXPECT(cudaMemset(s.recv, 0xa5, all) == cudaSuccess);
		EXPECT(cudaDeviceSynchronize() == cudaSuccess);
		EXPECT_NCCL(ncclSuccess,
			    ncclAllGather(s.send, s.recv, RING_BLOCK, ncclInt8, s.comm, s.stream));
		EXPECT(cudaStreamSynchronize(s.stream) == cudaSuccess);
		EXPECT(cudaMemcpy(host, s.recv, all, cudaMemcpyDeviceToHost) == cudaSuccess);
		for (size_t k = 0; k < all; k++)
			EXPECT(host[k] == 16 * round + (int)(k / RING_BLOCK));
	}
	free(host);
	side_deregister(&s);
	EXPECT(cudaStreamDestroy(s.stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(s.comm));
	side_free(&s);
}

START_TEST(rank_that_has_no_address_for_another_one_offers_it_nothing)
{
	char path[] = "/tmp/registered_rings_XXXXXX", graph[64];
	const char *env[] = {"NCCL_PROTO=Simple", "NCCL_ALGO=Ring", graph, NULL};
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
	rings_write(path);
	snprintf(graph, sizeof graph, "NCCL_GRAPH_FILE=%s", path);
	for (uint64_t seed = 1; seed <= 4; seed += SAMPLE_THIN) {
		const struct ranks_config c = {
			.hosts = 1, .per_host = RING_RANKS, .seed = seed, .env = env};

		ranks_run(&c, rings_rank, NULL);
		ck_assert_uint_gt(probe_hits("registered.result"), 0);
	}
	unlink(path);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("registered");
	TCase *t = tcase_create("registered");

	tcase_set_timeout(t, 0);
	tcase_add_loop_test(
		t, messages_and_results_between_processes_go_straight_into_registered_buffers, 0,
		CALLS_USED);
	tcase_add_loop_test(t, one_rank_alone_that_registers_gets_everything_all_the_same, 0,
			    CALLS_USED);
	tcase_add_loop_test(t, buffers_come_and_go, 0, CALLS_USED);
	tcase_add_loop_test(t, ranges_overlap_and_repeat, 0, CALLS_USED);
	tcase_add_loop_test(t, communicator_ends_with_registrations_left, 0, CALLS_USED);
	tcase_add_loop_test(t, buffers_are_freed_when_the_other_rank_has_closed_them, 0,
			    CALLS_USED);
	tcase_add_loop_test(t, ranks_that_abort_may_free_their_buffers, 0, 2);
	tcase_add_test(t, rank_that_has_no_address_for_another_one_offers_it_nothing);
	suite_add_tcase(s, t);
	return suite_run(s);
}
