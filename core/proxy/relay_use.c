/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender's end of PXN (relay.h): requests to the relay's proxy, the memory of the connections as this rank's GPU
 * sees it, and operations. Main task only, except for proxy_relays_error.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/mem/mem.h"
#include "core/proxy/relay.h"

#define RELAY_LEFT_NS 100000000ull /* until a relay's death is known */
#define RELAY_WHAT    "a connection through a relay"

struct relay_use *relay_use_find(const struct ncclComm *comm, int32_t local)
{
	struct relay_use *use = comm->relays ? comm->relays->uses : NULL;

	while (use && use->rank != comm->local_to_rank[local])
		use = use->next;
	return use;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* The relay removes names when it ends; that it has left may show later. */
static ncclResult_t relay_open_failed(const struct relay_use *use, const char *name, int e)
{
	struct ncclComm *comm = use->comm;
	char text[96];

	WARN("rank %d: %s/%s of rank %d, which this rank sends through, cannot be opened: %s",
	     comm->rank, OS_SHM_DIR, name, use->rank, strerror_r(e, text, sizeof text));
	if (e == ENOENT &&
	    bootstrap_wait_left(comm->bootstrap, use->rank, os_now_ns() + RELAY_LEFT_NS) == 0) {
		INFO(LOG_NET, "rank %d: that is because rank %d has left", comm->rank, use->rank);
		return ncclRemoteError;
	}
	return ncclSystemError;
}

/* Once it is mapped here, the name has no more use. */
static ncclResult_t relay_segment_open(const struct relay_use *use, uint32_t number, size_t bytes,
				       void **mem)
{
	char name[RELAY_NAME_BYTES];
	size_t found;
	int e;

	*mem = NULL;
	relay_name(use->comm, use->rank, use->comm->rank, number, name);
	e = os_shm_open(name, bytes, mem, &found);
	if (e)
		return relay_open_failed(use, name, e);
	(void)os_shm_unlink(name);
	return ncclSuccess;
}

/* The area of another rank of this process, with a reference. */
static struct relay_area *relay_area_of_rank(const struct ncclComm *comm, int32_t rank)
{
	struct relay_area *area = NULL;
	struct registry_node *first = registry_lock();

