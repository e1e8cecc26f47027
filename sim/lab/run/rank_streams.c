/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank with several streams: its first one does all work except collectives; those go round all
 * of them. The others begin after what the first has, and the first goes on after all of them:
 * events, as programs do it. In between nothing orders them: it is the communicator that keeps its
 * collectives apart.
 *
 * Each part's stream has work of its own: it copies the part's input in before the call, and the
 * result out after it. A call that runs in another stream, or does not wait for its own, finds no
 * input, or its result is taken too early.
 *
 * Other ranks access the memory of windows. A rank with windows therefore copies the input in
 * before each series, in the stream, and overwrites it after one that is not timed (rank_check.c).
 * A program on windows that begins before its peers, or ends before them, has a wrong result.
 */
#include <cuda_runtime_api.h>

#include "sim/lab/run/runner_internal.h"

static uint32_t streams_more(const struct lab_rank *me)
{
	uint32_t n = me->run->config->streams;

	return n > 1 ? n - 1 : 0;
}

int lab_streams_make(struct lab_rank *me)
{
	uint32_t n = streams_more(me);
	cudaError_t e = cudaSuccess;

	size_t bytes = MAX_OF(me->run->config->bytes_max, LAB_SMALL_BYTES);

	ASSERT(n < LAB_MAX_STREAMS && !me->staged);
	if (n || lab_has_windows(me->run->config))
		e = cudaMalloc((void **)&me->staged, bytes);
	if (n && !e)
		e = cudaMalloc((void **)&me->copied_out, bytes);
	if (n && !e)
		e = cudaEventCreateWithFlags((cudaEvent_t *)&me->fork, cudaEventDisableTiming);
	for (uint32_t i = 0; !e && i < n; i++) {
		e = cudaStreamCreateWithFlags((cudaStream_t *)&me->more[i], cudaStreamNonBlocking);
		if (!e)
			e = cudaEventCreateWithFlags((cudaEvent_t *)&me->join[i],
						     cudaEventDisableTiming);
	}
	return (int)e;
}

void lab_streams_free(struct lab_rank *me)
{
	for (uint32_t i = 0; i < streams_more(me); i++) {
		if (me->join[i])
			cudaEventDestroy(me->join[i]);
		if (me->more[i])
			cudaStreamDestroy(me->more[i]);
		me->join[i] = me->more[i] = NULL;
	}
	if (me->fork)
		cudaEventDestroy(me->fork);
	if (me->copied_out)
		cudaFree(me->copied_out);
	if (me->staged)
		cudaFree(me->staged);
	me->fork = NULL;
	me->staged = me->copied_out = NULL;
}

int lab_streams_fork(struct lab_rank *me)
{
	uint32_t n = streams_more(me);
	cudaError_t e = n ? cudaEventRecord(me->fork, me->stream) : cudaSuccess;

	for (uint32_t i = 0; !e && i < n; i++)
		e = cudaStreamWaitEvent(me->more[i], me->fork, 0);
	return (int)e;
}

int lab_streams_join(struct lab_rank *me)
{
	cudaError_t e = cudaSuccess;

	for (uint32_t i = 0; !e && i < streams_more(me); i++) {
		e = cudaEventRecord(me->join[i], me->more[i]);
		if (!e)
			e = cudaStreamWaitEvent(me->stream, me->join[i], 0);
	}
	return (int)e;
}

void *lab_streams_pick(const struct lab_rank *me, uint32_t part)
{
	uint32_t i = part % (streams_more(me) + 1);

	return i ? me->more[i - 1] : me->stream;
}

int lab_streams_stage(struct lab_rank *me, void *buffer, size_t bytes)
{
	cudaError_t e = cudaSuccess;

	if (!me->staged)
		return e;
	ASSERT(bytes <= MAX_OF(me->run->config->bytes_max, LAB_SMALL_BYTES));
	e = cudaMemcpyAsync(me->staged, buffer, bytes, cudaMemcpyDeviceToDevice, me->stream);
	return (int)(e ? e : cudaMemsetAsync(buffer, LAB_UNWRITTEN, bytes, me->stream));
}

static cudaError_t streams_copy(const struct lab_rank *me, const struct lab_row *row,
				enum lab_side side, uint32_t part, uint8_t *to, const uint8_t *from)
{
	struct lab_span s = lab_row_part_memory(row, side, part);
	size_t width = payload_type_bytes(row->payload.type);

	if (!s.n)
		return cudaSuccess;
	return cudaMemcpyAsync(to + s.at * width, from + s.at * width, s.n * width,
			       cudaMemcpyDeviceToDevice, lab_streams_pick(me, part));
}

int lab_streams_copy_in(struct lab_rank *me, const struct lab_row *row, uint32_t part)
{
	uint8_t *send = (row->in_place ? me->recv : me->send) + lab_buffer_at(me->run->config, row);

	return (int)(me->copied_out ? streams_copy(me, row, LAB_SEND, part, send, me->staged)
				    : cudaSuccess);
}

int lab_streams_copy_out(struct lab_rank *me, const struct lab_row *row, uint32_t part)
{
	const uint8_t *recv = me->recv + lab_buffer_at(me->run->config, row);

	return (int)(me->copied_out ? streams_copy(me, row, LAB_RECV, part, me->copied_out, recv)
				    : cudaSuccess);
}
