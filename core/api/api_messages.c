/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives, and the collectives that consist of them: all-to-all, gather and scatter. A
 * call checks its arguments and queues its messages. They are launched together, immediately or at
 * the end of the group. An all-to-all on windows has no messages: it is queued as a collective.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/api/collective.h"
#include "core/base/log.h"
#include "core/base/type_name.h"
#include "core/device/layout/steps.h"

/* A call with its arguments. */
struct api_messages {
	const char *call;
	const void *caller;
	struct ncclComm *comm;
	const void *send; /* NULL: the rank sends nothing */
	void *recv;       /* NULL: the rank receives nothing */
	size_t count;     /* number of elements of one message */
	ncclDataType_t type;
	int rank;              /* peer or root */
	const char *rank_name; /* name of that argument; NULL: the call has no such argument */
	bool per_rank;         /* a buffer holds a message for each rank */
	bool in_place;         /* each rank's block is both sent and received into */
	bool on_windows;       /* a program on windows runs the call */
	cudaStream_t stream;
	const ncclCollConfig_t *config; /* options; NULL: none */
	uint64_t tag;                   /* of the options */
	struct profiler_call profile;
	/* Checks the buffers and queues the messages. */
	ncclResult_t (*queue)(const struct api_messages *m);
};

/* ---- checks --------------------------------------------------------------------------------- */

static ncclResult_t messages_values_check(const struct api_messages *m)
{
	ncclResult_t rc;

	if (m->rank_name && (m->rank < 0 || m->rank >= m->comm->nranks)) {
		WARN("%s: %s is %d, expected 0 to %d", m->call, m->rank_name, m->rank,
		     m->comm->nranks - 1);
		return ncclInvalidArgument;
	}
	rc = api_check_type(m->call, m->type);
	return rc ? rc
		  : api_check_count(m->call, "count", m->count, m->type,
				    m->per_rank ? (size_t)m->comm->nranks : 1);
}

static size_t messages_bytes(const struct api_messages *m)
{
	return m->count * steps_type_bytes((int)m->type);
}

/* Checks a buffer. Without elements, the buffer is not accessed. */
static ncclResult_t messages_buffer_check(const struct api_messages *m, const void *p,
					  const char *name)
{
	ncclResult_t rc;

	if (!m->count)
		return ncclSuccess;
	rc = api_check_pointer(m->comm, m->call, name, p);
	return rc ? rc : api_check_memory(m->comm, m->call, name, p);
}

/* Checks that two buffers of `send_blocks` and `recv_blocks` messages do not overlap. */
static ncclResult_t messages_overlap_check(const struct api_messages *m, const void *send,
					   size_t send_blocks, const void *recv, size_t recv_blocks,
					   const char *expected)
{
	uintptr_t s = (uintptr_t)send, r = (uintptr_t)recv;
	size_t bytes = messages_bytes(m);

	ASSERT(m->per_rank); /* a message of ncclSend and ncclRecv has one buffer */
	if (s >= r + recv_blocks * bytes || r >= s + send_blocks * bytes)
		return ncclSuccess;
	WARN("%s: sendbuff %p and recvbuff %p overlap, expected %s", m->call, m->send,
	     (const void *)m->recv, expected);
	return ncclInvalidArgument;
}

/* ---- queueing -------------------------------------------------------------------------------- */

static ncclResult_t messages_add(const struct api_messages *m, bool is_send, int32_t peer,
				 void *buffer)
{
	ASSERT(peer >= 0 && peer < m->comm->nranks);
	const struct plan_message message = {
		.is_send = is_send,
		.in_place = is_send && m->in_place,
		.peer = peer,
		.buffer = buffer,
		.count = m->count,
		.type = m->type,
		.stream = m->stream,
		.call = m->call,
		.caller = m->caller,
		.tag = m->tag,
		.profile = m->profile,
	};

	return plan_enqueue_message(m->comm, &message);
}

/* Queues a message to or from the n-th block of a buffer. */
static ncclResult_t messages_add_block(const struct api_messages *m, bool is_send, int32_t peer,
				       const void *buffer, int32_t n)
{
	ASSERT(n == 0 || m->per_rank);
	return messages_add(m, is_send, peer,
			    (void *)((uintptr_t)buffer + (size_t)n * messages_bytes(m)));
}

static ncclResult_t messages_queue_send(const struct api_messages *m)
{
	ncclResult_t rc = messages_buffer_check(m, m->send, "sendbuff");

	return rc ? rc : messages_add_block(m, true, m->rank, m->send, 0);
}

