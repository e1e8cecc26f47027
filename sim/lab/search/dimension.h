/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dimensions of a scenario: one row each, in dimension_rows.c. A row has the key of the text
 * form, the option of the command line, the draw of the swarm, and the cut of shrinking. The writer
 * and the parser of scenario files (scenario_text.c), the command line (sim/cli/options_table.c),
 * the swarm (swarm_programs.c) and shrinking (shrink.c) iterate over the table; a new dimension is
 * a field and a row. A value that is not a number, a name or a text has functions of its own
 * (dimension_own.c, shrink_cuts.c), or a case in sim/cli.
 *
 * Errors in a text are explained on stderr, with the name of the text, line and column; parsers
 * return 0 or EINVAL.
 */
#ifndef SIM_LAB_DIMENSION_H
#define SIM_LAB_DIMENSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/engine/base/token.h"
#include "sim/lab/search/scenario.h"
#include "sim/lab/search/shrink.h"

/* The position of a parser, for messages. */
struct text_cursor {
	struct token_line line; /* the current one */
	const char *end;        /* of it */
};

#define text_error(c, at, ...) token_error(&(c)->line, at, __VA_ARGS__)
const char *text_nearest(struct token v, const char *const *names);
/* Returns the next word of a value, split at spaces or commas; false at the end. */
bool text_word(struct token *v, struct token *word);

enum dimension_kind {
	DIMENSION_NUMBER,
	DIMENSION_HEX,  /* a number */
	DIMENSION_FLAG, /* a number, 0 or 1; its option has no argument */
	DIMENSION_SIZE, /* a number; its option takes 64K, too */
	DIMENSION_NAME, /* a number, written as one of `names` */
	DIMENSION_TEXT,
	DIMENSION_OWN, /* write and parse are functions of the row */
};

/* Keys of 0x1XX are options of a run that have no letter. */
enum dimension_option {
	OPTION_MACHINE = 0x100,
	OPTION_HOSTS,
	OPTION_GPUS,
	OPTION_DEVICES,
	OPTION_RANKS_PER_PROC,
	OPTION_MAP,
	OPTION_DRIVE,
	OPTION_ENGINE,
	OPTION_SEED,
	OPTION_STRATEGY,
	OPTION_MEMORY_ORDER,
	OPTION_RACES,
	OPTION_FAULTS,
	OPTION_RECOVER,
	OPTION_QUIET,
	OPTION_HASTY,
	OPTION_BEFORE,
	OPTION_STREAMS,
	OPTION_GROUP,
	OPTION_COMMS,
	OPTION_CHILDREN,
	OPTION_PER_ITERATION,
	OPTION_TRANSIENT,
	OPTION_IDLE,
	OPTION_MIXED,
	OPTION_LATE,
	OPTION_FINALIZE,
	OPTION_NONBLOCKING,
	OPTION_POLLS,
	OPTION_REFUSED,
	OPTION_OPTIONS,
	OPTION_SUSPENDS,
	OPTION_ROOTS,
	OPTION_QUERIES,
	OPTION_RAS,
	OPTION_INIT_FAILS,
	OPTION_SCENES,
	OPTION_PLUGINS,
	OPTION_PLUGIN_FAILS,
	OPTION_UNCOMPARED,
	OPTION_CUDA_STATE,
	OPTION_PAUSES,
	OPTION_LEAVES,
	OPTION_RETRIES,
	OPTION_ENDS,
	OPTION_CONFIG_VERSION,
	OPTION_CONFIG_SOCKETS,
	OPTION_ENV_ODD,
	OPTION_ANY_NUMBERS,
	OPTION_SMS,
	OPTION_WARP,
	OPTION_ENV,
	OPTION_NO_STRICT,
	OPTION_PLACE,
	OPTION_BUDGET_EVENTS,
	OPTION_BUDGET_TIME,
	DIMENSION_OPTIONS, /* the command line's others follow */
};

