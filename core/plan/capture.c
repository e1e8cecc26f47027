/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/plan/capture.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/rank/cuda_result.h"

/* An object that a graph keeps for a communicator. It holds proxy operations, which a host node
 * appends at each replay or a host function once; or registered memory that stays open. The node
 * (or graph) and the communicator end independently: the second of them frees the object. A thread
 * of CUDA runs the node and the end of its graph. On an H200 a graph that keeps an object takes 2
 * us longer at each replay. */
struct plan_hosted {
	struct plan_hosted *next;
	struct os_mutex lock;
	struct ncclComm *comm; /* NULL: the communicator has ended; under `lock` */
	bool node_gone;        /* the node or the graph has ended; under `lock` */
	bool once;
	unsigned long long capture; /* id of the capture; 0: appended once, outside of captures */
	struct registered_export *kept; /* NULL: none */
	int32_t n;
	struct proxy_op op[];
};

/* The place after the last launch of a capture. */
struct plan_mark {
	struct plan_mark *next;
	unsigned long long capture; /* id */
	cudaEvent_t behind;
};

/* Most captures at a time whose calls may alternate. No call reports that a capture has ended, so a
 * later capture takes the mark that was not used for the longest time. */
#define PLAN_MARKS 64

ncclResult_t plan_capture_of(const char *call, cudaStream_t stream, struct plan_capture *capture)
{
	struct plan_capture found = {.id = 0};
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	cudaError_t e = cudaStreamGetCaptureInfo(stream, &status, &found.id, &found.graph, NULL,
						 NULL, NULL);

	*capture = (struct plan_capture){.id = 0};
	if (e == cudaErrorStreamCaptureImplicit) {
		(void)cudaGetLastError();
		WARN("%s: stream is the legacy default stream, which cannot be used while a "
		     "blocking stream captures a CUDA graph",
		     call);
		return ncclInvalidUsage;
	}
	if (e != cudaSuccess)
		return cuda_result(e, "cudaStreamGetCaptureInfo of a launch");
	if (status == cudaStreamCaptureStatusNone)
		return ncclSuccess;
	if (status != cudaStreamCaptureStatusActive) {
		WARN("%s: stream captures a CUDA graph, and the capture has failed", call);
		return ncclInvalidUsage;
	}
	*capture = found;
	return ncclSuccess;
}

/* ---- what graphs have ----------------------------------------------------------------------- */

static void hosted_node_gone(void *arg)
{
	struct plan_hosted *h = arg;
	bool last;

	os_mutex_lock(&h->lock);
	h->node_gone = true;
	last = !h->comm;
	os_mutex_unlock(&h->lock);
	if (last)
		os_free(h);
}

static bool hosted_is_gone(struct plan_hosted *h)
{
	bool gone;

	os_mutex_lock(&h->lock);
	gone = h->node_gone;
	os_mutex_unlock(&h->lock);
	return gone;
}

/* Removes the entries whose nodes are gone, or all entries. The caller must own the list. */
static void hosted_drop(struct plan_hosted **at, bool every)
{
	struct plan_hosted *h;

	while ((h = *at)) {
		bool gone;

		os_mutex_lock(&h->lock);
		gone = h->node_gone;
		if (gone || every) {
			h->comm = NULL;
			*at = h->next;
		} else {
			at = &h->next;
		}
		os_mutex_unlock(&h->lock);
		if (gone)
			os_free(h);
	}
}

/* Makes an object with room for n operations. */
static struct plan_hosted *hosted_make(struct ncclComm *comm, const struct plan_capture *capture,
				       int32_t n)
{
	struct plan_hosted *h =
		os_alloc(sizeof *h + (size_t)n * sizeof h->op[0], "what a graph has of a rank");

	if (!h) {
		WARN("rank %d: no memory for what a CUDA graph has of it, %d proxy operations",
		     comm->rank, n);
		return NULL;
	}
	h->comm = comm;
	h->capture = capture->id;
	h->n = n;
	return h;
}

static void hosted_add(struct plan_hosted **list, struct plan_hosted *h)
{
	h->next = *list;
	*list = h;
}

/* Ties the object to the graph: CUDA calls hosted_node_gone when the graph ends. */
static ncclResult_t hosted_give(struct plan_hosted *h, cudaGraph_t graph)
{
	cudaUserObject_t object;
	ncclResult_t rc = cuda_result(cudaUserObjectCreate(&object, h, hosted_node_gone, 1,
							   cudaUserObjectNoDestructorSync),
				      "cudaUserObjectCreate for a captured launch");

	if (rc) {
		hosted_node_gone(h);
		return rc;
	}
	rc = cuda_result(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove),
			 "cudaGraphRetainUserObject for a captured launch");
	if (rc) /* calls hosted_node_gone */
		(void)cudaUserObjectRelease(object, 1);
	return rc;
}

/* ---- proxy operations ----------------------------------------------------------------------- */

/* A thread of CUDA calls this before the kernel of the launch starts. */
static void hosted_append(void *arg)
{
	struct plan_hosted *h = arg;
	ncclResult_t rc;

	os_mutex_lock(&h->lock);
	if (!h->comm) {
		WARN("a CUDA graph with a collective is replayed after the end of its "
		     "communicator");
	} else {
		rc = proxy_append(h->comm, h->op, h->n);
		if (rc)
			rank_set_async_error(h->comm, rc);
	}
	os_mutex_unlock(&h->lock);
	if (h->once)
		hosted_node_gone(h);
}

bool plan_captures_pending(struct plan_captures *all)
{
	bool pending;

	os_mutex_lock(&all->lock);
	hosted_drop(&all->hosted, false);
	pending = all->hosted != NULL;
	os_mutex_unlock(&all->lock);
	return pending;
}

