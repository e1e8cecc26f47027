/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PAYLOAD_MULSUM: each call has an operation of its own, which the rank makes before it and
 * destroys after it. The factor is in host memory for one half of the ranks and in GPU memory for
 * the others, and vice versa in the next row. One row in four leaves its operations to the end
 * of the communicator.
 */
#include <cuda_runtime_api.h>

#include "sim/lab/run/runner_internal.h"

enum { FACTOR_BYTES = 256 };

int lab_factor_make(struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;
	bool used = false;

	for (uint32_t i = 0; i < c->op_count; i++)
		used |= c->ops[i] == PAYLOAD_MULSUM;
	return used ? (int)cudaMalloc(&me->factor, FACTOR_BYTES) : (int)cudaSuccess;
}

/* The last bytes of the allocation: a read of more than the factor is one of other memory. */
void *lab_factor_at(const struct lab_rank *me, const struct lab_row *row)
{
	return me->factor ? (uint8_t *)me->factor + FACTOR_BYTES -
				    payload_type_bytes(row->payload.type)
			  : NULL;
}

void lab_factor_free(struct lab_rank *me)
{
	if (me->factor)
		cudaFree(me->factor);
	me->factor = NULL;
}

bool lab_factor_fill(struct lab_rank *me, const struct lab_row *row)
{
	uint64_t bits = 0;

	if (row->payload.moved || row->payload.op != PAYLOAD_MULSUM)
		return true;
	ASSERT(payload_type_bytes(row->payload.type) <= sizeof bits);
	payload_factor(&row->payload, me->rank, &bits);
	return lab_rank_copy(me, lab_factor_at(me, row), &bits,
			     payload_type_bytes(row->payload.type), true);
}

bool lab_factor_on_gpu(const struct lab_rank *me, const struct lab_row *row)
{
	return ((uint64_t)me->rank + row->payload.salt / 2) % 2;
}

ncclResult_t lab_factor_begin(struct lab_rank *me, const struct lab_row *row, void *on_gpu,
			      ncclComm_t comm, ncclRedOp_t *op)
{
	uint64_t bits = 0;

	*op = row->payload.op;
	if (row->payload.moved || *op != PAYLOAD_MULSUM)
		return ncclSuccess;
	payload_factor(&row->payload, me->rank, &bits);
	bool device = lab_factor_on_gpu(me, row);

	ASSERT(!device || on_gpu); /* lab_factor_make: a run with such a row has memory for it */
	return ncclRedOpCreatePreMulSum(op, device ? on_gpu : &bits, row->payload.type,
					device ? ncclScalarDevice : ncclScalarHostImmediate, comm);
}

ncclResult_t lab_factor_end(struct lab_rank *me, const struct lab_row *row, ncclComm_t comm,
			    ncclRedOp_t op)
{
	bool left = row->payload.salt % 4 == 3;

	(void)me;
	if (row->payload.moved || row->payload.op != PAYLOAD_MULSUM || left)
		return ncclSuccess;
	return ncclRedOpDestroy(op, comm);
}
