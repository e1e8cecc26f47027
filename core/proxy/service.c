/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service task: makes, connects and closes network connections for the main task, each a state
 * machine that never blocks, all of them at the same time.
 */
#include <cuda_runtime_api.h>
#include <string.h>

#include "core/base/log.h"
#include "core/proxy/proxy_internal.h"
#include "core/rank/cuda_result.h"

const char *proxy_conn_state_name(enum proxy_conn_state s)
{
	static const char *const names[] = {
		[PROXY_CONN_NEW] = "NEW",
		[PROXY_CONN_SET_UP] = "SET_UP",
		[PROXY_CONN_CONNECTING] = "CONNECTING",
		[PROXY_CONN_PREPARING] = "PREPARING",
		[PROXY_CONN_READY] = "READY",
		[PROXY_CONN_FAILED] = "FAILED",
		[PROXY_CONN_DRAINING] = "DRAINING",
		[PROXY_CONN_CLOSED] = "CLOSED",
	};

	return (unsigned)s < ARRAY_LEN(names) ? names[s] : "?";
}

/* ---- the connection's state machine --------------------------------------------------------- */

static void proxy_conn_enter(struct proxy_conn *pc, enum proxy_conn_state s, bool *moved)
{
	pc->state = s;
	*moved = true;
	os_trace("proxy.conn", (uint64_t)pc->rank << 32 | (uint32_t)pc->peer,
		 (uint64_t)pc->channel << 1 | pc->is_send, s);
}

static ncclResult_t proxy_conn_setup(struct proxy_conn *pc)
{
	struct net_who who = {.peer = pc->peer, .channel = pc->channel};
	ncclResult_t rc = proxy_conn_find_device(pc);

	if (rc)
		return rc;
	pc->mine.magic = NET_INFO_MAGIC;
	pc->mine.rank = pc->rank;
	pc->mine.channel = pc->channel;
	pc->mine.is_send = pc->is_send;
	pc->mine.index = pc->conn_index;
	pc->mine.step_bytes = pc->step_bytes;
	snprintf(pc->mine.nic, sizeof pc->mine.nic, "%s", topo_nic_name(pc->comm->topo, pc->nic));
	if (pc->is_send)
		return ncclSuccess;
	return pc->proxy->net->listen(pc->comm, pc->net_dev, &who, &pc->mine.handle, &pc->listen);
}

static ncclResult_t proxy_conn_connect(struct proxy_conn *pc)
{
	const struct net_ops *net = pc->proxy->net;
	struct net_who who = {.peer = pc->peer, .channel = pc->channel};

	if (pc->is_send)
		return net->connect(pc->comm, pc->net_dev, &who, &pc->theirs.handle, &pc->pending,
				    &pc->net_comm, &pc->wait);
	return net->accept(pc->listen, &pc->net_comm, &pc->wait);
}

static ncclResult_t proxy_conn_connected(struct proxy_conn *pc, bool *moved)
{
	if (pc->listen)
		pc->proxy->net->close_listen(pc->listen);
	pc->listen = NULL;
	proxy_conn_enter(pc, PROXY_CONN_PREPARING, moved);
	return ncclInProgress;
}

static void proxy_conn_drain(struct proxy_conn *pc, bool *moved)
{
	if (shared_load_u32(&pc->ops_live, SHARED_ACQUIRE)) {
		pc->wait = (struct wait){
			.on = &pc->ops_live,
			.mask = WAIT_MASK_ALL,
			.kind = WAIT_EQ,
			.bytes = 4,
			.why = "operations of a connection that closes to end",
			.from = {.rank = pc->rank,
				 .channel = pc->channel,
				 .step = -1,
				 .object = "proxy progress"},
		};
		return;
	}
	shared_note_read(&pc->run, sizeof pc->run);
	proxy_conn_release(pc);
	proxy_conn_enter(pc, PROXY_CONN_CLOSED, moved);
}

/* One step of what the connection is working on. ncclInProgress: not finished, pc->wait says what
 * for unless *moved; anything else is the answer. */
ncclResult_t proxy_conn_step(struct proxy_conn *pc, bool *moved)
{
	ncclResult_t rc;

	switch (pc->state) {
	case PROXY_CONN_NEW:
		rc = proxy_conn_setup(pc);
		if (!rc)
			proxy_conn_enter(pc, PROXY_CONN_SET_UP, moved);
		break;
	case PROXY_CONN_SET_UP:
		proxy_conn_enter(pc, PROXY_CONN_CONNECTING, moved);
		rc = ncclInProgress;
		break;
	case PROXY_CONN_CONNECTING:
		rc = proxy_conn_connect(pc);
		if (!rc)
			rc = proxy_conn_connected(pc, moved);
		break;
	case PROXY_CONN_PREPARING:
		rc = proxy_conn_prepare(pc);
		if (!rc)
			proxy_conn_enter(pc, PROXY_CONN_READY, moved);
		break;
	case PROXY_CONN_DRAINING:
		proxy_conn_drain(pc, moved);
		rc = pc->state == PROXY_CONN_CLOSED ? ncclSuccess : ncclInProgress;
		break;
	case PROXY_CONN_READY:
	case PROXY_CONN_FAILED:
	case PROXY_CONN_CLOSED:
	default:
		WARN("rank %d: a request to a connection that is %s", pc->rank,
		     proxy_conn_state_name(pc->state));
		return ncclInternalError;
	}
	if (rc && rc != ncclInProgress)
		proxy_conn_enter(pc, PROXY_CONN_FAILED, moved);
	return rc;
}

