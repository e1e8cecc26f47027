/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a host's topology file, in NCCL's format, into the model. Real dumps and cloud templates
 * are accepted. Attributes that are absent, empty, 0 or -1 use NCCL's defaults. A GPU may be a bare
 * <pci> of a display class, or one without a class whose bus id a GPU in use has.
 *
 * The reader accepts every file that NCCL accepts, and logs oddities. It refuses other files with
 * file, line, column, element, attribute and what was expected. input_links.c reads the links
 * between GPUs.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/gfx.h"
#include "core/base/log.h"
#include "core/base/xml.h"
#include "core/topo/topo_internal.h"

struct topo_input {
	struct topo_model *m;
	int32_t host; /* host of the CPU that is being read */
	int32_t gpus, nets;
	int32_t hcas; /* template HCAs added so far */
};

static ncclResult_t topo_input_error(const struct xml_error *error)
{
	WARN("%s", error->text);
	return ncclInvalidUsage;
}

ncclResult_t topo_input_refuse(const struct xml_node *x, const char *fmt, ...)
{
	struct xml_error error;
	char text[400];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	xml_error_at(x, &error, "%s", text);
	return topo_input_error(&error);
}

ncclResult_t topo_input_int(const struct xml_node *x, const char *name, int64_t initial, int64_t lo,
			    int64_t hi, int32_t *out)
{
	struct xml_error error;
	int64_t value;
	if (xml_attr_i64(x, name, initial, &value, &error))
		return topo_input_error(&error);
	if (value < lo || value > hi)
		return topo_input_refuse(x, "%s=\"%" PRId64 "\", expected %" PRId64 " to %" PRId64,
					 name, value, lo, hi);
	*out = (int32_t)value;
	return ncclSuccess;
}

static ncclResult_t topo_input_u64(const struct xml_node *x, const char *name, uint64_t *out)
{
	struct xml_error error;
	return xml_attr_u64(x, name, 0, out, &error) ? topo_input_error(&error) : ncclSuccess;
}

/* ---- <net> ---------------------------------------------------------------------------------- */

/* True if the port was read before. It may appear below two CPUs, as different ranks saw it; the
 * first one counts. */
static bool topo_net_seen(const struct topo_input *in, const char *name, int32_t dev)
{
	const struct topo_model *m = in->m;

	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].type == TOPO_NODE_NET && m->node[i].dev == dev &&
		    m->node[i].host == in->host && strcmp(m->node[i].name, name) == 0)
			return true;
	return false;
}

static ncclResult_t topo_net_read(struct topo_input *in, const struct xml_node *x, int32_t nic)
{
	int32_t dev, port, gdr, mbit, rail, plane, coll, used;
	uint64_t guid;
	ncclResult_t rc = topo_input_int(x, "dev", in->nets, 0, INT32_MAX, &dev);
	if (!rc)
		rc = topo_input_int(x, "port", 0, 0, INT32_MAX, &port);
	if (!rc)
		rc = topo_input_int(x, "gdr", 0, 0, 1, &gdr);
	if (!rc)
		rc = topo_input_int(x, "speed", 0, -1, INT32_MAX, &mbit);
	if (!rc)
		rc = topo_input_int(x, "rail", -1, -1, INT32_MAX, &rail);
	if (!rc)
		rc = topo_input_int(x, "plane", -1, -1, INT32_MAX, &plane);
	if (!rc)
		rc = topo_input_int(x, "coll", 0, 0, 1, &coll);
	if (!rc)
		rc = topo_input_int(x, "net", 1, 0, 1, &used);
	if (!rc)
		rc = topo_input_u64(x, "guid", &guid);
	if (rc || !used) /* net="0": a device of a merged NIC */
		return rc;
	const char *name = xml_attr(x, "name");
	char fallback[32];
	snprintf(fallback, sizeof fallback, "net%d", dev);
	if (!name || !name[0])
		name = fallback;
	if (topo_net_seen(in, name, dev)) {
		INFO(LOG_GRAPH, "%s:%d: net %s (dev %d) appears again", in->m->source, x->line,
		     name, dev);
		return ncclSuccess;
	}
	if (in->nets == TOPO_MAX_NETS)
		return topo_input_refuse(x, "is one too many, expected at most %d", TOPO_MAX_NETS);
	int32_t n = topo_model_node(in->m, TOPO_NODE_NET, x->line);
	if (n == TOPO_NO_NODE)
		return ncclSystemError;
	struct topo_node *net = &in->m->node[n];
	snprintf(net->name, sizeof net->name, "%s", name);
	net->parent = nic;
	net->host = in->host;
	net->dev = dev;
	net->net.port = port;
	net->net.gdr = gdr != 0;
	net->net.guid = guid;
	net->net.has_guid = xml_attr(x, "guid") != NULL;
	net->net.rail = rail;
	net->net.plane = plane;
	net->net.coll = coll != 0;
	/* speed is in Mb/s; an unknown speed counts as 10 Gb/s. */
	net->net.bw_mbps = (uint32_t)(mbit > 0 ? mbit : 10000) / 8;
	in->nets++;
	return topo_model_link_both(in->m, nic, n, TOPO_LINK_NET, in->m->node[n].net.bw_mbps);
}

