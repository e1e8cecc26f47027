/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The main task's side of the proxy: a communicator's part of the proxy, requests, operations.
 */
#include "core/proxy/proxy.h"

#include <string.h>

#include "core/base/log.h"
#include "core/proxy/relay/relay.h"
#include "core/transport/nets.h"

/* ---- the communicator's part ---------------------------------------------------------------- */

static struct wait proxy_word_wait(const shared_u32 *word, const char *why)
{
	struct wait w = wait_word(word, sizeof *word, WAIT_NE, 0, why, wait_by(-1, -1, NULL));

	w.idle = true;
	return w;
}

static void proxy_slot_free(struct proxy_state *p, struct proxy_node *node)
{
	node->next = p->free_first;
	p->free_first = node;
	p->free_count++;
}

static void proxy_slots_add(struct proxy_state *p, struct proxy_slot *slot)
{
	for (uint32_t i = PROXY_SLOTS_FIRST; i--;)
		proxy_slot_free(p, &slot[i].node);
	p->slots += PROXY_SLOTS_FIRST;
}

void proxy_state_init(struct proxy_state *p, struct ncclComm *comm)
{
	p->comm = comm;
	p->net = comm->net.ops;
	p->abort_wait = proxy_word_wait(comm->abort, "the communicator to be aborted");
	p->closing_wait = proxy_word_wait(&p->closing, "connections to close");
	proxy_slots_add(p, p->first);
}

void proxy_state_fini(struct proxy_state *p)
{
	for (uint32_t i = 0; i < ARRAY_LEN(p->more); i++)
		os_free(p->more[i]);
}

/* Called for the first network connection: a communicator without any needs no proxy. */
ncclResult_t proxy_attach(struct ncclComm *comm)
{
	struct proxy_state *p;

	if (comm->proxy)
		return ncclSuccess;
	ASSERT(comm->net.ops); /* init has opened it if a connection may need it */
	p = os_alloc(sizeof *p, "proxy");
	if (!p) {
		WARN("rank %d: no memory for the proxy", comm->rank);
		return ncclSystemError;
	}
	proxy_state_init(p, comm);
	p->gpu = proxy_gpu_get(comm);
	if (!p->gpu) {
		os_free(p);
		return ncclSystemError;
	}
	comm->proxy = p;
	return ncclSuccess;
}

void proxy_stop(struct ncclComm *comm)
{
	struct proxy_state *p = comm->proxy;

	relay_state_close(comm);
	os_free(comm->routes);
	comm->routes = NULL;
	net_shut(comm); /* needed without a proxy too: topology detection may have opened devices */
	if (!p)
		return;
	proxy_gpu_put(p->gpu);
	proxy_state_fini(p);
	os_free(p);
	comm->proxy = NULL;
}

/* ---- requests ------------------------------------------------------------------------------- */

static void proxy_call_push(struct proxy_call *call, enum proxy_command command)
{
	call->m.magic = PROXY_MESSAGE_MAGIC;
	call->m.command = command;
	call->m.comm_hash = call->proxy->comm->id_hash;
	shared_note_write(&call->m, sizeof call->m);
	proxy_posted_push(&call->proxy->gpu->requests, &call->node, &call->node);
}

static void proxy_call_send(struct proxy_port *port, struct proxy_call *call,
			    enum proxy_command command)
{
	call->m.conn = port->number;
	call->proxy = port->proxy;
	proxy_call_push(call, command);
}

static void proxy_answer_wait(const struct proxy_call *call, int32_t channel, struct wait *w)
{
	*w = wait_word(&call->answered, 4, WAIT_EQ, 1, "the proxy's service task to answer",
		       wait_by(call->proxy->comm->rank, channel, "proxy service"));
}

static bool proxy_answered(const struct proxy_call *call)
{
	return shared_load_u32(&call->answered, SHARED_ACQUIRE) != 0;
}

/* Waits for the answer to a request that needs no other rank, and returns its result. */
static ncclResult_t proxy_call_wait(const struct proxy_call *call, int32_t channel)
{
	struct wait w;

	proxy_answer_wait(call, channel, &w);
	while (!proxy_answered(call))
		(void)os_wait_one(&w, NULL);
	shared_note_read(&call->m, sizeof call->m);
	return (ncclResult_t)call->m.result;
}

ncclResult_t proxy_call_run(struct proxy_call *call, enum proxy_command command)
{
	proxy_call_push(call, command);
	return proxy_call_wait(call, -1);
}

