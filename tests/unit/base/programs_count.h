/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Primitives that only count chunks, instead of core/device/prims/prims.h, and the programs of
 * core/device/layout/programs.h and messages on the host over them. Used by
 * programs_steps_test.c and messages_steps_test.c.
 */
#ifndef TESTS_UNIT_BASE_PROGRAMS_COUNT_H
#define TESTS_UNIT_BASE_PROGRAMS_COUNT_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/layout/steps.h"

#define CORE_DEVICE_PRIM_H
#define CORE_DEVICE_PRIMS_H
#define CORE_DEVICE_PRIMS_PUT_H
#define CORE_DEVICE_PRIMS_MAPPED_H
#define CORE_DEVICE_PRIMS_DIRECT_H
#define CORE_DEVICE_PRIMS_TREE_H
#define CORE_DEVICE_PRIMS_PAT_H
#define CORE_DEVICE_PRIMS_DOUBLING_H
#define DEV_FN     static __attribute__((unused))
#define MAX_RANKS  16
#define MAX_CHUNKS 4096
#define MAX_LEVELS 4

#define MOST_OTHERS (DEV_DIRECT_RANKS - 1)

/* One end of a connection, with the chunks that went through it. */
struct end {
	struct dev_conn conn;
	uint64_t chunk[MAX_CHUNKS];
	uint32_t n, pad0;
};

struct dev_block {
	struct dev_comm comm;
	struct dev_channel channel;
	struct dev_conn conn[2 * DEV_EDGES_MOST];
};

enum { PRIM_SEND = 2 };

/* The links of the chunks that a group of threads moves, one after the other. */
struct moves {
	uint32_t from[2 * MAX_CHUNKS], to[2 * MAX_CHUNKS], n, done;
};

struct prim {
	struct dev_block *block;
	uint32_t toward; /* of the work's root, in a tree */
	uint32_t threads;
	uint32_t ways,
		divided;       /* the group's, of those into which the work's threads are divided */
	struct moves moves[2]; /* of the groups */
	struct end link_from[DEV_TREE_LINKS], link_to[DEV_TREE_LINKS];
	struct end level_from[MAX_LEVELS], level_to[MAX_LEVELS]; /* of PAT */
	uint64_t given_back[MAX_LEVELS];                         /* slots of level_from */
	const uint8_t *input;
	uint8_t *output;
	uint64_t count;
	uint32_t type_bytes;
	enum dev_proto proto;
	int32_t root;
	const struct dev_conn *recv, *send;
	struct end ends[2];                            /* the ring's: receiving, sending */
	struct end from[MOST_OTHERS], to[MOST_OTHERS]; /* of every two ranks' connections */
	uint32_t begun, next, ended;                   /* chunks, and their second slots */
};

static bool prim_count(const struct dev_conn *c, uint64_t count)
{
	struct end *end = CONTAINER_OF(c, struct end, conn);

	if (end->n == MAX_CHUNKS)
		ck_abort_msg("more than %d chunks", MAX_CHUNKS);
	end->chunk[end->n++] = count;
	return true;
}

static bool prim_count_both(struct prim *p, uint64_t count)
{
	return prim_count(p->recv, count) && prim_count(p->send, count);
}

DEV_FN uint64_t prim_block_at(struct prim *p, int position, uint64_t at)
{
	return (uint64_t)(position % p->block->comm.nranks) * p->count + at;
}
DEV_FN struct dev_conn *prim_edge_recv(const struct prim *p, uint32_t edge)
{
	return &p->block->conn[2 * edge];
}
#include "core/device/prims/prims_part.h"

