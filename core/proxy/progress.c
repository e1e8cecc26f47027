/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress task. It makes one pass over the running operation of every connection of every
 * communicator. If nothing moved, it waits for all their waits together.
 */
#include "core/base/log.h"
#include "core/proxy/relay/relay.h"
#include "core/rank/cuda_result.h"

/* ---- known connections ---------------------------------------------------------------------- */

static void proxy_conn_fail(struct proxy_conn *pc, ncclResult_t rc)
{
	pc->failed = true;
	rank_set_async_error(pc->comm, rc);
	if (pc->proxy->relay)
		relay_fail(pc->proxy->relay);
}

static void proxy_member_add(struct proxy_gpu *p, struct proxy_state *m)
{
	m->active = NULL;
	m->active_end = &m->active;
	m->leaving = false;
	m->next = p->members;
	p->members = m;
}

bool proxy_progress_reserve(struct proxy_gpu *p, uint32_t known, uint32_t relays)
{
	return proxy_waits_reserve(&p->progress_waits, known * PROXY_PROGRESS_WAITS +
							       relays * PROXY_RELAY_WAITS +
							       PROXY_TASK_WAITS);
}

/* Makes a connection, and its communicator, known to the task at its first operation. Afterwards
 * the task also reports a failure of the connection while it is idle here. Reason: the kernel, or
 * another connection, may wait for data that never arrives. */
static ncclResult_t proxy_conn_watch(struct proxy_gpu *p, struct proxy_conn *pc)
{
	struct proxy_state *m = pc->proxy;

	if (!proxy_progress_reserve(p, p->known + 1, p->progress_relay_count)) {
		WARN("rank %d: no memory for the waits of the proxy", pc->rank);
		return ncclSystemError;
	}
	if (!m->known)
		proxy_member_add(p, m);
	pc->known = true;
	pc->known_next = m->known;
	m->known = pc;
	p->known++;
	if (!pc->is_send)
		proxy_link_join(pc);
	/* Counts as an operation that holds the connection. */
	shared_add_u32(&pc->ops_live, 1, SHARED_RELAXED);
	return ncclSuccess;
}

/* Forgets connections without operations, so that the service task can finish draining them.
 * Returns false if none remain. In that case it removes the communicator from the list first, since
 * the communicator may then be freed. */
static bool proxy_member_forget(struct proxy_gpu *p, struct proxy_state **at)
{
	struct proxy_conn *pc = (*at)->known, *kept = NULL, *gone = NULL, *next;

	for (; pc; pc = next) {
		struct proxy_conn **list = proxy_conn_is_active(pc) ? &kept : &gone;

		next = pc->known_next;
		pc->known_next = *list;
		*list = pc;
	}
	(*at)->known = kept;
	if (!kept)
		*at = (*at)->next;
	for (pc = gone; pc; pc = next) {
		next = pc->known_next;
		pc->known = false;
		p->known--;
		if (!pc->is_send)
			proxy_link_leave(pc);
		if (!pc->is_send && !pc->failed && !pc->link->members)
			pc->net->finish(pc->net_comm);
		proxy_conn_forget(pc);
	}
	return kept != NULL;
}

/* ---- new operations ------------------------------------------------------------------------- */

static void proxy_conn_activate(struct proxy_conn *pc)
{
	pc->active_next = NULL;
	*pc->proxy->active_end = pc;
	pc->proxy->active_end = &pc->active_next;
}

void proxy_slot_take(struct proxy_gpu *p, struct proxy_slot *slot)
{
	struct proxy_conn *pc = slot->conn;
	bool active = proxy_conn_is_active(pc);
	ncclResult_t rc = pc->known ? ncclSuccess : proxy_conn_watch(p, pc);

	proxy_profile_op_begin(pc, slot);
	proxy_conn_queue(pc, slot);
	if (rc) {
		proxy_conn_fail(pc, rc);
		proxy_conn_drop_ops(pc);
	} else if (!active) {
		proxy_conn_activate(pc);
	}
}

