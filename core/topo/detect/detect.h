/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detection: a host's topology from its kernel and its drivers, as NCCL's XML (version 1).
 * core/comm calls it if no file describes the host, and so does `doppel topo detect`.
 *
 *	each rank   its GPU, the network's NICs    topo_detect      -> part
 *	one rank    all parts of the host          topo_detect_fuse -> the host, trimmed to
 *	                                                               devices in use
 *	every rank  the resulting text             topo_system_get, as with a file
 *
 * The kernel's part comes from /sys: the place of each PCI function, its link, the NUMA node, the
 * CPU. The caller puts a driver's facts about a GPU into struct topo_detect_gpu (core/detect). /sys
 * may lack any file, and may have odd contents. The XML omits unreadable values, and NCCL's
 * defaults for absent attributes apply. Only a lack of memory is an error.
 *
 * Texts are os_alloc's. Errors: ncclSystemError (no memory), logged.
 */
#ifndef CORE_TOPO_DETECT_H
#define CORE_TOPO_DETECT_H

#include "core/include/nccl.h"
#include "core/os/os.h"

#define TOPO_DETECT_LINKS 64 /* most links of one GPU */

struct topo_detect_link {
	char target[24]; /* bus id of the far end, lower case */
	int32_t count;
};

struct topo_detect_gpu {
	char bus_id[24]; /* lower case */
	int32_t dev, rank;
	int32_t sm; /* 80 = 8.0; 0: unknown */
	bool gdr;   /* NICs reach its memory */
	/* Current PCI link: "16.0 GT/s PCIe", and lanes. "" and 0: uses the kernel's maximum. */
	char link_speed[24];
	int32_t link_width;
	struct topo_detect_link link[TOPO_DETECT_LINKS];
	int32_t links;
	int32_t c2c, c2c_mbps; /* number of links to the CPU, and MB/s of each */
};

struct topo_detect_nic {
	char name[32];   /* name of the HCA or interface, by which /sys is searched */
	char bus_id[24]; /* its PCI function, if the network knows it; "": unknown */
	int32_t dev, port;
	uint64_t guid;
	uint32_t mbit;
	bool gdr;
	bool rdma;
	bool coll; /* it can reduce */
};

/* The devices to look for. `base`, if not NULL, is existing XML that detection completes. */
struct topo_detect {
	uint64_t host_hash;
	const char *base, *source; /* the text, and its name in messages */
	size_t base_bytes;
	const struct topo_detect_gpu *gpu;
	int32_t gpus;
	const struct topo_detect_nic *nic;
	int32_t nics;
	bool all_cpus; /* adds CPUs without a GPU or a NIC */
};

/* Detects a part. The given GPUs and NICs get keep="1". ncclInvalidUsage: `base` is not XML. */
ncclResult_t topo_detect(const struct topo_detect *d, char **xml, size_t *bytes);

/* Fuses the parts of one host, in order. Elements with the same bus id, name or number become one;
 * the first part that has an attribute decides its value. Elements without keep="1" in or below
 * them are removed. */
struct topo_detect_part {
	const char *xml;
	size_t bytes;
};
ncclResult_t topo_detect_fuse(const struct topo_detect_part *part, int32_t parts, char **xml,
			      size_t *bytes);

/* True if an XML has a GPU as a bare PCI function without a <gpu>, as in the template of a cloud.
 * False if it is not XML. A NUL must follow the text. */
bool topo_detect_is_template(const char *xml, size_t bytes);

/* Lists the host's NICs with an active port, from /sys: HCAs, or interfaces if there are no HCAs.
 * Returns their number, at most `most`. */
int32_t topo_detect_nics(struct topo_detect_nic *nic, int32_t most);

/* Returns a hash of host name and boot id, or of NCCL_HOSTID. */
uint64_t topo_host_hash(void);

#endif
