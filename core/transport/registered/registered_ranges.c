/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/transport/registered/registered_internal.h"

/* ---- the program's ranges ------------------------------------------------------------------- */

bool registered_peer_is_of_use(const struct ncclComm *comm, int32_t peer)
{
	return peer != comm->rank && !transport_same_process(comm, peer) &&
	       transport_pair_has_nvlink(comm, peer) && param_bool(PARAM_LOCAL_REGISTER) &&
	       !param_bool(PARAM_P2P_DIRECT_DISABLE);
}

/* The reason why registrations have no effect; NULL: they may have an effect. */
static const char *registered_why_not(const struct ncclComm *comm)
{
	if (!param_bool(PARAM_LOCAL_REGISTER))
		return "NCCL_LOCAL_REGISTER is 0";
	if (param_bool(PARAM_P2P_DIRECT_DISABLE))
		return "NCCL_P2P_DIRECT_DISABLE is 1";
	for (int32_t i = 0; i < comm->local_ranks; i++)
		if (registered_peer_is_of_use(comm, comm->local_to_rank[i]))
			return NULL;
	return "NVLink joins its GPU with no GPU of another process";
}

ncclResult_t registered_make(struct ncclComm *comm)
{
	struct registered *reg;

	if (comm->registered)
		return ncclSuccess;
	reg = os_alloc(sizeof *reg + (size_t)comm->nranks * sizeof reg->peer[0],
		       "registered buffers");
	if (!reg) {
		WARN("rank %d: no memory for registered buffers", comm->rank);
		return ncclSystemError;
	}
	for (int32_t r = 0; r < comm->nranks; r++)
		reg->peer[r] = (struct registered_peer){UINT64_MAX, UINT64_MAX, UINT64_MAX,
							UINT64_MAX, UINT64_MAX, false};
	comm->registered = reg;
	return ncclSuccess;
}

/* Returns the range with this address and size; NULL: it is not registered. */
static struct registered_range *registered_range_of(const struct registered *reg, const uint8_t *at,
						    size_t bytes)
{
	struct registered_range *r = reg->ranges;

	while (r && !(r->at == at && r->bytes == bytes))
		r = r->next;
	return r;
}

static ncclResult_t registered_range_add(struct ncclComm *comm, const uint8_t *at, size_t bytes,
					 void **handle)
{
	struct user_memory *memory = user_memory_hold(at, bytes);
	struct registered_range *r;

	if (!memory) {
		INFO(LOG_REG,
		     "rank %d: registering %p, %zu bytes, has no effect: ncclMemAlloc has not "
		     "allocated them",
		     comm->rank, (const void *)at, bytes);
		return ncclSuccess;
	}
	r = os_alloc(sizeof *r, "registered buffer");
	if (!r) {
		WARN("rank %d: no memory to register a buffer", comm->rank);
		user_memory_drop(memory);
		return ncclSystemError;
	}
	*r = (struct registered_range){comm->registered->ranges, at, bytes, 1, memory};
	comm->registered->ranges = r;
	*handle = r;
	INFO(LOG_REG, "rank %d: registered %p, %zu bytes", comm->rank, (const void *)at, bytes);
	return ncclSuccess;
}

ncclResult_t registered_range_take(struct ncclComm *comm, const uint8_t *buffer, size_t bytes,
				   void **handle)
{
	struct registered_range *before = registered_range_of(comm->registered, buffer, bytes);

	*handle = NULL;
	if (!before)
		return registered_range_add(comm, buffer, bytes, handle);
	before->count++;
	*handle = before;
	return ncclSuccess;
}

ncclResult_t transport_register(struct ncclComm *comm, void *buffer, size_t bytes, void **handle)
{
	const char *why_not = registered_why_not(comm);
	ncclResult_t rc;

	*handle = NULL;
	if (why_not) {
		INFO(LOG_REG, "rank %d: registering %p has no effect: %s", comm->rank, buffer,
		     why_not);
		return ncclSuccess;
	}
	rc = registered_make(comm);
	return rc ? rc : registered_range_take(comm, buffer, bytes, handle);
}

static bool registered_memory_is_used(const struct registered *reg, const struct user_memory *m)
{
	struct registered_range *r = reg->ranges;

	while (r && r->memory != m)
		r = r->next;
	return r != NULL;
}

bool registered_range_cut(struct ncclComm *comm, const void *handle, struct user_memory **memory)
{
	struct registered_range **at = comm->registered ? &comm->registered->ranges : NULL, *r;

	*memory = NULL;
	while (at && *at && *at != handle)
		at = &(*at)->next;
	if (!at || !*at)
		return false;
	r = *at;
	if (--r->count)
		return true;
	*memory = r->memory;
	*at = r->next;
	os_free(r);
	return true;
}

