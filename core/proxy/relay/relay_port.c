/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user's end of PXN (relay.h): a connection of this rank through a relay. Requests to the
 * relay's proxy, the memory as this rank's GPU sees it, and operations. Main task only.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/mem/mem.h"
#include "core/proxy/relay/relay_internal.h"

/* An HCA retransmits lost packets for minutes, so the drain may last this long. A dead relay sends
 * nothing; the bootstrap ring shows its death. */
#define RELAY_DRAIN_NS      300000000000ull
#define RELAY_DRAIN_LOOK_NS 100000000ull

#define RELAY_WHAT "a connection through a relay"

/* ---- requests -------------------------------------------------------------------------------- */

static struct wait relay_wait_for(const struct relay_use *use, const shared_u32 *on, uint64_t want)
{
	return wait_word(on, 4, WAIT_EQ, want, "the relay's proxy to answer",
			 wait_by(use->rank, -1, "proxy service"));
}

/* Tests whether the relay has received the last request. ncclInProgress: not yet, and *w is set. */
static ncclResult_t relay_taken(const struct relay_use *use, struct wait *w)
{
	if (shared_load_u32(&use->area->answers, SHARED_ACQUIRE) == use->requests)
		return ncclSuccess;
	*w = relay_wait_for(use, &use->area->answers, use->requests);
	return ncclInProgress;
}

static ncclResult_t relay_taken_wait(const struct relay_use *use)
{
	struct wait w[2]; /* the second one is bootstrap's */
	ncclResult_t rc = ncclSuccess;

	while (!rc && relay_taken(use, w) == ncclInProgress)
		rc = bootstrap_wait_beside(use->comm->bootstrap, w, 1);
	return rc;
}

static void relay_request_show(struct relay_use *use)
{
	struct relay_area *a = use->area;

	shared_note_write(&a->m, sizeof a->m + sizeof a->conn + sizeof a->name);
	shared_store_u32(&a->requests, ++use->requests, SHARED_RELEASE);
}

static void relay_request(struct proxy_port *port, struct proxy_call *call,
			  enum proxy_command command)
{
	struct relay_use *use = port->use;
	struct relay_area *a = use->area;

	ASSERT(shared_load_u32(&a->answers, SHARED_RELAXED) == use->requests);
	call->m.magic = PROXY_MESSAGE_MAGIC;
	call->m.command = command;
	call->m.comm_hash = use->comm->id_hash;
	call->m.conn = port->number;
	a->m = call->m;
	a->conn = port->relayed;
	a->name = port->name;
	relay_request_show(use);
}

/* Reports a refused request. The relay has logged the cause, in its own process. Settings that
 * contradict each other are an error of the program; any other cause is one of the relay. */
static ncclResult_t relay_refused(const struct relay_use *use, int32_t result)
{
	bool settings = result == ncclInvalidUsage;

	WARN("rank %d: its relay, rank %d, cannot make a connection%s", use->comm->rank, use->rank,
	     settings ? ": the log of its process names the settings that differ" : "");
	return settings ? ncclInvalidUsage : ncclRemoteError;
}

/* Knocks before the first message, so that the relay's service task makes an area. */
static ncclResult_t relay_knock(struct ncclComm *comm, int32_t local)
{
	struct relay_post *post = &comm->relays->board->post[local];
	struct relay_knock *k = &post->of[comm->local_rank];
	struct wait w[2]; /* the second one is bootstrap's */
	ncclResult_t rc = ncclSuccess;

	shared_store_u32(&k->knocked, 1, SHARED_RELEASE);
	shared_add_u32(&post->knocks, 1, SHARED_RELEASE);
	while (!rc && shared_load_u32(&k->answer, SHARED_ACQUIRE) == RELAY_KNOCK_NONE) {
		w[0] = wait_word(&k->answer, 4, WAIT_NE, 0,
				 "another rank's proxy to make an area to send through it",
				 wait_by(comm->local_to_rank[local], -1, "proxy service"));
		rc = bootstrap_wait_beside(comm->bootstrap, w, 1);
	}
	if (rc || shared_load_u32(&k->answer, SHARED_ACQUIRE) == RELAY_KNOCK_MADE)
		return rc;
	WARN("rank %d: its relay, rank %d, cannot make memory to send through", comm->rank,
	     comm->local_to_rank[local]);
	return ncclRemoteError;
}

static ncclResult_t relay_reserve(struct relay_use *use, uint32_t n, uint32_t *room)
{
	struct relay_area *a = use->area;
	ncclResult_t rc = relay_taken_wait(use);

	if (rc)
		return rc;
	a->m = (struct proxy_message){.magic = PROXY_MESSAGE_MAGIC,
				      .command = PROXY_RESERVE,
				      .comm_hash = use->comm->id_hash};
	a->conn = n;
	relay_request_show(use);
	rc = relay_taken_wait(use);
	if (rc)
		return rc;
	shared_note_read(&a->conn, sizeof a->conn);
	*room = a->conn;
	return ncclSuccess;
}

