/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between ranks: every rank of a communicator launches the same collectives, with the
 * same arguments, in the same order. A world that compares reports two ranks that differ, with both
 * call sites, before they hang. Outside of such a world nothing is compared. A call of a group that
 * fails is never launched, and so it is never compared. order.c checks the order of the collectives
 * of several communicators.
 */
#include <stdio.h>

#include "core/base/log.h"
#include "core/device/layout/names.h"
#include "core/plan/plan_internal.h"
#include "core/tune/allowed.h"

const char *plan_type_name(ncclDataType_t type)
{
	return dev_type_name(type);
}

const char *plan_op_name(ncclRedOp_t op)
{
	static const char *const names[ncclNumOps] = {"sum", "prod", "max", "min", "avg"};

	ASSERT((int)op >= 0);
	return op < ncclNumOps ? names[op] : "premul_sum";
}

/* The choice is compared only with a tuner plugin, or if the call has options that change it:
 * otherwise the model gives the same one on every rank. */
static void plan_agree_choice(const struct plan_task *t, char *text, size_t bytes)
{
	const struct plan_options *o = &t->options;

	text[0] = '\0';
	if (t->by_plugin || o->programs || o->min_channels || o->max_channels)
		snprintf(text, bytes, " program=%s/%s channels=%d", tune_algo_name(t->work.program),
			 tune_proto_name(t->work.program), t->work.channel_hi + 1);
}

/* Writes the arguments that must be the same on all ranks. */
static void plan_agree_text(const struct ncclComm *comm, const struct plan_task *t, char *text,
			    size_t bytes)
{
	char op[24] = "", root[24] = "", choice[64], windows[48];

	if (t->reduces)
		snprintf(op, sizeof op, " op=%s", plan_op_name(t->op));
	if (t->root >= 0)
		snprintf(root, sizeof root, " root=%d", t->root);
	plan_agree_choice(t, choice, sizeof choice);
	plan_symmetric_text(comm, t, windows, sizeof windows);
	snprintf(text, bytes, "%s count=%zu type=%s%s%s%s%s", t->name, t->count,
		 plan_type_name(t->type), op, root, choice, windows);
}

ncclResult_t plan_agree(const struct ncclComm *comm, const struct plan_task *t)
{
	struct os_agree_other other;
	char text[sizeof other.text];

	if (!os_agrees())
		return ncclSuccess;
	plan_agree_text(comm, t, text, sizeof text);
	if (os_agree(comm->id_hash, t->op_count, comm->rank, text, t->caller, &other) == 0)
		return ncclSuccess;
	WARN("%s: ranks %d and %d disagree on operation %llu of communicator %llx: rank %d called "
	     "%s at %s, rank %d called %s at %s",
	     t->call, comm->rank, other.rank, (unsigned long long)t->op_count,
	     (unsigned long long)comm->id_hash, comm->rank, text, other.here, other.rank,
	     other.text, other.where);
	return ncclInvalidUsage;
}

void plan_agree_not(const struct ncclComm *comm, const struct plan_task *t)
{
	(void)os_agree(comm->id_hash, t->op_count, comm->rank, NULL, NULL, NULL);
}
