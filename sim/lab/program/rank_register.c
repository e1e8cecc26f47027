/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered buffers, as nccl-tests has them with -R 1: memory of ncclMemAlloc that each
 * communicator of the rank knows by ncclCommRegister, from its init to its end. With
 * LAB_REGISTER_RENEW both are deregistered before each series, and registered again; every second
 * time they are freed in between, as a program's allocator does: other ranks then have mapped what
 * there no longer is. With LAB_REGISTER_WINDOW (-R 2) both are windows, which all ranks register in
 * the same order. Their buffers begin at places in their memory that differ between ranks, and each
 * rank reads a word of every other rank's window through its address.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "core/include/nccl_device.h"
#include "sim/lab/run/runner_internal.h"

#define REGISTERED_PLACES 3 /* of a window's buffer in its memory */

/* Bytes in front of a buffer in its memory. */
static size_t registered_before(const struct lab_rank *me)
{
	const uint64_t place = (me->run->config->sim.seed + (uint64_t)me->rank) % REGISTERED_PLACES;

	return lab_has_windows(me->run->config) ? place * NCCL_WIN_REQUIRED_ALIGNMENT : 0;
}

bool lab_buffer_alloc(struct lab_rank *me, uint8_t **mem, size_t bytes)
{
	ncclResult_t r;

	ASSERT(!*mem); /* lab_buffer_free */
	if (!me->run->config->local_register)
		return lab_rank_check_cuda(me, cudaMalloc((void **)mem, bytes), "cudaMalloc");
	r = ncclMemAlloc((void **)mem, registered_before(me) + bytes);
	if (r != ncclSuccess)
		lab_rank_fail(me, r, "ncclMemAlloc");
	else
		*mem += registered_before(me);
	return r == ncclSuccess;
}

void lab_buffer_free(struct lab_rank *me, uint8_t **mem)
{
	if (*mem && me->run->config->local_register)
		(void)ncclMemFree(*mem - registered_before(me));
	else if (*mem)
		cudaFree(*mem);
	*mem = NULL;
}

bool lab_buffers_alloc(struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;

	uint64_t beside = 2 * LAB_GUARD_BYTES + c->unalign * sizeof(uint64_t);

	me->send_bytes = lab_send_bytes(c) + beside;
	me->recv_bytes = MAX_OF(c->bytes_max, LAB_SMALL_BYTES) + beside;
	return lab_buffer_alloc(me, &me->send, me->send_bytes) &&
	       lab_buffer_alloc(me, &me->recv, me->recv_bytes);
}

/* Both buffers once more: one deregistration of each leaves them registered. */
static ncclResult_t registered_again(struct lab_rank *it, ncclComm_t comm)
{
	uint8_t *const memory[2] = {it->send, it->recv};
	const size_t bytes[2] = {it->send_bytes, it->recv_bytes};
	ncclResult_t r = ncclSuccess;

	for (int b = 0; b < 2 && !r; b++) {
		void *again;

		r = ncclCommRegister(comm, memory[b], bytes[b], &again);
		if (!r)
			r = ncclCommDeregister(comm, again);
	}
	return r;
}

/* Ranks number what they register, and end it, each in an order of its own. */
static int registered_first(const struct lab_rank *it)
{
	struct sim_rng rng;

	sim_rng_seed(&rng,
		     it->run->config->sim.seed + it->renewals * LAB_MAX_DEVICES +
			     (uint64_t)it->rank,
		     "lab.register");
	return (int)sim_rng_below(&rng, 2);
}

