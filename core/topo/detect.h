/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detection: a host's topology from what its kernel and its drivers show, as NCCL's XML (version
 * 1). Called by core/comm, where no file describes the host, and by `doppel topo detect`.
 *
 *	each rank   its GPU, the network's NICs    topo_detect      -> part
 *	one rank    all parts of the host          topo_detect_fuse -> the host, what no rank uses left out
 *	every rank  the text of it                 topo_system_get, as with a file
 *
 * The kernel's part comes from /sys: the place of each PCI function, its link, the NUMA node, the
 * CPU. What only a driver knows of a GPU the caller puts into struct topo_detect_gpu (core/detect).
 * /sys may lack anything, and may have strange things: what cannot be read is left out of the XML,
 * where it means what NCCL takes it for; nothing of it is an error but a lack of memory.
 *
 * Texts are os_alloc's. Errors: ncclSystemError (no memory), logged.
 */
#ifndef CORE_TOPO_DETECT_H
#define CORE_TOPO_DETECT_H

#include "core/include/nccl.h"
#include "core/os/os.h"

#define TOPO_DETECT_LINKS 64 /* of one GPU */

struct topo_detect_link {
	char target[24]; /* bus id of the far end, lower case */
	int32_t count;
};

struct topo_detect_gpu {
	char bus_id[24]; /* lower case */
	int32_t dev, rank;
	int32_t sm; /* 80 = 8.0; 0: unknown */
	bool gdr;   /* NICs reach its memory */
	/* its PCI link now: "16.0 GT/s PCIe" and lanes; "" and 0: the kernel's maximum */
	char link_speed[24];
	int32_t link_width;
	struct topo_detect_link link[TOPO_DETECT_LINKS];
	int32_t links;
	int32_t c2c, c2c_mbps; /* links to the CPU, and MB/s of each */
};

struct topo_detect_nic {
	char name[32]; /* of the HCA or the interface: its place in /sys is found by it */
	int32_t dev, port;
	uint64_t guid;
	uint32_t mbit;
	bool gdr;
	bool rdma;
};

/* What to look for; `base`, if not NULL, is XML that is there already, which detection
 * completes. */
struct topo_detect {
	uint64_t host_hash;
	const char *base, *source; /* the text, and what names it in messages */
	size_t base_bytes;
	const struct topo_detect_gpu *gpu;
	int32_t gpus;
	const struct topo_detect_nic *nic;
	int32_t nics;
	bool all_cpus; /* those without a GPU or a NIC, too */
};

/* What is looked for has keep="1". ncclInvalidUsage: `base` is not XML. */
ncclResult_t topo_detect(const struct topo_detect *d, char **xml, size_t *bytes);

/* Parts of one host, in order: what has the same bus id, name or number is one element, and its
 * attributes are those of the first part that has them. What has no keep="1" in or below it is left
 * out. */
struct topo_detect_part {
	const char *xml;
	size_t bytes;
};
ncclResult_t topo_detect_fuse(const struct topo_detect_part *part, int32_t parts, char **xml,
			      size_t *bytes);

/* Does an XML have a GPU as a bare PCI function, without a <gpu>, as the template of a cloud has
 * it? False as well for what is not XML. A byte 0 follows the text. */
bool topo_detect_is_template(const char *xml, size_t bytes);

/* The host's NICs with an active port, as /sys has them: HCAs, or where there is none, interfaces.
 * At most `most`; returns how many. */
int32_t topo_detect_nics(struct topo_detect_nic *nic, int32_t most);

/* Of host name and boot id, or NCCL_HOSTID. */
uint64_t topo_host_hash(void);

#endif