/* Adds a template's bare HCA. The name is the one that the host will use: mlx5_<n>, in order. The
 * speed is that of such HCAs, 200 Gb/s. */
static ncclResult_t topo_hca_add(struct topo_input *in, int32_t nic)
{
	int32_t n = topo_model_node(in->m, TOPO_NODE_NET, in->m->node[nic].line);
	if (n == TOPO_NO_NODE)
		return ncclSystemError;
	struct topo_node *net = &in->m->node[n];
	snprintf(net->name, sizeof net->name, "mlx5_%d", in->hcas++);
	net->parent = nic;
	net->host = in->host;
	net->dev = in->nets++;
	net->net.port = 1;
	net->net.rail = net->net.plane = -1;
	net->net.gdr = true;
	net->net.bw_mbps = 25000;
	return topo_model_link_both(in->m, nic, n, TOPO_LINK_NET, 25000);
}

static ncclResult_t topo_nic_read(struct topo_input *in, const struct xml_node *x, int32_t nic)
{
	ncclResult_t rc = ncclSuccess;
	for (struct xml_node *c = xml_child(x, "net"); c && !rc; c = xml_next(c, "net"))
		rc = topo_net_read(in, c, nic);
	return rc;
}

/* ---- <gpu> ---------------------------------------------------------------------------------- */

/* Returns the generation by PCI device id, for a template's bare GPU or a <gpu> without sm. */
static int32_t topo_gpu_sm_by_device(uint64_t device)
{
	if (device >= 0x2900 && device < 0x2a00)
		return 100;
	if (device >= 0x2300 && device < 0x2400)
		return 90;
	if (device >= 0x2200 && device < 0x2600)
		return 86;
	if (device >= 0x1d80 && device < 0x1e00)
		return 70;
	return 80;
}

/* Reads AMD's graphics core. Another text is only logged, because NCCL does not read the
 * attribute. */
static void topo_gpu_gcn(const struct topo_model *m, const struct xml_node *x, struct topo_node *n)
{
	const char *text = xml_attr(x, "gcn");

	if (text && *text && !gfx_parse(text, &n->gpu.gcn))
		INFO(LOG_GRAPH, "%s:%d: gcn=\"%.64s\" is no architecture like gfx942: not read",
		     m->source, x->line, text);
}

/* Refuses two GPUs with one number, unless they are halves of one GPU. */
static ncclResult_t topo_gpu_twice(const struct topo_model *m, const struct xml_node *x,
				   int32_t gpu)
{
	int32_t dev = m->node[gpu].dev;

	for (int32_t i = 0; i < gpu; i++)
		if (m->node[i].type == TOPO_NODE_GPU && m->node[i].dev == dev &&
		    m->node[i].host == m->node[gpu].host && m->node[i].bus != m->node[gpu].bus)
			return topo_input_refuse(x,
						 "dev=\"%d\" is also that of GPU %s in line %d; "
						 "expected another one",
						 dev, m->node[i].name, m->node[i].line);
	return ncclSuccess;
}

