/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/base/xml.h"
#include "core/topo/detect/detect_internal.h"
#include "core/topo/topo_internal.h"

uint64_t topo_host_hash(void)
{
	char name[256] = "", boot[64] = "";
	const char *fixed = param_str(PARAM_HOSTID);
	if (fixed)
		return hash64_str(fixed);
	os_host_name(name, sizeof name);
	os_boot_id(boot, sizeof boot);
	return hash64_combine(hash64_str(name), hash64_str(boot));
}

/* ---- GPUs ----------------------------------------------------------------------------------- */

/* Sets the class of a link's far end. An end that a virtual machine does not show counts as a
 * switch. */
static void detect_link_class(struct detect_tree *t, struct detect_node *link)
{
	char path[OS_PATH_BYTES], text[DETECT_TEXT_BYTES];
	const char *target = detect_get(link, "target");
	if (!target || detect_get(link, "tclass"))
		return;
	if (!detect_pci_path(t, target, path))
		detect_set(t, link, "tclass", "0x068000");
	else if (detect_read(t, path, "class", text))
		detect_set(t, link, "tclass", text);
}

static void detect_gpu_links(struct detect_tree *t, struct detect_node *n,
			     const struct topo_detect_gpu *gpu)
{
	if (!detect_child(n, "nvlink") && !detect_child(n, "xgmi"))
		for (int32_t i = 0; i < gpu->links; i++) {
			struct detect_node *link = detect_node_add(t, n, "nvlink");
			detect_set(t, link, "target", gpu->link[i].target);
			detect_setf(t, link, "count", "%d", gpu->link[i].count);
		}
	for (struct detect_node *c = n->child; c; c = c->next)
		if (strcmp(c->name, "nvlink") == 0 || strcmp(c->name, "xgmi") == 0)
			detect_link_class(t, c);
	if (gpu->c2c && !detect_child(n, "c2c")) {
		struct detect_node *c2c = detect_node_add(t, n, "c2c");
		detect_setf(t, c2c, "bw", "%d", gpu->c2c_mbps);
		detect_setf(t, c2c, "count", "%d", gpu->c2c);
	}
}

/* True if the driver's current PCI link counts. NCCL 2.28 uses the kernel's maximum instead. */
static bool detect_link_is_drivers(void)
{
	struct topo_params params;
	topo_params_read(&params);
	return params.compat != TOPO_COMPAT_2_28;
}

/* Returns the PCI function of a GPU. A file's link values precede the driver's, and those precede
 * the kernel's. */
static struct detect_node *detect_gpu_function(struct detect_tree *t, uint64_t host_hash,
					       const struct topo_detect_gpu *gpu)
{
	const struct detect_node *before = detect_find(t->root, "pci", "busid", gpu->bus_id);
	bool speed = before && detect_get(before, "link_speed");
	bool width = before && detect_get(before, "link_width");
	char text[16];
	struct detect_node *pci = detect_pci(t, host_hash, gpu->bus_id);
	if (!detect_link_is_drivers())
		return pci;
	if (!speed && gpu->link_speed[0])
		detect_replace(t, pci, "link_speed", gpu->link_speed);
	snprintf(text, sizeof text, "%d", gpu->link_width);
	if (!width && gpu->link_width > 0)
		detect_replace(t, pci, "link_width", text);
	return pci;
}

static void detect_gpu(struct detect_tree *t, uint64_t host_hash, const struct topo_detect_gpu *gpu)
{
	struct detect_node *pci = detect_gpu_function(t, host_hash, gpu);
	struct detect_node *n = detect_child(pci, "gpu");
	if (!n)
		n = detect_node_add(t, pci, "gpu");
	detect_setf(t, n, "dev", "%d", gpu->dev);
	if (gpu->sm)
		detect_setf(t, n, "sm", "%d", gpu->sm);
	detect_setf(t, n, "rank", "%d", gpu->rank);
	detect_set(t, n, "gdr", gpu->gdr ? "1" : "0");
	detect_set(t, n, "keep", "1");
	detect_kfd_gpu(t, n, gpu->bus_id);
	detect_gpu_links(t, n, gpu);
}

/* ---- parts ---------------------------------------------------------------------------------- */

static ncclResult_t detect_add_xml(struct detect_tree *t, const char *xml, size_t bytes,
				   const char *source)
{
	struct xml_doc *doc = NULL;
	struct xml_error error;
	if (xml_parse(xml, bytes, source, &doc, &error)) {
		WARN("%s", error.text);
		return ncclInvalidUsage;
	}
	detect_merge(t, xml_root(doc));
	xml_free(doc);
	return ncclSuccess;
}

