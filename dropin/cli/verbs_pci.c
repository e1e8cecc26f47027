/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PCI functions of HCAs in /sys/bus/pci/devices and /sys/class/pci_bus, where programs look for
 * them (NCCL, hwloc, libpciaccess). The world (sim/world/machine/sys.c) has the place of a
 * function in the tree and the data of the machine's file. This file reads them through os.h and
 * adds the files that every function has.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dropin/cli/verbs_sys.h"

#define PCI_FUNCTIONS "/sys/bus/pci/devices"
#define PCI_BUSES     "/sys/class/pci_bus"
#define PCI_RESOURCES 13
#define PCI_TEXT      256

/* Ids of a bridge, which the world does not have: those of QEMU's root port, also not real
 * hardware. */
#define PCI_BRIDGE_VENDOR 0x1b36u
#define PCI_BRIDGE_DEVICE 0x000cu
#define PCI_VENDOR_MLX    0x15b3u

struct pci_function {
	unsigned class, vendor, device, subvendor, subdevice;
	bool bridge;
};

/* Reads a file of the world's tree without its newline. False: the file does not exist. */
static bool pci_text(const char *dir, const char *name, char out[PCI_TEXT])
{
	char path[SYS_PATH], *text;
	size_t bytes;

	sys_path(path, "%s/%s", dir, name);
	if (os_file_read(path, &text, &bytes))
		return false;
	snprintf(out, PCI_TEXT, "%.*s", (int)strcspn(text, "\n"), text);
	os_free(text);
	return true;
}

static unsigned pci_number(const char *dir, const char *name, unsigned otherwise)
{
	char text[PCI_TEXT];

	return pci_text(dir, name, text) ? (unsigned)strtoul(text, NULL, 16) : otherwise;
}

/* Copies each of the world's files in `from`. */
static void pci_copy(struct sys_fill *f, const char *from, const char *dir)
{
	char *names = NULL, text[PCI_TEXT];
	int count = 0;

	if (os_dir_list(from, &names, &count))
		return;
	const char *name = names;

	for (int i = 0; i < count; i++, name += strlen(name) + 1)
		if (pci_text(from, name, text)) /* otherwise it is a folder */
			sys_file(f, dir, name, "%s", text);
	os_free(names);
}

/* Writes the first 64 bytes of the configuration space, which any user may read. */
static void pci_config(struct sys_fill *f, const char *dir, const struct pci_function *p)
{
	const unsigned char config[64] = {
		[0x00] = (unsigned char)p->vendor,
		[0x01] = (unsigned char)(p->vendor >> 8),
		[0x02] = (unsigned char)p->device,
		[0x03] = (unsigned char)(p->device >> 8),
		[0x04] = 0x06, /* memory and bus master */
		[0x09] = (unsigned char)p->class,
		[0x0a] = (unsigned char)(p->class >> 8),
		[0x0b] = (unsigned char)(p->class >> 16),
		[0x0e] = p->bridge,
		[0x2c] = (unsigned char)p->subvendor,
		[0x2d] = (unsigned char)(p->subvendor >> 8),
		[0x2e] = (unsigned char)p->subdevice,
		[0x2f] = (unsigned char)(p->subdevice >> 8),
	};
	char path[SYS_PATH];

	sys_path(path, "%s/config", dir);
	FILE *out = fopen(path, "we");

	if (!out || fwrite(config, sizeof config, 1, out) != 1)
		sys_failed(f, path);
	if (out && fclose(out))
		sys_failed(f, path);
}

static void pci_uevent(struct sys_fill *f, const char *dir, const struct pci_function *p)
{
	char alias[80];

	snprintf(alias, sizeof alias, "pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X", p->vendor,
		 p->device, p->subvendor, p->subdevice, p->class >> 16, p->class >> 8 & 0xff,
		 p->class & 0xff);
	sys_file(f, dir, "modalias", "%s", alias);
	sys_file(f, dir, "uevent",
		 "DRIVER=%s\nPCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\n"
		 "PCI_SLOT_NAME=%s\nMODALIAS=%s",
		 p->bridge ? "pcieport" : "mlx5_core", p->class, p->vendor, p->device, p->subvendor,
		 p->subdevice, strrchr(dir, '/') + 1, alias);
}

static void pci_function_files(struct sys_fill *f, const char *from, const char *dir,
			       const struct pci_function *p)
{
	char lines[PCI_RESOURCES * 57 + 1] = "", *at = lines;
	char link[SYS_PATH];

	pci_copy(f, from, dir);
	sys_file(f, dir, "class", "0x%06x", p->class);
	sys_file(f, dir, "vendor", "0x%04x", p->vendor);
	sys_file(f, dir, "device", "0x%04x", p->device);
	sys_file(f, dir, "subsystem_vendor", "0x%04x", p->subvendor);
	sys_file(f, dir, "subsystem_device", "0x%04x", p->subdevice);
	sys_file(f, dir, "revision", "0x00");
	sys_file(f, dir, "irq", "0");
	sys_file(f, dir, "enable", "1");
	sys_file(f, dir, "local_cpulist", "0-%ld", sysconf(_SC_NPROCESSORS_ONLN) - 1);
	for (int i = 0; i < PCI_RESOURCES; i++)
		at += sprintf(at, "%s0x%016x 0x%016x 0x%016x", i ? "\n" : "", 0, 0, 0);
	sys_file(f, dir, "resource", "%s", lines);
	pci_uevent(f, dir, p);
	pci_config(f, dir, p);
	sys_link(f, dir, "subsystem", "/sys/bus/pci");
	sys_path(link, "../../../%s", dir + strlen("/sys/"));
	sys_link(f, PCI_FUNCTIONS, strrchr(dir, '/') + 1, link);
}