/* Fills in node `gpu`. `x` is its <gpu>, or NULL for a template's GPU. */
static ncclResult_t topo_gpu_read(struct topo_input *in, const struct xml_node *pci,
				  const struct xml_node *x, int32_t gpu)
{
	int32_t dev = in->gpus, sm = 0, gdr = 1, half = -1;
	uint64_t device;
	ncclResult_t rc = topo_input_u64(pci, "device", &device);
	if (!rc && x)
		rc = topo_input_int(x, "dev", in->gpus, 0, INT32_MAX, &dev);
	if (!rc && x)
		rc = topo_input_int(x, "sm", 0, 0, 1000, &sm);
	if (!rc && x)
		rc = topo_input_int(x, "gdr", 1, 0, 1, &gdr);
	if (!rc && x)
		rc = topo_input_int(x, "mlopart", -1, -1, TOPO_MAX_HALVES - 1, &half);
	if (rc)
		return rc;
	struct topo_node *n = &in->m->node[gpu];
	n->dev = dev;
	n->gpu.half = half + 1;
	n->gpu.gdr = gdr != 0;
	if (in->gpus++ == TOPO_MAX_GPUS)
		return topo_input_refuse(pci, "is one GPU too many, expected at most %d",
					 TOPO_MAX_GPUS);
	if (x)
		topo_gpu_gcn(in->m, x, n);
	/* AMD's sm is a number of compute units; the search treats its GPUs like sm 80. */
	n->gpu.sm = n->gpu.gcn ? 80 : sm ? sm : topo_gpu_sm_by_device(device);
	return topo_gpu_twice(in->m, x ? x : pci, gpu);
}

/* ---- <pci> ---------------------------------------------------------------------------------- */

/* Bandwidth of a lane in 1/80 GB/s: 8b/10b encoding up to 5 GT/s, 128b/130b above. */
static uint32_t topo_pci_lane(int64_t milli_gt)
{
	if (milli_gt <= 0)
		return 60;
	if (milli_gt <= 5000)
		return (uint32_t)(milli_gt * 6 / 1000);
	return (uint32_t)(MIN_OF(milli_gt, 1000000) * 15 / 2000);
}

struct topo_pci_link {
	int32_t lanes, milli_gts; /* 0: unknown */
	uint32_t mbps;
};

static ncclResult_t topo_pci_link(const struct xml_node *x, struct topo_pci_link *link)
{
	struct xml_error error;
	int64_t milli_gts;
	ncclResult_t rc = topo_input_int(x, "link_width", 0, -1, 255, &link->lanes);

	if (rc)
		return rc;
	if (xml_attr_milli(x, "link_speed", "GT/s", 0, &milli_gts, &error)) {
		INFO(LOG_GRAPH, "%s; taken as 8 GT/s", error.text);
		milli_gts = 0;
	}
	link->lanes = MAX_OF(link->lanes, 0);
	link->milli_gts = (int32_t)MAX_OF(MIN_OF(milli_gts, 1000000), 0);
	link->mbps =
		(uint32_t)(link->lanes ? link->lanes : 16) * topo_pci_lane(milli_gts) * 1000u / 80u;
	return ncclSuccess;
}

static bool topo_attr_begins(const struct xml_node *x, const char *name, const char *with)
{
	const char *text = xml_attr(x, name);
	return text && strncmp(text, with, strlen(with)) == 0;
}

/* True if the function is a GPU in use: a template's function without a class, known only by its
 * bus id. */
static bool topo_pci_is_selected(const struct topo_model *m, const struct xml_node *x)
{
	const char *text = xml_attr(x, "busid");
	uint64_t bus, other;

	if (xml_attr(x, "class") || !text || !topo_bus_parse(text, &bus))
		return false;
	for (int32_t i = 0; i < m->select->count; i++)
		if (topo_bus_parse(m->select->gpu[i].bus_id, &other) && other == bus)
			return true;
	return false;
}

/* Finds the type of a function by its children or, without children (a template), by its class.
 * False: the function is not part of the model. */
static bool topo_pci_type(const struct topo_model *m, const struct xml_node *x,
			  enum topo_node_type *type)
{
	if (xml_child(x, "gpu"))
		*type = TOPO_NODE_GPU;
	else if (xml_child(x, "nic"))
		*type = TOPO_NODE_NIC;
	else if (xml_child(x, "pci"))
		*type = TOPO_NODE_PCI;
	else if (topo_attr_begins(x, "class", "0x0302") ||
		 (topo_attr_begins(x, "class", "0x0300") &&
		  topo_attr_begins(x, "vendor", "0x10de")) ||
		 topo_pci_is_selected(m, x))
		*type = TOPO_NODE_GPU;
	else if (topo_attr_begins(x, "class", "0x0207") ||
		 (topo_attr_begins(x, "class", "0x0200") &&
		  topo_attr_begins(x, "vendor", "0x15b3")))
		*type = TOPO_NODE_NIC;
	else
		return false;
	return true;
}

static ncclResult_t topo_pci_id(const struct xml_node *x, uint64_t *id)
{
	static const char part[4][20] = {"vendor", "device", "subsystem_vendor",
					 "subsystem_device"};
	uint64_t all = 0;
	for (int i = 0; i < 4; i++) {
		uint64_t v;
		ncclResult_t rc = topo_input_u64(x, part[i], &v);
		if (rc)
			return rc;
		all = all << 16 | (v & 0xffff);
	}
	*id = all;
	return ncclSuccess;
}