static ncclResult_t messages_queue_recv(const struct api_messages *m)
{
	ncclResult_t rc = messages_buffer_check(m, m->recv, "recvbuff");

	return rc ? rc : messages_add_block(m, false, m->rank, m->recv, 0);
}

/* Returns the call as a collective. */
static struct plan_task messages_task(const struct api_messages *m)
{
	const size_t bytes = (size_t)m->comm->nranks * messages_bytes(m);

	return (struct plan_task){
		.func = DEV_ALL_TO_ALL,
		.call = m->call,
		.name = steps_func_name(DEV_ALL_TO_ALL),
		.caller = m->caller,
		.send = m->send,
		.recv = m->recv,
		.send_bytes = bytes,
		.recv_bytes = bytes,
		.count = m->count,
		.type = m->type,
		.root = -1,
		.stream = m->stream,
		.options = {.tag = m->tag},
		.profile = m->profile,
	};
}

static ncclResult_t messages_queue_all_to_all(const struct api_messages *m)
{
	size_t blocks = (size_t)m->comm->nranks;
	const struct plan_task task = messages_task(m);
	ncclResult_t rc = messages_buffer_check(m, m->send, "sendbuff");

	if (!rc)
		rc = messages_buffer_check(m, m->recv, "recvbuff");
	if (!rc && !m->in_place)
		rc = messages_overlap_check(m, m->send, blocks, m->recv, blocks,
					    "different memory, or the same (in place)");
	if (!rc && m->on_windows)
		return plan_enqueue(m->comm, &task);
	for (int32_t r = 0; r < m->comm->nranks && !rc; r++) {
		rc = messages_add_block(m, true, r, m->send, r);
		if (!rc)
			rc = messages_add_block(m, false, r, m->recv, r);
	}
	return rc;
}

/* Checks that one block and the buffer `all` do not overlap. The block may be at the place of this
 * rank in `all` (in place). */
static ncclResult_t messages_in_place_check(const struct api_messages *m, const void *one,
					    const void *all)
{
	uintptr_t place = (uintptr_t)all + (size_t)m->comm->rank * messages_bytes(m);

	ASSERT(m->per_rank && !m->in_place); /* only the root's own block can be in place */
	if ((uintptr_t)one == place)
		return ncclSuccess;
	return messages_overlap_check(m, one, 1, all, (size_t)m->comm->nranks,
				      "different memory, or the rank's own block");
}

static ncclResult_t messages_queue_gather(const struct api_messages *m)
{
	bool root = m->comm->rank == m->rank;
	ncclResult_t rc = messages_buffer_check(m, m->send, "sendbuff");

	if (!rc && root)
		rc = messages_buffer_check(m, m->recv, "recvbuff");
	if (!rc && root)
		rc = messages_in_place_check(m, m->send, m->recv);
	if (!rc)
		rc = messages_add_block(m, true, m->rank, m->send, 0);
	for (int32_t r = 0; root && r < m->comm->nranks && !rc; r++)
		rc = messages_add_block(m, false, r, m->recv, r);
	return rc;
}

static ncclResult_t messages_queue_scatter(const struct api_messages *m)
{
	bool root = m->comm->rank == m->rank;
	ncclResult_t rc = messages_buffer_check(m, m->recv, "recvbuff");

	if (!rc && root)
		rc = messages_buffer_check(m, m->send, "sendbuff");
	if (!rc && root)
		rc = messages_in_place_check(m, m->recv, m->send);
	if (!rc)
		rc = messages_add_block(m, false, m->rank, m->recv, 0);
	for (int32_t r = 0; root && r < m->comm->nranks && !rc; r++)
		rc = messages_add_block(m, true, r, m->send, r);
	return rc;
}

