/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by windows.c (windows and their use), windows_register.c (their creation),
 * windows_record.c (their records on the GPU), windows_memory.c (programs on windows), and
 * windows_own.c (windows of the stack's own memory). */
#ifndef CORE_TRANSPORT_REGISTERED_WINDOWS_INTERNAL_H
#define CORE_TRANSPORT_REGISTERED_WINDOWS_INTERNAL_H

#include "core/include/nccl_device.h"
#include "core/transport/registered/registered_internal.h"
#include "core/transport/windows.h"

/* A rank of the team. */
struct window_peer {
	int32_t rank;
	uint8_t *at;                      /* its buffer's address here; NULL: no longer open */
	struct registered_import *import; /* NULL: the rank is in this process */
};

/* A window of one rank. Queries of other tasks read it under the registry's lock. */
struct window {
	struct registry_node node; /* must be first: node of the process' registry */
	struct window *next;
	const struct ncclComm *comm;
	/* The program's handle: the window's record on the GPU. NULL: no kernel of a program uses
	 * the window. */
	ncclWindow_t handle;
	bool own; /* a device communicator's memory, which ends with the window */
	uint8_t *at;
	size_t bytes;
	int flags;
	uint32_t number; /* counts the communicator's windows: 1, 2... */
	int32_t nranks;
	struct user_memory *memory; /* held */
	void *range;                /* registration; NULL: no rank of another process */
	uint64_t used;              /* number of the last launch that used it; 0: none */
	int32_t npeers;
	struct window_peer peer[]; /* [npeers]: the team, in the order of the ranks */
};

/* comm->windows */
struct windows {
	struct window *first; /* newest first */
	uint64_t launches;    /* number of launches so far */
	bool in_graph;        /* the last one is in a CUDA graph: no event reports its kernels */
	uint32_t made;        /* number of windows so far, without the next one */
	/* Memory of all ranks for programs on windows: a window that the program does not know. It
	 * lasts as long as the communicator. NULL: not made. */
	struct window *memory;
	struct window_chunk *chunks; /* records on the GPU */
};

/* Makes comm->windows, unless it exists. ncclSystemError: no memory. */
ncclResult_t windows_make(struct ncclComm *comm);
/* Gives the window a handle, and adds it to the communicator and the registry. After an error,
 * which is the communicator's, the window is freed. */
ncclResult_t window_add(struct ncclComm *comm, struct window *w);
/* Checks that the window exists, is of the communicator, and is the program's or the stack's own.
 * Sets *w; NULL after an error, logged with the public function `call`. */
ncclResult_t window_check(const struct ncclComm *comm, const char *call, ncclWindow_t win, bool own,
			  struct window **w);
/* Removes the window from the communicator and the registry. */
void window_remove(struct ncclComm *comm, struct window *w);
/* Registers a buffer as *w, which is not added. All ranks call it. NULL: there are no windows, or
 * an error. */
ncclResult_t window_register(struct ncclComm *comm, const struct window_call *call,
			     struct window **w);
/* The same for memory of the stack's own, which is allocated and has zeros. *w NULL: an error, also
 * if there are no windows. */
ncclResult_t window_own_register(struct ncclComm *comm, const struct window_call *call,
				 struct window **w);
/* Drops such a window, and its memory. `closes`: as in window_free. */
ncclResult_t window_own_free(struct ncclComm *comm, struct window *w, bool closes);

/* Writes the window's record, and sets its handle. */
ncclResult_t window_record_make(struct ncclComm *comm, struct window *w);
/* Empties the window's entry in the table of its chunk. */
ncclResult_t window_record_hide(struct ncclComm *comm, const struct window *w);
/* Gives the record back. Its memory stays until window_records_end, because CUDA may wait for
 * kernels when it frees memory. */
void window_record_drop(struct ncclComm *comm, struct window *w);
void window_records_end(struct ncclComm *comm);
/* Makes the memory for programs on windows, unless it exists or no program needs it. All ranks call
 * it, after a call that all ranks have found correct. */
ncclResult_t window_memory_make(struct ncclComm *comm, const struct window_call *call);
/* Ends it. */
void window_memory_end(struct ncclComm *comm);
/* Drops what the window holds, and frees it. `closes`: other ranks must close the memory. */
ncclResult_t window_free(struct ncclComm *comm, struct window *w, bool closes);
/* Returns the reason why this rank's host has no team, written to `text`; NULL: it has one. */
const char *window_why_not(const struct ncclComm *comm, char text[96]);

#endif
