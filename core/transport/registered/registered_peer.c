/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange with other ranks about registered memory: OPEN, OPENED, CLOSE, CLOSED
 * (registered.h).
 */
#include <string.h>

#include "core/base/log.h"
#include "core/rank/cuda_result.h"
#include "core/transport/registered/registered_internal.h"

#define REGISTERED_TAG   0x540000
#define REGISTERED_MAGIC 0xd0de2007u

enum registered_what {
	REGISTERED_DO_OPEN = 1,
	REGISTERED_OPENED,
	REGISTERED_DO_CLOSE,
	REGISTERED_CLOSED
};

/* Wire format. */
struct registered_message {
	uint32_t magic;
	uint32_t what;   /* enum registered_what */
	uint32_t number; /* the receiver's number of the export */
	uint32_t pad0;
	uint64_t value;    /* OPEN: the first message that is shown; OPENED: the address */
	uint64_t op_count; /* first collective: OPEN, that offers its output; OPENED, that takes */
	cudaIpcMemHandle_t handle; /* OPEN */
};
DOPPEL_CHECK_SIZE(struct registered_message, 32 + CUDA_IPC_HANDLE_SIZE);
DOPPEL_CHECK_OFFSET(struct registered_message, handle, 32);

/* An error of a message is the communicator's, too: the connection may be broken for all later
 * ones. The call that fails launches nothing, while other ranks may have launched theirs. */
static ncclResult_t registered_result(struct ncclComm *comm, ncclResult_t rc)
{
	if (rc && !shared_load_u32(comm->abort, SHARED_ACQUIRE))
		rank_set_async_error(comm, rc);
	return rc;
}

static ncclResult_t registered_post(struct ncclComm *comm, int32_t peer,
				    struct registered_message *m)
{
	m->magic = REGISTERED_MAGIC;
	return registered_result(
		comm, bootstrap_post(comm->bootstrap, peer, REGISTERED_TAG, m, sizeof *m));
}

/* True if works of this rank can offer an output to the peer, the previous rank of a ring. A work
 * has room for DEV_WORK_RANKS such ranks. registered_takes: the same for the next rank. */
static bool registered_offers(const struct ncclComm *comm, int32_t peer)
{
	for (int32_t c = 0; c < comm->nchannels; c++)
		if (comm->channels[c].ring_prev == peer)
			return comm->channels[c].ring_prev_number < DEV_WORK_RANKS &&
			       registered_peer_is_of_use(comm, peer);
	return false;
}

static bool registered_takes(const struct ncclComm *comm, int32_t peer)
{
	for (int32_t c = 0; c < comm->nchannels; c++)
		if (comm->channels[c].ring_next == peer)
			return comm->channels[c].ring_next_number < DEV_WORK_RANKS &&
			       registered_peer_is_of_use(comm, peer);
	return false;
}

/* ---- receiver: exports ---------------------------------------------------------------------- */

struct registered_export *registered_export_of(const struct ncclComm *comm, int32_t peer,
					       const struct user_memory *memory)
{
	struct registered_export *e = comm->registered->exports;

	while (e && !(e->peer == peer && e->memory == memory && e->state < REGISTERED_UNWANTED))
		e = e->next;
	return e;
}

/* At most one OPEN without an answer, and a limited number of exports, because the peer may never
 * look. */
static bool registered_may_open(const struct registered *reg, int32_t peer)
{
	int n = 0;

	for (const struct registered_export *e = reg->exports; e; e = e->next) {
		if (e->peer != peer)
			continue;
		n++;
		if (e->state == REGISTERED_POSTED || e->state == REGISTERED_UNWANTED)
			return false;
	}
	return n < REGISTERED_EXPORTS_MOST;
}

/* Records from which numbers on kernels of this rank show and offer, and fills in the OPEN. */
static void registered_open_fill(struct ncclComm *comm, int32_t peer, uint64_t message,
				 struct registered_message *m)
{
	struct registered_peer *p = &comm->registered->peer[peer];