/* An all-to-all has programs only on windows. */
static bool messages_on_windows(const struct api_messages *m)
{
	if (m->queue != messages_queue_all_to_all || !m->count || m->comm->nranks == 1)
		return false;
	const struct plan_task task = messages_task(m);

	return plan_can(m->comm, &task);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Checks the options of the call. */
static ncclResult_t messages_options(const struct api_messages *m, uint64_t *tag,
				     cudaEvent_t *completion)
{
	*tag = 0;
	*completion = NULL;
	return m->config ? api_options_of_messages(m->comm, m->call, m->config, tag, completion)
			 : ncclSuccess;
}

/* Stores the name of the call without "nccl" and "Config". */
static void messages_name(const struct api_messages *m, char name[24])
{
	ASSERT(!strncmp(m->call, "nccl", 4) && strlen(m->call) < 4 + 24);
	snprintf(name, 24, "%s", m->call + strlen("nccl"));
	if (strstr(name, "Config"))
		*strstr(name, "Config") = '\0';
}

/* Returns the event of the call: of a collective on windows, or of messages. */
static struct profiler_descr messages_describe(const struct api_messages *m, const char *name,
					       bool captured)
{
	if (m->on_windows)
		return (struct profiler_descr){.type = PROFILER_COLL_API,
					       .coll_api = {.func = name,
							    .count = m->count,
							    .type = profiler_type_name(m->type),
							    .root = -1,
							    .stream = m->stream,
							    .captured = captured,
							    .tag = m->tag}};
	return (struct profiler_descr){.type = PROFILER_P2P_API,
				       .p2p_api = {.func = name,
						   .count = m->count,
						   .type = profiler_type_name(m->type),
						   .stream = m->stream,
						   .captured = captured,
						   .tag = m->tag}};
}

/* Starts the events of the call for a profiler plugin. NCCL has one for each message of an
 * all-to-all, a gather or a scatter; here there is one for the call. */
static void messages_profile(struct api_messages *m, struct profiler_group *own)
{
	const struct profiler_group *g;
	struct profiler_descr d;
	char name[24];
	bool captured;

	g = api_profile_begin(own, m->comm, m->call, m->stream, &captured);
	if (!m->comm->profiler)
		return;
	messages_name(m, name);
	d = messages_describe(m, name, captured);
	m->profile = profiler_call_begin(g, m->comm, &d);
}

static ncclResult_t messages_submit(struct api_messages *m, cudaEvent_t completion)
{
	struct api_submission s = {m->call, m->stream, completion, {.of = NULL}};
	struct api_group *g = api_group();
	ncclResult_t rc = messages_values_check(m);

	m->on_windows = !rc && messages_on_windows(m);
	if (!rc && g)
		rc = api_group_add_comm(g, m->comm, m->on_windows);
	if (!rc)
		messages_profile(m, &s.own);
	if (!rc)
		rc = m->queue(m);
	profiler_call_end(m->comm, &m->profile);
	return api_submitted(m->comm, &s, rc);
}

static void messages_trace_begin(const struct api_messages *m, uint64_t tag)
{
	struct os_trace_slice s = {.name = m->call,
				   .arg = {{"rank", (uint64_t)m->comm->rank, NULL},
					   {"count", m->count, NULL},
					   {"bytes", messages_bytes(m), NULL},
					   {"type", (uint64_t)m->type, NULL}}};
	int n = 4;

	DOPPEL_STATIC_CHECK(ARRAY_LEN(s.arg) >= 4 + 2, "room for the rank and the tag, too");
	if (m->rank_name) {
		s.arg[n].name = m->rank_name;
		s.arg[n++].number = (uint64_t)m->rank;
	}
	if (tag) {
		s.arg[n].name = "tag";
		s.arg[n].number = tag;
	}
	os_trace_begin(&s);
}

static ncclResult_t messages_submit_traced(struct api_messages *m)
{
	bool traced = os_tracing() && (unsigned)m->type < ncclNumTypes;
	cudaEvent_t completion;
	ncclResult_t rc = messages_options(m, &m->tag, &completion);

	if (rc)
		return rc;
	if (traced)
		messages_trace_begin(m, m->tag);
	rc = messages_submit(m, completion);
	if (traced)
		os_trace_end(&(struct os_trace_slice){.name = m->call,
						      .arg = {{"result", (uint64_t)rc, NULL}}});
	return rc;
}

static void messages_log(const struct api_messages *m)
{
	INFO(LOG_COLL | LOG_CALL,
	     "%s: opCount %llx sendbuff %p recvbuff %p count %zu datatype %s op none %s %d comm %p "
	     "[nranks=%d] stream %p rank %d",
	     m->call, (unsigned long long)plan_next_op(m->comm), m->send, m->recv, m->count,
	     type_name_any((int)m->type), m->rank_name ? m->rank_name : "root",
	     m->rank_name ? m->rank : -1, (const void *)m->comm, m->comm->nranks, (void *)m->stream,
	     m->comm->rank);
}

static ncclResult_t messages_call(struct api_messages *m, const void *caller)
{
	ncclResult_t rc = comm_enter(m->comm, m->call, COMM_NEED_READY);
	int32_t rank;

	if (rc)
		return api_return(rc);
	m->caller = caller;
	messages_log(m);
	rank = os_work_for(m->comm->rank);
	rc = messages_submit_traced(m);
	(void)os_work_for(rank);
	comm_leave(m->comm);
	return api_return(rc);
}

/* Stores the arguments of the call, which have the order of ncclGather. */
static void messages_take(struct api_messages *m, const void *send, void *recv, size_t count,
			  ncclDataType_t type, int rank, ncclComm_t comm, cudaStream_t stream)
{
	m->send = send;
	m->recv = recv;
	m->count = count;
	m->type = type;
	m->rank = rank;
	m->comm = comm;
	m->stream = stream;
	m->in_place = m->queue == messages_queue_all_to_all && send == recv;
}

/* Returns a call with a root, where a buffer of the root holds a message for each rank. */
static struct api_messages messages_rooted(const char *call,
					   ncclResult_t (*queue)(const struct api_messages *m))
{
	return (struct api_messages){
		.call = call, .queue = queue, .rank_name = "root", .per_rank = true};
}

API_TWIN(ncclSend);
API_WEAK ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype,
			       int peer, ncclComm_t comm, cudaStream_t stream)
{
	struct api_messages m = {
		.call = "ncclSend", .queue = messages_queue_send, .rank_name = "peer"};

	messages_take(&m, sendbuff, NULL, count, datatype, peer, comm, stream);
	return messages_call(&m, __builtin_return_address(0));
}