static ncclResult_t registered_drive_register(struct lab_rank *it, void *arg)
{
	ncclResult_t r = ncclSuccess;

	(void)arg;
	lab_call(it, "ncclCommRegister");
	for (uint32_t i = 0; i < lab_comms(it->run->config) && !r; i++) {
		ncclComm_t comm = lab_comms_pick(it, i);

		for (int k = 0; k < 2 && !r; k++) {
			int b = registered_first(it) ^ k;

			r = ncclCommRegister(comm, b ? it->recv : it->send,
					     b ? it->recv_bytes : it->send_bytes,
					     &it->registered[i][b]);
		}
		if (!r && it->run->config->local_register == LAB_REGISTER_TWICE)
			r = registered_again(it, comm);
	}
	lab_call(it, NULL);
	return r;
}

static ncclResult_t registered_drive_deregister(struct lab_rank *it, void *arg)
{
	ncclResult_t r = ncclSuccess;

	(void)arg;
	lab_call(it, "ncclCommDeregister");
	for (uint32_t i = 0; i < lab_comms(it->run->config); i++)
		for (int k = 0; k < 2 && !r; k++)
			r = ncclCommDeregister(lab_comms_pick(it, i),
					       it->registered[i][registered_first(it) ^ k]);
	lab_call(it, NULL);
	return r;
}

/* ---- windows --------------------------------------------------------------------------------- */

static ncclResult_t registered_drive_windows(struct lab_rank *it, void *arg)
{
	const struct lab_config *c = it->run->config;
	ncclResult_t r = ncclSuccess;

	(void)arg;
	lab_call(it, "ncclCommWindowRegister");
	for (uint32_t i = 0; i < 2 * lab_comms(c) && !r; i++) {
		ncclComm_t comm = lab_comms_pick(it, i / 2);
		const uint64_t b = (i + c->sim.seed) % 2;

		r = ncclCommWindowRegister(comm, b ? it->recv : it->send,
					   b ? it->recv_bytes : it->send_bytes,
					   &it->window[i / 2][b], NCCL_WIN_COLL_SYMMETRIC);
		r = it->team && r == ncclInProgress ? ncclSuccess : lab_comm_settle(it, comm, r);
	}
	lab_call(it, NULL);
	return r;
}

static ncclResult_t registered_end_windows(const struct lab_rank *it, ncclComm_t comm, uint32_t i)
{
	ncclResult_t r = ncclCommWindowDeregister(comm, it->window[i][0]);

	return r ? r : ncclCommWindowDeregister(comm, it->window[i][1]);
}

static ncclResult_t registered_drive_end_windows(struct lab_rank *it, void *arg)
{
	ncclResult_t r = ncclSuccess;

	(void)arg;
	lab_call(it, "ncclCommWindowDeregister");
	for (uint32_t i = 0; i < lab_comms(it->run->config) && !r; i++)
		r = registered_end_windows(it, lab_comms_pick(it, i), i);
	lab_call(it, NULL);
	return r;
}

/* A number that the buffer has at its start. */
static uint32_t registered_mark(int32_t rank, int b)
{
	return 0x57494e00u + 2 * (uint32_t)rank + (uint32_t)b;
}

static bool registered_copy(struct lab_rank *me, void *to, const void *from)
{
	return lab_rank_check_cuda(
		       me,
		       cudaMemcpyAsync(to, from, sizeof(uint32_t), cudaMemcpyDefault, me->stream),
		       "cudaMemcpyAsync") &&
	       lab_rank_sync(me);
}

static bool registered_put_marks(struct lab_rank *me)
{
	bool ok = true;

	for (int b = 0; b < 2 && ok; b++) {
		const uint32_t mark = registered_mark(me->rank, b);

		memcpy(me->staging, &mark, sizeof mark);
		ok = registered_copy(me, b ? me->recv : me->send, me->staging);
	}
	return ok;
}

static void registered_report(const struct lab_rank *me, int32_t peer, const char *what)
{
	lab_judge(me, SIM_WRONG_RESULT, "correctness", "the address of rank %d's window %s", peer,
		  what);
}

