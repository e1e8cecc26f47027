/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service task. It receives requests of all communicators on the GPU, steps all their
 * connections in each pass, and answers.
 */
#include <cuda_runtime_api.h>

#include "core/base/log.h"
#include "core/proxy/relay/relay.h"
#include "core/rank/cuda_result.h"

/* Answers a call. The caller may free the call immediately afterwards. */
static void proxy_call_answer(struct proxy_call *call, struct proxy_conn *pc, ncclResult_t result)
{
	call->m.result = result;
	if (relay_is_request(call)) {
		relay_answer(call, pc);
		return;
	}
	shared_note_write(&call->m, sizeof call->m);
	shared_store_u32(&call->answered, 1, SHARED_RELEASE);
}

bool proxy_service_reserve(struct proxy_gpu *p, uint32_t conns, uint32_t relays)
{
	return proxy_waits_reserve(&p->service_waits, conns * PROXY_SERVICE_WAITS +
							      relays * PROXY_RELAY_WAITS +
							      PROXY_TASK_WAITS);
}

/* ---- new requests --------------------------------------------------------------------------- */

static ncclResult_t proxy_service_setup(struct proxy_gpu *p, const struct proxy_call *call,
					struct proxy_conn **pc)
{
	*pc = NULL;
	return p->device ? p->device : proxy_conn_make(p, call, pc);
}

/* Finds the connection of a later request and enters the state that works on the request. */
static ncclResult_t proxy_service_resume(struct proxy_gpu *p, const struct proxy_call *call,
					 struct proxy_conn **pc)
{
	const struct proxy_message *m = &call->m;

	*pc = proxy_conn_find(p, m);
	if (!*pc)
		return ncclInternalError;
	if (m->command == PROXY_CONNECT && (*pc)->state == PROXY_CONN_SET_UP) {
		(*pc)->theirs = m->info;
		proxy_conn_enter(*pc, PROXY_CONN_CONNECTING);
	} else if (m->command == PROXY_PREPARE && (*pc)->state == PROXY_CONN_CONNECTED) {
		(*pc)->memory = call->memory;
		proxy_conn_enter(*pc, PROXY_CONN_PREPARING);
	} else if (m->command == PROXY_CLOSE) {
		proxy_conn_enter(*pc, PROXY_CONN_DRAINING);
	} else {
		WARN("rank %d: a request to %s a connection that is %s", (*pc)->rank,
		     m->command == PROXY_CONNECT ? "connect" : "prepare",
		     proxy_conn_state_name((*pc)->state));
		return ncclInternalError;
	}
	return ncclSuccess;
}

/* Begins or ends an area, or the service of a rank's knocks. The return value is the answer. */
static ncclResult_t proxy_service_relay(struct proxy_gpu *p, const struct proxy_call *call)
{
	struct relay_state *st = call->proxy->comm->relays;

	if (call->m.command == PROXY_RELAY_END || call->m.command == PROXY_BOARD_END) {
		if (call->relay)
			relay_service_leave(p, call->relay);
		else
			relay_board_part(p, st);
		return ncclSuccess;
	}
	if (p->device) /* no rank can send through this one later */
		return p->device;
	if (!proxy_service_reserve(p, p->conns, p->service_relay_count + 1)) {
		WARN("rank %d: no memory for the waits of a relay", call->proxy->comm->rank);
		return ncclSystemError;
	}
	if (call->relay)
		relay_service_join(p, call->relay);
	else
		relay_board_join(p, st);
	return ncclSuccess;
}

/* True if the call is about an area or a board instead of a connection. */
static bool proxy_call_is_relays(const struct proxy_call *call)
{
	const struct proxy_message *m = &call->m;

	return m->magic == PROXY_MESSAGE_MAGIC &&
	       (call->relay ? m->command == PROXY_RELAY || m->command == PROXY_RELAY_END
			    : m->command == PROXY_BOARD || m->command == PROXY_BOARD_END);
}

static ncclResult_t proxy_service_begin(struct proxy_gpu *p, const struct proxy_call *call,
					struct proxy_conn **pc)
{
	const struct proxy_message *m = &call->m;

	*pc = NULL;
	if (proxy_call_is_relays(call))
		return proxy_service_relay(p, call);
	if (m->magic == PROXY_MESSAGE_MAGIC && m->command == PROXY_SETUP)
		return proxy_service_setup(p, call, pc);
	if (m->magic == PROXY_MESSAGE_MAGIC &&
	    (m->command == PROXY_CONNECT || m->command == PROXY_PREPARE ||
	     m->command == PROXY_CLOSE))
		return proxy_service_resume(p, call, pc);
	WARN("a request to the proxy has magic %#x and command %u", m->magic, m->command);
	return ncclInternalError;
}