	if (registered_peer_is_of_use(comm, peer))
		p->recv_from = MIN_OF(p->recv_from, message);
	if (registered_offers(comm, peer))
		p->offers_from = MIN_OF(p->offers_from, comm->op_count);
	m->what = REGISTERED_DO_OPEN;
	m->number = ++comm->registered->exports_made;
	m->value = p->recv_from;
	m->op_count = p->offers_from;
}

/* Makes an export and its OPEN, which the caller posts. */
static ncclResult_t registered_export_make(struct ncclComm *comm, int32_t peer,
					   struct user_memory *memory, uint64_t message,
					   struct registered_export **out,
					   struct registered_message *m)
{
	struct registered_export *e = os_alloc(sizeof *e, "registered memory for another rank");
	ncclResult_t rc;

	*out = NULL;
	if (!e) {
		WARN("rank %d: no memory to show rank %d a registered buffer", comm->rank, peer);
		return ncclSystemError;
	}
	comm->registered->look_in = comm->registered->pause = 0; /* to find the answer */
	registered_open_fill(comm, peer, message, m);
	rc = transport_memory_lend(comm, peer, &m->handle, user_memory_base(memory),
				   "a registered buffer");
	if (rc) {
		os_free(e);
		return rc;
	}
	*e = (struct registered_export){.peer = peer, .number = m->number, .memory = memory};
	*out = e;
	return ncclSuccess;
}

/* Adds the export after its OPEN was posted, or frees it after an error. */
static ncclResult_t registered_export_add(struct registered *reg, struct registered_export *e,
					  ncclResult_t posted)
{
	if (posted) {
		os_free(e);
		return posted;
	}
	user_memory_hold_again(e->memory);
	e->state = REGISTERED_POSTED;
	e->next = reg->exports;
	reg->exports = e;
	return ncclSuccess;
}

ncclResult_t registered_open(struct ncclComm *comm, int32_t peer, struct user_memory *memory,
			     uint64_t message)
{
	struct registered_message m = {.number = 0};
	struct registered_export *e;
	ncclResult_t rc;

	if (!registered_may_open(comm->registered, peer))
		return ncclSuccess;
	rc = registered_export_make(comm, peer, memory, message, &e, &m);
	if (rc)
		return rc;
	rank_bootstrap_claim(comm);
	rc = registered_post(comm, peer, &m);
	rank_bootstrap_release(comm);
	return registered_export_add(comm->registered, e, rc);
}

ncclResult_t registered_lend(struct ncclComm *comm, int32_t peer, struct user_memory *memory,
			     uint64_t message, uint32_t *number)
{
	struct registered_export *e = registered_export_of(comm, peer, memory);
	struct registered_message m = {.number = 0};
	ncclResult_t rc;

	comm->registered->peer[peer].has_windows = true;
	*number = e ? e->number : 0;
	if (e)
		return ncclSuccess;
	rc = registered_export_make(comm, peer, memory, message, &e, &m);
	if (!rc)
		rc = registered_export_add(comm->registered, e, registered_post(comm, peer, &m));
	*number = rc ? 0 : m.number;
	return rc;
}

static ncclResult_t registered_export_close(struct ncclComm *comm, struct registered_export *e)
{
	e->state = REGISTERED_CLOSING;
	return registered_post(
		comm, e->peer,
		&(struct registered_message){.what = REGISTERED_DO_CLOSE, .number = e->number});
}

ncclResult_t registered_close(struct ncclComm *comm, const struct user_memory *memory)
{
	ncclResult_t rc = ncclSuccess;

	rank_bootstrap_claim(comm);
	for (struct registered_export *e = comm->registered->exports; e && !rc; e = e->next) {
		if (e->memory != memory)
			continue;
		if (e->state == REGISTERED_POSTED)
			e->state = REGISTERED_UNWANTED;
		else if (e->state == REGISTERED_OPEN && !e->graphs)
			rc = registered_export_close(comm, e);
	}
	rank_bootstrap_release(comm);
	return rc;
}

static ncclResult_t registered_opened(struct ncclComm *comm, struct registered_export *e,
				      const struct registered_message *m)
{
	if (e->state == REGISTERED_UNWANTED)
		return registered_export_close(comm, e);
	e->state = REGISTERED_OPEN;
	e->theirs = m->value;
	comm->registered->peer[e->peer].taken_from = m->op_count;
	INFO(LOG_REG, "rank %d: rank %d has mapped a registered buffer", comm->rank, e->peer);
	return ncclSuccess;
}

