/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every program of core/device/layout/programs.h, and messages, run on the host with primitives
 * that only count: the steps of each edge are those that steps_of_edge and steps_of_message derive,
 * and what a rank sends is, chunk by chunk, what the other end receives. The host's plan and the
 * proxies go by these two functions alone. Over trees, what the groups of threads do one after the
 * other comes to an end with the slots that connections have.
 */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/layout/steps.h"
#include "tests/suite.h"

/* ---- primitives that count, instead of core/device/prims/prims.h ----------------------------- */

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

static void program_run(struct prim *p, const struct steps_part *part, int program)
{
	switch (program) {
#define PROGRAM_RUN(id, function, func, algo, proto, pattern, chunk, slice)                        \
	case DEV_##id:                                                                             \
		if (!function(p, part))                                                            \
			ck_abort_msg("program " #id " ended early");                               \
		break;
		DEV_PROGRAMS(PROGRAM_RUN)
#undef PROGRAM_RUN
	}
}

/* If the work's threads are divided, the groups run one after the other. */
static void program_run_groups(struct prim *p, const struct steps_part *part, int program,
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

/* ---- one work on one channel, every rank ---------------------------------------------------- */

static struct prim ranks[MAX_RANKS];

/* Rank r is at position r of the ring. */
static struct steps_count steps_want(const struct dev_work *w, int rank, int n, uint32_t edge)
{
	struct dev_program_row row = steps_program(w->program);
	struct steps_part part = steps_part_of(w, 0);
	struct steps_place at = {.rank = rank,
				 .nranks = n,
				 .root = w->root,
				 .prev = (rank + n - 1) % n,
				 .next = (rank + 1) % n,
				 .toward = ranks[rank].toward};

	return steps_of_edge(&row, &part, &at, edge);
}

static void steps_check(const struct dev_work *w, int rank, int n)
{
	const struct prim *p = &ranks[rank];
	struct steps_count want = steps_want(w, rank, n, 0);
	uint32_t each = steps_program(w->program).chunk_steps;
	uint32_t received = p->ends[0].n, sent = p->ends[1].n;

	if ((uint64_t)received * each == want.recv && (uint64_t)sent * each == want.send)
		return;
	ck_abort_msg(
		"program %d, rank %d of %d, root %d, count %llu: %u chunks received and %u sent, "
		"of %u steps; steps_of_edge derives %llu and %llu",
		w->program, rank, n, w->root, (unsigned long long)w->count, received, sent, each,
		(unsigned long long)want.recv, (unsigned long long)want.send);
}

static void flow_check(const struct dev_work *w, int rank, int n)
{
	const struct end *sent = &ranks[rank].ends[1], *received = &ranks[(rank + 1) % n].ends[0];

	if (sent->n != received->n)
		ck_abort_msg("rank %d sends %u chunks, the next rank receives %u", rank, sent->n,
			     received->n);
	for (uint32_t i = 0; i < sent->n; i++)
		if (sent->chunk[i] != received->chunk[i])
			ck_abort_msg("program %d, count %llu: rank %d sends %llu elements in chunk "
				     "%u, the "
				     "next rank receives %llu",
				     w->program, (unsigned long long)w->count, rank,
				     (unsigned long long)sent->chunk[i], i,
				     (unsigned long long)received->chunk[i]);
}

/* The chunks from one rank to another: empty chunks are not received. */
static uint32_t chunks_that_are_not_empty(const struct end *e, uint64_t chunk[MAX_CHUNKS])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < e->n; i++)
		if (e->chunk[i])
			chunk[n++] = e->chunk[i];
	return n;
}

static void direct_flow_check(const struct dev_work *w, int from, int to)
{
	static uint64_t sent[MAX_CHUNKS], received[MAX_CHUNKS];
	uint32_t n = chunks_that_are_not_empty(&ranks[from].to[to - (to > from)], sent);
	uint32_t m = chunks_that_are_not_empty(&ranks[to].from[from - (from > to)], received);

	if (n != m || memcmp(sent, received, n * sizeof sent[0]))
		ck_abort_msg("program %d, count %llu: rank %d sends %u chunks to rank %d, which "
			     "receives "
			     "%u, or of other sizes",
			     w->program, (unsigned long long)w->count, from, n, to, m);
}