/* Moves the operations that main tasks appended to their connections, oldest first. */
static bool proxy_progress_take(struct proxy_gpu *p)
{
	struct proxy_node *node = proxy_posted_take(&p->posted), *next;
	struct proxy_profile_ctrl event = {.comm = NULL};
	bool any = false;
	int appended = 0;

	if (node)
		event = proxy_profile_ctrl_begin(p, PROFILER_CTRL_APPEND);
	for (; node; node = next) {
		struct proxy_slot *slot = (struct proxy_slot *)node;

		next = node->next;
		shared_note_read(slot, sizeof *slot);
		any = any || slot->conn || slot->relay;
		appended += slot->conn != NULL;
		if (slot->conn)
			proxy_slot_take(p, slot);
		else if (slot->relay)
			relay_progress_join(p, slot->relay);
		else
			proxy_report_answer(p, slot);
	}
	proxy_profile_ctrl_end(&event, PROFILER_CTRL_APPEND_END, appended);
	return any;
}

/* ---- the pass ------------------------------------------------------------------------------- */

static ncclResult_t proxy_conn_run(struct proxy_conn *pc, bool *moved)
{
	ncclResult_t rc;

	proxy_work_for(pc->comm->rank);
	pc->run.nwaits = 0;
	rc = pc->is_send ? proxy_send_step(pc, moved) : proxy_recv_step(pc, moved);
	os_self()->step = -1;
	return rc;
}

/* Makes one step of the connection's running operation. Starts the next operation if none runs. */
static bool proxy_conn_progress(struct proxy_conn *pc)
{
	bool moved = false;
	ncclResult_t rc = ncclSuccess;

	if (!pc->failed) {
		if (!pc->run.active)
			moved = proxy_run_start(pc);
		rc = proxy_conn_run(pc, &moved);
	}
	if (rc)
		proxy_conn_fail(pc, rc);
	if (pc->failed) {
		proxy_conn_drop_ops(pc);
		return true;
	}
	if (pc->run.done == pc->run.op.nsteps) {
		proxy_run_finish(pc);
		moved = true;
	}
	return moved;
}

static void proxy_member_drop_ops(struct proxy_state *m)
{
	for (struct proxy_conn *pc = m->active; pc; pc = pc->active_next) {
		pc->failed = true;
		proxy_conn_drop_ops(pc);
	}
	m->active = NULL;
	m->active_end = &m->active;
}

/* Makes one pass over a communicator's connections with operations. *pass_over: the pass ends
 * here. */
static bool proxy_member_pass(struct proxy_state *m, bool *pass_over)
{
	struct proxy_conn **at = &m->active, *pc;
	bool moved = false;

	while ((pc = *at) != NULL) {
		if (!*pass_over)
			moved |= proxy_conn_progress(pc);
		if (proxy_conn_is_active(pc))
			at = &pc->active_next;
		else
			*at = pc->active_next;
		/* Rare: the pass ends with this connection; the others are served later. */
		*pass_over |=
			moved && OS_BUGGIFY("proxy.pass_one",
					    "a pass ends with the first connection that moved");
	}
	m->active_end = at;
	return moved;
}

/* Makes a pass over all communicators. Each one is aborted and closed separately. */
static bool proxy_progress_pass(struct proxy_gpu *p)
{
	struct proxy_state **at = &p->members, *m;
	bool moved = false, pass_over = false;

	while ((m = *at) != NULL) {
		bool aborted = shared_load_u32(m->comm->abort, SHARED_ACQUIRE) != 0 ||
			       (m->relay && relay_is_over(m->relay));

		m->leaving = aborted || shared_load_u32(&m->closing, SHARED_ACQUIRE) != 0;
		if (aborted)
			proxy_member_drop_ops(m);
		moved |= proxy_member_pass(m, &pass_over);
		if (!m->leaving || proxy_member_forget(p, at))
			at = &m->next;
	}
	proxy_work_for(p->rank);
	os_charge(OS_COST_PROXY_PASS, 1);
	return moved;
}

