/* SPDX-License-Identifier: BSD-3-Clause */
/* How a collective is shared between channels, and how many steps each takes. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/algo/algo.h"
#include "core/plan/plan_internal.h"
#include "core/transport/collnet/collnet.h"
#include "core/tune/allowed.h"
#include "tests/suite.h"

/* The set of programs of a protocol. */
static uint64_t programs_of(const char *proto)
{
	uint64_t programs = 0;

	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		if (!strcmp(tune_proto_name(p), proto))
			programs |= 1ull << p;
	return programs;
}

static struct plan_limits limits;

/* Ranks of one host with NVLink. */
static struct plan_limits limits_of(int32_t nranks, int32_t nchannels, uint32_t simple_step_bytes)
{
	const struct topo_summary summary = {
		.nranks = nranks,
		.nhosts = 1,
		.sm_least = 90,
		.sm_most = 90,
		.graph = {[TOPO_RING] = {.nchannels = nchannels,
					 .bw_intra_mbps = 20000,
					 .bw_inter_mbps = 20000,
					 .type_intra = TOPO_PATH_NVL,
					 .same_channels = 1},
			  [TOPO_TREE] = {.nchannels = nchannels,
					 .bw_intra_mbps = 20000,
					 .bw_inter_mbps = 20000,
					 .type_intra = TOPO_PATH_NVL,
					 .same_channels = 1},
			  [TOPO_COLLNET_CHAIN] = {.nchannels = nchannels,
						  .bw_intra_mbps = 1,
						  .bw_inter_mbps = 1}},
	};
	struct plan_limits lim = {.nranks = nranks,
				  .nhosts = 1,
				  .nchannels = nchannels,
				  .step_bytes = {[DEV_SIMPLE] = simple_step_bytes},
				  .allowed = programs_of("Simple")};

	tune_model_make(&lim.model, &summary, nchannels, lim.allowed);
	return lim;
}

static struct dev_work work_of(size_t count, ncclDataType_t type, ncclRedOp_t op,
			       const struct plan_limits *lim, struct tune_shape *shape)
{
	size_t bytes = count * steps_type_bytes((int)type);
	struct plan_task task = {.func = DEV_ALL_REDUCE,
				 .send_bytes = bytes,
				 .recv_bytes = bytes,
				 .count = count,
				 .type = type,
				 .reduces = true,
				 .op = op,
				 .root = -1};
	struct dev_work work;

	plan_work_fill(&task, lim, &work, shape);
	return work;
}

/* Steps of rank 0 on channel 0. */
static struct steps_count ring_steps(const struct dev_work *w, int32_t nranks)
{
	struct dev_program_row row = steps_program(w->program);
	struct steps_part part = steps_part_of(w, 0);
	struct steps_place at = {.nranks = nranks, .root = -1, .prev = nranks - 1, .next = 1};

	return steps_of_edge(&row, &part, &at, 0);
}

static uint64_t total_of(const struct dev_work *w)
{
	uint64_t next = 0;

	for (int c = w->channel_lo; c <= w->channel_hi; c++) {
		struct steps_part part = steps_part_of(w, c);

		ck_assert_uint_eq(part.offset, next);
		ck_assert_uint_gt(part.count, 0);
		next += part.count;
	}
	return next;
}

START_TEST(shares_cover_every_element_once)
{
	static const uint64_t counts[] = {1,      2,       3,       127,      128,
					  129,    1000,    16384,   65537,    262144,
					  262145, 1048577, 4194304, 16777217, 1ull << 33};

	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		for (int type = 0; type < DEV_TYPE_COUNT; type++) {
			struct tune_shape s;
			struct dev_work w = work_of(counts[i], type, ncclSum, &limits, &s);
			uint64_t grain = steps_grain_bytes(DEV_SIMPLE) / steps_type_bytes(type);

			ck_assert_uint_eq(total_of(&w), counts[i]);
			ck_assert_int_lt(w.channel_hi, s.nchannels);
			if (w.channel_lo != w.channel_hi)
				ck_assert_uint_eq(w.count_lo % grain, 0);
			ck_assert_uint_eq((uint64_t)w.chunk_lo * steps_type_bytes(type),
					  4 * (uint64_t)limits.step_bytes[DEV_SIMPLE]);
		}
	}
}
END_TEST