/* Refuses a switch that is below itself. */
static ncclResult_t topo_pci_cycle(const struct xml_node *x, uint64_t bus)
{
	for (const struct xml_node *up = x->parent; up; up = up->parent) {
		const char *text = xml_attr(up, "busid");
		uint64_t other;

		if (strcmp(up->name, "pci") == 0 && text && topo_bus_parse(text, &other) &&
		    topo_bus_on((int32_t)(bus >> 56), other) == bus)
			return topo_input_refuse(x,
						 "busid=\"%.64s\" is that of the <pci> in line %d, "
						 "which it is in; expected another one",
						 text, up->line);
	}
	return ncclSuccess;
}

/* Refuses two GPUs with one bus id. A switch may share the bus id of another function: NCCL accepts
 * such files, and only the end of a <pcilink> is looked up by it. */
static ncclResult_t topo_pci_twice(const struct topo_model *m, const struct xml_node *x,
				   enum topo_node_type type, uint64_t bus)
{
	int32_t other = topo_model_find(m, type, bus);

	if (other == TOPO_NO_NODE || (type != TOPO_NODE_GPU && type != TOPO_NODE_PCI))
		return ncclSuccess;
	if (type == TOPO_NODE_GPU)
		return topo_input_refuse(x,
					 "busid=\"%.64s\" is used in line %d already; expected "
					 "another one",
					 xml_attr(x, "busid"), m->node[other].line);
	INFO(LOG_GRAPH, "%s:%d: the switch %s is also in line %d: taken as two", m->source, x->line,
	     xml_attr(x, "busid"), m->node[other].line);
	return topo_pci_cycle(x, bus);
}

static ncclResult_t topo_pci_bus(const struct topo_input *in, const struct xml_node *x,
				 enum topo_node_type type, uint64_t *bus)
{
	const char *text = xml_attr(x, "busid");

	if (!text || !topo_bus_parse(text, bus))
		return topo_input_refuse(
			x, "busid=\"%.64s\", expected a PCI address like 0000:13:00.0",
			text ? text : "");
	*bus = topo_bus_on(in->host, *bus);
	return topo_pci_twice(in->m, x, type, *bus);
}

/* Returns the NIC of the same card, or TOPO_NO_NODE. The ports of a card are one NIC, which counts
 * its PCI link once. */
static int32_t topo_nic_of_card(const struct topo_model *m, uint64_t bus)
{
	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].type == TOPO_NODE_NIC && m->node[i].bus &&
		    m->node[i].bus >> 4 == bus >> 4)
			return i;
	return TOPO_NO_NODE;
}

/* Adds the node of a function and its PCI link. The caller has excluded further ports of a card. */
static ncclResult_t topo_pci_add(struct topo_model *m, const struct xml_node *x,
				 enum topo_node_type type, int32_t parent, uint64_t bus,
				 int32_t *node)
{
	struct topo_pci_link link;
	uint64_t id;
	ncclResult_t rc = topo_pci_id(x, &id);

	if (!rc)
		rc = topo_pci_link(x, &link);
	if (rc)
		return rc;
	*node = topo_model_node(m, type, x->line);
	if (*node == TOPO_NO_NODE)
		return ncclSystemError;
	struct topo_node *n = &m->node[*node];

	n->bus = bus;
	n->parent = parent;
	n->host = m->node[parent].host;
	n->pci_id = id;
	n->lanes = link.lanes;
	n->milli_gts = link.milli_gts;
	snprintf(n->name, sizeof n->name, "%.31s", xml_attr(x, "busid"));
	return topo_model_link_both(m, *node, parent, TOPO_LINK_PCI, link.mbps);
}

/* True if `x` is already in the model: the same half or, without a half number, the whole GPU for
 * another rank. */
static bool topo_gpu_is_there(struct topo_model *m, const struct xml_node *x, uint64_t bus,
			      int32_t half)
{
	for (int32_t i = 0; i < m->node_count; i++) {
		struct topo_node *n = &m->node[i];

		if (n->type != TOPO_NODE_GPU || n->bus != bus ||
		    (half && n->gpu.half && n->gpu.half != half))
			continue;
		INFO(LOG_GRAPH, "%s:%d: <gpu> of %s again: taken as that of line %d", m->source,
		     x->line, n->name, n->line);
		n->gpu.again_line = x->line;
		return true;
	}
	return false;
}

