/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of an image's text. The CUDA API has no length for it. `doppel cc` and programs that load
 * a text end it with a NUL. A text that plain clang embedded has no NUL. The next object's text or
 * other data of the program follow, or the memory ends.
 */
#include "backends/fakecuda/fakecuda.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

enum { TEXT_PAGE = 4096 }; /* pages are this long, or a multiple of it */

/* If the kernel does not permit the check, the byte counts as readable. */
static bool text_readable(const char *at)
{
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)at, 1};

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 || errno != EFAULT;
}

/* No PTX has other control characters than those between words. */
static bool text_has(char c)
{
	return (unsigned char)c >= ' ' || (c >= '\t' && c <= '\r');
}

/* Returns the begin of the next text that the program registered; NULL: no such text. */
static const char *text_next(const char *text)
{
	const char *next = NULL;

	for (const struct fc_image *i = fc_images_first(); i; i = i->next) {
		for (const struct fc_image_text *t = i->texts; t; t = t->next) {
			bool after = !i->loaded && !i->gone && (uintptr_t)t->text > (uintptr_t)text;
			if (after && (!next || (uintptr_t)t->text < (uintptr_t)next))
				next = t->text;
		}
	}
	return next;
}

size_t fc_image_text_bytes(const char *text)
{
	const char *next = text_next(text), *at = text;

	for (; at != next; at++) {
		bool new_page = at == text || (uintptr_t)at % TEXT_PAGE == 0;
		if ((new_page && !text_readable(at)) || !text_has(*at))
			break;
	}
	return (size_t)(at - text);
}
