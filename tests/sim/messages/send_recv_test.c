/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives of pairs of ranks, and all-to-all, gather and scatter, in worlds of one to
 * three hosts. Every byte that is received is checked, and the bytes around it.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sample.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define GUARD 64u

/* ---- memory --------------------------------------------------------------------------------- */

/* Byte `k` of the n-th message from one rank to another. */
static uint8_t message_byte(int32_t from, int32_t to, int32_t n, size_t k)
{
	return (uint8_t)((size_t)from * 31 + (size_t)to * 17 + (size_t)n * 7 + k * 13 + (k >> 8));
}

/* A buffer on the device with a guard before and after it, `skew` bytes out of alignment. */
struct message {
	int32_t from, to, n;
	size_t bytes, skew;
	uint8_t *mem, *data;
};

static void message_make(struct message *m, bool filled)
{
	size_t all = 2 * GUARD + m->bytes;
	uint8_t *host = malloc(all);

	ck_assert_ptr_nonnull(host);
	memset(host, 0xa5, all);
	for (size_t k = 0; filled && k < m->bytes; k++)
		host[GUARD + m->skew + k] = message_byte(m->from, m->to, m->n, k);
	EXPECT(cudaMalloc((void **)&m->mem, all) == cudaSuccess);
	EXPECT(cudaMemcpy(m->mem, host, all, cudaMemcpyHostToDevice) == cudaSuccess);
	m->data = m->mem + GUARD + m->skew;
	free(host);
}

static void message_check(const struct message *m)
{
	size_t all = 2 * GUARD + m->bytes;
	uint8_t *host = malloc(all);

	ck_assert_ptr_nonnull(host);
	EXPECT(cudaMemcpy(host, m->mem, all, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (size_t k = 0; k < all; k++) {
		bool inside = k >= GUARD + m->skew && k < GUARD + m->skew + m->bytes;
		uint8_t want =
			inside ? message_byte(m->from, m->to, m->n, k - GUARD - m->skew) : 0xa5;

		if (host[k] == want)
			continue;
		fprintf(stderr,
			"message %d from rank %d to rank %d, %zu bytes: byte %zd is %#x, expected "
			"%#x\n",
			m->n, m->from, m->to, m->bytes, (ssize_t)(k - GUARD - m->skew), host[k],
			want);
		abort();
	}
	free(host);
}

/* ---- drawn messages ------------------------------------------------------------------------- */

#define DRAWN_MOST 400

/* All messages of a world, the same list on every rank. */
struct drawn {
	uint64_t seed;
	int groups; /* that the calls are spread over */
	bool all_reduce;
	int streams;
	struct message list[DRAWN_MOST];
	int group_of[DRAWN_MOST];
	int n;
};

static size_t drawn_bytes(struct sim_rng *rng)
{
	static const size_t some[] = {0, 1, 3, 4096, 4097, 70000, 600001};
	size_t bytes = some[sim_rng_below(rng, ARRAY_LEN(some))];

	return sim_rng_below(rng, 30) ? bytes : 5 * 1024 * 1024 + 77;
}

/* In each group up to three messages from each rank to each, more often none. Both ends of a
 * message are in the same group. */
static void drawn_fill(struct drawn *d, int32_t nranks)
{
	struct sim_rng rng;
	int32_t count[RANKS_MOST][RANKS_MOST] = {{0}};

	sim_rng_seed(&rng, d->seed, "send_recv_test");
	d->n = 0;
	for (int g = 0; g < d->groups; g++) {
		for (int32_t i = 0; i < nranks * nranks; i++) {
			int32_t from = i / nranks, to = i % nranks;
			uint64_t k = sim_rng_below(&rng, 5);

			for (k = k > 2 ? 0 : k; k > 0 && d->n < DRAWN_MOST; k--) {
				struct message *m = &d->list[d->n];

				*m = (struct message){
					.from = from, .to = to, .n = count[from][to]++};
				m->bytes = drawn_bytes(&rng);
				m->skew = sim_rng_below(&rng, 5);
				d->group_of[d->n++] = g;
			}
		}
	}
}

/* A rank's own copies: what it sends, and what it receives. */
struct drawn_rank {
	struct message sent[DRAWN_MOST], received[DRAWN_MOST];
	cudaStream_t stream[3];
	int32_t *sum;
	ncclComm_t comm;
};

static void drawn_calls(const struct drawn *d, struct drawn_rank *r, int32_t rank, int group)
{
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < d->n; i++) {
		struct message *out = &r->sent[i], *in = &r->received[i];
		cudaStream_t stream = r->stream[i % d->streams];

		if (d->group_of[i] != group)
			continue;
		if (in->to == rank)
			EXPECT_NCCL(ncclSuccess, ncclRecv(in->data, in->bytes, ncclUint8, in->from,
							  r->comm, stream));
		if (out->from == rank)
			EXPECT_NCCL(ncclSuccess, ncclSend(out->data, out->bytes, ncclUint8, out->to,
							  r->comm, stream));
		if (d->all_reduce && i % 7 == 0)
			EXPECT_NCCL(ncclSuccess, ncclAllReduce(r->sum, r->sum, 1000, ncclInt32,
							       ncclMax, r->comm, r->stream[0]));
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
}

static void drawn_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct drawn *d = arg;
	struct drawn_rank *r = calloc(1, sizeof *r);

	ck_assert_ptr_nonnull(r);
	r->comm = comm_open(rank, nranks, ranks_id());
	for (int s = 0; s < d->streams; s++)
		EXPECT(cudaStreamCreateWithFlags(&r->stream[s], cudaStreamNonBlocking) ==
		       cudaSuccess);
	EXPECT(cudaMalloc((void **)&r->sum, 4000) == cudaSuccess);
	EXPECT(cudaMemset(r->sum, 1, 4000) == cudaSuccess);
	for (int i = 0; i < d->n; i++) {
		r->sent[i] = r->received[i] = d->list[i];
		if (d->list[i].from == rank)
			message_make(&r->sent[i], true);
		if (d->list[i].to == rank)
			message_make(&r->received[i], false);
	}
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	for (int g = 0; g < d->groups; g++)
		drawn_calls(d, r, rank, g);
	for (int s = 0; s < d->streams; s++)
		EXPECT(cudaStreamSynchronize(r->stream[s]) == cudaSuccess);
	for (int i = 0; i < d->n; i++)
		if (d->list[i].to == rank)
			message_check(&r->received[i]);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r->comm));
	for (int i = 0; i < d->n; i++) {
		EXPECT(cudaFree(r->sent[i].mem) == cudaSuccess);
		EXPECT(cudaFree(r->received[i].mem) == cudaSuccess);
	}
	EXPECT(cudaFree(r->sum) == cudaSuccess);
	for (int s = 0; s < d->streams; s++)
		EXPECT(cudaStreamDestroy(r->stream[s]) == cudaSuccess);
	free(r);
}

