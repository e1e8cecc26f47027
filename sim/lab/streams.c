/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank with several streams: its first one does everything but collectives; those go round all of
 * them. The others begin behind what the first has (its input is there), and the first goes on
 * behind all of them: events, as programs do it. In between nothing orders them: it is the
 * communicator that lets its collectives not overlap.
 */
#include <cuda_runtime_api.h>

#include "sim/lab/runner_internal.h"

static uint32_t streams_more(const struct lab_rank *me)
{
	uint32_t n = me->run->config->streams;

	return n > 1 ? n - 1 : 0;
}

int lab_streams_make(struct lab_rank *me)
{
	uint32_t n = streams_more(me);
	cudaError_t e = cudaSuccess;

	if (n)
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
	me->fork = NULL;
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
