/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sites of all loaded libraries (core/os/site.h), as lists of one kind: sorted by name, each
 * name once, so that a list is the same in each process. A site of a library that was loaded later
 * is added at the end when the run first comes to it; so is one of a test.
 *
 * Called by probe.c and buggify.c, by one task at a time. Nothing is allocated.
 */
#ifndef SIM_ENGINE_SITE_H
#define SIM_ENGINE_SITE_H

#include <stdint.h>
#include <stdio.h>

#include "core/os/site.h"

enum { SITES_MAX = 128 };

struct site_list {
	const struct os_site *site[SITES_MAX];
	uint32_t n;
	/* where sites were found, by a hash of their addresses */
	struct {
		const struct os_site *site;
		uint32_t index;
	} found[SITES_MAX];
};

#pragma GCC visibility push(hidden)
void site_list_fill(struct site_list *l, enum os_site_kind kind);
/* The index of the site; l->n before the call: it was added. */
uint32_t site_list_index(struct site_list *l, const struct os_site *site);
void site_list_print(enum os_site_kind kind, int width, FILE *out);
/* NULL: no such site. */
const struct os_site *site_find(enum os_site_kind kind, const char *name);
#pragma GCC visibility pop

#endif
