/* SPDX-License-Identifier: BSD-3-Clause */
/* Barriers of all ranks of a communicator, which must be on one host: between hosts GIN is
 * missing. `barrierCount` of the requirements has their number. */
#ifndef NCCL_DEVICE_BARRIER_H_
#define NCCL_DEVICE_BARRIER_H_

#include "gin.h"
#include "lsa_barrier.h"

#ifdef __CUDACC__

template <typename Coop> struct ncclBarrierSession {
	ncclLsaBarrierSession<Coop> lsa;

	NCCL_DEVICE_INLINE ncclBarrierSession(Coop coop, ncclTeamTagWorld, ncclGin gin,
					      uint32_t index, bool multimem = false)
	    : lsa(coop, gin.comm, ncclTeamLsa(gin.comm), gin.comm.hybridLsaBarrier, index, multimem)
	{
		if (gin.comm.nRanks != gin.comm.lsaSize)
			ncclDeviceAbsent("ncclBarrierSession of several hosts");
	}

	NCCL_DEVICE_INLINE ncclBarrierSession(Coop coop, ncclTeamTagLsa, ncclDevComm const &comm,
					      uint32_t index, bool multimem = false)
	    : lsa(coop, comm, ncclTeamLsa(comm), comm.hybridLsaBarrier, index, multimem)
	{
	}

	ncclBarrierSession(ncclBarrierSession const &) = delete;

	NCCL_DEVICE_INLINE ncclLsaBarrierSession<Coop> &lsaBarrier()
	{
		return lsa;
	}

	NCCL_DEVICE_INLINE void sync(Coop coop, cuda::memory_order order,
				     ncclGinFenceLevel = ncclGinFenceLevel::Put |
							 ncclGinFenceLevel::Get)
	{
		lsa.sync(coop, order);
	}

	NCCL_DEVICE_INLINE ncclResult_t sync(Coop coop, cuda::memory_order order, ncclGinFenceLevel,
					     uint64_t timeoutCycles)
	{
		return lsa.sync(coop, order, timeoutCycles);
	}
};

#endif

#endif