API_TWIN(ncclRecv);
API_WEAK ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
			       ncclComm_t comm, cudaStream_t stream)
{
	struct api_messages m = {
		.call = "ncclRecv", .queue = messages_queue_recv, .rank_name = "peer"};

	messages_take(&m, NULL, recvbuff, count, datatype, peer, comm, stream);
	return messages_call(&m, __builtin_return_address(0));
}

API_TWIN(ncclAlltoAll);
API_WEAK ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
				   ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
	struct api_messages m = {
		.call = "ncclAlltoAll", .queue = messages_queue_all_to_all, .per_rank = true};

	messages_take(&m, sendbuff, recvbuff, count, datatype, 0, comm, stream);
	return messages_call(&m, __builtin_return_address(0));
}

API_TWIN(ncclGather);
API_WEAK ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count,
				 ncclDataType_t datatype, int root, ncclComm_t comm,
				 cudaStream_t stream)
{
	struct api_messages m = messages_rooted("ncclGather", messages_queue_gather);

	messages_take(&m, sendbuff, recvbuff, count, datatype, root, comm, stream);
	return messages_call(&m, __builtin_return_address(0));
}

API_TWIN(ncclScatter);
API_WEAK ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count,
				  ncclDataType_t datatype, int root, ncclComm_t comm,
				  cudaStream_t stream)
{
	struct api_messages m = messages_rooted("ncclScatter", messages_queue_scatter);

	messages_take(&m, sendbuff, recvbuff, count, datatype, root, comm, stream);
	return messages_call(&m, __builtin_return_address(0));
}

API_TWIN(ncclAlltoAllConfig);
API_WEAK ncclResult_t ncclAlltoAllConfig(const void *sendbuff, void *recvbuff, size_t count,
					 ncclDataType_t datatype, ncclComm_t comm,
					 cudaStream_t stream, const ncclCollConfig_t *config)
{
	struct api_messages m = {
		.call = "ncclAlltoAllConfig", .queue = messages_queue_all_to_all, .per_rank = true};

	messages_take(&m, sendbuff, recvbuff, count, datatype, 0, comm, stream);
	m.config = config;
	return messages_call(&m, __builtin_return_address(0));
}

API_TWIN(ncclGatherConfig);
API_WEAK ncclResult_t ncclGatherConfig(const void *sendbuff, void *recvbuff, size_t count,
				       ncclDataType_t datatype, int root, ncclComm_t comm,
				       cudaStream_t stream, const ncclCollConfig_t *config)
{
	struct api_messages m = messages_rooted("ncclGatherConfig", messages_queue_gather);

	messages_take(&m, sendbuff, recvbuff, count, datatype, root, comm, stream);
	m.config = config;
	return messages_call(&m, __builtin_return_address(0));
}

API_TWIN(ncclScatterConfig);
API_WEAK ncclResult_t ncclScatterConfig(const void *sendbuff, void *recvbuff, size_t count,
					ncclDataType_t datatype, int root, ncclComm_t comm,
					cudaStream_t stream, const ncclCollConfig_t *config)
{
	struct api_messages m = messages_rooted("ncclScatterConfig", messages_queue_scatter);

	messages_take(&m, sendbuff, recvbuff, count, datatype, root, comm, stream);
	m.config = config;
	return messages_call(&m, __builtin_return_address(0));
}