/* The rank itself is always in its team. */
static bool registered_read(struct lab_rank *me, uint32_t i, int b, int32_t peer)
{
	const uint32_t want = registered_mark(peer, b);
	const ncclWindow_t win = me->window[i][b];
	void *at = NULL;
	uint32_t got;
	ncclResult_t r = ncclGetPeerDevicePointer(win, 0, peer, &at);

	if (r != ncclSuccess)
		lab_rank_fail(me, r, "ncclGetPeerDevicePointer");
	if (r == ncclSuccess && peer == me->rank && at != (b ? me->recv : me->send))
		registered_report(me, peer, "is not that of its buffer");
	if (r != ncclSuccess || !at)
		return r == ncclSuccess;
	if (!registered_copy(me, me->staging, at))
		return false;
	memcpy(&got, me->staging, sizeof got);
	if (got != want)
		registered_report(me, peer, "is not that of its buffer");
	return true;
}

/* There are no windows if the ranks of a host have no direct access. Ranks of several real
 * processes meet at no barrier. */
static bool registered_check_windows(struct lab_rank *me)
{
	if (me->run->config->spread)
		return true;
	const uint32_t windows = 2 * lab_comms(me->run->config);
	bool ok = registered_put_marks(me) && lab_barrier(me);

	for (uint32_t i = 0; i < windows && ok; i++)
		for (int32_t peer = 0; peer < me->run->nranks && ok; peer++)
			ok = !me->window[i / 2][i % 2] ||
			     registered_read(me, i / 2, (int)(i % 2), peer);
	return ok && lab_barrier(me);
}

/* ---- both ------------------------------------------------------------------------------------ */

static bool registered_call(struct lab_rank *me, const struct lab_drive *call)
{
	ncclResult_t r;

	if (!me->run->config->local_register)
		return true;
	if (!lab_drive(me, call, &r))
		return false;
	if (call->grouped)
		r = lab_comms_settle(me, r);
	if (r != ncclSuccess)
		lab_rank_fail(me, r, call->name);
	return r == ncclSuccess;
}

bool lab_register(struct lab_rank *me)
{
	static const struct lab_drive windows = {
		.fn = registered_drive_windows, .name = "ncclCommWindowRegister", .grouped = true};
	static const struct lab_drive plain = {.fn = registered_drive_register,
					       .name = "ncclCommRegister"};

	return registered_call(me, lab_has_windows(me->run->config) ? &windows : &plain) &&
	       (!lab_has_windows(me->run->config) || registered_check_windows(me));
}

bool lab_deregisters_late(const struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;

	return c->local_register && c->finalize && !c->hasty && c->sim.seed % 2;
}

ncclResult_t lab_deregister_late(struct lab_rank *me, ncclComm_t comm)
{
	uint32_t i = 0;
	ncclResult_t r;

	if (!lab_deregisters_late(me))
		return ncclSuccess;
	while (lab_comms_pick(me, i) != comm) {
		i++;
		ASSERT(i < lab_comms(me->run->config)); /* it is one of the rank's */
	}
	if (lab_has_windows(me->run->config))
		return registered_end_windows(me, comm, i);
	r = ncclCommDeregister(comm, me->registered[i][0]);
	return r ? r : ncclCommDeregister(comm, me->registered[i][1]);
}

bool lab_deregister(struct lab_rank *me)
{
	static const struct lab_drive windows = {.fn = registered_drive_end_windows,
						 .name = "ncclCommWindowDeregister"};
	static const struct lab_drive plain = {.fn = registered_drive_deregister,
					       .name = "ncclCommDeregister"};

	return registered_call(me, lab_has_windows(me->run->config) ? &windows : &plain);
}

bool lab_register_renew(struct lab_rank *me)
{
	if (me->run->config->local_register != LAB_REGISTER_RENEW)
		return true;
	if (!lab_deregister(me))
		return false;
	if (me->renewals++ % 2)
		return lab_register(me);
	lab_buffer_free(me, &me->recv);
	lab_buffer_free(me, &me->send);
	return lab_buffers_alloc(me) && lab_register(me);
}
