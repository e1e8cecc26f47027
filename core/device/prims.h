/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The primitives that collective programs are made of: each moves one chunk between the user's
 * buffers and the connections to the neighbours in the ring. All threads of the group that works on
 * a collective call the same primitive with the same arguments.
 *
 *   prim_send                   input -> next
 *   prim_copy_send              input -> output and next
 *   prim_result_send            output, which is the input, -> next
 *   prim_recv                   previous -> output
 *   prim_recv_copy_send         previous -> output and next
 *   prim_recv_reduce_send       previous op input -> next
 *   prim_recv_reduce_copy       previous op input -> output
 *   prim_recv_reduce_copy_send  previous op input -> output and next
 *
 * Offsets are elements of the user's input and output buffers. A chunk is the program's chunk
 * steps, in slices of its slice steps (programs.h). How it crosses a connection is the protocol's:
 *
 *   prims_simple.h   slots of data; the tail shows what is filled. Results may go straight from output to output
 *                    (prims_result.h)
 *   prims_ll.h       slots of lines; each line shows that it is filled
 *   prims_ll128.h    slots of lines of 128 bytes; so do these, where they arrive whole
 *
 * Programs that connect every two ranks, those that go over a tree, and those of PAT have
 * primitives of their own: prims_direct.h, prims_tree.h, prims_pat.h.
 *
 * All take credit by the head, and all take the same steps for an empty chunk or slice as for a
 * full one: the two ends count alike (steps.h).
 *
 * Errors: false when the launch was aborted; the caller returns immediately, and nothing more
 * moves.
 */
#ifndef CORE_DEVICE_PRIMS_H
#define CORE_DEVICE_PRIMS_H

#include "core/device/prims_direct.h"
#include "core/device/prims_ll.h"
#include "core/device/prims_ll128.h"
#include "core/device/prims_pat.h"
#include "core/device/prims_simple.h"
#include "core/device/prims_doubling.h"
#include "core/device/prims_tree_part.h"

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

/* Element `at` of the block that belongs to the rank at `position` of the ring, modulo its length:
 * its offset in a buffer of one block per rank. */
DEV_FN uint64_t prim_block_at(struct prim *p, int position, uint64_t at)
{
	int32_t rank =
		dev_get_i32(p->d, p->block->channel.ring.ranks + position % p->block->comm.nranks);

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
