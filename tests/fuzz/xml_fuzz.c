/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes XML, and a machine. The input is refused with a reason that names it, or becomes a tree
 * and a machine. The tree's links and limits hold, and the world could run the machine. For
 * libFuzzer (clang -fsanitize=fuzzer); fuzz_main.h has a driver without it. Build against
 * libdoppel-rt.
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/xml.h"
#include "core/os/os_ops.h"
#include "sim/world/world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void fuzz_check_attrs(const struct xml_node *n)
{
	struct xml_error error;
	int64_t i;
	uint64_t u;
	ASSERT(n->attr_count >= 0 && n->attr_count <= XML_MAX_ATTRS);
	for (int a = 0; a < n->attr_count; a++) {
		const char *name = n->attr[a].name;
		ASSERT(xml_attr(n, name) == n->attr[a].value);
		error.text[0] = '\0';
		if (xml_attr_i64(n, name, 0, &i, &error))
			ASSERT(strncmp(error.text, "fuzz:", 5) == 0);
		if (xml_attr_u64(n, name, 0, &u, &error))
			ASSERT(strncmp(error.text, "fuzz:", 5) == 0);
		if (xml_attr_milli(n, name, "GT/s", 0, &i, &error))
			ASSERT(strncmp(error.text, "fuzz:", 5) == 0);
	}
}

static int fuzz_check_tree(const struct xml_node *n, int depth)
{
	int count = 1;
	ASSERT(depth < XML_MAX_DEPTH && n->line > 0 && n->column > 0);
	fuzz_check_attrs(n);
	for (const struct xml_node *c = xml_child(n, NULL); c; c = xml_next(c, NULL)) {
		ASSERT(c->parent == n && c->doc == n->doc);
		count += fuzz_check_tree(c, depth + 1);
	}
	return count;
}

static void fuzz_machine(const uint8_t *data, size_t bytes)
{
	struct world_machine *m;
	char path[32];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	ASSERT(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (world_machine_load(path, &m) == 0) {
		ASSERT(m->gpu_count > 0);
		for (int32_t i = 0; i < m->gpu_count; i++)
			ASSERT(m->gpu[i].dev == i && strlen(m->gpu[i].bus_id) < 24);
		for (int32_t i = 0; i < m->nic_count; i++)
			ASSERT(m->nic[i].mbps > 0 && m->nic[i].name[0]);
		world_machine_free(m);
	}
	close(fd);
	ASSERT(os_real_alloc_count(NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct xml_error error;
	struct xml_doc *doc = NULL;
	if (bytes > XML_MAX_BYTES)
		return 0;
	int rc = xml_parse((const char *)data, bytes, "fuzz", &doc, &error);
	ASSERT((rc == 0) == (doc != NULL));
	if (rc)
		ASSERT(strncmp(error.text, "fuzz:", 5) == 0);
	else
		ASSERT(fuzz_check_tree(xml_root(doc), 0) <= XML_MAX_NODES);
	xml_free(doc);
	fuzz_machine(data, bytes);
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
