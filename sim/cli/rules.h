/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options that exclude or need each other, as one table for each command. A parser notes the key of
 * each option that it gets; when all are read, cli_rules_hold compares the keys with the table. A
 * key may also stand for a value (--engine threads) or for an argument: then it has a name of its own.
 */
#ifndef SIM_CLI_RULES_H
#define SIM_CLI_RULES_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLI_KEYS = 1024, CLI_RULE_OTHERS = 6 };

struct cli_given {
	uint64_t bit[CLI_KEYS / 64]; /* by argp key */
};

enum cli_rule_kind {
	CLI_EXCLUDES, /* none of `other` may be given, too */
	CLI_NEEDS,    /* one of `other` must be given, too */
	CLI_REFUSES,  /* the command does not take it: `why` */
};

struct cli_rule {
	enum cli_rule_kind kind;
	int key;
	int other[CLI_RULE_OTHERS]; /* 0: no more */
	const char *why;            /* CLI_REFUSES: the rest of the message */
};

/* Keys that are no option: argp's own, and those above CLI_KEYS, are left out. */
void cli_give(struct cli_given *given, int key);
/* For a parser's beginning: notes the key, and refuses an empty value of an option in `own`, which
 * no option has. `given` may be NULL. */
void cli_take(struct argp_state *state, const struct argp_option *own, struct cli_given *given,
	      int key, const char *arg);
bool cli_is_given(const struct cli_given *given, int key);

/* False: explained, with the command's name and the names of the options, from `names`: tables that
 * end with {0}, the list with NULL. */
bool cli_rules_hold(const char *command, const struct cli_rule *rules, size_t n,
		    const struct cli_given *given, const struct argp_option *const *names);

#endif