/* Each rank takes the same steps on all connections. */
static void direct_check(const struct dev_work *w, int n)
{
	for (int r = 0; r < n; r++) {
		const struct prim *p = &ranks[r];
		uint64_t steps = steps_want(w, r, n, 0).send;

		if (p->begun + p->next != steps || p->ended != p->begun)
			ck_abort_msg("program %d, rank %d of %d: %u chunks and %u second slots, "
				     "%u ended; steps_of_edge derives %llu steps",
				     w->program, r, n, p->begun, p->next, p->ended,
				     (unsigned long long)steps);
		for (int peer = 0; peer < n; peer++)
			if (peer != r)
				direct_flow_check(w, r, peer);
	}
}

/* Each edge takes the steps that are derived, and both of its ranks the same chunks. */
static void doubling_check(const struct dev_work *w, int n)
{
	for (int r = 0; r < n; r++)
		for (uint32_t k = 0; k < steps_pat_levels(n); k++) {
			const struct end *to = &ranks[r].to[k], *from = &ranks[r ^ 1 << k].from[k];
			uint64_t steps = steps_want(w, r, n, k).send;

			ck_assert_uint_eq(to->n, steps);
			ck_assert_uint_eq(ranks[r].begun, steps);
			ck_assert_uint_eq(ranks[r].ended, steps);
			ck_assert_uint_eq(from->n, steps);
			ck_assert(!memcmp(to->chunk, from->chunk, to->n * sizeof to->chunk[0]));
		}
}

/* ---- trees ---------------------------------------------------------------------------------- */

/* Rank r's parent: trees of every degree up to three, by turns of `shape`. The root is the last
 * rank. */
static int tree_parent(int r, int n, int shape)
{
	int at = n - 1 - r; /* from the root on */

	return at ? n - 1 - (at - 1) / (1 + shape % 3) : -1;
}

/* The rank at the other end of each link; -1: none. */
static int tree_peer[MAX_RANKS][DEV_TREE_LINKS];

static void tree_build(int n, int shape)
{
	int children[MAX_RANKS] = {0};

	memset(tree_peer, 0xff, sizeof tree_peer);
	for (int r = n - 1; r >= 0; r--) {
		int up = tree_parent(r, n, shape);

		tree_peer[r][0] = up;
		if (up >= 0)
			tree_peer[up][++children[up]] = r;
	}
}

static uint32_t tree_link_to(int r, int peer)
{
	uint32_t link = 0;

	while (tree_peer[r][link] != peer)
		link++;
	return link;
}

static uint32_t tree_toward(int r, int root)
{
	int below = -1, at = root;

	if (root == r)
		return DEV_TREE_SELF;
	for (; at >= 0 && at != r; at = tree_peer[at][0])
		below = at;
	return at < 0 ? 0 : tree_link_to(r, below);
}

static void tree_place(struct prim *p, int r, int root)
{
	for (int k = 0; k < DEV_TREE_LINKS; k++) {
		p->block->conn[2 * k].peer = p->block->conn[2 * k + 1].peer = tree_peer[r][k];
		p->link_from[k].n = p->link_to[k].n = 0;
	}
	p->toward = tree_toward(r, root);
}

/* The traffic of one link, at both of its ends. */
static void tree_link_check(const struct dev_work *w, int r, int n, int link)
{
	const struct dev_program_row row = steps_program(w->program);
	int peer = tree_peer[r][link];
	const struct end *to = &ranks[r].link_to[link], *from = &ranks[r].link_from[link], *other;
	struct steps_count want = steps_want(w, r, n, (uint32_t)link);

	if (peer < 0) {
		ck_assert(!to->n && !from->n);
		return;
	}
	ck_assert_uint_eq(row.chunk_steps, 1);
	if (to->n != want.send || from->n != want.recv)
		ck_abort_msg("program %d, rank %d of %d, root %d, link %d: %u chunks sent, %u "
			     "received; steps_of_edge derives %llu and %llu",
			     w->program, r, n, w->root, link, to->n, from->n,
			     (unsigned long long)want.send, (unsigned long long)want.recv);
	other = &ranks[peer].link_from[tree_link_to(peer, r)];
	ck_assert_uint_eq(to->n, other->n);
	ck_assert(memcmp(to->chunk, other->chunk, to->n * sizeof to->chunk[0]) == 0);
}

/* Steps of a rank's links, as far as the groups of all ranks have come. */
static uint64_t tree_sent[MAX_RANKS][DEV_TREE_LINKS], tree_received[MAX_RANKS][DEV_TREE_LINKS];

