/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The work of nodes. It is made of parameters that the program passed or of a call that a stream
 * captured. A launch of a graph queues it, with its memory as of then: a copy of pageable memory
 * reads it at each launch.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

const char *fc_work_name(enum cudaGraphNodeType type)
{
	switch (type) {
	case cudaGraphNodeTypeKernel:
		return "kernel";
	case cudaGraphNodeTypeMemcpy:
		return "copy";
	case cudaGraphNodeTypeMemset:
		return "fill";
	case cudaGraphNodeTypeHost:
		return "host function";
	case cudaGraphNodeTypeGraph:
		return "child graph";
	case cudaGraphNodeTypeWaitEvent:
		return "event wait";
	case cudaGraphNodeTypeEventRecord:
		return "event record";
	default:
		return "empty";
	}
}

/* ---- copies and ends ------------------------------------------------------------------------ */

void fc_work_launch(struct fc_work *w, const struct fc_launch *l)
{
	size_t bytes = l->func->kernel->arg_bytes;
	void *args = bytes ? malloc(bytes) : NULL;

	ASSERT(args || !bytes);
	if (bytes)
		memcpy(args, l->args, bytes);
	w->type = cudaGraphNodeTypeKernel;
	w->kernel.launch = *l;
	w->kernel.launch.args = args;
}

void fc_work_copy(struct fc_work *to, const struct fc_work *from, bool handle)
{
	*to = *from;
	if (from->type == cudaGraphNodeTypeKernel)
		fc_work_launch(to, &from->kernel.launch);
	else if (from->type == cudaGraphNodeTypeGraph)
		to->child = fc_graph_copy(from->child, handle);
	else if ((from->type == cudaGraphNodeTypeEventRecord ||
		  from->type == cudaGraphNodeTypeWaitEvent) &&
		 from->event)
		fc_event_keep(from->event);
}

void fc_work_free(struct fc_work *w)
{
	if (w->type == cudaGraphNodeTypeKernel)
		free((void *)(uintptr_t)w->kernel.launch.args);
	else if (w->type == cudaGraphNodeTypeGraph)
		fc_graph_free(w->child);
	else if ((w->type == cudaGraphNodeTypeEventRecord ||
		  w->type == cudaGraphNodeTypeWaitEvent) &&
		 w->event)
		fc_event_unkeep(w->event);
	*w = (struct fc_work){.type = cudaGraphNodeTypeEmpty};
}

/* ---- execution ------------------------------------------------------------------------------ */

/* Queues a fill, row by row. */
static void work_queue_fill(const struct CUgraphNode_st *n, struct CUstream_st *s)
{
	const struct fc_fill *f = &n->work.fill;
	struct fc_copy c = {.dst = f->dst,
			    .bytes = f->width * f->unit,
			    .value = (int)f->value,
			    .unit = f->unit,
			    .dst_dev = fc_device_at(f->dst)};

	for (size_t row = 0; row < f->height; row++, c.dst += f->pitch)
		fc_copy_queue(s, FC_OP_SET, &c, n->call, n->caller)->rank = n->rank;
}

static void work_queue_kernel(const struct CUgraphNode_st *n, struct CUstream_st *s)
{
	struct fc_op *op = fc_kernel_queue(s, &n->work.kernel.launch);

	op->rank = op->kernel->rank = n->rank;
}

void fc_work_queue(const struct CUgraphNode_st *n, struct CUstream_st *s)
{
	for (uint32_t i = 0; n->uses && i < n->uses->count; i++) {
		struct os_use use = n->uses->use[i].use;

		use.what = n->uses->use[i].what;
		fc_use_declare(s, &use);
	}
	switch (n->work.type) {
	case cudaGraphNodeTypeKernel:
		work_queue_kernel(n, s);
		break;
	case cudaGraphNodeTypeMemcpy:
		fc_copy_queue(s, FC_OP_COPY, &n->work.copy.copy, n->call, n->caller)->rank =
			n->rank;
		break;
	case cudaGraphNodeTypeMemset:
		work_queue_fill(n, s);
		break;
	case cudaGraphNodeTypeHost:
		fc_host_func_queue(s, n->work.host.fn, n->work.host.arg)->rank = n->rank;
		break;
	case cudaGraphNodeTypeEventRecord:
		fc_event_record(n->work.event, s);
		break;
	case cudaGraphNodeTypeWaitEvent:
		fc_event_wait(n->work.event, s);
		break;
	default:
		break;
	}
}