ncclResult_t plan_capture_ops(struct ncclComm *comm, struct plan_captures *all,
			      const struct plan_capture *capture, cudaStream_t stream,
			      const struct proxy_op *op, int32_t n)
{
	struct plan_hosted *h;
	ncclResult_t rc = ncclSuccess;

	if (!n)
		return ncclSuccess;
	h = hosted_make(comm, capture, n);
	if (!h)
		return ncclSystemError;
	memcpy(h->op, op, (size_t)n * sizeof *op);
	h->once = !capture->id;
	os_mutex_lock(&all->lock);
	hosted_add(&all->hosted, h);
	os_mutex_unlock(&all->lock);
	if (capture->id)
		rc = hosted_give(h, capture->graph);
	if (rc)
		return rc;
	rc = cuda_result(cudaLaunchHostFunc(stream, hosted_append, h),
			 "cudaLaunchHostFunc for proxy operations");
	if (rc && h->once)
		hosted_node_gone(h);
	return rc;
}

/* ---- order ---------------------------------------------------------------------------------- */

static bool capture_mixes(void)
{
	return param_bool(PARAM_GRAPH_MIXING_SUPPORT);
}

/* Returns the capture's mark, which is then the first of the list. NULL: the capture has no launch
 * yet. */
static struct plan_mark *capture_mark_find(struct plan_captures *all,
					   const struct plan_capture *capture)
{
	struct plan_mark **at = &all->marks, *m;

	while (*at && (*at)->capture != capture->id)
		at = &(*at)->next;
	m = *at;
	if (m && m != all->marks) {
		*at = m->next;
		m->next = all->marks;
		all->marks = m;
	}
	return m;
}

static ncclResult_t capture_mark_alloc(struct plan_captures *all)
{
	struct plan_mark *m = os_alloc(sizeof *m, "mark of a capture");
	ncclResult_t rc;

	if (!m) {
		WARN("no memory for the mark of a CUDA graph's capture");
		return ncclSystemError;
	}
	rc = cuda_result(cudaEventCreateWithFlags(&m->behind, cudaEventDisableTiming),
			 "cudaEventCreateWithFlags for a capture");
	if (rc) {
		os_free(m);
		return rc;
	}
	m->next = all->marks;
	all->marks = m;
	all->nmarks++;
	return ncclSuccess;
}

/* Gives the capture a mark: a new one, or the last of the list. */
static ncclResult_t capture_mark_make(struct plan_captures *all, const struct plan_capture *capture)
{
	struct plan_mark *last = all->marks;
	ncclResult_t rc = ncclSuccess;

	if (all->nmarks < PLAN_MARKS) {
		rc = capture_mark_alloc(all);
		if (!rc)
			all->marks->capture = capture->id;
		return rc;
	}
	while (last->next)
		last = last->next;
	last->capture = capture->id;
	(void)capture_mark_find(all, capture);
	return ncclSuccess;
}

ncclResult_t plan_capture_order(struct ncclComm *comm, struct plan_captures *all,
				const struct plan_capture *capture, cudaStream_t stream)
{
	const struct plan_mark *mark = capture_mark_find(all, capture);

	if (mark)
		return cuda_result(cudaStreamWaitEvent(stream, mark->behind, 0),
				   "cudaStreamWaitEvent within a capture");
	if (!capture_mixes())
		return ncclSuccess;
	return cuda_result(cudaStreamWaitEvent(stream, comm->launch_done, cudaEventWaitExternal),
			   "cudaStreamWaitEvent for launches outside the graph");
}

ncclResult_t plan_capture_mark(struct ncclComm *comm, struct plan_captures *all,
			       const struct plan_capture *capture, cudaStream_t stream)
{
	ncclResult_t rc =
		capture_mark_find(all, capture) ? ncclSuccess : capture_mark_make(all, capture);

	if (!rc && capture_mixes())
		rc = cuda_result(cudaEventRecordWithFlags(comm->launch_done, stream,
							  cudaEventRecordExternal),
				 "cudaEventRecordWithFlags after a captured launch");
	if (!rc)
		rc = cuda_result(cudaEventRecord(all->marks->behind, stream),
				 "cudaEventRecord within a capture");
	all->used |= !rc;
	return rc;
}

/* ---- registered memory ---------------------------------------------------------------------- */

bool plan_capture_keep(struct ncclComm *comm, struct plan_captures *all,
		       const struct plan_capture *capture, struct registered_export *e)
{
	struct plan_hosted *h = all->kept;

	while (h && !(h->capture == capture->id && h->kept == e && !hosted_is_gone(h)))
		h = h->next;
	if (h)
		return true;
	h = hosted_make(comm, capture, 0);
	if (!h)
		return false;
	h->kept = e;
	transport_registered_keep(comm, e);
	hosted_add(&all->kept, h);
	return hosted_give(h, capture->graph) == ncclSuccess;
}

ncclResult_t plan_captures_release(struct ncclComm *comm, struct plan_captures *all)
{
	struct plan_hosted **at = &all->kept, *h;
	ncclResult_t rc = ncclSuccess;

	while (!rc && (h = *at)) {
		if (!hosted_is_gone(h)) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		rc = transport_registered_release(comm, h->kept);
		os_free(h);
	}
	return rc;
}

/* ---- the end -------------------------------------------------------------------------------- */

void plan_captures_end(struct plan_captures *all)
{
	os_mutex_lock(&all->lock);
	hosted_drop(&all->hosted, true);
	os_mutex_unlock(&all->lock);
	hosted_drop(&all->kept, true);
	while (all->marks) {
		struct plan_mark *m = all->marks;

		all->marks = m->next;
		(void)cuda_result(cudaEventDestroy(m->behind), "cudaEventDestroy");
		os_free(m);
	}
	all->nmarks = 0;
}
