/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Machines: reads an NCCL topology XML for the properties of a host's GPUs and NICs that the
 * doubles need. Dumps of real machines are read unchanged: GPUs and NICs may be bare PCI leaves
 * without a tag, and attributes may be absent. core/topo reads the same text separately, as a rank
 * on the host does.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/gfx.h"
#include "core/base/param.h"
#include "core/base/pci_address.h"
#include "core/base/xml.h"
#include "core/os/os_ops.h"
#include "sim/world/machine/installed.h"
#include "sim/world/world_internal.h"

#define MACHINE_MAX_GPUS 256
#define MACHINE_MAX_NICS 256
#define MACHINE_MAX_CPUS 64

#define PCI_VENDOR_NVIDIA    0x10de
#define PCI_VENDOR_MELLANOX  0x15b3
#define PCI_CLASS_GPU_3D     0x0302
#define PCI_CLASS_GPU_VGA    0x0300
#define PCI_CLASS_ETHERNET   0x0200
#define PCI_CLASS_INFINIBAND 0x0207
#define PCI_CLASS_BRIDGE     0x0680

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

/* Returns the NVLink bandwidth per link and direction in MB/s, by compute capability: NCCL 2.28's
 * numbers. */
static uint64_t machine_nvlink_mbps(uint32_t sm)
{
	return sm >= 100 ? 40100 : sm >= 90 ? 20600 : sm == 86 ? 12000 : sm >= 70 ? 20000 : 18000;
}

/* Returns the compute capability of a GPU that the file only names by PCI device. */
static uint32_t machine_sm_of(uint32_t device)
{
	switch (device >> 8) {
	case 0x1d:
		return 70;
	case 0x22:
	case 0x24:
	case 0x25:
		return 86;
	case 0x23:
		return 90;
	case 0x26:
	case 0x27:
		return 89;
	case 0x29:
		return 100;
	default:
		return 80;
	}
}

/* Computes the PCI bandwidth: width x speed / 80. Speed is 60 for 8 GT/s, 120 for 16 GT/s, and
 * doubles with each generation. */
static int machine_pci_mbps(const struct xml_node *pci, uint64_t *mbps, struct xml_error *error)
{
	int64_t speed_milli = 16000, width;
	const char *speed_text = xml_attr(pci, "link_speed");
	int rc = 0;
	/* The kernel writes "Unknown" for a link whose speed it cannot read, as in a virtual
	 * machine: any text is accepted. */
	if (speed_text && xml_attr_milli(pci, "link_speed", "GT/s", 16000, &speed_milli, error))
		speed_milli = 16000;
	if (rc == 0)
		rc = xml_attr_i64(pci, "link_width", 16, &width, error);
	if (rc)
		return rc;
	if (width <= 0 || width > 64)
		width = 16;
	/* below 8 GT/s: 8b/10b coding, 6 per GT/s; from 8 GT/s on: 7.5 */
	uint64_t speed = speed_milli >= 8000 ? (uint64_t)speed_milli * 75 / 10000
					     : (uint64_t)MAX_OF(speed_milli, 0) * 6 / 1000;
	*mbps = MAX_OF((uint64_t)width * speed * 1000 / 80, 1u); /* 0 would mean no limit */
	return 0;
}

static int machine_pci_id(const struct xml_node *pci, const char *attr, uint32_t *id,
			  struct xml_error *error)
{
	uint64_t v;
	int rc = xml_attr_u64(pci, attr, 0, &v, error);
	if (rc == 0 && v > 0xffffff)
		rc = xml_error_at(pci, error, "attribute '%s' is '%.64s', expected at most 24 bits",
				  attr, xml_attr(pci, attr));
	if (rc == 0)
		*id = (uint32_t)v;
	return rc;
}

bool world_address(const char *text, char out[24])
{
	uint64_t number;

	memset(out, 0, 24);
	if (!pci_address_parse(text, &number) || strlen(text) >= 24)
		return false;
	if (!pci_address_is_whole(text))
		pci_address_text(number, out);
	for (int i = 0; text[i] && pci_address_is_whole(text); i++)
		out[i] = (char)tolower((unsigned char)text[i]);
	return true;
}

