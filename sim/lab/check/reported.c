/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call of the stack that a plan made fail has to show: some call of a rank returns an error. The
 * table has the calls that need not, by the functions that led to them. Their names come from
 * symbol tables, so a stripped library is not judged.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/engine/sim.h"
#include "sim/lab/check/reported.h"

enum { REPORTED_NAME = 64 };

/* A call of a site (a prefix) that was made in a function (a prefix) may fail without an error. */
struct reported_silent {
	const char *site, *function, *why;
};

static const struct reported_silent reported_silent[] = {
	{"os.connect", "", "a connection is attempted again"},
	{"os.accept", "", "the other end attempts the connection again"},
	{"os.socket", "net_socket_connect",
	 "ETIMEDOUT of a hello: a connection is attempted again"},
	{"verbs.modify_qp", "net_verbs_qp_to_rts", "ETIMEDOUT: it is called again"},
	{"verbs.query_gid", "net_verbs_gid_get", "an entry that cannot be read is not used"},
	{"verbs.", "net_verbs_devices", "a device that cannot be queried is not used"},
	{"os.alloc", "ibv_open_device", "a device that cannot be opened is not used"},
	{"os.alloc", "ibv_reg_dmabuf_mr", "the memory is registered by its address"},
	{"verbs.reg_dmabuf_mr", "net_verbs_reg_mr", "the memory is registered by its address"},
	{"cuda.cu_mem_get_handle", "mem_dmabuf", "the memory is registered by its address"},
	{"nvml.", "detect_", "the device has fewer facts"},
	{"os.file", "detect_", "the device has fewer facts"},
	{"", "ras_", "communicators work without RAS"},
	{"os.socket", "bootstrap_root_poll", "a root may end when it has answered"},
	{"os.socket", "root_task",
	 "a rank sees the end of its connection; a stranger's matters to none"},
	{"os.alloc", "proxy_slots_gather", "the launch waits for slots that exist"},
	{"cuda.get_device", "comm_device_save", "the task keeps the communicator's device"},
	{"cuda.set_device", "comm_device_restore", "a WARN; the call itself was made"},
	{"cuda.stream_get_capture_info", "api_profile_begin", "a plugin's event lacks the capture"},
	{"", "user_memory_free", "the lab drops the error of a free"},
	{"", "lab_refused", "the call is wrong, and gives an error anyway"},
	{"os.", "comm_topology_must_detect", "the file is read again if it is needed"},
	{"verbs.get_async_event", "net_verbs_watch_main",
	 "a WARN; connections work without events"},
	{"os.socket", "bootstrap_neighbour_poll", "the neighbour has ended in order before"},
	{"os.socket", "net_verbs_notice_recv", "the end of an idle connection is no error"},
	{"os.socket", "net_socket_check", "the end of an idle connection is no error"},
	{"", "proxy_run_test", "a kernel that needs the operation waits, which is a hang"},
	{"", "proxy_conn_free", "the connection ends, and the error is logged"},
	{"", "proxy_link_put", "the connection ends, and the error is logged"},
	{"os.thread", "api_child_init", "the init runs in the calling task"},
	{"os.thread", "comm_close", "the call releases the communicator by itself"},
	{"os.socket", "comm_close", "the other ranks see the end of the connection"},
	{"", "profiler_open", "the communicator works without a profiler"},
	{"", "profiler_work_expect", "a plugin lacks the events of a kernel"},
	{"cuda.stream_get_id", "plan_calls_add", "RAS shows the calls without their stream"},
	{"cuda.stream_get_id", "plan_pairs_show", "RAS shows the messages without their stream"},
	{"os.", "net_socket_number", "the interface has the speed of one that reports none"},
	{"verbs.close_device", "net_verbs_close_context", "a WARN; the device is not used again"},
	{"", "comm_release", "the communicator ends, and the error is logged"},
};

/* A failure of a step of these functions is an error of the call that makes the step, and not of a
 * later one. `call` has the beginnings of names of calls. */