START_TEST(steps_are_whole_chunks_and_at_least_one_loop)
{
	struct tune_shape s;
	struct dev_work w = work_of(1, ncclFloat32, ncclSum, &limits, &s);

	ck_assert_uint_eq(ring_steps(&w, 4).send, 2 * 3 * 4);
	ck_assert_uint_eq(ring_steps(&w, 4).recv, 2 * 3 * 4);
	/* one element more than a loop of 4 chunks of 2 MiB on one channel */
	struct plan_limits one = limits;
	one.nchannels = 1;
	w = work_of(4 * (2 << 20) / 4 + 1, ncclFloat32, ncclSum, &one, &s);
	ck_assert_uint_eq(ring_steps(&w, 4).send, 2 * 2 * 3 * 4);
}
END_TEST

START_TEST(average_multiplies_floats_first_and_divides_integers_last)
{
	static const struct {
		ncclDataType_t type;
		enum dev_op op;
		uint64_t scale;
	} want[] = {
		{ncclInt8, DEV_SUM_POSTDIV, 4},
		{ncclUint64, DEV_SUM_POSTDIV, 4},
		{ncclFloat32, DEV_PREMUL_SUM, 0x3e800000},
		{ncclFloat16, DEV_PREMUL_SUM, 0x3400},
		{ncclBfloat16, DEV_PREMUL_SUM, 0x3e80},
		{ncclFloat64, DEV_PREMUL_SUM, 0x3fd0000000000000},
		{ncclFloat8e4m3, DEV_PREMUL_SUM, 0x28},
		{ncclFloat8e5m2, DEV_PREMUL_SUM, 0x34},
	};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		uint64_t scale;

		ck_assert_int_eq(plan_device_op(ncclAvg, want[i].type, 4, &scale), want[i].op);
		ck_assert_msg(scale == want[i].scale, "type %d: scale %#llx", want[i].type,
			      (unsigned long long)scale);
	}
}
END_TEST

/* Memory that a process can address makes more steps than 32 bits count, with the smallest
 * buffer. */
START_TEST(steps_of_a_huge_share_are_counted_in_64_bits)
{
	const struct plan_limits small = limits_of(2, 1, 512);
	struct tune_shape s;
	struct dev_work w = work_of(1ull << 42, ncclInt8, ncclSum, &small, &s);
	struct proxy_op op = {.nsteps = ring_steps(&w, 2).send};

	ck_assert_uint_eq(op.nsteps, ring_steps(&w, 2).send);
	ck_assert_uint_gt(op.nsteps, UINT32_MAX);
}
END_TEST

START_TEST(a_block_has_no_more_warps_than_the_kernel_is_built_for)
{
	ck_assert_uint_eq(plan_block_warps(1024), DEV_MAX_WARPS);
	ck_assert_uint_eq(plan_block_warps(512), 16);
	ck_assert_uint_eq(plan_block_warps(64), 2);
	ck_assert_uint_eq(plan_block_warps(1), 1);
	ck_assert_uint_ge(plan_block_warps(-2), 1);
}
END_TEST

/* A call that has one block of `count` elements per rank in one of its buffers. */
static struct dev_work blocks_work(enum dev_func func, bool reduces, size_t count,
				   struct tune_shape *shape)
{
	size_t block = count * steps_type_bytes(DEV_F32);
	struct plan_task task = {.func = func,
				 .send_bytes = func == DEV_ALL_GATHER ? block : 4 * block,
				 .recv_bytes = func == DEV_ALL_GATHER ? 4 * block : block,
				 .count = count,
				 .type = ncclFloat32,
				 .reduces = reduces,
				 .op = ncclMax,
				 .root = -1};
	struct dev_work work;

	plan_work_fill(&task, &limits, &work, shape);
	return work;
}

START_TEST(a_data_mover_moves_bytes)
{
	struct tune_shape s;
	struct dev_work w = blocks_work(DEV_ALL_GATHER, false, 1000, &s);

	ck_assert_int_eq(w.program, DEV_ALL_GATHER_RING_SIMPLE);
	ck_assert_int_eq(w.type, DEV_I8);
	ck_assert_int_eq(w.op, DEV_SUM);
	ck_assert_uint_eq(w.count, 4000);
	ck_assert_uint_eq(total_of(&w), 4000);
	ck_assert_uint_eq(w.chunk_lo, 4 * limits.step_bytes[DEV_SIMPLE]);
	w = blocks_work(DEV_REDUCE_SCATTER, true, 1000, &s);
	ck_assert_int_eq(w.program, DEV_REDUCE_SCATTER_RING_SIMPLE);
	ck_assert_int_eq(w.type, DEV_F32);
	ck_assert_int_eq(w.op, DEV_MAX);
	ck_assert_uint_eq(w.count, 1000);
}
END_TEST

