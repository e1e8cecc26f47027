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

#include "core/base/log.h"
#include "core/topo/model/input.h"

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

ncclResult_t topo_input_u64(const struct xml_node *x, const char *name, uint64_t *out)
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
ncclResult_t topo_hca_add(struct topo_input *in, int32_t nic)
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

ncclResult_t topo_nic_read(struct topo_input *in, const struct xml_node *x, int32_t nic)
{
	ncclResult_t rc = ncclSuccess;
	for (struct xml_node *c = xml_child(x, "net"); c && !rc; c = xml_next(c, "net"))
		rc = topo_net_read(in, c, nic);
	return rc;
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
