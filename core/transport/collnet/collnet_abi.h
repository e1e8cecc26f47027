/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of a collective network, versions 8 to 12, as in NCCL 2.19 to 2.32: a library of a
 * net plugin may also have a struct collnet_abi under the name ncclCollNetPlugin_v8 to
 * ncclCollNetPlugin_v12. Layouts are those of 64-bit Linux. C17. A plugin may include this header,
 * or NCCL's own. Log function, properties and kinds of memory are those of net_abi.h.
 *
 * All versions have their members in the same order. A later version appends members, or changes
 * the type of a function. A table of an older version ends earlier, and the members after its end
 * must not be read.
 *
 * Units: bytes, elements. Results are ncclResult_t. A plugin may return any number, so a caller
 * checks what it gets.
 */
#ifndef CORE_TRANSPORT_COLLNET_COLLNET_ABI_H
#define CORE_TRANSPORT_COLLNET_COLLNET_ABI_H

#include "core/transport/net_plugin/net_abi.h"

#define COLLNET_ABI_SYMBOL "ncclCollNetPlugin_v" /* the version follows */
#define COLLNET_ABI_OLDEST 8
#define COLLNET_ABI_NEWEST 12

/* A part of a rank's data, of an all-gather or a reduce-scatter. */
struct collnet_abi_part {
	void *mr, *data;
	size_t bytes; /* in version 8 an uint32_t */
};
DOPPEL_CHECK_SIZE(struct collnet_abi_part, 24);

/*
 * `connect` makes a group of `count` members: handles[i] is that of member i, and `rank` is the
 * caller. With ncclSuccess and NULL in *comm the stack calls it again; NCCL's plugins wait inside
 * of it. Members start the same reductions in the same order. iallreduce with ncclSuccess and NULL
 * in *request is called again, too. iflush with NULL needs no flush. `test` frees a request that it
 * reports as done. If `devices` returns 0 devices, the other members may be NULL.
 */
struct collnet_abi {
	const char *name;
	union {
		ncclResult_t (*v8)(net_abi_log log); /* to version 10 */
		ncclResult_t (*v11)(void **context, uint64_t comm_id, net_abi_log log);
	} init;
	ncclResult_t (*devices)(int *count);
	ncclResult_t (*props)(int dev, void *props); /* the struct of the version, net_abi.h */
	union {
		ncclResult_t (*v8)(int dev, void *handle, void **listen);
		ncclResult_t (*v11)(void *context, int dev, void *handle, void **listen);
	} listen;
	ncclResult_t (*connect)(void **handles, int count, int rank, void *listen, void **comm);
	ncclResult_t (*reduce_support)(ncclDataType_t type, ncclRedOp_t op, int *supported);
	ncclResult_t (*reg_mr)(void *comm, void *data, size_t bytes, int type, void **mr);
	ncclResult_t (*reg_dmabuf)(void *comm, void *data, size_t bytes, int type, uint64_t offset,
				   int fd, void **mr); /* NULL: none */
	ncclResult_t (*dereg_mr)(void *comm, void *mr);
	union {
		ncclResult_t (*v8)(void *comm, void *send, void *recv, int count,
				   ncclDataType_t type, ncclRedOp_t op, void *send_mr,
				   void *recv_mr, void **request);
		ncclResult_t (*v9)(void *comm, void *send, void *recv, size_t count,
				   ncclDataType_t type, ncclRedOp_t op, void *send_mr,
				   void *recv_mr, void **request);
	} iallreduce;
	/* The stack never calls these two: it has no program for them. */
	ncclResult_t (*iallgather)(void *comm, void *send, int nparts,
				   struct collnet_abi_part *parts, size_t rank_bytes,
				   size_t window_at, size_t window_bytes, void *send_mr,
				   void **request);
	ncclResult_t (*ireducescatter)(void *comm, int nparts, struct collnet_abi_part *parts,
				       void *recv, size_t rank_bytes, size_t window_at,
				       size_t window_bytes, ncclDataType_t type, ncclRedOp_t op,
				       void *recv_mr, void **request);
	ncclResult_t (*iflush)(void *comm, void *data, int bytes, void *mr, void **request);
	ncclResult_t (*test)(void *request, int *done, int *bytes);
	ncclResult_t (*close_coll)(void *comm);
	ncclResult_t (*close_listen)(void *listen);
	/* From version 9; the stack never calls it. */
	ncclResult_t (*make_device)(int *dev, void *devices);
	/* From version 11. */
	ncclResult_t (*finalize)(void *context);
};
DOPPEL_CHECK_SIZE(struct collnet_abi, 152);
DOPPEL_CHECK_OFFSET(struct collnet_abi, iallreduce, 80);
DOPPEL_CHECK_OFFSET(struct collnet_abi, close_listen, 128);
DOPPEL_CHECK_OFFSET(struct collnet_abi, make_device, 136);
DOPPEL_CHECK_OFFSET(struct collnet_abi, finalize, 144);

#endif
