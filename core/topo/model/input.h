/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the readers of a topology file: input.c and input_pci.c. */
#ifndef CORE_TOPO_INPUT_H
#define CORE_TOPO_INPUT_H

#include "core/base/xml.h"
#include "core/topo/topo_internal.h"

struct topo_input {
	struct topo_model *m;
	int32_t host; /* host of the CPU that is being read */
	int32_t gpus, nets;
	int32_t hcas; /* template HCAs added so far */
};

/* input.c. Reads a number of 64 bits; 0 if it is absent. */
ncclResult_t topo_input_u64(const struct xml_node *x, const char *name, uint64_t *out);
/* Adds the net of an HCA that the file has only as a PCI function. */
ncclResult_t topo_hca_add(struct topo_input *in, int32_t nic);
/* Reads the nets of a NIC. */
ncclResult_t topo_nic_read(struct topo_input *in, const struct xml_node *x, int32_t nic);
/* input_pci.c. Reads a PCI function below `parent`, and all below it. */
ncclResult_t topo_pci_read(struct topo_input *in, const struct xml_node *x, int32_t parent);

#endif