static int machine_bus_id(const struct xml_node *pci, char out[24], struct xml_error *error)
{
	const char *text = pci ? xml_attr(pci, "busid") : NULL;

	memset(out, 0, 24);
	if (!text || world_address(text, out))
		return 0;
	return xml_error_at(pci, error,
			    "attribute 'busid' is '%.64s', expected a PCI address such as "
			    "0000:13:00.0",
			    text);
}

static int machine_small_int(const struct xml_node *n, const char *attr, int64_t initial,
			     int64_t min, int64_t max, int32_t *out, struct xml_error *error)
{
	int64_t v;
	int rc = xml_attr_i64(n, attr, initial, &v, error);
	if (rc == 0 && (v < min || v > max))
		rc = xml_error_at(n, error, "attribute '%s' is '%.64s', expected %lld to %lld",
				  attr, xml_attr(n, attr), (long long)min, (long long)max);
	if (rc == 0)
		*out = (int32_t)v;
	return rc;
}

/* ---- GPUs ----------------------------------------------------------------------------------- */

static int machine_link_keep(struct world_machine *m, const char *target, uint32_t count,
			     uint32_t class)
{
	struct world_nvlink *l =
		realloc(m->nvlink, ((size_t)m->nvlink_count + 1) * sizeof *m->nvlink);
	if (!l)
		return ENOMEM;
	m->nvlink = l;
	l += m->nvlink_count++;
	*l = (struct world_nvlink){.count = count, .class = class};
	if (target && world_address(target, l->target))
		return 0;
	for (size_t i = 0; target && target[i] && i + 1 < sizeof l->target; i++)
		l->target[i] = (char)tolower((unsigned char)target[i]);
	return 0;
}

static int machine_link_read(struct machine_reader *r, const struct xml_node *l,
			     struct world_gpu *g)
{
	int32_t count;
	uint32_t class;
	int rc = machine_small_int(l, "count", 1, 0, 1024, &count, &r->error);
	if (rc == 0)
		rc = machine_pci_id(l, "tclass", &class, &r->error);
	if (rc)
		return rc;
	const char *target = xml_attr(l, "target");
	g->nvlinks += (uint32_t)count;
	g->nvlink_count++;
	g->nvswitch |=
		class >> 8 == PCI_CLASS_BRIDGE || (target && strncmp(target, "fffffff:", 8) == 0);
	rc = machine_link_keep(r->m, target, (uint32_t)count, class);
	if (rc == 0)
		r->m->nvlink[r->m->nvlink_count - 1].xgmi = strcmp(l->name, "xgmi") == 0;
	return rc;
}

static int machine_c2c_read(const struct xml_node *c, struct world_gpu *g, struct xml_error *error)
{
	int32_t count, mbps;
	int rc = machine_small_int(c, "count", 1, 0, 64, &count, error);
	if (rc == 0)
		rc = machine_small_int(c, "bw", 0, 0, 10000000, &mbps, error);
	if (rc == 0) {
		g->c2c = (uint32_t)count;
		g->c2c_mbps = (uint32_t)mbps;
	}
	return rc;
}

static int machine_links_read(struct machine_reader *r, const struct xml_node *gpu,
			      struct world_gpu *g)
{
	int rc = 0;
	g->first_nvlink = r->m->nvlink_count;
	for (const struct xml_node *l = gpu->child; l && !rc; l = l->next) {
		if (strcmp(l->name, "nvlink") == 0 || strcmp(l->name, "xgmi") == 0)
			rc = machine_link_read(r, l, g);
		else if (strcmp(l->name, "c2c") == 0)
			rc = machine_c2c_read(l, g, &r->error);
	}
	g->nvlink_mbps = g->nvlinks * machine_nvlink_mbps(g->sm);
	return rc;
}

/* Stores the present speed and width of the PCI link if a driver could report them. */
static void machine_pci_link(const struct xml_node *pci, struct world_gpu *g)
{
	static const int64_t generation[] = {2500, 5000, 8000, 16000, 32000, 64000};
	struct xml_error error;
	int64_t speed, width;
	if (xml_attr_milli(pci, "link_speed", "GT/s", 0, &speed, &error))
		speed = 0;
	if (xml_attr_i64(pci, "link_width", 0, &width, &error))
		width = 0;
	for (uint32_t i = 0; i < ARRAY_LEN(generation); i++)
		if (speed == generation[i])
			g->pci_generation = i + 1;
	g->pci_width = width > 0 && width <= 32 ? (uint32_t)width : 0;
}

