/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host's topology, read from the file in NCCL_TOPO_FILE or detected. In detection, each rank
 * detects its GPU and the network's NICs. The host's first rank fuses the parts, and all ranks of
 * the host read the same text. One rank without a file, or with a template, makes all ranks of the
 * host detect; the file of another rank is then its part.
 *
 *	rank                            first rank of the host
 *	its part  ----- size, text ---->  topo_detect_fuse
 *	topo_system_get  <-- size, text --
 */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/comm/comm_internal.h"
#include "core/detect/gpu.h"
#include "core/topo/detect/detect.h"
#include "core/transport/base/net.h"
#include "core/transport/collnet/collnet.h"
#include "core/transport/transport.h"

/* Topology file that a cloud's host provides to a virtual machine. */
#define TOPOLOGY_VIRTUAL "/var/run/nvidia-topologyd/virtualTopology.xml"

#define TOPOLOGY_TAG_PART  0x70900000
#define TOPOLOGY_TAG_FUSED 0x70a00000
#define TOPOLOGY_MOST      (4u << 20) /* maximum bytes of XML, as in the reader */

/* A text allocated by os_alloc, and its source. */
struct topology_text {
	char *xml;
	size_t bytes;
	const char *source;
};

/* ---- network -------------------------------------------------------------------------------- */

/* True if the list has no device of that name. Ports of one device have the same name, by which the
 * proxy finds them too, so only the first port is added. */
static bool topology_device_is_new(const struct topo_select *select, const char *name)
{
	for (int32_t i = 0; i < select->devices; i++)
		if (strcmp(select->device[i].name, name) == 0)
			return false;
	return true;
}

/* Adds the network's devices. */
static ncclResult_t topology_devices(struct ncclComm *comm, struct topo_select *select)
{
	int count = 0;
	ncclResult_t rc = comm->net.ops->devices(comm, &count);

	for (int d = 0; d < count && !rc; d++) {
		struct net_props props;
		int32_t i = select->devices;

		rc = comm->net.ops->props(comm, d, &props);
		if (rc || i == TOPO_MAX_DEVICES || !topology_device_is_new(select, props.name))
			continue;
		memcpy(select->device[i].name, props.name, sizeof props.name);
		memcpy(select->device[i].bus_id, props.bus_id, sizeof props.bus_id);
		select->device[i].guid = props.guid;
		select->device[i].port = (int32_t)props.port;
		select->device[i].mbit = props.speed_mbps;
		select->device[i].link = props.link;
		select->device[i].gdr = props.gpu_memory;
		select->device[i].coll = collnet_has(comm->collnet, props.name);
		select->devices++;
	}
	if (!rc && !select->devices) {
		WARN("rank %d: the network %s has no device with an active port", comm->rank,
		     comm->net.ops->name);
		rc = ncclSystemError;
	}
	return rc;
}

/* True if the NICs are the network's devices instead of the file's. The file's NICs are HCAs. A
 * rank uses the network's devices if it has another network, detects, or has DOPPEL_TOPO_NETWORK
 * set. */