static void drawn_run(uint32_t hosts, uint32_t per_host, uint32_t per_proc, uint64_t seed,
		      const char *const *env)
{
	struct ranks_config config = {.hosts = hosts,
				      .per_host = per_host,
				      .per_proc = per_proc,
				      .seed = seed,
				      .env = env};
	struct drawn *d = calloc(1, sizeof *d);

	ck_assert_ptr_nonnull(d);
	d->seed = seed;
	d->groups = 1 + (int)(seed % 3);
	d->all_reduce = seed % 4 == 0;
	d->streams = seed % 5 ? 1 : 3;
	drawn_fill(d, (int32_t)(hosts * per_host));
	ranks_run(&config, drawn_rank, d);
	free(d);
}

START_TEST(messages_between_ranks_of_one_host_arrive)
{
	for (uint64_t seed = 1; seed <= 10; seed += SAMPLE_THIN)
		drawn_run(1, 1 + (uint32_t)(seed % 4), 1 + (uint32_t)(seed % 2), seed, NULL);
}
END_TEST

START_TEST(messages_between_hosts_arrive)
{
	for (uint64_t seed = 11; seed <= 20; seed += SAMPLE_THIN)
		drawn_run(2 + (uint32_t)(seed % 2), 1 + (uint32_t)(seed % 2), 1, seed, NULL);
}
END_TEST

START_TEST(messages_in_one_channel_arrive)
{
	static const char *const one[] = {"NCCL_MAX_CTAS=1", "NCCL_BUFFSIZE=65536", NULL};

	for (uint64_t seed = 21; seed <= 26; seed += SAMPLE_THIN)
		drawn_run(1 + (uint32_t)(seed % 2), 2, 2, seed, one);
}
END_TEST

/* Parts of up to 64 KiB in LL or LL128, in several steps; longer ones in SIMPLE on the same
 * connections. */
START_TEST(messages_in_lines_arrive)
{
	static const char *const lines[] = {"NCCL_PROTO=LL", "NCCL_P2P_LL_THRESHOLD=65536",
					    "NCCL_LL_BUFFSIZE=16384", NULL};
	static const char *const wide[] = {"NCCL_PROTO=LL,LL128", "NCCL_P2P_LL_THRESHOLD=1024",
					   "DOPPEL_P2P_LL128_THRESHOLD=65536",
					   "NCCL_LL128_BUFFSIZE=61440", NULL};

	for (uint64_t seed = 33; seed <= 42; seed += SAMPLE_THIN)
		drawn_run(1 + (uint32_t)(seed % 2), 1 + (uint32_t)(seed % 3),
			  1 + (uint32_t)(seed % 2), seed, seed % 4 < 2 ? lines : wide);
}
END_TEST

