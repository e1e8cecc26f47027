/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The /sys and /proc of a host's kernel, made from the topology file: the PCI tree below
 * /sys/devices with the links into it, NUMA nodes, HCAs, interfaces, /proc/cpuinfo.
 *
 * The file has one element for a PCI switch. A kernel has two bridges: the upstream port, and one
 * downstream port for each device. The root complex has a port, too. Each <pci> of the file
 * therefore becomes two directories: a bridge of a domain that the file does not have, and in it
 * the function itself.
 *
 * /sys/devices/pcieeee:00/eeee:00:00.0/0000:10:00.0/eeee:00:00.1/0000:13:00.0
 *              <cpu>      port         <pci>        port         <pci><gpu>
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/xml.h"
#include "sim/world/machine/files.h"
#include "sim/world/world_internal.h"

#define SYS_DEVICES   "/sys/devices"
#define SYS_FUNCTIONS "/sys/bus/pci/devices"
#define SYS_DEPTH     24 /* deepest nesting: directories of 26 characters fit into a path */

struct sys {
	struct files *f;
	const struct world_machine *m;
	uint32_t domain, ports, roots; /* domain of the bridges; number of ports and roots made */
};

static const char *sys_attr(const struct xml_node *x, const char *name)
{
	const char *text = xml_attr(x, name);
	return text && *text ? text : NULL;
}

/* ---- PCI ------------------------------------------------------------------------------------ */

/* Writes a file of the function: the attribute's text, or `otherwise`. Without both: no file. */
static void sys_function_file(struct sys *s, const char *dir, const char *name,
			      const struct xml_node *x, const char *attr, const char *otherwise)
{
	const char *text = sys_attr(x, attr);
	if (text || otherwise)
		files_put(s->f, dir, name, "%.200s\n", text ? text : otherwise);
}

/* Returns the class of a function whose element has none: a real function always has one. */
static const char *sys_class_of(const struct xml_node *x)
{
	if (xml_child(x, "gpu"))
		return "0x030200";
	if (xml_child(x, "nic"))
		return "0x020000";
	return xml_child(x, "pci") ? "0x060400" : NULL;
}

static void sys_function(struct sys *s, const char *dir, const char *bus, const struct xml_node *x,
			 int32_t numa)
{
	static const char *const id[] = {"vendor", "device", "subsystem_vendor",
					 "subsystem_device"};
	sys_function_file(s, dir, "class", x, "class", sys_class_of(x));
	for (size_t i = 0; i < ARRAY_LEN(id); i++)
		sys_function_file(s, dir, id[i], x, id[i], NULL);
	sys_function_file(s, dir, "max_link_speed", x, "link_speed", NULL);
	sys_function_file(s, dir, "max_link_width", x, "link_width", NULL);
	files_put(s->f, dir, "numa_node", "%d\n", numa);
	files_link(s->f, dir, "subsystem", "/sys/bus/pci");
	files_link(s->f, SYS_FUNCTIONS, bus, dir);
}

/* Writes the bridge above a function, and the bus of which it is the port. */
static void sys_port(struct sys *s, const char *dir, const char *bus, const struct xml_node *x,
		     int32_t numa)
{
	char path[OS_PATH_BYTES], number[24];
	snprintf(number, sizeof number, "%.*s", (int)(strrchr(bus, ':') - bus),
		 bus); /* "0000:13" */
	files_put(s->f, dir, "class", "0x060400\n");
	sys_function_file(s, dir, "max_link_speed", x, "link_speed", NULL);
	sys_function_file(s, dir, "max_link_width", x, "link_width", NULL);
	files_put(s->f, dir, "numa_node", "%d\n", numa);
	if ((size_t)snprintf(path, sizeof path, "%s/pci_bus/%s", dir, number) >= sizeof path)
		return;
	files_dir(s->f, path);
	/* first port of that bus number; the others have no link */
	files_link(s->f, "/sys/class/pci_bus", number, path);
}

static void sys_pci(struct sys *s, const struct xml_node *x, const char *above, int32_t numa,
		    int depth)
{
	char port[OS_PATH_BYTES], dir[OS_PATH_BYTES], bus[24];
	const char *text = sys_attr(x, "busid");
	if (!text || !world_address(text, bus) || depth == SYS_DEPTH)
		return;
	uint32_t n = s->ports++;
	if ((size_t)snprintf(port, sizeof port, "%s/%04x:%02x:%02x.%x", above, s->domain, n >> 8,
			     n >> 3 & 31, n & 7) >= sizeof port)
		return;
	if ((size_t)snprintf(dir, sizeof dir, "%s/%s", port, bus) >= sizeof dir)
		return;
	sys_port(s, port, bus, x, numa);
	sys_function(s, dir, bus, x, numa);
	for (const struct xml_node *c = xml_child(x, "pci"); c; c = xml_next(c, "pci"))
		sys_pci(s, c, dir, numa, depth + 1);
}

