/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/comm/redops.h"

#include <string.h>

#include "core/base/log.h"
#include "core/os/os_grow.h"
#include "core/rank/registry.h"

#define OPS_TAGS        1024u
#define OPS_GENERATIONS 256u
DOPPEL_STATIC_CHECK((uint64_t)OPS_TAGS *OPS_GENERATIONS *COMM_MAX_OPS + ncclNumOps <=
			    (uint64_t)ncclMaxRedOp,
		    "every number is an ncclRedOp_t");

/* ---- numbers -------------------------------------------------------------------------------- */

struct ops_number {
	uint32_t tag, generation, slot;
};

static ncclRedOp_t ops_number_join(struct ops_number n)
{
	uint32_t bits = (n.tag * OPS_GENERATIONS + n.generation) * COMM_MAX_OPS + n.slot;

	return (ncclRedOp_t)(bits + ncclNumOps);
}

static struct ops_number ops_number_split(ncclRedOp_t number)
{
	uint32_t bits = (uint32_t)number - ncclNumOps;

	return (struct ops_number){.tag = bits / COMM_MAX_OPS / OPS_GENERATIONS,
				   .generation = bits / COMM_MAX_OPS % OPS_GENERATIONS,
				   .slot = bits % COMM_MAX_OPS};
}

/* ---- tags ----------------------------------------------------------------------------------- */

static bool ops_tag_is_taken(const struct registry_node *first, uint32_t tag)
{
	for (const struct registry_node *n = first; n; n = n->next)
		if (n->kind == REGISTRY_COMM && ((const struct ncclComm *)n)->life->op_tag == tag)
			return true;
	return false;
}

/* Chooses the communicator's tag. The search begins at a tag that depends on the communicator, so
 * that successive communicators have different tags. Tag 0 stands for no tag. If there are more
 * communicators than tags, some share one. */
static void ops_tag_choose(struct ncclComm *comm)
{
	struct registry_node *first = registry_lock();
	uint32_t begin = (uint32_t)(comm->id_hash >> 32) + (uint32_t)comm->rank, tag = 0;

	for (uint32_t i = 0; i < OPS_TAGS; i++) {
		tag = (begin + i) % (OPS_TAGS - 1) + 1;
		if (!ops_tag_is_taken(first, tag))
			break;
	}
	comm->life->op_tag = tag;
	registry_unlock(first);
}

/* ---- the table ------------------------------------------------------------------------------ */

static ncclResult_t ops_grow(struct ncclComm *comm, const char *call)
{
	struct comm_life *life = comm->life;

	if (life->op_room == COMM_MAX_OPS) {
		WARN("%s: %d operations of this communicator exist, expected fewer: destroy some "
		     "with ncclRedOpDestroy",
		     call, COMM_MAX_OPS);
		return ncclInvalidUsage;
	}
	if (OS_GROW(life->ops, life->op_room, life->op_room, 8, "operations of the program"))
		return ncclSuccess;
	WARN("%s: no memory for %u operations", call, life->op_room + 1);
	return ncclSystemError;
}

ncclResult_t comm_op_make(struct ncclComm *comm, const char *call, const struct comm_op *op,
			  ncclRedOp_t *number)
{
	uint32_t slot = 0;
	struct comm_op *at;

	if (!comm->life->op_tag)
		ops_tag_choose(comm);
	while (slot < comm->life->op_room && comm->life->ops[slot].exists)
		slot++;
	if (slot == comm->life->op_room) {
		ncclResult_t rc = ops_grow(comm, call);

		if (rc)
			return rc;
	}
	at = &comm->life->ops[slot];
	at->exists = true;
	at->in_memory = op->in_memory;
	at->type = op->type;
	at->factor = op->factor;
	*number = ops_number_join((struct ops_number){comm->life->op_tag, at->generation, slot});
	return ncclSuccess;
}

struct comm_op *comm_op_find(const struct ncclComm *comm, const char *call, ncclRedOp_t number)
{
	struct ops_number n = ops_number_split(number);
	struct comm_op *op = n.slot < comm->life->op_room ? &comm->life->ops[n.slot] : NULL;

	ASSERT((uint32_t)number >= ncclNumOps);
	if (!comm->life->op_tag || n.tag != comm->life->op_tag) {
		WARN("%s: op is %d, which was not made for this communicator, expected 0 to %d or "
		     "one from ncclRedOpCreatePreMulSum",
		     call, (int)number, ncclNumOps - 1);
		return NULL;
	}
	if (!op || !op->exists || op->generation != n.generation) {
		WARN("%s: op is %d, which ncclRedOpDestroy has destroyed, or which was never made",
		     call, (int)number);
		return NULL;
	}
	return op;
}

void comm_op_destroy(struct comm_op *op)
{
	ASSERT(op->exists);
	op->exists = false;
	op->generation++;
}

void comm_ops_free(struct ncclComm *comm)
{
	os_free(comm->life->ops);
	comm->life->ops = NULL;
	comm->life->op_room = 0;
}
