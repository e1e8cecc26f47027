/* SPDX-License-Identifier: BSD-3-Clause */
/* <pci> and <gpu> of a topology file: PCI functions, switches and GPUs. input.c has the rest of a
 * file. */
#include <stdio.h>
#include <string.h>

#include "core/base/gfx.h"
#include "core/base/log.h"
#include "core/topo/model/input.h"

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

ncclResult_t topo_pci_read(struct topo_input *in, const struct xml_node *x, int32_t parent)
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
