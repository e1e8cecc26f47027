// SPDX-License-Identifier: BSD-3-Clause
// Order of memory at an LSA barrier. Without an argument each rank releases its stores and acquires
// those of others. With the argument "relaxed" it does not, and sees old values in some seeds.
#include "devapi.h"

// Words of several lines of the cache; a late store of any is seen.
__global__ void exchange(gpu g, bool relaxed)
{
	const ncclCoopThread thread;
	ncclLsaBarrierSession<ncclCoopThread> bar(thread, g.dev, ncclTeamTagLsa(), 0);
	const cuda::memory_order order = relaxed ? cuda::memory_order_relaxed
						 : cuda::memory_order_acq_rel;
	int *there = (int *)ncclGetPeerPointer(g.win, 0, (g.dev.rank + 1) % GPUS);
	const int *here = (const int *)ncclGetLocalPointer(g.win, 0);

	for (int round = 1; round <= 8; round++) {
		for (int i = 0; i < 8; i++)
			there[i * 64] = round;
		bar.sync(thread, order);
		for (int i = 0; i < 8; i++)
			if (here[i * 64] != round)
				atomicAdd(g.wrong, 1);
		bar.sync(thread, order);
	}
}

int main(int argc, char **)
{
	int wrong;

	make_all();
	wrong = run_all(exchange, 1, 1, argc > 1);
	end_all();
	return report("order", wrong);
}