static bool topology_of_network(const struct ncclComm *comm, bool detected)
{
	return comm->net.ops &&
	       (detected || param_bool(PARAM_TOPO_NETWORK) || comm->net.ops != &net_verbs);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Returns the text that comm_topology_must_detect has read, once; later calls read the file. */
static ncclResult_t topology_file(struct ncclComm *comm, struct topology_text *text)
{
	const char *path = param_str(PARAM_TOPO_FILE);
	int e = 0;

	*text = (struct topology_text){comm->topo_text, comm->topo_bytes, path};
	comm->topo_text = NULL;
	if (!text->xml)
		e = os_file_read(path, &text->xml, &text->bytes);
	if (!e)
		return ncclSuccess;
	char why[96];
	const char *said = strerror_r(e, why, sizeof why);
	WARN("NCCL_TOPO_FILE: %s cannot be read: %s", path, said);
	return ncclSystemError;
}

/* Writes NCCL_TOPO_DUMP_FILE, on the rank of NCCL_TOPO_DUMP_FILE_RANK. A failed write is logged and
 * is not an error. */
static void topology_dump(const struct ncclComm *comm, const struct topology_text *text)
{
	const char *path = param_str(PARAM_TOPO_DUMP_FILE);
	int e = 0;

	if (path && param_i64(PARAM_TOPO_DUMP_FILE_RANK) == comm->rank)
		e = os_file_write(path, text->xml, text->bytes);
	if (e) {
		char why[96];
		const char *said = strerror_r(e, why, sizeof why);
		WARN("NCCL_TOPO_DUMP_FILE: %s cannot be written: %s", path, said);
	}
}

/* True without a file, or if the file is a cloud's template, which lacks the drivers' data of its
 * GPUs. A file that cannot be read is an error only when it is needed. */
bool comm_topology_must_detect(struct ncclComm *comm)
{
	const char *path = param_str(PARAM_TOPO_FILE);

	if (!path)
		return true;
	if (os_file_read(path, &comm->topo_text, &comm->topo_bytes))
		return false;
	return topo_detect_is_template(comm->topo_text, comm->topo_bytes);
}

/* ---- detection ------------------------------------------------------------------------------ */

/* Reads the base of detection: the rank's file, or a virtual machine's. base->xml stays NULL if
 * there is no file. */
static ncclResult_t topology_base(struct ncclComm *comm, struct topology_text *base)
{
	if (param_str(PARAM_TOPO_FILE))
		return topology_file(comm, base);
	base->source = TOPOLOGY_VIRTUAL;
	if (os_file_read(TOPOLOGY_VIRTUAL, &base->xml, &base->bytes))
		base->xml = NULL;
	return ncclSuccess;
}

static void topology_nics(const struct ncclComm *comm, const struct topo_select *select,
			  struct topo_detect_nic *nic)
{
	for (int32_t i = 0; i < select->devices; i++) {
		nic[i] = (struct topo_detect_nic){.dev = i,
						  .port = select->device[i].port,
						  .guid = select->device[i].guid,
						  .mbit = select->device[i].mbit,
						  .gdr = select->device[i].gdr,
						  .coll = select->device[i].coll,
						  .rdma = comm->net.ops == &net_verbs};
		memcpy(nic[i].name, select->device[i].name, sizeof nic[i].name);
		memcpy(nic[i].bus_id, select->device[i].bus_id, sizeof nic[i].bus_id);
	}
}

/* Detected data of this rank. Allocated on the heap, because it is large. */
struct topology_own {
	struct topo_detect_gpu gpu;
	struct topo_detect_nic nic[TOPO_MAX_DEVICES];
};

static ncclResult_t topology_part(struct ncclComm *comm, const struct topo_select *select,
				  struct topology_own *own, struct topology_text *part)
{
	const struct peer_info *me = &comm->peers[comm->rank];
	struct topology_text base = {0};
	ncclResult_t rc = detect_gpu_facts(comm->cuda_dev, me->bus_id, &own->gpu);

	if (!rc)
		rc = topology_base(comm, &base);
	if (rc)
		return rc;
	own->gpu.rank = comm->rank;
	if (own->gpu.dev < 0)
		/* A number that NVML does not use. */
		own->gpu.dev = INT16_MAX + 1 + comm->local_rank;
	topology_nics(comm, select, own->nic);
	rc = topo_detect(&(struct topo_detect){.host_hash = me->host_hash,
					       .base = base.xml,
					       .source = base.source,
					       .base_bytes = base.bytes,
					       .gpu = &own->gpu,
					       .gpus = 1,
					       .nic = own->nic,
					       .nics = select->devices},
			 &part->xml, &part->bytes);
	os_free(base.xml);
	return rc;
}

/* ---- parts of a host ------------------------------------------------------------------------ */

static ncclResult_t topology_send(struct ncclComm *comm, int32_t to, int tag,
				  const struct topology_text *text)
{
	uint64_t bytes = text->bytes;
	ncclResult_t rc = bootstrap_send(comm->bootstrap, to, tag, &bytes, sizeof bytes);

	return rc ? rc : bootstrap_send(comm->bootstrap, to, tag + 1, text->xml, text->bytes);
}

static ncclResult_t topology_recv(struct ncclComm *comm, int32_t from, int tag,
				  struct topology_text *text)
{
	uint64_t bytes = 0;
	ncclResult_t rc = bootstrap_recv(comm->bootstrap, from, tag, &bytes, sizeof bytes);

	if (rc)
		return rc;
	if (bytes == 0 || bytes > TOPOLOGY_MOST) {
		WARN("rank %d: rank %d sends a topology of %llu bytes, expected 1 to %u",
		     comm->rank, from, (unsigned long long)bytes, TOPOLOGY_MOST);
		return ncclInternalError;
	}
	text->xml = os_alloc(bytes + 1, "topology of another rank");
	text->bytes = bytes;
	if (!text->xml) {
		WARN("rank %d: no memory for a topology of %zu bytes", comm->rank, text->bytes);
		return ncclSystemError;
	}
	return bootstrap_recv(comm->bootstrap, from, tag + 1, text->xml, text->bytes);
}

/* Fuses all parts, the first rank's own included, into one text, and sends it to the other
 * ranks. */
static ncclResult_t topology_lead(struct ncclComm *comm, const struct topology_text *own,
				  struct topo_detect_part *part, struct topology_text *whole)
{
	ncclResult_t rc = ncclSuccess;

	part[0] = (struct topo_detect_part){own->xml, own->bytes};
	for (int32_t i = 1; i < comm->local_ranks && !rc; i++) {
		struct topology_text text = {0};

		rc = topology_recv(comm, comm->local_to_rank[i], TOPOLOGY_TAG_PART, &text);
		part[i] = (struct topo_detect_part){text.xml, text.bytes};
	}
	if (!rc)
		rc = topo_detect_fuse(part, comm->local_ranks, &whole->xml, &whole->bytes);
	for (int32_t i = 1; i < comm->local_ranks && !rc; i++)
		rc = topology_send(comm, comm->local_to_rank[i], TOPOLOGY_TAG_FUSED, whole);
	for (int32_t i = 1; i < comm->local_ranks; i++)
		os_free((void *)part[i].xml);
	return rc;
}

static ncclResult_t topology_exchange(struct ncclComm *comm, const struct topology_text *own,
				      struct topology_text *whole)
{
	struct topo_detect_part *part;
	int32_t first = comm->local_to_rank[0];
	ncclResult_t rc;

	whole->source = "detected topology";
	if (comm->local_rank > 0) {
		rc = topology_send(comm, first, TOPOLOGY_TAG_PART, own);
		return rc ? rc : topology_recv(comm, first, TOPOLOGY_TAG_FUSED, whole);
	}
	part = os_alloc((size_t)comm->local_ranks * sizeof *part, "parts of the topology");
	if (!part) {
		WARN("rank %d: no memory for %d parts of the topology", comm->rank,
		     comm->local_ranks);
		return ncclSystemError;
	}
	rc = topology_lead(comm, own, part, whole);
	os_free(part);
	return rc;
}

static ncclResult_t topology_detect(struct ncclComm *comm, const struct topo_select *select,
				    struct topology_text *whole)
{
	struct topology_own *own = os_alloc(sizeof *own, "what a rank detects");
	struct topology_text part = {0};
	ncclResult_t rc = ncclSystemError;

	if (!own)
		WARN("rank %d: no memory to detect the topology", comm->rank);
	else
		rc = topology_part(comm, select, own, &part);
	os_free(own);
	if (!rc)
		rc = topology_exchange(comm, &part, whole);
	os_free(part.xml);
	return rc;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* True if the topology is detected. All ranks of the host get the same answer. */
static bool topology_is_detected(const struct ncclComm *comm)
{
	for (int32_t i = 0; i < comm->local_ranks; i++)
		if (comm->peers[comm->local_to_rank[i]].detects)
			return true;
	return false;
}

static ncclResult_t topology_read(struct ncclComm *comm, struct topo_select *select)
{
	struct topology_text text = {0};
	bool detected = topology_is_detected(comm);
	ncclResult_t rc = detected ? ncclSuccess : topology_file(comm, &text);

	select->count = comm->local_ranks;
	/* Without the network, a file may have NICs to merge. The host's detection has none. */
	select->merge = comm->net.ops ? comm->net.ops->merged > 1 : !detected;
	for (int32_t i = 0; i < comm->local_ranks; i++) {
		const struct peer_info *p = &comm->peers[comm->local_to_rank[i]];
		memcpy(select->gpu[i].bus_id, p->bus_id, sizeof p->bus_id);
		select->gpu[i].dev = p->cuda_dev;
	}
	if (!rc && topology_of_network(comm, detected)) {
		select->network_known = true;
		rc = topology_devices(comm, select);
	}
	if (!rc && detected)
		rc = topology_detect(comm, select, &text);
	if (!rc)
		rc = topo_system_get(text.xml, text.bytes, text.source, select, &comm->topo);
	if (!rc)
		topology_dump(comm, &text);
	os_free(text.xml);
	return rc;
}

ncclResult_t comm_topology_find(struct ncclComm *comm)
{
	struct topo_select *select = os_alloc(sizeof *select, "topology selection");
	ncclResult_t rc;

	if (!select) {
		WARN("rank %d: no memory for the topology selection", comm->rank);
		return ncclSystemError;
	}
	rc = topology_read(comm, select);
	os_free(select);
	return rc;
}
