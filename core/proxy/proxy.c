/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The main task's side of the proxy: start and stop, requests, operations.
 */
#include "core/proxy/proxy.h"

#include <string.h>

#include "core/base/log.h"
#include "core/proxy/proxy_internal.h"

static ncclResult_t proxy_thread(struct ncclComm *comm, const char *what, void (*fn)(void *),
				 struct os_thread **t)
{
	char name[48];
	struct os_thread_attr attr = {.name = name, .rank = comm->rank};
	int rc;

	snprintf(name, sizeof name, "rank%d proxy %s", comm->rank, what);
	rc = os_thread_start(t, &attr, fn, comm->proxy);
	if (!rc)
		return ncclSuccess;
	WARN("rank %d: cannot start the proxy's %s task: %s", comm->rank, what, strerror(rc));
	return ncclSystemError;
}

static void proxy_lists_init(struct proxy_state *p)
{
	p->requests.next = p->request_next;
	p->posted.next = p->freed.next = p->op_next;
	for (uint32_t i = 1; i < PROXY_SLOTS; i++)
		p->op_next[i] = i + 1;
	p->free_first = 1;
	p->free_count = PROXY_SLOTS;
}

/* Ends and joins the tasks that run. */
static void proxy_tasks_stop(struct proxy_state *p)
{
	shared_store_u32(&p->stop, 1, SHARED_RELEASE);
	if (p->progress)
		os_thread_join(p->progress);
	if (p->service)
		os_thread_join(p->service);
	p->progress = p->service = NULL;
}

/* With its lists, whose lengths are those of a rank's connections. */
static struct proxy_state *proxy_alloc(uint32_t conns)
{
	size_t waits = 2 * conns + conns * PROXY_RUN_WAITS + 5;
	size_t bytes = sizeof(struct proxy_state) + 4 * conns * sizeof(struct proxy_conn *) +
		       waits * sizeof(struct wait *) + 4 * conns * sizeof(uint32_t);
	struct proxy_state *p = os_alloc(bytes, "proxy");

	if (!p)
		return NULL;
	p->conns = conns;
	p->conn = (struct proxy_conn **)(p + 1);
	p->working = p->conn + conns;
	p->active = p->working + conns;
	p->heard = p->active + conns;
	p->service_wait = (const struct wait **)(p->heard + conns);
	p->progress_wait = p->service_wait + conns + 2;
	p->request_next = (uint32_t *)(p->service_wait + waits);
	return p;
}

ncclResult_t proxy_start(struct ncclComm *comm)
{
	struct proxy_state *p;

	ASSERT(!comm->proxy);
	p = proxy_alloc(transport_conns_most(comm));
	if (!p) {
		WARN("rank %d: no memory for the proxy", comm->rank);
		return ncclSystemError;
	}
	p->comm = comm;
	p->net = comm->net.ops;
	proxy_lists_init(p);
	comm->proxy = p;
	return ncclSuccess;
}

/* With the first network connection: a communicator without any has no use for them. */
static ncclResult_t proxy_tasks_start(struct proxy_state *p)
{
	ncclResult_t rc = ncclSuccess;

	if (!p->service)
		rc = proxy_thread(p->comm, "service", proxy_service_main, &p->service);
	if (!rc && !p->progress)
		rc = proxy_thread(p->comm, "progress", proxy_progress_main, &p->progress);
	return rc;
}

ncclResult_t proxy_stop(struct ncclComm *comm)
{
	struct proxy_state *p = comm->proxy;

	if (!p) {
		comm->net.ops->fini(comm); /* the topology may have opened its devices */
		return ncclSuccess;
	}
	proxy_tasks_stop(p);
	for (uint32_t i = 0; i < p->conns; i++) {
		struct proxy_conn *pc = p->conn[i];

		if (!pc)
			continue;
		proxy_conn_release(pc);
		os_unlabel(pc);
		p->conn[i] = NULL;
		os_free(pc);
	}
	p->net->fini(comm);
	os_free(p);
	comm->proxy = NULL;
	return ncclSuccess;
}

/* ---- requests ------------------------------------------------------------------------------- */

static void proxy_ask(struct proxy_conn *pc, enum proxy_command command)
{
	uint32_t node = 4 * pc->index + command;

	ASSERT(command > pc->asked && command <= PROXY_CLOSE);
	pc->asked = command;
	proxy_posted_push(&pc->proxy->requests, node, node);
}

static void proxy_answer_wait(const struct proxy_conn *pc, struct wait *w)
{
	*w = (struct wait){
		.on = &pc->answered,
		.want = pc->asked,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_EQ,
		.bytes = 4,
		.why = "the proxy's service task to answer",
		.from = {.rank = pc->rank,
			 .channel = pc->channel,
			 .step = -1,
			 .object = "proxy service"},
	};
}

static bool proxy_answered(const struct proxy_conn *pc)
{
	return shared_load_u32(&pc->answered, SHARED_ACQUIRE) == pc->asked;
}

static int32_t proxy_pick_nic(const struct conn *c)
{
	const struct ncclComm *comm = c->comm;
	const struct channel *ch = &comm->channels[c->channel];
	int32_t nic = c->is_send ? ch->nic_out : ch->nic_in, best = 0;

	if (nic >= 0 && c->index == CONN_COLLECTIVE)
		return nic;
	/* A pair's connection, or the ring does not leave the host here and these two GPUs cannot
	 * reach each other: the NIC that is nearest to the GPU. */
	for (int32_t n = 1; n < topo_nic_count(comm->topo); n++) {
		enum topo_path_type t = topo_nic_path(comm->topo, comm->local_rank, n);

		if (t < topo_nic_path(comm->topo, comm->local_rank, best))
			best = n;
	}
	return best;
}

