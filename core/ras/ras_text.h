/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A text or a message that grows. Zeroed memory is an empty one. If memory runs out, the text stays
 * incomplete and `lost` is set; later additions have no effect. Only one task uses a text.
 */
#ifndef CORE_RAS_RAS_TEXT_H
#define CORE_RAS_RAS_TEXT_H

#include <stdarg.h>

#include "core/os/os.h"

struct ras_text {
	char *at; /* `bytes` bytes and a NUL; NULL: empty */
	size_t bytes, room;
	bool lost;
};

/* Makes room for `more` bytes and a NUL after the text. False: no memory. */
bool ras_text_reserve(struct ras_text *t, size_t more);
void ras_text_add(struct ras_text *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void ras_text_bytes(struct ras_text *t, const void *data, size_t bytes);
/* Adds the text as the inside of a JSON string. Bytes that are not ASCII become '?'. */
void ras_text_json(struct ras_text *t, const char *text, size_t bytes);
/* Removes the first `bytes` bytes. */
void ras_text_drop(struct ras_text *t, size_t bytes);
/* Shortens the text to its first `bytes` bytes. */
void ras_text_cut(struct ras_text *t, size_t bytes);
void ras_text_free(struct ras_text *t);

#endif
