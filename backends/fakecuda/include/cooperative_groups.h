/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of cooperative groups that is built: the block, and tiles of a warp. Groups of a grid or
 * of several GPUs, coalesced groups, partitions and asynchronous copies are not.
 */
#ifndef FAKECUDA_COOPERATIVE_GROUPS_H
#define FAKECUDA_COOPERATIVE_GROUPS_H

#include "cuda_runtime.h"

#if defined(__CUDACC__)
#define FAKECUDA_GROUP __device__ __forceinline__

namespace cooperative_groups
{
class thread_block
{
      public:
	static FAKECUDA_GROUP unsigned int thread_rank()
	{
		return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
	}
	static FAKECUDA_GROUP unsigned int num_threads()
	{
		return blockDim.x * blockDim.y * blockDim.z;
	}
	static FAKECUDA_GROUP unsigned int size()
	{
		return num_threads();
	}
	static FAKECUDA_GROUP dim3 thread_index()
	{
		return dim3(threadIdx.x, threadIdx.y, threadIdx.z);
	}
	static FAKECUDA_GROUP dim3 group_index()
	{
		return dim3(blockIdx.x, blockIdx.y, blockIdx.z);
	}
	static FAKECUDA_GROUP dim3 dim_threads()
	{
		return dim3(blockDim.x, blockDim.y, blockDim.z);
	}
	static FAKECUDA_GROUP void sync()
	{
		__syncthreads();
	}
};

static FAKECUDA_GROUP thread_block this_thread_block()
{
	return thread_block();
}

/* Size lanes of a warp, aligned to their number. */
template <unsigned int Size> class thread_block_tile
{
	static_assert(Size && Size <= 32 && !(Size & (Size - 1)), "a power of two up to 32");

	static FAKECUDA_GROUP unsigned int first()
	{
		return thread_block::thread_rank() % 32 / Size * Size;
	}
	static FAKECUDA_GROUP unsigned int mask()
	{
		return (Size == 32 ? ~0u : (1u << Size % 32) - 1) << first();
	}

      public:
	static FAKECUDA_GROUP unsigned int thread_rank()
	{
		return thread_block::thread_rank() % Size;
	}
	static constexpr __host__ __device__ unsigned int num_threads()
	{
		return Size;
	}
	static constexpr __host__ __device__ unsigned int size()
	{
		return Size;
	}
	static FAKECUDA_GROUP unsigned int meta_group_rank()
	{
		return thread_block::thread_rank() / Size;
	}
	static FAKECUDA_GROUP unsigned int meta_group_size()
	{
		return (thread_block::num_threads() + Size - 1) / Size;
	}
	static FAKECUDA_GROUP void sync()
	{
		__syncwarp(mask());
	}
	template <class T> FAKECUDA_GROUP T shfl(T v, int rank) const
	{
		return __shfl_sync(mask(), v, rank, Size);
	}
	template <class T> FAKECUDA_GROUP T shfl_up(T v, unsigned int n) const
	{
		return __shfl_up_sync(mask(), v, n, Size);
	}
	template <class T> FAKECUDA_GROUP T shfl_down(T v, unsigned int n) const
	{
		return __shfl_down_sync(mask(), v, n, Size);
	}
	template <class T> FAKECUDA_GROUP T shfl_xor(T v, int lanes) const
	{
		return __shfl_xor_sync(mask(), v, lanes, Size);
	}
	FAKECUDA_GROUP int any(int p) const
	{
		return __any_sync(mask(), p);
	}
	FAKECUDA_GROUP int all(int p) const
	{
		return __all_sync(mask(), p);
	}
	FAKECUDA_GROUP unsigned int ballot(int p) const
	{
		return __ballot_sync(mask(), p) >> first();
	}
};

template <unsigned int Size> FAKECUDA_GROUP thread_block_tile<Size> tiled_partition(thread_block)
{
	return thread_block_tile<Size>();
}
template <class Group> FAKECUDA_GROUP void sync(Group &group)
{
	group.sync();
}
} // namespace cooperative_groups

#undef FAKECUDA_GROUP
#endif
#endif
