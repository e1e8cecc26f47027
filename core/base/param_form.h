/* SPDX-License-Identifier: BSD-3-Clause */
/* The forms of variables that are text; for param.c alone. */
#ifndef CORE_BASE_PARAM_FORM_H
#define CORE_BASE_PARAM_FORM_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/param.h"

bool param_form_fits(enum param p, const char *text);
/* What is allowed, in words; false: any text is. */
bool param_form_expected(enum param p, char *out, size_t bytes);

#endif
