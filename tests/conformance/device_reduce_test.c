/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dev_reduce_copy against reduce_copy.h's reference, bit by bit: all types and operations, one and
 * two sources and destinations, in place, counts that no pack divides, and pointers aligned to the
 * element only. On the double this checks how threads share the work; on a GPU it checks that the
 * two implementations agree.
 */
#include "tests/device_harness.h"

#include "core/device/reduce/reduce_copy_host.h"
#include "tests/conformance/device_kernels.h"

DEVICE_KERNEL_DECLARE(reduce);

#define MAX_BYTES (1u << 20)
#define GUARD     64

struct arena {
	uint8_t *dev[4], *host[4]; /* two sources, two destinations */
	cudaStream_t stream;
};

static uint64_t rng_state;

static uint64_t rng(void)
{
	uint64_t z = rng_state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Random bits; every 16 bytes, some bytes that make infinities, NaNs, zeros and small numbers. */
static void fill(uint8_t *p, size_t n)
{
	static const uint8_t edge[] = {0x00, 0x80, 0x7f, 0xff, 0x7c, 0x7e, 0x01, 0x3c};

	for (size_t i = 0; i < n; i++) {
		uint64_t r = rng();

		p[i] = r & 0x700 ? (uint8_t)r : edge[r >> 11 & 7];
	}
}

static uint64_t scale_of(enum dev_type type, enum dev_op op)
{
	if (op == DEV_SUM_POSTDIV)
		return 3;
	switch (type) {
	case DEV_F16:
		return rc_f16_of_f32(1.0f / 3);
	case DEV_BF16:
		return rc_bf16_of_f32(1.0f / 3);
	case DEV_F8E4M3:
		return rc_f8e4m3_of_f32(1.0f / 3);
	case DEV_F8E5M2:
		return rc_f8e5m2_of_f32(1.0f / 3);
	case DEV_F32:
		return rc_bits_of_f32(1.0f / 3);
	case DEV_F64:
		return rc_bits_of_f64(1.0 / 3);
	default:
		return 3;
	}
}

static bool type_is_integer(enum dev_type type)
{
	return type <= DEV_U64;
}

static void compare(const struct device_run *r, struct arena *m, const struct rc_job *job,
		    uint32_t offset)
{
	size_t bytes = offset + job->count * steps_type_bytes(job->type) + GUARD;
	static uint8_t got[MAX_BYTES + 2 * GUARD];

	for (int i = 0; i < job->ndst; i++) {
		const uint8_t *want = m->host[2 + i];

		CUDA_OK(cudaMemcpy(got, m->dev[2 + i], bytes, cudaMemcpyDeviceToHost));
		for (size_t at = 0; at < bytes; at++)
			CHECK(got[at] == want[at],
			      "%s: type %d op %d nsrc %d ndst %d post %d count %llu offset %u: "
			      "destination %d byte %zu is %#x, expected %#x",
			      r->where, job->type, job->op, job->nsrc, job->ndst, job->post,
			      (unsigned long long)job->count, offset, i, at, got[at], want[at]);
	}
}

/* in_place: the first destination is the first source. */
static void one(const struct device_run *r, struct arena *m, struct rc_job job, uint32_t offset,
		bool in_place, int warps)
{
	size_t bytes = offset + job.count * steps_type_bytes(job.type) + GUARD;
	struct reduce_args a;

	CHECK(bytes <= MAX_BYTES, "%zu bytes", bytes);
	memset(&a, 0, sizeof a);
	for (int i = 0; i < 4; i++) {
		fill(m->host[i], bytes);
		CUDA_OK(cudaMemcpy(m->dev[i], m->host[i], bytes, cudaMemcpyHostToDevice));
	}
	for (int i = 0; i < 2; i++) {
		int s = in_place && i == 0 ? 2 : i;

		job.src[i] = m->host[s] + offset;
		job.dst[i] = m->host[2 + i] + offset;
		a.src[i] = (uintptr_t)(m->dev[s] + offset);
		a.dst[i] = (uintptr_t)(m->dev[2 + i] + offset);
	}
	a.count = job.count;
	a.scale = job.scale;
	a.nsrc = (uint32_t)job.nsrc;
	a.ndst = (uint32_t)job.ndst;
	a.type = job.type;
	a.op = job.op;
	a.post = job.post;
	device_launch(DEVICE_KERNEL(reduce, r->width), 1, warps, r->width, &a, m->stream);
	rc_reduce_copy(&job);
	CUDA_OK(cudaStreamSynchronize(m->stream));
	compare(r, m, &job, offset);
}

static void type_and_op(const struct device_run *r, struct arena *m, enum dev_type type,
			enum dev_op op)
{
	static const uint64_t counts[] = {1, 17, 1000, 33333};
	uint32_t size = steps_type_bytes(type);
	int shape = 0;

	for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
		struct rc_job job = {.nsrc = 2,
				     .ndst = 1,
				     .count = counts[c],
				     .type = type,
				     .op = op,
				     .scale = scale_of(type, op)};

		if (r->slow && counts[c] > 1000)
			continue;
		for (job.nsrc = 1; job.nsrc <= 2; job.nsrc++) {
			job.ndst = 1 + shape % 2;
			job.post = shape % 3 != 0;
			one(r, m, job, 0, shape % 2, 1 + shape % 3);
			one(r, m, job, size * (uint32_t)(1 + shape % 3), false, 2);
			shape++;
		}
	}
}

static void reduce_body(const struct device_run *r)
{
	struct arena m;

	rng_state = r->seed;
	for (int i = 0; i < 4; i++) {
		m.dev[i] = device_alloc(0, MAX_BYTES + GUARD);
		m.host[i] = device_host_alloc(MAX_BYTES + GUARD);
	}
	CUDA_OK(cudaStreamCreateWithFlags(&m.stream, cudaStreamNonBlocking));
	for (int type = 0; type < DEV_TYPE_COUNT; type++)
		for (int op = 0; op < DEV_OP_COUNT; op++)
			if (op != DEV_SUM_POSTDIV || type_is_integer((enum dev_type)type))
				type_and_op(r, &m, (enum dev_type)type, (enum dev_op)op);
	CUDA_OK(cudaStreamDestroy(m.stream));
	for (int i = 0; i < 4; i++) {
		CUDA_OK(cudaFree(m.dev[i]));
		CUDA_OK(cudaFreeHost(m.host[i]));
	}
}

int main(void)
{
	return device_harness(reduce_body, 1);
}
