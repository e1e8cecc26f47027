/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PCI functions and CPUs. A function's real path in /sys is its place in the tree:
 *
 *	/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0
 *	             root       port         switch: up    down         the function
 *
 * A switch is represented by its upstream port, two directories above the functions below it. A
 * function next to the root is below the CPU whose number is the function's numa_node.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/pci_address.h"
#include "core/topo/detect/detect_internal.h"
#include "core/topo/topo_internal.h"

#define DETECT_MAX_SWITCHES 24 /* nested switches; the reader's depth has room for them */
#define DETECT_MAX_NUMA     4095

/* ---- reading -------------------------------------------------------------------------------- */

bool detect_read(struct detect_tree *t, const char *dir, const char *name,
		 char out[DETECT_TEXT_BYTES])
{
	char path[OS_PATH_BYTES], *text = NULL;
	size_t bytes = 0, n;
	out[0] = '\0';
	if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
		return false;
	int e = os_file_read(path, &text, &bytes);
	t->failed |= e == ENOMEM;
	if (e)
		return false;
	n = strcspn(text, "\n");
	while (n && text[n - 1] == ' ')
		n--;
	snprintf(out, DETECT_TEXT_BYTES, "%.*s", (int)MIN_OF(n, (size_t)DETECT_TEXT_BYTES), text);
	os_free(text);
	for (char *p = out; *p; p++)
		if (*p < ' ' || *p >= 0x7f)
			*p = '?';
	return out[0] != '\0';
}

static bool detect_real_path(struct detect_tree *t, const char *path, char out[OS_PATH_BYTES])
{
	int e = os_real_path(path, out);
	t->failed |= e == ENOMEM;
	return e == 0;
}

bool detect_is_bus_id(const char *text)
{
	char canonical[PCI_ADDRESS_TEXT];
	uint64_t bus;
	if (!pci_address_is_whole(text) || !pci_address_parse(text, &bus))
		return false;
	pci_address_text(bus, canonical);
	return strcmp(text, canonical) == 0;
}

