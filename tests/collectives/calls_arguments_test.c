/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arguments that a collective refuses, for every collective: the error names the call, the
 * argument, its value and what was expected. And calls that two ranks of a communicator do not make
 * alike.
 */
#include <check.h>

#include "tests/collectives/calls.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

enum { COUNT = 64, BYTES = 4096 };

/* A rank, the call under test, and arguments that are right for it. */
struct bad {
	const struct call *call;
	int32_t rank, nranks;
	uint8_t *mem, *more, *other; /* the last: of another device */
	struct call_args good;
};

static void expect_refusal(const struct bad *b, const struct call_args *a, const char *words)
{
	char text[256];

	EXPECT_NCCL(ncclInvalidArgument, b->call->fn(a));
	snprintf(text, sizeof text, "%s: ", b->call->name);
	EXPECT_ERROR_SAYS(text);
	EXPECT_ERROR_SAYS(words);
}

static void bad_values(const struct bad *b)
{
	struct call_args a = b->good;
	char words[128];

	a.comm = NULL;
	expect_refusal(b, &a, "comm is NULL");
	a = b->good;
	a.type = (ncclDataType_t)12;
	expect_refusal(b, &a, "datatype is 12, expected 0 to 11");
	a.type = (ncclDataType_t)-1;
	expect_refusal(b, &a, "datatype is -1, expected 0 to 11");
	a = b->good;
	a.op = (ncclRedOp_t)-1;
	if (b->call->reduces)
		expect_refusal(b, &a, "op is -1, expected 0 to 4");
	a = b->good;
	a.root = b->nranks;
	snprintf(words, sizeof words, "root is %d, expected 0 to %d", a.root, a.root - 1);
	if (b->call->rooted)
		expect_refusal(b, &a, words);
	a.root = -1;
	if (b->call->rooted)
		expect_refusal(b, &a, "root is -1, expected 0 to ");
}

/* The most that memory can hold, of all blocks. */
static void bad_counts(const struct bad *b)
{
	int blocks = MAX_OF(call_blocks(b->call->send_per_rank, b->nranks),
			    call_blocks(b->call->recv_per_rank, b->nranks));
	struct call_args a = b->good;
	char words[128];

	a.count = (size_t)PTRDIFF_MAX / sizeof(int32_t) / (size_t)blocks + 1;
	snprintf(words, sizeof words, "%s is %zu, expected at most %zu", b->call->count, a.count,
		 a.count - 1);
	expect_refusal(b, &a, words);
	a.count = SIZE_MAX;
	snprintf(words, sizeof words, "%s is %zu, expected at most ", b->call->count, a.count);
	expect_refusal(b, &a, words);
}

/* `p`: where the buffer's address is in *a. Buffers that this rank does not use are not looked
 * at. */
static void bad_buffer(const struct bad *b, struct call_args *a, void **p, const char *name)
{
	static int32_t on_host[COUNT];
	void *good = *p;
	char words[128];

	*p = NULL;
	snprintf(words, sizeof words, "%s is NULL", name);
	expect_refusal(b, a, words);
	*p = (uint8_t *)good + 2;
	snprintf(words, sizeof words, "%s %p is not aligned to its type, int32, of 4 bytes", name,
		 *p);
	if (b->call->reduces)
		expect_refusal(b, a, words);
	*p = on_host;
	snprintf(words, sizeof words, "%s %p is host memory, expected memory of device %u", name,
		 *p, comm_device(b->rank));
	expect_refusal(b, a, words);
	*p = b->other;
	snprintf(words, sizeof words, "%s %p is memory of device 7, the communicator's is %u", name,
		 *p, comm_device(b->rank));
	expect_refusal(b, a, words);
	*p = good;
}

static void bad_buffers(const struct bad *b)
{
	struct call_args a = b->good;
	bool root = b->rank == a.root;

	if (root || !b->call->send_root_only)
		bad_buffer(b, &a, (void **)&a.send, "sendbuff");
	if (root || !b->call->recv_root_only)
		bad_buffer(b, &a, &a.recv, "recvbuff");
}

/* Everywhere that the smaller buffer overlaps the larger one, except in place. */
static void bad_overlaps(const struct bad *b)
{
	const size_t block = COUNT * sizeof(int32_t);
	bool swap = b->call->send_per_rank; /* the send buffer is the larger one */
	bool equal = b->call->send_per_rank == b->call->recv_per_rank;
	size_t place = call_place(b->call, b->rank, COUNT) * sizeof(int32_t);
	size_t larger = block * (size_t)(equal ? 1 : b->nranks);
	struct call_args a = b->good;
	char words[64];

	if (b->rank != a.root && (b->call->send_root_only || b->call->recv_root_only))
		return;
	snprintf(words, sizeof words, "+ %zu bytes (in place)", place);
	for (size_t at = 4; at < block + larger; at += 4) {
		uint8_t *large = b->mem + block, *small = b->mem + at;

		if (small == large + place)
			continue;
		a.send = swap ? large : small;
		a.recv = swap ? small : large;
		expect_refusal(b, &a, "overlap, expected no overlap, or ");
		EXPECT_ERROR_SAYS(words);
	}
}

