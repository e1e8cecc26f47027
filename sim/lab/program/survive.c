/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules of a run with faults. First safety: whatever happens, what returned success is right
 * (rank_check.c), and nothing leaks. Then, when the faults have healed, liveness: every call of
 * every rank that lives returns, with success or with an error, within LAB_LIVENESS_NS.
 *
 * And every rank learns of a failure: when a rank has failed, died or given up, each other one
 * either had an error from a call of its own, or gets one from ncclCommGetAsyncError or its next
 * call. The harness passes no error on. As a launcher does, it aborts a rank LAB_LAUNCHER_NS after
 * the failure, and not before the faults have been healed for LAB_LIVENESS_NS, which is a failure
 * of the stack unless the stack had no way to know (docs/communicators.md).
 */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/check/reported.h"
#include "sim/lab/run/runner_internal.h"

enum {
	SURVIVE_PROBES = 3,
	SURVIVE_LATE_NS = 500000000,
	SURVIVE_TIMEOUT_MS = 4000, /* a program waits longer than a deadline; at most */
};

/* Hooks of the engine are hung once and have no argument. */
static struct lab_run *survive_run;

bool lab_has_env(const struct lab_config *c, const char *name)
{
	const char *const *env = c->env;
	size_t n = strlen(name);

	while (env && *env && !(strncmp(*env, name, n) == 0 && (*env)[n] == '='))
		env++;
	return env && *env;
}

bool lab_env_reaches(const struct lab_config *c, const char *name, int64_t least)
{
	const size_t n = strlen(name);
	bool reaches = false;

	for (const char *const *e = c->env; e && *e; e++)
		if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
			reaches = strtoll(*e + n + 1, NULL, 10) >= least;
	return reaches;
}

uint64_t lab_timeout_ms(const struct lab_config *c)
{
	static const char name[] = "DOPPEL_TIMEOUT_MS=";
	uint64_t ms = 0;

	for (const char *const *e = c->env; e && *e; e++)
		if (strncmp(*e, name, sizeof name - 1) == 0)
			ms = strtoull(*e + sizeof name - 1, NULL, 10);
	return ms <= SURVIVE_TIMEOUT_MS ? ms : 0;
}

void lab_call(struct lab_rank *me, const char *call)
{
	lab_cuda_state(me, call);
	me->call = call;
	me->call_ns = os_now_ns();
	me->calls += call != NULL;
}

/* The rank's first one counts. */
void lab_survive_error(struct lab_rank *me, ncclResult_t error, const char *call, bool outside)
{
	struct lab_run *run = me->run;

	ASSERT(error != ncclSuccess && call); /* error_call NULL: the rank has had none */
	lab_team_trouble(me);
	if (!me->error_call) {
		me->error_call = call;
		me->error = error;
		me->error_phase = me->phase;
		/* a rank without its own memory, or an id, does not come to the communicator */
		me->outside = outside || me->phase == LAB_SETUP;
	}
	os_mutex_lock(&run->lock);
	if (!run->failed_ns)
		run->failed_ns = MAX_OF(os_now_ns(), 1ull); /* 0: nothing failed */
	os_mutex_unlock(&run->lock);
}

/* ---- liveness ------------------------------------------------------------------------------- */

static void survive_post(struct lab_run *run);

/* Faults that heal late delay the launcher: the stack has had LAB_LIVENESS_NS without faults to
 * give the rank an error. With faults that do not heal within the launcher's patience nothing is
 * promised. */
uint64_t lab_survive_launcher_at(const struct lab_run *run)
{
	uint64_t at = run->failed_ns + lab_launcher_ns(), heals = sim_faults_heal_at_ns();

	if (sim_engine_kind() != SIM_ENGINE_SIM)
		return at;
	if (sim_faults_healed())
		heals = run->healed_ns;
	return heals > LAB_PATIENCE_NS ? at : MAX_OF(at, heals + LAB_LIVENESS_NS);
}

/* A rank that the launcher has to abort may be as late as the launcher is. */
static uint64_t survive_since(const struct lab_run *run, const struct lab_rank *it)
{
	uint64_t since = MAX_OF(it->call_ns, run->healed_ns);

	return run->failed_ns ? MAX_OF(since, lab_survive_launcher_at(run)) : since;
}

