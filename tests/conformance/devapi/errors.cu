// SPDX-License-Identifier: BSD-3-Clause
// Kernels that use what is not there: argument "index", "multimem", "pointer", "find",
// "gin" or "abort".
#include "devapi.h"

__global__ void use(gpu g, char what)
{
	const ncclCoopCta cta;

	if (g.dev.rank != 0)
		return;
	if (what == 'i')
		ncclLsaBarrierSession<ncclCoopCta> bar(cta, g.dev, ncclTeamTagLsa(), BARRIERS);
	if (what == 'm')
		ncclLsaBarrierSession<ncclCoopCta> bar(cta, g.dev, ncclTeamTagLsa(), 0, true);
	if (what == 'p')
		g.wrong[0] = *(int *)ncclGetLsaMultimemPointer(g.win, 0, g.dev);
	if (what == 'f')
		*(ncclWindow_t *)g.data = ncclFindWindow(cta, g.dev, g.wrong);
	if (what == 'g')
		ncclGin(g.dev, 0).put(ncclTeamWorld(g.dev), 1, g.win, 0, g.win, 0, 8,
				      ncclGin_SignalInc{0});
}

// Rank 0 waits for ranks that never arrive.
__global__ void alone(gpu g)
{
	ncclLsaBarrierSession<ncclCoopCta> bar(ncclCoopCta(), g.dev, ncclTeamTagLsa(), 0);

	if (g.dev.rank == 0)
		bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

static int abort_ends_a_wait()
{
	NEED(cudaSetDevice(0));
	alone<<<1, 2, 0, ranks[0].stream>>>(ranks[0]);
	for (gpu &g : ranks)
		NEED(ncclCommAbort(g.comm));
	NEED(cudaStreamSynchronize(ranks[0].stream));
	return report("an abort ends a barrier", 0);
}

int main(int, char **argv)
{
	make_all();
	if (argv[1][0] == 'a')
		return abort_ends_a_wait();
	NEED(cudaSetDevice(0));
	use<<<1, 1, 0, ranks[0].stream>>>(ranks[0], argv[1][0]);
	printf("%s\n", cudaGetErrorName(cudaStreamSynchronize(ranks[0].stream)));
	return 0;
}
