// SPDX-License-Identifier: BSD-3-Clause
// The device API between the GPUs of a process: addresses, barriers with each set of threads,
// epochs that wrap, and lines.
#include "devapi.h"

static __device__ void expect(const gpu &g, bool right)
{
	if (!right)
		atomicAdd(g.wrong, 1);
}

// ---- addresses ----------------------------------------------------------------------------------

struct addresses {
	void *base[GPUS];
};

__global__ void pointers(gpu g, addresses a)
{
	const ncclDevComm &c = g.dev;
	const ncclTeam world = ncclTeamWorld(c), lsa = ncclTeamLsa(c), rail = ncclTeamRail(c);
	ncclSymPtr<int> p(g.win, 64), q = p + 5;

	expect(g, world.nRanks == GPUS && world.rank == c.rank && lsa.nRanks == GPUS);
	expect(g, rail.nRanks == 1 && rail.rank == 0 && rail.stride == GPUS);
	expect(g, q - p == 5 && (q - 5) == p && q != p && (q -= 2) == p + 3);
	for (int i = 0; i < GPUS; i++) {
		char *at = (char *)a.base[i] + 64;

		expect(g, ncclGetLsaPointer(g.win, 64, i) == at);
		expect(g, ncclGetPeerPointer(g.win, 64, i) == at);
		expect(g, ncclGetPeerPointer(g.win, 64, lsa, i) == at);
		expect(g, (char *)q.lsaPtr(i) == at + 12 && q.peerPtr(world, i) == q.lsaPtr(i));
		expect(g, ncclTeamRankToLsa(c, world, i) == i);
		expect(g, ncclTeamRankToWorld(c, lsa, i) == i);
	}
	expect(g, ncclGetLocalPointer(g.win, 64) == (char *)a.base[c.rank] + 64);
	expect(g, ncclSymPtr<char>(q).localPtr() == (char *)a.base[c.rank] + 76);
	expect(g, ncclGetResourceBuffer(c, g.lines.bufHandle).lsaPtr(1) ==
			  ncclGetResourceBufferLsaPointer(c, g.lines.bufHandle, 1));
}

// ---- windows of addresses -----------------------------------------------------------------------

enum { PIECES = 40, PIECE = 4096 }; // more than a table of the device communicator has

struct pieces {
	char *at[GPUS];
	ncclWindow_t win[GPUS][PIECES];
};

__global__ void finds(gpu g, pieces p)
{
	const int i = threadIdx.x, rank = g.dev.rank;
	const char *at = p.at[rank] + i * PIECE;

	expect(g, ncclFindWindow(ncclCoopThread(), g.dev, at) == p.win[rank][i]);
	expect(g, ncclFindWindow(ncclCoopThread(), g.dev, at + PIECE - 1) == p.win[rank][i]);
	expect(g, ncclFindWindow(ncclCoopCta(), g.dev, g.data + 8) == g.win);
}

static void pieces_register(pieces *p, int first, int n)
{
	NEED(ncclGroupStart());
	for (int g = 0; g < GPUS; g++)
		for (int i = first; i < first + n; i++)
			NEED(ncclCommWindowRegister(ranks[g].comm, p->at[g] + i * PIECE, PIECE,
						    &p->win[g][i], 0));
	NEED(ncclGroupEnd());
}

static void pieces_deregister(pieces *p, int first, int n)
{
	for (int g = 0; g < GPUS; g++)
		for (int i = first; i < first + n; i++)
			NEED(ncclCommWindowDeregister(ranks[g].comm, p->win[g][i]));
}

