/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network connection: its place in the service task's table, and the state machine that connects
 * and closes it without waiting for another rank. Called by the service task.
 */
#include "core/base/log.h"
#include "core/os/os_grow.h"
#include "core/proxy/proxy_internal.h"
#include "core/transport/collnet/collnet.h"

const char *proxy_conn_state_name(enum proxy_conn_state s)
{
	static const char *const names[] = {
		[PROXY_CONN_NEW] = "NEW",
		[PROXY_CONN_SET_UP] = "SET_UP",
		[PROXY_CONN_CONNECTING] = "CONNECTING",
		[PROXY_CONN_CONNECTED] = "CONNECTED",
		[PROXY_CONN_PREPARING] = "PREPARING",
		[PROXY_CONN_READY] = "READY",
		[PROXY_CONN_FAILED] = "FAILED",
		[PROXY_CONN_DRAINING] = "DRAINING",
	};

	return (unsigned)s < ARRAY_LEN(names) ? names[s] : "?";
}

/* ---- the table ------------------------------------------------------------------------------ */

static bool proxy_table_add(struct proxy_gpu *p, struct proxy_conn *pc)
{
	uint32_t i = 0;

	if (!proxy_service_reserve(p, p->conns + 1, p->service_relay_count) ||
	    (p->conns == p->conn_room &&
	     !OS_GROW(p->conn, p->conn_room, p->conn_room, 16, "proxy's table")))
		return false;
	while (p->conn[i])
		i++;
	ASSERT(i < p->conn_room);
	p->conn[i] = pc;
	p->conns++;
	pc->number = i + 1;
	return true;
}

static void proxy_conn_fill(struct proxy_conn *pc, const struct proxy_call *call)
{
	const struct proxy_message *m = &call->m;

	pc->proxy = call->proxy;
	pc->comm = call->proxy->comm;
	pc->mine = m->info;
	pc->rank = m->info.rank;
	pc->peer = m->peer;
	pc->channel = m->info.channel;
	pc->nic = m->nic;
	pc->is_send = m->info.is_send;
	pc->conn_index = (uint8_t)m->info.index;
	pc->net = conn_reduces(pc->comm, pc->conn_index, pc->rank, pc->peer) ? &net_collnet
									     : pc->proxy->net;
	for (int p = 0; p < DEV_PROTO_COUNT; p++) {
		pc->buffer[p].step_bytes = m->info.step_bytes[p];
		pc->buffer[p].bytes = (size_t)DEV_STEPS * m->info.step_bytes[p];
	}
	pc->step = pc->head_shown = transport_first_step();
	os_label(pc, &(struct os_label){.what = pc->is_send ? "proxy send" : "proxy recv",
					.rank = pc->rank,
					.peer = pc->peer,
					.channel = pc->channel,
					.number = -1});
}

ncclResult_t proxy_conn_make(struct proxy_gpu *p, const struct proxy_call *call,
			     struct proxy_conn **out)
{
	struct proxy_conn *pc = os_alloc(sizeof *pc, "proxy connection");

	*out = NULL;
	if (!pc || !proxy_table_add(p, pc)) {
		os_free(pc);
		WARN("rank %d: no memory for the proxy's connection to rank %d", call->m.info.rank,
		     call->m.peer);
		return ncclSystemError;
	}
	proxy_conn_fill(pc, call);
	*out = pc;
	return ncclSuccess;
}

struct proxy_conn *proxy_conn_find(const struct proxy_gpu *p, const struct proxy_message *m)
{
	struct proxy_conn *pc = NULL;

	if (m->conn >= 1 && m->conn <= p->conn_room)
		pc = p->conn[m->conn - 1];
	if (pc && pc->comm->id_hash == m->comm_hash)
		return pc;
	WARN("a request to the proxy names connection %u, which its communicator does not have",
	     m->conn);
	return NULL;
}

/* ---- states --------------------------------------------------------------------------------- */

