// SPDX-License-Identifier: BSD-3-Clause
// The 128 bytes that eight lanes write in one instruction are seen whole: a flag of 8 bytes at the
// end of the line shows that the 120 bytes before it are there.
#include "source.h"

enum { WORDS = 64, ROUNDS = 12 };

typedef unsigned long long u64;

__device__ void put(u64 *at, u64 a, u64 b)
{
	asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(a), "l"(b)
		     : "memory");
}

__device__ void get(const u64 *at, u64 *a, u64 *b)
{
	asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(*a), "=l"(*b)
		     : "l"(at)
		     : "memory");
}

// Each lane has two words of four lines. The last word of each line is its flag.
__device__ void send(u64 *slot, u64 round)
{
	unsigned int lane = threadIdx.x;

	__syncwarp();
	put(slot + 2 * lane, 1000 * round + 2 * lane,
	    lane % 8 == 7 ? round : 1000 * round + 2 * lane + 1);
}

__device__ void receive(const u64 *slot, u64 round, u64 *got)
{
	unsigned int lane = threadIdx.x;
	u64 a, b;

	do {
		get(slot + 2 * lane, &a, &b);
	} while (__any_sync(~0u, lane % 8 == 7 && b != round));
	get(slot + 2 * lane, &a, &b);
	got[round * WORDS + 2 * lane] = a;
	got[round * WORDS + 2 * lane + 1] = b;
	__syncwarp();
}

// Block 0 writes slots, and block 1 reads them. A slot is written again when it has been read.
__global__ void whole(u64 *slot, u64 *got, volatile u64 *read, unsigned int first)
{
	for (u64 round = 0; round < ROUNDS; round++) {
		u64 *at = slot + round % 2 * WORDS;

		if (first + blockIdx.x == 0) {
			while (round >= 2 && read[threadIdx.x] + 2 <= round)
				continue;
			send(at, round + 1);
			continue;
		}
		receive(at, round + 1, got);
		read[threadIdx.x] = round + 1;
	}
}

// The lane with the flag goes on by itself: it needs its part of the line before its fence.
__global__ void fenced(u64 *slot, u64 *got, volatile u64 *read)
{
	for (u64 round = 0; round < ROUNDS; round++) {
		if (blockIdx.x == 0) {
			while (read[threadIdx.x] < round)
				continue;
			send(slot, round + 1);
			if (threadIdx.x % 8 == 7)
				__threadfence();
			continue;
		}
		receive(slot, round + 1, got);
		read[threadIdx.x] = round + 1;
	}
}

// Lines of which some lanes write nothing, and lines that a lane writes alone.
__global__ void parts(u64 *slot, u64 *got, volatile u64 *flag)
{
	unsigned int lane = threadIdx.x;
	u64 a, b;

	if (blockIdx.x == 1) {
		while (lane < 5 && flag[lane] != 1)
			continue;
		__threadfence();
		get(slot + 2 * lane, &a, &b);
		got[2 * lane] = a;
		got[2 * lane + 1] = b;
		return;
	}
	if (lane < 5) {
		put(slot + 2 * lane, 1, 1);
		put(slot + 2 * lane, lane, lane + 1);
		get(slot + 2 * lane, &a, &b);
		got[2 * lane + WORDS] = a;
		got[2 * lane + 1 + WORDS] = b;
		__threadfence();
		flag[lane] = 1;
	}
	if (lane == 20) // waits for lane 3, which does not wait for it
		while (flag[3] != 1)
			continue;
}

static u64 line_word(int i)
{
	u64 round = i / WORDS;

	return !round ? 0 : i % 16 == 15 ? round : 1000 * round + i % WORDS;
}

static void one_gpu()
{
	both<u64> slot(2 * WORDS), got((ROUNDS + 1) * WORDS), read(32);

	whole<<<2, 32>>>(slot.gpu, got.gpu, read.gpu, 0);
	got.down();
	check("lines of a warp", got, line_word);
}

static void two_gpus()
{
	int devices = 0;

	NEED(cudaGetDeviceCount(&devices));
	if (devices < 2)
		return;
	both<u64> slot(2 * WORDS), got((ROUNDS + 1) * WORDS), read(32);
	NEED(cudaSetDevice(1));
	NEED(cudaDeviceEnablePeerAccess(0, 0));
	whole<<<1, 32>>>(slot.gpu, nullptr, read.gpu, 0);
	NEED(cudaSetDevice(0));
	whole<<<1, 32>>>(slot.gpu, got.gpu, read.gpu, 1);
	got.down();
	check("lines between GPUs", got, line_word);
}

static void alone()
{
	both<u64> slot(WORDS), got((ROUNDS + 1) * WORDS), read(32);

	fenced<<<2, 32>>>(slot.gpu, got.gpu, read.gpu);
	got.down();
	check("a fence after a line", got, line_word);
}

static void some_lanes()
{
	both<u64> slot(WORDS), got(2 * WORDS), flag(32);

	parts<<<2, 32>>>(slot.gpu, got.gpu, flag.gpu);
	got.down();
	check("parts of lines", got, [](int i) {
		u64 lane = i % WORDS / 2;
		return lane < 5 ? lane + i % 2 : 0;
	});
}

int main()
{
	one_gpu();
	two_gpus();
	alone();
	some_lanes();
	return failures != 0;
}