/* Writes the target of a GPU's link that the file does not have as a <pci>: a switch or a CPU's
 * bridge. */
static void sys_link_target(struct sys *s, const struct world_nvlink *l, const char *root)
{
	char dir[OS_PATH_BYTES], at[64], found[OS_PATH_BYTES];
	if (!l->target[0] || strncmp(l->target, "fffffff:", 8) == 0)
		return;
	snprintf(at, sizeof at, SYS_FUNCTIONS "/%s", l->target);
	if (files_real_path(s->f, at, found) == 0)
		return;
	snprintf(dir, sizeof dir, "%s/%s", root, l->target);
	if (l->class)
		files_put(s->f, dir, "class", "0x%06x\n", l->class);
	files_put(s->f, dir, "numa_node", "-1\n");
	files_link(s->f, SYS_FUNCTIONS, l->target, dir);
}

/* ---- NICs ----------------------------------------------------------------------------------- */

/* 400000 -> "400", 2500 -> "2.5" */
static void sys_rate(uint64_t mbit, char *out, size_t bytes)
{
	if (mbit % 1000)
		snprintf(out, bytes, "%" PRIu64 ".%" PRIu64, mbit / 1000, mbit % 1000 / 100);
	else
		snprintf(out, bytes, "%" PRIu64, mbit / 1000);
}