/* Ranks of one process and NVLink: straight into the receivers' buffers, short messages in lines on
 * the same connections; or all through slots. */
START_TEST(messages_in_one_process_arrive)
{
	static const char *const put[] = {"NCCL_PROTO=Simple", NULL};
	static const char *const mixed[] = {"NCCL_PROTO=LL", "NCCL_MAX_P2P_NCHANNELS=2", NULL};
	static const char *const staged[] = {"NCCL_PROTO=Simple", "NCCL_BUFFSIZE=65536",
					     "NCCL_P2P_DIRECT_DISABLE=1", NULL};
	static const char *const *const env[] = {put, mixed, staged};

	for (uint64_t seed = 43; seed <= 54; seed += SAMPLE_THIN)
		drawn_run(1, 2 + (uint32_t)(seed % 3), 4, seed, env[seed / 3 % 3]);
}
END_TEST

START_TEST(messages_of_eight_ranks_arrive)
{
	drawn_run(1, 8, 1, 31, NULL);
	drawn_run(2, 4, 2, 32, NULL);
}
END_TEST

/* ---- shapes --------------------------------------------------------------------------------- */

/* Each rank sends `calls` large messages to the next and receives as many from the one before. */
struct circle {
	int calls;
	bool in_group;
};

static void circle_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct circle *c = arg;
	int32_t next = (rank + 1) % nranks, prev = (rank + nranks - 1) % nranks;
	struct message out[4], in[4];
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	cudaStream_t stream;

	EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
	for (int i = 0; i < c->calls; i++) {
		out[i] = (struct message){.from = rank, .to = next, .n = i, .bytes = 9000000};
		in[i] = (struct message){.from = prev, .to = rank, .n = i, .bytes = 9000000};
		message_make(&out[i], true);
		message_make(&in[i], false);
	}
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < c->calls; i++)
		EXPECT_NCCL(ncclSuccess,
			    ncclSend(out[i].data, 9000000, ncclInt8, next, comm, stream));
	for (int i = 0; i < c->calls; i++)
		EXPECT_NCCL(ncclSuccess,
			    ncclRecv(in[i].data, 9000000, ncclInt8, prev, comm, stream));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	for (int i = 0; i < c->calls; i++)
		message_check(&in[i]);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	for (int i = 0; i < c->calls; i++) {
		EXPECT(cudaFree(out[i].mem) == cudaSuccess);
		EXPECT(cudaFree(in[i].mem) == cudaSuccess);
	}
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
}

START_TEST(messages_in_a_circle_do_not_wait_for_each_other)
{
	struct circle c = {.calls = 2};

	for (uint64_t seed = 1; seed <= 3; seed += SAMPLE_THIN) {
		struct ranks_config one = {.hosts = 1, .per_host = 3, .seed = seed};
		struct ranks_config two = {.hosts = 3, .per_host = 1, .seed = seed};

		ranks_run(&one, circle_rank, &c);
		ranks_run(&two, circle_rank, &c);
	}
}
END_TEST

/* Rank 0 sends outside a group, rank 1 receives outside a group, many times: connections are made
 * once, in both directions. */
static void ping_pong_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct message m = {.bytes = 5000};
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	cudaStream_t stream;

	(void)arg;
	EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
	m.from = 0, m.to = 1;
	message_make(&m, rank == 0);
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	for (int i = 0; i < 6; i++) {
		bool sends = (i + rank) % 2 == 0;

		EXPECT_NCCL(ncclSuccess,
			    sends ? ncclSend(m.data, 1250, ncclFloat32, 1 - rank, comm, stream)
				  : ncclRecv(m.data, 1250, ncclFloat32, 1 - rank, comm, stream));
	}
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	message_check(&m);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT(cudaFree(m.mem) == cudaSuccess);
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
}

START_TEST(one_sided_calls_meet)
{
	for (uint64_t seed = 1; seed <= 8; seed += SAMPLE_THIN) {
		struct ranks_config config = {.hosts = 1 + (uint32_t)(seed % 2),
					      .per_host = 2 - (uint32_t)(seed % 2),
					      .per_proc = 1 + (uint32_t)(seed % 4 == 0),
					      .seed = seed};

		ranks_run(&config, ping_pong_rank, NULL);
	}
}
END_TEST

