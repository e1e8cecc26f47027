/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kernel of all programs of a protocol and a family: runs every work of the launch that has this
 * block's channel, one after the other. kernels.c includes it once for each kernel, so that a
 * compiler sees only the programs of that kernel:
 *
 *	RUN_KERNEL        the function
 *	RUN_PROTO         enum dev_proto
 *	RUN_FAMILY        enum dev_family
 *	RUN_PROGRAMS(X)   lists of programs.h
 */
DEV_FN void RUN_KERNEL(struct dev *d, const struct dev_args *args)
{
	const struct dev_known known = {false, RUN_PROTO, RUN_FAMILY, -1, -1};
	struct dev_run r = dev_run_begin(d, args, DEV_RING);
	const struct dev_work *w;

	while ((w = dev_run_next(&r))) {
		struct steps_part part_of_block, *part = &part_of_block;
		struct prim prim, *p = &prim;

		dev_profile_works(d, r.b, w, 1, r.channel, false);
		if (dev_work_open(p, part, d, r.b, w, r.channel, known))
			switch (w->program) {
				RUN_PROGRAMS(DEV_RUN_CASE)
			default:
				dev_trap(d, "dev_collective: a program of another kernel");
			}
		r.ok = dev_work_close(p, w, r.channel, known);
		dev_profile_works(d, r.b, w, 1, r.channel, true);
	}
	dev_run_end(&r);
}

#undef RUN_KERNEL
#undef RUN_PROTO
#undef RUN_FAMILY
#undef RUN_PROGRAMS