static ncclResult_t proxy_conn_make(struct conn *c)
{
	struct proxy_state *p = c->comm->proxy;
	struct proxy_conn *pc;
	uint32_t i = 0;

	while (i < p->conns && p->conn[i])
		i++;
	ASSERT(i < p->conns);
	if (topo_nic_count(c->comm->topo) < 1) {
		WARN("rank %d needs the network to reach rank %d, and the topology has no NIC",
		     c->comm->rank, c->peer);
		return ncclSystemError;
	}
	pc = os_alloc(sizeof *pc, "proxy connection");
	if (!pc) {
		WARN("no memory for the proxy's connection to rank %d", c->peer);
		return ncclSystemError;
	}
	pc->proxy = p;
	pc->comm = c->comm;
	pc->index = i;
	pc->rank = c->comm->rank;
	pc->peer = c->peer;
	pc->channel = c->channel;
	pc->nic = proxy_pick_nic(c);
	pc->is_send = c->is_send;
	pc->conn_index = c->index;
	pc->step_bytes = transport_conn_step_bytes(c, DEV_SIMPLE);
	pc->step = pc->head_shown = transport_first_step();
	os_label(pc, &(struct os_label){.what = c->is_send ? "proxy send" : "proxy recv",
					.rank = pc->rank,
					.peer = pc->peer,
					.channel = pc->channel,
					.number = -1});
	p->conn[i] = pc;
	c->proxy = pc;
	return ncclSuccess;
}

ncclResult_t proxy_setup(struct conn *c, struct connect_info *mine)
{
	struct wait w;
	ncclResult_t rc = proxy_tasks_start(c->comm->proxy);

	if (!rc)
		rc = proxy_conn_make(c);
	if (rc)
		return rc;
	proxy_ask(c->proxy, PROXY_SETUP);
	proxy_answer_wait(c->proxy, &w);
	if (os_wait_one(&w, c->comm->abort) == ECANCELED)
		return ncclInternalError;
	if (c->proxy->result)
		return c->proxy->result;
	memset(mine, 0, sizeof *mine);
	memcpy(mine->bytes, &c->proxy->mine, sizeof c->proxy->mine);
	return ncclSuccess;
}

ncclResult_t proxy_connect(struct conn *c, const struct connect_info *theirs, struct wait *w)
{
	struct proxy_conn *pc = c->proxy;

	ASSERT(pc && pc->asked);
	if (pc->asked == PROXY_SETUP) {
		memcpy(&pc->theirs, theirs->bytes, sizeof pc->theirs);
		shared_note_write(&pc->theirs, sizeof pc->theirs);
		proxy_ask(pc, PROXY_CONNECT);
	}
	if (proxy_answered(pc)) {
		shared_note_read(&pc->result, sizeof pc->result);
		return pc->result;
	}
	proxy_answer_wait(pc, w);
	return ncclInProgress;
}

void proxy_close(struct conn *c)
{
	struct proxy_conn *pc = c->proxy;
	struct wait w;

	if (!pc)
		return;
	if (!c->comm->proxy) { /* proxy_stop released it */
		c->proxy = NULL;
		return;
	}
	shared_store_u32(&pc->proxy->closing, 1, SHARED_RELEASE);
	proxy_ask(pc, PROXY_CLOSE);
	proxy_answer_wait(pc, &w);
	(void)os_wait_one(&w, NULL); /* the service task always answers a CLOSE */
	os_unlabel(pc);
	pc->proxy->conn[pc->index] = NULL;
	os_free(pc);
	c->proxy = NULL;
}

/* ---- operations ----------------------------------------------------------------------------- */

/* Makes sure that main's own chain has n free slots. */
static ncclResult_t proxy_slots_wait(struct proxy_state *p, uint32_t n)
{
	while (p->free_count < n) {
		uint32_t node = proxy_posted_take(&p->freed), next;
		struct wait w = {
			.on = &p->freed.head,
			.mask = WAIT_MASK_ALL,
			.kind = WAIT_NE,
			.bytes = 4,
			.why = "free slots for proxy operations",
			.from = {.rank = p->comm->rank,
				 .channel = -1,
				 .step = -1,
				 .object = "proxy progress"},
		};

		for (; node; node = next) {
			next = p->op_next[node];
			p->op_next[node] = p->free_first;
			p->free_first = node;
			p->free_count++;
		}
		if (p->free_count < n && os_wait_one(&w, p->comm->abort) == ECANCELED)
			return ncclInternalError;
	}
	return ncclSuccess;
}

ncclResult_t proxy_append(struct ncclComm *comm, const struct proxy_op *ops, int n)
{
	struct proxy_state *p = comm->proxy;
	uint32_t newest = 0, oldest = 0;
	ncclResult_t rc;

	ASSERT(n >= 0 && n <= PROXY_MAX_APPEND);
	if (!n)
		return ncclSuccess;
	rc = proxy_slots_wait(p, (uint32_t)n);
	if (rc)
		return rc;
	for (int i = 0; i < n; i++) {
		uint32_t node = p->free_first;

		ASSERT(node && ops[i].conn && ops[i].slice_steps &&
		       ops[i].nsteps % ops[i].slice_steps == 0);
		p->free_first = p->op_next[node];
		p->free_count--;
		p->op[node] = ops[i];
		shared_note_write(&p->op[node], sizeof p->op[node]);
		p->op_next[node] = newest;
		newest = node;
		if (!oldest)
			oldest = node;
		shared_add_u32(&ops[i].conn->ops_live, 1, SHARED_RELAXED);
	}
	proxy_posted_push(&p->posted, newest, oldest);
	return ncclSuccess;
}
