/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines between the ranks of a team: a store brings data together with a flag, so that the receiver
 * needs no barrier. A line of 16 bytes has two halves of {32 bits of data, 32 bits of flag}. The
 * flag is the epoch. A half is one store of 64 bits, which arrives whole.
 *
 * The memory of a block is a line for the epoch, and two banks of nSlots lines. Odd epochs use one
 * bank, even ones the other. When a rank has the lines of all others of epoch e, they have read
 * their lines of epoch e-1, so that bank is free. An element of more than 8 bytes has further lines
 * at distances of maxElts. ncclLLA2ACalcSlots has the number of slots.
 */
#ifndef NCCL_DEVICE_LL_A2A_H_
#define NCCL_DEVICE_LL_A2A_H_

#include "lsa_barrier.h"

#ifdef __CUDACC__

/* The element as pieces of 8 bytes; the last one is filled up with zeros. */
template <typename T> union ncclLLA2APieces {
	static constexpr int count = (sizeof(T) + 7) / 8;
	T value;
	uint32_t word[count][2];

	NCCL_DEVICE_INLINE ncclLLA2APieces()
	{
		for (int i = 0; i < count; i++)
			word[i][0] = word[i][1] = 0;
	}
};

template <typename Coop> struct ncclLLA2ASession {
	Coop coop;
	ncclDevComm const &comm;
	ncclTeam team;
	ncclLLA2AHandle handle;
	int block;
	int pitch; /* lines between the pieces of an element */
	uint32_t epoch;

	NCCL_DEVICE_INLINE ncclLLA2ASession(Coop coop, ncclDevComm const &comm, ncclTeam team,
					    ncclLLA2AHandle handle, uint32_t block, int maxElts,
					    bool multimem = false, ncclMultimemHandle = {})
	    : coop(coop), comm(comm), team(team), handle(handle), block(static_cast<int>(block)),
	      pitch(maxElts)
	{
		if (multimem)
			ncclDeviceAbsent("ncclLLA2ASession with multimem");
		/* Memory of zeros has no line of epoch 2 or 3. */
		epoch = *own() + 2;
	}

	NCCL_DEVICE_INLINE ~ncclLLA2ASession()
	{
		if (coop.thread_rank() == 0)
			*own() = epoch - 2;
		coop.sync();
	}

	ncclLLA2ASession(ncclLLA2ASession const &) = delete;

	/* Sends to a rank of the team. */
	template <typename T> NCCL_DEVICE_INLINE void send(int peer, int slot, T data)
	{
		ncclLLA2APieces<T> pieces;

		pieces.value = data;
#pragma unroll
		for (int i = 0; i < pieces.count; i++)
			asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(
					     line(peer, slot + i * pitch)),
				     "l"(half(pieces.word[i][0])), "l"(half(pieces.word[i][1]))
				     : "memory");
	}

	/* Sends to all ranks of the team, this one too. */
	template <typename T> NCCL_DEVICE_INLINE void bcast(int slot, T data)
	{
		for (int i = 0; i < team.nRanks; i++)
			send((team.rank + i) % team.nRanks, slot, data);
	}

	/* Waits for the element. */
	template <typename T> NCCL_DEVICE_INLINE T recv(int slot)
	{
		T got[1];

		recvUnrolled<1, 1>(slot, 1, 0, got);
		return got[0];
	}

	/* Waits for eltCount elements, at least MinEltCount. After an abort they are undefined. */
	template <int MinEltCount, int MaxEltCount, typename T>
	NCCL_DEVICE_INLINE void recvUnrolled(int eltStart, int eltCount, int eltStride,
					     T (&elts)[MaxEltCount])
	{
		uint32_t polls = 0;
		bool all;

		do {
			all = true;
#pragma unroll
			for (int i = 0; i < MaxEltCount; i++)
				if (i < MinEltCount || i < eltCount)
					all &= arrived(eltStart + i * eltStride, elts[i]);
		} while (!all && !ncclDeviceAborted(comm.abortFlag, polls));
	}

	/* Waits for eltCount elements, one or more, and reduces them in their order. */
	template <int Unroll, typename Elt, typename EltToAcc, typename Reduce>
	NCCL_DEVICE_INLINE auto recvReduce(int eltStart, int eltCount, int eltStride,
					   EltToAcc eltToAcc, Reduce reduce)
		-> decltype(eltToAcc(*static_cast<Elt *>(nullptr)))
	{
		auto acc = eltToAcc(recv<Elt>(eltStart));

		for (int first = 1; first < eltCount; first += Unroll) {
			Elt got[Unroll];
			const int n = eltCount - first < Unroll ? eltCount - first : Unroll;

			recvUnrolled<1, Unroll>(eltStart + first * eltStride, n, eltStride, got);
#pragma unroll
			for (int i = 0; i < Unroll; i++)
				if (i < n)
					acc = reduce(acc, eltToAcc(got[i]));
		}
		return acc;
	}

	/* Ends the exchange. In it this rank has sent to each rank of the team, and has received
	 * from each. */
	NCCL_DEVICE_INLINE void endEpoch(Coop)
	{
		if (epoch >= ~1u)
			clear();
		coop.sync();
		epoch = epoch == ~0u ? 2 : epoch + 1;
	}

      private:
	NCCL_DEVICE_INLINE size_t first() const
	{
		return static_cast<size_t>(block) * (1 + 2 * handle.nSlots);
	}

	NCCL_DEVICE_INLINE uint32_t *own() const
	{
		return reinterpret_cast<uint32_t *>(
			static_cast<ulonglong2 *>(
				ncclGetResourceBufferLocalPointer(comm, handle.bufHandle)) +
			first());
	}

	/* A line of this epoch's bank in the memory of a rank. */
	NCCL_DEVICE_INLINE ulonglong2 *line(int rank, int slot) const
	{
		return static_cast<ulonglong2 *>(ncclGetResourceBufferPeerPointer(
			       comm, handle.bufHandle, team, rank)) +
		       first() + 1 + (epoch & 1) * handle.nSlots + slot;
	}

	NCCL_DEVICE_INLINE unsigned long long half(uint32_t data) const
	{
		return static_cast<unsigned long long>(epoch) << 32 | data;
	}

	/* Reads the lines of an element; true: all are of this epoch. */
	template <typename T> NCCL_DEVICE_INLINE bool arrived(int slot, T &element) const
	{
		ncclLLA2APieces<T> pieces;
		bool all = true;

#pragma unroll
		for (int i = 0; i < pieces.count; i++) {
			unsigned long long a, b;

			asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
				     : "=l"(a), "=l"(b)
				     : "l"(line(team.rank, slot + i * pitch))
				     : "memory");
			pieces.word[i][0] = static_cast<uint32_t>(a);
			pieces.word[i][1] = static_cast<uint32_t>(b);
			all &= a >> 32 == epoch && b >> 32 == epoch;
		}
		element = pieces.value;
		return all;
	}

	/* Epochs begin anew: this bank must not have a line of an epoch that comes again. The zeros
	 * are performed before this rank's next lines. A peer that has these lines may send into
	 * the bank, and zeros that arrive later would erase its line. */
	NCCL_DEVICE_INLINE void clear()
	{
		coop.sync();
		for (uint32_t i = coop.thread_rank(); i < handle.nSlots; i += coop.size())
			*line(team.rank, static_cast<int>(i)) = ulonglong2{0, 0};
		__threadfence_system();
	}
};

#endif

#endif