/* The shape goes by all blocks, the shares by one of them. */
START_TEST(channels_go_by_the_bytes_of_all_blocks)
{
	struct tune_shape s;
	struct dev_work w = blocks_work(DEV_ALL_GATHER, false, (256 << 10) / 4 / 4, &s);

	ck_assert_int_eq(s.nchannels, 8);
	ck_assert_int_eq(w.channel_hi, 7);
	ck_assert_uint_eq(total_of(&w), (256 << 10) / 4);
	(void)blocks_work(DEV_REDUCE_SCATTER, true, (64 << 10) / 4 / 4, &s);
	ck_assert_int_eq(s.nchannels, 2);
}
END_TEST

/* More elements than 32 bits count, and more bytes. */
START_TEST(blocks_beyond_32_bits_are_shared_out)
{
	const size_t count = (5ull << 32) + 7;
	struct tune_shape s;
	struct dev_work w = blocks_work(DEV_ALL_GATHER, false, count, &s);

	ck_assert_uint_eq(total_of(&w), 4 * count);
	w = blocks_work(DEV_REDUCE_SCATTER, true, count, &s);
	ck_assert_uint_eq(total_of(&w), count);
	ck_assert_uint_gt(w.count_lo, count / 9);
}
END_TEST

/* Slots of 512 KiB, one channel, 16 ranks: a block of up to 64 KiB shares a slot with seven others,
 * a larger one with fewer; alone in a slot, chunks are halved to 64 KiB while the call has less
 * than 32 of them, or 16. */
START_TEST(chunks_of_pat_are_small_where_blocks_do_not_share_slots)
{
	static const struct {
		enum dev_func func;
		size_t block;
		uint32_t low, chunk;
	} want[] = {
		{DEV_ALL_GATHER, 64 << 10, 1, 512 << 10},
		{DEV_ALL_GATHER, (64 << 10) + 1, 2, 512 << 10},
		{DEV_ALL_GATHER, 256 << 10, 3, 512 << 10},
		{DEV_ALL_GATHER, (256 << 10) + 1, 4, 128 << 10},
		{DEV_ALL_GATHER, 1 << 20, 4, 512 << 10},
		{DEV_REDUCE_SCATTER, (256 << 10) + 1, 4, 256 << 10},
		{DEV_REDUCE_SCATTER, 512 << 10, 4, 512 << 10},
	};
	struct plan_limits lim = limits_of(16, 1, 512 << 10);

	lim.allowed = 1ull << DEV_ALL_GATHER_PAT_SIMPLE | 1ull << DEV_REDUCE_SCATTER_PAT_SIMPLE;
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		struct plan_task task = {.func = want[i].func,
					 .send_bytes = want[i].block,
					 .recv_bytes = 16 * want[i].block,
					 .count = want[i].block,
					 .type = ncclUint8,
					 .op = ncclSum,
					 .root = -1};
		struct tune_shape s;
		struct dev_work w;

		plan_work_fill(&task, &lim, &w, &s);
		struct steps_part part = steps_part_of(&w, 0);

		ck_assert_uint_eq(w.chunk_lo, want[i].chunk);
		ck_assert_uint_eq(steps_pat_of(&part, 16).low, want[i].low);
	}
}
END_TEST

START_TEST(every_collective_has_a_program)
{
	for (int func = 0; func < DEV_EDGE_FUNCS; func++) {
		struct plan_task task = {.func = (enum dev_func)func};
		enum dev_program program = plan_choose(&task, &limits).program;

		ck_assert_int_lt(program, DEV_PROGRAM_COUNT);
		ck_assert_int_eq(steps_program(program).func, func);
	}
}
END_TEST

/* If only one program is allowed, the choice is that program; if no program is allowed, the choice
 * fails. */