static const char *detect_last(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Finds the function by its bus or, if several buses have that number, by its own address. */
bool detect_pci_path(struct detect_tree *t, const char *bus_id, char path[OS_PATH_BYTES])
{
	char at[128];
	if (!detect_is_bus_id(bus_id))
		return false;
	snprintf(at, sizeof at, "/sys/class/pci_bus/%.*s/../../%s",
		 (int)(strrchr(bus_id, ':') - bus_id), bus_id, bus_id);
	if (detect_real_path(t, at, path) && strcmp(detect_last(path), bus_id) == 0)
		return true;
	snprintf(at, sizeof at, "/sys/bus/pci/devices/%s", bus_id);
	return detect_real_path(t, at, path) && strcmp(detect_last(path), bus_id) == 0;
}

/* ---- CPUs ----------------------------------------------------------------------------------- */

/* Copies the value after "NAME\t: " in /proc/cpuinfo; false: no line of that name. */
static bool detect_cpu_line(const char *info, const char *name, char *out, size_t bytes)
{
	size_t n = strlen(name);
	for (const char *line = info; *line; line += line[0] == '\n') {
		size_t length = strcspn(line, "\n"), colon = strcspn(line, ":");
		if (colon < length && strncmp(line, name, n) == 0 && strchr("\t :", line[n])) {
			const char *value = line + colon + 1;
			/* Skips one blank only: the vendor "  Shanghai  " begins with more. */
			value += *value == ' ';
			snprintf(out, bytes, "%.*s", (int)(line + length - value), value);
			return true;
		}
		line += length;
	}
	return false;
}

/* Converts the kernel's family, the sum of two CPUID fields, to NCCL's, which has them side by
 * side. */
static int32_t detect_cpu_family(int32_t family)
{
	return family < 15 ? family : 15 + ((family - 15) << 4);
}

static void detect_cpu_x86(struct detect_tree *t, struct detect_node *cpu, const char *info)
{
	char text[64];
	detect_set(t, cpu, "arch", "x86_64");
	if (detect_cpu_line(info, "vendor_id", text, sizeof text))
		detect_set(t, cpu, "vendor", text);
	if (detect_cpu_line(info, "cpu family", text, sizeof text))
		detect_setf(t, cpu, "familyid", "%d",
			    detect_cpu_family((int32_t)(strtol(text, NULL, 10) & 0xfff)));
	if (detect_cpu_line(info, "model", text, sizeof text))
		detect_setf(t, cpu, "modelid", "%d", (int)(strtol(text, NULL, 10) & 0xfff));
}

/* Sets the CPU's kind from the first lines: all CPUs of a host are alike. */
static void detect_cpu_kind(struct detect_tree *t, struct detect_node *cpu)
{
	char *info = NULL, text[64];
	size_t bytes = 0;
	int e = os_file_read("/proc/cpuinfo", &info, &bytes);
	t->failed |= e == ENOMEM;
	if (e)
		return;
	if (detect_cpu_line(info, "CPU implementer", text, sizeof text))
		detect_set(t, cpu, "arch", "arm64");
	else if (detect_cpu_line(info, "cpu", text, sizeof text) && strncmp(text, "POWER", 5) == 0)
		detect_set(t, cpu, "arch", "ppc64");
	else if (detect_cpu_line(info, "flags", text, sizeof text) ||
		 detect_cpu_line(info, "vendor_id", text, sizeof text))
		detect_cpu_x86(t, cpu, info);
	os_free(info);
}

struct detect_node *detect_cpu(struct detect_tree *t, uint64_t host_hash, int32_t numa)
{
	char number[16], dir[64], map[DETECT_TEXT_BYTES];
	snprintf(number, sizeof number, "%d", numa);
	struct detect_node *cpu = detect_find(t->root, "cpu", "numaid", number);
	if (!cpu)
		cpu = detect_node_add(t, t->root, "cpu");
	detect_setf(t, cpu, "host_hash", "0x%" PRIx64, host_hash);
	detect_set(t, cpu, "numaid", number);
	snprintf(dir, sizeof dir, "/sys/devices/system/node/node%d", numa);
	if (numa >= 0 && !detect_get(cpu, "affinity") && detect_read(t, dir, "cpumap", map))
		detect_set(t, cpu, "affinity", map);
	if (!detect_get(cpu, "arch"))
		detect_cpu_kind(t, cpu);
	return cpu;
}

/* Returns the function's NUMA node; -1: absent or impossible. */
static int32_t detect_numa(struct detect_tree *t, const char *path)
{
	char text[DETECT_TEXT_BYTES], *end = text;
	long numa = detect_read(t, path, "numa_node", text) ? strtol(text, &end, 10) : -1;
	return end == text || *end || numa < 0 || numa > DETECT_MAX_NUMA ? -1 : (int32_t)numa;
}

void detect_cpus(struct detect_tree *t, uint64_t host_hash)
{
	char *names = NULL;
	int count = 0, seen = 0;
	int e = os_dir_list("/sys/devices/system/node", &names, &count);
	const char *name = names;
	t->failed |= e == ENOMEM;
	for (int i = 0; !e && i < count; i++, name += strlen(name) + 1) {
		char *end;
		if (strncmp(name, "node", 4) != 0 || name[4] < '0' || name[4] > '9')
			continue;
		long numa = strtol(name + 4, &end, 10);
		if (*end || numa > DETECT_MAX_NUMA || seen == TOPO_MAX_CPUS)
			continue;
		detect_set(t, detect_cpu(t, host_hash, (int32_t)numa), "keep", "1");
		seen++;
	}
	if (!e)
		os_free(names);
	if (!seen)
		detect_set(t, detect_cpu(t, host_hash, -1), "keep", "1");
}

/* ---- PCI ------------------------------------------------------------------------------------ */

/* Returns thousandths of GT/s; 0: the text does not begin with a number. */
static long detect_speed(const char *text)
{
	char *end;
	long whole = strtol(text, &end, 10), milli = 0;
	if (end == text || whole < 0 || whole > 100000)
		return 0;
	if (*end == '.')
		for (int scale = 100; scale && *++end >= '0' && *end <= '9'; scale /= 10)
			milli += (*end - '0') * scale;
	return whole * 1000 + milli;
}

/* Sets the link to the maximum that the function and the port above it both support. */
static void detect_pci_link(struct detect_tree *t, struct detect_node *n, const char *path)
{
	char port[OS_PATH_BYTES], own[DETECT_TEXT_BYTES], above[DETECT_TEXT_BYTES];
	snprintf(port, sizeof port, "%.*s", (int)(detect_last(path) - path - 1), path);
	if (!detect_get(n, "link_speed")) {
		(void)detect_read(t, path, "max_link_speed", own);
		(void)detect_read(t, port, "max_link_speed", above);
		long a = detect_speed(own), b = detect_speed(above);
		detect_set(t, n, "link_speed", b && (!a || b < a) ? above : own);
	}
	if (!detect_get(n, "link_width")) {
		(void)detect_read(t, path, "max_link_width", own);
		(void)detect_read(t, port, "max_link_width", above);
		long a = strtol(own, NULL, 10), b = strtol(above, NULL, 10);
		a = MIN_OF(a, b); /* an absent width counts as 0, which is "unknown" */
		detect_setf(t, n, "link_width", "%ld", a > 0 && a <= 255 ? a : 0);
	}
}

/* True if the text is a number like "0x10de". The reader would refuse any other text. */
static bool detect_is_number(const char *text)
{
	char *end;
	(void)strtoul(text, &end, 16);
	return strncmp(text, "0x", 2) == 0 && end > text + 2 && end <= text + 10 && !*end;
}

static void detect_pci_describe(struct detect_tree *t, struct detect_node *n, const char *path)
{
	static const char file[][20] = {"class", "vendor", "device", "subsystem_vendor",
					"subsystem_device"};
	char text[DETECT_TEXT_BYTES];
	for (size_t i = 0; i < ARRAY_LEN(file); i++)
		if (!detect_get(n, file[i]) && detect_read(t, path, file[i], text) &&
		    detect_is_number(text))
			detect_set(t, n, file[i], text);
	detect_pci_link(t, n, path);
}

/* Removes the last name. False: the remaining path is not a PCI function. */
static bool detect_up(char *path)
{
	char *slash = strrchr(path, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return detect_is_bus_id(detect_last(path));
}

static struct detect_node *detect_pci_get(struct detect_tree *t, const char *bus_id, bool *known)
{
	struct detect_node *n = detect_find(t->root, "pci", "busid", bus_id);
	*known = n != NULL;
	if (!n) {
		n = detect_node_new(t, "pci");
		detect_set(t, n, "busid", bus_id);
	}
	return n;
}

struct detect_node *detect_pci(struct detect_tree *t, uint64_t host_hash, const char *bus_id)
{
	char path[OS_PATH_BYTES];
	bool known, has = detect_pci_path(t, bus_id, path);
	struct detect_node *first = detect_pci_get(t, bus_id, &known), *n = first;
	int32_t numa = -1;
	if (has)
		detect_pci_describe(t, n, path);
	for (int depth = 0; has && !known && !t->failed && !t->full; depth++) {
		numa = detect_numa(t, path);
		has = depth < DETECT_MAX_SWITCHES && detect_up(path) && detect_up(path);
		if (!has)
			break;
		/* Stops if the path contains one function twice. */
		if (detect_find(first, "pci", "busid", detect_last(path)))
			break;
		struct detect_node *above = detect_pci_get(t, detect_last(path), &known);
		detect_pci_describe(t, above, path);
		detect_node_place(above, n);
		n = above;
	}
	if (!known || n->parent == NULL)
		detect_node_place(detect_cpu(t, host_hash, numa), n);
	return first;
}