/* Reads the <gpu> elements of a function. Several are its halves (MLOPart), each with the
 * function's link. */
static ncclResult_t topo_gpu_halves(struct topo_input *in, const struct xml_node *pci, int32_t gpu)
{
	const struct xml_node *x = xml_child(pci, "gpu");
	int32_t parent = in->m->node[gpu].parent, half = -1, n = TOPO_NO_NODE;
	uint64_t bus = in->m->node[gpu].bus;
	ncclResult_t rc = topo_gpu_read(in, pci, x, gpu);

	for (x = x ? xml_next(x, "gpu") : NULL; x && !rc; x = xml_next(x, "gpu")) {
		rc = topo_input_int(x, "mlopart", -1, -1, TOPO_MAX_HALVES - 1, &half);
		if (rc || topo_gpu_is_there(in->m, x, bus, half + 1))
			continue;
		rc = topo_pci_add(in->m, pci, TOPO_NODE_GPU, parent, bus, &n);
		if (!rc)
			rc = topo_gpu_read(in, pci, x, n);
	}
	return rc;
}

static ncclResult_t topo_pci_read(struct topo_input *in, const struct xml_node *x, int32_t parent);

/* Reads the children of a function by its type. */
static ncclResult_t topo_pci_inside(struct topo_input *in, const struct xml_node *x,
				    enum topo_node_type type, int32_t n)
{
	ncclResult_t rc = ncclSuccess;

	if (type == TOPO_NODE_GPU)
		return topo_gpu_halves(in, x, n);
	if (type == TOPO_NODE_NIC && !xml_child(x, "nic"))
		return topo_hca_add(in, n);
	if (type == TOPO_NODE_NIC)
		for (struct xml_node *c = xml_child(x, "nic"); c && !rc; c = xml_next(c, "nic"))
			rc = topo_nic_read(in, c, n);
	else
		for (struct xml_node *c = xml_child(x, "pci"); c && !rc; c = xml_next(c, "pci"))
			rc = topo_pci_read(in, c, n);
	return rc;
}

static ncclResult_t topo_pci_read(struct topo_input *in, const struct xml_node *x, int32_t parent)
{
	enum topo_node_type type;
	uint64_t bus = 0;

	if (!topo_pci_type(in->m, x, &type))
		return ncclSuccess;
	ncclResult_t rc = topo_pci_bus(in, x, type, &bus);
	if (rc)
		return rc;
	int32_t n = type == TOPO_NODE_NIC ? topo_nic_of_card(in->m, bus) : TOPO_NO_NODE;
	if (n == TOPO_NO_NODE)
		rc = topo_pci_add(in->m, x, type, parent, bus, &n);
	return rc ? rc : topo_pci_inside(in, x, type, n);
}

/* ---- <cpu>, <system> ------------------------------------------------------------------------ */

static ncclResult_t topo_cpu_describe(struct topo_node *n, const struct xml_node *x)
{
	const char *arch = xml_attr(x, "arch"), *vendor = xml_attr(x, "vendor");
	ncclResult_t rc = topo_input_int(x, "familyid", 0, INT32_MIN, INT32_MAX, &n->cpu.family);
	if (!rc)
		rc = topo_input_int(x, "modelid", 0, INT32_MIN, INT32_MAX, &n->cpu.model);
	n->cpu.arch = !arch || strcmp(arch, "x86_64") == 0 ? TOPO_CPU_ARCH_X86
		      : strcmp(arch, "ppc64") == 0         ? TOPO_CPU_ARCH_POWER
		      : strcmp(arch, "arm64") == 0         ? TOPO_CPU_ARCH_ARM
							   : TOPO_CPU_ARCH_OTHER;
	n->cpu.vendor = !vendor                               ? TOPO_CPU_VENDOR_OTHER
			: strcmp(vendor, "GenuineIntel") == 0 ? TOPO_CPU_VENDOR_INTEL
			: strcmp(vendor, "AuthenticAMD") == 0 ? TOPO_CPU_VENDOR_AMD
			: strstr(vendor, "Shanghai") != NULL  ? TOPO_CPU_VENDOR_ZHAOXIN
			: strcmp(vendor, "CentaurHauls") == 0 ? TOPO_CPU_VENDOR_ZHAOXIN
							      : TOPO_CPU_VENDOR_OTHER;
	return rc;
}