static void survive_step(void *object, uint64_t arg)
{
	struct lab_run *run = object;
	uint64_t now = sim_now_ns();

	(void)arg;
	if (run != survive_run)
		return;
	for (int32_t r = 0; r < run->count; r++) {
		const struct lab_rank *it = &run->rank[r];
		uint64_t since = survive_since(run, it);
		char took[32];

		if (!it->call || it->dead || now < since + LAB_LIVENESS_NS)
			continue;
		sim_format_ns(took, now - run->healed_ns);
		sim_fail_as(SIM_NO_PROGRESS, "liveness", r,
			    "rank %d: %s (call %" PRIu64
			    ") has not returned, %s after the faults healed",
			    r, it->call, it->calls, took);
	}
	survive_post(run);
}

static void survive_post(struct lab_run *run)
{
	const struct sim_event_attr attr = {.name = "lab.liveness",
					    .kind = SIM_EVENT_TIMER,
					    .delay_ns = LAB_LIVENESS_NS / 8,
					    .background = true};

	sim_event_post(&attr, survive_step, run, 0, NULL);
}

static void survive_healed(void)
{
	struct lab_run *run = survive_run;

	if (!run || !sim_running() || sim_engine_kind() != SIM_ENGINE_SIM)
		return;
	run->healed_ns = sim_now_ns();
	survive_post(run);
}

void lab_survive_start(struct lab_run *run)
{
	static bool hung;

	if (!hung)
		sim_on_heal(survive_healed);
	hung = true;
	run->armed = sim_faults_armed();
	survive_run = run->armed && !run->config->life ? run : NULL;
}

/* ---- failures of other ranks ---------------------------------------------------------------- */

/* A rank that another one's trouble has stopped between two calls polls its communicator until that
 * returns the error. Ranks of one program know of each other. */
void lab_survive_learn(struct lab_rank *me)
{
	if (!me->run->armed || !lab_comms_any(me) || me->error_call || lab_team_troubled(me))
		return;
	lab_call(me, "ncclCommGetAsyncError (the failure of another rank)");
	while (!shared_load_u32(&me->watch_aborted, SHARED_ACQUIRE) && !lab_team_troubled(me)) {
		ncclResult_t r = lab_comms_error(me);

		if (shared_load_u32(&me->watch_aborted, SHARED_ACQUIRE))
			break;
		if (r == ncclSuccess)
			continue;
		lab_survive_error(me, r, "ncclCommGetAsyncError", false);
		break;
	}
	lab_call(me, NULL);
}

/* Sockets, files or tasks that failed: a rank without them cannot report its error. */
static bool survive_mute(void)
{
	struct sim_fault_stat stat;

	for (uint32_t i = 0; sim_fault_stat(i, &stat); i++)
		if (stat.fires && strncmp(stat.site, "os.", 3) == 0)
			return true;
	return false;
}

/* With NCCL_COMM_ID, rank 0 starts the root in its init. If it fails earlier, no root answers, and
 * the others try for a minute, as they do with NCCL. */
static bool survive_rootless(const struct lab_run *run, int32_t rank)
{
	return rank == 0 && lab_has_env(run->config, "NCCL_COMM_ID");
}

/* Trouble before the ring of the bootstrap stands, of a kind that no rank can pass on. */
static bool survive_before_ring(const struct lab_run *run)
{
	bool mute = survive_mute();

	for (int32_t r = 0; r < run->count; r++) {
		const struct lab_rank *it = &run->rank[r];

		if (it->dead && it->phase <= LAB_INIT)
			return true;
		if (it->error_call && it->error_phase <= LAB_INIT && (it->outside || mute))
			return true;
		if (it->error_call && it->error_phase <= LAB_INIT && survive_rootless(run, r))
			return true;
	}
	return false;
}

/* The task that makes the calls of all ranks of the process could not make this one: the end of the
 * group waits, on behalf of the others, for a rank of the task's own. */
static bool survive_left_out(const struct lab_rank *it)
{
	bool outside = false;

	for (int32_t r = 0; r < it->run->count; r++)
		outside |=
			it->team && it->run->rank[r].team == it->team && it->run->rank[r].outside;
	return outside;
}

static bool survive_has_left(const struct lab_run *run, int32_t rank)
{
	const struct lab_rank *it = &run->rank[(rank + run->count) % run->count];

	return shared_load_u32(&it->done, SHARED_ACQUIRE) && !it->error_call;
}

/* True if the ranks from `first` to the next one that has left in order are one rank, or have no
 * failure of their own. Some rank has left. */