/* Adds a GPU. `tag` is its <gpu> element; NULL: a bare PCI function. */
static int machine_gpu_add(struct machine_reader *r, const struct xml_node *tag,
			   const struct machine_place *at)
{
	struct world_machine *m = r->m;
	const struct xml_node *here = tag ? tag : at->pci;
	if (m->gpu_count == MACHINE_MAX_GPUS)
		return xml_error_at(here, &r->error, "is one GPU too many, expected at most %d",
				    MACHINE_MAX_GPUS);
	struct world_gpu *g = &m->gpu[m->gpu_count];
	uint32_t device = 0, vendor = 0;
	int32_t sm = 0, gdr = 1, half = -1;
	*g = (struct world_gpu){.dev = m->gpu_count, .host = at->host, .numa = at->numa};
	int rc = machine_bus_id(at->pci, g->bus_id, &r->error);
	if (rc == 0 && !g->bus_id[0])
		rc = xml_error_at(here, &r->error,
				  "is a GPU without a PCI address, expected it in a <pci> with a "
				  "busid such as 0000:13:00.0");
	if (rc == 0)
		rc = machine_pci_id(at->pci, "device", &device, &r->error);
	if (rc == 0)
		rc = machine_pci_id(at->pci, "vendor", &vendor, &r->error);
	if (rc == 0)
		rc = machine_pci_mbps(at->pci, &g->pci_mbps, &r->error);
	if (rc == 0 && tag)
		rc = machine_small_int(tag, "dev", g->dev, 0, INT32_MAX, &g->dev, &r->error);
	if (rc == 0 && tag)
		rc = machine_small_int(tag, "sm", 0, 0, 1000, &sm, &r->error);
	if (rc == 0 && tag)
		rc = machine_small_int(tag, "gdr", 1, 0, 1, &gdr, &r->error);
	if (rc == 0 && tag)
		rc = machine_small_int(tag, "mlopart", -1, -1, 1, &half, &r->error);
	if (rc)
		return rc;
	const char *gcn = tag ? xml_attr(tag, "gcn") : NULL;

	if (gcn && !gfx_parse(gcn, &g->gfx))
		g->gfx = 0; /* the stack ignores it, too */
	g->half = half + 1;
	g->pci_device = (device & 0xffff) << 16 | (vendor ? vendor & 0xffff : PCI_VENDOR_NVIDIA);
	g->sm = sm ? (uint32_t)sm : machine_sm_of(device);
	g->gdr = gdr != 0;
	machine_pci_link(at->pci, g);
	if (tag)
		rc = machine_links_read(r, tag, g);
	if (rc == 0)
		m->gpu_count++;
	return rc;
}

/* ---- NICs ----------------------------------------------------------------------------------- */

static int machine_nic_room(struct machine_reader *r, const struct xml_node *here)
{
	if (r->m->nic_count < MACHINE_MAX_NICS)
		return 0;
	return xml_error_at(here, &r->error, "is one NIC too many, expected at most %d",
			    MACHINE_MAX_NICS);
}

/* True if a port of an HCA was already read: it may be below two CPUs, one for each rank that saw
 * it. */
static bool machine_net_is_seen(const struct machine_reader *r, const struct world_nic *n)
{
	for (int32_t i = 0; i < r->m->nic_count; i++)
		if (r->m->nic[i].host == n->host && r->m->nic[i].dev == n->dev &&
		    r->m->nic[i].port == n->port && strcmp(r->m->nic[i].name, n->name) == 0)
			return true;
	return false;
}

/* Refuses a name and port that an earlier HCA has. Only different ports of one HCA may share a
 * name. */
static int machine_net_is_new(struct machine_reader *r, const struct xml_node *net,
			      const struct world_nic *n)
{
	for (int32_t i = 0; i < r->m->nic_count; i++) {
		const struct world_nic *other = &r->m->nic[i];
		if (n->host == other->host && n->is_rdma && other->is_rdma &&
		    !strcmp(n->name, other->name) && n->port == other->port)
			return xml_error_at(net, &r->error,
					    "has name '%s' and port %u, which an earlier <net> "
					    "has; expected another name or port",
					    n->name, n->port);
	}
	return 0;
}

