/* SPDX-License-Identifier: BSD-3-Clause */
/* The instance, the tables before the first start, and facts about the run. */
#include <inttypes.h>

#include "sim/engine/base/engine_internal.h"

/* ---- no scheduler --------------------------------------------------------------------------- */

static struct task *none_self(void)
{
	return NULL;
}

static void none_point(void)
{
}

static void none_kill_proc(struct os_proc *proc)
{
	(void)proc;
}

static uint64_t none_now_ns(void)
{
	return 0;
}

static bool none_event_cancel(struct sim_event *handle)
{
	(void)handle;
	return false;
}

static void none_events_cancel_object(const void *object)
{
	(void)object;
}

const struct sched_ops sched_none = {
	.self = none_self,
	.known = none_self,
	.point = none_point,
	.kill_proc = none_kill_proc,
	.now_ns = none_now_ns,
	.wall_ns = clock_virtual_wall_ns,
	.event_cancel = none_event_cancel,
	.events_cancel_object = none_events_cancel_object,
	.events_drain = none_point,
};

static void none_flush(void)
{
}

static void none_explain(FILE *out)
{
	(void)out;
}

static void none_path(const char *path)
{
	(void)path;
}

const struct report_ops report_none = {
	.flush = none_flush, .explain = none_explain, .choices = none_path, .dump = none_path};

struct engine eng = {.sched = &sched_none, .reports = &report_none};
struct sim_mode sim_mode;

/* ---- facts ---------------------------------------------------------------------------------- */

void engine_mode_end_calm(void)
{
	__atomic_store_n(&sim_mode.calm, false, __ATOMIC_RELEASE);
}

bool sim_running(void)
{
	return eng.phase == ENGINE_RUNNING;
}

enum sim_engine sim_engine_kind(void)
{
	return eng.kind;
}

uint64_t sim_switches(void)
{
	return eng.switches;
}

uint64_t sim_steps(void)
{
	return eng.steps;
}

const char *engine_verdict_name(enum sim_verdict verdict)
{
	switch (verdict) {
	case SIM_PASS:
		return "pass";
	case SIM_USAGE:
		return "usage";
	case SIM_ERROR:
		return "error";
	case SIM_SKIPPED:
		return "skipped";
	case SIM_CRASH:
		return "crash";
	case SIM_NO_PROGRESS:
		return "liveness";
	case SIM_WRONG_RESULT:
		return "correctness";
	case SIM_NOT_DETERMINISTIC:
		return "nondeterminism";
	case SIM_LEAK:
		return "leak";
	case SIM_MISUSE:
		return "misuse";
	case SIM_BY_SIGNAL:
		break;
	}
	return "unknown";
}

void sim_format_ns(char out[32], uint64_t ns)
{
	static const struct {
		uint64_t unit;
		const char *name;
	} units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}};

	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (ns >= units[i].unit) {
			snprintf(out, 32, "%" PRIu64 ".%03" PRIu64 "%s", ns / units[i].unit,
				 ns % units[i].unit / (units[i].unit / 1000), units[i].name);
			return;
		}
	}
	snprintf(out, 32, "%" PRIu64 "ns", ns);
}

const char *sim_strategy_name(void)
{
	static const char *const name[2][5] = {
		{"fifo", "uniform", "pct", "starve", "jitter"},
		{"portfolio:fifo", "portfolio:uniform", "portfolio:pct", "portfolio:starve",
		 "portfolio:jitter"},
	};

	return engine_in_sim() ? name[eng.strategy_drawn][eng.strategy] : "none";
}
