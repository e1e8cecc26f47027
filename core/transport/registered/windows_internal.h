/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by windows.c (records of windows, their use), windows_register.c (their creation), and
 * windows_memory.c (programs on windows). */
#ifndef CORE_TRANSPORT_REGISTERED_WINDOWS_INTERNAL_H
#define CORE_TRANSPORT_REGISTERED_WINDOWS_INTERNAL_H

#include "core/transport/registered/registered_internal.h"
#include "core/transport/windows.h"

/* A rank of the team. */
struct window_peer {
	int32_t rank;
	uint8_t *at;                      /* its buffer's address here; NULL: no longer open */
	struct registered_import *import; /* NULL: the rank is in this process */
};

/* A window of one rank; its address is the program's handle. Queries of other tasks read it under
 * the registry's lock. */
struct ncclWindow_vidmem {
	struct registry_node node; /* must be first: node of the process' registry */
	struct ncclWindow_vidmem *next;
	const struct ncclComm *comm;
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
	struct ncclWindow_vidmem *first; /* newest first */
	uint64_t launches;               /* number of launches so far */
	bool in_graph; /* the last one is in a CUDA graph: no event reports its kernels */
	uint32_t made; /* number of windows so far, without the next one */
	/* Memory of all ranks for programs on windows: a window that the program does not know. It
	 * lasts as long as the communicator. NULL: not made. */
	struct ncclWindow_vidmem *memory;
};

/* Makes comm->windows, unless it exists. ncclSystemError: no memory. */
ncclResult_t windows_make(struct ncclComm *comm);
/* Adds the window to the communicator and the registry. comm->windows exists. */
void window_add(struct ncclComm *comm, struct ncclWindow_vidmem *w);
/* Registers a buffer as *win, which is not added. All ranks call it. NULL: there are no windows, or
 * an error. */
ncclResult_t window_register(struct ncclComm *comm, const struct window_call *call,
			     ncclWindow_t *win);
/* Makes the memory for programs on windows, unless it exists or no program needs it. All ranks call
 * it, after a call that all ranks have found correct. */
ncclResult_t window_memory_make(struct ncclComm *comm, const struct window_call *call);
/* Ends it. */
void window_memory_end(struct ncclComm *comm);
/* Drops what the window holds, and frees it. `closes`: other ranks must close the memory. */
ncclResult_t window_free(struct ncclComm *comm, struct ncclWindow_vidmem *w, bool closes);
/* Returns the reason why this rank's host has no team, written to `text`; NULL: it has one. */
const char *window_why_not(const struct ncclComm *comm, char text[96]);

#endif
