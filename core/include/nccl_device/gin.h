/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Network operations of kernels (GIN). They are not built: ncclDevCommCreate refuses requirements
 * that need them. Kernels that use them compile, and trap when they get there.
 */
#ifndef NCCL_DEVICE_GIN_H_
#define NCCL_DEVICE_GIN_H_

#include "coop.h"
#include "core.h"

#ifdef __CUDACC__

#include <cuda/atomic>

struct ncclGin_None {
};
struct ncclGin_SignalInc {
	ncclGinSignal_t signal;
};
struct ncclGin_SignalAdd {
	ncclGinSignal_t signal;
	uint64_t value;
};
struct ncclGin_CounterInc {
	ncclGinCounter_t counter;
};

enum class ncclGinFenceLevel { Relaxed = 0, Put = 1, Get = 2 };

NCCL_DEVICE_INLINE constexpr ncclGinFenceLevel operator|(ncclGinFenceLevel a, ncclGinFenceLevel b)
{
	return static_cast<ncclGinFenceLevel>(static_cast<int>(a) | static_cast<int>(b));
}

struct ncclGin {
	ncclDevComm const &comm;
	int contextId;

	NCCL_DEVICE_INLINE ncclGin(ncclDevComm const &comm, int contextId)
	    : comm(comm), contextId(contextId)
	{
	}

	template <typename... Options>
	NCCL_DEVICE_INLINE void put(ncclTeam, int /* peer */, ncclWindow_t, size_t, ncclWindow_t,
				    size_t, size_t, Options...) const
	{
		ncclDeviceAbsent("ncclGin::put");
	}

	template <typename... Options>
	NCCL_DEVICE_INLINE void signal(ncclTeam, int /* peer */, Options...) const
	{
		ncclDeviceAbsent("ncclGin::signal");
	}

	template <typename Coop, typename... Options>
	NCCL_DEVICE_INLINE void flush(Coop, Options...) const
	{
		ncclDeviceAbsent("ncclGin::flush");
	}

	template <typename... Options>
	NCCL_DEVICE_INLINE uint64_t readSignal(ncclGinSignal_t, Options...) const
	{
		ncclDeviceAbsent("ncclGin::readSignal");
		return 0;
	}

	template <typename Coop, typename... Options>
	NCCL_DEVICE_INLINE void waitSignal(Coop, ncclGinSignal_t, uint64_t, Options...) const
	{
		ncclDeviceAbsent("ncclGin::waitSignal");
	}
};

#endif

#endif