/* ---- nothing moved -------------------------------------------------------------------------- */

static bool proxy_member_check(struct proxy_state *m)
{
	bool failed = false;

	for (struct proxy_conn *pc = m->known; pc; pc = pc->known_next) {
		ncclResult_t rc = ncclSuccess;

		proxy_work_for(pc->comm->rank);
		if (!pc->failed)
			rc = pc->net->check(pc->net_comm, proxy_conn_is_active(pc),
					    &pc->check_wait);
		if (!rc)
			continue;
		proxy_conn_fail(pc, rc);
		failed = true;
	}
	return failed;
}

/* Checks whether the other end of any connection has closed. An end with nothing in flight sees a
 * failure only here. Returns true if one has failed. */
static bool proxy_progress_check(struct proxy_gpu *p)
{
	bool failed = false;

	for (struct proxy_state *m = p->members; m; m = m->next)
		failed |= proxy_member_check(m);
	proxy_work_for(p->rank);
	return failed;
}

static void proxy_member_list_waits(const struct proxy_state *m, struct proxy_waits *waits)
{
	for (const struct proxy_conn *pc = m->active; pc; pc = pc->active_next)
		for (int k = 0; k < pc->run.nwaits; k++)
			proxy_waits_add(waits, &pc->run.wait[k], pc->rank);
	for (const struct proxy_conn *pc = m->known; pc; pc = pc->known_next)
		if (!pc->failed)
			proxy_waits_add(waits, &pc->check_wait, pc->rank);
	proxy_waits_add(waits, &m->abort_wait, m->comm->rank);
	if (!m->leaving)
		proxy_waits_add(waits, m->relay ? relay_gone_wait(m->relay) : &m->closing_wait,
				m->comm->rank);
}

static void proxy_progress_wait(struct proxy_gpu *p)
{
	struct proxy_waits *waits = &p->progress_waits;
	struct wait mail =
		proxy_posted_wait(&p->posted, p->rank, "operations to be appended", "main");
	struct proxy_profile_ctrl event;
	struct wait stop = mail;

	if (OS_BUGGIFY("proxy.wake_early", "the progress task's wait ends immediately"))
		return;
	stop.on = &p->stop;
	stop.bytes = sizeof p->stop;
	stop.why = "the proxy to be stopped";
	waits->n = 0;
	for (const struct proxy_state *m = p->members; m; m = m->next)
		proxy_member_list_waits(m, waits);
	relay_progress_waits(p, waits);
	proxy_waits_add(waits, &mail, p->rank);
	proxy_waits_add(waits, &stop, p->rank);
	event = proxy_profile_ctrl_begin(p, PROFILER_CTRL_SLEEP);
	os_self()->wait_ranks = waits->rank;
	(void)os_wait(waits->wait, (int)waits->n, NULL, NULL);
	os_self()->wait_ranks = NULL;
	proxy_profile_ctrl_end(&event, PROFILER_CTRL_WAKEUP, 0);
}

void proxy_progress_main(void *arg)
{
	struct proxy_gpu *p = arg;

	(void)cuda_capture_mode(cudaStreamCaptureModeRelaxed);
	for (;;) {
		bool stopping = shared_load_u32(&p->stop, SHARED_ACQUIRE) != 0;
		bool moved = proxy_progress_take(p);

		if (stopping) {
			ASSERT(!p->members && !moved && !p->progress_relays);
			return;
		}
		moved |= relay_progress_take(p);
		moved |= proxy_progress_pass(p);
		proxy_profile_idle(p, !moved);
		if (!moved && !proxy_progress_check(p))
			proxy_progress_wait(p);
	}
}
