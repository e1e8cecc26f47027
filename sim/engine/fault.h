/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fault plans: which calls of the outside fail, and when. Read by the engine from the text in
 * sim_config.fault_plan; `doppel faults` prints this grammar and the sites (sim_fault_print_sites).
 *
 * One fault a line, `#` starts a comment:
 *
 *	LAYER.OPERATION [KEY=VALUE...] ACTION [PARAMETER=VALUE...]
 *
 *	fabric.link host=1 after=200us down for=50us
 *	verbs.cqe rank=3 peer=4 nth=17 error status=RETRY_EXC_ERR
 *	fabric.packet prob=1/64 drop
 *	os.task rank=2 after=1ms kill
 *
 * Keys say where, each at most once; all given ones must match:
 *	host, rank, peer, channel   of the object's label; without a label, of the calling task
 *	port                        index of a NIC port of the world
 *	number                      the label's number (of a QP, a connection)
 * and when, among the matches so far:
 *	step=N       not before that step of the run (sim_steps())
 *	after=TIME   not before that virtual time: an integer with ns, us, ms or s
 *	nth=N        from the N-th match on, counted from 1; default 1
 *	count=N      that many times; default 1, with prob= any number of times
 *	prob=N/M     each with that probability, drawn as a recorded choice
 *
 * Parameters: errno= and status= take a name or a number; by= and for= take a TIME.
 * Errors name the plan, line and column, and the nearest known name.
 */
#ifndef SIM_ENGINE_FAULT_H
#define SIM_ENGINE_FAULT_H

#include "core/os/os.h"

enum { FAULT_ACTIONS_MAX = 4 };

/* What a site can do; the first one named is its usual. */
struct fault_action {
	const char *name;
	enum os_fault_kind kind;
	const char *param; /* "errno", "status", "by", "for", or NULL */
	uint64_t usual;    /* the parameter's value when it is not given */
};

struct fault_site {
	const char *name;
	const char *what; /* for people */
	struct fault_action action[FAULT_ACTIONS_MAX];
};

enum fault_key {
	FAULT_HOST,
	FAULT_RANK,
	FAULT_PEER,
	FAULT_CHANNEL,
	FAULT_PORT,
	FAULT_NUMBER,
	FAULT_STEP,
	FAULT_NTH,
	FAULT_COUNT,
	FAULT_AFTER,
	FAULT_PROB,
	FAULT_KEYS,
};

struct fault {
	const struct fault_site *site;
	const struct fault_action *action;
	uint64_t arg;
	uint32_t given; /* bit per enum fault_key */
	int64_t key[FAULT_KEYS];
	uint32_t prob_num, prob_den;
	uint64_t matches, fired;
	uint32_t line;
	struct choice_site *choice; /* of prob */
	char text[128];             /* the line, for reports */
};

#pragma GCC visibility push(hidden)
extern const struct fault_site fault_sites[];
extern const char *const fault_key_name[FAULT_KEYS];
const struct fault_site *fault_site_find(const char *name, size_t n);
/* Appends to an array that it reallocates. EINVAL, explained on stderr. */
int fault_plan_parse(const char *text, const char *plan, struct fault **fault, uint32_t *n);
#pragma GCC visibility pop

#endif