	for (struct registry_node *n = first; n && !area; n = n->next) {
		const struct ncclComm *other = (const struct ncclComm *)n;
		const struct relay *r;

		if (n->kind != REGISTRY_COMM || other->id_hash != comm->id_hash ||
		    other->rank != rank || !other->relays)
			continue;
		for (r = other->relays->users; r && r->user != comm->rank;)
			r = r->next;
		area = r ? r->area : NULL;
	}
	if (area)
		shared_add_u32(&area->refs, 1, SHARED_RELAXED);
	registry_unlock(first);
	return area;
}

static ncclResult_t relay_area_open(struct relay_use *use)
{
	void *mem = NULL;
	ncclResult_t rc = ncclSuccess;

	if (use->in_process)
		mem = relay_area_of_rank(use->comm, use->rank);
	else
		rc = relay_segment_open(use, RELAY_NAME_AREA, sizeof *use->area, &mem);
	if (rc)
		return rc;
	use->area = mem;
	if (mem)
		shared_note_read(&use->area->magic, sizeof use->area->magic);
	if (mem && use->area->magic == RELAY_AREA_MAGIC)
		return ncclSuccess;
	WARN("rank %d: rank %d has no valid area for this rank to send through it (magic %#x)",
	     use->comm->rank, use->rank, mem ? use->area->magic : 0);
	return ncclInternalError;
}

/* At init: opening it may wait for kernels of this rank's GPU. */
static ncclResult_t relay_pool_open(struct relay_use *use)
{
	const struct relay_pool *pool = &use->area->pool;
	void *mem = (void *)(uintptr_t)pool->gpu;
	ncclResult_t rc = ncclSuccess;

	shared_note_read(pool, sizeof *pool);
	if (pool->gpu && use->in_process)
		rc = p2p_reach(use->comm, use->rank);
	else if (pool->gpu)
		rc = p2p_open(use->comm, use->rank, pool->handle, &mem);
	use->pool = mem;
	return rc;
}

ncclResult_t relay_use_open(struct ncclComm *comm, int32_t rank)
{
	struct relay_use *use = os_alloc(sizeof *use, "use of a relay");
	ncclResult_t rc;

	if (!use) {
		WARN("rank %d: no memory to send through rank %d", comm->rank, rank);
		return ncclSystemError;
	}
	use->comm = comm;
	use->rank = rank;
	(void)relay_need_of(comm, transport_local_rank(comm, rank), &use->messages);
	use->in_process = transport_same_process(comm, rank);
	os_mutex_lock(&comm->watch);
	use->next = comm->relays->uses;
	comm->relays->uses = use;
	os_mutex_unlock(&comm->watch);
	rc = relay_area_open(use);
	return rc ? rc : relay_pool_open(use);
}

void relay_names_remove(const struct ncclComm *comm)
{
	uint64_t wanted = proxy_relays_wanted(comm);
	char name[RELAY_NAME_BYTES];

	for (int32_t i = 0; i < MIN_OF(comm->local_ranks, RELAY_FIRST); i++) {
		if (!(wanted >> i & 1))
			continue;
		relay_name(comm, comm->local_to_rank[i], comm->rank, RELAY_NAME_AREA, name);
		if (os_shm_unlink(name) == 0)
			INFO(LOG_NET, "rank %d: removed %s/%s, which rank %d has left", comm->rank,
			     OS_SHM_DIR, name, comm->local_to_rank[i]);
	}
}

static void relay_use_names_remove(const struct relay_use *use)
{
	char name[RELAY_NAME_BYTES];

	for (uint32_t i = 0; i < use->names; i++) {
		relay_name(use->comm, use->rank, use->comm->rank, i, name);
		(void)os_shm_unlink(name);
	}
}

static void relay_use_close(struct relay_use *use)
{
	if (use->area)
		shared_store_u32(&use->area->gone, 1, SHARED_RELEASE);
	if (use->area && use->in_process)
		relay_area_unref(use->area);
	else if (use->area)
		(void)os_shm_unmap(use->area, sizeof *use->area);
	if (!use->in_process && shared_load_u32(use->comm->abort, SHARED_ACQUIRE))
		relay_use_names_remove(use);
	os_free(use);
}

void relay_uses_close(struct ncclComm *comm)
{
	while (comm->relays->uses) {
		struct relay_use *use = comm->relays->uses;

		comm->relays->uses = use->next;
		relay_use_close(use);
	}
}

ncclResult_t proxy_relays_error(const struct ncclComm *comm)
{
	for (struct relay_use *use = comm->relays ? comm->relays->uses : NULL; use; use = use->next)
		if (use->area && shared_load_u32(&use->area->failed, SHARED_ACQUIRE))
			return ncclRemoteError;
	return ncclSuccess;
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct wait relay_wait_for(const struct relay_use *use, const shared_u32 *on, uint64_t want)
{
	return (struct wait){
		.on = on,
		.want = want,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_EQ,
		.bytes = 4,
		.why = "the relay's proxy to answer",
		.from = {.rank = use->rank, .channel = -1, .step = -1, .object = "proxy service"},
	};
}

/* Has the relay taken the last request? ncclInProgress: not yet, *w. */
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
	shared_note_write(&a->m, sizeof a->m + sizeof a->conn + sizeof a->name);
	shared_store_u32(&a->requests, ++use->requests, SHARED_RELEASE);
}

/* The relay has logged the cause. */
static ncclResult_t relay_refused(const struct relay_use *use)
{
	INFO(LOG_NET, "rank %d: a connection through rank %d cannot be made there", use->comm->rank,
	     use->rank);
	return ncclRemoteError;
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
		return relay_refused(use);
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

/* The kernel's view. */
static void relay_fill_dev(struct conn *c, const struct relay_memory *m)
{
	struct proxy_port *port = c->proxy;
	struct dev_send_mem *send = (struct dev_send_mem *)port->host_device;
	struct dev_recv_mem *recv = (struct dev_recv_mem *)(port->host_device + sizeof *send);

	for (int p = 0; p < DEV_PROTO_COUNT; p++) {
		uint8_t *from = m->on_gpu >> p & 1 ? port->use->pool : port->host_device;

		c->dev.step_bytes[p] = transport_conn_step_bytes(c, (enum dev_proto)p);
		c->dev.buffer[p] = c->dev.step_bytes[p] ? from + m->offset[p] : NULL;
	}
	c->dev.head = &send->head;
	c->dev.tail = &recv->tail;
	c->dev.fifo = recv->fifo;
	snprintf(c->via, sizeof c->via, "/%d(%d)%s", port->setup.m.nic, port->use->rank,
		 m->on_gpu ? "/GDRDMA" : "");
}

/* The first call requests, as every transport's: the relay takes each request without a wait. */
ncclResult_t relay_connect(struct conn *c, const struct connect_info *theirs, struct wait *w)
{
	struct proxy_port *port = c->proxy;
	const struct relay_use *use = port->use;
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
		return relay_refused(use);
	rc = relay_host_map(port, &answer->memory);
	if (!rc)
		relay_fill_dev(c, &answer->memory);
	return rc;
}

/* GPU memory goes with what p2p has opened; the relay closes its part when this rank has left. */
void relay_close(struct proxy_port *port)
{
	if (!port->host)
		return;
	(void)mem_host_unregister(port->host, RELAY_WHAT);
	if (!port->use->in_process)
		(void)os_shm_unmap(port->host, port->host_bytes);
}

/* ---- operations ------------------------------------------------------------------------------ */

static ncclResult_t relay_room_wait(const struct relay_use *use)
{
	const struct wait w = {
		.on = &use->area->ops_taken,
		.want = use->ops + 1 - RELAY_OPS,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_GE,
		.bytes = 8,
		.why = "the relay to take operations",
		.from = {.rank = use->rank, .channel = -1, .step = -1, .object = "proxy progress"},
	};

	while (use->ops - shared_load_u64(&use->area->ops_taken, SHARED_ACQUIRE) >= RELAY_OPS) {
		shared_store_u64(&use->area->ops_put, use->ops, SHARED_RELEASE);
		if (os_wait_one(&w, use->comm->abort) == ECANCELED)
			return ncclInternalError;
	}
	return ncclSuccess;
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
				.slice_steps = op->slice_steps,
				.chunk_steps = op->chunk_steps,
				.protocol = op->protocol};
	shared_note_write(at, sizeof *at);
	use->ops++;
	return ncclSuccess;
}

void relay_ops_show(struct ncclComm *comm)
{
	for (struct relay_use *use = comm->relays ? comm->relays->uses : NULL; use; use = use->next)
		shared_store_u64(&use->area->ops_put, use->ops, SHARED_RELEASE);
}