static ncclResult_t proxy_port_make(struct conn *c)
{
	struct proxy_port *port;
	struct relay_use *use;
	int32_t nic;
	ncclResult_t rc;

	if (topo_nic_count(c->comm->topo) < 1) {
		WARN("rank %d needs the network to reach rank %d, and the topology has no NIC",
		     c->comm->rank, c->peer);
		return ncclSystemError;
	}
	rc = relay_route_take(c, &nic, &use);
	if (rc)
		return rc;
	port = os_alloc(sizeof *port, "proxy requests");
	if (!port) {
		WARN("no memory for the proxy's connection to rank %d", c->peer);
		return ncclSystemError;
	}
	port->channel = c->channel;
	port->setup.m.peer = c->peer;
	port->setup.m.nic = nic;
	port->use = use;
	port->setup.m.info = (struct net_info){
		.magic = NET_INFO_MAGIC,
		.rank = c->comm->rank,
		.channel = c->channel,
		.is_send = c->is_send,
		.index = c->index,
	};
	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		port->setup.m.info.step_bytes[p] = transport_conn_step_bytes(c, (enum dev_proto)p);
	c->proxy = port;
	return ncclSuccess;
}

static ncclResult_t proxy_setup_here(struct ncclComm *comm, struct proxy_port *port)
{
	ncclResult_t rc = proxy_attach(comm);

	if (rc)
		return rc;
	port->proxy = comm->proxy;
	proxy_call_send(port, &port->setup, PROXY_SETUP);
	rc = proxy_call_wait(&port->setup, port->channel);
	if (rc)
		return rc;
	port->number = port->setup.m.conn;
	port->conn = port->setup.conn;
	return ncclSuccess;
}

ncclResult_t proxy_setup(struct conn *c, struct connect_info *mine)
{
	ncclResult_t rc = proxy_port_make(c);
	struct proxy_port *port = c->proxy;

	if (!rc)
		rc = port->use ? relay_setup(port) : proxy_setup_here(c->comm, port);
	if (rc)
		return rc;
	memset(mine, 0, sizeof *mine);
	memcpy(mine->bytes, &port->setup.m.info, sizeof port->setup.m.info);
	return ncclSuccess;
}

/* Returns the answer's result; ncclInProgress, with *w set, if there is no answer yet. */
static ncclResult_t proxy_call_look(const struct proxy_call *call, int32_t channel, struct wait *w)
{
	if (proxy_answered(call)) {
		shared_note_read(&call->m, sizeof call->m);
		return (ncclResult_t)call->m.result;
	}
	proxy_answer_wait(call, channel, w);
	return ncclInProgress;
}

/* Allocates memory in the connection's current placement and has the service task register it. */
static ncclResult_t proxy_prepare_send(struct proxy_port *port)
{
	ncclResult_t rc = proxy_memory_make(port->conn, &port->memory);

	if (rc)
		return rc;
	port->proxy->comm->gpu_bytes += port->memory.gpu_bytes;
	port->preparing = true;
	port->prepare = (struct proxy_call){.memory = port->memory};
	proxy_call_send(port, &port->prepare, PROXY_PREPARE);
	return ncclSuccess;
}

/* Gives memory to a connected connection. If the NIC does not reach GPU memory, repeats this with
 * host memory. */
static ncclResult_t proxy_prepare(struct proxy_port *port, struct wait *w)
{
	for (;;) {
		ncclResult_t rc = port->preparing ? ncclSuccess : proxy_prepare_send(port);

		if (!rc)
			rc = proxy_call_look(&port->prepare, port->channel, w);
		if (rc || !port->prepare.again)
			return rc;
		port->proxy->comm->gpu_bytes -= port->memory.gpu_bytes;
		rc = proxy_memory_free(&port->memory);
		port->preparing = false;
		if (rc)
			return rc;
	}
}

ncclResult_t proxy_connect(struct conn *c, const struct connect_info *theirs, struct wait *w)
{
	struct proxy_port *port = c->proxy;
	ncclResult_t rc;

	ASSERT(port && port->number);
	if (!port->connecting) {
		port->connecting = true;
		memcpy(&port->connect.m.info, theirs->bytes, sizeof port->connect.m.info);
		proxy_call_send(port, &port->connect, PROXY_CONNECT);
	}
	rc = proxy_call_look(&port->connect, port->channel, w);
	return rc ? rc : proxy_prepare(port, w);
}