/* Copies an attribute that the double of the HCA reads. */
static int machine_net_text(const struct xml_node *net, const char *attr, char *out, size_t bytes,
			    struct xml_error *error)
{
	const char *text = xml_attr(net, attr);

	if (text && strlen(text) >= bytes)
		return xml_error_at(net, error,
				    "attribute '%s' is '%.64s', expected at most %zu characters",
				    attr, text, bytes - 1);
	snprintf(out, bytes, "%s", text ? text : "");
	return 0;
}

/* Checks that the attribute has a value that the variable p may have. */
static int machine_net_value(const struct xml_node *net, const char *attr, int p, const char *value,
			     struct xml_error *error)
{
	char expected[PARAM_EXPECTED_BYTES];

	if (param_allows(p, value, expected, sizeof expected))
		return 0;
	return xml_error_at(net, error, "attribute '%s' is '%.64s', expected %s", attr, value,
			    expected);
}

/* Checks the name of a device or of a merged NIC: the names of its devices, joined by '+'. */
static int machine_net_name(const struct xml_node *net, struct xml_error *error)
{
	const char *name = xml_attr(net, "name");
	size_t most = sizeof((struct world_nic *)0)->name - 1;

	if (!name)
		return 0;
	for (const char *at = name;; at++) {
		size_t n = strcspn(at, "+");

		if (!n || n > most || memchr(at, '/', n))
			return xml_error_at(net, error,
					    "attribute 'name' is '%.64s', expected 1 to %zu "
					    "characters, no slash",
					    name, most);
		at += n;
		if (!*at)
			return 0;
	}
}

static bool machine_net_has(const struct machine_reader *r, int32_t host, const char *name)
{
	for (int32_t i = 0; i < r->m->nic_count; i++)
		if (r->m->nic[i].host == host && strcmp(r->m->nic[i].name, name) == 0)
			return true;
	return false;
}

/* Adds the devices of a merged NIC that the machine lacks: a dump can have the merged NIC alone.
 * `merged` is in the next free slot of m->nic and is not counted yet. */
static int machine_net_split(struct machine_reader *r, const struct xml_node *net,
			     struct world_nic merged)
{
	const char *at = xml_attr(net, "name");
	uint64_t parts = 1;

	for (const char *c = at; *c; c++)
		parts += *c == '+';
	merged.mbps = MAX_OF(merged.mbps / parts, 1u);
	for (uint64_t i = 0; i < parts; i++) {
		size_t n = strcspn(at, "+");

		snprintf(merged.name, sizeof merged.name, "%.*s", (int)n, at);
		at += n + (at[n] == '+');
		if (machine_net_has(r, merged.host, merged.name))
			continue;
		if (machine_nic_room(r, net))
			return EINVAL;
		merged.dev = r->m->nic_count;
		r->m->nic[r->m->nic_count++] = merged;
	}
	return 0;
}

