/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machines of a world's hosts, from a list of names with commas between them: host i has name i
 * modulo their number. A name is a machine that comes with Doppel or a file, whose path has no
 * comma.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/run/runner_internal.h"
#include "sim/world/world.h"

uint32_t lab_machines_count(const char *list)
{
	uint32_t n = 1;

	for (; *list; list++)
		n += *list == ',';
	return n;
}

const char *lab_machine_of(const char *list, uint32_t host, char name[LAB_MACHINE_BYTES])
{
	size_t bytes;

	for (uint32_t i = host % lab_machines_count(list); i; i--)
		list = strchr(list, ',') + 1;
	bytes = MIN_OF(strcspn(list, ","), (size_t)LAB_MACHINE_BYTES - 1);
	memcpy(name, list, bytes);
	name[bytes] = '\0';
	return name;
}

bool lab_machines_make(struct lab_machines *m, const struct lab_config *c)
{
	char name[LAB_MACHINE_BYTES];
	uint32_t n = lab_machines_count(c->machine);

	*m = (struct lab_machines){0};
	if (n == 1)
		return true;
	m->of_host = calloc(c->hosts, sizeof *m->of_host);
	m->text = calloc(n, LAB_MACHINE_BYTES);
	if (!m->of_host || !m->text) {
		lab_machines_free(m);
		return false;
	}
	for (uint32_t h = 0; h < c->hosts; h++) {
		char *text = m->text + (size_t)(h % n) * LAB_MACHINE_BYTES;

		memcpy(text, lab_machine_of(c->machine, h, name), LAB_MACHINE_BYTES);
		m->of_host[h] = text;
	}
	return true;
}

void lab_machines_free(struct lab_machines *m)
{
	free(m->of_host);
	free(m->text);
	*m = (struct lab_machines){0};
}

uint32_t *lab_world_gpus(void)
{
	uint32_t hosts = world_host_count(), *gpus = calloc(hosts, sizeof *gpus);

	for (uint32_t h = 0; gpus && h < hosts; h++)
		gpus[h] = (uint32_t)world_host_machine(h)->gpu_count;
	return gpus;
}
