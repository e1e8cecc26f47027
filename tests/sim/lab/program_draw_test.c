/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Generated programs: what is drawn fits the memory and the rules of streams, all kinds of steps
 * and ends are drawn, and the model gives each rank the words of its call.
 */
#include <check.h>
#include <string.h>

#include "sim/lab/scene/scene_program.h"
#include "tests/suite.h"

#define DRAW_SEEDS 400
#define DRAW_RANKS 3

struct drawn {
	uint32_t ops, ends, wrong, comms, froms;
	uint32_t large, largest, small, driven, fails, only, empty, self, apart, ctas;
};

static void draw_check_call(const struct program_plan *p, const struct program_step *step,
			    const struct program_call *c, struct drawn *d)
{
	ck_assert_int_lt(c->comm, p->comms);
	ck_assert_uint_le(c->count * DRAW_RANKS, program_words(step));
	ck_assert_uint_le(program_input_words(p, c), program_words(step));
	if (!program_runs(step) || !c->count) {
		ck_assert_int_eq(c->from, c->stream);
		ck_assert_int_eq(c->to, c->stream);
	}
	d->ops |= 1u << c->op;
	d->froms |= 1u << c->from;
	d->empty += !c->count;
	d->self += c->op == PROGRAM_MESSAGE && !c->root;
	ck_assert(!c->ctas || (p->options && c->op != PROGRAM_MESSAGE));
	ck_assert(!step->apart || p->nonblocking[c->comm]);
	d->ctas += c->ctas > 0;
}

/* A stream that brings an input is one of the group's on that communicator, or is ordered with one
 * by the rule of the legacy stream. */
static void draw_check_order(const struct program_step *step, const struct program_call *c)
{
	bool ordered = c->from == c->stream;

	for (int i = 0; i < step->n; i++) {
		const struct program_call *o = &step->call[i];
		bool legacy = c->from < 2 && (o->stream < 2 || o->recv_stream < 2);

		if (o->comm == c->comm && o->count)
			ordered |= legacy || o->stream == c->from || o->recv_stream == c->from;
	}
	ck_assert(ordered);
}

/* Calls on the communicator of the first one. */
static int draw_calls_of_one(const struct program_step *step)
{
	int n = 0;

	for (int i = 0; i < step->n; i++)
		n += step->call[i].comm == step->call[0].comm;
	return n;
}

static void draw_check(const struct program_plan *p, int k, struct drawn *d)
{
	static struct program_step step, again;

	program_draw_step(p, k, &step);
	program_draw_step(p, k, &again);
	ck_assert_int_eq(memcmp(&step, &again, sizeof step), 0);
	ck_assert_int_ge(step.n, 1);
	ck_assert_int_le(step.n, PROGRAM_CALLS);
	ck_assert(step.grouped || step.wrong == PROGRAM_RIGHT);
	ck_assert(step.only < 0 || (step.wrong != PROGRAM_RIGHT && !p->driven));
	d->large += step.n >= 100;
	d->largest += draw_calls_of_one(&step) > 2 * UINT8_MAX;
	d->small += step.n == 1;
	d->wrong |= 1u << step.wrong;
	d->only += step.only >= 0;
	ck_assert(!step.apart || (p->driven && step.n <= 4));
	d->apart += step.apart;
	for (int i = 0; i < step.n; i++) {
		draw_check_call(p, &step, &step.call[i], d);
		draw_check_order(&step, &step.call[i]);
	}
}

START_TEST(all_kinds_of_steps_are_drawn_and_fit)
{
	struct drawn d = {0};

	for (uint64_t seed = 1; seed <= DRAW_SEEDS; seed++) {
		struct program_plan p;

		program_draw(&p, seed, DRAW_RANKS);
		ck_assert_int_le(p.steps, PROGRAM_STEPS);
		ck_assert(p.end != PROGRAM_DROPS_SPLIT || !p.nonblocking[0]);
		for (int k = 0; k < p.steps; k++)
			draw_check(&p, k, &d);
		d.ends |= 1u << p.end;
		d.comms |= 1u << p.comms;
		d.driven += p.driven;
		d.fails += p.fails_at >= 0;
	}
	ck_assert_uint_eq(d.ops, (1u << PROGRAM_OPS) - 1);
	ck_assert_uint_eq(d.ends, (1u << PROGRAM_ENDS) - 1);
	ck_assert_uint_eq(d.wrong, 7);
	ck_assert_uint_eq(d.comms, 14);
	ck_assert_uint_eq(d.froms, (1u << PROGRAM_STREAMS) - 1);
	ck_assert(d.large && d.largest && d.small && d.driven && d.fails && d.only && d.empty &&
		  d.self);
	ck_assert(d.apart && d.ctas);
}
END_TEST

static void draw_expect(enum program_op op, int32_t root, int32_t rank, size_t word, uint32_t want)
{
	const struct program_plan p = {.n = DRAW_RANKS, .comms = PROGRAM_COMMS, .split = true};
	const struct program_call c = {
		.op = op, .comm = PROGRAM_COMMS - 1, .root = root, .count = 2, .salt = 5};

	ck_assert_uint_eq(program_result(&p, &c, rank, word), want);
}

/* The last communicator has the ranks in reverse order. */
START_TEST(results_are_those_of_the_communicator_s_ranks)
{
	const struct program_call c = {.count = 2, .salt = 5};
	const uint32_t fill = 0x77777777;
	uint32_t in[DRAW_RANKS][2 * DRAW_RANKS];

	for (int32_t r = 0; r < DRAW_RANKS; r++)
		for (size_t w = 0; w < 2 * DRAW_RANKS; w++)
			in[r][w] = program_input(&c, r, w);
	draw_expect(PROGRAM_ALL_REDUCE, 0, 0, 1, in[0][1] + in[1][1] + in[2][1]);
	draw_expect(PROGRAM_ALL_REDUCE, 0, 0, 2, fill);
	draw_expect(PROGRAM_BROADCAST, 0, 1, 0, in[2][0]);
	draw_expect(PROGRAM_ALL_GATHER, 0, 1, 1, in[2][1]);
	draw_expect(PROGRAM_ALL_GATHER, 0, 1, 5, in[0][1]);
	draw_expect(PROGRAM_ALL_GATHER, 0, 1, 6, fill);
	draw_expect(PROGRAM_REDUCE_SCATTER, 0, 0, 1, in[0][5] + in[1][5] + in[2][5]);
	draw_expect(PROGRAM_MESSAGE, 1, 1, 0, in[2][0]);
	draw_expect(PROGRAM_MESSAGE, 0, 1, 0, in[1][0]);
	draw_expect(PROGRAM_MESSAGE, 0, 1, 2, fill);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("program_draw");
	TCase *t = tcase_create("program_draw");

	tcase_add_test(t, all_kinds_of_steps_are_drawn_and_fit);
	tcase_add_test(t, results_are_those_of_the_communicator_s_ranks);
	suite_add_tcase(s, t);
	return suite_run(s);
}