static bool survive_is_cut_off(const struct lab_run *run, int32_t first)
{
	bool failed = false;
	int32_t n = 0;

	while (!survive_has_left(run, first + n)) {
		const struct lab_rank *it = &run->rank[(first + n++) % run->count];

		failed |= it->dead || it->error_call;
	}
	return n == 1 || !failed;
}

/* Ranks between two in the ring that have left in order learn of no failure of others, and ranks of
 * their hosts wait for them in their destroy. */
static bool survive_cut_off(const struct lab_run *run)
{
	for (int32_t r = 0; r < run->count; r++)
		if (!survive_has_left(run, r) && survive_has_left(run, r - 1) &&
		    survive_is_cut_off(run, r))
			return true;
	return false;
}

/* A rank that waits for the others in the init of a transient communicator cannot learn of one that
 * will not come: they have no connection yet. */
void lab_survive_unreported(const struct lab_rank *it)
{
	const struct lab_run *run = it->run;

	ASSERT(run->armed); /* a rank has a watch only in a run with faults */
	if (sim_engine_kind() != SIM_ENGINE_SIM || !sim_faults_healed() ||
	    os_now_ns() < run->healed_ns + LAB_LIVENESS_NS || survive_before_ring(run) ||
	    it->transient_begins || survive_left_out(it) || survive_cut_off(run))
		return;
	sim_fail_as(SIM_NO_PROGRESS, "liveness", it->rank,
		    "rank %d in %s got no error from the stack; the first error, on rank %d, "
		    "is older than %d s",
		    it->rank, it->call ? it->call : "no call", run->error_rank,
		    (int)(LAB_LAUNCHER_NS / 1000000000));
}

/* ---- recovery ------------------------------------------------------------------------------- */

/* A sticky error ends with the program. A few attempts, since one call may fail by the plan. */
bool lab_gpu_dead(const struct lab_rank *me)
{
	size_t free_bytes, total_bytes;

	/* it may be what failed before */
	for (int i = 0; i < SURVIVE_PROBES && cudaSetDevice(me->device) != cudaSuccess;)
		i++;
	for (int i = 0; i < SURVIVE_PROBES; i++)
		if (cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess)
			return false;
	return true;
}

/* Another rank of the process may have freed this one's memory, and met the error in that, after
 * this one had come: then no rank goes on. */
bool lab_gpu_dead_late(const struct lab_rank *me)
{
	struct lab_run *run = me->run;

	if (lab_gpu_dead(me))
		shared_store_u32(&run->lost_late, 1, SHARED_RELEASE);
	os_sleep_ns(SURVIVE_LATE_NS);
	return shared_load_u32(&run->lost_late, SHARED_ACQUIRE) != 0;
}

static void survive_not_recovered(struct lab_rank *me, const char *call, ncclResult_t rc)
{
	lab_judge(me, SIM_ERROR, "recovery",
		  "%s: %s; of %d ranks %d live, and the faults have healed", call,
		  ncclGetErrorString(rc), me->run->nranks, me->run->survivors);
}

/* After trouble: the survivors meet, faults heal, and a second communicator must work. */
void lab_survive_second(struct lab_rank *me)
{
	struct lab_run *run = me->run;
	const char *call = "cudaMalloc";

	if (!run->armed || !run->config->recover)
		return;
	if (lab_gpu_dead(me)) {
		lab_leave(me);
		return;
	}
	if (!lab_wait_survivors(me) || !shared_load_u32(&run->failed, SHARED_ACQUIRE))
		return;
	if (lab_gpu_dead_late(me))
		return;
	lab_call(me, "the second communicator");
	ncclResult_t rc = ncclUnhandledCudaError;
	if (lab_recover_alloc(me))
		rc = lab_recover(me, &call);
	lab_call(me, NULL);
	if (rc)
		survive_not_recovered(me, call, rc);
}

/* ---- afterwards ----------------------------------------------------------------------------- */

/* Returns true for errors that a survivor may get. Other errors blame its own program. */
static bool survive_class(ncclResult_t error)
{
	return error == ncclRemoteError || error == ncclSystemError || error == ncclInternalError ||
	       error == ncclUnhandledCudaError || error == ncclTimeout;
}

/* A rank that no fault hit, nor a rank of its program, reports that another one failed, and no
 * failure of its own. */
static bool survive_is_own(const struct lab_rank *it)
{
	if (it->error == ncclRemoteError || it->error == ncclTimeout || it->outside ||
	    sim_fault_hit_proc(it->proc))
		return false;
	for (int32_t r = 0; r < it->run->count; r++)
		if (it->run->rank[r].proc == it->proc && sim_fault_hit_rank(it->run->rank[r].rank))
			return false;
	return true;
}

