/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers of the ranks of an LSA team. Each has a number, `index`, and at a time one set of
 * threads of each rank uses it; usually these are the blocks with that number.
 *
 * The memory of n barriers in each rank's resource memory, in words of 32 bits, is NCCL's:
 *
 *	n       epochs with multicast, unused
 *	n       epochs: the number of the last barrier that this rank has left
 *	n       arrivals with multicast, unused
 *	n x R   arrivals: for each barrier, the last epoch of each of R ranks
 *
 * arrive() stores the next epoch into the word of this rank on each other rank. wait() waits until
 * the words of all others have it. A session keeps the epoch in a register, and stores it at its
 * end.
 */
#ifndef NCCL_DEVICE_LSA_BARRIER_H_
#define NCCL_DEVICE_LSA_BARRIER_H_

#include "coop.h"
#include "core.h"

#ifdef __CUDACC__

#include <cuda/atomic>

/* Polls between two looks at the abort flag. */
#define NCCL_DEVICE_POLLS 10000

/* True if the host has aborted; looks once in NCCL_DEVICE_POLLS calls. */
NCCL_DEVICE_INLINE bool ncclDeviceAborted(uint32_t *flag, uint32_t &polls)
{
	if (++polls < NCCL_DEVICE_POLLS)
		return false;
	polls = 0;
	return flag && cuda::atomic_ref<uint32_t>(*flag).load(cuda::memory_order_relaxed) != 0;
}

NCCL_DEVICE_INLINE bool ncclDeviceReleases(cuda::memory_order order)
{
	return order != cuda::memory_order_relaxed && order != cuda::memory_order_acquire;
}

NCCL_DEVICE_INLINE bool ncclDeviceAcquires(cuda::memory_order order)
{
	return order != cuda::memory_order_relaxed && order != cuda::memory_order_release;
}

/* Ends a kernel that uses a barrier which the device communicator does not have. */
static __device__ __noinline__ void ncclDeviceNoBarrier(uint32_t index, int barriers)
{
	printf("LSA barrier %u does not exist: ncclDevCommRequirements requested %d\n", index,
	       barriers);
	__trap();
}

template <typename Coop> struct ncclLsaBarrierSession {
	Coop coop;
	ncclDevComm const &comm;
	ncclTeam team;
	ncclLsaBarrierHandle handle;
	int index;
	uint32_t epoch;

	NCCL_DEVICE_INLINE ncclLsaBarrierSession(Coop coop, ncclDevComm const &comm, ncclTeam team,
						 ncclLsaBarrierHandle handle, uint32_t index,
						 bool multimem = false, ncclMultimemHandle = {})
	    : coop(coop), comm(comm), team(team), handle(handle), index(static_cast<int>(index))
	{
		if (multimem)
			ncclDeviceAbsent("ncclLsaBarrierSession with multimem");
		if (index >= static_cast<uint32_t>(handle.nBarriers))
			ncclDeviceNoBarrier(index, handle.nBarriers);
		epoch = *own();
	}

	NCCL_DEVICE_INLINE ncclLsaBarrierSession(Coop coop, ncclDevComm const &comm, ncclTeamTagLsa,
						 uint32_t index, bool multimem = false)
	    : ncclLsaBarrierSession(coop, comm, ncclTeamLsa(comm), comm.lsaBarrier, index, multimem)
	{
	}

	NCCL_DEVICE_INLINE ~ncclLsaBarrierSession()
	{
		if (coop.thread_rank() == 0)
			*own() = epoch;
		coop.sync();
	}

	ncclLsaBarrierSession(ncclLsaBarrierSession const &) = delete;

	/* With release, all ranks that wait with acquire see the stores of `coop` before it. */
	NCCL_DEVICE_INLINE void arrive(Coop, cuda::memory_order order)
	{
		coop.sync();
		if (team.nRanks > 1 && ncclDeviceReleases(order))
			cuda::atomic_thread_fence(cuda::memory_order_release);
		for (int i = coop.thread_rank(); i < team.nRanks - 1; i += coop.size())
			cuda::atomic_ref<uint32_t>(*arrival(other(i), team.rank))
				.store(epoch + 1, cuda::memory_order_relaxed);
	}

	NCCL_DEVICE_INLINE void wait(Coop, cuda::memory_order order)
	{
		uint32_t polls = 0;

		for (int i = coop.thread_rank(); i < team.nRanks - 1; i += coop.size())
			while (!arrived(other(i), order) &&
			       !ncclDeviceAborted(comm.abortFlag, polls))
				;
		epoch++;
		coop.sync();
	}

	/* Gives up after so many cycles: ncclTimeout, on the threads that have waited so long. */
	NCCL_DEVICE_INLINE ncclResult_t wait(Coop, cuda::memory_order order, uint64_t timeoutCycles)
	{
		ncclResult_t result = ncclSuccess;
		const uint64_t start = static_cast<uint64_t>(clock64());

		coop.sync();
		for (int i = coop.thread_rank(); i < team.nRanks - 1 && !result; i += coop.size())
			while (!result && !arrived(other(i), order))
				if (static_cast<uint64_t>(clock64()) - start >= timeoutCycles)
					result = ncclTimeout;
		if (!result)
			epoch++;
		coop.sync();
		return result;
	}

	NCCL_DEVICE_INLINE void sync(Coop, cuda::memory_order order)
	{
		arrive(coop, order);
		wait(coop, order);
	}

	NCCL_DEVICE_INLINE ncclResult_t sync(Coop, cuda::memory_order order, uint64_t timeoutCycles)
	{
		arrive(coop, order);
		return wait(coop, order, timeoutCycles);
	}

      private:
	NCCL_DEVICE_INLINE int other(int i) const
	{
		return i < team.rank ? i : i + 1;
	}

	NCCL_DEVICE_INLINE uint32_t *own() const
	{
		return static_cast<uint32_t *>(
			       ncclGetResourceBufferLocalPointer(comm, handle.bufHandle)) +
		       handle.nBarriers + index;
	}

	/* The word of rank `from` in the memory of rank `at`. */
	NCCL_DEVICE_INLINE uint32_t *arrival(int at, int from) const
	{
		return static_cast<uint32_t *>(
			       ncclGetResourceBufferPeerPointer(comm, handle.bufHandle, team, at)) +
		       3 * handle.nBarriers + index * team.nRanks + from;
	}

	/* A rank may be one epoch ahead. Epochs wrap. */
	NCCL_DEVICE_INLINE bool arrived(int peer, cuda::memory_order order) const
	{
		cuda::atomic_ref<uint32_t> word(*arrival(team.rank, peer));
		const uint32_t got = ncclDeviceAcquires(order)
					     ? word.load(cuda::memory_order_acquire)
					     : word.load(cuda::memory_order_relaxed);

		return got - (epoch + 1) < 1u << 31;
	}
};

#endif

#endif
