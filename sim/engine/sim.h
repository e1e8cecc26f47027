/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine decides which task runs next and what time it is. The doubles (backends/fake*), the
 * world and the lab call it; core reaches it only through os.h.
 *
 * Two engines have this API; one is chosen at run time:
 *
 *   sim      one OS thread; every task is a fiber; virtual time; order drawn from a seed. The same
 *            configuration gives the same choices and the same trace hash on every machine.
 *   threads  host tasks are pthreads, warps are fibers bound to a worker thread; real time. For
 *            speed, for ThreadSanitizer, for real GPUs below the stack. No verdicts.
 *
 * A process has one engine: sim_start ... sim_run ... sim_stop, repeated as often as wanted.
 * Functions return 0 or a positive errno; configuration errors are explained on stderr. All times
 * are ns, all bandwidths MB/s (1e6 bytes per second), all integers.
 */
#ifndef SIM_ENGINE_SIM_H
#define SIM_ENGINE_SIM_H

#include <stdarg.h>
#include "sim/engine/base/config.h"
#include "sim/engine/base/failure.h"
#include "sim/engine/base/state.h"
#include "sim/engine/base/task.h"
#include "sim/engine/faults/faults.h"
#include "sim/engine/life/life.h"
#include "sim/engine/memory/memory.h"
#include "sim/engine/order/order.h"
#include "sim/engine/report/report.h"
#include "sim/engine/run/run.h"
#include "sim/engine/trace/trace.h"

#endif