static int machine_net_add(struct machine_reader *r, const struct xml_node *net,
			   const struct machine_place *at)
{
	int rc = machine_nic_room(r, net);
	if (rc)
		return rc;
	struct world_nic *n = &r->m->nic[r->m->nic_count];
	int32_t speed = 0, port = 1, gdr = 0;
	*n = (struct world_nic){.dev = r->m->nic_count, .host = at->host, .numa = at->numa};
	const char *name = xml_attr(net, "name");
	rc = machine_net_name(net, &r->error);
	if (rc == 0)
		rc = machine_small_int(net, "dev", n->dev, 0, INT32_MAX, &n->dev, &r->error);
	if (rc == 0)
		rc = machine_small_int(net, "speed", 10000, -1, INT32_MAX, &speed, &r->error);
	if (rc == 0)
		rc = machine_small_int(net, "port", 1, 0, 255, &port, &r->error);
	if (rc == 0)
		rc = machine_small_int(net, "gdr", 0, 0, 1, &gdr, &r->error);
	if (rc == 0)
		rc = xml_attr_u64(net, "guid", 0, &n->guid, &r->error);
	if (rc == 0)
		rc = machine_bus_id(at->pci, n->bus_id, &r->error);
	if (rc == 0)
		rc = machine_net_text(net, "personality", n->personality, sizeof n->personality,
				      &r->error);
	if (rc == 0)
		rc = machine_net_value(net, "personality", PARAM_DOPPEL_HCA_PERSONALITY,
				       n->personality, &r->error);
	if (rc == 0)
		rc = machine_net_text(net, "pkeys", n->pkeys, sizeof n->pkeys, &r->error);
	if (rc == 0)
		rc = machine_net_value(net, "pkeys", PARAM_DOPPEL_HCA_PKEYS, n->pkeys, &r->error);
	if (rc)
		return rc;
	if (name)
		snprintf(n->name, sizeof n->name, "%.*s", (int)sizeof n->name - 1, name);
	else
		snprintf(n->name, sizeof n->name, "net%d", n->dev);
	n->port = port ? (uint32_t)port : 1;
	n->mbps = speed > 0 ? MAX_OF((uint64_t)speed / 8, 1u) : 1250; /* 0 would mean no limit */
	n->gdr = gdr != 0;
	n->is_rdma = strncmp(n->name, "eth", 3) != 0 && (gdr || n->guid);
	if (name && strchr(name, '+'))
		return machine_net_split(r, net, *n);
	if (n->is_rdma && machine_net_is_seen(r, n))
		return 0;
	rc = machine_net_is_new(r, net, n);
	if (rc == 0)
		r->m->nic_count++;
	return rc;
}