/* Reads a <nic> directly below the CPU: a virtual port, or a NIC whose PCI place is unknown. */
static ncclResult_t topo_cpu_nic(struct topo_input *in, const struct xml_node *x, int32_t cpu)
{
	int32_t n = topo_model_node(in->m, TOPO_NODE_NIC, x->line);
	if (n == TOPO_NO_NODE)
		return ncclSystemError;
	in->m->node[n].parent = cpu;
	in->m->node[n].host = in->host;
	snprintf(in->m->node[n].name, sizeof in->m->node[n].name, "virtual");
	ncclResult_t rc = topo_model_link_both(in->m, n, cpu, TOPO_LINK_PCI, TOPO_LOC_BW_MBPS);
	int32_t before = in->nets;
	if (!rc)
		rc = topo_nic_read(in, x, n);
	if (!rc && in->nets == before)
		topo_model_kill(in->m, n);
	return rc;
}

static int32_t topo_cpu_of_numa(const struct topo_input *in, int32_t numa)
{
	const struct topo_model *m = in->m;

	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].type == TOPO_NODE_CPU && m->node[i].dev == numa &&
		    m->node[i].host == in->host)
			return i;
	return TOPO_NO_NODE;
}

ncclResult_t topo_input_host(struct topo_model *m, const struct xml_node *cpu, int32_t *host)
{
	const char *text = xml_attr(cpu, "host_hash");
	uint64_t hash = text ? strtoull(text, NULL, 16) : 0;

	if (!text && m->hosts)
		return ncclSuccess; /* *host is unchanged */
	*host = 0;
	while (*host < m->hosts && m->host_hash[*host] != hash)
		(*host)++;
	if (*host == TOPO_MAX_HOSTS)
		return topo_input_refuse(cpu, "is of one host too many, expected at most %d",
					 TOPO_MAX_HOSTS);
	if (*host == m->hosts)
		m->host_hash[m->hosts++] = hash;
	return ncclSuccess;
}

static ncclResult_t topo_cpu_read(struct topo_input *in, const struct xml_node *x)
{
	int32_t numa = -1;
	ncclResult_t rc = topo_input_int(x, "numaid", -1, -1, 4095, &numa);
	if (!rc)
		rc = topo_input_host(in->m, x, &in->host);
	if (rc)
		return rc;
	int32_t other = numa < 0 ? TOPO_NO_NODE : topo_cpu_of_numa(in, numa);
	if (other != TOPO_NO_NODE)
		return topo_input_refuse(
			x, "numaid=\"%d\" is also that of line %d; expected another one", numa,
			in->m->node[other].line);
	int32_t n = topo_model_node(in->m, TOPO_NODE_CPU, x->line);
	if (n == TOPO_NO_NODE)
		return ncclSystemError;
	in->m->node[n].bus = (uint64_t)(int64_t)numa;
	in->m->node[n].dev = numa;
	in->m->node[n].host = in->host;
	snprintf(in->m->node[n].name, sizeof in->m->node[n].name, "%d", numa);
	rc = topo_cpu_describe(&in->m->node[n], x);
	for (struct xml_node *c = xml_child(x, NULL); c && !rc; c = xml_next(c, NULL)) {
		if (strcmp(c->name, "pci") == 0)
			rc = topo_pci_read(in, c, n);
		else if (strcmp(c->name, "nic") == 0)
			rc = topo_cpu_nic(in, c, n);
	}
	return rc;
}

static ncclResult_t topo_system_check(const struct xml_node *root)
{
	int32_t version;
	if (strcmp(root->name, "system") != 0)
		return topo_input_refuse(root, "is the root element, expected <system>");
	return topo_input_int(root, "version", 1, 1, 2, &version);
}

ncclResult_t topo_input_read(struct topo_model *m, const struct xml_node *root)
{
	struct topo_input in = {.m = m};
	int32_t cpus = 0;
	ncclResult_t rc = topo_system_check(root);
	for (struct xml_node *c = xml_child(root, "cpu"); c && !rc; c = xml_next(c, "cpu"), cpus++)
		rc = topo_cpu_read(&in, c);
	if (!rc && cpus > TOPO_MAX_CPUS)
		rc = topo_input_refuse(root, "has %d <cpu>, expected at most %d", cpus,
				       TOPO_MAX_CPUS);
	if (!rc && in.gpus == 0)
		rc = topo_input_refuse(root, "has no GPU, expected a <gpu> in a <pci> in a <cpu>");
	if (!rc)
		rc = topo_model_select(m, m->select);
	return rc ? rc : topo_input_links(m, root);
}