/* Writes the buses of which the world's bridge is the port. */
static void pci_buses(struct sys_fill *f, const char *bridge)
{
	char dir[SYS_PATH], link[SYS_PATH], *names = NULL;
	int count = 0;

	sys_path(dir, "%s/pci_bus", bridge);
	if (os_dir_list(dir, &names, &count))
		return;
	const char *name = names;

	sys_folder(f, bridge, "pci_bus");
	for (int i = 0; i < count; i++, name += strlen(name) + 1) {
		sys_folder(f, dir, name);
		sys_path(link, "../../%s/%s", dir + strlen("/sys/"), name);
		sys_link(f, PCI_BUSES, name, link);
	}
	os_free(names);
}

static void pci_bridge(struct sys_fill *f, const char *dir)
{
	const struct pci_function p = {.class = pci_number(dir, "class", 0x060400),
				       .vendor = pci_number(dir, "vendor", PCI_BRIDGE_VENDOR),
				       .device = pci_number(dir, "device", PCI_BRIDGE_DEVICE),
				       .bridge = true};

	pci_function_files(f, dir, dir, &p);
	pci_buses(f, dir);
}

static void pci_hca(struct sys_fill *f, const char *from, const char *dir,
		    const struct ibv_device_attr *a)
{
	struct pci_function p = {.class = pci_number(from, "class", 0x020000),
				 .vendor = pci_number(from, "vendor", PCI_VENDOR_MLX),
				 .device = pci_number(from, "device", a->vendor_part_id)};
	char text[PCI_TEXT], net[SYS_PATH];

	p.subvendor = pci_number(from, "subsystem_vendor", p.vendor);
	p.subdevice = pci_number(from, "subsystem_device", p.device);
	pci_function_files(f, from, dir, &p);
	sys_file(f, dir, "current_link_speed", "%s",
		 pci_text(from, "max_link_speed", text) ? text : "16.0 GT/s PCIe");
	sys_file(f, dir, "current_link_width", "%s",
		 pci_text(from, "max_link_width", text) ? text : "16");
	sys_folder(f, dir, "net");
	sys_path(net, "%s/net", dir);
	sys_folder(f, net, f->netdev);
}

/* Returns the index of the last slash of a path, `levels` levels up. The path has that many. */
static size_t pci_above(const char *path, int levels)
{
	size_t n = strlen(path);

	while (levels--)
		while (path[--n] != '/')
			;
	return n;
}

/*
 * Chooses the folder of a function. The world gives each function its own bridge, but all functions
 * of one bus belong below one bridge. If the bus is already shown below a sibling of the function's
 * bridge, the function is placed there.
 */
static void pci_place(const char *from, char dir[SYS_PATH])
{
	const char *address = strrchr(from, '/') + 1;
	char bus[SYS_PATH], shown[PATH_MAX];
	size_t above = pci_above(from, 2);

	sys_path(dir, "%s", from);
	sys_path(bus, PCI_BUSES "/%.*s", (int)(strrchr(address, ':') - address), address);
	if (!realpath(bus, shown) || strncmp(shown, from, above + 1))
		return;
	size_t bridge = pci_above(shown, 2); /* BRIDGE/pci_bus/BUS */

	if (pci_above(shown, 3) == above)
		sys_path(dir, "%.*s/%s", (int)bridge, shown, address);
}

void verbs_pci_fill(struct sys_fill *f, const struct world_nic *nic,
		    const struct ibv_device_attr *a, char function[SYS_PATH])
{
	char at[SYS_PATH], from[OS_PATH_BYTES];

	sys_path(at, PCI_FUNCTIONS "/%s", nic->bus_id);
	if (!nic->bus_id[0] || os_real_path(at, from)) {
		sys_path(function, "%s", SYS_VIRTUAL);
		return;
	}
	pci_place(from, function);
	/* /sys/devices/pciDDDD:BB, then bridge by bridge */
	const char *root = function + strlen("/sys/devices/"), *end = root;

	while (end += strcspn(end, "/"), *end) {
		sys_path(at, "%.*s", (int)(end - function), function);
		sys_folder(f, "", at);
		if (strchr(at + (root - function), '/'))
			pci_bridge(f, at);
		end++;
	}
	sys_folder(f, "", function);
	pci_hca(f, from, function, a);
}