static const struct reported_own {
	const char *function, *call[3];
} reported_own[] = {
	{"comm_suspend", {"ncclCommSuspend"}},
	{"comm_resume", {"ncclCommResume"}},
	{"comm_init", {"ncclComm", "ncclGroupEnd", "the second communicator"}},
};

static bool reported_begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

/* True if a function whose name begins so led to the failed call. */
static bool reported_was_in(uint32_t call, const char *function)
{
	char name[REPORTED_NAME];

	for (uint32_t k = 0; sim_failed_call_function(call, k, name, sizeof name); k++)
		if (reported_begins(name, function))
			return true;
	return false;
}

static bool reported_row_fits(const struct reported_silent *row, uint32_t call)
{
	int32_t rank;

	return reported_begins(sim_failed_call(call, &rank), row->site) &&
	       reported_was_in(call, row->function);
}

/* True if the program of a rank made the call, and no call of NCCL did. */
static bool reported_is_programs(uint32_t call)
{
	char name[REPORTED_NAME];

	for (uint32_t k = 0; sim_failed_call_function(call, k, name, sizeof name); k++)
		if (reported_begins(name, "nccl") || reported_begins(name, "pnccl"))
			return false;
		else if (reported_begins(name, "lab_") || reported_begins(name, "life_"))
			return true;
	return false;
}

/* False if a function of the failed call has no name, as in a stripped library. */
static bool reported_is_known(uint32_t call)
{
	char name[REPORTED_NAME];
	uint32_t k = 0;

	while (sim_failed_call_function(call, k, name, sizeof name) && strcmp(name, "?") != 0)
		k++;
	return k && !sim_failed_call_function(call, k, name, sizeof name);
}

static bool reported_may_be_silent(uint32_t call)
{
	bool silent = !reported_is_known(call) || reported_is_programs(call);

	for (size_t i = 0; i < ARRAY_LEN(reported_silent) && !silent; i++)
		silent = reported_row_fits(&reported_silent[i], call);
	return silent;
}

/* The functions of the engine, innermost, by which a call meets its fault. */
static bool reported_is_engines(const char *name)
{
	return reported_begins(name, "fault_") || reported_begins(name, "sim_fault") ||
	       reported_begins(name, "sched_");
}

static void reported_explain(uint32_t call, const char *what, char *out, size_t bytes)
{
	char name[REPORTED_NAME];
	int32_t rank;
	const char *site = sim_failed_call(call, &rank), *before = " ";
	size_t n = (size_t)snprintf(out, bytes, "%s failed at rank %d, and %s:", site, rank, what);

	for (uint32_t k = 0; n < bytes && sim_failed_call_function(call, k, name, sizeof name);
	     k++) {
		if (reported_is_engines(name))
			continue;
		n += (size_t)snprintf(out + n, bytes - n, "%s%s", before, name);
		before = " <- ";
	}
}

bool lab_failure_unreported(char *out, size_t bytes)
{
	for (uint32_t i = 0; i < sim_failed_calls(); i++)
		if (!reported_may_be_silent(i)) {
			reported_explain(i, "no call returned an error", out, bytes);
			return true;
		}
	return false;
}

static bool reported_is_own(const struct reported_own *row, const char *call)
{
	bool own = false;

	for (size_t k = 0; k < ARRAY_LEN(row->call) && row->call[k]; k++)
		own |= reported_begins(call, row->call[k]);
	return own;
}

bool lab_failure_late(int32_t rank, const char *call, char *out, size_t bytes)
{
	char what[96];
	int32_t at;

	if (sim_failed_calls() != 1 || sim_faults_fired() != 1)
		return false;
	(void)sim_failed_call(0, &at);
	for (size_t i = 0; i < ARRAY_LEN(reported_own) && at == rank; i++) {
		if (!reported_was_in(0, reported_own[i].function))
			continue;
		if (reported_is_own(&reported_own[i], call))
			return false;
		snprintf(what, sizeof what, "%s was the first call to return an error", call);
		reported_explain(0, what, out, bytes);
		return true;
	}
	return false;
}
