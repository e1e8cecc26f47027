/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device communicators (ncclDevCommCreate): what a program's kernels need to reach the other ranks
 * of the host. All ranks of a communicator create one together, with the same requirements.
 *
 *	requirements --devcomm_layout_of--> places in resource memory
 *	all ranks: a window over that memory (transport_window_own), filled with zeros
 *	*out: ranks, teams, the window, the places
 *
 * Resource memory has, in this order, LSA barriers, the barriers of all ranks, and the buffers of
 * the list of requirements. A place begins at a multiple of 128 bytes.
 *
 * Errors, each with one line that names the field: ncclInvalidArgument for requirements that are
 * wrong; ncclInvalidUsage for what is not built (multicast, GIN, CFT) or not possible.
 */
#ifndef CORE_API_WINDOWS_DEVCOMM_H
#define CORE_API_WINDOWS_DEVCOMM_H

#include "core/include/nccl_device.h"
#include "core/transport/windows.h"

#define DEVCOMM_CREATE "ncclDevCommCreate"

/* The LSA team of the communicator: the ranks of this host; one rank, if there are no windows. */
ncclTeam_t devcomm_lsa(const struct ncclComm *comm);
/* Returns why the communicator can have no device communicator; NULL: it can. All ranks get the
 * same answer, except about direct access between ranks of other hosts. */
const char *devcomm_why_not(const struct ncclComm *comm);

/* Places in resource memory. */
struct devcomm_layout {
	size_t bytes;
	ncclLsaBarrierHandle_t lsa;    /* lsaBarrierCount */
	ncclLsaBarrierHandle_t hybrid; /* barrierCount */
	size_t buffers_at;
	uint32_t buffers; /* length of the list, whose buffers begin at buffers_at */
	uint32_t hash;    /* of the requirements; never 0 */
};

/* Checks requirements, and computes the layout; zeros after an error. */
ncclResult_t devcomm_layout_of(const struct ncclComm *comm, const ncclDevCommRequirements_t *reqs,
			       struct devcomm_layout *layout);
/* Bytes of `n` barriers of a team. */
size_t devcomm_barrier_bytes(uint64_t n, int32_t ranks);

/* The program's pointer to a handle, and the place. */
struct devcomm_target {
	ncclDevResourceHandle_t *out, place;
};

/* A device communicator to create. */
struct api_devcomm {
	ncclDevComm_t *out;
	struct devcomm_layout layout;
	struct devcomm_target target[]; /* [layout.buffers] */
};

/* Fills in the targets of the list. */
void devcomm_layout_targets(const ncclDevCommRequirements_t *reqs, struct api_devcomm *d);

/* Creates it. All ranks call it. WAITS for other ranks. Sets the outputs only on success. */
ncclResult_t api_devcomm_make(struct ncclComm *comm, const struct api_devcomm *d,
			      const struct window_call *call);
/* Destroys it, if it was created. */
void api_devcomm_undo(struct ncclComm *comm, const struct api_devcomm *d);

#endif
