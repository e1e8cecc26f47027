/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The call that a program makes. Most functions of the runtime are functions of the driver under
 * another name. Such a function announces itself and calls the driver's, which takes the
 * announcement. Reports, waits and faults then have the name and the call site of the program's
 * call, and a fault site is visited once.
 *
 *    cudaError_t cudaFree(void *devPtr)
 *    {
 *            return FC_RUNTIME("cudaFree", cuMemFree((CUdeviceptr)devPtr));
 *    }
 *
 *    CUresult cuMemFree(CUdeviceptr dptr)
 *    {
 *            const struct fc_at at = FC_AT("cuMemFree");
 *            ...                                          fc_enter_ctx(at.call, &ctx)
 *            return fc_driver_leave(rc);
 *    }
 *
 * The driver's functions set no last error; the runtime's do (fc_runtime_leave).
 */
#ifndef BACKENDS_FAKECUDA_ENTRY_CALL_H
#define BACKENDS_FAKECUDA_ENTRY_CALL_H

#include <cuda.h>
#include <driver_types.h>
#include <stdbool.h>

struct fc_at {
	const char *call;
	const void *caller; /* return address of the program's call */
};

/* Between the announcement and the taking is no scheduling point. */
void fc_at_announce(const char *call, const void *caller);
/* Returns the announced call, or the given one if none is announced. */
struct fc_at fc_at_take(const char *call, const void *caller);
/* Stores the error for cudaGetLastError. Returns it. */
cudaError_t fc_runtime_leave(CUresult rc);
/* Ends a call of the driver: lets devices step. `rc` is a CUresult or a cudaError_t, which has the
 * same numbers. */
CUresult fc_driver_leave(int rc);
/* True for a name of the runtime; a driver function needs cuInit and a current context. */
bool fc_call_is_runtime(const char *call);
bool fc_call_is_driver(const char *call);

#define FC_AT(call) fc_at_take(call, __builtin_return_address(0))
#define FC_RUNTIME(call, driver)                                                                   \
	(fc_at_announce(call, __builtin_return_address(0)), fc_runtime_leave(driver))

#endif
