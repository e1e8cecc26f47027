/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PCI addresses, "DOMAIN:BUS:DEVICE.FUNCTION" in hexadecimal, and NCCL's numbers for them: function
 * 4 bits, device 8, bus 8, domain the remaining bits. core/topo and sim/world both use these
 * functions and must agree. Pure functions.
 *
 * Topology files also contain addresses with missing parts, such as "0100:01.0". NCCL reads the
 * digits of any text in sequence as the number, and so do these functions: 0x0100010.
 */
#ifndef CORE_BASE_PCI_ADDRESS_H
#define CORE_BASE_PCI_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Returns false if the text is not digits separated by colons and points. */
bool pci_address_parse(const char *text, uint64_t *number);
/* True if the text has all four parts. */
bool pci_address_is_whole(const char *text);
#define PCI_ADDRESS_TEXT 24
void pci_address_text(uint64_t number, char text[PCI_ADDRESS_TEXT]);

#endif
