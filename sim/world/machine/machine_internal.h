/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the reader of machines: machine.c, machine_nics.c and machine_files.c. */
#ifndef SIM_WORLD_MACHINE_INTERNAL_H
#define SIM_WORLD_MACHINE_INTERNAL_H

#include "core/base/xml.h"
#include "sim/world/world_internal.h"

#define MACHINE_MAX_GPUS 256
#define MACHINE_MAX_NICS 256
#define MACHINE_MAX_CPUS 64

struct machine_reader {
	struct world_machine *m;
	struct xml_error error;
	int32_t hcas; /* number of untagged HCAs so far */
	int32_t numa[MACHINE_MAX_CPUS], cpus;
	int32_t host_of[MACHINE_MAX_CPUS]; /* host of each CPU */
	uint64_t host_hash[MACHINE_MAX_CPUS];
};

/* Place of an element: the nearest CPU's NUMA node and the nearest PCI function. */
struct machine_place {
	int32_t host; /* index in an NVLink domain */
	int32_t numa;
	const struct xml_node *pci;
};

#pragma GCC visibility push(hidden)

/* machine.c. Reads an attribute that is a small number. `initial`: the value if it is absent.
 * EINVAL, and *error: it is malformed. */
int machine_small_int(const struct xml_node *n, const char *attr, int64_t initial, int64_t min,
		      int64_t max, int32_t *out, struct xml_error *error);
/* Reads the bus id of a PCI function, in the world's form. */
int machine_bus_id(const struct xml_node *pci, char out[24], struct xml_error *error);
/* Reads m->text into the machine. EINVAL: it has explained what is malformed. */
int machine_parse(struct world_machine *m);

/* machine_nics.c. Add a NIC: of a <net>, and of a PCI function without one. */
int machine_net_add(struct machine_reader *r, const struct xml_node *net,
		    const struct machine_place *at);
int machine_hca_add(struct machine_reader *r, const struct machine_place *at);

#pragma GCC visibility pop

#endif
