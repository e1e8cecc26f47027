/* SPDX-License-Identifier: BSD-3-Clause */
/* Barriers of the block, operations of the warp. */
#include "backends/fakecuda/ptx/emit_internal.h"
#include "core/base/macros.h"

static void warp_u32(struct ptx_emit *e, uint32_t operand)
{
	emit_read(e, emit_operand(e, operand), ptx_type_named("u32"));
}

/* bar.sync id, threads;  bar.arrive id, threads */
void emit_bar(struct ptx_emit *e)
{
	bool arrive = emit_part(e, "arrive");

	if (!emit_has(e, arrive ? 2 : 1))
		return;
	emit_text(e, arrive ? "ptx_barrier_arrive(lane, " : "(void)ptx_barrier(lane, ");
	warp_u32(e, 0);
	emit_text(e, ", ");
	if (e->stmt->operands > 1)
		warp_u32(e, 1);
	else
		emit_text(e, "0");
	emit_text(e, arrive ? ");" : ", false);");
}

/* bar.red.popc.u32 d, id, threads, p;  .and.pred and .or.pred: the threads may be absent */
void emit_bar_red(struct ptx_emit *e)
{
	const struct ptx_type *pred = ptx_type_named("pred");
	bool and = emit_part(e, "and"), popc = emit_part(e, "popc");
	const struct ptx_type *to = popc ? ptx_type_named("u32") : pred;

	if (!and&&!popc && !emit_part(e, "or")) {
		emit_unknown(e);
		return;
	}
	if (!emit_has(e, 3))
		return;
	uint32_t last = e->stmt->operands - 1;
	emit_assign(e, emit_operand(e, 0), to);
	emit_text(e, "ptx_barrier(lane, ");
	warp_u32(e, 1);
	emit_text(e, ", ");
	if (last > 2)
		warp_u32(e, 2);
	else
		emit_text(e, "0");
	emit_text(e, and? ", !" : ", ");
	emit_read(e, emit_operand(e, last), pred);
	emit_text(e, popc ? ")" : and? ") == 0" : ") != 0");
	emit_assigned(e, emit_operand(e, 0), to);
}

void emit_warp_sync(struct ptx_emit *e)
{
	if (!emit_has(e, 1))
		return;
	emit_text(e, "(void)ptx_ballot(lane, ");
	warp_u32(e, 0);
	emit_text(e, ", true);");
}

/* shfl.sync.up.b32 d|p, a, b, c, mask */
void emit_shfl(struct ptx_emit *e)
{
	const struct ptx_type *b32 = ptx_type_named("b32");
	const char *mode = emit_part(e, "up")     ? "u"
			   : emit_part(e, "down") ? "d"
			   : emit_part(e, "bfly") ? "b"
			   : emit_part(e, "idx")  ? "i"
						  : NULL;
	if (!mode || e->parts != 4) {
		emit_unknown(e);
		return;
	}
	if (!emit_has(e, 5))
		return;
	const struct ptx_operand *o = emit_operand(e, 0);
	bool pair = o->kind == PTX_OP_PAIR;
	const struct ptx_operand *to = pair ? &o->part[0] : o;
	emit_text(e, "{ bool inside; uint32_t from = ptx_source(lane, '%s', ", mode);
	warp_u32(e, 2);
	emit_text(e, ", ");
	warp_u32(e, 3);
	emit_text(e, ", &inside); ");
	emit_assign(e, to, b32);
	emit_text(e, "ptx_shuffle(lane, ");
	warp_u32(e, 4);
	emit_text(e, ", ");
	warp_u32(e, 1);
	emit_text(e, ", from)");
	emit_assigned(e, to, b32);
	if (pair) {
		emit_assign(e, &o->part[1], ptx_type_named("pred"));
		emit_text(e, "inside");
		emit_assigned(e, &o->part[1], ptx_type_named("pred"));
	}
	emit_text(e, " }");
}

