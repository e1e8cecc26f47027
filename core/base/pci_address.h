/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PCI addresses, "DOMAIN:BUS:DEVICE.FUNCTION" in hexadecimal, and the numbers that NCCL gives them:
 * function 4 bits, device 8, bus 8, domain the rest. Called by core/topo and sim/world, which must
 * agree on them. Pure.
 *
 * Topology files also have addresses with parts left out, as "0100:01.0". NCCL takes the digits of
 * any text in a row for the number, and so does this: 0x0100010.
 */
#ifndef CORE_BASE_PCI_ADDRESS_H
#define CORE_BASE_PCI_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

/* False: not digits with colons and points between them. */
bool pci_address_parse(const char *text, uint64_t *number);
/* Has it all four parts? */
bool pci_address_is_whole(const char *text);
#define PCI_ADDRESS_TEXT 24
void pci_address_text(uint64_t number, char text[PCI_ADDRESS_TEXT]);

#endif
