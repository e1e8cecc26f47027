/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table of variables: for param.c, which has that of the stack, and for the one file of the
 * doubles that has theirs (sim/world/params.c).
 */
#ifndef CORE_BASE_PARAM_ROW_H
#define CORE_BASE_PARAM_ROW_H

#include "core/base/param.h"

enum param_type { PARAM_INT, PARAM_BOOL, PARAM_BYTES, PARAM_STRING };

struct param_row {
	const char *name;
	enum param_type type;
	const char *initial;
	int64_t min, max;
	const char *meaning;
};

/* A row of a table as the element of an array that has them all, in order. */
#define PARAM_ROW(id, name, type, initial, min, max, meaning)                                      \
	{name, PARAM_##type, initial, min, max, meaning},

enum param_form_flag {
	FORM_LIST = 1,      /* words with commas between */
	FORM_ALL_BUT = 2,   /* ^ may be in front of the list */
	FORM_ANY_CASE = 4,  /* capitals do not matter */
	FORM_OF_DEVICE = 8, /* NAME= may be in front of a word */
};

/* What the text of a variable may look like; zero: any text. Numbers have their bounds in the
 * row. */
struct param_form {
	const char *words; /* with | between; NULL: `fits` decides */
	unsigned flags;
	bool (*fits)(const char *text);
	const char *expected; /* NULL: the words */
};

/* A variable of the stack whose default is another one on the doubles. These are all the differences
 * between what the stack chooses on the doubles and on GPUs. */
struct param_default {
	int param;
	const char *initial;
	const char *why;
};

struct param_rows {
	const struct param_row *row;   /* [count] */
	const struct param_form *form; /* [count] */
	int count;
	const struct param_default *instead; /* [instead_count] */
	int instead_count;
};

#define PARAM_DOUBLES_MAX 32 /* rows of param_doubles */
/* The doubles' table. Weak: hardware builds have none, and its address is NULL there. */
extern const struct param_rows param_doubles __attribute__((weak));

/* param_form.c: the stack's forms, [PARAM_COUNT]; what a form allows; */
extern const struct param_form param_forms[];
bool param_form_fits(const struct param_form *f, const char *text);
/* and that in words; false: any text is. */
bool param_form_expected(const struct param_form *f, char *out, size_t bytes);

#endif
