/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that a capture forbids: by its mode, by the calling thread's mode, and always. */
#include "graph_cases.h"

/* ---- calls that may wait for work ----------------------------------------------------------- */

enum unsafe { MALLOC, FREE, HOST_ALLOC, FREE_HOST, EVENT_QUERY, EVENT_SYNC, QUERY, SYNC, UNSAFE };

static void *memory;

static cudaError_t unsafe_call(int call)
{
	switch (call) {
	case MALLOC:
		return cudaMalloc(&memory, 64);
	case FREE:
		return cudaFree(memory);
	case HOST_ALLOC:
		return cudaHostAlloc(&memory, 64, cudaHostAllocDefault);
	case FREE_HOST:
		return cudaFreeHost(memory);
	case EVENT_QUERY:
		return cudaEventQuery(now.f);
	case EVENT_SYNC:
		return cudaEventSynchronize(now.f);
	case QUERY:
		return cudaStreamQuery(now.b);
	default:
		return cudaStreamSynchronize(now.b);
	}
}

/* Makes what the call needs. unsafe_clean frees what is left. */
static void unsafe_prepare(int call)
{
	memory = NULL;
	if (call == FREE)
		OK(cudaMalloc(&memory, 64));
	if (call == FREE_HOST)
		OK(cudaHostAlloc(&memory, 64, cudaHostAllocDefault));
	OK(cudaEventRecord(now.f, now.b));
	OK(cudaStreamSynchronize(now.b));
}

static void unsafe_clean(int call, cudaError_t rc)
{
	int device = call == MALLOC || call == FREE, made = call == MALLOC || call == HOST_ALLOC;

	if ((made && rc) || (call != FREE && call != FREE_HOST && !made) || (!made && !rc))
		return;
	if (device)
		OK(cudaFree(memory));
	else
		OK(cudaFreeHost(memory));
}

static void end_of_a(cudaError_t want)
{
	cudaGraph_t g = NULL;

	IS(want, cudaStreamEndCapture(now.a, &g));
	IS(want == cudaSuccess, g != NULL);
	if (g)
		OK(cudaGraphDestroy(g));
	(void)cudaGetLastError();
}