DEV_FN bool prim_direct_begin(struct prim *p)
{
	p->begun++;
	return true;
}
DEV_FN int prim_doubling_edges(const struct prim *p)
{
	return (int)steps_pat_levels(p->block->comm.nranks);
}
/* `to` and `from` are both ends of each edge of DOUBLING. */
DEV_FN bool prim_doubling_begin(struct prim *p, uint64_t count)
{
	(void)count;
	p->begun++;
	return true;
}
DEV_FN void prim_doubling_sum(struct prim *p, uint64_t at, uint64_t count)
{
	(void)at;
	for (int k = 0; k < prim_doubling_edges(p); k++) {
		(void)prim_count(&p->to[k].conn, count);
		(void)prim_count(&p->from[k].conn, count);
	}
}
DEV_FN void prim_direct_send(struct prim *p, int k, uint64_t in, uint64_t count)
{
	(void)prim_count(&p->to[k].conn, count);
}
DEV_FN void prim_direct_recv(struct prim *p, int k, uint64_t out, uint64_t count)
{
	(void)prim_count(&p->from[k].conn, count);
}
DEV_FN void prim_direct_copy(struct prim *p, uint64_t in, uint64_t out, uint64_t count)
{
}
DEV_FN void prim_direct_reduce(struct prim *p, uint32_t flags, uint64_t in, uint64_t out,
			       uint64_t count)
{
	for (int k = 0; k < prim_others(p); k++) {
		(void)prim_count(&p->from[k].conn, count);
		if (flags & PRIM_SEND)
			(void)prim_count(&p->to[k].conn, count);
	}
}
DEV_FN void prim_direct_next(struct prim *p, uint64_t sent)
{
	p->next++;
}
DEV_FN bool prim_direct_end(struct prim *p, int edges)
{
	p->ended++;
	return true;
}
DEV_FN bool prim_send(struct prim *p, uint64_t in, uint64_t count)
{
	return prim_count(p->send, count);
}
DEV_FN bool prim_copy_send(struct prim *p, uint64_t in, uint64_t out, uint64_t count)
{
	return prim_count(p->send, count);
}
DEV_FN void prim_result_take(struct prim *p)
{
}
DEV_FN bool prim_result_send(struct prim *p, uint64_t in, uint64_t out, uint64_t count)
{
	return prim_count(p->send, count);
}
DEV_FN bool prim_recv(struct prim *p, uint64_t out, uint64_t count)
{
	return prim_count(p->recv, count);
}
DEV_FN bool prim_put_send(struct prim *p, uint64_t bytes)
{
	return prim_count(p->send, bytes);
}
DEV_FN bool prim_put_recv(struct prim *p)
{
	return prim_count(p->recv, 0);
}
/* Does the sender's process have the receiver's buffer? */
static bool mapped;

DEV_FN bool prim_mapped_send(struct prim *p, uint64_t bytes, bool *done)
{
	*done = mapped;
	return !mapped || prim_count(p->send, bytes);
}
DEV_FN bool prim_mapped_recv(struct prim *p, uint64_t address, bool *done)
{
	(void)address;
	*done = mapped;
	return !mapped || prim_count(p->recv, 0);
}
DEV_FN bool prim_recv_copy_send(struct prim *p, uint64_t out, uint64_t count)
{
	return prim_count_both(p, count);
}
DEV_FN bool prim_recv_reduce_send(struct prim *p, uint64_t in, uint64_t count)
{
	return prim_count_both(p, count);
}
DEV_FN bool prim_recv_reduce_copy(struct prim *p, uint64_t in, uint64_t out, uint64_t count)
{
	return prim_count(p->recv, count);
}
DEV_FN bool prim_recv_reduce_copy_send(struct prim *p, uint64_t in, uint64_t out, uint64_t count)
{
	return prim_count_both(p, count);
}

