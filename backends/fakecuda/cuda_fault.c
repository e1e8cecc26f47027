/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fault sites of the GPU double. Every entry point visits its site through fc_fault_call. The sites
 * of work that follows a call (kernels, blocks, copies, callbacks) are visited with the object
 * concerned.
 *
 * A call that fails has no effect and returns the error, with two exceptions. A call that releases
 * (cudaFree, cudaStreamDestroy, ...) still releases: on hardware, too, its error usually comes from
 * earlier work. The fault `sticky` kills the context: its kernels die, and every later call of the
 * process on that GPU returns the error.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

#include "backends/fakecuda/entry/entries.h"
#include "backends/sites/cuda_calls.h"

static const struct fault_call {
	const char *site;
	int usual;
} fault_calls[] = {
#define FAULT_CALL(site, call, usual, ...) {site, usual},
	FAULT_CUDA_CALLS(FAULT_CALL) FAULT_NVML_CALLS(FAULT_CALL)
#undef FAULT_CALL
};

static const struct fault_call *fault_call_find(const char *call)
{
	const struct fc_entry *e = fc_entry_find(call);
	for (size_t i = 0; e && e->site && i < ARRAY_LEN(fault_calls); i++) {
		if (strcmp(fault_calls[i].site, e->site) == 0)
			return &fault_calls[i];
	}
	fprintf(stderr, "fakecuda: %s has no fault site in backends/fakecuda/entry/entries.def\n",
		call);
	abort();
}

int fc_fault_call(const char *call, struct fc_ctx *ctx)
{
	struct os_fault f;
	if (!sim_faults_armed())
		return 0;
	const struct fault_call *row = fault_call_find(call);
	if (!os_fault(row->site, NULL, &f))
		return 0;
	int error = f.arg ? (int)f.arg : row->usual;
	bool sticky = f.kind == OS_FAULT_STICKY;
	ASSERT(sticky || f.kind == OS_FAULT_FAIL);
	if (strncmp(row->site, "nvml.", 5) == 0)
		fc_report("%s fails with %d by the fault plan", call, error);
	else
		fc_report("%s fails with %s by the fault plan%s", call,
			  cudaGetErrorName((cudaError_t)error),
			  sticky ? ", and so does all that follows on this GPU" : "");
	if (sticky && ctx) {
		fc_lock();
		fc_ctx_kill(ctx, (cudaError_t)error);
		fc_unlock();
	}
	return error;
}

/* Changes the delay of work that follows a call: adds nanoseconds, or multiplies it. */
void fc_fault_slow(const char *site, const void *object, uint64_t *delay_ns)
{
	struct os_fault f;
	if (!os_fault(site, object, &f))
		return;
	if (f.kind == OS_FAULT_DELAY)
		*delay_ns += f.arg;
	else if (f.kind == OS_FAULT_SLOW)
		*delay_ns *= MAX_OF(f.arg, (uint64_t)1);
}

enum fc_block_fault fc_fault_block(const struct fc_kernel *k, uint32_t number, uint64_t *delay_ns)
{
	struct os_fault f;
	*delay_ns = 0;
	if (!sim_faults_armed())
		return FC_BLOCK_NOW;
	/* a block's channel is its number, which is usually its channel; only labelled objects have
	 * one */
	const struct os_label label = {.what = "kernel",
				       .rank = k->rank,
				       .peer = -1,
				       .channel = (int32_t)number,
				       .number = k->number};
	os_label(k, &label);
	bool fires = os_fault("cuda.block", k, &f);
	os_unlabel(k);
	if (!fires)
		return FC_BLOCK_NOW;
	if (f.kind == OS_FAULT_HOLD)
		return FC_BLOCK_LAST;
	*delay_ns = f.arg;
	return FC_BLOCK_LATER;
}