/* Groups of the command line's help. */
enum dimension_group { DIMENSION_WORLD = 1, DIMENSION_COLLECTIVE, DIMENSION_ENGINE };

/* One seed in `one_of` draws a value from `least` to `most`; 0: none does. */
struct dimension_draw {
	uint32_t one_of, least, most;
};

enum dimension_cut {
	CUT_NOT,
	CUT_OFF,    /* to 0, or to an empty text */
	CUT_DOWN,   /* to 0, 1, 2, 3... */
	CUT_COUNT,  /* to 1, 2, 3, 4, 8, 16...; 0 is 1 */
	CUT_POWERS, /* to 0, 1, 2, 4, 8... */
	CUT_OWN,    /* make and print are functions of the row */
};

struct dimension;
typedef int dimension_parse_fn(const struct text_cursor *c, const struct dimension *d,
			       struct token v, struct scenario *s);
typedef void dimension_write_fn(const struct dimension *d, const struct scenario *s, FILE *out);
/* Makes *to from *s by the k-th way to cut, the smallest result first; false: there are no more
 * ways. */
typedef bool dimension_make_fn(const struct scenario *s, uint32_t k, struct scenario *to);
typedef void dimension_print_fn(const struct scenario *s, char out[SHRINK_VALUE_BYTES]);

struct dimension {
	const char *key; /* NULL: the dimension has only a cut */
	enum dimension_kind kind;
	size_t offset, bytes; /* of the field in struct scenario */
	uint64_t min, max;    /* of a number */
	const char *const *names;
	bool provenance; /* of no influence on the run */
	bool found;      /* written only with a failure that was found */
	dimension_write_fn *write;
	dimension_parse_fn *parse;
	/* The option; name NULL: none. `by_case`: sim/cli has a case for its value. */
	struct {
		int key;
		const char *name, *arg, *help;
		enum dimension_group group;
		uint64_t least; /* in place of min, when larger */
		bool by_case;
	} option;
	/* The cut. `stale`: recorded choices apply to a candidate, and its own seed is not tried.
	 * `again`: after a success the same cut is tried once more. */
	struct {
		const char *what;
		enum dimension_cut how;
		bool stale, again;
		dimension_make_fn *make;
		dimension_print_fn *print;
	} cut;
	/* The draws of seeds: any, those without faults, those with them. */
	struct dimension_draw any, calm, faulty;
};

enum { DIMENSIONS_MAX = 96 };
extern const struct dimension dimensions[];
extern const uint32_t dimensions_n;

/* The value of a number's field. */
uint64_t dimension_get(const struct dimension *d, const struct scenario *s);
void dimension_set(const struct dimension *d, struct scenario *s, uint64_t v);

/* A line of the text form. */
void dimension_write(const struct dimension *d, const struct scenario *s, FILE *out);
dimension_parse_fn dimension_parse, dimension_parse_number;
dimension_write_fn dimension_write_number;

bool dimension_cut(const struct dimension *d, const struct scenario *s, uint32_t k,
		   struct scenario *to);
void dimension_print(const struct dimension *d, const struct scenario *s,
		     char out[SHRINK_VALUE_BYTES]);

/* Draws every row that has a draw of this kind, each from a random stream of its own. */
enum dimension_seeds { DIMENSION_ANY, DIMENSION_CALM, DIMENSION_FAULTY };
void dimensions_draw(struct scenario *s, uint64_t seed, enum dimension_seeds seeds);

/* dimension_own.c */
dimension_write_fn own_write_ranks_per_proc, own_write_host_gpus, own_write_devices, own_write_env,
	own_write_collective, own_write_before, own_write_root, own_write_types, own_write_ops,
	own_write_place, own_write_plugins, own_write_plan, own_write_found_rank;
dimension_parse_fn own_parse_ranks_per_proc, own_parse_host_gpus, own_parse_devices, own_parse_env,
	own_parse_collective, own_parse_before, own_parse_root, own_parse_types, own_parse_ops,
	own_parse_place, own_parse_plugins, own_parse_plan;

#endif
