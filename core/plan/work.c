/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a task to a work: the channels, the elements of each channel, and the operation of the
 * kernel. Pure: the same task gives the same work on every rank. Only because of that do the
 * kernels and proxies of different ranks agree on their steps.
 */
#include <string.h>

#include "core/algo/algo.h"
#include "core/device/reduce/reduce_copy.h"
#include "core/plan/plan_internal.h"
#include "core/transport/collnet/collnet.h"
#include "core/tune/allowed.h"

/* Returns 1/n as bits of the type. */
static uint64_t plan_inverse(ncclDataType_t type, int32_t n)
{
	float inverse = (float)(1.0 / n);

	switch (type) {
	case ncclFloat16:
		return rc_f16_of_f32(inverse);
	case ncclBfloat16:
		return rc_bf16_of_f32(inverse);
	case ncclFloat8e4m3:
		return rc_f8e4m3_of_f32(inverse);
	case ncclFloat8e5m2:
		return rc_f8e5m2_of_f32(inverse);
	case ncclFloat32:
		return rc_bits_of_f32(inverse);
	case ncclFloat64:
		return rc_bits_of_f64(1.0 / n);
	default:
		ASSERT(!"a floating point type");
		return 0;
	}
}

static bool plan_type_is_float(ncclDataType_t type)
{
	return type == ncclFloat16 || type == ncclFloat32 || type == ncclFloat64 ||
	       type == ncclBfloat16 || type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
}

enum dev_op plan_device_op(ncclRedOp_t op, ncclDataType_t type, int32_t nranks, uint64_t *scale)
{
	*scale = 0;
	switch (op) {
	case ncclSum:
		return DEV_SUM;
	case ncclProd:
		return DEV_PROD;
	case ncclMax:
		return DEV_MAX;
	case ncclMin:
		return DEV_MIN;
	case ncclAvg:
		if (plan_type_is_float(type)) {
			*scale = plan_inverse(type, nranks);
			return DEV_PREMUL_SUM;
		}
		*scale = (uint64_t)nranks;
		return DEV_SUM_POSTDIV;
	default:
		ASSERT(!"an operation that the API lets through");
		return DEV_SUM;
	}
}

/* Shares whole grains. The last channel gets the rest, and channels that would get nothing are not
 * used. */
static void plan_work_share(struct dev_work *w, int32_t nchannels, uint32_t grain_bytes)
{
	uint64_t grain = grain_bytes / steps_type_bytes(w->type);
	uint64_t grains = DIV_UP(w->count, grain), each = DIV_UP(grains, (uint64_t)nchannels);
	uint64_t used = DIV_UP(grains, each);

	ASSERT(used >= 1 && used <= (uint64_t)nchannels);
	w->channel_lo = 0;
	w->channel_hi = (uint8_t)(used - 1);
	if (used == 1) {
		w->count_lo = w->count;
		return;
	}
	w->count_lo = w->count_mid = each * grain;
	w->count_hi = w->count - (used - 1) * each * grain;
	ASSERT(w->count_hi > 0 && w->count_hi <= w->count_lo);
}

uint64_t plan_bytes(const struct plan_task *task)
{
	return MAX_OF(task->send_bytes, task->recv_bytes);
}

/* ---- the choice of a program ---------------------------------------------------------------- */

ncclRedOp_t plan_network_op(int op)
{
	switch (op) {
	case DEV_PROD:
		return ncclProd;
	case DEV_MAX:
		return ncclMax;
	case DEV_MIN:
		return ncclMin;
	default:
		return ncclSum;
	}
}

/* Returns true if the network reduces the task's type with its operation. A factor is applied
 * before the network, and a division after it. */
static bool plan_network_reduces(const struct plan_task *task, const struct plan_limits *lim)
{
	uint64_t scale;
	enum dev_op op = task->factor.used
				 ? DEV_PREMUL_SUM
				 : plan_device_op(task->op, task->type, lim->nranks, &scale);

	return lim->reductions & collnet_reduction(task->type, plan_network_op((int)op));
}

uint64_t plan_programs(const struct plan_task *task, const struct plan_limits *lim)
{
	uint64_t programs = lim->allowed & (~DEV_SYMMETRIC_BITS | plan_symmetric_programs(task));

	if (task->options.programs)
		programs &= task->options.programs;
	if (lim->in_network && task->reduces && !plan_network_reduces(task, lim))
		programs &= ~lim->in_network;
	return programs;
}

/* Every program runs every type and operation, except those of networks that reduce. A tuner plugin
 * knows the collectives that have connections. */
