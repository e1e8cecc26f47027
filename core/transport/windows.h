/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows (ncclCommWindowRegister): all ranks of a communicator register a buffer of the same size
 * together. A window's buffer is a registered buffer as well (registered.h), so messages and
 * results go straight into it where they go into registered buffers. In addition each rank knows
 * the addresses of the buffers of its team: the ranks of its host, which access each other's memory
 * directly (NCCL's LSA team). Within a process these are the peers' own addresses. Between
 * processes each rank has the others' memory open, as a record of registered memory.
 *
 *	each rank                                        all ranks
 *	holds the memory; sends its row: size, flags,
 *	address, result of its own checks          --->  the same rows on all ranks: all register
 *	                                                 the window, or none does
 *	to each rank of the team in another process:
 *	OPEN, unless it has the memory; the number
 *	of the record                              --->  opens the memory, and keeps it open until
 *	                                                 its own window ends
 *
 * A call returns without waiting for other ranks to open memory. Deregistration is local. Memory is
 * freed when the program has freed it, and no window of any rank has it open (user_memory.h); a
 * rank of the same process holds nothing. Windows end with their communicator at the latest.
 *
 * Without direct access between all ranks of each host there are no windows: *win is NULL, with
 * ncclSuccess and a line at INFO.
 *
 * core/api and core/plan call these functions on the task that uses the communicator; the address
 * queries may come from any task. The communicator owns its windows. Sizes and offsets are bytes.
 * Errors: ncclInvalidArgument for wrong arguments and sizes that differ; ncclRemoteError if another
 * rank's call failed; ncclInvalidUsage for a window in use; ncclSystemError without memory; errors
 * of bootstrap and CUDA, which become the communicator's asynchronous error, because other ranks
 * wait.
 */
#ifndef CORE_TRANSPORT_WINDOWS_H
#define CORE_TRANSPORT_WINDOWS_H

#include "core/include/nccl_device.h"
#include "core/rank/rank.h"

/* Arguments of one call. */
struct window_call {
	const char *name; /* the public function */
	void *buffer;
	size_t bytes;
	int flags;
	uint32_t layout; /* hash of the uses of a device communicator's memory; 0: a window */
	/* The error of the caller's checks. This rank sends it to the others, and the call returns
	 * it. */
	ncclResult_t refused;
	/* Returns the number of the next message from that rank. */
	uint64_t (*next_message)(const struct ncclComm *comm, int32_t peer);
};

/* All ranks call it, in the same order. WAITS for the rows of all ranks. Sets *win, to NULL after
 * an error. */
ncclResult_t transport_window_register(struct ncclComm *comm, const struct window_call *call,
				       ncclWindow_t *win);
/* Waits for no rank. The window exists, and the current device is the communicator's. */
ncclResult_t transport_window_deregister(struct ncclComm *comm, ncclWindow_t win);
/* Sets *buffer and *bytes to this rank's buffer. ncclInvalidArgument, logged with the public
 * function `call`: not a window of the communicator. */
ncclResult_t transport_window_buffer(const struct ncclComm *comm, const char *call,
				     ncclWindow_t win, void **buffer, size_t *bytes);
/* True if the ranks of this host have direct access to each other. */
bool transport_windows_are_possible(const struct ncclComm *comm);

/* A place in the buffer of one rank. */
struct window_place {
	ncclWindow_t window;
	size_t offset;
	int32_t rank;
	bool in_team; /* `rank` is a number in the team, in the order of the ranks; else a rank */
};
/* Sets *out to the address of the place on this rank's GPU; NULL: the rank is not in the team.
 * `call` is the public function. */
ncclResult_t transport_window_address(const char *call, const struct window_place *p, void **out);
/* Returns the number of teams. */
int32_t transport_window_teams(const struct ncclComm *comm);

/* ---- memory of a device communicator (ncclDevCommCreate) ------------------------------------- */

/* Makes a window over `bytes` of memory of the stack's own, with zeros. All ranks call it, in the
 * order of other windows. WAITS for the rows of all ranks. ncclInvalidUsage: the ranks of a host
 * have no direct access to each other. */
ncclResult_t transport_window_own(struct ncclComm *comm, const struct window_call *call,
				  ncclWindow_t *win);
/* Returns the table in GPU memory, in which kernels find windows. The communicator has a window. */
ncclDevCommWindowTable_t transport_window_table(const struct ncclComm *comm);
/* Ends it. May wait for kernels of this GPU. ncclInvalidArgument, logged: no such window. */
ncclResult_t transport_window_own_end(struct ncclComm *comm, ncclWindow_t win);

/* ---- programs on windows (core/algo/symmetric.c): ranks of one host, at most DEV_SYM_RANKS --- */

/* Returns true if a window with NCCL_WIN_COLL_SYMMETRIC contains the whole buffer. Sets each[r] to
 * the address of rank r's buffer at the same offset. `each` NULL: only the answer. */
bool transport_window_each(const struct ncclComm *comm, const void *at, size_t bytes, void **each);
/* The same for the memory of each rank for such programs (struct dev_sym_mem), which exists after
 * the first window with this flag. */
bool transport_window_memory(const struct ncclComm *comm, void **each);
/* Returns the number of such a window, the same on all ranks: 1, 2..., and the offset in it; 0: no
 * window has the buffer. */
uint32_t transport_window_number(const struct ncclComm *comm, const void *at, size_t bytes,
				 size_t *offset);

/* A launch follows, in a CUDA graph or not. */
void transport_windows_launch(const struct ncclComm *comm, bool in_graph);
/* The launch uses the buffer. */
void transport_windows_use(const struct ncclComm *comm, const void *at, size_t bytes);
/* The memory of ranks of other processes is no longer open. */
void transport_windows_leave(struct ncclComm *comm);
/* Ends all windows, when no other rank has memory of this one open. */
void transport_windows_end(struct ncclComm *comm);

#endif
