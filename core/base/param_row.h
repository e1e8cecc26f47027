/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table of variables. param.c has the stack's table; one file of the doubles has theirs
 * (sim/world/params.c).
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

/* Expands a table row to an array element; the array has all rows, in order. */
#define PARAM_ROW(id, name, type, initial, min, max, meaning)                                      \
	{name, PARAM_##type, initial, min, max, meaning},

enum param_type param_type_of(int p);
const char *param_type_name(int p);
const char *param_meaning(int p);
const char *param_default_text(int p); /* NULL: unset */
/* Returns the place that set the value: "default", "environment", or "FILE:LINE", which is in
 * `out`. */
enum { PARAM_PLACE_BYTES = 256 };
const char *param_set_by(int p, char out[PARAM_PLACE_BYTES]);

enum param_form_flag {
	FORM_LIST = 1,      /* words separated by commas */
	FORM_ALL_BUT = 2,   /* ^ may precede the list */
	FORM_ANY_CASE = 4,  /* upper and lower case are equal */
	FORM_OF_DEVICE = 8, /* NAME= may precede a word */
};

/* Allowed texts of a variable; zero: any text. The bounds of numbers are in the row. */
struct param_form {
	const char *words; /* separated by |; NULL: `fits` decides */
	unsigned flags;
	bool (*fits)(const char *text);
	const char *expected; /* description of the allowed texts; NULL: the words */
};

/* A variable of the stack that has another default on the doubles. Their table holds all
 * differences between the choices of the stack on the doubles and on GPUs. */
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

#define PARAM_DOUBLES_MAX 32 /* maximum of param_doubles.count */
/* The table of the doubles. Weak: hardware builds do not have it, and its address is NULL there. */
extern const struct param_rows param_doubles __attribute__((weak));

/* param_form.c: the forms of the stack, [PARAM_COUNT]. param_form_fits is true if the form allows
 * the text. */
extern const struct param_form param_forms[];
bool param_form_fits(const struct param_form *f, const char *text);
/* Describes the allowed texts in words. Returns false if any text is allowed. */
bool param_form_expected(const struct param_form *f, char *out, size_t bytes);

#endif