/* ---- parameters ----------------------------------------------------------------------------- */

cudaError_t fc_work_kernel(struct fc_work *w, const struct cudaKernelNodeParams *p,
			   const char *call)
{
	struct fc_launch l = {0};
	cudaError_t rc;

	if (!p) {
		fc_report("%s: no parameters", call);
		return cudaErrorInvalidValue;
	}
	rc = fc_func_ready(p->func, call, &l.func);
	if (rc)
		return rc;
	uint8_t room[FC_ARGS_MOST];
	rc = fc_launch_fill(&l, p->gridDim, p->blockDim, p->sharedMemBytes, p->kernelParams,
			    p->extra, room, call);
	if (rc)
		return rc;
	fc_work_launch(w, &l);
	return cudaSuccess;
}

cudaError_t fc_work_copies(struct fc_work *w, struct fc_ctx *ctx, const struct fc_copy *c,
			   enum cudaMemcpyKind kind, const char *call)
{
	cudaError_t rc;

	*w = (struct fc_work){.type = cudaGraphNodeTypeMemcpy, .copy = {*c, kind}};
	if (!c->bytes) {
		fc_report("%s: a copy of 0 bytes", call);
		return cudaErrorInvalidValue;
	}
	rc = fc_copy_resolve(ctx, call, kind, &w->copy.copy);
	return rc;
}

cudaError_t fc_work_fill(struct fc_work *w, struct fc_ctx *ctx, const struct fc_fill *f,
			 const char *call)
{
	struct fc_copy c = {.dst = f->dst};
	bool known = f->unit == 1 || f->unit == 2 || f->unit == 4;

	if (!known || !f->dst || !f->width || !f->height ||
	    (f->height > 1 && f->pitch < f->width * f->unit)) {
		fc_report("%s: a fill of %zu x %zu elements of %u bytes, pitch %zu, at 0x%llx; "
			  "expected elements of 1, 2 or 4 bytes, at least one of them, and rows "
			  "that do not overlap",
			  call, f->width, f->height, f->unit, f->pitch, (unsigned long long)f->dst);
		return cudaErrorInvalidValue;
	}
	c.bytes = (f->height - 1) * f->pitch + f->width * f->unit;
	*w = (struct fc_work){.type = cudaGraphNodeTypeMemset, .fill = *f};
	return fc_fill_resolve(ctx, call, &c);
}

cudaError_t fc_work_host(struct fc_work *w, cudaHostFn_t fn, void *arg, const char *call)
{
	*w = (struct fc_work){.type = cudaGraphNodeTypeHost, .host = {fn, arg}};
	if (fn)
		return cudaSuccess;
	fc_report("%s: no host function", call);
	return cudaErrorInvalidValue;
}

cudaError_t fc_work_event(struct fc_work *w, struct fc_proc *p, enum cudaGraphNodeType type,
			  cudaEvent_t event, const char *call)
{
	struct CUevent_st *e = event ? fc_event_get(p, event, call) : NULL;

	if (!e) {
		if (!event)
			fc_report("%s: the event is NULL", call);
		return cudaErrorInvalidValue;
	}
	*w = (struct fc_work){.type = type, .event = e};
	fc_event_keep(e);
	return cudaSuccess;
}

cudaError_t fc_work_child(struct fc_work *w, struct fc_proc *p, cudaGraph_t child, const char *call)
{
	struct CUgraph_st *g = fc_graph_get(p, child, call);

	if (!g)
		return cudaErrorInvalidValue;
	if (g->capture) {
		fc_report("%s: graph %u of %s is being captured", call, g->number, g->who);
		return cudaErrorInvalidValue;
	}
	*w = (struct fc_work){.type = cudaGraphNodeTypeGraph, .child = fc_graph_copy(g, true)};
	return cudaSuccess;
}
