/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A profiler plugin that checks each call of the stack, in the program doppel (--plugins profiler)
 * and in libraries of one version each (PROF_VERSION, for profiler_test.sh). An event is stopped
 * once, has states only before that and in order, its parent is an event of a kind that the
 * interface allows, events below an operation of the proxy or a step end before it, and all events
 * of a communicator have ended when it is finalized. The first call that is wrong is reported
 * (plug_wrong). Sizes are bytes, times ns of the GPU's timer.
 *
 * Its settings (plugin_host.h):
 *
 *	PROF_FAULT   init (fails), start (each start fails), some (a start in eight fails), garbage
 *	             (the same handle for all events), none (no handles), context (NULL), slow (a
 *	             start takes 1.2 s), once (only the first init sets the mask)
 *	PROF_MASK    the kinds; default: all
 *	PROF_LATER   kinds that replace the mask after PROF_AFTER starts
 *	PROF_TAG     from version 5 on, the tag that each collective must have
 */
#ifndef SIM_LAB_PROFILER_PLUGIN_H
#define SIM_LAB_PROFILER_PLUGIN_H

#include <stddef.h>

#define PROF_KINDS 16

/* Numbers since prof_reset. */
struct prof_counts {
	int started[PROF_KINDS], stopped[PROF_KINDS];
	size_t sent, received; /* by steps */
	int bad;               /* wrong calls */
	int cut;               /* steps that did not reach their last state */
	int inits, finals;
};

extern struct prof_counts prof_counts;
extern const char *const prof_kinds[PROF_KINDS];

/* Frees all events and contexts, which no call uses afterwards, and resets the numbers. */
void prof_reset(void);

#endif