static bool tree_may_move(int r, uint32_t from, uint32_t to)
{
	for (int k = 0; k < DEV_TREE_LINKS; k++) {
		int peer = tree_peer[r][k];
		uint32_t back = peer < 0 ? 0 : tree_link_to(peer, r);

		if ((from >> k & 1) && tree_sent[peer][back] == tree_received[r][k])
			return false;
		if ((to >> k & 1) && tree_sent[r][k] == tree_received[peer][back] + DEV_STEPS)
			return false;
	}
	return true;
}

/* The group's next moves, as many as its links let it do. */
static bool tree_move(int r, struct moves *m)
{
	uint32_t before = m->done;

	for (; m->done < m->n && tree_may_move(r, m->from[m->done], m->to[m->done]); m->done++)
		for (int k = 0; k < DEV_TREE_LINKS; k++) {
			tree_received[r][k] += m->from[m->done] >> k & 1;
			tree_sent[r][k] += m->to[m->done] >> k & 1;
		}
	return m->done > before;
}

/* Each group waits for the chunks and the slots of its next move alone: all moves are done in the
 * end. */
static void tree_end_check(const struct dev_work *w, int n)
{
	bool moved = true;

	memset(tree_sent, 0, sizeof tree_sent);
	memset(tree_received, 0, sizeof tree_received);
	while (moved) {
		moved = false;
		for (int i = 0; i < 2 * n; i++)
			moved |= tree_move(i / 2, &ranks[i / 2].moves[i % 2]);
	}
	for (int i = 0; i < 2 * n; i++) {
		const struct moves *m = &ranks[i / 2].moves[i % 2];

		if (m->done != m->n)
			ck_abort_msg("program %d, %d ranks, count %llu: rank %d waits for ever "
				     "for its move %u of %u",
				     w->program, n, (unsigned long long)w->count, i / 2, m->done,
				     m->n);
	}
}

static void tree_check(const struct dev_work *w, int n)
{
	for (int r = 0; r < n; r++)
		for (int link = 0; link < DEV_TREE_LINKS; link++)
			tree_link_check(w, r, n, link);
	tree_end_check(w, n);
}

/* ---- parallel aggregated trees -------------------------------------------------------------- */

/* Both ends of a level: as many steps as steps_of_edge derives, every slot given back, and at most
 * a chunk in each. All ranks' blocks arrive: n-1 of each element. */
static void pat_check(const struct dev_work *w, int n)
{
	for (int r = 0; r < n; r++) {
		uint64_t sent = 0;

		for (uint32_t k = 0; k < steps_pat_levels(n); k++) {
			const struct prim *p = &ranks[r];
			uint64_t want = steps_want(w, r, n, k).send;

			if (p->level_to[k].n != want || p->level_from[k].n != want ||
			    p->given_back[k] != want)
				ck_abort_msg("program %d, rank %d of %d, count %llu, level %u: %u "
					     "chunks sent, %u received, %llu given back; "
					     "steps_of_edge derives %llu",
					     w->program, r, n, (unsigned long long)w->count, k,
					     p->level_to[k].n, p->level_from[k].n,
					     (unsigned long long)p->given_back[k],
					     (unsigned long long)want);
			for (uint32_t i = 0; i < p->level_to[k].n; i++) {
				if (p->level_to[k].chunk[i] > w->chunk_lo)
					ck_abort_msg("more than a chunk in a slot");
				sent += p->level_to[k].chunk[i];
			}
		}
		if (sent != w->count * (uint64_t)(n - 1))
			ck_abort_msg("rank %d of %d sends %llu elements of %llu", r, n,
				     (unsigned long long)sent, (unsigned long long)w->count);
	}
}

static void prim_clear(struct prim *p)
{
	memset(p->given_back, 0, sizeof p->given_back);
	for (int k = 0; k < MAX_LEVELS; k++)
		p->level_from[k].n = p->level_to[k].n = 0;
	p->ends[0].n = p->ends[1].n = 0;
	for (int k = 0; k < MOST_OTHERS; k++)
		p->from[k].n = p->to[k].n = 0;
	p->begun = p->next = p->ended = 0;
}