START_TEST(the_program_that_is_allowed_is_chosen)
{
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		char out;
		struct plan_task task = {
			.func = steps_program(p).func, .recv = &out, .in_windows = true};
		struct plan_limits lim = limits;

		lim.allowed = 1ull << p;
		ck_assert_int_eq(plan_choose(&task, &lim).program, p);
		lim.allowed = 0;
		ck_assert_int_eq(plan_choose(&task, &lim).program, DEV_PROGRAM_COUNT);
	}
}
END_TEST

/* A call whose buffers are not in windows has no program on windows, and neither has a call with a
 * factor one that reads other ranks' inputs. */
START_TEST(programs_on_windows_need_windows)
{
	struct plan_task task = {.func = DEV_ALL_REDUCE};
	struct plan_limits lim = limits;

	lim.allowed = DEV_SYMMETRIC_BITS;
	ck_assert_int_eq(plan_choose(&task, &lim).program, DEV_PROGRAM_COUNT);
	task.in_windows = true;
	ck_assert_uint_eq(plan_programs(&task, &lim), DEV_SYMMETRIC_BITS);
	task.factor.used = true;
	ck_assert_int_eq(plan_choose(&task, &lim).program, DEV_ALL_REDUCE_SYM_LL);
	lim.allowed = 1ull << DEV_ALL_REDUCE_SYM_SIMPLE;
	ck_assert_int_eq(plan_choose(&task, &lim).program, DEV_PROGRAM_COUNT);
}
END_TEST

/* In place the stores of an all-to-all would overwrite blocks that are not sent. */
START_TEST(an_all_to_all_in_place_has_only_lines)
{
	struct plan_task task = {.func = DEV_ALL_TO_ALL, .in_windows = true};
	struct plan_limits lim = limits;

	lim.allowed = DEV_SYMMETRIC_BITS;
	task.send_bytes = task.recv_bytes = 1u << 30;
	ck_assert_int_eq(plan_choose(&task, &lim).program, DEV_ALL_TO_ALL_SYM_LL);
	task.recv = &task;
	ck_assert_int_eq(plan_choose(&task, &lim).program, DEV_ALL_TO_ALL_SYM_SIMPLE);
	task.in_windows = false;
	ck_assert_int_eq(plan_choose(&task, &lim).program, DEV_PROGRAM_COUNT);
}
END_TEST

/* Returns the number of channels that share the bytes of an all-reduce with these options. */
static int channels_with(struct plan_options options, size_t count)
{
	struct plan_task task = {.func = DEV_ALL_REDUCE,
				 .send_bytes = 4 * count,
				 .recv_bytes = 4 * count,
				 .count = count,
				 .type = ncclFloat32,
				 .reduces = true,
				 .root = -1,
				 .options = options};
	struct tune_shape s;
	struct dev_work w;

	plan_work_fill(&task, &limits, &w, &s);
	ck_assert_uint_eq(total_of(&w), count);
	return w.channel_hi - w.channel_lo + 1;
}

START_TEST(bounds_of_a_call_limit_its_channels)
{
	const size_t few = 4096, many = 64 << 20;

	ck_assert_int_eq(channels_with((struct plan_options){0}, many), limits.nchannels);
	ck_assert_int_eq(channels_with((struct plan_options){.max_channels = 3}, many), 3);
	ck_assert_int_eq(channels_with((struct plan_options){0}, few), 1);
	ck_assert_int_eq(channels_with((struct plan_options){.min_channels = 5}, few), 5);
	/* the communicator has no more */
	ck_assert_int_eq(channels_with((struct plan_options){.min_channels = 64}, many),
			 limits.nchannels);
	ck_assert_int_eq(
		channels_with((struct plan_options){.min_channels = 2, .max_channels = 2}, few), 2);
}
END_TEST

/* The program of a network that reduces is there for the types and operations of the plugins. An
 * average is a sum there, and so is the program's own operation. */
