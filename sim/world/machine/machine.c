/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Machines: reads an NCCL topology XML for the properties of a host's GPUs and NICs that the
 * doubles need. Dumps of real machines are read unchanged: GPUs and NICs may be bare PCI leaves
 * without a tag, and attributes may be absent. core/topo reads the same text separately, as a rank
 * on the host does.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/gfx.h"
#include "core/base/pci_address.h"
#include "core/base/xml.h"
#include "core/os/os_ops.h"
#include "sim/world/machine/machine_internal.h"

#define PCI_VENDOR_NVIDIA    0x10de
#define PCI_VENDOR_MELLANOX  0x15b3
#define PCI_CLASS_GPU_3D     0x0302
#define PCI_CLASS_GPU_VGA    0x0300
#define PCI_CLASS_ETHERNET   0x0200
#define PCI_CLASS_INFINIBAND 0x0207
#define PCI_CLASS_BRIDGE     0x0680

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

int machine_bus_id(const struct xml_node *pci, char out[24], struct xml_error *error)
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

int machine_small_int(const struct xml_node *n, const char *attr, int64_t initial, int64_t min,
		      int64_t max, int32_t *out, struct xml_error *error)
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

int machine_parse(struct world_machine *m)
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
