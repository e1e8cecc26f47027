/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts how often this run was in the states that the probes name (OS_PROBE of core/os/site.h).
 * Draws, traces and hashes nothing. */
#include "sim/engine/order/order_internal.h"
#include "sim/engine/order/site.h"

static struct {
	struct site_list list;
	struct sim_probe_stat stat[SITES_MAX];
} probe;

static void probe_add(uint32_t i)
{
	const struct os_site *s = probe.list.site[i];

	probe.stat[i] = (struct sim_probe_stat){.name = s->name, .what = s->what};
}

void probe_start(void)
{
	site_list_fill(&probe.list, OS_SITE_PROBE);
	for (uint32_t i = 0; i < probe.list.n; i++)
		probe_add(i);
}

void probe_hit(const struct os_site *site)
{
	if (eng.phase != ENGINE_RUNNING)
		return;
	uint32_t n = probe.list.n, i = site_list_index(&probe.list, site);

	if (i == n)
		probe_add(i);
	probe.stat[i].hits++;
}

uint32_t sim_probe_stats(const struct sim_probe_stat **stats)
{
	*stats = probe.stat;
	return probe.list.n;
}

const char *sim_probe_idle(const char *name)
{
	const struct os_site *s = site_find(OS_SITE_PROBE, name);

	return s ? s->idle : NULL;
}

void sim_probe_print_sites(FILE *out)
{
	site_list_print(OS_SITE_PROBE, 28, out);
}