START_TEST(a_network_that_reduces_is_chosen_for_what_it_reduces)
{
	const uint64_t network = 1ull << DEV_ALL_REDUCE_COLLNET_SIMPLE;
	struct plan_task task = {.func = DEV_ALL_REDUCE, .reduces = true, .count = 1};
	struct plan_limits lim = limits;

	lim.allowed = lim.in_network = network;
	lim.reductions =
		collnet_reduction(ncclInt32, ncclSum) | collnet_reduction(ncclInt8, ncclMax);
	for (int type = 0; type < ncclNumTypes; type++)
		for (int op = ncclSum; op <= ncclAvg; op++) {
			bool can = (type == ncclInt32 && (op == ncclSum || op == ncclAvg)) ||
				   (type == ncclInt8 && op == ncclMax);

			task.type = (ncclDataType_t)type;
			task.op = (ncclRedOp_t)op;
			ck_assert_uint_eq(plan_programs(&task, &lim), can ? network : 0);
		}
	task.type = ncclInt32;
	task.op = ncclProd;
	task.factor.used = true;
	ck_assert_uint_eq(plan_programs(&task, &lim), network);
	ck_assert_int_eq(plan_network_op(DEV_MIN), ncclMin);
	ck_assert_int_eq(plan_network_op(DEV_MAX), ncclMax);
	ck_assert_int_eq(plan_network_op(DEV_PROD), ncclProd);
	ck_assert_int_eq(plan_network_op(DEV_SUM_POSTDIV), ncclSum);
}
END_TEST

/* Chunks of a chain: 256 KiB, and less if a channel has few for each rank of the chain. */
START_TEST(chunks_of_a_chain_are_halved_for_short_calls)
{
	static const struct {
		uint64_t bytes;
		int32_t nranks;
		uint64_t chunk;
	} cases[] = {{1ull << 30, 2, 256 << 10}, {64 << 20, 8, 128 << 10}, {8 << 20, 8, 128 << 10},
		     {4 << 20, 8, 64 << 10},     {256 << 10, 8, 32 << 10}, {8, 2, 32 << 10}};
	const struct dev_work w = {.program = DEV_ALL_REDUCE_COLLNET_SIMPLE};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct algo_place at = {cases[i].nranks, 1};

		ck_assert_uint_eq(algo_collnet.chunk(&w, &at, 1, cases[i].bytes, 512 << 10),
				  cases[i].chunk);
	}
	ck_assert_uint_eq(algo_collnet.chunk(&w, &(struct algo_place){2, 1}, 1, 1 << 30, 4096),
			  4096);
}
END_TEST

START_TEST(programs_of_a_call_limit_its_choice)
{
	struct plan_task task = {
		.func = DEV_ALL_REDUCE, .send_bytes = 64, .recv_bytes = 64, .in_windows = true};
	struct plan_limits lim = limits;

	lim.allowed = programs_of("Simple") | programs_of("LL");
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		bool may = steps_program(p).func == DEV_ALL_REDUCE && lim.allowed >> p & 1 &&
			   lim.model.program[p].bw_mbps;

		task.options.programs = 1ull << p;
		ck_assert_int_eq(plan_choose(&task, &lim).program, may ? p : DEV_PROGRAM_COUNT);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("plan");
	TCase *t = tcase_create("work");

	limits = limits_of(4, 8, 512 << 10);
	tcase_add_test(t, shares_cover_every_element_once);
	tcase_add_test(t, steps_of_a_huge_share_are_counted_in_64_bits);
	tcase_add_test(t, a_block_has_no_more_warps_than_the_kernel_is_built_for);
	tcase_add_test(t, steps_are_whole_chunks_and_at_least_one_loop);
	tcase_add_test(t, average_multiplies_floats_first_and_divides_integers_last);
	tcase_add_test(t, a_data_mover_moves_bytes);
	tcase_add_test(t, channels_go_by_the_bytes_of_all_blocks);
	tcase_add_test(t, blocks_beyond_32_bits_are_shared_out);
	tcase_add_test(t, chunks_of_pat_are_small_where_blocks_do_not_share_slots);
	tcase_add_test(t, every_collective_has_a_program);
	tcase_add_test(t, the_program_that_is_allowed_is_chosen);
	tcase_add_test(t, programs_on_windows_need_windows);
	tcase_add_test(t, an_all_to_all_in_place_has_only_lines);
	tcase_add_test(t, bounds_of_a_call_limit_its_channels);
	tcase_add_test(t, a_network_that_reduces_is_chosen_for_what_it_reduces);
	tcase_add_test(t, chunks_of_a_chain_are_halved_for_short_calls);
	tcase_add_test(t, programs_of_a_call_limit_its_choice);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
