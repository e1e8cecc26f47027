/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that the program makes (ncclRedOpCreatePreMulSum): every type and every collective
 * that reduces, with a factor of its own on each rank, in host and in device memory; when the
 * factor is read; how long an operation lives; and what is refused.
 */
#include <check.h>

#include "core/comm/redops.h"
#include "tests/collectives/calls.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

/* One rank has enough for several blocks of its kernel. */
enum { COUNT = 333, COUNT_ALONE = 20011, BYTES = COUNT_ALONE * 8 };

/* ---- small whole numbers in every type ------------------------------------------------------ */

struct number {
	uint32_t bytes, mantissa, bias; /* no bias: an integer */
};
static const struct number numbers[ncclNumTypes] = {
	[ncclInt8] = {1, 0, 0},       [ncclUint8] = {1, 0, 0},      [ncclInt32] = {4, 0, 0},
	[ncclUint32] = {4, 0, 0},     [ncclInt64] = {8, 0, 0},      [ncclUint64] = {8, 0, 0},
	[ncclFloat16] = {2, 10, 15},  [ncclFloat32] = {4, 23, 127}, [ncclFloat64] = {8, 52, 1023},
	[ncclBfloat16] = {2, 7, 127}, [ncclFloat8e4m3] = {1, 3, 7}, [ncclFloat8e5m2] = {1, 2, 15},
};

static uint64_t number_bits(ncclDataType_t type, uint32_t value)
{
	const struct number *n = &numbers[type];
	uint32_t exponent = 0;

	if (!n->bias || !value)
		return value;
	while (value >> exponent > 1)
		exponent++;
	EXPECT(exponent <= n->mantissa);
	return (uint64_t)(exponent + n->bias) << n->mantissa | (uint64_t)(value - (1u << exponent))
								       << (n->mantissa - exponent);
}

static void number_put(ncclDataType_t type, uint8_t *at, size_t i, uint32_t value)
{
	uint64_t bits = number_bits(type, value);

	memcpy(at + i * numbers[type].bytes, &bits, numbers[type].bytes);
}

/* Sums of eight ranks stay below 8, which the narrowest type holds exactly. */
static uint32_t input(int rank, size_t i)
{
	return (i + (size_t)rank) % 3 == 0;
}

static uint32_t factor(int rank)
{
	return 1 + (uint32_t)rank % 2;
}

static uint32_t result(int nranks, size_t i)
{
	uint32_t sum = 0;

	for (int r = 0; r < nranks; r++)
		sum += factor(r) * input(r, i);
	return sum;
}

/* ---- a rank --------------------------------------------------------------------------------- */

struct side {
	int32_t rank, nranks;
	size_t count;
	ncclComm_t comm;
	cudaStream_t stream;
	uint8_t *send, *recv, *scalar, *host;
};

static void side_open(struct side *s, int32_t rank, int32_t nranks)
{
	*s = (struct side){
		.rank = rank, .nranks = nranks, .count = nranks > 1 ? COUNT : COUNT_ALONE};
	comm_buffers(rank, (void **)&s->send, &s->stream, BYTES);
	EXPECT(cudaMalloc((void **)&s->recv, BYTES) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&s->scalar, 64) == cudaSuccess);
	s->host = malloc(BYTES);
	EXPECT(s->host);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&s->comm, nranks, ranks_id(), rank));
}

static void side_close(struct side *s)
{
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(s->comm));
	EXPECT(cudaFree(s->recv) == cudaSuccess);
	EXPECT(cudaFree(s->scalar) == cudaSuccess);
	comm_buffers_free(s->send, s->stream);
	free(s->host);
}

static void side_copy(struct side *s, void *to, const void *from, size_t bytes)
{
	EXPECT(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s->stream) == cudaSuccess);
	EXPECT(cudaStreamSynchronize(s->stream) == cudaSuccess);
}

static void side_factor(struct side *s, ncclDataType_t type, uint32_t value)
{
	uint64_t bits = number_bits(type, value);

	side_copy(s, s->scalar, &bits, numbers[type].bytes);
}

static ncclRedOp_t side_op(struct side *s, ncclDataType_t type, bool device)
{
	uint64_t bits = number_bits(type, factor(s->rank));
	ncclRedOp_t op = ncclNumOps;

	side_factor(s, type, factor(s->rank));
	EXPECT_NCCL(ncclSuccess,
		    ncclRedOpCreatePreMulSum(&op, device ? (void *)s->scalar : &bits, type,
					     device ? ncclScalarDevice : ncclScalarHostImmediate,
					     s->comm));
	EXPECT((int)op > ncclNumOps && op <= ncclMaxRedOp);
	return op;
}