ncclResult_t registered_range_end(struct ncclComm *comm, struct user_memory *memory)
{
	ncclResult_t rc = ncclSuccess;

	if (!registered_memory_is_used(comm->registered, memory))
		rc = registered_close(comm, memory);
	user_memory_drop(memory);
	return rc;
}

ncclResult_t transport_deregister(struct ncclComm *comm, const void *handle)
{
	struct user_memory *memory;

	if (!registered_range_cut(comm, handle, &memory)) {
		WARN("ncclCommDeregister: handle %p is not a registration of this communicator: "
		     "expected a handle that ncclCommRegister returned for it",
		     handle);
		return ncclInvalidArgument;
	}
	return memory ? registered_range_end(comm, memory) : ncclSuccess;
}

/* ---- use by plans ---------------------------------------------------------------------------- */

/* Returns the memory of a range that contains the buffer; NULL: no such range. */
static struct user_memory *registered_memory_of(const struct registered *reg, const void *buffer,
						size_t bytes)
{
	const uint8_t *at = buffer;

	for (struct registered_range *r = reg->ranges; r; r = r->next)
		if (at >= r->at && bytes <= r->bytes && (size_t)(at - r->at) <= r->bytes - bytes)
			return r->memory;
	return NULL;
}

ncclResult_t transport_registered_ask(struct ncclComm *comm, const struct registered_recv *r,
				      uint64_t message)
{
	struct user_memory *memory;

	if (!comm->registered || !registered_peer_is_of_use(comm, r->peer))
		return ncclSuccess;
	memory = registered_memory_of(comm->registered, r->buffer, r->bytes);
	if (!memory || registered_export_of(comm, r->peer, memory))
		return ncclSuccess;
	return registered_open(comm, r->peer, memory, message);
}

uint64_t transport_registered_at(const struct ncclComm *comm, const struct registered_recv *r,
				 struct registered_export **of)
{
	struct registered_export *e;
	struct user_memory *memory;

	*of = NULL;
	memory = comm->registered && registered_peer_is_of_use(comm, r->peer)
			 ? registered_memory_of(comm->registered, r->buffer, r->bytes)
			 : NULL;
	e = memory ? registered_export_of(comm, r->peer, memory) : NULL;
	if (!e || e->state == REGISTERED_POSTED)
		return 0;
	*of = e;
	return e->theirs + (uint64_t)((uint8_t *)r->buffer - user_memory_base(memory));
}

void transport_registered_keep(const struct ncclComm *comm, struct registered_export *e)
{
	e->graphs++;
	INFO(LOG_REG, "rank %d: a CUDA graph keeps a registered buffer open in rank %d's process",
	     comm->rank, e->peer);
}

ncclResult_t transport_registered_release(struct ncclComm *comm, struct registered_export *e)
{
	ASSERT(e->graphs);
	if (--e->graphs || registered_memory_is_used(comm->registered, e->memory))
		return ncclSuccess;
	INFO(LOG_REG,
	     "rank %d: no registration and no CUDA graph uses a buffer any longer: rank %d "
	     "must close it",
	     comm->rank, e->peer);
	return registered_close(comm, e->memory);
}

bool transport_registered_shown(const struct ncclComm *comm, int32_t peer, bool is_send,
				uint64_t number)
{
	const struct registered_peer *p = comm->registered ? &comm->registered->peer[peer] : NULL;

	return p && number >= (is_send ? p->send_from : p->recv_from);
}

struct registered_results transport_registered_results(const struct ncclComm *comm, int32_t peer,
						       uint64_t op_count)
{
	const struct registered_peer *p = &comm->registered->peer[peer];

	return (struct registered_results){.offers = op_count >= p->offers_from,
					   .addressed = op_count >= p->taken_from,
					   .takes = op_count >= p->takes_from};
}

/* ---- teardown -------------------------------------------------------------------------------- */

static uint32_t registered_ranges_end(struct registered *reg)
{
	uint32_t n = 0;

	while (reg->ranges) {
		struct registered_range *r = reg->ranges;

		reg->ranges = r->next;
		n += r->count;
		user_memory_drop(r->memory);
		os_free(r);
	}
	return n;
}

/* p2p_imports_close closes the memory of imports. */
void transport_registered_end(struct ncclComm *comm)
{
	struct registered *reg = comm->registered;
	uint32_t left;

	if (!reg)
		return;
	while (reg->exports) {
		struct registered_export *e = reg->exports;

		reg->exports = e->next;
		user_memory_drop(e->memory);
		os_free(e);
	}
	while (reg->imports) {
		struct registered_import *im = reg->imports;

		reg->imports = im->next;
		os_free(im);
	}
	left = registered_ranges_end(reg);
	if (left && !shared_load_u32(comm->abort, SHARED_ACQUIRE))
		WARN("rank %d: the communicator ends with %u registrations of buffers, which end "
		     "with it: ncclCommDeregister was not called for them",
		     comm->rank, left);
	comm->registered = NULL;
	os_free(reg);
}
