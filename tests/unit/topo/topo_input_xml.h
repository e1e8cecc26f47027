/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces of topology files. */
#ifndef TESTS_UNIT_TOPO_INPUT_XML_H
#define TESTS_UNIT_TOPO_INPUT_XML_H

#include "tests/unit/topo/topo_util.h"

#define CPU                                                                                        \
	"<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "                \
	"modelid=\"143\">"
#define SYSTEM "<system version=\"1\">\n"

static const char two_gpus[] =
	SYSTEM CPU "<pci busid=\"0000:01:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" "
		   "link_width=\"16\"><gpu dev=\"0\" sm=\"80\"/></pci>\n"
		   "<pci busid=\"0000:02:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" "
		   "link_width=\"16\"><gpu dev=\"1\" sm=\"80\"/></pci></cpu></system>";

#endif