ncclResult_t relay_use_reserve(struct ncclComm *comm, int32_t local, uint32_t n, uint32_t *room)
{
	const struct relay_board *board = comm->relays->board;
	struct relay_use *use = relay_use_find(comm, local);
	ncclResult_t rc = ncclSuccess;

	*room = 0;
	shared_note_read(&board->post[local].serves, sizeof board->post[local].serves);
	if (!board->post[local].serves)
		return ncclSuccess;
	if (!use)
		rc = relay_knock(comm, local);
	if (!rc && !use)
		rc = relay_use_make(comm, comm->local_to_rank[local], &use);
	return rc ? rc : relay_reserve(use, n, room);
}

ncclResult_t relay_setup(struct proxy_port *port)
{
	struct relay_use *use = port->use;
	const struct relay_area *area = use->area;
	ncclResult_t rc = relay_taken_wait(use);

	if (rc)
		return rc;
	port->name = use->names++;
	relay_request(port, &port->setup, PROXY_SETUP);
	rc = relay_taken_wait(use);
	if (rc)
		return rc;
	shared_note_read(&area->m, sizeof area->m + sizeof area->conn);
	port->setup.m = area->m;
	if (port->setup.m.result)
		return relay_refused(use, port->setup.m.result);
	port->number = port->setup.m.conn;
	port->relayed = area->conn;
	return ncclSuccess;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static ncclResult_t relay_host_map(struct proxy_port *port, const struct relay_memory *m)
{
	void *mem = (void *)(uintptr_t)m->host, *device;
	bool in_process = port->use->in_process;
	ncclResult_t rc = ncclSuccess;

	if (!in_process)
		rc = relay_segment_open(port->use, port->name, m->host_bytes, &mem);
	if (rc)
		return rc;
	rc = mem_host_register(mem, m->host_bytes, &device, RELAY_WHAT);
	if (rc) {
		if (!in_process)
			(void)os_shm_unmap(mem, m->host_bytes);
		return rc;
	}
	port->host = mem;
	port->host_device = device;
	port->host_bytes = m->host_bytes;
	return ncclSuccess;
}

/* Opens the store. Must follow the requests to the other ends: it may wait for kernels that wait
 * for those ends. */
static ncclResult_t relay_store_open(struct relay_use *use)
{
	const struct ncclComm *comm = use->comm;
	int32_t local = transport_local_rank(comm, use->rank);

	return use->store
		       ? ncclSuccess
		       : relay_pool_open(use, &comm->relays->board->post[local].store, &use->store);
}

/* Fills in the kernel's view of the connection. */
static void relay_fill_dev(struct conn *c, const struct relay_memory *m)
{
	struct proxy_port *port = c->proxy;
	struct dev_send_mem *send = (struct dev_send_mem *)port->host_device;
	struct dev_recv_mem *recv = (struct dev_recv_mem *)(port->host_device + sizeof *send);
	bool shared = c->index == CONN_PAIR;
	uint8_t *gpu = shared ? port->use->store : port->use->pool;

	for (int p = 0; p < DEV_PROTO_COUNT; p++) {
		uint8_t *from = m->on_gpu >> p & 1 ? gpu : port->host_device;

		c->dev.step_bytes[p] = transport_conn_step_bytes(c, (enum dev_proto)p);
		c->dev.buffer[p] = c->dev.step_bytes[p] ? from + m->offset[p] : NULL;
	}
	c->dev.head = &send->head;
	c->dev.tail = &recv->tail;
	c->dev.fifo = recv->fifo;
	snprintf(c->via, sizeof c->via, "/%d(%d)%s%s", port->setup.m.nic, port->use->rank,
		 m->on_gpu ? "/GDRDMA" : "", m->on_gpu && shared ? "/Shared" : "");
}

/* Sends the request at the first call, like every transport. The relay receives each request
 * without waiting. */
ncclResult_t relay_connect(struct conn *c, const struct connect_info *theirs, struct wait *w)
{
	struct proxy_port *port = c->proxy;
	struct relay_use *use = port->use;
	const struct relay_answer *answer = &use->area->answer[port->relayed];
	ncclResult_t rc;

	if (!port->connecting) {
		rc = relay_taken_wait(use);
		if (rc)
			return rc;
		port->connecting = true;
		memcpy(&port->connect.m.info, theirs->bytes, sizeof port->connect.m.info);
		relay_request(port, &port->connect, PROXY_CONNECT);
	}
	if (!shared_load_u32(&answer->done, SHARED_ACQUIRE)) {
		*w = relay_wait_for(use, &answer->done, 1);
		return ncclInProgress;
	}
	shared_note_read(&answer->result, sizeof answer->result + sizeof answer->memory);
	if (answer->result)
		return relay_refused(use, answer->result);
	rc = relay_host_map(port, &answer->memory);
	if (!rc && c->index == CONN_PAIR && answer->memory.on_gpu)
		rc = relay_store_open(use);
	if (!rc)
		relay_fill_dev(c, &answer->memory);
	return rc;
}

/* Releases host memory. p2p closes the GPU memory; the relay closes its part when this rank has
 * left. */
void relay_close(struct proxy_port *port)
{
	if (!port->host)
		return;
	(void)mem_host_unregister(port->host, RELAY_WHAT);
	if (!port->use->in_process)
		(void)os_shm_unmap(port->host, port->host_bytes);
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Waits for room in the ring. The relay reads operations until its connections fail. */
static ncclResult_t relay_room_wait(const struct relay_use *use)
{
	const struct wait w[] = {
		{
			.on = &use->area->ops_taken,
			.want = use->ops + 1 - RELAY_OPS,
			.mask = WAIT_MASK_ALL,
			.kind = WAIT_GE,
			.bytes = 8,
			.why = "the relay to take operations",
			.from = {.rank = use->rank,
				 .channel = -1,
				 .step = -1,
				 .object = "proxy progress"},
		},
		{
			.on = &use->area->failed,
			.mask = WAIT_MASK_ALL,
			.kind = WAIT_NE,
			.bytes = 4,
			.idle = true,
			.why = "the relay to fail",
			.from = {.rank = use->rank,
				 .channel = -1,
				 .step = -1,
				 .object = "proxy progress"},
		},
	};
	ncclResult_t rc = ncclSuccess;

	while (!rc &&
	       use->ops - shared_load_u64(&use->area->ops_taken, SHARED_ACQUIRE) >= RELAY_OPS) {
		shared_store_u64(&use->area->ops_put, use->ops, SHARED_RELEASE);
		if (shared_load_u32(&use->area->failed, SHARED_ACQUIRE))
			rc = relay_has_failed(use);
		else
			rc = rank_wait_beside(use->comm, w, ARRAY_LEN(w));
	}
	return rc;
}

ncclResult_t relay_op_put(const struct proxy_op *op, uint64_t launch)
{
	struct relay_use *use = op->conn->use;
	struct relay_op *at = &use->area->op[use->ops % RELAY_OPS];
	ncclResult_t rc = relay_room_wait(use);

	if (rc)
		return rc;
	ASSERT(op->slice_steps && op->nsteps % op->slice_steps == 0);
	*at = (struct relay_op){.op_count = op->op_count,
				.message = op->message,
				.launch = launch,
				.nsteps = op->nsteps,
				.conn = op->conn->relayed,
				.slice_steps = (uint8_t)op->slice_steps,
				.chunk_steps = (uint8_t)op->chunk_steps,
				.protocol = op->protocol,
				.profile = op->profile.mask,
				.pid = os_proc()->pid};
	shared_note_write(at, sizeof *at);
	use->ops++;
	return ncclSuccess;
}

/* True if the relay can still send; false if its connections or the bootstrap ring have failed, or
 * if it has left. The ring does not report the death of a rank that was ending in order. */
static bool relay_may_send(struct relay_use *use)
{
	struct ncclComm *comm = use->comm;
	bool may;

	if (shared_load_u32(&use->area->failed, SHARED_ACQUIRE))
		return false;
	os_mutex_lock(&comm->watch);
	may = !bootstrap_watch(comm->bootstrap) && !bootstrap_rank_left(comm->bootstrap, use->rank);
	os_mutex_unlock(&comm->watch);
	return may;
}

/* Waits until the relay has sent this rank's operations. A relay drops unsent operations of a rank
 * that has left. */
static void relay_drain(struct relay_use *use)
{
	const uint64_t end_ns = os_now_ns() + RELAY_DRAIN_NS;
	struct wait w = wait_word(&use->area->ops_done, 8, WAIT_GE, use->ops,
				  "the relay to send this rank's operations",
				  wait_by(use->rank, -1, "proxy progress"));

	do {
		w.deadline_ns = os_now_ns() + RELAY_DRAIN_LOOK_NS;
		if (os_wait_one(&w, use->comm->abort) != ETIMEDOUT)
			return;
	} while (w.deadline_ns < end_ns && relay_may_send(use));
	INFO(LOG_NET, "rank %d: relay %d has not sent all operations of this rank", use->comm->rank,
	     use->rank);
}

void proxy_relays_drain(struct ncclComm *comm)
{
	for (struct relay_use *use = comm->relays ? comm->relays->uses : NULL; use; use = use->next)
		if (use->ops)
			relay_drain(use);
}

void relay_ops_show(struct ncclComm *comm)
{
	for (struct relay_use *use = comm->relays ? comm->relays->uses : NULL; use; use = use->next)
		shared_store_u64(&use->area->ops_put, use->ops, SHARED_RELEASE);
}