static void work_check(const struct dev_work *w, int n, int shape)
{
	enum dev_algo algo = steps_program(w->program).algo;
	static struct dev_block block[MAX_RANKS];
	static uint8_t input, output;
	struct steps_part part = steps_part_of(w, 0);

	tree_build(n, shape);
	for (int r = 0; r < n; r++) {
		block[r].comm.rank = r;
		block[r].comm.nranks = n;
		block[r].channel.ring =
			(struct dev_ring){.prev = (r + n - 1) % n, .next = (r + 1) % n, .index = r};
		ranks[r].block = &block[r];
		ranks[r].input = &input;
		ranks[r].output = &output;
		ranks[r].count = w->count;
		ranks[r].type_bytes = 4;
		ranks[r].root = w->root;
		prim_clear(&ranks[r]);
		tree_place(&ranks[r], r, w->root);
		ranks[r].recv = &ranks[r].ends[0].conn;
		ranks[r].send = &ranks[r].ends[1].conn;
		program_run_groups(&ranks[r], &part, w->program, (shape + r * (shape / 3)) % 2);
	}
	if (algo == DEV_TREE)
		tree_check(w, n);
	else if (algo == DEV_PAT)
		pat_check(w, n);
	else if (algo == DEV_DOUBLING)
		doubling_check(w, n);
	else if (algo != DEV_RING)
		direct_check(w, n);
	for (int r = 0; r < n && algo == DEV_RING; r++) {
		steps_check(w, r, n);
		flow_check(w, r, n);
	}
}

static int most_ranks(int program)
{
	enum dev_algo algo = steps_program(program).algo;

	return algo == DEV_ONE_SHOT || algo == DEV_TWO_SHOT ? DEV_DIRECT_RANKS : MAX_RANKS;
}

static bool program_runs(int program, int n)
{
	return steps_program(program).algo != DEV_DOUBLING || !(n & (n - 1));
}

START_TEST(programs_take_the_steps_that_steps_of_edge_derives)
{
	static const uint64_t counts[] = {1, 15, 16, 17, 255, 256, 257, 1000, 4095, 4096, 5001};

	for (int program = 0; program < DEV_PROGRAM_COUNT; program++)
		for (int n = 2; n <= most_ranks(program); n++)
			for (size_t c = 0; c < ARRAY_LEN(counts) && program_runs(program, n); c++)
				for (int root = 0; root < n; root++) {
					struct dev_work w = {.count = counts[c],
							     .count_lo = counts[c],
							     .chunk_lo = 64,
							     .program = (uint8_t)program,
							     .type = DEV_F32,
							     .root = root};

					work_check(&w, n, n + root);
				}
}
END_TEST

/* Both ends of one message: the chunks are the same, make up the message, and take the steps. */
static void message_check(uint64_t bytes, enum dev_proto proto, uint32_t step_bytes)
{
	const struct dev_send_recv m = {.send_bytes = bytes, .recv_bytes = bytes};
	struct prim *p = &ranks[0];
	struct end *in = &p->ends[0], *out = &p->ends[1];
	uint64_t sum = 0;

	in->conn.step_bytes[proto] = out->conn.step_bytes[proto] = step_bytes;
	p->proto = proto;
	in->n = out->n = 0;
	p->recv = &in->conn;
	p->send = &out->conn;
	ck_assert(send_recv_send(p, &m));
	ck_assert(send_recv_recv(p, &m));
	ck_assert_uint_eq(out->n, steps_of_message(bytes, proto, step_bytes));
	ck_assert_uint_eq(in->n, out->n);
	for (uint32_t i = 0; i < out->n; i++) {
		ck_assert_uint_eq(in->chunk[i], out->chunk[i]);
		ck_assert_uint_gt(out->chunk[i], 0);
		ck_assert_uint_le(out->chunk[i], steps_data_bytes(proto, step_bytes));
		sum += out->chunk[i];
	}
	ck_assert_uint_eq(sum, bytes);
}

START_TEST(messages_take_the_steps_that_steps_of_message_derives)
{
	static const uint64_t bytes[] = {1, 511, 512, 513, 4096, 100000, 1000001};
	static const uint32_t steps[] = {512, 4096, 128 << 10, 512 << 10};

	for (size_t i = 0; i < ARRAY_LEN(bytes); i++)
		for (size_t k = 0; k < ARRAY_LEN(steps); k++) {
			message_check(bytes[i], DEV_SIMPLE, steps[k]);
			message_check(bytes[i], DEV_LL, steps[k]);
		}
}
END_TEST

