// SPDX-License-Identifier: BSD-3-Clause
// Cooperative groups: the block and tiles of a warp. Addresses of state spaces.
#include <cooperative_groups.h>

#include "source.h"

namespace cg = cooperative_groups;

enum { N = 64 };

__global__ void groups(int *out, int *votes)
{
	__shared__ int word[N];
	cg::thread_block block = cg::this_thread_block();
	auto tile = cg::tiled_partition<8>(block);
	int sum = block.thread_rank(), local = 3;

	word[block.size() - 1 - block.thread_rank()] = sum;
	cg::sync(block);
	sum = word[block.thread_rank()];
	for (unsigned n = tile.size() / 2; n; n /= 2)
		sum += tile.shfl_down(sum, n);
	out[block.thread_rank()] = tile.shfl(sum, 0) + tile.meta_group_rank();
	votes[block.thread_rank()] = tile.ballot(tile.thread_rank() == tile.meta_group_rank());
	// shared memory by its own address; local memory and parameters are not shared
	size_t at = __cvta_generic_to_shared(&word[block.thread_rank()]);
	int through;
	asm volatile("ld.shared.u32 %0, [%1];" : "=r"(through) : "l"(at));
	if (through != word[block.thread_rank()] || !__isShared(word) || __isShared(out) ||
	    !__isGlobal(out) || __isShared(&local) ||
	    __cvta_shared_to_generic(at) != &word[block.thread_rank()])
		votes[block.thread_rank()] = -1;
	// the first half of the threads meets at a barrier of its own
	if (block.thread_rank() < N / 2)
		__barrier_sync_count(1, N / 2);
}

int main()
{
	both<int> out(N), votes(N);

	groups<<<1, dim3(16, 4)>>>(out.gpu, votes.gpu);
	NEED(cudaGetLastError());
	out.down();
	votes.down();
	check("block and tiles", out, [](int i) {
		int g = i / 8;
		return 8 * (N - 1) - (16 * g + 7) * 4 + g;
	});
	check("votes and spaces", votes, [](int i) { return 1 << i / 8; });
	return failures != 0;
}
