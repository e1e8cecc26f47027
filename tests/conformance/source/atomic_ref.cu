// SPDX-License-Identifier: BSD-3-Clause
// cuda::atomic_ref and cuda::atomic_thread_fence of <cuda/atomic>: operations, orders, scopes.
#include <cuda/atomic>

#include "source.h"

enum { N = 64 };

__global__ void change(int *i32, unsigned long long *u64, float *f32)
{
	int i = threadIdx.x;
	cuda::atomic_ref<int> sum(i32[0]);
	cuda::atomic_ref<int, cuda::thread_scope_device> bits(i32[1]);
	cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> wide(u64[0]);

	cuda::atomic_ref<int>(i32[2]).fetch_max(i - 32);
	cuda::atomic_ref<int>(i32[3]).fetch_min(i - 32, cuda::memory_order_relaxed);
	cuda::atomic_ref<unsigned>(*(unsigned *)&i32[4]).fetch_max(0x80000000u + i);
	if (i == 0)
		i32[5] = __fns(0x8411, 1, 2) * 10000 + __fns(0x8411, 15, -2) * 100 + __fns(1, 0, 0);
	sum.fetch_add(i, cuda::memory_order_relaxed);
	sum.fetch_sub(1);
	bits.fetch_or(1 << i % 31, cuda::memory_order_acq_rel);
	wide.fetch_xor(1ull << i, cuda::memory_order_release);
	for (unsigned long long seen = wide.load(cuda::memory_order_relaxed);
	     !wide.compare_exchange_weak(seen, ~seen);)
		continue;
	if (i == 5) {
		cuda::atomic_ref<float>(f32[0]).store(2.5f);
		f32[1] = cuda::atomic_ref<float>(f32[0]).exchange(7.5f, cuda::memory_order_acquire);
		f32[2] = cuda::atomic_ref<float>(f32[0]);
	}
}

// Lane 0 publishes a value; the others wait for the flag.
__global__ void publish(int *data, int *flag, int *out)
{
	cuda::atomic_ref<int, cuda::thread_scope_block> ready(*flag);

	if (threadIdx.x == 0) {
		*data = 99;
		ready.store(1, cuda::memory_order_release);
	} else {
		while (ready.load(cuda::memory_order_acquire) == 0)
			continue;
	}
	cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
	out[threadIdx.x] = *data;
}

int main()
{
	both<int> i32(6), data(1), flag(1), out(N);
	both<unsigned long long> u64(1);
	both<float> f32(3);
	unsigned word = 3;

	change<<<1, N>>>(i32.gpu, u64.gpu, f32.gpu);
	i32.down();
	u64.down();
	f32.down();
	const int words[] = {
		63 * 64 / 2 - 64, 0x7fffffff, 31, -32, (int)(0x80000000u + 63), 101000};
	check("fetch_add or max min, fns", i32, [&](int i) { return words[i]; });
	check("fetch_xor", u64, [](int) { return ~0ull; });
	check("store exchange load", f32, [](int i) { return i == 1 ? 2.5f : 7.5f; });
	publish<<<1, N>>>(data.gpu, flag.gpu, out.gpu);
	out.down();
	check("store release, load acquire", out, [](int) { return 99; });
	cuda::atomic_ref<unsigned> host(word);
	failures += host.fetch_add(4) != 3 || host.load() != 7 || host.exchange(1) != 7;
	return failures != 0;
}
