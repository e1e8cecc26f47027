// SPDX-License-Identifier: BSD-3-Clause
// A value and its flag in 8 bytes of a volatile vector are written and seen together.
#include "source.h"

enum { N = 32, ROUNDS = 8 };

// Block 0 writes lines of {value, flag, value, flag}; block 1 waits for the flags.
__global__ void lines(uint4 *line, unsigned int *got, volatile unsigned int *seen)
{
	uint4 *at = &line[threadIdx.x];

	for (unsigned int round = 1; round <= ROUNDS; round++) {
		if (blockIdx.x == 0) {
			unsigned int v = 100 * round + threadIdx.x;
			asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(at),
				     "r"(v), "r"(round), "r"(v + 7)
				     : "memory");
			while (seen[threadIdx.x] != round)
				continue;
			continue;
		}
		uint4 v;
		do {
			asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
				     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
				     : "l"(at)
				     : "memory");
		} while (v.y != round || v.w != round);
		got[(round - 1) * N + threadIdx.x] = v.x + v.z;
		seen[threadIdx.x] = round;
	}
}

int main()
{
	both<uint4> line(N);
	both<unsigned int> got(N * ROUNDS), seen(N);

	lines<<<2, N>>>(line.gpu, got.gpu, seen.gpu);
	got.down();
	check("values with flags", got, [](int i) { return 200u * (i / N + 1) + 2 * (i % N) + 7; });
	return failures != 0;
}
