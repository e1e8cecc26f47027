/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fault plans: which calls to the outside fail, and when. The engine reads a plan from the text in
 * sim_config.fault_plan. `doppel faults` prints the grammar and the sites, docs/faults.md explains
 * both.
 *
 * One fault per line, `#` starts a comment:
 *
 * 	LAYER.OPERATION [KEY=VALUE...] [forever] ACTION [PARAMETER=VALUE...]
 * 	LAYER.any       [KEY=VALUE...] [forever] fail
 * 	heal after=TIME
 *
 * 	fabric.link host=1 after=200us down for=50us
 * 	verbs.cqe rank=3 peer=4 nth=17 error status=RETRY_EXC_ERR
 * 	cuda.any nth=17 fail
 *
 * The room that visits the sites of a layer has their table (site_table.h). An action that `lasts`
 * continues after it fired. It then fires at each visit that the line's keys match, until `for=`
 * has passed or the faults heal. LAYER.any stands for each site of the layer that has an action
 * `fail`, counted in one sequence.
 *
 * Errors name the plan, line and column, and the nearest known names.
 */
#ifndef SIM_ENGINE_FAULTS_FAULT_H
#define SIM_ENGINE_FAULTS_FAULT_H

#include "core/os/os.h"
#include "sim/engine/faults/faults.h"
#include "sim/engine/faults/site_table.h"

enum { FAULT_SITES_MAX = 254 };

struct fault_range {
	uint64_t least, most;
};

struct fault_layer {
	const char *name, *what;
	const struct fault_site *site; /* ends with a NULL name */
	/* bit per enum fault_key before FAULT_PLACE: the keys that visits of its sites may know */
	uint32_t places;
};

/* Keys that match a place, up to FAULT_PLACE; then those that match a time or a count. */
enum fault_key {
	FAULT_HOST,
	FAULT_RANK,
	FAULT_PEER,
	FAULT_CHANNEL,
	FAULT_PORT,
	FAULT_NIC,
	FAULT_PEER_HOST,
	FAULT_PEER_PORT,
	FAULT_PEER_NIC,
	FAULT_NUMBER_KEY,
	FAULT_STEP,
	FAULT_STATE_KEY,
	FAULT_PLACE,
	FAULT_AT = FAULT_PLACE,
	FAULT_AFTER,
	FAULT_UNTIL,
	FAULT_CALLER,
	FAULT_NTH,
	FAULT_COUNT,
	FAULT_PROB,
	FAULT_KEYS,
};

/* The origin of a time in the plan. */
struct fault_origin {
	bool is_operation; /* false: the start of the run */
	uint64_t number;   /* number of the operation */
	/* begin of the operation, since the start of the run; ENGINE_NEVER: it has not begun */
	uint64_t start_ns;
};

struct fault {
	const struct fault_layer *layer;
	const struct fault_site *site;     /* NULL: any site of the layer that can fail */
	const struct fault_action *action; /* NULL if site is NULL */
	uint64_t arg, more, for_ns;
	bool arg_given; /* LAYER.any: false means each site's default */
	uint32_t given; /* bit per enum fault_key */
	int64_t key[FAULT_KEYS];
	struct fault_origin after, until; /* origins of these keys' times */
	uint32_t prob_num, prob_den;
	uint64_t matches, fired;
	bool open; /* the action lasts, and has begun */
	uint64_t close_ns;
	uint32_t line;
	struct choice_site *choice; /* the choice of prob */
	/* caller=: hashes of the callers that visited so far, in the order of their first visits */
	uint64_t *caller;
	uint32_t callers, caller_room;
	char text[160]; /* the line, for reports */
};

struct fault_plan {
	struct fault *fault;
	uint32_t n;
	uint64_t heal_ns; /* after the start of the run; 0: never */
};

#pragma GCC visibility push(hidden)
extern struct fault_layer fault_layers[]; /* ends with a NULL name */

struct fault_key_info {
	const char *name;
	const char *what; /* for people */
};
extern const struct fault_key_info fault_keys[FAULT_KEYS];

/* fault_layers.c */
/* NULL: the site has no action `fail` */
const struct fault_action *fault_action_fail(const struct fault_site *site);

/* True if a visit of a site of the line may know this key. */
bool fault_key_fits(const struct fault *f, int key);
/* Returns the number that stands for a name among the keys. */
int64_t fault_name_key(const char *name, size_t bytes);

/* fault_names.c: values that have names; the table ends with a NULL name. NULL: the type has no
 * names. */
struct fault_name {
	const char *name;
	uint64_t value;
};
const struct fault_name *fault_names(enum fault_value type);
struct fault_range fault_number_range(enum fault_value type); /* most 0: any number */
const char *fault_value_hint(enum fault_value type);          /* "TIME", "NAME", "N" */

/* fault_plan.c: appends to a plan. EINVAL, explained on stderr; ENOMEM. */
int fault_plan_parse(const char *text, const char *name, struct fault_plan *plan);
void fault_plan_free(struct fault_plan *plan);

/* fault_recipes.c: the material of drawn plans. A text is one or more lines with \n between. Each
 * %u is drawn from its range. Wide ranges are drawn evenly over the powers of two: as many values
 * near 10 as near 1000. */
enum {
	FAULT_RANGES_MAX = 8,
	/* values for `least` that stand for a part of the world */
	FAULT_DRAW_RANK = INT32_MAX - 3,
	FAULT_DRAW_HOST,
	FAULT_DRAW_SAME_HOST,  /* the host drawn before */
	FAULT_DRAW_OTHER_HOST, /* another host than the one drawn before, if there are two */
};
struct fault_recipe {
	uint32_t weight;
	const char *text;
	struct {
		uint32_t least, most;
	} range[FAULT_RANGES_MAX];
};
/* Faults that the stack repairs; that end a connection, a rank or a call; that do so while ranks
 * connect or first work; that every call survives. Each table ends with a NULL text. */
extern const struct fault_recipe fault_recipes_mild[], fault_recipes_hard[], fault_recipes_early[],
	fault_recipes_survivable[];

/* fault.c */
int fault_start(void);
void fault_stop(void);
void fault_run(void); /* begins the run */
bool fault_check(const char *site, const void *object, const struct sim_fault_place *at,
		 struct os_fault *f);
int fault_thread(void); /* returns the errno with which a plan refuses a thread, or 0 */

/* fault_caller.c: records the caller of this visit. True if the line's caller= is its number. */
bool fault_caller_is(struct fault *f);
/* The calling task visits a site. */
void fault_caller_pass(uint32_t site);

/* fault_failed.c: records the call that a fault makes fail; forgets all of them. */
void fault_failed_note(const char *site, int64_t rank);
void fault_failed_start(void);

/* fault_random.c: draws a plan from the seed; the caller frees the text. NULL: out of memory. */
char *fault_random_text(void);
#pragma GCC visibility pop

#endif
