/* SPDX-License-Identifier: BSD-3-Clause */
/* The layers, their tables of sites (site_table.h), and the keys that address the sites. */
#include <stddef.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/macros.h"
#include "sim/engine/faults/fault.h"

#define BIT(key) (1u << (key))

/* Selectors that every visit may know, from the task or from the object's label. */
#define PLACES                                                                                     \
	(BIT(FAULT_HOST) | BIT(FAULT_RANK) | BIT(FAULT_PEER) | BIT(FAULT_CHANNEL) |                \
	 BIT(FAULT_NUMBER_KEY) | BIT(FAULT_STEP))
#define PLACES_PORT (PLACES | BIT(FAULT_PORT) | BIT(FAULT_NIC))

#define PLACES_WAY (PLACES_PORT | BIT(FAULT_PEER_HOST) | BIT(FAULT_PEER_PORT) | BIT(FAULT_PEER_NIC))

static const struct fault_site fault_no_sites[] = {{.name = NULL}};

/* The order of `doppel faults` and of drawn sites, whichever table joins first. */
struct fault_layer fault_layers[] = {
	{"fabric", "links and switches between HCAs", fault_no_sites, PLACES_WAY},
	{"verbs", "the HCA and its library", fault_no_sites, PLACES_PORT},
	{"cuda", "the GPU and its library", fault_no_sites, PLACES},
	{"nvml", "the GPU's management library", fault_no_sites, PLACES},
	{"os", "the host: memory, files, sockets, tasks", fault_no_sites, PLACES},
	{"shared", "words that host, GPU and HCA share", fault_no_sites, PLACES},
	{NULL, NULL, NULL, 0},
};

void fault_sites_join(const char *layer, const struct fault_site *site)
{
	struct fault_layer *l = fault_layers;

	while (l->name && strcmp(l->name, layer) != 0)
		l++;
	ASSERT(l->name && l->site == fault_no_sites); /* a layer has one table */
	l->site = site;
}

const struct fault_key_info fault_keys[FAULT_KEYS] = {
	[FAULT_HOST] = {"host", "index of the host where it happens"},
	[FAULT_RANK] = {"rank", "rank of the object's label; without one, of the calling task"},
	[FAULT_PEER] = {"peer", "peer rank of the object's label"},
	[FAULT_CHANNEL] = {"channel", "channel of the object's label"},
	[FAULT_PORT] = {"port", "index of the NIC port on its host, from 0; without host= or "
				"rank=, on any (fabric, verbs)"},
	[FAULT_NIC] = {"nic", "name of the NIC, as mlx5_1 (fabric, verbs)"},
	[FAULT_PEER_HOST] = {"peer_host", "host that a message goes to (fabric)"},
	[FAULT_PEER_PORT] = {"peer_port", "port there that a message goes to (fabric)"},
	[FAULT_PEER_NIC] = {"peer_nic", "name of the NIC that a message goes to (fabric)"},
	[FAULT_NUMBER_KEY] = {"number",
			      "number in the object's label: a queue pair's, a connection's"},
	[FAULT_STEP] = {"step", "step of the operation that the task works on (proxy)"},
	[FAULT_STATE_KEY] = {"state", "new state in verbs.modify_qp: INIT, RTR, RTS..."},
	[FAULT_AT] = {"at", "not before that step of the run"},
	[FAULT_AFTER] = {"after", "not before that virtual time; collective+TIME: that long after "
				  "the first collective began, "
				  "collective:N+TIME: after the one of opCount N"},
	[FAULT_UNTIL] = {"until", "not from that virtual time on; written like after="},
	[FAULT_CALLER] = {"caller",
			  "only visits by the N-th caller, counted from 1 by first visits: "
			  "one caller is one chain of functions"},
	[FAULT_NTH] = {"nth", "from the N-th match on, counted from 1"},
	[FAULT_COUNT] = {"count", "how often it fires; default once, with prob= without limit"},
	[FAULT_PROB] = {"prob", "probability of each match, like 1/64"},
};

bool fault_key_fits(const struct fault *f, int key)
{
	if (key >= FAULT_PLACE)
		return true;
	if (key == FAULT_STATE_KEY)
		return f->site && f->site->has_state;
	return f->layer->places & BIT(key);
}

int64_t fault_name_key(const char *name, size_t bytes)
{
	return (int64_t)(hash64(name, bytes) & INT64_MAX);
}

const struct fault_action *fault_action_fail(const struct fault_site *site)
{
	for (int i = 0; i < FAULT_ACTIONS_MAX && site->action[i].name; i++)
		if (site->action[i].kind == OS_FAULT_FAIL)
			return &site->action[i];
	return NULL;
}

const char *sim_fault_idle(const char *site)
{
	for (const struct fault_layer *l = fault_layers; l->name; l++)
		for (const struct fault_site *s = l->site; s->name; s++)
			if (strcmp(s->name, site) == 0)
				return s->idle;
	return NULL;
}

bool sim_fault_site_at(uint32_t i, const char **site, const char *action[SIM_FAULT_ACTIONS])
{
	DOPPEL_STATIC_CHECK((int)SIM_FAULT_ACTIONS == (int)FAULT_ACTIONS_MAX,
			    "room for all actions");
	for (const struct fault_layer *l = fault_layers; l->name; l++) {
		for (const struct fault_site *s = l->site; s->name; s++) {
			if (i--)
				continue;
			*site = s->name;
			for (int a = 0; a < FAULT_ACTIONS_MAX; a++)
				action[a] = s->action[a].name;
			return true;
		}
	}
	return false;
}