static void in_mode(enum cudaStreamCaptureMode mode, int forbidden)
{
	for (int call = 0; call < UNSAFE; call++) {
		cudaError_t rc;

		unsafe_prepare(call);
		OK(cudaStreamBeginCapture(now.a, mode));
		rc = unsafe_call(call);
		IS(forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess, rc);
		IS(forbidden ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive,
		   status(now.a));
		end_of_a(forbidden ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
		unsafe_clean(call, rc);
	}
}

static void the_global_mode_forbids_calls_that_may_wait(void)
{
	in_mode(cudaStreamCaptureModeGlobal, 1);
}

static void the_thread_local_mode_forbids_them_too(void)
{
	in_mode(cudaStreamCaptureModeThreadLocal, 1);
}

static void the_relaxed_mode_permits_them(void)
{
	in_mode(cudaStreamCaptureModeRelaxed, 0);
}

static void calls_that_never_wait_are_permitted(void)
{
	size_t left, all;
	cudaStream_t s = NULL;
	cudaEvent_t e = NULL;
	struct cudaPointerAttributes attributes;

	OK(begin(now.a));
	OK(cudaMemGetInfo(&left, &all));
	OK(cudaPointerGetAttributes(&attributes, now.dev));
	OK(cudaStreamCreate(&s));
	OK(cudaEventCreate(&e));
	OK(host(s));
	OK(cudaStreamDestroy(s));
	OK(cudaEventDestroy(e));
	OK(cudaMemcpy(now.dev, now.pinned, 4, cudaMemcpyHostToDevice));
	OK(cudaMemset(now.dev, 0, 4));
	OK(host(NULL)); /* the legacy stream: only blocking streams matter to it */
	IS(cudaStreamCaptureStatusActive, status(now.a));
}

/* ---- other threads -------------------------------------------------------------------------- */

struct other {
	enum cudaStreamCaptureMode mode;
	cudaError_t rc;
};

static void *malloc_in_thread(void *arg)
{
	struct other *o = arg;
	enum cudaStreamCaptureMode mode = o->mode;
	void *p = NULL;

	OK(cudaSetDevice(0));
	OK(cudaThreadExchangeStreamCaptureMode(&mode));
	IS(cudaStreamCaptureModeGlobal, mode);
	o->rc = cudaMalloc(&p, 64);
	memory = p;
	return NULL;
}

/* A thread of that mode allocates during a capture of that mode. */
static void other_thread(enum cudaStreamCaptureMode capture, enum cudaStreamCaptureMode thread,
			 int forbidden)
{
	struct other o;

	o.mode = thread;
	o.rc = cudaErrorUnknown;
	OK(cudaStreamBeginCapture(now.a, capture));
	in_thread(malloc_in_thread, &o);
	IS(forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess, o.rc);
	end_of_a(forbidden ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
	if (!o.rc)
		OK(cudaFree(memory));
}

static void a_global_capture_forbids_them_to_global_threads(void)
{
	other_thread(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeGlobal, 1);
	other_thread(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, 0);
	other_thread(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed, 0);
}

static void other_captures_forbid_nothing_to_other_threads(void)
{
	other_thread(cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal, 0);
	other_thread(cudaStreamCaptureModeRelaxed, cudaStreamCaptureModeGlobal, 0);
}

static void a_relaxed_thread_may_call_them_in_its_own_capture(void)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	void *p = NULL;

	OK(cudaThreadExchangeStreamCaptureMode(&mode));
	IS(cudaStreamCaptureModeGlobal, mode);
	OK(begin(now.a));
	OK(cudaMalloc(&p, 64));
	IS(cudaStreamCaptureStatusActive, status(now.a));
	end_of_a(cudaSuccess);
	OK(cudaThreadExchangeStreamCaptureMode(&mode));
	IS(cudaStreamCaptureModeRelaxed, mode);
	OK(cudaFree(p));
}

/* ---- always forbidden ----------------------------------------------------------------------- */

static void a_wait_for_the_device_is_always_forbidden(void)
{
	for (int mode = 0; mode <= 2; mode++) {
		OK(cudaStreamBeginCapture(now.a, (enum cudaStreamCaptureMode)mode));
		IS(cudaErrorStreamCaptureUnsupported, cudaDeviceSynchronize());
		end_of_a(cudaErrorStreamCaptureInvalidated);
	}
}

static void a_stream_that_captures_cannot_be_waited_for(void)
{
	OK(cudaStreamBeginCapture(now.a, cudaStreamCaptureModeRelaxed));
	IS(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(now.a));
	IS(cudaStreamCaptureStatusInvalidated, status(now.a));
	IS(cudaErrorStreamCaptureInvalidated, host(now.a));
	IS(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(now.a));
	IS(cudaErrorIllegalState, begin(now.a));
	end_of_a(cudaErrorStreamCaptureInvalidated);
	IS(cudaStreamCaptureStatusNone, status(now.a));
}

static void a_stream_that_captures_cannot_be_queried(void)
{
	OK(cudaStreamBeginCapture(now.a, cudaStreamCaptureModeRelaxed));
	IS(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(now.a));
	end_of_a(cudaErrorStreamCaptureInvalidated);
}

static void graphs_are_not_launched_in_a_capture(void)
{
	cudaGraph_t g = NULL;
	cudaGraphExec_t x;

	OK(cudaGraphCreate(&g, 0));
	(void)add_host(g, NULL, add_one, 0);
	x = exec_of(g);
	OK(cudaGraphDestroy(g));
	OK(begin(now.a));
	IS(cudaErrorStreamCaptureUnsupported, cudaGraphLaunch(x, now.a));
	end_of_a(cudaErrorStreamCaptureInvalidated);
	OK(begin(now.a));
	IS(cudaErrorStreamCaptureUnsupported, cudaGraphUpload(x, now.a));
	end_of_a(cudaErrorStreamCaptureInvalidated);
	OK(cudaGraphExecDestroy(x));
}

static void a_graph_is_not_instantiated_during_its_capture(void)
{
	enum cudaStreamCaptureStatus st;
	cudaGraph_t g = NULL;
	cudaGraphExec_t x = NULL;

	OK(begin(now.a));
	OK(host(now.a));
	OK(cudaStreamGetCaptureInfo(now.a, &st, NULL, &g, NULL, NULL, NULL));
	IS(cudaErrorStreamCaptureUnsupported, cudaGraphInstantiate(&x, g, 0));
	end_of_a(cudaErrorStreamCaptureInvalidated);
}

/* ---- the legacy stream ---------------------------------------------------------------------- */

enum legacy { L_HOST, L_COPY, L_RECORD, L_WAIT, L_QUERY, L_SYNC, LEGACY };

static cudaError_t legacy_call(int call)
{
	switch (call) {
	case L_HOST:
		return host(NULL);
	case L_COPY:
		return cudaMemcpyAsync(now.dev, now.pinned, 4, cudaMemcpyHostToDevice, NULL);
	case L_RECORD:
		return cudaEventRecord(now.e, NULL);
	case L_WAIT:
		return cudaStreamWaitEvent(NULL, now.f, 0);
	case L_QUERY:
		return cudaStreamQuery(NULL);
	default:
		return cudaStreamSynchronize(NULL);
	}
}

static void the_legacy_stream_does_not_wait_for_a_capture(void)
{
	cudaGraph_t g = NULL;

	for (int call = 0; call < LEGACY; call++) {
		OK(cudaStreamBeginCapture(now.blocking, cudaStreamCaptureModeRelaxed));
		IS(cudaErrorStreamCaptureImplicit, legacy_call(call));
		IS(cudaStreamCaptureStatusInvalidated, status(now.blocking));
		IS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(now.blocking, &g));
	}
}

