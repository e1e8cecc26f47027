/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of a group that are called with several streams: they wait for what each stream holds,
 * and each stream waits for all of them. Here a stream fills what it sends immediately before the group,
 * and copies what it received immediately after; the host waits for that stream alone.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sim/comm_rank.h"
#include "tests/suite.h"

enum { BYTES = 64 << 10, FILLS = 8, ROUNDS = 3 };

/* Of the device, BYTES each. */
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

/* The group's launches are in the stream of its first message: the other one. */
static void streams_round(const struct buffers *b, int32_t rank, int32_t peer, int round,
			  ncclComm_t comm, const cudaStream_t stream[2])
{
	out_fill(b, round, stream[1]);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, rank % 2 ? ncclRecv(b->small, 8, ncclInt8, 0, comm, stream[0])
					  : ncclSend(b->small, 8, ncclInt8, 1, comm, stream[0]));
	EXPECT_NCCL(ncclSuccess, ncclSend(b->out, BYTES, ncclInt8, peer, comm, stream[1]));
	EXPECT_NCCL(ncclSuccess, ncclRecv(b->in, BYTES, ncclInt8, peer, comm, stream[1]));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	device_copy(b->copy, b->in, BYTES, stream[1]);
	EXPECT(cudaStreamSynchronize(stream[1]) == cudaSuccess);
	copy_check(b, rank, round);
}

/* `to_self`: the large messages are each rank's own. */
static void streams_rank(int32_t rank, int32_t nranks, void *to_self)
{
	int32_t peer = to_self ? rank : 1 - rank;
	cudaStream_t stream[2];
	ncclComm_t comm;
	struct buffers b;

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	for (int i = 0; i < 2; i++)
		EXPECT(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking) == cudaSuccess);
	buffers_make(&b);
	for (int round = 0; round < ROUNDS; round++)
		streams_round(&b, rank, peer, round, comm, stream);
	EXPECT(cudaStreamSynchronize(stream[0]) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	for (int i = 0; i < 2; i++)
		EXPECT(cudaStreamDestroy(stream[i]) == cudaSuccess);
	buffers_free(&b);
}

static void streams_run(void *to_self)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config config = {.hosts = 1 + (uint32_t)(seed % 3 == 0),
					      .per_host = 2 - (uint32_t)(seed % 3 == 0),
					      .seed = seed};

		ranks_run(&config, streams_rank, to_self);
	}
}

START_TEST(a_groups_messages_are_in_order_with_each_of_its_streams)
{
	streams_run(NULL);
}
END_TEST

START_TEST(a_message_to_oneself_is_in_order_with_its_stream)
{
	static bool to_self = true;

	streams_run(&to_self);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("message streams");
	TCase *t = tcase_create("streams");

	tcase_add_test(t, a_groups_messages_are_in_order_with_each_of_its_streams);
	tcase_add_test(t, a_message_to_oneself_is_in_order_with_its_stream);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