/* Freeing memory may wait for kernels. */
static void registered_exports_drop(struct registered *reg)
{
	struct registered_export **at = &reg->exports, *e;

	while ((e = *at) != NULL) {
		if (e->state != REGISTERED_OVER) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		user_memory_drop(e->memory);
		os_free(e);
	}
}

/* ---- sender: imports ------------------------------------------------------------------------ */

static ncclResult_t registered_import(struct ncclComm *comm, int32_t peer,
				      const struct registered_message *m)
{
	struct registered *reg = comm->registered;
	struct registered_peer *p = &reg->peer[peer];
	struct registered_import *im = os_alloc(sizeof *im, "registered memory of another rank");
	ncclResult_t rc;

	if (!im) {
		WARN("rank %d: no memory to map a registered buffer of rank %d", comm->rank, peer);
		return ncclSystemError;
	}
	/* This call may wait for kernels of this rank, which may wait for a rank that fails. Other
	 * tasks watch the ring meanwhile. */
	rank_bootstrap_release(comm);
	rc = transport_memory_open(comm, peer, m->handle, &im->mem);
	rank_bootstrap_claim(comm);
	if (rc) {
		os_free(im);
		return rc;
	}
	im->peer = peer;
	im->number = m->number;
	im->next = reg->imports;
	reg->imports = im;
	if (registered_peer_is_of_use(comm, peer))
		p->send_from = MIN_OF(p->send_from, m->value);
	if (p->takes_from == UINT64_MAX && registered_takes(comm, peer))
		p->takes_from = MAX_OF(m->op_count, comm->op_count);
	return registered_post(comm, peer,
			       &(struct registered_message){.what = REGISTERED_OPENED,
							    .number = m->number,
							    .value = (uint64_t)(uintptr_t)im->mem,
							    .op_count = p->takes_from});
}

static struct registered_import *registered_import_of(const struct registered *reg, int32_t peer,
						      uint32_t number)
{
	struct registered_import *im = reg->imports;

	while (im && !(im->peer == peer && im->number == number))
		im = im->next;
	return im;
}

static ncclResult_t registered_import_end(struct ncclComm *comm, int32_t peer, uint32_t number)
{
	struct registered_import *im = registered_import_of(comm->registered, peer, number);

	if (!im) {
		WARN("rank %d: rank %d requests to close registered memory %u, which is not "
		     "open here",
		     comm->rank, peer, number);
		return ncclInternalError;
	}
	im->closing = true;
	return ncclSuccess;
}

static bool registered_import_is_over(const struct registered_import *im)
{
	return im->closing && !im->windows;
}

static ncclResult_t registered_import_close(struct ncclComm *comm, struct registered_import **at)
{
	struct registered_import *im = *at;
	struct registered_message m = {.what = REGISTERED_CLOSED, .number = im->number};
	int32_t peer = im->peer;
	ncclResult_t rc = transport_memory_shut(comm, im->mem);

	*at = im->next;
	os_free(im);
	return rc ? rc : registered_post(comm, peer, &m);
}

/* No kernel of this rank that has written there may run. */
static ncclResult_t registered_imports_close(struct ncclComm *comm)
{
	struct registered_import **at = &comm->registered->imports;
	ncclResult_t rc = ncclSuccess;

	while (*at && !rc) {
		if (registered_import_is_over(*at))
			rc = registered_import_close(comm, at);
		else
			at = &(*at)->next;
	}
	return rc;
}

/* ---- messages that arrived ------------------------------------------------------------------- */

/* Handles an answer about memory of this rank. */
static ncclResult_t registered_answer(struct ncclComm *comm, int32_t peer,
				      const struct registered_message *m)
{
	struct registered_export **at = &comm->registered->exports;

	while (*at && !((*at)->peer == peer && (*at)->number == m->number))
		at = &(*at)->next;
	if (*at && m->what == REGISTERED_OPENED && (*at)->state != REGISTERED_CLOSING)
		return registered_opened(comm, *at, m);
	if (*at && m->what == REGISTERED_CLOSED && (*at)->state == REGISTERED_CLOSING) {
		(*at)->state = REGISTERED_OVER;
		return ncclSuccess;
	}
	WARN("rank %d: rank %d answers %u about registered memory %u without a request", comm->rank,
	     peer, m->what, m->number);
	return ncclInternalError;
}

