/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels of programs on windows (prims_sym.h): one work, in the arguments. They load neither
 * communicator nor channel nor connections. Included by kernels.c.
 */
#ifndef CORE_DEVICE_RUN_SYMMETRIC_H
#define CORE_DEVICE_RUN_SYMMETRIC_H

#include "core/device/kernels/run_work.h"
#include "core/device/kernels/works.h"
#include "core/device/programs/symmetric.h"

DEV_FN void dev_sym_check(struct dev *d, const struct dev_sym_args *a)
{
	if (a->magic != DEV_COMM_MAGIC || a->warp_width != DEV_WARP_WIDTH)
		dev_trap(d, "core/device: host and kernel were not built from one work.h");
	if (a->nranks < 2 || a->nranks > DEV_SYM_RANKS || a->work.channel_lo ||
	    a->work.channel_hi >= DEV_SYM_BLOCKS || dev_blocks(d) != a->work.channel_hi + 1u)
		dev_trap(d, "core/device: this work is not one for windows");
}

DEV_FN void dev_sym_profile(struct dev *d, const struct dev_sym_args *a, bool ends)
{
	if (a->profile && dev_thread(d) == 0)
		dev_profile_store(d, a->profile, &a->work, (int)dev_block(d), ends);
}

/* Returns false if an earlier launch of the block was aborted. */
DEV_FN bool dev_sym_begin(struct sym *s, struct dev *d, const struct dev_sym_args *a,
			  struct dev_known known)
{
	const struct dev_work *w = &a->work;

	dev_sym_check(d, a);
	dev_set_abort(d, a->abort);
	s->d = d;
	s->args = a;
	s->mine = &a->of[a->rank].mem->block[dev_block(d)];
	s->thread = dev_thread(d);
	s->threads = dev_threads(d);
	s->rank = a->rank;
	s->nranks = a->nranks;
	s->step = dev_load_u64(d, &s->mine->step, SHARED_RELAXED, SHARED_GPU);
	s->barriers = known.proto == DEV_LL
			      ? 0
			      : dev_load_u64(d, &s->mine->barriers, SHARED_RELAXED, SHARED_GPU);
	s->type = (enum dev_type)(known.type < 0 ? w->type : known.type);
	s->op = (enum dev_op)(known.op < 0 ? w->op : known.op);
	s->type_bytes = steps_type_bytes(s->type);
	s->known = known.op >= 0;
	s->scale = dev_work_scale(d, w);
	s->stopped = false;
	if (s->step == DEV_SYM_ABORTED)
		return false;
	dev_work_begins(d, w);
	dev_sym_profile(d, a, false);
	return true;
}

/* Keeps step and barriers for the next launch. A barrier of the block precedes: all threads have
 * loaded them. */
DEV_FN void dev_sym_end(struct sym *s, struct dev_known known)
{
	struct dev *d = s->d;

	if (s->thread == 0 && s->stopped)
		s->step = DEV_SYM_ABORTED;
	if (s->thread == 0 && (s->stopped || known.proto == DEV_LL))
		dev_store_u64(d, &s->mine->step, s->step, SHARED_RELAXED, SHARED_GPU);
	else if (s->thread == 0)
		dev_store_u64(d, &s->mine->barriers, s->barriers, SHARED_RELAXED, SHARED_GPU);
	dev_sym_profile(d, s->args, true);
	dev_work_ends(d, &s->args->work);
}

/* A kernel that executes `run` for its one work. */
#define DEV_SYM_RUN(name, of_proto, of_type, of_op, run)                                           \
	DEV_FN void name(struct dev *d, const struct dev_sym_args *args)                           \
	{                                                                                          \
		const struct dev_known known = {true, of_proto, DEV_FAMILY_FLAT, of_type, of_op};  \
		struct steps_part part = steps_part_of(&args->work, (int)dev_block(d));            \
		struct sym s;                                                                      \
                                                                                                   \
		if (!dev_sym_begin(&s, d, args, known))                                            \
			return;                                                                    \
		run;                                                                               \
		dev_sym_end(&s, known);                                                            \
	}

/* Kernels of all programs on windows of a protocol. */
#define DEV_SYM_IF(id, function, func, algo, proto, pattern, chunk, slice)                         \
	if (args->work.program == DEV_##id)                                                        \
		function(&s, &part);                                                               \
	else
DEV_SYM_RUN(dev_symmetric_ll, DEV_LL, -1, -1,
	    DEV_PROGRAMS_SYMMETRIC_LL(DEV_SYM_IF)
		    dev_trap(d, "dev_symmetric_ll: a program of another kernel"))
DEV_SYM_RUN(dev_symmetric_simple, DEV_SIMPLE, -1, -1,
	    DEV_PROGRAMS_SYMMETRIC_SIMPLE(DEV_SYM_IF)
		    dev_trap(d, "dev_symmetric_simple: a program of another kernel"))

/* Kernels of one program, and of one type and operation if it reduces. */
#define DEV_SYM_ONE(name, id, function, type, op)                                                  \
	DEV_SYM_RUN(dev_##name, steps_program(DEV_##id).proto, type, op, function(&s, &part))
DEV_SYMMETRIC_ONE(DEV_SYM_ONE)

#endif
