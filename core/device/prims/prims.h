/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The primitives of collective programs. Each moves one chunk between the user's buffers and the
 * connections to the neighbours in the ring. All threads of the group that works on a collective
 * call the same primitive with the same arguments.
 *
 *	prim_send                    input -> next
 *	prim_copy_send               input -> output and next
 *	prim_result_send             output, which is the input, -> next
 *	prim_recv                    previous -> output
 *	prim_recv_copy_send          previous -> output and next
 *	prim_recv_reduce_send        previous op input -> next
 *	prim_recv_reduce_copy        previous op input -> output
 *	prim_recv_reduce_copy_send   previous op input -> output and next
 *
 * Offsets are elements of the user's input and output buffers. A chunk takes the program's chunk
 * steps, in slices of its slice steps (programs.h). The protocol determines how it crosses a
 * connection:
 *
 *	prims_simple.h   slots of data; the tail shows which are filled. Results may go directly
 *	                 from output to output (prims_result.h)
 *	prims_ll.h       slots of lines; each line shows that it is filled
 *	prims_ll128.h    slots of lines of 128 bytes; each line that arrives whole shows that it is
 *	                 filled
 *
 * Three kinds of programs have other primitives: between every two ranks and for recursive doubling
 * (prims_direct.h, prims_doubling.h), over a tree (prims_tree.h), and PAT (prims_pat.h).
 *
 * All primitives take credit from the head. An empty chunk or slice takes the same steps as a full
 * one, so that the two ends of a connection count alike (steps.h).
 *
 * Errors: a primitive returns false if the launch was aborted. The caller must return immediately.
 */
#ifndef CORE_DEVICE_PRIMS_H
#define CORE_DEVICE_PRIMS_H

#include "core/device/prims/prims_ll.h"
#include "core/device/prims/prims_ll128.h"
#include "core/device/prims/prims_simple.h"

DEV_FN bool prim_chunk(struct prim *p, uint32_t flags, uint64_t in, uint64_t out, uint64_t count)
{
	switch (p->proto) {
	case DEV_LL:
		return prim_ll_chunk(p, flags, in, out, count);
	case DEV_LL128:
		return prim_ll128_chunk(p, flags, in, out, count);
	default:
		return prim_simple_chunk(p, flags, in, out, count);
	}
}

/* Returns the offset of element `at` of the block of the rank at `position` of the ring (modulo its
 * length), in a buffer of one block for each rank. */
DEV_FN uint64_t prim_block_at(struct prim *p, int position, uint64_t at)
{
	int32_t rank =
		dev_get_i32(p->d, p->block->channel.ring.ranks + position % p->block->comm.nranks);

	ASSERT(position >= 0 && rank >= 0 && rank < p->block->comm.nranks);
	return (uint64_t)rank * p->count + at;
}

DEV_FN bool prim_send(struct prim *p, uint64_t in, uint64_t count)
{
	return prim_chunk(p, PRIM_SEND | PRIM_INPUT, in, 0, count);
}

DEV_FN bool prim_copy_send(struct prim *p, uint64_t in, uint64_t out, uint64_t count)
{
	return prim_chunk(p, PRIM_SEND | PRIM_INPUT | PRIM_OUTPUT, in, out, count);
}

DEV_FN bool prim_result_send(struct prim *p, uint64_t in, uint64_t out, uint64_t count)
{
	return prim_chunk(p, PRIM_SEND | PRIM_INPUT | PRIM_RESULT, in, out, count);
}

DEV_FN bool prim_recv(struct prim *p, uint64_t out, uint64_t count)
{
	return prim_chunk(p, PRIM_RECV | PRIM_OUTPUT, 0, out, count);
}

DEV_FN bool prim_recv_copy_send(struct prim *p, uint64_t out, uint64_t count)
{
	return prim_chunk(p, PRIM_RECV | PRIM_SEND | PRIM_OUTPUT, 0, out, count);
}

DEV_FN bool prim_recv_reduce_send(struct prim *p, uint64_t in, uint64_t count)
{
	return prim_chunk(p, PRIM_RECV | PRIM_SEND | PRIM_INPUT, in, 0, count);
}

DEV_FN bool prim_recv_reduce_copy(struct prim *p, uint64_t in, uint64_t out, uint64_t count)
{
	return prim_chunk(p, PRIM_RECV | PRIM_INPUT | PRIM_OUTPUT | PRIM_LAST, in, out, count);
}

DEV_FN bool prim_recv_reduce_copy_send(struct prim *p, uint64_t in, uint64_t out, uint64_t count)
{
	return prim_chunk(p, PRIM_RECV | PRIM_SEND | PRIM_INPUT | PRIM_OUTPUT | PRIM_LAST, in, out,
			  count);
}

#endif
