/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory and streams of groups of different calls. A stream may be the legacy one, or that of the
 * calling thread.
 */
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "sim/lab/program/mixed.h"

_Static_assert(MIXED_ROOM % MIXED_FACTOR == 0 && MIXED_ROOM >= MIXED_BYTES + MIXED_LATE,
	       "factors after the buffers are aligned");

static cudaError_t mixed_stream_make(struct lab_mixed *m, int i)
{
	ASSERT(!m->made[i]); /* mixed_streams_free: a stream that was made is destroyed */
	cudaError_t e = cudaStreamCreateWithFlags(&m->stream[i], cudaStreamNonBlocking);

	m->made[i] = e == cudaSuccess;
	return e;
}

/* One stream in six is the legacy one, and one the calling thread's, where each rank has a
 * thread. */
int mixed_streams_make(struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;
	struct lab_mixed *m = me->mixed;
	cudaError_t e = cudaSuccess;
	struct sim_rng rng;

	sim_rng_seed(&rng, c->sim.seed, "lab.mixed_streams");
	for (int i = 0; !e && i < (int)mixed_streams(c); i++) {
		uint64_t kind = sim_rng_below(&rng, 6);

		if (kind == 0)
			m->stream[i] = cudaStreamLegacy;
		else if (kind == 1 && c->drive == LAB_DRIVE_RANK)
			m->stream[i] = cudaStreamPerThread;
		else
			e = mixed_stream_make(m, i);
	}
	return (int)e;
}

void mixed_streams_free(struct lab_mixed *m)
{
	for (int i = 0; i < MIXED_STREAMS; i++) {
		if (m->made[i])
			cudaStreamDestroy(m->stream[i]);
		m->made[i] = false;
	}
}

static cudaError_t mixed_completion_make(struct lab_rank *me)
{
	struct lab_mixed *m = me->mixed;
	cudaError_t e = cudaSuccess;

	if (!me->run->config->options)
		return cudaSuccess;
	for (uint32_t i = 0; i < lab_comms(me->run->config) && !e; i++)
		e = cudaEventCreateWithFlags(&m->complete[i], cudaEventDisableTiming);
	return e ? e : cudaStreamCreateWithFlags(&m->after, cudaStreamNonBlocking);
}

static void mixed_completion_free(struct lab_mixed *m)
{
	if (m->after)
		cudaStreamDestroy(m->after);
	for (uint32_t i = 0; i < LAB_MAX_COMMS; i++)
		if (m->complete[i])
			cudaEventDestroy(m->complete[i]);
}

int lab_mixed_make(struct lab_rank *me)
{
	size_t bytes = (size_t)MIXED_CALLS * (MIXED_BUFFERS * MIXED_ROOM + MIXED_FACTOR);
	struct lab_mixed *m;
	cudaError_t e;

	if (!me->run->config->mixed)
		return cudaSuccess;
	ASSERT(!me->mixed);
	m = me->mixed = calloc(1, sizeof *m);
	if (!m)
		return cudaErrorMemoryAllocation;
	m->host = malloc(2 * MIXED_BYTES);
	e = m->host ? cudaMalloc((void **)&m->memory, bytes) : cudaErrorMemoryAllocation;
	if (!e)
		e = cudaEventCreateWithFlags(&m->join, cudaEventDisableTiming);
	if (!e)
		e = mixed_completion_make(me);
	return e ? (int)e : mixed_streams_make(me);
}

void lab_mixed_free(struct lab_rank *me)
{
	struct lab_mixed *m = me->mixed;

	if (!m)
		return;
	mixed_streams_free(m);
	mixed_completion_free(m);
	if (m->join)
		cudaEventDestroy(m->join);
	if (m->memory)
		cudaFree(m->memory);
	free(m->host);
	free(m);
	me->mixed = NULL;
}

uint8_t *mixed_at(const struct lab_rank *me, uint32_t call, enum mixed_buffer which)
{
	ASSERT(call < MIXED_CALLS && which < MIXED_BUFFERS);
	return me->mixed->memory + ((size_t)call * MIXED_BUFFERS + which) * MIXED_ROOM;
}

uint8_t *mixed_factor_at(const struct lab_rank *me, uint32_t call)
{
	ASSERT(call < MIXED_CALLS);
	return me->mixed->memory + (size_t)MIXED_CALLS * MIXED_BUFFERS * MIXED_ROOM +
	       (size_t)call * MIXED_FACTOR;
}

uint8_t *mixed_send_at(const struct lab_rank *me, const struct mixed_call *call, uint32_t i)
{
	const struct lab_row *row = &call->row;
	uint8_t *recv = mixed_recv_at(me, call, i);
	size_t bytes = lab_row_elements(row, LAB_SEND) * payload_type_bytes(row->payload.type);

	ASSERT(bytes <= MIXED_BYTES); /* adjacent ones lie before the result of the call */
	if (row->in_place)
		return recv;
	return call->adjacent && bytes ? recv - bytes
				       : mixed_at(me, i, MIXED_SEND) + call->send_late;
}

uint8_t *mixed_recv_at(const struct lab_rank *me, const struct mixed_call *call, uint32_t i)
{
	ASSERT(call->recv_late <= MIXED_LATE);
	return mixed_at(me, i, MIXED_RECV) + call->recv_late;
}
