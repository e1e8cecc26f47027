/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's buffers around a collective: what goes in, what must come out, and what is beside
 * them. */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "sim/lab/run/runner_internal.h"

#define CHECK_GUARD 0xa5
/* From here on the staging memory of all ranks is worth a system call for each. */
#define CHECK_MANY_RANKS 256

_Static_assert(LAB_GUARD_BYTES <= LAB_STAGING_BYTES, "a guard is written and read whole");

/* A row's buffer without its guards; in place, of both. */
struct check_buffer {
	uint8_t *base;
	uint64_t bytes;
};

static struct check_buffer check_buffer(const struct lab_rank *me, const struct lab_row *row,
					enum lab_side side)
{
	uint64_t n = row->in_place ? lab_row_most(row) : lab_row_elements(row, side);
	uint8_t *memory = row->in_place || side == LAB_RECV ? me->recv : me->send;

	return (struct check_buffer){memory + lab_buffer_at(me->run->config, row),
				     n * payload_type_bytes(row->payload.type)};
}

/* The staging memory is not used until the next fill or check. Its pages are given back if there
 * are many ranks: kernels of all of them run meanwhile. */
static void check_rest(const struct lab_rank *me)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = ALIGN_UP((uintptr_t)me->staging, page);
	uintptr_t end = ((uintptr_t)me->staging + LAB_STAGING_BYTES) / page * page;

	if (me->run->nranks >= CHECK_MANY_RANKS)
		(void)madvise((void *)first, end - first, MADV_DONTNEED);
}

static bool check_write_guards(struct lab_rank *me, const struct check_buffer *b)
{
	memset(me->staging, CHECK_GUARD, LAB_GUARD_BYTES);
	return lab_rank_copy(me, b->base - LAB_GUARD_BYTES, me->staging, LAB_GUARD_BYTES, true) &&
	       lab_rank_copy(me, b->base + b->bytes, me->staging, LAB_GUARD_BYTES, true);
}

static bool check_unwrite(struct lab_rank *me, const struct check_buffer *b)
{
	return lab_rank_check_cuda(
		me, cudaMemsetAsync(b->base, LAB_UNWRITTEN, b->bytes, (cudaStream_t)me->stream),
		"cudaMemsetAsync");
}

bool lab_rank_unwrite(struct lab_rank *me, const struct lab_row *row)
{
	struct check_buffer b = check_buffer(me, row, LAB_RECV);

	return check_unwrite(me, &b);
}

bool lab_rank_recv_prepare(struct lab_rank *me, const struct lab_row *row)
{
	struct check_buffer b = check_buffer(me, row, LAB_RECV);

	return check_write_guards(me, &b) && check_unwrite(me, &b) && lab_rank_sync(me);
}

static bool check_fill_span(struct lab_rank *me, const struct lab_row *row,
			    const struct lab_span *span, uint8_t *base)
{
	size_t width = payload_type_bytes(row->payload.type), per = LAB_STAGING_BYTES / width;

	ASSERT(span->at + span->n <= lab_row_most(row));
	for (uint64_t at = 0; at < span->n; at += per) {
		size_t n = MIN_OF(per, span->n - at);

		payload_fill(&row->payload, me->rank, span->first + at, n, me->staging);
		if (!lab_rank_copy(me, base + (span->at + at) * width, me->staging, n * width,
				   true))
			return false;
	}
	return true;
}

bool lab_rank_fill(struct lab_rank *me, const struct lab_row *row)
{
	struct check_buffer b = check_buffer(me, row, LAB_SEND);
	struct lab_span span;

	if (!check_write_guards(me, &b))
		return false;
	/* what of the memory is not input holds the results of the time before */
	if (row->in_place && lab_row_elements(row, LAB_SEND) < lab_row_most(row) &&
	    !check_unwrite(me, &b))
		return false;
	for (uint32_t k = 0; lab_row_span(row, LAB_SEND, me->rank, k, &span); k++)
		if (!check_fill_span(me, row, &span, b.base))
			return false;
	check_rest(me);
	return lab_factor_fill(me, row) &&
	       lab_rank_check_cuda(me, lab_streams_stage(me, b.base, b.bytes), "cudaMemcpyAsync") &&
	       (!lab_has_windows(me->run->config) || lab_rank_sync(me));
}

/* With several streams each part's stream copies its input in. */
bool lab_rank_bring(struct lab_rank *me, const struct lab_row *row)
{
	struct check_buffer b = check_buffer(me, row, LAB_SEND);
	cudaError_t e = cudaSuccess;

	if (!lab_has_windows(me->run->config))
		return true;
	if (!me->copied_out)
		e = cudaMemcpyAsync(b.base, me->staged, b.bytes, cudaMemcpyDeviceToDevice,
				    (cudaStream_t)me->stream);
	return lab_rank_check_cuda(me, e, "cudaMemcpyAsync") &&
	       (row->in_place || lab_rank_unwrite(me, row));
}

