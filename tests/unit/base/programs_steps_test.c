/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every program of core/device/layout/programs.h, run on the host with primitives that only
 * count: the steps of each edge are those that steps_of_edge derives, and what a rank sends is,
 * chunk by chunk, what the other end receives. The host's plan and the proxies go by this function
 * alone. Over trees, what the groups of threads do one after the other comes to an end with the
 * slots that connections have.
 */
#include "tests/suite.h"
#include "tests/unit/base/programs_count.h"

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

/* The chain of a host: each rank has the one above it and the one below it. The network above the
 * head is a link of the head to itself: what it sends comes back, in as many slots. */
static void chain_build(int n)
{
	memset(tree_peer, 0xff, sizeof tree_peer);
	for (int r = 0; r < n; r++) {
		tree_peer[r][0] = r ? r - 1 : 0;
		tree_peer[r][1] = r + 1 < n ? r + 1 : -1;
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

	if (algo == DEV_COLLNET_CHAIN)
		chain_build(n);
	else
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
		tree_place(&ranks[r], r, algo == DEV_COLLNET_CHAIN ? r : w->root); /* no root */
		ranks[r].recv = &ranks[r].ends[0].conn;
		ranks[r].send = &ranks[r].ends[1].conn;
		program_run_groups(&ranks[r], &part, w->program, (shape + r * (shape / 3)) % 2);
	}
	if (algo == DEV_TREE || algo == DEV_COLLNET_CHAIN)
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

	for (int program = 0; program < DEV_EDGE_PROGRAMS; program++)
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

START_TEST(every_collective_has_one_program_per_algorithm_and_protocol)
{
	int seen[DEV_FUNC_COUNT][DEV_ALGO_COUNT][DEV_PROTO_COUNT] = {0};

	for (int program = 0; program < DEV_PROGRAM_COUNT; program++) {
		struct dev_program_row row = steps_program(program);

		ck_assert_int_eq(++seen[row.func][row.algo][row.proto], 1);
		ck_assert_uint_eq(DEV_STEPS % row.chunk_steps, 0);
		ck_assert_uint_eq(row.chunk_steps % row.slice_steps, 0);
	}
	for (int func = 0; func < DEV_EDGE_FUNCS; func++)
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
	tcase_add_test(t, pat_takes_few_steps_for_few_elements_and_as_many_as_ranks_for_many);
	tcase_add_test(t, every_collective_has_one_program_per_algorithm_and_protocol);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
