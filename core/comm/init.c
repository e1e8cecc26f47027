/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps by which one rank joins a communicator. */
#include <inttypes.h>

#include "core/base/log.h"
#include "core/comm/comm_internal.h"
#include "core/os/check.h"
#include "core/plan/plan.h"
#include "core/profiler/profiler.h"
#include "core/proxy/proxy.h"
#include "core/rank/cuda_result.h"
#include "core/transport/transport.h"

/* Creates stream and event. They must exist before the first kernel runs, because creating them may
 * wait for the device. */
static ncclResult_t comm_cuda_make(struct ncclComm *comm)
{
	ncclResult_t rc = cuda_result(
		cudaStreamCreateWithFlags(&comm->internal_stream, cudaStreamNonBlocking),
		"cudaStreamCreateWithFlags");
	if (!rc)
		rc = cuda_result(
			cudaEventCreateWithFlags(&comm->launch_done, cudaEventDisableTiming),
			"cudaEventCreateWithFlags");
	if (!rc && comm->timeout_ns && comm->nranks > 1)
		rc = rank_timed_make(&comm->timed);
	return rc;
}

/* Makes channels and connections; a single rank needs none. */
static ncclResult_t comm_connect(struct ncclComm *comm)
{
	struct conn_job *job = NULL;
	ncclResult_t rc;

	if (comm->nranks == 1) {
		rc = comm_channels_alone(comm);
		if (!rc)
			profiler_open(comm, comm->life->name, 1);
		return rc;
	}
	rc = comm_channels_make(comm);
	if (!rc)
		profiler_open(comm, comm->life->name, comm->summary.nhosts);
	if (!rc)
		rc = transport_connect_all(comm, comm->want, comm->nends, &job);
	if (!rc)
		rc = comm_dev_make(comm);
	if (!rc)
		rc = transport_ends_upload(comm);
	transport_connect_drop(job);
	return rc;
}

/* Sets the final hash, which differs from that of other communicators with the same unique id. */
static void comm_identify(struct ncclComm *comm)
{
	uint64_t hash = bootstrap_comm_hash(comm->bootstrap, &comm->life->id);
	struct registry_node *first = registry_lock();

	comm->id_hash = hash;
	registry_unlock(first);
}

/* Times of an init, for subsystem PROFILE. */
struct init_times {
	uint64_t start_ns, bootstrap_ns, peers_ns, connect_ns;
};

static void comm_init_profile(const struct ncclComm *comm, const struct init_times *t)
{
	const uint64_t end_ns = os_now_ns();
	const double s = 1e-9;

	INFO(LOG_INIT | LOG_PROFILE,
	     "Init timings - %s: rank %d nranks %d total %.6f s (bootstrap %.6f, "
	     "allgather %.6f, topology and connections %.6f, rest %.6f)",
	     comm->life->made_by, comm->rank, comm->nranks, (double)(end_ns - t->start_ns) * s,
	     (double)(t->bootstrap_ns - t->start_ns) * s,
	     (double)(t->peers_ns - t->bootstrap_ns) * s, (double)(t->connect_ns - t->peers_ns) * s,
	     (double)(end_ns - t->connect_ns) * s);
}

/* Shows the RAS task the part of the init that begins, unless the one before has failed. */
static void comm_init_step(struct ncclComm *comm, enum comm_init_step step, ncclResult_t rc)
{
	if (!comm->ras || rc)
		return;
	shared_store_u32(&comm->life->init_step, step, SHARED_RELAXED);
	if (step == COMM_STEP_JOIN)
		shared_store_u64(&comm->life->init_ns, os_now_ns(), SHARED_RELEASE);
}

