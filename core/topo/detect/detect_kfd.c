/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AMD's GPUs, from the files of the kernel's compute driver, KFD:
 *
 *	/sys/class/kfd/kfd/topology/nodes/N/properties
 *	        CPUs and GPUs: "location_id 33280\n..."
 *	/sys/class/kfd/kfd/topology/nodes/N/io_links/L/properties
 *	        links from N: "type 11\nnode_to 5\n..."
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/gfx.h"
#include "core/topo/detect/detect_internal.h"
#include "core/topo/topo_internal.h"

#define KFD_NODES     "/sys/class/kfd/kfd/topology/nodes"
#define KFD_LINK_XGMI 11 /* HSA_IOLINK_TYPE_XGMI */

/* Returns the value in a line "NAME VALUE"; 0: no such line. */
static uint64_t kfd_value(const char *text, const char *name)
{
	size_t n = strlen(name);

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (strncmp(line, name, n) == 0 && line[n] == ' ')
			return strtoull(line + n + 1, NULL, 10);
	return 0;
}

/* Returns the text of DIR/properties, os_alloc's; NULL: unreadable. */
static char *kfd_read(struct detect_tree *t, const char *dir)
{
	char path[OS_PATH_BYTES], *text = NULL;
	size_t bytes = 0;

	if ((size_t)snprintf(path, sizeof path, "%s/properties", dir) >= sizeof path)
		return NULL;
	int e = os_file_read(path, &text, &bytes);

	t->failed |= e == ENOMEM;
	return e ? NULL : text;
}

static void kfd_bus_id(const char *text, char out[24])
{
	unsigned at = (unsigned)kfd_value(text, "location_id");

	snprintf(out, 24, "%04x:%02x:%02x.%x", (unsigned)kfd_value(text, "domain") & 0xfffffff,
		 at >> 8 & 0xff, at >> 3 & 0x1f, at & 7);
}

/* Writes DIR/NAME; false: the name is not a number. */
static bool kfd_path(char out[OS_PATH_BYTES], const char *dir, const char *name)
{
	size_t n = strspn(name, "0123456789");

	return n && !name[n] &&
	       (size_t)snprintf(out, OS_PATH_BYTES, "%s/%s", dir, name) < OS_PATH_BYTES;
}

/* Returns the number of lanes, each of which has `min_bandwidth`. */
static uint64_t kfd_lanes(const char *link)
{
	uint64_t each = kfd_value(link, "min_bandwidth"), all = kfd_value(link, "max_bandwidth");
	uint64_t lanes = each ? all / each : 1;

	return lanes < 1 ? 1 : MIN_OF(lanes, 1024u);
}

static void kfd_link(struct detect_tree *t, struct detect_node *gpu, const char *link)
{
	char dir[OS_PATH_BYTES], target[24];

	if (kfd_value(link, "type") != KFD_LINK_XGMI)
		return;
	snprintf(dir, sizeof dir, KFD_NODES "/%llu",
		 (unsigned long long)kfd_value(link, "node_to"));
	char *far = kfd_read(t, dir);

	if (!far)
		return;
	kfd_bus_id(far, target);
	if (gfx_of_version(kfd_value(far, "gfx_target_version"))) {
		struct detect_node *x = detect_node_add(t, gpu, "xgmi");

		detect_set(t, x, "target", target);
		detect_setf(t, x, "count", "%llu", (unsigned long long)kfd_lanes(link));
	}
	os_free(far);
}

static void kfd_links(struct detect_tree *t, struct detect_node *gpu, const char *node)
{
	char dir[OS_PATH_BYTES], path[OS_PATH_BYTES], *names = NULL;
	int count = 0;

	if ((size_t)snprintf(dir, sizeof dir, "%s/io_links", node) >= sizeof dir)
		return;
	int e = os_dir_list(dir, &names, &count);
	const char *name = names;

	t->failed |= e == ENOMEM;
	for (int i = 0; !e && i < count; i++, name += strlen(name) + 1) {
		char *link = kfd_path(path, dir, name) ? kfd_read(t, path) : NULL;

		if (link)
			kfd_link(t, gpu, link);
		os_free(link);
	}
	if (!e)
		os_free(names);
}

/* True if the node is that GPU; then adds its core and links. */
static bool kfd_node(struct detect_tree *t, struct detect_node *gpu, const char *bus_id,
		     const char *node)
{
	char at[24], *text = kfd_read(t, node);

	if (!text)
		return false;
	int32_t core = gfx_of_version(kfd_value(text, "gfx_target_version"));

	kfd_bus_id(text, at);
	os_free(text);
	if (!core || strcmp(at, bus_id) != 0)
		return false;
	detect_setf(t, gpu, "gcn", "gfx%x", (unsigned)core);
	if (!detect_child(gpu, "nvlink") && !detect_child(gpu, "xgmi"))
		kfd_links(t, gpu, node);
	return true;
}

void detect_kfd_gpu(struct detect_tree *t, struct detect_node *gpu, const char *bus_id)
{
	char path[OS_PATH_BYTES], *names = NULL;
	int count = 0;
	int e = os_dir_list(KFD_NODES, &names, &count);
	const char *name = names;
	bool found = false;

	t->failed |= e == ENOMEM;
	for (int i = 0; !e && i < count && !found; i++, name += strlen(name) + 1)
		found = kfd_path(path, KFD_NODES, name) && kfd_node(t, gpu, bus_id, path);
	if (!e)
		os_free(names);
}