static void side_fill(struct side *s, const struct call *call, ncclDataType_t type, uint8_t *to)
{
	size_t n = s->count * (size_t)call_blocks(call->send_per_rank, s->nranks);

	for (size_t i = 0; i < n; i++)
		number_put(type, s->host, i, input(s->rank, i));
	side_copy(s, to, s->host, n * numbers[type].bytes);
}

static ncclResult_t side_call(struct side *s, const struct call *call, ncclDataType_t type,
			      ncclRedOp_t op, bool in_place)
{
	size_t block = s->count * numbers[type].bytes;
	uint8_t *recv = in_place ? s->send : s->recv;

	if (in_place && call->send_per_rank)
		recv += (size_t)s->rank * block;
	return call->fn(
		&(struct call_args){s->send, recv, s->count, type, op, 0, s->comm, s->stream});
}

/* `times`: the factors are that much larger than usual. */
static void side_check(struct side *s, const struct call *call, ncclDataType_t type, bool in_place,
		       uint32_t times)
{
	size_t first = call->send_per_rank ? (size_t)s->rank * s->count : 0,
	       size = numbers[type].bytes;
	uint8_t want[8];

	if (call->recv_root_only && s->rank != 0)
		return;
	side_copy(s, s->host, in_place ? s->send + first * size : s->recv, s->count * size);
	for (size_t i = 0; i < s->count; i++) {
		number_put(type, want, 0, times * result(s->nranks, first + i));
		if (memcmp(s->host + i * size, want, size)) {
			fprintf(stderr, "%s, type %d, rank %d of %d, in place %d: element %zu\n",
				call->name, (int)type, s->rank, s->nranks, in_place, i);
			abort();
		}
	}
}

/* ---- results -------------------------------------------------------------------------------- */

static void results_of(struct side *s, const struct call *call)
{
	for (int t = 0; t < ncclNumTypes; t++)
		for (int k = 0; k < 4; k++) {
			ncclDataType_t type = (ncclDataType_t)t;
			bool in_place = k & 1, device = k & 2;
			ncclRedOp_t op = side_op(s, type, device);

			side_fill(s, call, type, s->send);
			EXPECT_NCCL(ncclSuccess, side_call(s, call, type, op, in_place));
			EXPECT_NCCL(ncclSuccess, ncclRedOpDestroy(op, s->comm));
			side_check(s, call, type, in_place, 1);
		}
}

static void results_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct side s;

	side_open(&s, rank, nranks);
	for (int c = 0; c < CALLS; c++)
		if (calls[c].reduces)
			results_of(&s, &calls[c]);
	side_close(&s);
}

static const struct {
	uint32_t hosts, per_host;
} places[] = {{1, 1}, {1, 2}, {2, 1}, {1, 3}, {2, 4}};

START_TEST(every_type_is_multiplied_before_the_sum)
{
	struct ranks_config c = {
		.hosts = places[_i].hosts, .per_host = places[_i].per_host, .seed = 1};

	ranks_run(&c, results_rank, NULL);
	c.engine = SIM_ENGINE_THREADS;
	ranks_run(&c, results_rank, NULL);
}
END_TEST

/* A factor in device memory is read when the kernel runs, one in host memory when the operation is
 * made. */
static void when_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct call *call = &calls[0];
	uint32_t bits = factor(rank);
	ncclRedOp_t device, host;
	struct side s;

	side_open(&s, rank, nranks);
	side_fill(&s, call, ncclUint32, s.send);
	device = side_op(&s, ncclUint32, true);
	EXPECT_NCCL(ncclSuccess, ncclRedOpCreatePreMulSum(&host, &bits, ncclUint32,
							  ncclScalarHostImmediate, s.comm));
	bits = 1000;
	side_factor(&s, ncclUint32, 7 * factor(rank));
	EXPECT_NCCL(ncclSuccess, side_call(&s, call, ncclUint32, device, false));
	side_check(&s, call, ncclUint32, false, 7);
	EXPECT_NCCL(ncclSuccess, side_call(&s, call, ncclUint32, host, false));
	side_check(&s, call, ncclUint32, false, 1);
	/* in order of the stream, without a wait of the host in between */
	EXPECT(cudaMemsetAsync(s.scalar, 0, 4, s.stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, side_call(&s, call, ncclUint32, device, false));
	side_check(&s, call, ncclUint32, false, 0);
	side_close(&s);
}