static ncclResult_t comm_init_steps(struct ncclComm *comm)
{
	struct init_times t = {.start_ns = os_now_ns()};
	ncclResult_t rc = cuda_result(cudaSetDevice(comm->cuda_dev), "cudaSetDevice");
	comm_init_step(comm, COMM_STEP_JOIN, ncclSuccess);
	transport_steps_set(comm);
	if (rc)
		bootstrap_give_up(&comm->life->id, comm->rank, comm->nranks, log_task_error());
	else
		rc = bootstrap_init(&comm->life->id, comm->rank, comm->nranks, comm->abort,
				    &comm->bootstrap);
	t.bootstrap_ns = os_now_ns();
	comm_init_step(comm, COMM_STEP_GATHER, rc);
	if (!rc)
		comm_identify(comm);
	if (!rc)
		rc = comm_peers_gather(comm);
	t.peers_ns = os_now_ns();
	comm_init_step(comm, COMM_STEP_CONNECT, rc);
	if (!rc)
		rc = comm_cuda_make(comm);
	if (!rc)
		rc = comm_connect(comm);
	t.connect_ns = os_now_ns();
	if (!rc)
		rc = plan_init(comm);
	comm_init_step(comm, COMM_STEP_AGREE, rc);
	if (!rc)
		rc = bootstrap_agree(
			comm->bootstrap, plan_choice_hash(comm),
			"models, tuner plugins or channels of messages to choose programs by");
	if (!rc)
		comm_init_profile(comm, &t);
	return rc;
}

static void comm_init_log(const struct ncclComm *comm, const char *what)
{
	INFO(LOG_INIT,
	     "%s comm %p rank %d nranks %d cudaDev %d busId %s%s commId 0x%" PRIx64
	     "%s%s - Init %s",
	     comm->life->made_by, (const void *)comm, comm->rank, comm->nranks, comm->cuda_dev,
	     comm->bus_id, comm->life->made_from, comm->id_hash,
	     comm->life->name[0] ? " commName " : "", comm->life->name, what);
}

void comm_leave_others(struct ncclComm *comm)
{
	bool busy = comm_others_are_busy(comm);

	(void)cuda_result(cudaSetDevice(comm->cuda_dev), "cudaSetDevice");
	proxy_relays_stop_sending(comm);
	if (!busy)
		transport_leave(comm);
	os_mutex_lock(&comm->watch); /* another rank's task may poll the ring */
	proxy_relays_give_up(comm);
	if (comm->bootstrap)
		bootstrap_ring_break(comm->bootstrap);
	if (!busy)
		bootstrap_leave(comm->bootstrap);
	os_mutex_unlock(&comm->watch);
}

ncclResult_t comm_init(struct ncclComm *comm)
{
	ncclResult_t rc;
	ASSERT(comm->magic == COMM_MAGIC && comm->life->state == COMM_INIT);
	log_set_device(comm->cuda_dev);
	int32_t rank = os_work_for(comm->rank);
	os_trace_begin(&(struct os_trace_slice){.name = "init",
						.arg = {{"rank", (uint64_t)comm->rank, NULL},
							{"ranks", (uint64_t)comm->nranks, NULL}}});
	/* At WARN the log contains errors only. */
	if (comm->rank == 0 &&
	    (log_wanted(LOG_LEVEL_INFO, LOG_INIT) || !log_wanted(LOG_LEVEL_WARN, LOG_ALL)))
		LOG_VERSION_LINE("version %d.%d.%d (Doppel)", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
	comm_init_log(comm, "START");
	rc = comm_init_error(comm, comm_init_steps(comm));
	if (!rc) {
		os_agree_member(comm->id_hash, (uint64_t)comm->cuda_dev, true);
		if (comm->bootstrap) {
			bootstrap_settle(comm->bootstrap);
			bootstrap_look(comm->bootstrap, comm_look_at_parked, comm);
		}
		rank_bootstrap_release(comm);
		comm_state_set(comm, COMM_READY);
		comm_init_log(comm, "COMPLETE");
	} else {
		INFO(LOG_INIT, "rank %d: init ends with %d%s", comm->rank, (int)rc,
		     shared_load_u32(comm->abort, SHARED_ACQUIRE) ? " (aborted)" : "");
		shared_store_u32(comm->abort, 1, SHARED_RELEASE);
		comm_leave_others(comm);
	}
	os_trace_end(
		&(struct os_trace_slice){.name = "init", .arg = {{"result", (uint64_t)rc, NULL}}});
	(void)os_work_for(rank);
	return rc;
}