/* Begins a request. A CLOSE replaces a CONNECT that is not answered yet. */
void proxy_service_request(struct proxy_gpu *p, struct proxy_call *call)
{
	struct proxy_conn *pc;
	ncclResult_t rc = proxy_service_begin(p, call, &pc);

	if (rc || !pc) {
		proxy_call_answer(call, NULL, rc);
		return;
	}
	if (!pc->call) {
		pc->working_next = p->working;
		p->working = pc;
	}
	pc->call = call;
}

static void proxy_service_take(struct proxy_gpu *p)
{
	struct proxy_node *node = proxy_posted_take(&p->requests), *next;

	for (; node; node = next) {
		struct proxy_call *call = (struct proxy_call *)node;

		next = node->next;
		shared_note_read(&call->m, sizeof call->m);
		proxy_service_request(p, call);
	}
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* Answers the request of a connection. The caller has removed the connection from the list of those
 * with requests. */
static void proxy_service_finish(struct proxy_conn *pc, ncclResult_t result)
{
	struct proxy_call *call = pc->call;
	bool set_up = call->m.command == PROXY_SETUP;
	bool gone = call->m.command == PROXY_CLOSE || (set_up && result);

	pc->call = NULL;
	if (set_up && !result) {
		call->m.conn = pc->number;
		call->m.info = pc->mine;
		call->conn = pc;
	} else if (gone) {
		proxy_conn_free(pc);
	} else if (result) {
		proxy_conn_enter(pc, PROXY_CONN_FAILED);
	}
	proxy_call_answer(call, gone ? NULL : pc, result);
}

static bool proxy_conn_is_aborted(const struct proxy_conn *pc)
{
	return shared_load_u32(pc->comm->abort, SHARED_ACQUIRE) != 0 ||
	       (pc->proxy->relay && relay_is_over(pc->proxy->relay));
}

/* Makes one step of a connection. After an abort the other ends need not connect, so CONNECT and
 * PREPARE fail. */
static ncclResult_t proxy_service_step(struct proxy_conn *pc, bool *moved)
{
	proxy_work_for(pc->comm->rank);
	if (pc->call->m.command != PROXY_SETUP && pc->call->m.command != PROXY_CLOSE &&
	    proxy_conn_is_aborted(pc))
		return ncclInternalError;
	return proxy_conn_step(pc, moved);
}

/* Steps every connection with a request; removes those that have an answer. */
static bool proxy_service_pass(struct proxy_gpu *p)
{
	struct proxy_conn **at = &p->working, *pc;
	bool moved = false;

	while ((pc = *at) != NULL) {
		ncclResult_t rc = proxy_service_step(pc, &moved);

		if (rc == ncclInProgress) {
			at = &pc->working_next;
			continue;
		}
		*at = pc->working_next;
		proxy_service_finish(pc, rc);
		moved = true;
	}
	proxy_work_for(p->rank);
	return moved;
}

/* Waits for work. Aborts matter only to connections that wait for their other ends. */
static void proxy_service_wait(struct proxy_gpu *p)
{
	struct proxy_waits *waits = &p->service_waits;
	struct wait mail =
		proxy_posted_wait(&p->requests, p->rank, "requests from the main task", "main");
	struct wait stop = mail;

	if (OS_BUGGIFY("proxy.service_wake_early", "the service task's wait ends immediately"))
		return;
	stop.on = &p->stop;
	stop.bytes = sizeof p->stop;
	stop.why = "the proxy to be stopped";
	waits->n = 0;
	proxy_waits_add(waits, &mail, p->rank);
	proxy_waits_add(waits, &stop, p->rank);
	relay_service_waits(p, waits);
	for (struct proxy_conn *pc = p->working; pc; pc = pc->working_next) {
		proxy_waits_add(waits, &pc->wait, pc->rank);
		if (pc->state != PROXY_CONN_DRAINING)
			proxy_waits_add(waits, &pc->proxy->abort_wait, pc->rank);
	}
	os_self()->wait_ranks = waits->rank;
	(void)os_wait(waits->wait, (int)waits->n, NULL, NULL);
	os_self()->wait_ranks = NULL;
}

void proxy_service_main(void *arg)
{
	struct proxy_gpu *p = arg;

	(void)cuda_capture_mode(cudaStreamCaptureModeRelaxed);
	p->device = cuda_result(cudaSetDevice(p->cuda_dev), "cudaSetDevice in the proxy's service");
	for (;;) {
		bool stopping = shared_load_u32(&p->stop, SHARED_ACQUIRE) != 0, taken;

		proxy_service_take(p);
		taken = relay_service_take(p);
		taken |= relay_knocks_take(p);
		if (stopping) {
			ASSERT(!p->working && !p->conns && !p->service_relays &&
			       !p->service_boards);
			return;
		}
		if (!proxy_service_pass(p) && !taken)
			proxy_service_wait(p);
	}
}
