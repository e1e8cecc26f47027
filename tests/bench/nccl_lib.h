/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library with NCCL's ABI, opened by its path, so that one program calls Doppel and NCCL in the
 * same run. The benches that compare them include it. A library that cannot be opened, or lacks a
 * function, ends the process with a line on stderr and exit status 1.
 */
#ifndef TESTS_BENCH_NCCL_LIB_H
#define TESTS_BENCH_NCCL_LIB_H

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/include/nccl.h"

/* X(member of struct nccl_lib, function). */
#define NCCL_LIB_FUNCTIONS(X)                                                                      \
	X(get_id, ncclGetUniqueId)                                                                 \
	X(init_rank, ncclCommInitRank)                                                             \
	X(destroy, ncclCommDestroy)                                                                \
	X(group_start, ncclGroupStart)                                                             \
	X(group_end, ncclGroupEnd)                                                                 \
	X(all_reduce, ncclAllReduce)                                                               \
	X(all_gather, ncclAllGather)                                                               \
	X(reduce_scatter, ncclReduceScatter)                                                       \
	X(broadcast, ncclBroadcast)                                                                \
	X(send, ncclSend)                                                                          \
	X(recv, ncclRecv)                                                                          \
	X(mem_alloc, ncclMemAlloc)                                                                 \
	X(mem_free, ncclMemFree)                                                                   \
	X(enter, ncclCommRegister)                                                                 \
	X(leave, ncclCommDeregister)                                                               \
	X(async_error, ncclCommGetAsyncError)                                                      \
	X(error, ncclGetErrorString)

struct nccl_lib {
	const char *path;
#define NCCL_LIB_MEMBER(member, function) __typeof__(&(function)) member;
	NCCL_LIB_FUNCTIONS(NCCL_LIB_MEMBER)
#undef NCCL_LIB_MEMBER
};

/* Opens l->path and leaves it open. */
static inline void nccl_lib_open(struct nccl_lib *l)
{
	static const struct {
		const char *name;
		size_t at; /* offset in struct nccl_lib */
	} functions[] = {
#define NCCL_LIB_ROW(member, function) {#function, offsetof(struct nccl_lib, member)},
		NCCL_LIB_FUNCTIONS(NCCL_LIB_ROW)
#undef NCCL_LIB_ROW
	};
	void *handle = dlopen(l->path, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, dlerror());
		_exit(1);
	}
	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
		void *p = dlsym(handle, functions[i].name);

		if (!p) {
			fprintf(stderr, "%s: %s has no %s\n", program_invocation_short_name,
				l->path, functions[i].name);
			_exit(1);
		}
		memcpy((char *)l + functions[i].at, &p, sizeof p);
	}
}

/* Returns CLOCK_MONOTONIC in microseconds. */
static inline double nccl_lib_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

#endif