/* A rank that does not learn of a NIC or an NVLink makes another topology than the others of its
 * host, as one with other settings does. */
static bool survive_sees_less(void)
{
	static const char *const of[] = {
		"verbs.query_", "verbs.open_device", "verbs.get_device_list",
		"verbs.device", "fabric.link",       "os.alloc",
		"nvml."};
	struct sim_fault_stat s;
	bool less = false;

	for (uint32_t i = 0; sim_fault_stat(i, &s) && !less; i++)
		for (size_t k = 0; k < ARRAY_LEN(of) && s.fires; k++)
			less |= strncmp(s.site, of[k], strlen(of[k])) == 0;
	return less;
}

static const char *survive_why(const struct lab_rank *it)
{
	ASSERT(it->error_call && it->error != ncclSuccess);
	if (it->error == ncclInvalidUsage && survive_sees_less())
		return NULL;
	if (!survive_class(it->error))
		return "which a fault cannot cause";
	return survive_is_own(it) ? "and no fault fired at this rank" : NULL;
}

/* Ranks with settings that contradict each other: no init may succeed, and a rank reports the
 * contradiction. If all processes have the same settings, the algorithm cannot run: inits succeed,
 * and a rank's first call is refused. */
static void survive_judge_refusal(struct lab_run *run)
{
	const bool at_call = !run->config->env_odd;
	bool refused = false;

	for (int32_t r = 0; r < run->count; r++) {
		const struct lab_rank *it = &run->rank[r];
		bool usage = it->error == ncclInvalidUsage || it->error == ncclInvalidArgument;
		/* a rank that looks for a root that has ended may first meet its deadline */
		bool late =
			it->error == ncclTimeout && lab_has_env(run->config, "DOPPEL_TIMEOUT_MS");

		refused |= usage && it->worked == at_call;
		/* a rank that comes late does not begin its init */
		if ((at_call || !it->worked) &&
		    (!it->error_call || usage || late || it->error == ncclRemoteError))
			continue;
		lab_judge(it, SIM_ERROR, "error-class", "%s gave \"%s\"",
			  at_call ? "a call of an algorithm that cannot run"
				  : "the init with contradicting settings",
			  ncclGetErrorString(it->error));
	}
	if (refused || run->judged != SIM_PASS)
		return;
	sim_note_failure(SIM_ERROR, "error-class", 0,
			 "no rank reported that the settings contradict each other or cannot run");
	run->judged = SIM_ERROR;
}

/* A watchdog may be the first to have the error. */
static bool survive_is_late(const struct lab_rank *it, char *out, size_t bytes)
{
	return it->error_call && !it->outside && !it->team &&
	       strncmp(it->error_call, "ncclCommGetAsyncError", 21) != 0 &&
	       lab_failure_late(it->rank, it->error_call, out, bytes);
}

/* A failed call that no rank has reported, or a later call than the one that made it. */
static void survive_judge_silence(struct lab_run *run)
{
	char text[LAB_REPORTED_BYTES];
	bool shown = run->error != ncclSuccess || run->killed || run->error_taken, bad = false;

	if (!run->armed || run->config->life || run->judged != SIM_PASS)
		return;
	for (int32_t r = 0; r < run->count; r++) {
		shown |= run->rank[r].error_call != NULL || run->rank[r].dead;
		bad = bad || survive_is_late(&run->rank[r], text, sizeof text);
	}
	if (!bad && (shown || !lab_failure_unreported(text, sizeof text)))
		return;
	sim_note_failure(SIM_ERROR, "unreported", -1, "%s", text);
	fprintf(stderr, "doppel: %s\n", text);
	run->judged = SIM_ERROR;
}

void lab_survive_judge(struct lab_run *run)
{
	if (run->config->refuses)
		survive_judge_refusal(run);
	for (int32_t r = 0; r < run->count && run->armed && !run->config->life; r++) {
		const struct lab_rank *it = &run->rank[r];

		/* a group's error is that of all its ranks */
		if (it->dead || lab_team_watch_aborted(it) || !it->error_call || !survive_why(it))
			continue;
		lab_judge(it, SIM_ERROR, "error-class", "%s gave \"%s\", %s", it->error_call,
			  ncclGetErrorString(it->error), survive_why(it));
	}
	survive_judge_silence(run);
	survive_run = NULL;
}