/* log2(n) steps where all blocks of a step fit a chunk, n-1 where only one does. */
START_TEST(pat_takes_few_steps_for_few_elements_and_as_many_as_ranks_for_many)
{
	for (int n = 2; n <= 1000; n++) {
		const uint64_t small = 64 / ((uint64_t)n / 2), large = 65;
		struct steps_part part = {.count = small, .chunk = 64};
		uint64_t steps = 0;

		for (uint32_t k = 0; k < steps_pat_levels(n) && small; k++)
			ck_assert_uint_eq(steps_of_level(&part, n, k), 1);
		part.count = large; /* two loops */
		for (uint32_t k = 0; k < steps_pat_levels(n); k++)
			steps += steps_of_level(&part, n, k);
		ck_assert_uint_eq(steps, 2 * (uint64_t)(n - 1));
	}
}
END_TEST

/* In lines it goes through slots all the same. */
START_TEST(message_that_is_put_takes_one_step)
{
	const struct dev_send_recv m = {.send_bytes = 100000, .recv_bytes = 100000};
	struct prim *p = &ranks[0];
	struct end *in = &p->ends[0], *out = &p->ends[1];

	in->conn.put = out->conn.put = 1;
	message_check(100000, DEV_LL, 512);
	in->conn.step_bytes[DEV_SIMPLE] = out->conn.step_bytes[DEV_SIMPLE] = 512;
	p->proto = DEV_SIMPLE;
	in->n = out->n = 0;
	ck_assert(send_recv_send(p, &m));
	ck_assert(send_recv_recv(p, &m));
	ck_assert_uint_eq(in->n, 1);
	ck_assert_uint_eq(out->n, 1);
	ck_assert_uint_eq(out->chunk[0], 100000);
	in->conn.put = out->conn.put = 0;
}
END_TEST

/* Between processes, if both ranks know that it may be put: one step, or through slots. */
START_TEST(message_that_is_shown_takes_one_step_or_goes_through_slots)
{
	const struct dev_send_recv m = {.send_bytes = 100000,
					.recv_bytes = 100000,
					.shown = DEV_SHOWN_SEND | DEV_SHOWN_RECV};
	struct prim *p = &ranks[0];
	struct end *in = &p->ends[0], *out = &p->ends[1];

	message_check(100000, DEV_SIMPLE, 512);
	p->proto = DEV_SIMPLE;
	for (int i = 0; i < 2; i++) {
		mapped = i == 1;
		in->n = out->n = 0;
		ck_assert(send_recv_send(p, &m));
		ck_assert(send_recv_recv(p, &m));
		ck_assert_uint_eq(in->n, mapped ? 1 : steps_of_message(100000, DEV_SIMPLE, 512));
		ck_assert_uint_eq(out->n, in->n);
	}
	mapped = false;
}
END_TEST

START_TEST(every_collective_has_one_program_per_algorithm_and_protocol)
{
	int seen[DEV_FUNC_COUNT][DEV_ALGO_COUNT][DEV_PROTO_COUNT] = {0};

	for (int program = 0; program < DEV_PROGRAM_COUNT; program++) {
		struct dev_program_row row = steps_program(program);

		ck_assert_int_eq(++seen[row.func][row.algo][row.proto], 1);
		ck_assert_uint_eq(DEV_STEPS % row.chunk_steps, 0);
		ck_assert_uint_eq(row.chunk_steps % row.slice_steps, 0);
	}
	for (int func = 0; func < DEV_FUNC_COUNT; func++)
		for (int proto = 0; proto < DEV_PROTO_COUNT; proto++)
			ck_assert_int_eq(seen[func][DEV_RING][proto], 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("programs");
	TCase *t = tcase_create("steps");

	tcase_set_timeout(t, 60);

	tcase_add_test(t, programs_take_the_steps_that_steps_of_edge_derives);
	tcase_add_test(t, messages_take_the_steps_that_steps_of_message_derives);
	tcase_add_test(t, pat_takes_few_steps_for_few_elements_and_as_many_as_ranks_for_many);
	tcase_add_test(t, message_that_is_put_takes_one_step);
	tcase_add_test(t, message_that_is_shown_takes_one_step_or_goes_through_slots);
	tcase_add_test(t, every_collective_has_one_program_per_algorithm_and_protocol);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