bool lab_rank_spend(struct lab_rank *me, const struct lab_row *row)
{
	struct check_buffer b = check_buffer(me, row, LAB_SEND);

	return row->in_place || !lab_has_windows(me->run->config) || check_unwrite(me, &b);
}

static bool check_guard(struct lab_rank *me, const uint8_t *at)
{
	uint64_t wrong = 0;
	if (!lab_rank_copy(me, me->staging, at, LAB_GUARD_BYTES, false))
		return false;
	for (int i = 0; i < LAB_GUARD_BYTES; i++)
		wrong += me->staging[i] != CHECK_GUARD;
	if (wrong) {
		os_mutex_lock(&me->run->lock);
		me->run->guard_wrong += wrong;
		os_mutex_unlock(&me->run->lock);
		sim_note_failure(SIM_WRONG_RESULT, "correctness", me->rank,
				 "rank %d: %" PRIu64 " bytes beside a buffer were written",
				 me->rank, wrong);
	}
	return true;
}

/* Elements first .. first+n-1 are in the staging memory; `where` is the first wrong one. */
static void check_report(struct lab_rank *me, const struct lab_row *row, uint64_t where,
			 uint64_t wrong, uint64_t first, uint64_t n)
{
	struct lab_run *run = me->run;
	size_t width = payload_type_bytes(row->payload.type);
	char why[200], what[LAB_ROW_TEXT];

	ASSERT(where >= first && where < first + n);
	lab_row_explain(row, me->rank, where, first + n - where,
			me->staging + (where - first) * width, why, sizeof why);
	lab_row_text(row, what);
	os_mutex_lock(&run->lock);
	bool is_first = run->wrong == 0;
	run->wrong += wrong;
	run->row_wrong[row->in_place] += wrong;
	if (is_first)
		snprintf(run->explanation, sizeof run->explanation, "rank %d: %s", me->rank, why);
	os_mutex_unlock(&run->lock);
	if (!is_first)
		return;
	sim_note_failure(SIM_WRONG_RESULT, "correctness", me->rank, "rank %d, %s: %s", me->rank,
			 what, why);
	fprintf(stderr, "doppel: wrong result on rank %d, %s: %s\n", me->rank, what, why);
}

static bool check_span(struct lab_rank *me, const struct lab_row *row, const struct lab_span *span,
		       const uint8_t *base)
{
	size_t width = payload_type_bytes(row->payload.type), per = LAB_STAGING_BYTES / width;

	ASSERT(span->at + span->n <= lab_row_most(row));
	for (uint64_t at = 0; at < span->n; at += per) {
		uint64_t first = span->first + at, where = 0;
		size_t n = MIN_OF(per, span->n - at);

		if (!lab_rank_copy(me, me->staging, base + (span->at + at) * width, n * width,
				   false))
			return false;
		me->digest = hash64_combine(me->digest, hash64(me->staging, n * width));
		uint64_t wrong =
			lab_row_compare(row, me->rank, first, n, me->staging, me->run->expect,
					me->staging + LAB_STAGING_BYTES, &where);
		if (wrong)
			check_report(me, row, where, wrong, first, n);
	}
	return true;
}

/* Whatever the order is in which a collective reduces, ranks that get the same result get the same
 * bits. */
static void check_same_bits(const struct lab_rank *me, const struct lab_row *row)
{
	struct lab_run *run = me->run;
	const struct lab_collective *c = row->collective;
	int32_t other;

	if (!c->reduces || c->root_receives || c->send_per_rank)
		return;
	os_mutex_lock(&run->lock);
	other = run->digest_rank;
	if (other < 0)
		run->digest = me->digest;
	bool same = run->digest == me->digest;
	run->digest_rank = me->rank;
	run->wrong += !same;
	run->row_wrong[row->in_place] += !same;
	os_mutex_unlock(&run->lock);
	if (!same)
		sim_note_failure(SIM_WRONG_RESULT, "correctness", me->rank,
				 "wrong result on rank %d: other bits than on rank %d", me->rank,
				 other);
}

bool lab_rank_check(struct lab_rank *me, const struct lab_row *row)
{
	struct check_buffer b = check_buffer(me, row, LAB_RECV);
	struct lab_span span;

	me->digest = 0;
	for (uint32_t k = 0; lab_row_span(row, LAB_RECV, me->rank, k, &span); k++)
		if (!check_span(me, row, &span, me->copied_out ? me->copied_out : b.base))
			return false;
	check_same_bits(me, row);
	bool ok = check_guard(me, b.base - LAB_GUARD_BYTES) && check_guard(me, b.base + b.bytes);

	check_rest(me);
	return ok;
}
