/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group whose calls name two streams: it waits for what each stream holds, and each stream waits for all of it, as
 * if it had been posted on both. Here one stream fills what the second call of the group reads immediately before the
 * group, and one copies its result immediately after; the host waits for that stream alone.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sim/comm_rank.h"
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

int main(void)
{
	Suite *suite = suite_create("group streams");
	TCase *t = tcase_create("streams");

	tcase_add_test(t, messages_are_in_order_with_each_stream_of_their_group);
	tcase_add_test(t, a_message_to_oneself_is_in_order_with_each_stream_of_its_group);
	tcase_add_test(t, collectives_are_in_order_with_each_stream_of_their_group);
	tcase_add_test(t, messages_and_collectives_are_in_order_with_each_stream_of_their_group);
	tcase_add_test(t, copies_of_a_rank_alone_are_in_order_with_each_stream_of_their_group);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