/* Adds a bare PCI function that is an HCA: mlx5_0, mlx5_1... at 200 Gb/s. */
static int machine_hca_add(struct machine_reader *r, const struct machine_place *at)
{
	int rc = machine_nic_room(r, at->pci);
	if (rc)
		return rc;
	struct world_nic *n = &r->m->nic[r->m->nic_count];
	*n = (struct world_nic){.dev = r->m->nic_count,
				.host = at->host,
				.numa = at->numa,
				.port = 1,
				.mbps = 25000,
				.gdr = true,
				.is_rdma = true};
	rc = machine_bus_id(at->pci, n->bus_id, &r->error);
	if (rc)
		return rc;
	snprintf(n->name, sizeof n->name, "mlx5_%d", r->hcas++);
	r->m->nic_count++;
	return 0;
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* Recognizes a PCI function without children by its class and vendor. */
static int machine_leaf_add(struct machine_reader *r, const struct machine_place *at)
{
	uint32_t class, vendor;
	int rc = machine_pci_id(at->pci, "class", &class, &r->error);
	if (rc == 0)
		rc = machine_pci_id(at->pci, "vendor", &vendor, &r->error);
	if (rc)
		return rc;
	class >>= 8;
	if (class == PCI_CLASS_GPU_3D ||
	    (class == PCI_CLASS_GPU_VGA && vendor == PCI_VENDOR_NVIDIA))
		return machine_gpu_add(r, NULL, at);
	if (class == PCI_CLASS_INFINIBAND ||
	    (class == PCI_CLASS_ETHERNET && vendor == PCI_VENDOR_MELLANOX))
		return machine_hca_add(r, at);
	return 0;
}

/* Returns the host of a CPU by its host_hash. A CPU without one belongs to the previous CPU's
 * host. */
static int32_t machine_host(struct machine_reader *r, const struct xml_node *cpu)
{
	const char *text = xml_attr(cpu, "host_hash");
	uint64_t hash = text ? strtoull(text, NULL, 16) : 0;
	int32_t host = 0;

	if (!text && r->cpus)
		return r->host_of[r->cpus - 1];
	while (host < r->m->hosts && r->host_hash[host] != hash)
		host++;
	if (host == r->m->hosts && host < MACHINE_MAX_CPUS)
		r->host_hash[r->m->hosts++] = hash;
	return host;
}

static int machine_cpu_read(struct machine_reader *r, const struct xml_node *cpu, int32_t *host,
			    int32_t *numa)
{
	int rc = machine_small_int(cpu, "numaid", -1, -1, INT32_MAX, numa, &r->error);
	*host = machine_host(r, cpu);
	for (int32_t i = 0; i < r->cpus && !rc && *numa >= 0; i++)
		if (r->numa[i] == *numa && r->host_of[i] == *host)
			rc = xml_error_at(cpu, &r->error,
					  "has numaid '%d', which an earlier <cpu> has; expected "
					  "another one",
					  *numa);
	if (!rc && r->cpus == MACHINE_MAX_CPUS)
		rc = xml_error_at(cpu, &r->error, "is one CPU too many, expected at most %d",
				  MACHINE_MAX_CPUS);
	if (!rc) {
		r->host_of[r->cpus] = *host;
		r->numa[r->cpus++] = *numa;
	}
	return rc;
}

static int machine_node_read(struct machine_reader *r, const struct xml_node *n,
			     struct machine_place at)
{
	if (strcmp(n->name, "gpu") == 0)
		return machine_gpu_add(r, n, &at);
	if (strcmp(n->name, "net") == 0)
		return machine_net_add(r, n, &at);
	if (strcmp(n->name, "cpu") == 0) {
		int rc = machine_cpu_read(r, n, &at.host, &at.numa);
		if (rc)
			return rc;
	}
	if (strcmp(n->name, "pci") == 0) {
		at.pci = n;
		if (!n->child)
			return machine_leaf_add(r, &at);
	}
	for (const struct xml_node *c = n->child; c; c = c->next) {
		int rc = machine_node_read(r, c, at);
		if (rc)
			return rc;
	}
	return 0;
}

static int machine_gpu_compare(const void *a, const void *b)
{
	const struct world_gpu *x = a, *y = b;
	int bus = strcmp(x->bus_id, y->bus_id);

	if (x->host != y->host)
		return x->host - y->host;
	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return bus ? bus : x->half - y->half;
}

/* Sorts GPUs by the file's dev, then sets dev to the index in that order. */
static int machine_gpus_order(struct world_machine *m)
{
	qsort(m->gpu, (size_t)m->gpu_count, sizeof *m->gpu, machine_gpu_compare);
	for (int32_t i = 1; i < m->gpu_count; i++) {
		bool halves = m->gpu[i].half != m->gpu[i - 1].half &&
			      strcmp(m->gpu[i].bus_id, m->gpu[i - 1].bus_id) == 0;

		if (m->gpu[i].host != m->gpu[i - 1].host || m->gpu[i].dev != m->gpu[i - 1].dev ||
		    halves)
			continue;
		fprintf(stderr,
			"%s: two <gpu> with dev=\"%d\" (busid '%s' and '%s'), expected one\n",
			m->path, m->gpu[i].dev, m->gpu[i - 1].bus_id, m->gpu[i].bus_id);
		return EINVAL;
	}
	for (int32_t i = 0; i < m->gpu_count; i++)
		m->gpu[i].dev = i;
	return 0;
}

static int machine_parse(struct world_machine *m)
{
	struct machine_reader r = {.m = m};
	struct xml_doc *doc;
	int rc = xml_parse(m->xml, m->xml_bytes, m->path, &doc, &r.error);
	if (rc) {
		fprintf(stderr, "%s\n", r.error.text);
		return rc;
	}
	const struct xml_node *root = xml_root(doc);
	if (strcmp(root->name, "system") != 0)
		rc = xml_error_at(root, &r.error, "is the root element, expected <system>");
	else
		rc = machine_node_read(&r, root, (struct machine_place){0, -1, NULL});
	if (rc)
		fprintf(stderr, "%s\n", r.error.text);
	xml_free(doc);
	if (rc == 0)
		rc = machine_gpus_order(m);
	if (rc == 0 && m->gpu_count == 0) {
		fprintf(stderr,
			"%s: no GPU in this topology: no <gpu>, and no <pci> of class 0x0302\n",
			m->path);
		rc = ENODEV;
	}
	return rc;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void machine_dir(char out[PATH_MAX])
{
	const char *dir = os_real_ops.env("DOPPEL_MACHINE_DIR");
	if (dir && *dir)
		snprintf(out, PATH_MAX, "%s", dir);
	else
		(void)world_installed(WORLD_MACHINES, out);
}

static int machine_file_read(const char *path, struct world_machine *m)
{
	char *data;
	size_t bytes;
	int rc = os_real_ops.file_read(path, &data, &bytes);
	if (rc)
		return rc;
	char *xml = malloc(bytes + 1);
	char *name = strdup(path);
	if (!xml || !name) {
		free(xml);
		free(name);
		rc = ENOMEM;
	} else {
		memcpy(xml, data, bytes + 1);
		m->path = name;
		m->xml = xml;
		m->xml_bytes = bytes;
	}
	os_free(data);
	return rc;
}

static int machine_name_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char *world_machine_names(void)
{
	char *name[64], *text = NULL, path[PATH_MAX];
	size_t n = 0, bytes = 0;
	machine_dir(path);
	DIR *d = opendir(path);
	FILE *out = open_memstream(&text, &bytes);
	for (const struct dirent *e; d && n < ARRAY_LEN(name) && (e = readdir(d));) {
		const char *dot = strrchr(e->d_name, '.');
		if (dot && strcmp(dot, ".xml") == 0)
			name[n++] = strndup(e->d_name, (size_t)(dot - e->d_name));
	}
	if (d)
		closedir(d);
	qsort(name, n, sizeof name[0], machine_name_compare);
	for (size_t i = 0; i < n; i++) {
		if (out)
			fprintf(out, "%s%s", i ? ", " : "", name[i]);
		free(name[i]);
	}
	if (out)
		fclose(out);
	return text;
}

static bool machine_is_path(const char *name)
{
	size_t n = strlen(name);
	return strchr(name, '/') || (n > 4 && strcmp(name + n - 4, ".xml") == 0);
}

static void machine_not_found(const char *name)
{
	const char *dir = os_real_ops.env("DOPPEL_MACHINE_DIR");
	char *names = world_machine_names();
	bool any = names && *names;

	if (!any && dir && *dir)
		fprintf(stderr,
			"machine '%s' does not exist: DOPPEL_MACHINE_DIR is '%s', expected a "
			"folder "
			"with topology XMLs\n",
			name, dir);
	else
		fprintf(stderr,
			"machine '%s' does not exist; expected a topology XML, or one of %s\n",
			name, any ? names : "none");
	free(names);
}

static int machine_find(const char *name, struct world_machine *m)
{
	char dir[PATH_MAX], path[PATH_MAX + NAME_MAX];
	int rc = ENOENT;
	machine_dir(dir);
	if (machine_is_path(name)) {
		snprintf(path, sizeof path, "%s", name);
		rc = machine_file_read(path, m);
	}
	if (rc == ENOENT && !strchr(name, '/')) {
		const char *suffix = machine_is_path(name) ? "" : ".xml";
		snprintf(path, sizeof path, "%s/%s%s", dir, name, suffix);
		rc = machine_file_read(path, m);
	}
	if (rc == ENOENT && !machine_is_path(name)) {
		machine_not_found(name);
	} else if (rc == EFBIG) {
		fprintf(stderr, "machine %s: the file is too large, expected at most %u bytes\n",
			path, XML_MAX_BYTES);
	} else if (rc) {
		fprintf(stderr, "machine %s: cannot read it: %s\n", path, strerror(rc));
	}
	return rc;
}

int world_machine_load(const char *name_or_path, struct world_machine **machine)
{
	ASSERT(name_or_path && machine);
	int rc = ENOMEM;
	struct world_machine *m = calloc(1, sizeof *m);
	if (!m)
		return rc;
	m->gpu = calloc(MACHINE_MAX_GPUS, sizeof *m->gpu);
	m->nic = calloc(MACHINE_MAX_NICS, sizeof *m->nic);
	if (!m->gpu || !m->nic)
		goto err_free;
	rc = machine_find(name_or_path, m);
	if (rc)
		goto err_free;
	rc = machine_parse(m);
	if (rc)
		goto err_free;
	*machine = m;
	return 0;
err_free:
	world_machine_free(m);
	return rc;
}

void world_machine_free(struct world_machine *m)
{
	if (!m)
		return;
	free((char *)m->path);
	free((char *)m->xml);
	free(m->gpu);
	free(m->nic);
	free(m->nvlink);
	free(m);
}