START_TEST(a_factor_in_device_memory_is_read_when_the_collective_runs)
{
	for (uint32_t per_host = 1; per_host <= 2; per_host++) {
		struct ranks_config c = {.hosts = 1, .per_host = per_host, .seed = 1};

		ranks_run(&c, when_rank, NULL);
	}
}
END_TEST

/* An operation may be destroyed once it was given to a call, also within a group; its communicator
 * takes those that are left. */
static void life_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct call *call = &calls[0];
	ncclRedOp_t op, next;
	struct side s;

	side_open(&s, rank, nranks);
	side_fill(&s, call, ncclInt32, s.send);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	op = side_op(&s, ncclInt32, false);
	EXPECT_NCCL(ncclSuccess, side_call(&s, call, ncclInt32, op, false));
	EXPECT_NCCL(ncclSuccess, ncclRedOpDestroy(op, s.comm));
	next = side_op(&s, ncclInt64, false); /* in the same place, and another number */
	EXPECT(next != op);
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	side_check(&s, call, ncclInt32, false, 1);
	EXPECT_NCCL(ncclInvalidArgument, side_call(&s, call, ncclInt32, op, false));
	EXPECT_ERROR_SAYS("ncclAllReduce: op is ");
	EXPECT_ERROR_SAYS("which ncclRedOpDestroy has destroyed, or which was never made");
	side_close(&s);
}

START_TEST(an_operation_is_needed_until_the_call_returns)
{
	struct ranks_config c = {.hosts = 1, .per_host = 2, .seed = 1};

	ranks_run(&c, life_rank, NULL);
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------------- */

#define REFUSED(call, words)                                                                       \
	do {                                                                                       \
		EXPECT_NCCL(ncclInvalidArgument, call);                                            \
		EXPECT_ERROR_SAYS(words);                                                          \
	} while (0)

static void refuse_making(struct side *s)
{
	ncclRedOp_t op;
	float f = 1;

	REFUSED(ncclRedOpCreatePreMulSum(NULL, &f, ncclFloat, ncclScalarHostImmediate, s->comm),
		"ncclRedOpCreatePreMulSum: op is NULL");
	REFUSED(ncclRedOpCreatePreMulSum(&op, NULL, ncclFloat, ncclScalarHostImmediate, s->comm),
		"ncclRedOpCreatePreMulSum: scalar is NULL");
	REFUSED(ncclRedOpCreatePreMulSum(&op, &f, (ncclDataType_t)12, ncclScalarHostImmediate,
					 s->comm),
		"datatype is 12, expected 0 to 11");
	REFUSED(ncclRedOpCreatePreMulSum(&op, &f, ncclFloat, (ncclScalarResidence_t)2, s->comm),
		"residence is 2, expected 0 (ncclScalarDevice) or 1 (ncclScalarHostImmediate)");
	REFUSED(ncclRedOpCreatePreMulSum(&op, &f, ncclFloat, ncclScalarHostImmediate, NULL),
		"ncclRedOpCreatePreMulSum: comm is NULL");
	REFUSED(ncclRedOpCreatePreMulSum(&op, &f, ncclFloat, ncclScalarDevice, s->comm),
		"is host memory, expected memory of device");
	REFUSED(ncclRedOpCreatePreMulSum(&op, s->scalar + 2, ncclFloat, ncclScalarDevice, s->comm),
		"is not aligned to its type, float, of 4 bytes");
	REFUSED(ncclRedOpCreatePreMulSum(&op, s->scalar, ncclFloat, ncclScalarHostImmediate,
					 s->comm),
		"expected host memory, which residence ncclScalarHostImmediate means");
}

static void refuse_using(struct side *s, ncclRedOp_t other)
{
	const struct call *call = &calls[0];
	ncclRedOp_t op = side_op(s, ncclFloat, false);

	REFUSED(side_call(s, call, ncclDouble, op, true),
		"ncclAllReduce: datatype is double, expected float: op ");
	REFUSED(side_call(s, call, ncclFloat, other, true),
		"which was not made for this communicator, expected 0 to 4 or one from");
	REFUSED(side_call(s, call, ncclFloat, (ncclRedOp_t)(op + 1), true),
		"which ncclRedOpDestroy has destroyed, or which was never made");
	REFUSED(side_call(s, call, ncclFloat, ncclMaxRedOp, true), "was not made for this");
	REFUSED(ncclRedOpDestroy(other, s->comm), "ncclRedOpDestroy: op is ");
	REFUSED(ncclRedOpDestroy(ncclAvg, s->comm),
		"ncclRedOpDestroy: op is 4, expected one from ncclRedOpCreatePreMulSum");
	REFUSED(ncclRedOpDestroy((ncclRedOp_t)-3, s->comm), "op is -3, expected one from");
	REFUSED(ncclRedOpDestroy(op, NULL), "ncclRedOpDestroy: comm is NULL");
	EXPECT_NCCL(ncclSuccess, ncclRedOpDestroy(op, s->comm));
	REFUSED(ncclRedOpDestroy(op, s->comm), "which ncclRedOpDestroy has destroyed");
}

/* The most that exist at the same time; a place that was given back is used again. */
static void refuse_too_many(struct side *s)
{
	float f = 1;
	ncclRedOp_t op = ncclSum, more;

	for (int i = 1; i < COMM_MAX_OPS; i++) /* side_op made one */
		EXPECT_NCCL(ncclSuccess,
			    ncclRedOpCreatePreMulSum(&op, &f, ncclFloat, ncclScalarHostImmediate,
						     s->comm));
	EXPECT_NCCL(ncclInvalidUsage, ncclRedOpCreatePreMulSum(&more, &f, ncclFloat,
							       ncclScalarHostImmediate, s->comm));
	EXPECT_ERROR_SAYS("4096 operations of this communicator exist, expected fewer");
	for (int i = 0; i < 600; i++) {
		EXPECT_NCCL(ncclSuccess, ncclRedOpDestroy(op, s->comm));
		EXPECT_NCCL(ncclSuccess,
			    ncclRedOpCreatePreMulSum(&more, &f, ncclFloat, ncclScalarHostImmediate,
						     s->comm));
		EXPECT(more != op);
		op = more;
	}
}

/* Ranks of one process: the other communicator is the other rank's, or one more of this rank. */
static void refuse_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclRedOp_t *made = arg;
	ncclComm_t more;
	struct side s;

	side_open(&s, rank, nranks);
	made[rank] = side_op(&s, ncclFloat, false);
	ncclUniqueId id = ranks_id();
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&more, nranks, id, rank));
	for (int turn = 0; turn < nranks; turn++) { /* the last error is the process' */
		ranks_barrier();
		if (turn != rank)
			continue;
		refuse_making(&s);
		refuse_using(&s, made[1 - rank]);
		REFUSED(ncclRedOpDestroy(made[rank], more), "which was not made for this comm");
		refuse_too_many(&s);
	}
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(more));
	side_close(&s);
	REFUSED(ncclRedOpDestroy(made[rank], s.comm), "ncclRedOpDestroy: comm is not a communic");
}