static void sys_guid(struct sys *s, const char *dir, const char *name, uint64_t guid)
{
	files_put(s->f, dir, name, "%04x:%04x:%04x:%04x\n", (unsigned)(guid >> 48),
		  (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
		  (unsigned)guid & 0xffff);
}

static void sys_hca(struct sys *s, const struct world_nic *nic, const char *dir)
{
	char port[OS_PATH_BYTES], rate[32];
	sys_guid(s, dir, "node_guid", nic->guid);
	sys_guid(s, dir, "sys_image_guid", nic->guid);
	if ((size_t)snprintf(port, sizeof port, "%s/ports/%u", dir, nic->port) >= sizeof port)
		return;
	sys_rate(nic->mbps * 8, rate, sizeof rate);
	files_put(s->f, port, "state", "4: ACTIVE\n");
	files_put(s->f, port, "phys_state", "5: LinkUp\n");
	files_put(s->f, port, "rate", "%s Gb/sec\n", rate);
}

static void sys_ethernet(struct sys *s, const struct world_nic *nic, const char *dir)
{
	files_put(s->f, dir, "operstate", "up\n");
	files_put(s->f, dir, "speed", "%" PRIu64 "\n", nic->mbps * 8);
}

/* Writes a NIC below its PCI function, or below /sys/devices/virtual if it has none. */
static void sys_nic(struct sys *s, const struct world_nic *nic)
{
	const char *class = nic->is_rdma ? "infiniband" : "net";
	char at[64], device[OS_PATH_BYTES], dir[OS_PATH_BYTES];
	snprintf(at, sizeof at, SYS_FUNCTIONS "/%s", nic->bus_id);
	bool has = nic->bus_id[0] && files_real_path(s->f, at, device) == 0;
	if ((size_t)snprintf(dir, sizeof dir, "%s/%s/%s", has ? device : SYS_DEVICES "/virtual",
			     class, nic->name) >= sizeof dir)
		return;
	if (nic->is_rdma)
		sys_hca(s, nic, dir);
	else
		sys_ethernet(s, nic, dir);
	if (has)
		files_link(s->f, dir, "device", device);
	files_link(s->f, nic->is_rdma ? "/sys/class/infiniband" : "/sys/class/net", nic->name, dir);
}

/* Writes the kernel module through which HCAs access the memory of GPUs. */
static void sys_peer_memory(struct sys *s)
{
	for (int32_t i = 0; i < s->m->nic_count; i++) {
		if (!s->m->nic[i].gdr)
			continue;
		files_add(s->f, "/sys/module/nvidia_peermem/version", "1.0\n");
		files_add(s->f, "/sys/kernel/mm/memory_peers/nv_mem/version", "1.0\n");
		return;
	}
}

/* ---- CPUs ----------------------------------------------------------------------------------- */

static void sys_node(struct sys *s, const struct xml_node *cpu, int32_t numa)
{
	char dir[64];
	const char *affinity = sys_attr(cpu, "affinity");
	if (numa < 0)
		return;
	snprintf(dir, sizeof dir, SYS_DEVICES "/system/node/node%d", numa);
	files_dir(s->f, dir);
	if (affinity)
		files_put(s->f, dir, "cpumap", "%.200s\n", affinity);
}

/* NCCL's family puts the base family and the extended family of CPUID side by side. A kernel adds
 * them. A number that CPUID cannot produce is already a kernel's. */
static int64_t sys_family(int64_t id)
{
	return id < 15 || (id - 15) % 16 ? id : 15 + (id - 15) / 16;
}

static void sys_cpuinfo(struct sys *s, const struct xml_node *cpu)
{
	const char *arch = cpu ? sys_attr(cpu, "arch") : NULL;
	const char *vendor = cpu ? sys_attr(cpu, "vendor") : NULL;
	struct xml_error error;
	int64_t family, model;
	if (arch && strcmp(arch, "arm64") == 0) {
		files_add(s->f, "/proc/cpuinfo",
			  "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\n");
		return;
	}
	if (arch && strcmp(arch, "ppc64") == 0) {
		files_add(s->f, "/proc/cpuinfo", "processor\t: 0\ncpu\t\t: POWER9\n");
		return;
	}
	if (!cpu || xml_attr_i64(cpu, "familyid", 0, &family, &error) ||
	    xml_attr_i64(cpu, "modelid", 0, &model, &error))
		family = model = 0;
	files_put(s->f, "/proc", "cpuinfo",
		  "processor\t: 0\n%s%.60s%scpu family\t: %" PRId64 "\nmodel\t\t: %" PRId64
		  "\nflags\t\t: lm\n",
		  vendor ? "vendor_id\t: " : "", vendor ? vendor : "", vendor ? "\n" : "",
		  sys_family(family), model);
}

static int32_t sys_numa(const struct xml_node *cpu)
{
	struct xml_error error;
	int64_t numa;
	return xml_attr_i64(cpu, "numaid", -1, &numa, &error) ? -1 : (int32_t)numa;
}

static void sys_cpu(struct sys *s, const struct xml_node *cpu)
{
	char root[OS_PATH_BYTES];
	int32_t numa = sys_numa(cpu);
	sys_node(s, cpu, numa);
	snprintf(root, sizeof root, SYS_DEVICES "/pci%04x:%02x", s->domain, s->roots++);
	for (const struct xml_node *c = xml_child(cpu, "pci"); c; c = xml_next(c, "pci"))
		sys_pci(s, c, root, numa, 0);
}

/* ---- all ------------------------------------------------------------------------------------ */

/* Returns a domain that no address of the text has. */
static uint32_t sys_free_domain(const char *xml)
{
	char text[8];
	uint32_t domain = 0xeeee;
	for (;; domain--) {
		snprintf(text, sizeof text, "%04x:", domain);
		if (!strcasestr(xml, text))
			return domain;
	}
}

static void sys_fill(struct sys *s, const struct xml_node *root)
{
	char links[64];
	for (const struct xml_node *c = xml_child(root, "cpu"); c; c = xml_next(c, "cpu"))
		sys_cpu(s, c);
	snprintf(links, sizeof links, SYS_DEVICES "/pci%04x:%02x", s->domain, s->roots);
	for (int32_t i = 0; i < s->m->nvlink_count; i++)
		sys_link_target(s, &s->m->nvlink[i], links);
	for (int32_t i = 0; i < s->m->nic_count; i++)
		sys_nic(s, &s->m->nic[i]);
	world_sys_kfd(s->f, s->m, (int32_t)s->roots);
	sys_peer_memory(s);
	sys_cpuinfo(s, xml_child(root, "cpu"));
	/* empty: host.c answers reads of these for each host */
	files_add(s->f, "/proc/sys/kernel/hostname", "");
	files_add(s->f, "/proc/sys/kernel/random/boot_id", "");
	files_add(s->f, WORLD_TOPO_PATH, "");
}

struct files *world_sys_make(const struct world_machine *m)
{
	struct sys s = {.f = files_new(), .m = m, .domain = sys_free_domain(m->xml)};
	struct xml_doc *doc = NULL;
	struct xml_error error;
	int rc = s.f ? xml_parse(m->xml, m->xml_bytes, m->path, &doc, &error) : ENOMEM;
	if (!rc)
		sys_fill(&s, xml_root(doc));
	xml_free(doc);
	if (!rc && files_ok(s.f))
		return s.f;
	files_free(s.f);
	return NULL;
}
