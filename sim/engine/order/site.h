/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sites of all loaded libraries (core/os/site.h), as lists of one kind. A list is sorted by
 * name and has each name once, which makes it the same in each process. A site of a library that
 * was loaded later is appended when the run first reaches it. The same applies to a test's site.
 *
 * Called by probe.c and buggify.c, by one task at a time. Allocates nothing.
 */
#ifndef SIM_ENGINE_ORDER_SITE_H
#define SIM_ENGINE_ORDER_SITE_H

#include <stdint.h>
#include <stdio.h>

#include "core/os/site.h"

enum { SITES_MAX = 128 };

struct site_list {
	const struct os_site *site[SITES_MAX];
	uint32_t n;
	/* cache of found sites, by a hash of their addresses */
	struct {
		const struct os_site *site;
		uint32_t index;
	} found[SITES_MAX];
};

#pragma GCC visibility push(hidden)
void site_list_fill(struct site_list *l, enum os_site_kind kind);
/* Returns the index of the site; l->n before the call: the site was added. */
uint32_t site_list_index(struct site_list *l, const struct os_site *site);
void site_list_print(enum os_site_kind kind, int width, FILE *out);
/* NULL: no such site. */
const struct os_site *site_find(enum os_site_kind kind, const char *name);
#pragma GCC visibility pop

#endif
