/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sets of threads that call a function together. Each type has thread_rank(), size(),
 * num_threads() and sync().
 */
#ifndef NCCL_DEVICE_COOP_H_
#define NCCL_DEVICE_COOP_H_

#include "types.h"

#ifdef __CUDACC__

NCCL_DEVICE_INLINE int ncclCoopLane()
{
	int lane;

	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	return lane;
}

/* Neighbours in a warp; n is a power of 2. */
template <int n> struct ncclCoopTile {
	static_assert(n >= 1 && n <= 32 && (n & (n - 1)) == 0,
		      "a tile has 1, 2, 4, 8, 16 or 32 threads");

	NCCL_DEVICE_INLINE int thread_rank() const
	{
		return ncclCoopLane() % n;
	}
	NCCL_DEVICE_INLINE constexpr int size() const
	{
		return n;
	}
	NCCL_DEVICE_INLINE constexpr int num_threads() const
	{
		return n;
	}
	NCCL_DEVICE_INLINE uint32_t laneMask() const
	{
		return (~0u >> (32 - n)) << (ncclCoopLane() / n * n);
	}
	NCCL_DEVICE_INLINE void sync()
	{
		if (n > 1)
			__syncwarp(laneMask());
	}
};

typedef ncclCoopTile<1> ncclCoopThread;
typedef ncclCoopTile<32> ncclCoopWarp;

/* Some lanes of a warp. */
struct ncclCoopLanes {
	uint32_t lmask;

	NCCL_DEVICE_INLINE constexpr ncclCoopLanes(uint32_t lmask = ~0u) : lmask(lmask)
	{
	}
	NCCL_DEVICE_INLINE int thread_rank() const
	{
		return __popc(lmask & ((1u << ncclCoopLane()) - 1));
	}
	NCCL_DEVICE_INLINE int size() const
	{
		return __popc(lmask);
	}
	NCCL_DEVICE_INLINE int num_threads() const
	{
		return size();
	}
	NCCL_DEVICE_INLINE void sync()
	{
		__syncwarp(lmask);
	}
};

/* Warps that follow each other. Sets that meet at the same time have different numbers, `id`: 0 to
 * 14. They use the barriers 1 to 15 of the block. */
struct ncclCoopWarpSpan {
	uint32_t warp0 : 8, nWarps : 8, id : 8;

	NCCL_DEVICE_INLINE constexpr ncclCoopWarpSpan(int warp0, int nWarps, int id)
	    : warp0(warp0), nWarps(nWarps), id(id)
	{
	}
	NCCL_DEVICE_INLINE int thread_rank() const
	{
		return static_cast<int>(threadIdx.x - 32 * warp0);
	}
	NCCL_DEVICE_INLINE int size() const
	{
		return static_cast<int>(32 * nWarps);
	}
	NCCL_DEVICE_INLINE int num_threads() const
	{
		return size();
	}
	NCCL_DEVICE_INLINE void sync()
	{
		asm volatile("barrier.sync.aligned %0, %1;" ::"r"(1 + id), "r"(32 * nWarps)
			     : "memory");
	}
};

/* All threads of a block of one dimension. */
struct ncclCoopCta {
	NCCL_DEVICE_INLINE int thread_rank() const
	{
		return static_cast<int>(threadIdx.x);
	}
	NCCL_DEVICE_INLINE int size() const
	{
		return static_cast<int>(blockDim.x);
	}
	NCCL_DEVICE_INLINE int num_threads() const
	{
		return size();
	}
	NCCL_DEVICE_INLINE void sync()
	{
		__syncthreads();
	}
};

/* ---- lanes of the calling thread's warp in a set --------------------------------------------- */

template <int n> NCCL_DEVICE_INLINE uint32_t ncclCoopGetLaneMask(ncclCoopTile<n> coop)
{
	return coop.laneMask();
}

NCCL_DEVICE_INLINE uint32_t ncclCoopGetLaneMask(ncclCoopLanes coop)
{
	return coop.lmask;
}

NCCL_DEVICE_INLINE uint32_t ncclCoopGetLaneMask(ncclCoopWarpSpan)
{
	return ~0u;
}

NCCL_DEVICE_INLINE uint32_t ncclCoopGetLaneMask(ncclCoopCta)
{
	return ~0u;
}

/* The threads of the calling thread's warp that are in a set, which is in step. */
template <typename Coop> NCCL_DEVICE_INLINE ncclCoopWarp ncclCoopCoalesced(Coop)
{
	return ncclCoopWarp();
}

NCCL_DEVICE_INLINE ncclCoopLanes ncclCoopCoalesced(ncclCoopLanes coop)
{
	return coop;
}

template <int n> NCCL_DEVICE_INLINE ncclCoopTile<n> ncclCoopCoalesced(ncclCoopTile<n> coop)
{
	return coop;
}

NCCL_DEVICE_INLINE ncclCoopLanes ncclCoopCoalesced()
{
	return ncclCoopLanes(__activemask());
}

#endif

#endif
