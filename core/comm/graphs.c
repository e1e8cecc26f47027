/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the graphs of this rank's host: of the file NCCL_GRAPH_FILE, or by search. */
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/comm/comm_internal.h"
#include "core/topo/search/graph_file.h"

/* Reads NCCL_GRAPH_FILE; *file is NULL if it is not set. */
static ncclResult_t graphs_file(struct topo_graph_file **file)
{
	const char *path = param_str(PARAM_GRAPH_FILE);
	char *xml = NULL;
	size_t bytes = 0;

	*file = NULL;
	if (!path)
		return ncclSuccess;
	int e = os_file_read(path, &xml, &bytes);

	if (e) {
		char text[96];
		const char *reason = strerror_r(e, text, sizeof text);

		WARN("NCCL_GRAPH_FILE: %s cannot be read: %s", path, reason);
		return ncclSystemError;
	}
	ncclResult_t rc = topo_graph_file_read(xml, bytes, path, file);

	os_free(xml);
	return rc;
}

/* Finds the graph of a pattern: the file's, if it has one. */
static ncclResult_t graphs_find_one(struct ncclComm *comm, const struct topo_graph_file *file,
				    enum topo_pattern pattern)
{
	bool inter = comm->local_ranks < comm->nranks, found = false;
	ncclResult_t rc = ncclSuccess;

	if (file)
		rc = topo_graph_file_match(file, comm->topo, pattern, inter, comm->graph[pattern],
					   &found);
	if (!rc && found)
		INFO(LOG_GRAPH | LOG_INIT, "rank %d: the %s of %s: %d channels", comm->rank,
		     topo_pattern_name(pattern), file->source, comm->graph[pattern]->nchannels);
	return rc || found ? rc : topo_search(comm->topo, pattern, inter, comm->graph[pattern]);
}

/* Writes the graphs to NCCL_GRAPH_DUMP_FILE, on the rank of NCCL_GRAPH_DUMP_FILE_RANK. A failed
 * write is logged and is not an error. */
static ncclResult_t graphs_dump(const struct ncclComm *comm)
{
	const char *path = param_str(PARAM_GRAPH_DUMP_FILE);

	if (!path || param_i64(PARAM_GRAPH_DUMP_FILE_RANK) != comm->rank)
		return ncclSuccess;
	size_t bytes = topo_graphs_xml(comm->topo, comm->graph, TOPO_PATTERNS, NULL, 0);
	char *xml = os_alloc(bytes + 1, "text of the graphs");

	if (!xml) {
		WARN("rank %d: no memory for the text of the graphs", comm->rank);
		return ncclSystemError;
	}
	topo_graphs_xml(comm->topo, comm->graph, TOPO_PATTERNS, xml, bytes + 1);
	int e = os_file_write(path, xml, bytes);

	os_free(xml);
	if (e) {
		char text[96];
		const char *reason = strerror_r(e, text, sizeof text);

		WARN("NCCL_GRAPH_DUMP_FILE: %s cannot be written: %s", path, reason);
	}
	return ncclSuccess;
}

ncclResult_t comm_graphs_find(struct ncclComm *comm)
{
	struct topo_graph_file *file;
	ncclResult_t rc = graphs_file(&file);

	for (int p = 0; p < TOPO_PATTERNS && !rc; p++) {
		os_free(comm->graph[p]); /* graph of another network */
		comm->graph[p] = os_alloc(sizeof *comm->graph[p], "graph of the host");
		if (!comm->graph[p]) {
			WARN("rank %d: no memory for the graphs of the host", comm->rank);
			rc = ncclSystemError;
		} else {
			rc = graphs_find_one(comm, file, (enum topo_pattern)p);
		}
	}
	topo_graph_file_free(file);
	return rc ? rc : graphs_dump(comm);
}