static int run_finds()
{
	pieces p;
	int wrong;

	for (int g = 0; g < GPUS; g++) {
		NEED(cudaSetDevice(g));
		NEED(ncclMemAlloc((void **)&p.at[g], PIECES * PIECE));
	}
	pieces_register(&p, 0, PIECES);
	wrong = run_all(finds, 1, PIECES, p);
	pieces_deregister(&p, 3, 5); // other windows get their entries
	pieces_register(&p, 6, 2);
	pieces_register(&p, 3, 3);
	wrong += run_all(finds, 1, PIECES, p);
	pieces_deregister(&p, 0, PIECES);
	for (int g = 0; g < GPUS; g++)
		NEED(ncclMemFree(p.at[g]));
	return wrong;
}

// ---- barriers -----------------------------------------------------------------------------------

// In each round the set stores the round to the next rank, and finds that of the previous rank.
template <class Coop, class Barrier>
static __device__ void rounds(const gpu &g, Coop coop, Barrier &bar, int place, int n)
{
	const int next = (g.dev.rank + 1) % GPUS;
	int *there = (int *)ncclGetPeerPointer(g.win, 0, next) + place;
	const int *here = (const int *)ncclGetLocalPointer(g.win, 0) + place;

	for (int round = 1; round <= n; round++) {
		there[coop.thread_rank()] = round;
		bar.sync(coop, cuda::memory_order_acq_rel);
		// a thread reads what another thread of the peer has written
		expect(g, here[coop.size() - 1 - coop.thread_rank()] == round);
		bar.sync(coop, cuda::memory_order_acq_rel);
	}
}

template <class Coop> static __device__ void session(const gpu &g, Coop coop, int index, int place)
{
	ncclLsaBarrierSession<Coop> bar(coop, g.dev, ncclTeamTagLsa(), index);

	rounds(g, coop, bar, place, 3);
}

__global__ void of_blocks(gpu g)
{
	session(g, ncclCoopCta(), blockIdx.x, blockIdx.x * blockDim.x);
}

__global__ void of_sets(gpu g)
{
	const int warp = threadIdx.x / 32;

	if (warp == 0)
		session(g, ncclCoopWarp(), 0, 0);
	else if (warp == 1 && threadIdx.x % 32 < 8)
		session(g, ncclCoopTile<8>(), 1, 32);
	else if (warp == 1 && threadIdx.x % 32 >= 20)
		session(g, ncclCoopLanes(0xfffu << 20), 2, 64);
	else if (warp >= 2)
		session(g, ncclCoopWarpSpan(2, 2, 3), 3, 96);
}

__global__ void of_threads(gpu g)
{
	session(g, ncclCoopThread(), threadIdx.x, threadIdx.x);
}

__global__ void of_list(gpu g)
{
	const ncclCoopCta cta;
	ncclLsaBarrierSession<ncclCoopCta> bar(cta, g.dev, ncclTeamLsa(g.dev), g.more, 1);

	bar.arrive(cta, cuda::memory_order_release);
	bar.wait(cta, cuda::memory_order_acquire);
	rounds(g, cta, bar, 0, 2);
}

__global__ void of_all_ranks(gpu g)
{
	const ncclCoopCta cta;
	ncclBarrierSession<ncclCoopCta> bar(cta, ncclTeamTagWorld(), ncclGin(g.dev, 0), blockIdx.x);

	rounds(g, cta, bar, blockIdx.x * blockDim.x, 2);
}

// The words of barriers begin shortly before they wrap.
__global__ void old_epochs(gpu g)
{
	uint32_t *words = (uint32_t *)ncclGetResourceBufferLocalPointer(g.dev,
									g.dev.lsaBarrier.bufHandle);

	for (int i = threadIdx.x; i < BARRIERS * (3 + GPUS); i += blockDim.x)
		words[i] = ~2u;
}

// No other rank arrives.
__global__ void timeout(gpu g)
{
	const ncclCoopCta cta;
	ncclLsaBarrierSession<ncclCoopCta> bar(cta, g.dev, ncclTeamTagLsa(), 0);

	if (g.dev.rank == 0)
		expect(g, bar.wait(cta, cuda::memory_order_acquire, 20000) ==
				  (threadIdx.x < GPUS - 1 ? ncclTimeout : ncclSuccess));
}

