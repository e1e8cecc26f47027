/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an HCA of this world can be told to be, by environment: of the world's configuration, else
 * of the program.
 *
 *	DOPPEL_HCA_ATOMIC=glob                all HCAs
 *	DOPPEL_HCA_ATOMIC=mlx5_1=glob,none    that one; the others
 */
#include <stdlib.h>

#include "backends/fakeverbs/hca.h"
#include "core/os/os_ops.h"

const char *hca_env(const char *name)
{
	const struct world_config *c = world_config();
	size_t n = strlen(name);

	for (int i = 0; c && c->env && c->env[i]; i++)
		if (strncmp(c->env[i], name, n) == 0 && c->env[i][n] == '=')
			return c->env[i] + n + 1;
	return os_real_ops.env(name);
}

/* The item for this HCA of a list of VALUE and NAME=VALUE: the last that fits. 0 bytes: none. */
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

void hca_port_configure(struct hca_port *port, uint32_t index)
{
	static const struct {
		const char *name;
		enum ibv_atomic_cap cap;
	} kinds[] = {{"hca", IBV_ATOMIC_HCA}, {"glob", IBV_ATOMIC_GLOB}, {"none", IBV_ATOMIC_NONE}};
	size_t bytes;
	const char *text =
		hca_option(hca_env("DOPPEL_HCA_ATOMIC"), world_port(index)->nic->name, &bytes);

	port->atomic_cap = IBV_ATOMIC_HCA;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (bytes == strlen(kinds[i].name) && strncmp(text, kinds[i].name, bytes) == 0) {
			port->atomic_cap = kinds[i].cap;
			return;
		}
	}
	if (bytes)
		hca_say("DOPPEL_HCA_ATOMIC: '%.*s', expected hca, glob or none", (int)bytes, text);
}
