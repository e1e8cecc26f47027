/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes a file of graphs. It is refused with a reason that names file and line, or it is matched
 * with a machine of 8 GPUs and 8 NICs. The match returns rings through all of them, or again a
 * reason. For libFuzzer (clang -fsanitize=fuzzer); fuzz_main.h has a driver without it.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/topo/search/graph_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const struct topo_system *fuzz_system(void)
{
	static const struct topo_system *sys;
	static char xml[8192];
	struct topo_select select = {.count = 8};
	size_t n = 0;

	if (sys)
		return sys;
	n += (size_t)snprintf(xml, sizeof xml, "<system><cpu numaid=\"0\">");
	for (int i = 0; i < 8; i++) {
		select.gpu[i].dev = i;
		n += (size_t)snprintf(
			xml + n, sizeof xml - n,
			"<pci busid=\"0000:0%d:00.0\"><gpu dev=\"%d\"/></pci>"
			"<pci busid=\"0000:1%d:00.0\"><nic><net dev=\"%d\"/></nic></pci>",
			i, i, i, i);
	}
	n += (size_t)snprintf(xml + n, sizeof xml - n, "</cpu></system>");
	ASSERT(topo_system_get(xml, n, "machine", &select, &sys) == ncclSuccess);
	return sys;
}

static void fuzz_check_graph(const struct topo_graph *g, bool inter)
{
	ASSERT(g->nchannels >= 1 && g->nchannels <= DEV_MAX_CHANNELS / 2);
	for (int32_t c = 0; c < g->nchannels; c++) {
		uint32_t seen = 0;

		for (int i = 0; i < 8; i++) {
			ASSERT(g->order[c][i] >= 0 && g->order[c][i] < 8);
			seen |= 1u << g->order[c][i];
		}
		ASSERT(seen == 0xff);
		for (int side = 0; side < 2; side++)
			ASSERT(inter ? g->nic[c][side] >= 0 && g->nic[c][side] < 8
				     : g->nic[c][side] == -1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct topo_graph graph;
	struct topo_graph_file *file;
	bool found;

	if (topo_graph_file_read((const char *)data, bytes, "fuzz", &file) != ncclSuccess) {
		ASSERT(strncmp(log_last_error(), "fuzz:", 5) == 0);
		return 0;
	}
	for (int inter = 0; inter < 2; inter++)
		if (topo_graph_file_match(file, fuzz_system(), TOPO_RING, inter != 0, &graph,
					  &found))
			ASSERT(strncmp(log_last_error(), "fuzz:", 5) == 0);
		else if (found)
			fuzz_check_graph(&graph, inter != 0);
	topo_graph_file_free(file);
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
