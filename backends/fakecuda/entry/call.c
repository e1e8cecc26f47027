/* SPDX-License-Identifier: BSD-3-Clause */
#include "backends/fakecuda/entry/call.h"

#include <ctype.h>
#include <string.h>

#include "backends/fakecuda/fakecuda.h"

/* Used only between two scheduling points, so another fiber of the thread never sees it. */
static __thread struct fc_at announced;

void fc_at_announce(const char *call, const void *caller)
{
	announced = (struct fc_at){call, caller};
}

struct fc_at fc_at_take(const char *call, const void *caller)
{
	struct fc_at at = announced.call ? announced : (struct fc_at){call, caller};

	announced.call = NULL;
	return at;
}

cudaError_t fc_runtime_leave(CUresult rc)
{
	/* The Programming Guide: cudaErrorNotReady is not an error and is not remembered. */
	if (rc && rc != CUDA_ERROR_NOT_READY)
		fc_task_set_error((cudaError_t)rc);
	return (cudaError_t)rc;
}

CUresult fc_driver_leave(int rc)
{
	sim_events_drain();
	return (CUresult)rc;
}

bool fc_call_is_runtime(const char *call)
{
	return !strncmp(call, "cuda", 4);
}

bool fc_call_is_driver(const char *call)
{
	return !strncmp(call, "cu", 2) && isupper((unsigned char)call[2]);
}