START_TEST(what_is_wrong_is_named)
{
	struct ranks_config c = {.hosts = 1, .per_host = 2, .per_proc = 2, .seed = 1};
	ncclRedOp_t made[2];

	ranks_run(&c, refuse_rank, made);
}
END_TEST

/* Factors and numbers may differ between ranks; a sum is another operation. */
static void agree_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct call *call = &calls[0];
	struct side s;

	side_open(&s, rank, nranks);
	if (rank == 1) {
		(void)side_op(&s, ncclInt32, false); /* the numbers of the operations differ */
		ranks_barrier();
		EXPECT_NCCL(ncclInvalidUsage, side_call(&s, call, ncclInt32, ncclSum, true));
		EXPECT_ERROR_SAYS("rank 1 called all_reduce count=333 type=int32 op=sum at ");
		EXPECT_ERROR_SAYS(
			"rank 0 called all_reduce count=333 type=int32 op=premul_sum at ");
		EXPECT_NCCL(ncclSuccess,
			    side_call(&s, call, ncclInt32, side_op(&s, ncclInt32, false), true));
	} else {
		EXPECT_NCCL(ncclSuccess,
			    side_call(&s, call, ncclInt32, side_op(&s, ncclInt32, false), true));
		ranks_barrier();
	}
	side_close(&s);
}

START_TEST(a_sum_and_a_premultiplied_sum_disagree)
{
	struct ranks_config c = {.hosts = 1, .per_host = 2, .seed = 1};

	ranks_run(&c, agree_rank, NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("redop");
	TCase *t = tcase_create("premul_sum");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, every_type_is_multiplied_before_the_sum, 0, ARRAY_LEN(places));
	tcase_add_test(t, a_factor_in_device_memory_is_read_when_the_collective_runs);
	tcase_add_test(t, an_operation_is_needed_until_the_call_returns);
	tcase_add_test(t, what_is_wrong_is_named);
	tcase_add_test(t, a_sum_and_a_premultiplied_sum_disagree);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
