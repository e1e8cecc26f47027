/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of exhaustion share: exhaust.c (the series and their runs), exhaust_judge.c (what is
 * wrong with a run).
 */
#ifndef SIM_LAB_EXHAUST_INTERNAL_H
#define SIM_LAB_EXHAUST_INTERNAL_H

#include <string.h>

#include "sim/lab/exhaust.h"
#include "sim/lab/life.h"
#include "sim/lab/runner.h"

/* One fault, one way of running. */
struct exhaust_series {
	enum exhaust_class class;
	const char *site, *action; /* abort: "watch" or "main" */
	int32_t rank;
	bool for_ever, fifo;
};

static inline bool exhaust_is_sticky(const struct exhaust_series *s)
{
	return !strcmp(s->action, "sticky");
}

/* What is wrong with a run that passed; NULL: nothing. `fired`: the fault did. */
const char *exhaust_judge(const struct exhaust_series *s, const struct lab_life *life, bool fired);
/* The same of a run that did not pass. */
const char *exhaust_verdict(const struct lab_result *result);
void exhaust_print_ranks(FILE *out, const struct lab_life *life);
/* The command that repeats the k-th run of a series. */
void exhaust_command(const struct exhaust_config *c, const struct exhaust_series *s, uint64_t k,
		     char *out, size_t bytes);

#endif
