/* SPDX-License-Identifier: BSD-3-Clause */
/* The sanitizer's rules: their levels, and the report of a broken rule. */
#include "backends/fakeverbs/arena/report.h"

#include "backends/fakeverbs/arena/arena.h"
#include "core/base/param.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CHECK_PREFIX   "verbs-"
#define CHECK_VARIABLE "DOPPEL_VERBS_CHECK"
#define CHECK_SEEN     256u

uint8_t hca_rule_level[HCA_RULE_COUNT];

static const struct {
	const char *name;
	enum hca_level level;
} check_rule[] = {
#define CHECK_RULE(id, name, level) [HCA_RULE_##id] = {name, HCA_LEVEL_##level},
	HCA_RULES(CHECK_RULE)
#undef CHECK_RULE
};

/* Rules and call sites that were already reported. */
static struct {
	uint32_t lock, count;
	struct {
		uint64_t caller;
		uint32_t rule;
	} at[CHECK_SEEN];
} check_seen;

_Static_assert(HCA_LEVEL_OFF == 0, "no rule is on before a world has set the levels");
_Static_assert(HCA_LEVEL_WARN < HCA_LEVEL_FAIL, "the least of two levels is the milder one");

/* ---- levels --------------------------------------------------------------------------------- */

/* True if `word`, a list entry of `n` bytes, equals `name`. The prefix is optional in both. */
static bool check_is(const char *word, size_t n, const char *name)
{
	size_t prefix = strlen(CHECK_PREFIX);

	if (n > prefix && strncmp(word, CHECK_PREFIX, prefix) == 0)
		word += prefix, n -= prefix;
	if (strncmp(name, CHECK_PREFIX, prefix) == 0)
		name += prefix;
	return strlen(name) == n && strncmp(word, name, n) == 0;
}

/* Sets the level of the rule that `word` names, or of all rules. False: unknown name. */
static bool check_set(const char *word, size_t n, enum hca_level level)
{
	bool all = check_is(word, n, "all"), found = all;

	for (int i = 0; i < HCA_RULE_COUNT; i++) {
		if (!all && !check_is(word, n, check_rule[i].name))
			continue;
		hca_rule_level[i] = (uint8_t)level;
		found = true;
	}
	return found;
}

static bool check_word(const char *word, size_t n)
{
	const char *eq = memchr(word, '=', n);

	if (check_is(word, n, "none"))
		return check_set("all", 3, HCA_LEVEL_OFF);
	if (check_is(word, n, "warn"))
		return check_set("all", 3, HCA_LEVEL_WARN);
	if (*word == '-')
		return check_set(word + 1, n - 1, HCA_LEVEL_OFF);
	if (!eq)
		return check_set(word, n, HCA_LEVEL_FAIL);
	size_t value = n - (size_t)(eq - word) - 1;
	enum hca_level level = check_is(eq + 1, value, "off")    ? HCA_LEVEL_OFF
			       : check_is(eq + 1, value, "warn") ? HCA_LEVEL_WARN
								 : HCA_LEVEL_FAIL;

	return (level != HCA_LEVEL_FAIL || check_is(eq + 1, value, "fail")) &&
	       check_set(word, (size_t)(eq - word), level);
}

/* False if a word is neither a rule nor all, none or warn. */
static bool check_words(const char *at)
{
	while (at && *at) {
		size_t n = strcspn(at, ",");

		if (n && !check_word(at, n))
			return false;
		at += n + (at[n] == ',');
	}
	return true;
}

/* Makes the creation of a world fail if the variable has an unknown word. */
__attribute__((constructor)) static void check_register(void)
{
	world_env_on_check(PARAM_DOPPEL_VERBS_CHECK, check_words);
}

void hca_check_load(void)
{
	const char *words = hca_env(CHECK_VARIABLE);

	for (int i = 0; i < HCA_RULE_COUNT; i++)
		hca_rule_level[i] = (uint8_t)check_rule[i].level;
	check_seen.count = 0;
	(void)check_words(words);
	/* HCAs of several processes have no run that could fail: they log and continue */
	for (int i = 0; hca_members && i < HCA_RULE_COUNT; i++)
		hca_rule_level[i] = MIN_OF(hca_rule_level[i], (uint8_t)HCA_LEVEL_WARN);
}

/* ---- reporting ------------------------------------------------------------------------------ */

static bool check_first(enum hca_rule rule, uint64_t caller)
{
	bool first = true;

	hca_lock(&check_seen.lock);
	for (uint32_t i = 0; first && i < check_seen.count; i++)
		first = check_seen.at[i].rule != (uint32_t)rule ||
			check_seen.at[i].caller != caller;
	if (first && check_seen.count < CHECK_SEEN) {
		check_seen.at[check_seen.count].rule = (uint32_t)rule;
		check_seen.at[check_seen.count++].caller = caller;
	}
	hca_unlock(&check_seen.lock);
	return first;
}

static void check_report(enum hca_rule rule, const char *fmt, va_list ap)
{
	char text[420];

	vsnprintf(text, sizeof text, fmt, ap);
	if (!hca_rule_on(rule))
		hca_log("%s", text);
	else
		(hca_rule_level[rule] == HCA_LEVEL_FAIL ? hca_misuse : hca_log)(
			"%s: %s", check_rule[rule].name, text);
}

void hca_check(enum hca_rule rule, uint64_t caller, const char *fmt, ...)
{
	va_list ap;

	if (!hca_rule_on(rule) || !check_first(rule, caller))
		return;
	va_start(ap, fmt);
	check_report(rule, fmt, ap);
	va_end(ap);
}

void hca_check_or_log(enum hca_rule rule, uint64_t caller, const char *fmt, ...)
{
	va_list ap;

	if (!check_first(rule, caller))
		return;
	va_start(ap, fmt);
	check_report(rule, fmt, ap);
	va_end(ap);
}

const char *hca_site(uint32_t proc, uint64_t caller, struct hca_site *to)
{
	if (hca_is_here(proc))
		sim_call_site((const void *)(uintptr_t)caller, to->text, sizeof to->text);
	else
		snprintf(to->text, sizeof to->text, "another process");
	return to->text;
}

void hca_log(const char *fmt, ...)
{
	char line[512];
	int n = snprintf(line, sizeof line, "fakeverbs: ");
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
	va_end(ap);
	os_log_line(line);
}

void hca_misuse(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	sim_misuse_of("fakeverbs: ", false, fmt, ap);
	va_end(ap);
}

bool hca_run_ended(void)
{
	return sim_failure() && !sim_running();
}
