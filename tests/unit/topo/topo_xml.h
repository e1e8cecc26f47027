/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines written piece by piece: begin, then what hangs below what, then end. */
#ifndef TESTS_UNIT_TOPO_XML_H
#define TESTS_UNIT_TOPO_XML_H

#include <stdarg.h>

#include "tests/unit/topo/topo_util.h"

#define INTEL "arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\""
#define AMD   "arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"175\" modelid=\"1\""
#define ARM   "arch=\"arm64\""

/* Text of a machine, piece by piece. */
static char xml[16384];
static size_t xml_at;

__attribute__((format(printf, 1, 2))) static inline void add(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	xml_at += (size_t)vsnprintf(xml + xml_at, sizeof xml - xml_at, format, args);
	va_end(args);
	ck_assert_uint_lt(xml_at, sizeof xml);
}

static inline void begin(void)
{
	xml_at = 0;
	add("<system version=\"1\">\n");
}

static inline const struct topo_system *end(int32_t gpus)
{
	add("</system>\n");
	return util_system_of(xml, gpus);
}

static inline void cpu(int numa, const char *kind)
{
	add("<cpu numaid=\"%d\" %s>\n", numa, kind);
}

/* A GPU, PCI gen 3 x16 (12 GB/s), with an NVLink to another bus where count is not 0. */
static inline void gpu(int dev, int sm, int to, int count)
{
	add("<pci busid=\"0000:%02d:00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" "
	    "link_width=\"16\"><gpu dev=\"%d\" sm=\"%d\" gdr=\"1\">",
	    10 + dev, dev, sm);
	if (count)
		add("<nvlink target=\"0000:%02d:00.0\" count=\"%d\" tclass=\"0x030200\"/>", 10 + to,
		    count);
	add("</gpu></pci>\n");
}

static inline void nic(int dev, int speed, const char *attributes)
{
	add("<pci busid=\"0000:%02d:00.0\" class=\"0x020000\" link_speed=\"8 GT/s\" "
	    "link_width=\"16\"><nic><net name=\"mlx5_%d\" dev=\"%d\" speed=\"%d\" port=\"1\" "
	    "gdr=\"1\" %s/></nic></pci>\n",
	    50 + dev, dev, dev, speed, attributes);
}

static inline void bridge(int number)
{
	add("<pci busid=\"0000:%02d:00.0\" class=\"0x060400\" link_speed=\"8 GT/s\" "
	    "link_width=\"16\">\n",
	    70 + number);
}

#endif