static void non_blocking_poll(ncclComm_t comm)
{
	ncclResult_t state = ncclInProgress;

	while (state == ncclInProgress)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &state));
	EXPECT(state == ncclSuccess);
}

/* The first message of a non-blocking communicator is launched when the poll returns success. */
static void non_blocking_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct message m = {.from = 0, .to = 1, .bytes = 70000};
	ncclUniqueId id = ranks_id();
	cudaStream_t stream;
	ncclComm_t comm;

	(void)arg;
	config.blocking = 0;
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
	EXPECT_NCCL(ncclInProgress, ncclCommInitRankConfig(&comm, nranks, id, rank, &config));
	non_blocking_poll(comm);
	message_make(&m, rank == 0);
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	EXPECT_NCCL(ncclInProgress, rank ? ncclRecv(m.data, m.bytes, ncclUint8, 0, comm, stream)
					 : ncclSend(m.data, m.bytes, ncclUint8, 1, comm, stream));
	non_blocking_poll(comm);
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	message_check(&m);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT(cudaFree(m.mem) == cudaSuccess);
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
}

START_TEST(messages_of_non_blocking_communicators_arrive)
{
	for (uint64_t seed = 1; seed <= 4; seed += SAMPLE_THIN) {
		struct ranks_config config = {.hosts = 1 + (uint32_t)(seed % 2), .seed = seed};

		config.per_host = config.hosts == 2 ? 1 : 2;
		ranks_run(&config, non_blocking_rank, NULL);
	}
}
END_TEST

/* One task drives two ranks; all four send to all. */
static void driver_task(int32_t task, int32_t tasks, void *arg)
{
	int32_t nranks = 2 * tasks;
	ncclUniqueId id = ranks_id();
	ncclComm_t comm[2];
	cudaStream_t stream[2];
	struct message out[2][8], in[2][8];

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < 2; i++) {
		EXPECT(cudaSetDevice(i) == cudaSuccess);
		EXPECT(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking) == cudaSuccess);
		EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm[i], nranks, id, 2 * task + i));
		for (int32_t r = 0; r < nranks; r++) {
			out[i][r] =
				(struct message){.from = 2 * task + i, .to = r, .bytes = 300000};
			in[i][r] = (struct message){.from = r, .to = 2 * task + i, .bytes = 300000};
			message_make(&out[i][r], true);
			message_make(&in[i][r], false);
		}
		EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < 2; i++) {
		for (int32_t r = 0; r < nranks; r++) {
			EXPECT_NCCL(ncclSuccess, ncclSend(out[i][r].data, 300000, ncclUint8, r,
							  comm[i], stream[i]));
			EXPECT_NCCL(ncclSuccess, ncclRecv(in[i][r].data, 300000, ncclUint8, r,
							  comm[i], stream[i]));
		}
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	for (int i = 0; i < 2; i++) {
		EXPECT(cudaSetDevice(i) == cudaSuccess);
		EXPECT(cudaStreamSynchronize(stream[i]) == cudaSuccess);
		for (int32_t r = 0; r < nranks; r++)
			message_check(&in[i][r]);
	}
	for (int i = 0; i < 2; i++)
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[i]));
	for (int i = 0; i < 2; i++) {
		EXPECT(cudaSetDevice(i) == cudaSuccess);
		EXPECT(cudaStreamDestroy(stream[i]) == cudaSuccess);
		for (int32_t r = 0; r < nranks; r++) {
			EXPECT(cudaFree(out[i][r].mem) == cudaSuccess);
			EXPECT(cudaFree(in[i][r].mem) == cudaSuccess);
		}
	}
}

START_TEST(one_task_connects_all_its_ranks)
{
	for (uint64_t seed = 1; seed <= 4; seed += SAMPLE_THIN) {
		struct ranks_config config = {
			.hosts = 1 + (uint32_t)(seed % 3), .per_host = 1, .seed = seed};

		ranks_run(&config, driver_task, NULL);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("send_recv");
	TCase *tc = tcase_create("send_recv");

	tcase_add_test(tc, one_sided_calls_meet);
	tcase_add_test(tc, messages_between_ranks_of_one_host_arrive);
	tcase_add_test(tc, messages_between_hosts_arrive);
	tcase_add_test(tc, messages_in_one_channel_arrive);
	tcase_add_test(tc, messages_in_lines_arrive);
	tcase_add_test(tc, messages_in_one_process_arrive);
	tcase_add_test(tc, messages_of_eight_ranks_arrive);
	tcase_add_test(tc, messages_in_a_circle_do_not_wait_for_each_other);
	tcase_add_test(tc, messages_of_non_blocking_communicators_arrive);
	tcase_add_test(tc, one_task_connects_all_its_ranks);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
