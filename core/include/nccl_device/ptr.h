/* SPDX-License-Identifier: BSD-3-Clause */
/* A place in a window as a pointer to T: the same place on all ranks. */
#ifndef NCCL_DEVICE_PTR_H_
#define NCCL_DEVICE_PTR_H_

#include "core.h"

#ifdef __cplusplus

#ifdef __CUDACC__
#define NCCL_MEMBER __host__ __device__ __forceinline__
#else
#define NCCL_MEMBER inline
#endif

template <typename T> struct ncclSymPtr {
	using ElementType = T;
	ncclWindow_t window;
	size_t offset; /* bytes; without a window: an address */

	NCCL_MEMBER constexpr ncclSymPtr(ncclWindow_t window = nullptr, size_t offset = 0)
	    : window(window), offset(offset)
	{
	}

	template <typename U> NCCL_MEMBER operator ncclSymPtr<U>() const
	{
		return ncclSymPtr<U>(window, offset);
	}

	/* Int is any type of integers. A negative number moves back. */
	template <typename Int> NCCL_MEMBER ncclSymPtr<T> &operator+=(Int n)
	{
		offset += static_cast<size_t>(n) * sizeof(T);
		return *this;
	}

	template <typename Int> NCCL_MEMBER ncclSymPtr<T> &operator-=(Int n)
	{
		offset -= static_cast<size_t>(n) * sizeof(T);
		return *this;
	}

#ifdef __CUDACC__
	NCCL_DEVICE_INLINE T *localPtr() const
	{
		return static_cast<T *>(window ? ncclGetLocalPointer(window, offset)
					       : reinterpret_cast<void *>(offset));
	}

	NCCL_DEVICE_INLINE T *lsaPtr(int peer) const
	{
		return static_cast<T *>(ncclGetLsaPointer(window, offset, peer));
	}

	NCCL_DEVICE_INLINE T *peerPtr(int peer) const
	{
		return static_cast<T *>(ncclGetPeerPointer(window, offset, peer));
	}

	NCCL_DEVICE_INLINE T *peerPtr(ncclTeam team, int peer) const
	{
		return static_cast<T *>(ncclGetPeerPointer(window, offset, team, peer));
	}

	NCCL_DEVICE_INLINE T *multimemPtr(ncclMultimemHandle handle) const
	{
		return static_cast<T *>(ncclGetMultimemPointer(window, offset, handle));
	}

	NCCL_DEVICE_INLINE T *lsaMultimemPtr(ncclDevComm const &comm) const
	{
		return static_cast<T *>(ncclGetLsaMultimemPointer(window, offset, comm));
	}
#endif
};

template <typename T, typename Int> NCCL_MEMBER ncclSymPtr<T> operator+(ncclSymPtr<T> p, Int n)
{
	return p += n;
}

template <typename T, typename Int> NCCL_MEMBER ncclSymPtr<T> operator-(ncclSymPtr<T> p, Int n)
{
	return p -= n;
}

/* Both are places in the same window. */
template <typename T> NCCL_MEMBER ptrdiff_t operator-(ncclSymPtr<T> a, ncclSymPtr<T> b)
{
	return static_cast<ptrdiff_t>(a.offset - b.offset) / static_cast<ptrdiff_t>(sizeof(T));
}

template <typename T> NCCL_MEMBER bool operator==(ncclSymPtr<T> a, ncclSymPtr<T> b)
{
	return a.window == b.window && a.offset == b.offset;
}

template <typename T> NCCL_MEMBER bool operator!=(ncclSymPtr<T> a, ncclSymPtr<T> b)
{
	return !(a == b);
}

#undef NCCL_MEMBER

#ifdef __CUDACC__
NCCL_DEVICE_INLINE ncclSymPtr<char> ncclGetResourceBuffer(ncclDevComm const &comm,
							  ncclDevResourceHandle h)
{
	return ncclSymPtr<char>(comm.resourceWindow, ncclGetResourceBufferOffset(h));
}
#endif

#endif

#endif
