/* SPDX-License-Identifier: BSD-3-Clause */
/* A host of files below /sys, and what detection makes of it. */
#ifndef TESTS_UNIT_DETECT_HOST_H
#define TESTS_UNIT_DETECT_HOST_H

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/topo/detect/detect.h"
#include "tests/host_files.h"
#include "tests/suite.h"

/* ---- a host of files
 * -------------------------------------------------------------------------- */

static inline void host_end(void)
{
	const char *first = NULL;
	ck_assert_msg(os_real_alloc_count(&first) == 0, "memory left: %s", first);
	host_close();
}

#define ROOT "/sys/devices/pci0000:10"

/* A function at that place, with the two links that lead to it. */
static inline void host_function(const char *above, const char *bus_id, const char *numa,
				 const char *speed, const char *width)
{
	char dir[512], bus[32], at[600];
	snprintf(dir, sizeof dir, "%s/%s", above, bus_id);
	snprintf(bus, sizeof bus, "%.7s", bus_id);
	files_put(host, dir, "class", "0x030200\n");
	files_put(host, dir, "vendor", "0x10de\n");
	if (numa)
		files_put(host, dir, "numa_node", "%s\n", numa);
	if (speed)
		files_put(host, dir, "max_link_speed", "%s\n", speed);
	if (width)
		files_put(host, dir, "max_link_width", "%s\n", width);
	snprintf(at, sizeof at, "%s/pci_bus/%s", above, bus);
	files_dir(host, at);
	files_link(host, "/sys/class/pci_bus", bus, at);
	files_link(host, "/sys/bus/pci/devices", bus_id, dir);
}

/* A root port, a switch of two bridges, and a GPU below it. */
static inline void host_switch(void)
{
	host_function(ROOT, "0000:10:01.0", "1", "32.0 GT/s PCIe", "16");
	host_function(ROOT "/0000:10:01.0", "0000:11:00.0", "1", "16.0 GT/s PCIe", "8");
	host_function(ROOT "/0000:10:01.0/0000:11:00.0", "0000:12:00.0", "1", "8.0 GT/s PCIe", "4");
	host_function(ROOT "/0000:10:01.0/0000:11:00.0/0000:12:00.0", "0000:13:00.0", "1",
		      "16.0 GT/s PCIe", "16");
	files_put(host, "/sys/devices/system/node/node1", "cpumap", "ff00\n");
	files_put(host, "/proc", "cpuinfo",
		  "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"
		  "model name\t: x\n");
}

static const struct topo_detect_gpu gpu_13 = {
	.bus_id = "0000:13:00.0",
	.dev = 2,
	.rank = 5,
	.sm = 90,
	.gdr = true,
	.link = {{"0000:99:00.0", 3}, {"fffffff:ff:ff.0", 4}},
	.links = 2,
	.c2c = 2,
	.c2c_mbps = 44712,
};

/* Not inlined, because gcc 12 would warn of a dangling pointer in a caller that has none. */
static __attribute__((noinline, unused)) char *detect_text(const struct topo_detect *d)
{
	char *xml = NULL;
	size_t bytes = 0;
	ncclResult_t rc = topo_detect(d, &xml, &bytes);
	ck_assert_msg(rc == ncclSuccess, "%s", log_last_error());
	ck_assert_uint_eq(strlen(xml), bytes);
	return xml;
}

static inline char *detect_fuse2(const char *a, const char *b)
{
	char *xml = NULL;
	size_t bytes;
	const struct topo_detect_part part[2] = {{a, strlen(a)}, {b, strlen(b)}};
	ck_assert_int_eq(topo_detect_fuse(part, 2, &xml, &bytes), ncclSuccess);
	return xml;
}

static inline void expect(const char *xml, const char *what)
{
	ck_assert_msg(strstr(xml, what) != NULL, "no '%s' in\n%s", what, xml);
}

#endif