static ncclResult_t registered_message_take(struct ncclComm *comm, int32_t peer,
					    const struct registered_message *m)
{
	if (m->magic != REGISTERED_MAGIC || m->what < REGISTERED_DO_OPEN ||
	    m->what > REGISTERED_CLOSED) {
		WARN("rank %d: a message about registered memory from rank %d has magic %#x and "
		     "kind %u",
		     comm->rank, peer, m->magic, m->what);
		return ncclInternalError;
	}
	if (m->what == REGISTERED_DO_OPEN)
		return registered_import(comm, peer, m);
	if (m->what == REGISTERED_DO_CLOSE)
		return registered_import_end(comm, peer, m->number);
	return registered_answer(comm, peer, m);
}

static ncclResult_t registered_take_from(struct ncclComm *comm, int32_t peer)
{
	struct registered_message m;
	ncclResult_t rc;
	bool got;

	do {
		rc = registered_result(comm, bootstrap_try(comm->bootstrap, peer, REGISTERED_TAG,
							   &m, sizeof m, &got));
		if (!rc && got)
			rc = registered_message_take(comm, peer, &m);
		if (got)
			comm->registered->pause = 0;
	} while (!rc && got);
	return rc;
}

/* The peer has sent OPEN before the number, on the same connection. */
ncclResult_t registered_borrow(struct ncclComm *comm, int32_t peer, uint32_t number,
			       struct registered_import **im)
{
	ncclResult_t rc = registered_take_from(comm, peer);

	*im = rc ? NULL : registered_import_of(comm->registered, peer, number);
	if (rc || *im)
		return rc;
	WARN("rank %d: rank %d has sent no handle of registered memory %u", comm->rank, peer,
	     number);
	return ncclInternalError;
}

static bool registered_has_ended(const struct registered *reg)
{
	bool ended = false;

	for (const struct registered_export *e = reg->exports; e; e = e->next)
		ended = ended || e->state == REGISTERED_OVER;
	for (const struct registered_import *im = reg->imports; im; im = im->next)
		ended = ended || registered_import_is_over(im);
	return ended;
}

/* Closes and frees memory that is no longer needed, unless a kernel of this rank runs. It must not
 * wait for that kernel, which may wait for a call that this task has not made yet. */
static ncclResult_t registered_end_some(struct ncclComm *comm)
{
	cudaError_t e = cudaSuccess;

	if (!registered_has_ended(comm->registered))
		return ncclSuccess;
	if (comm->launched)
		e = cudaEventQuery(comm->launch_done);
	OS_PROBE("registered.end_later", "a mapping is closed later, since kernels run",
		 e == cudaErrorNotReady);
	if (e == cudaErrorNotReady)
		return ncclSuccess;
	if (e)
		return cuda_result(e, "cudaEventQuery before registered memory is closed");
	registered_exports_drop(comm->registered);
	return registered_imports_close(comm);
}

ncclResult_t transport_registered_take(struct ncclComm *comm)
{
	struct registered *reg = comm->registered;
	ncclResult_t rc = ncclSuccess;

	if (!reg || reg->look_in) {
		if (reg)
			reg->look_in--;
		return ncclSuccess;
	}
	reg->pause = MIN_OF(2 * reg->pause + 1, REGISTERED_PAUSE_MOST);
	rank_bootstrap_claim(comm);
	for (int32_t i = 0; i < comm->local_ranks && !rc; i++)
		if (reg->peer[comm->local_to_rank[i]].has_windows ||
		    registered_peer_is_of_use(comm, comm->local_to_rank[i]))
			rc = registered_take_from(comm, comm->local_to_rank[i]);
	if (!rc)
		rc = registered_end_some(comm);
	rank_bootstrap_release(comm);
	reg->look_in = registered_has_ended(reg) ? 0 : reg->pause;
	return rc;
}