/* vote.sync.any.pred d, p, mask;  vote.sync.ballot.b32 d, p, mask */
void emit_vote(struct ptx_emit *e)
{
	const struct ptx_type *pred = ptx_type_named("pred");
	bool ballot = emit_part(e, "ballot"), uni = emit_part(e, "uni");
	bool all = emit_part(e, "all");
	const struct ptx_type *to = ballot ? ptx_type_named("b32") : pred;

	if (!ballot && !uni && !all && !emit_part(e, "any")) {
		emit_unknown(e);
		return;
	}
	if (!emit_has(e, 3))
		return;
	emit_text(e, "{ uint32_t mask = ");
	warp_u32(e, 2);
	emit_text(e, ", votes = ptx_ballot(lane, mask, ");
	emit_read(e, emit_operand(e, 1), pred);
	emit_text(e, "); mask &= ptx_lanes(lane); ");
	emit_assign(e, emit_operand(e, 0), to);
	emit_text(e, "%s",
		  ballot ? "votes"
		  : uni  ? "votes == 0 || votes == mask"
		  : all  ? "votes == mask"
			 : "votes != 0");
	emit_assigned(e, emit_operand(e, 0), to);
	emit_text(e, " }");
}

/* match.any.sync.b32 d, a, mask;  match.all.sync.b32 d|p, a, mask */
void emit_match(struct ptx_emit *e)
{
	bool all = emit_part(e, "all");
	const struct ptx_type *b32 = ptx_type_named("b32");

	if ((!all && !emit_part(e, "any")) || !emit_part(e, "sync")) {
		emit_unknown(e);
		return;
	}
	if (!emit_has(e, 3))
		return;
	const struct ptx_operand *o = emit_operand(e, 0);
	bool pair = o->kind == PTX_OP_PAIR;
	const struct ptx_operand *to = pair ? &o->part[0] : o;
	emit_text(e, "{ bool same; ");
	emit_assign(e, to, b32);
	emit_text(e, "ptx_match(lane, ");
	warp_u32(e, 2);
	emit_text(e, ", ");
	emit_read(e, emit_operand(e, 1), e->type[0]);
	emit_text(e, ", %s, &same)", all ? "true" : "false");
	emit_assigned(e, to, b32);
	if (pair) {
		emit_assign(e, &o->part[1], ptx_type_named("pred"));
		emit_text(e, "same");
		emit_assigned(e, &o->part[1], ptx_type_named("pred"));
	}
	emit_text(e, " }");
}

/* redux.sync.add.s32 d, a, mask */
void emit_redux(struct ptx_emit *e)
{
	bool sign = e->type[0]->kind == 's';
	const char *op = emit_part(e, "add")   ? "PTX_ADD"
			 : emit_part(e, "min") ? sign ? "PTX_MIN_S" : "PTX_MIN"
			 : emit_part(e, "max") ? sign ? "PTX_MAX_S" : "PTX_MAX"
			 : emit_part(e, "and") ? "PTX_AND"
			 : emit_part(e, "or")  ? "PTX_OR"
			 : emit_part(e, "xor") ? "PTX_XOR"
					       : NULL;
	const struct ptx_type *b32 = ptx_type_named("b32");

	if (!op || e->type[0]->bits != 32 || e->type[0]->kind == 'f') {
		emit_unknown(e);
		return;
	}
	if (!emit_has(e, 3))
		return;
	emit_assign(e, emit_operand(e, 0), b32);
	emit_text(e, "ptx_redux(lane, ");
	warp_u32(e, 2);
	emit_text(e, ", ");
	warp_u32(e, 1);
	emit_text(e, ", %s)", op);
	emit_assigned(e, emit_operand(e, 0), b32);
}

void emit_nanosleep(struct ptx_emit *e)
{
	if (!emit_has(e, 1))
		return;
	emit_text(e, "ptx_sleep(lane, ");
	warp_u32(e, 0);
	emit_text(e, ");");
}
