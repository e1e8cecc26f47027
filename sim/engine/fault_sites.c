/* SPDX-License-Identifier: BSD-3-Clause */
/* The layers, and the keys that address their sites. */
#include <stddef.h>
#include <string.h>

#include "sim/engine/fault.h"

const struct fault_layer fault_layers[] = {
	{"fabric", "links and switches between HCAs", fault_sites_fabric},
	{"verbs", "the HCA and its library", fault_sites_verbs},
	{"cuda", "the GPU and its library", fault_sites_cuda},
	{"nvml", "the GPU's management library", fault_sites_nvml},
	{"os", "the host: memory, files, sockets, tasks", fault_sites_os},
	{"shared", "words that host, GPU and HCA share", fault_sites_shared},
	{NULL, NULL, NULL},
};

const struct fault_key_info fault_keys[FAULT_KEYS] = {
	[FAULT_HOST] = {"host", "index of the host where it happens"},
	[FAULT_RANK] = {"rank", "of the object's label; without one, of the calling task"},
	[FAULT_PEER] = {"peer", "the rank at the other end, of the object's label"},
	[FAULT_CHANNEL] = {"channel", "of the object's label"},
	[FAULT_PORT] = {"port", "index of the NIC port, counted through all hosts"},
	[FAULT_PEER_HOST] = {"peer_host", "host that a message goes to (fabric)"},
	[FAULT_PEER_PORT] = {"peer_port", "port that a message goes to (fabric)"},
	[FAULT_NUMBER_KEY] = {"number", "of the object's label: of a queue pair, a connection"},
	[FAULT_STEP] = {"step", "step of the operation that the task works on (proxy)"},
	[FAULT_STATE_KEY] = {"state", "that verbs.modify_qp leads to: INIT, RTR, RTS..."},
	[FAULT_AT] = {"at", "not before that step of the run"},
	[FAULT_AFTER] = {"after", "not before that virtual time"},
	[FAULT_UNTIL] = {"until", "not from that virtual time on"},
	[FAULT_NTH] = {"nth", "from the N-th match on, counted from 1"},
	[FAULT_COUNT] = {"count", "that many times; usually once, with prob= any number of times"},
	[FAULT_PROB] = {"prob", "each with that probability, like 1/64"},
};

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