// ---- lines --------------------------------------------------------------------------------------

struct wide {
	int a[3];
};

static __device__ int value(int rank, int epoch, int i)
{
	return rank * 1000 + epoch * 100 + i;
}

template <class T> static __device__ T element(int v)
{
	union {
		T t;
		int word[sizeof(T) / 4];
	} u = {};

	u.word[0] = v;
	return u.t;
}

template <class T> static __device__ int of_element(const T &t)
{
	union {
		T t;
		int word[sizeof(T) / 4];
	} u;

	u.t = t;
	return u.word[0];
}

// All send an element to all; then each to one other, in n epochs.
template <class T> __global__ void lines(gpu g, int n)
{
	const ncclCoopWarp warp;
	const int lane = warp.thread_rank(), rank = g.dev.rank;
	ncclLLA2ASession<ncclCoopWarp> s(warp, g.dev, ncclTeamLsa(g.dev), g.lines, blockIdx.x,
					 GPUS * 4);

	for (int e = 0; e < n; e++) {
		if (lane < 4) {
			s.bcast(rank * 4 + lane, element<T>(value(rank, e, lane)));
			const int sum = s.template recvReduce<2, T>(
				lane, GPUS, 4, [](const T &t) { return of_element(t); },
				[](int a, int b) { return a + b; });
			int expected = 0;

			for (int r = 0; r < GPUS; r++)
				expected += value(r, e, lane);
			expect(g, sum == expected);
		}
		s.endEpoch(warp);
		if (lane < GPUS) {
			s.send(lane, rank, element<T>(value(rank, e, 50 + lane)));
			const int got = of_element(s.template recv<T>(lane));
			expect(g, got == value(lane, e, 50 + rank));
		}
		s.endEpoch(warp);
	}
}

__global__ void old_lines(gpu g)
{
	uint4 *first = (uint4 *)ncclGetResourceBufferLocalPointer(g.dev, g.lines.bufHandle);

	if (threadIdx.x < 2)
		first[threadIdx.x * (1 + 2 * SLOTS)].x = ~0u - 5;
}

// Epochs that wrap, several times.
static int run_wraps()
{
	int wrong = 0;

	for (int i = 0; i < 8; i++)
		wrong += run_all(old_lines, 1, 2) + run_all(lines<double>, 1, 32, 3);
	end_all();
	return report("lines that wrap", wrong);
}

int main(int argc, char **argv)
{
	addresses a;
	int failed = 0;

	make_all();
	if (argc > 1 && !strcmp(argv[1], "wrap"))
		return run_wraps();
	for (int g = 0; g < GPUS; g++)
		NEED(ncclGetLsaDevicePointer(ranks[0].win, 0, g, &a.base[g]));
	failed += report("addresses", run_all(pointers, 1, 1, a));
	failed += report("windows of addresses", run_finds());
	failed += report("barriers of blocks", run_all(of_blocks, 2, 40));
	failed += report("barriers of warps, tiles, lanes and spans", run_all(of_sets, 1, 128));
	failed += report("barriers of threads", run_all(of_threads, 1, BARRIERS));
	failed += report("barriers of the list", run_all(of_list, 1, 32));
	failed += report("barriers of all ranks", run_all(of_all_ranks, 2, 32));
	failed += report("old epochs", run_all(old_epochs, 1, 32));
	failed += report("barriers that wrap", run_all(of_blocks, 2, 32));
	failed += report("lines of 4 bytes", run_all(lines<int>, 2, 32, 2));
	failed += report("lines of 12 bytes", run_all(lines<wide>, 1, 32, 2));
	failed += report("old lines", run_all(old_lines, 1, 2));
	failed += report("lines that wrap", run_all(lines<double>, 1, 32, 3));
	failed += report("a barrier ends by its time", run_all(timeout, 1, 32));
	end_all();
	return failed != 0;
}
