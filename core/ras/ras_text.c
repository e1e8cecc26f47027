/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/ras/ras_text.h"

#include <stdio.h>
#include <string.h>

#define RAS_TEXT_FIRST 1024

bool ras_text_reserve(struct ras_text *t, size_t more)
{
	size_t need = t->bytes + more + 1;
	size_t room = MAX_OF(need, MAX_OF(2 * t->room, (size_t)RAS_TEXT_FIRST));
	char *bigger;

	if (t->lost || need <= t->room)
		return !t->lost;
	bigger = os_alloc(room, "RAS text");
	if (!bigger) {
		t->lost = true;
		return false;
	}
	if (t->bytes)
		memcpy(bigger, t->at, t->bytes);
	bigger[t->bytes] = '\0';
	os_free(t->at);
	t->at = bigger;
	t->room = room;
	return true;
}

void ras_text_add(struct ras_text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	ASSERT(n >= 0);
	if (!ras_text_reserve(t, (size_t)n))
		return;
	va_start(args, format);
	(void)vsnprintf(t->at + t->bytes, (size_t)n + 1, format, args);
	va_end(args);
	t->bytes += (size_t)n;
}

void ras_text_bytes(struct ras_text *t, const void *data, size_t bytes)
{
	if (!bytes || !ras_text_reserve(t, bytes))
		return;
	memcpy(t->at + t->bytes, data, bytes);
	t->bytes += bytes;
	t->at[t->bytes] = '\0';
}

void ras_text_json(struct ras_text *t, const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '"' || c == '\\')
			ras_text_add(t, "\\%c", c);
		else if (c < 0x20)
			ras_text_add(t, "\\u%04x", c);
		else
			ras_text_add(t, "%c", c < 0x7f ? c : '?');
	}
}

void ras_text_drop(struct ras_text *t, size_t bytes)
{
	ASSERT(bytes <= t->bytes);
	t->bytes -= bytes;
	if (t->at)
		memmove(t->at, t->at + bytes, t->bytes + 1);
}

void ras_text_cut(struct ras_text *t, size_t bytes)
{
	ASSERT(bytes <= t->bytes);
	if (bytes < t->bytes)
		t->at[t->bytes = bytes] = '\0';
}

void ras_text_free(struct ras_text *t)
{
	os_free(t->at);
	*t = (struct ras_text){.bytes = 0};
}