void proxy_close(struct conn *c)
{
	struct proxy_port *port = c->proxy;

	if (!port)
		return;
	if (port->use) {
		relay_close(port);
	} else if (port->number) {
		shared_store_u32(&port->proxy->closing, 1, SHARED_RELEASE);
		proxy_call_send(port, &port->close, PROXY_CLOSE);
		(void)proxy_call_wait(&port->close, port->channel);
		(void)proxy_memory_free(&port->memory);
	}
	os_free(port);
	c->proxy = NULL;
}

/* ---- operations ----------------------------------------------------------------------------- */

void proxy_slots_gather(struct proxy_state *p, uint32_t n)
{
	struct proxy_node *node = proxy_posted_take(&p->freed), *next;

	for (; node; node = next) {
		next = node->next;
		proxy_slot_free(p, node);
	}
	while (p->free_count < n && p->slots < PROXY_SLOTS) {
		struct proxy_slot **more = &p->more[p->slots / PROXY_SLOTS_FIRST - 1];

		*more = os_alloc(PROXY_SLOTS_FIRST * sizeof **more, "proxy slots");
		if (!*more)
			return;
		proxy_slots_add(p, *more);
	}
}

struct proxy_slot *proxy_slot_get(struct proxy_state *p)
{
	struct proxy_node *node = p->free_first;

	ASSERT(node);
	p->free_count--;
	p->free_first = node->next;
	return (struct proxy_slot *)node;
}

/* Makes sure that main has n free slots. The operations that occupy the others may wait for a rank
 * that has failed. */
static ncclResult_t proxy_slots_wait(struct proxy_state *p, uint32_t n)
{
	const struct wait w = proxy_posted_wait(
		&p->freed, p->comm->rank, "free slots for proxy operations", "proxy progress");

	ncclResult_t rc = ncclSuccess;

	proxy_slots_gather(p, n);
	while (!rc && p->free_count < n) {
		if (p->slots < n) {
			WARN("rank %d: no memory for %u proxy operations", p->comm->rank, n);
			return ncclSystemError;
		}
		OS_PROBE_IDLE("proxy.slots_all_used", "a launch waits for free slots of operations",
			      "no run of the lab has a group of hundreds of calls", true);
		rc = rank_wait_beside(p->comm, &w, 1);
		proxy_slots_gather(p, n);
	}
	return rc;
}

static struct proxy_slot *proxy_slot_fill(struct proxy_state *p, const struct proxy_op *op)
{
	struct proxy_slot *slot = proxy_slot_get(p);

	ASSERT(op->conn && op->slice_steps && op->nsteps % op->slice_steps == 0);
	slot->conn = op->conn->conn;
	slot->launch = p->launches;
	slot->op = *op;
	shared_note_write(slot, sizeof *slot);
	shared_add_u32(&slot->conn->ops_live, 1, SHARED_RELAXED);
	return slot;
}

/* Appends the operations of this rank's own proxy, `n` of the `count`. */
static ncclResult_t proxy_append_here(struct proxy_state *p, const struct proxy_op *ops, int count,
				      uint32_t n)
{
	struct proxy_node *newest = NULL, *oldest = NULL;
	ncclResult_t rc = proxy_slots_wait(p, n);

	if (rc)
		return rc;
	p->launches++;
	for (int i = 0; i < count; i++) {
		struct proxy_slot *slot;

		if (ops[i].conn->use)
			continue;
		slot = proxy_slot_fill(p, &ops[i]);
		slot->node.next = newest;
		newest = &slot->node;
		oldest = oldest ? oldest : newest;
	}
	proxy_posted_push(&p->gpu->posted, newest, oldest);
	return ncclSuccess;
}

/* Appends the operations of relays. */
static ncclResult_t proxy_append_there(struct ncclComm *comm, const struct proxy_op *ops, int n)
{
	ncclResult_t rc = ncclSuccess;

	for (int i = 0; i < n && !rc; i++)
		if (ops[i].conn->use)
			rc = relay_op_put(&ops[i], comm->op_count);
	relay_ops_show(comm);
	return rc;
}

ncclResult_t proxy_append(struct ncclComm *comm, const struct proxy_op *ops, int n)
{
	int relayed = 0;
	ncclResult_t rc = ncclSuccess;

	ASSERT(n >= 0 && n <= PROXY_MAX_APPEND);
	for (int i = 0; i < n; i++)
		relayed += ops[i].conn->use != NULL;
	if (relayed < n)
		rc = proxy_append_here(comm->proxy, ops, n, (uint32_t)(n - relayed));
	return rc || !relayed ? rc : proxy_append_there(comm, ops, n);
}
