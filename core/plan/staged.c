/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends from a buffer that the same call receives into: ncclAlltoAll in place. A message may arrive
 * in a block before that block is sent, so such a call sends from copies.
 *
 *	announce   plan_staged_place gives each send an offset in the staging memory. Blocks that
 *	           are adjacent in the buffer are adjacent there.
 *	connect    plan_staged_reserve allocates larger memory, of at least twice the size. Memory
 *	           that became too small stays.
 *	launch     plan_staged_copy copies in the stream of the launches, before the first launch of
 *	           messages. Launches of a communicator follow each other, so no kernel reads the
 *	           copies of the previous group any longer.
 *
 * A rank's own block already is in its place. Memory stays until the communicator ends, because
 * running launches and graphs have its address. A wait for them would be a wait for other ranks,
 * which may have failed.
 */
#include "core/base/log.h"
#include "core/mem/mem.h"
#include "core/plan/messages.h"
#include "core/rank/cuda_result.h"

#define PLAN_STAGED_ALIGN 256u
#define PLAN_STAGED_WHAT  "copies of what is sent in place"

static bool plan_is_staged(const struct ncclComm *comm, const struct plan_queued_message *m)
{
	return m->call.in_place && m->bytes && !plan_message_is_to_self(comm, m);
}

/* Returns the index of the next staged send, from `i` on; `queued`: there is no further one. */
static int32_t plan_staged_next(const struct ncclComm *comm, const struct plan_messages *ms,
				int32_t i)
{
	while (i < ms->queued && !plan_is_staged(comm, &ms->queue[i]))
		i++;
	return i;
}

static bool plan_follows(const struct plan_queued_message *before,
			 const struct plan_queued_message *m)
{
	return (uint8_t *)before->call.buffer + before->bytes == (uint8_t *)m->call.buffer;
}

void plan_staged_place(const struct ncclComm *comm, struct plan_messages *ms)
{
	const struct plan_queued_message *before = NULL;
	uint64_t end = 0;

	for (int32_t i = plan_staged_next(comm, ms, 0); i < ms->queued;
	     i = plan_staged_next(comm, ms, i + 1)) {
		struct plan_queued_message *m = &ms->queue[i];

		if (!before || !plan_follows(before, m))
			end = ALIGN_UP(end, (uint64_t)PLAN_STAGED_ALIGN);
		m->staged_at = end;
		end += m->bytes;
		before = m;
	}
	ms->staged_bytes = end;
}

/* ---- memory ---------------------------------------------------------------------------------- */

bool plan_stages(const struct ncclComm *comm)
{
	const struct plan_messages *ms = comm->plan->messages;

	return ms && ms->queued && ms->staged_bytes > ms->staging.bytes;
}

static ncclResult_t plan_staging_keep(struct plan_staging *s)
{
	struct plan_staging *older = os_alloc(sizeof *older, "staging memory that is too small");

	if (!older) {
		WARN("no memory to keep the smaller " PLAN_STAGED_WHAT);
		return ncclSystemError;
	}
	*older = *s;
	*s = (struct plan_staging){.older = older};
	return ncclSuccess;
}

ncclResult_t plan_staged_reserve(struct ncclComm *comm)
{
	struct plan_messages *ms = comm->plan->messages;
	void *mem = NULL;
	ncclResult_t rc;

	if (!plan_stages(comm))
		return ncclSuccess;
	const size_t bytes = MAX_OF(ms->staged_bytes, 2 * ms->staging.bytes);

	rc = cuda_result(cudaSetDevice(comm->cuda_dev), "cudaSetDevice to send in place");
	if (!rc)
		rc = mem_device_alloc(&mem, bytes, PLAN_STAGED_WHAT);
	if (!rc && ms->staging.mem)
		rc = plan_staging_keep(&ms->staging);
	if (rc) {
		(void)mem_device_free(mem, PLAN_STAGED_WHAT);
		return rc;
	}
	ms->staging.mem = mem;
	ms->staging.bytes = bytes;
	comm->gpu_bytes += bytes;
	return ncclSuccess;
}

void plan_staged_free(struct plan_messages *ms)
{
	struct plan_staging *older;

	(void)mem_device_free(ms->staging.mem, PLAN_STAGED_WHAT);
	while ((older = ms->staging.older)) {
		ms->staging.older = older->older;
		(void)mem_device_free(older->mem, PLAN_STAGED_WHAT);
		os_free(older);
	}
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Copies the staged ones of the sends from..to, which are adjacent in memory. */
static ncclResult_t plan_staged_run(const struct ncclComm *comm, const struct plan_messages *ms,
				    int32_t from, int32_t to, cudaStream_t stream)
{
	const struct plan_queued_message *first = &ms->queue[from];
	const struct plan_queued_message *last = &ms->queue[to];
	const uint64_t bytes = last->staged_at + last->bytes - first->staged_at;
	const struct os_use use = {
		.stream = stream,
		.read = first->call.buffer,
		.read_bytes = bytes,
		.what = "send",
		.number = first->number,
		.comm = comm->id_hash,
		.caller = first->call.caller,
	};

	os_use(&use);
	return cuda_result(cudaMemcpyAsync(ms->staging.mem + first->staged_at, first->call.buffer,
					   bytes, cudaMemcpyDefault, stream),
			   "cudaMemcpyAsync of what is sent in place");
}

ncclResult_t plan_staged_copy(const struct ncclComm *comm, struct plan_messages *ms,
			      const struct plan *p)
{
	int32_t first = plan_staged_next(comm, ms, 0);
	ncclResult_t rc = ncclSuccess;

	for (int32_t last = first; first < ms->queued && !rc; last = first) {
		int32_t next;

		while ((next = plan_staged_next(comm, ms, last + 1)) < ms->queued &&
		       plan_follows(&ms->queue[last], &ms->queue[next]))
			last = next;
		rc = plan_staged_run(comm, ms, first, last, p->stream);
		first = next;
	}
	for (int32_t i = plan_staged_next(comm, ms, 0); i < ms->queued && !rc;
	     i = plan_staged_next(comm, ms, i + 1))
		ms->queue[i].call.buffer = ms->staging.mem + ms->queue[i].staged_at;
	return rc;
}