static bool prim_tree_count(struct prim *p, struct prim_tree *t, uint64_t count)
{
	struct moves *m = &p->moves[p->ways == PRIM_TREE_DOWN];

	m->from[m->n] = t->from;
	m->to[m->n++] = t->to;
	for (uint32_t k = 0; k < DEV_TREE_LINKS; k++) {
		if (t->from >> k & 1)
			(void)prim_count(&p->link_from[k].conn, count);
		if (t->to >> k & 1)
			(void)prim_count(&p->link_to[k].conn, count);
	}
	return true;
}
DEV_FN uint32_t prim_tree_toward(const struct prim *p)
{
	return p->toward;
}
DEV_FN uint32_t prim_tree_divide(struct prim *p)
{
	p->divided = true;
	return p->ways;
}
DEV_FN void prim_group_set(struct prim *p, uint32_t first, uint32_t threads, uint32_t barrier)
{
}
/* The connections on which each may receive and send. */
#define PRIM_TREE(name, receives, sends)                                                           \
	DEV_FN bool name(struct prim *p, struct prim_tree *t, uint64_t at, uint64_t count)         \
	{                                                                                          \
		ck_assert_msg(!!t->from == (receives) && !!t->to == (sends),                       \
			      #name " over links %#x and %#x", t->from, t->to);                    \
		return prim_tree_count(p, t, count);                                               \
	}
PRIM_TREE(prim_tree_send, false, true)
PRIM_TREE(prim_tree_copy_send, false, true)
PRIM_TREE(prim_tree_recv, true, false)
PRIM_TREE(prim_tree_recv_copy_send, true, true)
PRIM_TREE(prim_tree_recv_reduce_send, true, true)
PRIM_TREE(prim_tree_recv_reduce_copy, true, false)
PRIM_TREE(prim_tree_recv_reduce_copy_send, true, true)
#undef PRIM_TREE
#include "core/device/edges/prims_tree_part.h"

#include "core/device/edges/prims_pat_part.h"

/* The step is the one that the connection is at. */
static void prim_pat_at(const struct prim_pat *t, const struct end *end, uint64_t done)
{
	if (end->n != done)
		ck_abort_msg("step %llu of loop %llu, offset %u, is taken as the %u-th",
			     (unsigned long long)done, (unsigned long long)t->loop, t->first,
			     end->n);
}
DEV_FN bool prim_pat_count(struct prim *p, const struct prim_pat *t)
{
	for (uint32_t k = 0; k < t->s.levels; k++) {
		struct end *from = &p->level_from[k], *to = &p->level_to[k];

		if (t->to >> k & 1) {
			prim_pat_at(t, to, prim_pat_done(p, t, k));
			(void)prim_count(&to->conn, prim_pat_blocks(p, t, k) * t->count);
		}
		if (!(t->from >> k & 1))
			continue;
		/* a slot that was read before, and kept, is not another one */
		if (from->n == prim_pat_done(p, t, k))
			(void)prim_count(&from->conn, t->count);
		p->given_back[k] += t->ends >> k & 1;
		if (from->n != prim_pat_done(p, t, k) + 1 || from->n - p->given_back[k] > 1)
			ck_abort_msg("level %u: %u slots received, %llu given back, at step %llu",
				     k, from->n, (unsigned long long)p->given_back[k],
				     (unsigned long long)prim_pat_done(p, t, k));
	}
	return true;
}
DEV_FN bool prim_pat_spread(struct prim *p, const struct prim_pat *t)
{
	if (t->reduces || t->ends != t->from)
		ck_abort_msg("an all-gather keeps slots");
	return prim_pat_count(p, t);
}
DEV_FN bool prim_pat_reduce(struct prim *p, const struct prim_pat *t)
{
	if (!t->reduces || (t->ends & ~t->from))
		ck_abort_msg("a reduce-scatter gives back slots that it does not read");
	return prim_pat_count(p, t);
}

#include "core/device/programs/program_files.h"
#include "core/device/programs/send_recv.h"

static inline void program_run(struct prim *p, const struct steps_part *part, int program)
{
	switch (program) {
#define PROGRAM_RUN(id, function, func, algo, proto, pattern, chunk, slice)                        \
	case DEV_##id:                                                                             \
		if (!function(p, part))                                                            \
			ck_abort_msg("program " #id " ended early");                               \
		break;
		DEV_PROGRAMS_EDGES(PROGRAM_RUN)
#undef PROGRAM_RUN
	}
}

/* If the work's threads are divided, the groups run one after the other. */
static inline void program_run_groups(struct prim *p, const struct steps_part *part, int program,
				      bool divides)
{
	p->moves[0].n = p->moves[1].n = p->moves[0].done = p->moves[1].done = 0;
	p->divided = false;
	p->ways = divides ? PRIM_TREE_UP : PRIM_TREE_UP | PRIM_TREE_DOWN;
	program_run(p, part, program);
	if (!divides || !p->divided)
		return;
	p->ways = PRIM_TREE_DOWN;
	program_run(p, part, program);
}

#endif