void proxy_conn_release(struct proxy_conn *pc)
{
	const struct net_ops *net = pc->proxy->net;

	proxy_conn_unprepare(pc);
	if (pc->net_comm && pc->is_send)
		net->close_send(pc->net_comm);
	else if (pc->net_comm)
		net->close_recv(pc->net_comm);
	if (pc->pending)
		net->close_send(pc->pending);
	if (pc->listen)
		net->close_listen(pc->listen);
	pc->net_comm = pc->pending = pc->listen = NULL;
}

/* ---- the task ------------------------------------------------------------------------------- */

static void proxy_service_answer(struct proxy_conn *pc, ncclResult_t result)
{
	enum proxy_command command = pc->working_on;

	pc->result = result;
	shared_note_write(&pc->result, sizeof pc->result);
	pc->working_on = PROXY_NOTHING;
	shared_store_u32(&pc->answered, command, SHARED_RELEASE);
}

/* Takes new requests. A CLOSE replaces a request that is not answered yet. */
static void proxy_service_take(struct proxy_state *p)
{
	uint32_t node = proxy_posted_take(&p->requests);

	for (; node; node = p->request_next[node]) {
		struct proxy_conn *pc = p->conn[node / 4];
		bool moved;

		if (pc->working_on == PROXY_NOTHING)
			p->working[p->nworking++] = pc;
		ASSERT(p->nworking <= p->conns);
		pc->working_on = node % 4;
		if (pc->working_on == PROXY_CLOSE)
			proxy_conn_enter(pc, PROXY_CONN_DRAINING, &moved);
	}
}

/* Steps everything that is being worked on; what has its answer leaves the list. Once `ending`
 * nobody can say whether the other ends still connect: those requests fail. */
static bool proxy_service_pass(struct proxy_state *p, bool ending)
{
	uint32_t kept = 0;
	bool moved = false;

	for (uint32_t i = 0; i < p->nworking; i++) {
		struct proxy_conn *pc = p->working[i];
		ncclResult_t rc = ncclInternalError;

		if (ending && pc->working_on == PROXY_CONNECT)
			proxy_conn_enter(pc, PROXY_CONN_FAILED, &moved);
		else
			rc = proxy_conn_step(pc, &moved);
		if (rc == ncclInProgress) {
			p->working[kept++] = pc;
			continue;
		}
		proxy_service_answer(pc, rc);
		moved = true;
	}
	p->nworking = kept;
	return moved;
}

static void proxy_service_wait(struct proxy_state *p, bool aborted, bool stopping)
{
	const struct wait **list = p->service_wait;
	struct wait mail = {
		.on = &p->requests.head,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_NE,
		.bytes = 4,
		.why = "requests from the main task",
		.from = {.rank = p->comm->rank, .channel = -1, .step = -1, .object = "main"},
	};
	struct wait stop = mail;
	int n = 0;

	if (OS_BUGGIFY("proxy.service_wake_early", "the service task's wait ends immediately"))
		return;
	stop.on = &p->stop;
	stop.why = "the proxy to be stopped";
	list[n++] = &mail;
	if (!stopping)
		list[n++] = &stop;
	for (uint32_t i = 0; i < p->nworking; i++)
		list[n++] = &p->working[i]->wait;
	(void)os_wait(list, n, aborted ? NULL : p->comm->abort, NULL);
}

void proxy_service_main(void *arg)
{
	struct proxy_state *p = arg;

	if (cuda_result(cudaSetDevice(p->comm->cuda_dev), "cudaSetDevice in the proxy's service"))
		rank_set_async_error(p->comm, ncclUnhandledCudaError);
	for (;;) {
		bool aborted = shared_load_u32(p->comm->abort, SHARED_ACQUIRE) != 0;
		bool stopping = shared_load_u32(&p->stop, SHARED_ACQUIRE) != 0;

		proxy_service_take(p);
		if (stopping && !p->nworking)
			return;
		if (!proxy_service_pass(p, aborted || stopping))
			proxy_service_wait(p, aborted, stopping);
	}
}