/* Sets host_hash of all CPUs. CPUs with another host_hash would be another host of an NVLink
 * domain. */
static void detect_one_host(struct detect_tree *t, uint64_t host_hash)
{
	char text[24];

	snprintf(text, sizeof text, "0x%" PRIx64, host_hash);
	for (struct detect_node *c = t->root->child; c; c = c->next)
		if (strcmp(c->name, "cpu") == 0)
			detect_replace(t, c, "host_hash", text);
}

ncclResult_t topo_detect(const struct topo_detect *d, char **xml, size_t *bytes)
{
	struct detect_tree t;
	ncclResult_t rc = ncclSuccess;
	detect_tree_start(&t);
	if (d->base)
		rc = detect_add_xml(&t, d->base, d->base_bytes, d->source);
	for (int32_t i = 0; i < d->gpus && !rc; i++)
		detect_gpu(&t, d->host_hash, &d->gpu[i]);
	for (int32_t i = 0; i < d->nics && !rc; i++)
		detect_nic(&t, d->host_hash, &d->nic[i]);
	if (d->all_cpus && !rc)
		detect_cpus(&t, d->host_hash);
	if (!rc)
		detect_one_host(&t, d->host_hash);
	if (rc)
		detect_tree_free(&t);
	return rc ? rc : detect_tree_text(&t, xml, bytes);
}

/* ---- fusing --------------------------------------------------------------------------------- */

/* Removes device elements without keep="1" in or below them. True: `n` is a device and was kept. */
static bool detect_trim(struct detect_node *n)
{
	static const char device[][8] = {"cpu", "pci", "nic", "net", "gpu"};
	const char *keep = detect_get(n, "keep");
	bool kept = keep && strcmp(keep, "1") == 0, is_device = false;
	for (size_t i = 0; i < ARRAY_LEN(device); i++)
		is_device |= strcmp(n->name, device[i]) == 0;
	for (struct detect_node *c = n->child, *next; c; c = next) {
		next = c->next;
		kept |= detect_trim(c);
	}
	detect_unset(n, "keep");
	if (is_device && !kept)
		detect_node_remove(n);
	return is_device && kept;
}

ncclResult_t topo_detect_fuse(const struct topo_detect_part *part, int32_t parts, char **xml,
			      size_t *bytes)
{
	struct detect_tree t;
	ncclResult_t rc = ncclSuccess;
	detect_tree_start(&t);
	for (int32_t i = 0; i < parts && !rc; i++)
		rc = detect_add_xml(&t, part[i].xml, part[i].bytes, "a part of the topology");
	if (rc) {
		detect_tree_free(&t);
		return rc;
	}
	(void)detect_trim(t.root);
	return detect_tree_text(&t, xml, bytes);
}

/* ---- templates ------------------------------------------------------------------------------ */

static bool detect_begins(const struct xml_node *x, const char *name, const char *with)
{
	const char *text = xml_attr(x, name);
	return text && strncmp(text, with, strlen(with)) == 0;
}

/* True if the element is a bare GPU by the rule of input.c. */
static bool detect_is_bare_gpu(const struct xml_node *x)
{
	return strcmp(x->name, "pci") == 0 && !x->child &&
	       (detect_begins(x, "class", "0x0302") ||
		(detect_begins(x, "class", "0x0300") && detect_begins(x, "vendor", "0x10de")));
}

static bool detect_has_bare_gpu(const struct xml_node *x)
{
	bool has = detect_is_bare_gpu(x);
	for (const struct xml_node *c = x->child; c && !has; c = c->next)
		has = detect_has_bare_gpu(c);
	return has;
}

/* Checks without parsing. False if every element of a GPU's class is followed by its <gpu>, as in
 * usual files. */
static bool detect_may_have_bare_gpu(const char *xml, size_t bytes)
{
	if (strlen(xml) != bytes || strchr(xml, '&'))
		return true; /* has a NUL or an entity: the text cannot be searched */
	for (const char *at = xml; (at = strstr(at, "0x030")); at++) {
		const char *end = strchr(at, '>');

		if (!end || end[-1] == '/')
			return true;
		end += 1 + strspn(end + 1, " \t\r\n");
		if (strncmp(end, "<gpu", 4) != 0)
			return true;
	}
	return false;
}

bool topo_detect_is_template(const char *xml, size_t bytes)
{
	struct xml_doc *doc = NULL;
	struct xml_error error;

	if (!detect_may_have_bare_gpu(xml, bytes) ||
	    xml_parse(xml, bytes, "topology", &doc, &error))
		return false;
	bool is_template = detect_has_bare_gpu(xml_root(doc));

	xml_free(doc);
	return is_template;
}
