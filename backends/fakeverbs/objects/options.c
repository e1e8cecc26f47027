/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of the environment for HCAs: of the world's configuration, else of the program.
 *
 * 	DOPPEL_HCA_ATOMIC=glob                all HCAs
 * 	DOPPEL_HCA_ATOMIC=mlx5_1=glob,none    that HCA; the others
 * 	DOPPEL_HCA_FAST_PATH=off              always packets (transport/direct.c is not used)
 * 	DOPPEL_HCA_LINK=mlx5_1=down           that HCA's link is down from the start
 * DOPPEL_HCA_ORDER=completion           acknowledges make no data visible (transport/partial.c)
 * 	DOPPEL_HCA_ROUTING=adaptive           packets overtake each other (transport/overtake.c)
 */
#include <stdlib.h>

#include "backends/fakeverbs/objects/objects.h"

/* Returns the value for this HCA in a list of VALUE and NAME=VALUE: the first that names it, else
 * the last without a name. 0 bytes: not set. */
static const char *hca_option(const char *list, const char *hca, size_t *bytes)
{
	const char *found = "";
	size_t name = strlen(hca);

	*bytes = 0;
	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ","), eq = strcspn(at, "=,");
		bool named = eq < n;

		if (!named || (eq == name && strncmp(at, hca, name) == 0)) {
			found = named ? at + eq + 1 : at;
			*bytes = named ? n - eq - 1 : n;
			if (named)
				return found;
		}
		at += n + (at[n] == ',');
	}
	return found;
}

struct hca_choice {
	const char *name;
	uint32_t value;
};

/* Returns the option's value for this HCA; the first choice if the option is not set. */
static uint32_t hca_choose(const char *option, uint32_t index, const struct hca_choice *choices,
			   size_t n)
{
	size_t bytes;
	const char *text = hca_option(hca_env(option), world_port(index)->nic->name, &bytes);

	ASSERT(n > 0); /* the first one is the default */
	for (size_t i = 0; i < n; i++)
		if (bytes == strlen(choices[i].name) && strncmp(text, choices[i].name, bytes) == 0)
			return choices[i].value;
	return choices[0].value;
}

void hca_port_configure(struct hca_port *port, uint32_t index)
{
	static const struct hca_choice atomic[] = {
		{"hca", IBV_ATOMIC_HCA}, {"glob", IBV_ATOMIC_GLOB}, {"none", IBV_ATOMIC_NONE}};
	static const struct hca_choice way[] = {{"on", true}, {"off", false}};
	static const struct hca_choice link[] = {{"up", true}, {"down", false}};

	port->atomic_cap = hca_choose("DOPPEL_HCA_ATOMIC", index, atomic, ARRAY_LEN(atomic));
	port->fast_path = hca_choose("DOPPEL_HCA_FAST_PATH", index, way, ARRAY_LEN(way));
	if (!hca_choose("DOPPEL_HCA_LINK", index, link, ARRAY_LEN(link)))
		world_port_set(world_port(index), false);
}

void hca_partial_configure(struct hca_world *w)
{
	const char *order = hca_env("DOPPEL_HCA_ORDER");
	struct sim_rng rng;

	if (!sim_memory_order_on())
		return;
	sim_rng_init(&rng, "hca.order");
	w->early = 1;
	w->shuffled = sim_rng_ratio(&rng, 1, 2);
	bool drawn = sim_rng_ratio(&rng, 1, 2);

	if (order && strcmp(order, "completion") == 0)
		w->ack_shows_nothing = 1;
	else if (order && strcmp(order, "draw") == 0)
		w->ack_shows_nothing = drawn;
}

void hca_routing_configure(struct hca_world *w)
{
	const char *routing = hca_env("DOPPEL_HCA_ROUTING");
	struct sim_rng rng;

	if (!routing || strcmp(routing, "fixed") == 0)
		return;
	sim_rng_init(&rng, "hca.routing");
	w->adaptive = strcmp(routing, "adaptive") == 0 || sim_rng_ratio(&rng, 1, 2);
}