void proxy_conn_enter(struct proxy_conn *pc, enum proxy_conn_state s)
{
	pc->state = s;
	os_trace("proxy.conn", (uint64_t)pc->rank << 32 | (uint32_t)pc->peer,
		 (uint64_t)pc->channel << 1 | pc->is_send, s);
}

/* A sending end gets its link later, when it knows the other end's handle. */
static ncclResult_t proxy_conn_setup(struct proxy_conn *pc)
{
	ncclResult_t rc = proxy_conn_find_device(pc);

	if (rc)
		return rc;
	snprintf(pc->mine.nic, sizeof pc->mine.nic, "%s", topo_nic_name(pc->comm->topo, pc->nic));
	return pc->is_send ? ncclSuccess : proxy_link_get(pc);
}

static ncclResult_t proxy_conn_connect(struct proxy_conn *pc, bool *moved)
{
	ncclResult_t rc = pc->link ? ncclSuccess : proxy_link_get(pc);

	if (!rc)
		rc = proxy_link_connect(pc);
	if (rc)
		return rc;
	*moved = true;
	proxy_conn_enter(pc, pc->proxy->relay ? PROXY_CONN_PREPARING : PROXY_CONN_CONNECTED);
	return pc->proxy->relay ? ncclInProgress : ncclSuccess;
}

/* If the NIC does not reach the GPU, prepares once more with other memory. A relay's memory is
 * available; otherwise the rank must send it. */
static ncclResult_t proxy_conn_prepare_step(struct proxy_conn *pc, bool *moved)
{
	bool again;
	ncclResult_t rc = proxy_conn_prepare(pc, &again);

	if (rc)
		return rc;
	*moved = true;
	if (again && pc->proxy->relay)
		return ncclInProgress;
	pc->call->again = again;
	proxy_conn_enter(pc, again ? PROXY_CONN_CONNECTED : PROXY_CONN_READY);
	return ncclSuccess;
}

static ncclResult_t proxy_conn_drain(struct proxy_conn *pc)
{
	const struct proxy_conn *busy = proxy_link_busy(pc);

	if (busy) {
		pc->wait = wait_word(&busy->ops_live, 4, WAIT_EQ, 0,
				     "operations of a connection that closes to end",
				     wait_by(busy->rank, busy->channel, "proxy progress"));
		return ncclInProgress;
	}
	shared_note_read(&pc->run, sizeof pc->run);
	return ncclSuccess;
}

ncclResult_t proxy_conn_step(struct proxy_conn *pc, bool *moved)
{
	ncclResult_t rc;

	switch (pc->state) {
	case PROXY_CONN_NEW:
		rc = proxy_conn_setup(pc);
		if (!rc)
			proxy_conn_enter(pc, PROXY_CONN_SET_UP);
		return rc;
	case PROXY_CONN_CONNECTING:
		return proxy_conn_connect(pc, moved);
	case PROXY_CONN_PREPARING:
		return proxy_conn_prepare_step(pc, moved);
	case PROXY_CONN_DRAINING:
		return proxy_conn_drain(pc);
	case PROXY_CONN_SET_UP:
	case PROXY_CONN_CONNECTED:
	case PROXY_CONN_READY:
	case PROXY_CONN_FAILED:
	default:
		WARN("rank %d: a step of a connection that is %s", pc->rank,
		     proxy_conn_state_name(pc->state));
		return ncclInternalError;
	}
}

static void proxy_conn_release(struct proxy_conn *pc)
{
	proxy_conn_unprepare(pc);
	proxy_link_put(pc);
}

void proxy_conn_free(struct proxy_conn *pc)
{
	struct proxy_gpu *p = pc->proxy->gpu;

	ASSERT(!pc->call && p->conn[pc->number - 1] == pc);
	proxy_conn_release(pc);
	os_unlabel(pc);
	p->conn[pc->number - 1] = NULL;
	p->conns--;
	os_free(pc);
}
