/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rare paths taken on purpose (OS_BUGGIFY of core/os/site.h): decides which of them this run may
 * take and counts visits and hits.
 *
 * A site is active in one seed of four. A hash of its name decides, not a draw, so that a new site
 * shifts no other. An active site takes its rare path one visit in four (FoundationDB's rates). No
 * site is active under fifo or under `threads`.
 */
#include "sim/engine/order/order_internal.h"
#include "sim/engine/order/site.h"

enum { BUGGIFY_ACTIVE_ONE_OF = 4, BUGGIFY_FIRES_ONE_OF = 4 };

static struct {
	struct site_list list;
	struct sim_buggify_stat stat[SITES_MAX];
	bool active[SITES_MAX];
	struct choice_site *choice[SITES_MAX]; /* NULL: not drawn yet */
} buggify;

static bool buggify_is_active(const char *name)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (const char *s = name; *s; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3ull;
	h = (h ^ eng.seed) * 0x9e3779b97f4a7c15ull;
	h ^= h >> 29;
	return h * 0xbf58476d1ce4e5b9ull < UINT64_MAX / BUGGIFY_ACTIVE_ONE_OF;
}

static void buggify_add(uint32_t i)
{
	const struct os_site *s = buggify.list.site[i];

	buggify.stat[i] = (struct sim_buggify_stat){.name = s->name, .what = s->what};
	buggify.active[i] = strategy_exploring() && engine_in_sim() && buggify_is_active(s->name);
	buggify.choice[i] = NULL;
}

void buggify_start(void)
{
	site_list_fill(&buggify.list, OS_SITE_RARE);
	for (uint32_t i = 0; i < buggify.list.n; i++)
		buggify_add(i);
}

bool buggify_visit(const struct os_site *site)
{
	if (!strategy_exploring() || eng.phase != ENGINE_RUNNING)
		return false;
	uint32_t n = buggify.list.n, i = site_list_index(&buggify.list, site);

	if (i == n)
		buggify_add(i);
	buggify.stat[i].visits++;
	if (!buggify.active[i])
		return false;
	if (!buggify.choice[i])
		buggify.choice[i] = choice_site_get(site->name);
	if (choice_draw_quiet(buggify.choice[i], BUGGIFY_FIRES_ONE_OF, 1))
		return false;
	buggify.stat[i].hits++;
	return true;
}

uint32_t sim_buggify_stats(const struct sim_buggify_stat **stats)
{
	*stats = buggify.stat;
	return buggify.list.n;
}

void sim_buggify_print_sites(FILE *out)
{
	site_list_print(OS_SITE_RARE, 24, out);
}