static void a_query_of_the_legacy_stream_is_harmless(void)
{
	enum cudaStreamCaptureStatus st = cudaStreamCaptureStatusActive;
	cudaGraph_t g = (cudaGraph_t)(size_t)8;

	OK(begin(now.blocking));
	IS(-(long)cudaErrorStreamCaptureImplicit, status(NULL));
	IS(cudaErrorStreamCaptureImplicit,
	   cudaStreamGetCaptureInfo(NULL, &st, NULL, &g, NULL, NULL, NULL));
	IS(8, (size_t)g);
	IS(cudaStreamCaptureStatusActive, status(now.blocking));
}

static void the_legacy_stream_joins_no_capture(void)
{
	OK(begin(now.a));
	OK(cudaEventRecord(now.e, now.a));
	IS(cudaErrorStreamCaptureImplicit, cudaStreamWaitEvent(NULL, now.e, 0));
	IS(cudaStreamCaptureStatusInvalidated, status(now.a));
}

static void other_blocking_streams_go_on(void)
{
	cudaStream_t s = NULL;

	OK(begin(now.blocking));
	OK(cudaStreamCreate(&s));
	OK(host(s));
	IS(cudaStreamCaptureStatusActive, status(now.blocking));
	OK(cudaStreamDestroy(s));
}

static const struct graph_case cases[] = {
	CASE(the_global_mode_forbids_calls_that_may_wait),
	CASE(the_thread_local_mode_forbids_them_too),
	CASE(the_relaxed_mode_permits_them),
	CASE(calls_that_never_wait_are_permitted),
	CASE_THREADS(a_global_capture_forbids_them_to_global_threads),
	CASE_THREADS(other_captures_forbid_nothing_to_other_threads),
	CASE(a_relaxed_thread_may_call_them_in_its_own_capture),
	CASE(a_wait_for_the_device_is_always_forbidden),
	CASE(a_stream_that_captures_cannot_be_waited_for),
	CASE(a_stream_that_captures_cannot_be_queried),
	CASE(graphs_are_not_launched_in_a_capture),
	CASE(a_graph_is_not_instantiated_during_its_capture),
	CASE(the_legacy_stream_does_not_wait_for_a_capture),
	CASE(a_query_of_the_legacy_stream_is_harmless),
	CASE(the_legacy_stream_joins_no_capture),
	CASE(other_blocking_streams_go_on),
};

int main(int argc, char **argv)
{
	return cases_main(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