struct plan_choice plan_choose(const struct plan_task *task, const struct plan_limits *lim)
{
	struct plan_choice c = {.nchannels = 0};
	uint64_t bytes = plan_bytes(task), programs = plan_programs(task, lim);

	if (lim->tuner && task->func < DEV_EDGE_FUNCS)
		c.program = tuner_choose(lim->tuner, &lim->model, task->func, programs, bytes,
					 &c.nchannels);
	else
		c.program = tune_choose(&lim->model, task->func, programs, bytes);
	return c;
}

/* Sets the operation of a reduction, and its factor. */
static void plan_work_op(const struct plan_task *task, const struct plan_limits *lim,
			 struct dev_work *w)
{
	if (!task->factor.used) {
		w->op = (uint8_t)plan_device_op(task->op, task->type, lim->nranks, &w->scale);
		return;
	}
	w->op = DEV_PREMUL_SUM;
	w->scale = task->factor.bits;
	w->scale_in_memory = task->factor.in_memory;
}

/* Sets type and count of the elements. For the kernel of a data mover they are bytes. */
static void plan_work_elements(const struct plan_task *task, const struct plan_limits *lim,
			       struct dev_work *w)
{
	w->type = task->reduces ? (uint8_t)task->type : DEV_I8;
	w->op = DEV_SUM;
	w->count = task->reduces ? task->count : task->count * steps_type_bytes((int)task->type);
	if (task->reduces)
		plan_work_op(task, lim, w);
}

static void plan_work_program(const struct plan_limits *lim, enum dev_program program,
			      struct dev_work *w)
{
	struct dev_program_row row = steps_program(program);
	uint32_t chunk_bytes = steps_chunk_bytes(&row, lim->step_bytes[row.proto]);

	ASSERT(program < DEV_PROGRAM_COUNT); /* plan_check has found one */
	w->program = (uint8_t)program;
	w->chunk_lo = w->chunk_mid = w->chunk_hi = chunk_bytes / steps_type_bytes(w->type);
}

/* Returns the number that the plugin wants, if the program has connections on so many channels. */
static int32_t plan_channels(const struct algo_cost *cost, int32_t nchannels)
{
	return cost->channels ? MIN_OF(nchannels, cost->channels) : nchannels;
}

/* Applies the bounds of the call. */
static int32_t plan_channels_bounded(const struct plan_options *o, int32_t nchannels, int32_t most)
{
	if (o->max_channels)
		nchannels = MIN_OF(nchannels, o->max_channels);
	return MIN_OF(MAX_OF(nchannels, o->min_channels), most);
}

/* Sets the chunk of the algorithm or of the tuner plugin, which may be less than a slot. */
static void plan_work_chunk(const struct plan_task *task, const struct plan_limits *lim,
			    int32_t nchannels, struct dev_work *w)
{
	const struct algo *a = algo_of_program(w->program);
	uint32_t size = steps_type_bytes(w->type);

	const uint64_t most = (uint64_t)w->chunk_lo * size;
	uint64_t chunk = most;

	if (a->chunk)
		chunk = a->chunk(w, &(struct algo_place){lim->nranks, lim->nhosts}, nchannels,
				 plan_bytes(task), most);
	if (lim->tuner)
		chunk = tuner_chunk(lim->tuner, (enum dev_program)w->program, plan_bytes(task),
				    nchannels, chunk, most);
	w->chunk_lo = w->chunk_mid = w->chunk_hi = (uint32_t)(chunk / size);
}

void plan_work_fill(const struct plan_task *task, const struct plan_limits *lim,
		    struct dev_work *work, struct tune_shape *shape)
{
	struct plan_choice choice = {.nchannels = 0};

	ASSERT(task->count > 0);
	memset(work, 0, sizeof *work);
	work->send = task->send;
	work->recv = task->recv;
	work->root = task->root;
	plan_work_elements(task, lim, work);
	if (lim->nranks > 1) {
		choice = plan_choose(task, lim);
		plan_work_program(lim, choice.program, work);
	}
	*shape =
		tune_shape_of(&lim->model.program[work->program], lim->nchannels, plan_bytes(task));
	if (choice.nchannels)
		shape->nchannels =
			plan_channels(&lim->model.program[work->program], choice.nchannels);
	shape->nchannels = plan_channels_bounded(
		&task->options, shape->nchannels,
		plan_channels(&lim->model.program[work->program], lim->nchannels));
	plan_work_share(work, shape->nchannels,
			steps_grain_bytes(steps_program(work->program).proto));
	if (lim->nranks > 1)
		plan_work_chunk(task, lim, shape->nchannels, work);
}
