/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/plan/streams.h"

#include <string.h>

#include "core/base/log.h"
#include "core/os/os_grow.h"
#include "core/rank/cuda_result.h"

/* Reports that stream `other` is not in the same capture as the first stream. */
static void streams_capture_warn(const struct plan_streams *s, cudaStream_t other, bool captures)
{
	if (captures && s->capture.id)
		WARN("streams %p and %p of a group capture into two CUDA graphs, expected one "
		     "graph for all streams of a group, or none",
		     (void *)s->stream[0], (void *)other);
	else
		WARN("of the streams of a group %p captures a CUDA graph and %p does not, expected "
		     "one graph for all streams of a group, or none",
		     (void *)(captures ? other : s->stream[0]),
		     (void *)(captures ? s->stream[0] : other));
}

ncclResult_t plan_streams_add(struct plan_streams *s, const char *call, cudaStream_t stream)
{
	struct plan_capture capture;
	ncclResult_t rc;

	ASSERT(!s->joined);
	/* the last stream first: successive calls often use the same one */
	for (int32_t i = s->n - 1; i >= 0; i--)
		if (s->stream[i] == stream)
			return ncclSuccess;
	rc = plan_capture_of(call, stream, &capture);
	if (!rc && s->n && capture.id != s->capture.id) {
		streams_capture_warn(s, stream, capture.id != 0);
		rc = ncclInvalidUsage;
	}
	if (!rc && s->n == s->room && !OS_GROW(s->stream, s->n, s->room, 4, "streams of a group")) {
		WARN("no memory for %d streams of a group", s->n + 1);
		rc = ncclSystemError;
	}
	if (rc)
		return rc;
	s->capture = capture;
	s->stream[s->n++] = stream;
	return ncclSuccess;
}

static ncclResult_t plan_streams_event_make(struct plan_streams *s)
{
	if (s->event)
		return ncclSuccess;
	return cuda_result(cudaEventCreateWithFlags(&s->event, cudaEventDisableTiming),
			   "cudaEventCreateWithFlags for a group of several streams");
}

/* One event serves all streams: a wait refers to the latest record at the time when it is
 * queued. */
ncclResult_t plan_streams_join(struct plan_streams *s)
{
	ncclResult_t rc = s->n > 1 && !s->joined ? plan_streams_event_make(s) : ncclSuccess;

	for (int32_t i = 1; i < s->n && !s->joined && !rc; i++) {
		rc = cuda_result(cudaEventRecord(s->event, s->stream[i]),
				 "cudaEventRecord in a stream of a group");
		if (!rc)
			rc = cuda_result(cudaStreamWaitEvent(s->stream[0], s->event, 0),
					 "cudaStreamWaitEvent for a stream of a group");
	}
	s->joined = !rc;
	return rc;
}

ncclResult_t plan_streams_complete(const struct plan_streams *s)
{
	if (!s->completion)
		return ncclSuccess;
	return cuda_result(
		cudaEventRecord(s->completion, s->n ? s->stream[0] : s->completion_stream),
		"cudaEventRecord of launchCompletionEvent");
}

ncclResult_t plan_streams_part(const struct plan_streams *s)
{
	ncclResult_t rc = ncclSuccess;

	if (!s->joined || s->n < 2)
		return ncclSuccess;
	rc = cuda_result(cudaEventRecord(s->event, s->stream[0]),
			 "cudaEventRecord after the launches of a group");
	for (int32_t i = 1; i < s->n && !rc; i++)
		rc = cuda_result(cudaStreamWaitEvent(s->stream[i], s->event, 0),
				 "cudaStreamWaitEvent for the launches of a group");
	return rc;
}

void plan_streams_reset(struct plan_streams *s)
{
	s->n = 0;
	s->joined = false;
	s->completion = NULL;
}

void plan_streams_free(struct plan_streams *s)
{
	if (s->event)
		(void)cuda_result(cudaEventDestroy(s->event), "cudaEventDestroy");
	os_free(s->stream);
	*s = (struct plan_streams){.n = 0};
}
