/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/cli/rules.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/base/macros.h"

DOPPEL_STATIC_CHECK(CLI_KEYS % 64 == 0, "cli_given.bit has a bit for each key");

void cli_give(struct cli_given *given, int key)
{
	if (key > 0 && key < CLI_KEYS)
		given->bit[key / 64] |= 1ull << key % 64;
}

void cli_take(struct argp_state *state, const struct argp_option *own, struct cli_given *given,
	      int key, const char *arg)
{
	if (given)
		cli_give(given, key);
	for (const struct argp_option *o = own; o->name || o->key || o->doc; o++)
		if (key && o->key == key && o->name && o->arg && arg && !*arg)
			argp_error(state, "--%s '': expected %s", o->name, o->arg);
}

bool cli_is_given(const struct cli_given *given, int key)
{
	return key > 0 && key < CLI_KEYS && given->bit[key / 64] >> key % 64 & 1;
}

/* Returns "--seeds"; "-b" for an option with a letter; `doc` for a key that is not an option. */
static const char *rules_name(int key, const struct argp_option *const *names, char out[64])
{
	for (; *names; names++)
		for (const struct argp_option *o = *names; o->name || o->key || o->doc; o++)
			if (o->key == key) {
				if (!o->name)
					snprintf(out, 64, "%s", o->doc);
				else if (key < 128 && isalnum(key))
					snprintf(out, 64, "-%c", key);
				else
					snprintf(out, 64, "--%s", o->name);
				return out;
			}
	ASSERT(!"a rule about an option that has no name");
	return "";
}

/* Writes "--rank or --processes". */
static void rules_others(const struct cli_rule *rule, const struct argp_option *const *names,
			 char *out, size_t bytes)
{
	char name[64];
	size_t n = 0;

	for (int i = 0; i < CLI_RULE_OTHERS && rule->other[i] && n < bytes; i++)
		n += (size_t)snprintf(out + n, bytes - n, "%s%s", i ? " or " : "",
				      rules_name(rule->other[i], names, name));
}

static bool rules_hold_one(const char *command, const struct cli_rule *rule,
			   const struct cli_given *given, const struct argp_option *const *names)
{
	char name[64], other[64], others[256];
	int also = 0;

	if (!cli_is_given(given, rule->key))
		return true;
	for (int i = 0; i < CLI_RULE_OTHERS && !also; i++)
		also = cli_is_given(given, rule->other[i]) ? rule->other[i] : 0;
	/* a refusal has its reason, the others an option */
	ASSERT(rule->kind == CLI_REFUSES ? rule->why != NULL : rule->other[0] != 0);
	rules_name(rule->key, names, name);
	if (rule->kind == CLI_REFUSES) {
		fprintf(stderr, "doppel %s: %s: %s\n", command, name, rule->why);
		return false;
	}
	if (rule->kind == CLI_EXCLUDES && also) {
		fprintf(stderr, "doppel %s: %s excludes %s; expected one of the two\n", command,
			name, rules_name(also, names, other));
		return false;
	}
	if (rule->kind == CLI_NEEDS && !also) {
		rules_others(rule, names, others, sizeof others);
		fprintf(stderr, "doppel %s: %s has no effect alone; expected %s, too\n", command,
			name, others);
		return false;
	}
	return true;
}

bool cli_rules_hold(const char *command, const struct cli_rule *rules, size_t n,
		    const struct cli_given *given, const struct argp_option *const *names)
{
	for (size_t i = 0; i < n; i++)
		if (!rules_hold_one(command, &rules[i], given, names))
			return false;
	return true;
}
