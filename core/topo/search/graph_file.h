/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of graphs in NCCL's XML. NCCL_GRAPH_DUMP_FILE of NCCL and `doppel topo search` write them,
 * NCCL_GRAPH_FILE reads them. A file has a graph for each kind of search, of any pattern. A graph
 * has channels. A channel lists GPUs (by the topology's `dev`) and network devices in the order of
 * its path.
 *
 * A file is read without a machine (`doppel topo diff`). Rings and trees are then matched with a
 * machine: every GPU in use once per channel, and only existing nets. A mismatch is refused with
 * file, line, column, element, attribute and what was expected.
 */
#ifndef CORE_TOPO_GRAPH_FILE_H
#define CORE_TOPO_GRAPH_FILE_H

#include "core/topo/topo.h"

#define TOPO_FILE_GRAPHS 16
#define TOPO_FILE_HOPS   (TOPO_MAX_LOCAL + 2)

struct topo_file_hop {
	int32_t dev;
	int32_t host; /* index in the NVLink domain; -1: not in the file */
	int32_t half; /* GPU: 1 + number of the half; 0: the whole GPU, or any */
	bool net;     /* false: a GPU */
};
struct topo_file_channel {
	int32_t line, column, count;
	struct topo_file_hop hop[TOPO_FILE_HOPS];
};
struct topo_file_graph {
	int32_t line, column;
	int32_t id, pattern; /* NCCL's numbers: a ring is graph 0, pattern 4 */
	int32_t cross_nic, nchannels, same_channels;
	uint32_t bw_intra_mbps, bw_inter_mbps;
	int32_t type_intra, type_inter; /* enum topo_path_type */
	struct topo_file_channel *channel;
};
struct topo_graph_file {
	char source[256];
	int32_t count;
	struct topo_file_graph graph[TOPO_FILE_GRAPHS];
};

/* Reads a file. Sets *file only on success. topo_graph_file_free accepts NULL. */
ncclResult_t topo_graph_file_read(const char *xml, size_t bytes, const char *source,
				  struct topo_graph_file **file);
void topo_graph_file_free(struct topo_graph_file *file);
/* Converts the file's graph of this pattern to one of this machine. *found: the file has one. */
ncclResult_t topo_graph_file_match(const struct topo_graph_file *file,
				   const struct topo_system *sys, enum topo_pattern pattern,
				   bool inter, struct topo_graph *graph, bool *found);

#endif
