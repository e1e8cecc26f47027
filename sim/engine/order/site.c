/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/engine/order/site.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "core/os/os.h"

enum { SITE_LIBRARIES = 16 };

/* The sections of the loaded libraries. Written while a library is loaded or unloaded. */
static struct {
	const struct os_site *const *first, *const *end;
} site_library[SITE_LIBRARIES];

void os_sites_join(const struct os_site *const *first, const struct os_site *const *end)
{
	for (int i = 0; i < SITE_LIBRARIES && first != end; i++) {
		if (site_library[i].first)
			continue;
		site_library[i].first = first;
		site_library[i].end = end;
		return;
	}
	ASSERT(first == end); /* else more than SITE_LIBRARIES libraries have sites */
}

void os_sites_leave(const struct os_site *const *first)
{
	for (int i = 0; i < SITE_LIBRARIES; i++)
		if (first && site_library[i].first == first)
			site_library[i].first = site_library[i].end = NULL;
}

static int site_compare(const void *a, const void *b)
{
	const struct os_site *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

void site_list_fill(struct site_list *l, enum os_site_kind kind)
{
	memset(l, 0, sizeof *l);
	for (int i = 0; i < SITE_LIBRARIES; i++)
		for (const struct os_site *const *s = site_library[i].first;
		     s != site_library[i].end; s++)
			if ((*s)->kind == kind)
				site_list_index(l, *s);
	qsort(l->site, l->n, sizeof l->site[0], site_compare);
	memset(l->found, 0, sizeof l->found);
}

static uint32_t site_list_search(struct site_list *l, const struct os_site *site)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (l->site[i] == site)
			return i;
	for (uint32_t i = 0; i < l->n; i++)
		if (strcmp(l->site[i]->name, site->name) == 0)
			return i;
	ASSERT(l->n < SITES_MAX);
	l->site[l->n] = site;
	return l->n++;
}

uint32_t site_list_index(struct site_list *l, const struct os_site *site)
{
	uint32_t at = (uint32_t)((uintptr_t)site / sizeof *site) % SITES_MAX;

	if (l->found[at].site != site) {
		l->found[at].index = site_list_search(l, site);
		l->found[at].site = site;
	}
	return l->found[at].index;
}

const struct os_site *site_find(enum os_site_kind kind, const char *name)
{
	struct site_list l;

	site_list_fill(&l, kind);
	for (uint32_t i = 0; i < l.n; i++)
		if (strcmp(l.site[i]->name, name) == 0)
			return l.site[i];
	return NULL;
}

void site_list_print(enum os_site_kind kind, int width, FILE *out)
{
	struct site_list l;

	site_list_fill(&l, kind);
	for (uint32_t i = 0; i < l.n; i++) {
		const struct os_site *s = l.site[i];

		fprintf(out, "  %-*s %s%s%s%s\n", width, s->name, s->what,
			s->idle ? " (idle: " : "", s->idle ? s->idle : "", s->idle ? ")" : "");
	}
}
