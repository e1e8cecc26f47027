/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options that exclude or need each other: one table per command. A parser records the key of each
 * option that it parses. cli_rules_hold then compares all keys with the table. A key may also stand
 * for a value (--engine threads) or for an argument: such a key has its own name.
 */
#ifndef SIM_CLI_RULES_H
#define SIM_CLI_RULES_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLI_KEYS = 1024, CLI_RULE_OTHERS = 6 };

struct cli_given {
	uint64_t bit[CLI_KEYS / 64]; /* bit per argp key */
};

enum cli_rule_kind {
	CLI_EXCLUDES, /* none of `other` may be given together with `key` */
	CLI_NEEDS,    /* one of `other` must be given together with `key` */
	CLI_REFUSES,  /* the command refuses `key`; `why` is the reason */
};

struct cli_rule {
	enum cli_rule_kind kind;
	int key;
	int other[CLI_RULE_OTHERS]; /* 0 ends the list */
	const char *why;            /* CLI_REFUSES: end of the message */
};

/* Records a key. Ignores keys that are not options: argp's own, and those from CLI_KEYS on. */
void cli_give(struct cli_given *given, int key);
/* Starts a parser: records the key and refuses an empty value of an option in `own`. `given` may be
 * NULL. */
void cli_take(struct argp_state *state, const struct argp_option *own, struct cli_given *given,
	      int key, const char *arg);
bool cli_is_given(const struct cli_given *given, int key);

/* Checks the rules. False: it has explained which one fails, with the names of the command and the
 * options. `names` is a list of option tables that ends with NULL; each table ends with {0}. */
bool cli_rules_hold(const char *command, const struct cli_rule *rules, size_t n,
		    const struct cli_given *given, const struct argp_option *const *names);

#endif
