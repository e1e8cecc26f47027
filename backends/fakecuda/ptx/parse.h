/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parser of PTX text: makes a model (model.h) of it. Any bytes are safe as text. A text that is
 * not PTX, or that uses a directive which is not built, is one error with its line.
 */
#ifndef BACKENDS_FAKECUDA_PTX_PARSE_H
#define BACKENDS_FAKECUDA_PTX_PARSE_H

#include "backends/fakecuda/ptx/model.h"

/* False: m->error has the reason, and the rest of *m is empty. */
bool ptx_parse(struct ptx_module *m, const char *text, size_t bytes);
/* Adds another text to the module. ptx_module_check follows the last one. */
bool ptx_parse_more(struct ptx_module *m, const char *text, size_t bytes);

#endif