/* Arguments that the last checks accept: in place, adjacent buffers, no elements. */
static void good_calls(const struct bad *b)
{
	struct call_args a = b->good;

	EXPECT_NCCL(ncclSuccess, b->call->fn(&a));
	EXPECT(cudaStreamSynchronize(a.stream) == cudaSuccess);
	a.send = a.recv = NULL;
	a.count = 0;
	EXPECT_NCCL(ncclSuccess, b->call->fn(&a));
}

static void bad_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct bad b = {.rank = rank, .nranks = nranks};
	ncclComm_t comm = NULL;
	cudaStream_t stream;

	comm_buffers(rank, (void **)&b.mem, &stream, BYTES);
	EXPECT(cudaMalloc((void **)&b.more, BYTES) == cudaSuccess);
	EXPECT(cudaSetDevice(7) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&b.other, BYTES) == cudaSuccess);
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	for (int c = 0; c < CALLS; c++) {
		b.call = &calls[c];
		b.good = (struct call_args){b.mem,   b.more,     COUNT, ncclInt32,
					    ncclSum, nranks - 1, comm,  stream};
		bad_values(&b);
		bad_counts(&b);
		bad_buffers(&b);
		bad_overlaps(&b);
		good_calls(&b);
	}
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT(cudaFree(b.more) == cudaSuccess);
	EXPECT(cudaFree(b.other) == cudaSuccess);
	comm_buffers_free(b.mem, stream);
}

START_TEST(what_is_wrong_is_named)
{
	struct ranks_config c = {.hosts = 1, .per_host = (uint32_t)_i, .seed = 1};

	ranks_run(&c, bad_rank, NULL);
}
END_TEST

/* ---- ranks that disagree -------------------------------------------------------------------- */

/* The argument in which rank 1 differs from rank 0. */
enum difference { DIFFERENT_CALL, DIFFERENT_COUNT, DIFFERENT_TYPE, DIFFERENT_OP, DIFFERENT_ROOT };
#define DIFFERENCES 5

struct mismatch {
	const struct call *call;
	enum difference difference;
};

/* false: the call has no such argument. */
static bool mismatch_make(const struct mismatch *m, const struct call **call, struct call_args *a)
{
	switch (m->difference) {
	case DIFFERENT_CALL:
		*call = &calls[(m->call - calls + 1) % CALLS];
		return true;
	case DIFFERENT_COUNT:
		a->count = COUNT - 1;
		return true;
	case DIFFERENT_TYPE:
		a->type = ncclFloat32;
		return true;
	case DIFFERENT_OP:
		a->op = ncclMax;
		return m->call->reduces;
	case DIFFERENT_ROOT:
		a->root = 1;
		return m->call->rooted;
	}
	return false;
}

static void mismatch_text(const struct call *call, const struct call_args *a, char *text,
			  size_t bytes)
{
	char root[24] = "";

	if (call->rooted)
		snprintf(root, sizeof root, " root=%d", a->root);
	snprintf(text, bytes, "%s count=%zu type=%s%s%s at call_%s+0x", call->agree, a->count,
		 a->type == ncclInt32 ? "int32" : "float",
		 !call->reduces     ? ""
		 : a->op == ncclSum ? " op=sum"
				    : " op=max",
		 root, call->agree);
}

static void mismatch_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct mismatch *m = arg;
	const struct call *call = m->call;
	char first[256], second[256], *mem, *more;
	cudaStream_t stream;
	ncclComm_t comm;

	comm_buffers(rank, (void **)&mem, &stream, BYTES);
	EXPECT(cudaMalloc((void **)&more, BYTES) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));

	struct call_args a = {mem, more, COUNT, ncclInt32, ncclSum, 0, comm, stream};
	mismatch_text(call, &a, first, sizeof first);
	if (rank == 1) {
		EXPECT(mismatch_make(m, &call, &a));
		mismatch_text(call, &a, second, sizeof second);
		ranks_barrier();
		EXPECT_NCCL(ncclInvalidUsage, call->fn(&a));
		EXPECT_ERROR_SAYS("ranks 1 and 0 disagree on operation 0 of communicator ");
		EXPECT_ERROR_SAYS("rank 0 called ");
		EXPECT_ERROR_SAYS(first);
		EXPECT_ERROR_SAYS("rank 1 called ");
		EXPECT_ERROR_SAYS(second);
	} else {
		EXPECT_NCCL(ncclSuccess, call->fn(&a));
		ranks_barrier();
	}
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	EXPECT(cudaFree(more) == cudaSuccess);
	comm_buffers_free(mem, stream);
}

static bool mismatch_exists(const struct mismatch *m)
{
	const struct call *call = m->call;
	struct call_args a = {.count = COUNT};

	return mismatch_make(m, &call, &a);
}

START_TEST(ranks_that_disagree_are_named)
{
	for (int d = 0; d < DIFFERENCES; d++) {
		struct mismatch m = {&calls[_i], (enum difference)d};
		struct ranks_config c = {
			.hosts = 1 + d % 2, .per_host = 2 - d % 2, .seed = 1 + (uint64_t)d};

		if (mismatch_exists(&m))
			ranks_run(&c, mismatch_rank, &m);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("calls_arguments");
	TCase *t = tcase_create("arguments");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, what_is_wrong_is_named, 1, 4);
	tcase_add_loop_test(t, ranks_that_disagree_are_named, 0, CALLS);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
