/* SPDX-License-Identifier: BSD-3-Clause */
/* Barriers, fences, votes, shuffles, clocks. */
#ifndef FAKECUDA_DEVICE_WARP_H
#define FAKECUDA_DEVICE_WARP_H

/* __syncthreads is clang's own. */
FAKECUDA_DEVICE int __syncthreads_count(int p)
{
	return __nvvm_bar0_popc(p);
}
FAKECUDA_DEVICE int __syncthreads_and(int p)
{
	return __nvvm_bar0_and(p);
}
FAKECUDA_DEVICE int __syncthreads_or(int p)
{
	return __nvvm_bar0_or(p);
}
FAKECUDA_DEVICE void __syncwarp(unsigned int mask = 0xffffffffu)
{
	__nvvm_bar_warp_sync(mask);
}
FAKECUDA_DEVICE void __threadfence_block()
{
	__nvvm_membar_cta();
}
FAKECUDA_DEVICE void __threadfence()
{
	__nvvm_membar_gl();
}
FAKECUDA_DEVICE void __threadfence_system()
{
	__nvvm_membar_sys();
}
FAKECUDA_DEVICE unsigned int __activemask()
{
	unsigned int mask;
	asm volatile("activemask.b32 %0;" : "=r"(mask));
	return mask;
}
FAKECUDA_DEVICE int __all_sync(unsigned int mask, int p)
{
	return __nvvm_vote_all_sync(mask, p);
}
FAKECUDA_DEVICE int __any_sync(unsigned int mask, int p)
{
	return __nvvm_vote_any_sync(mask, p);
}
FAKECUDA_DEVICE int __uni_sync(unsigned int mask, int p)
{
	return __nvvm_vote_uni_sync(mask, p);
}
FAKECUDA_DEVICE unsigned int __ballot_sync(unsigned int mask, int p)
{
	return __nvvm_vote_ballot_sync(mask, p);
}
FAKECUDA_DEVICE unsigned int __match_any_sync(unsigned int mask, unsigned int v)
{
	return (unsigned int)__nvvm_match_any_sync_i32(mask, (int)v);
}
FAKECUDA_DEVICE unsigned int __match_all_sync(unsigned int mask, unsigned int v, int *same)
{
	return (unsigned int)__nvvm_match_all_sync_i32p(mask, (int)v, same);
}
#define FAKECUDA_REDUCE(name, builtin, type)                                                       \
	FAKECUDA_DEVICE type __reduce_##name##_sync(unsigned int mask, type v)                     \
	{                                                                                          \
		return (type)__nvvm_redux_sync_##builtin((int)v, (int)mask);                       \
	}
FAKECUDA_REDUCE(add, add, int)
FAKECUDA_REDUCE(add, add, unsigned int)
FAKECUDA_REDUCE(min, min, int)
FAKECUDA_REDUCE(min, umin, unsigned int)
FAKECUDA_REDUCE(max, max, int)
FAKECUDA_REDUCE(max, umax, unsigned int)
FAKECUDA_REDUCE(and, and, unsigned int)
FAKECUDA_REDUCE(or, or, unsigned int)
FAKECUDA_REDUCE(xor, xor, unsigned int)
#undef FAKECUDA_REDUCE

/* Shuffles move words of 32 bits. A wider value moves as two. */
#define FAKECUDA_SHUFFLE(name, builtin, least, lane)                                               \
	FAKECUDA_DEVICE int __##name##_sync(unsigned int mask, int v, lane n, int width = 32)      \
	{                                                                                          \
		return __nvvm_shfl_sync_##builtin##_i32(mask, v, (int)n,                           \
							((32 - width) << 8) | (least));            \
	}                                                                                          \
	FAKECUDA_DEVICE unsigned int __##name##_sync(unsigned int mask, unsigned int v, lane n,    \
						     int width = 32)                               \
	{                                                                                          \
		return (unsigned int)__##name##_sync(mask, (int)v, n, width);                      \
	}                                                                                          \
	FAKECUDA_DEVICE float __##name##_sync(unsigned int mask, float v, lane n, int width = 32)  \
	{                                                                                          \
		return __int_as_float(__##name##_sync(mask, __float_as_int(v), n, width));         \
	}                                                                                          \
	FAKECUDA_DEVICE long long __##name##_sync(unsigned int mask, long long v, lane n,          \
						  int width = 32)                                  \
	{                                                                                          \
		unsigned int low = __##name##_sync(mask, (unsigned int)v, n, width);               \
		unsigned int high = __##name##_sync(mask, (unsigned int)(v >> 32), n, width);      \
		return (long long)((unsigned long long)high << 32 | low);                          \
	}                                                                                          \
	FAKECUDA_DEVICE unsigned long long __##name##_sync(                                        \
		unsigned int mask, unsigned long long v, lane n, int width = 32)                   \
	{                                                                                          \
		return (unsigned long long)__##name##_sync(mask, (long long)v, n, width);          \
	}                                                                                          \
	FAKECUDA_DEVICE double __##name##_sync(unsigned int mask, double v, lane n,                \
					       int width = 32)                                     \
	{                                                                                          \
		return __longlong_as_double(                                                       \
			__##name##_sync(mask, __double_as_longlong(v), n, width));                 \
	}
FAKECUDA_SHUFFLE(shfl, idx, 31, int)
FAKECUDA_SHUFFLE(shfl_up, up, 0, unsigned int)
FAKECUDA_SHUFFLE(shfl_down, down, 31, unsigned int)
FAKECUDA_SHUFFLE(shfl_xor, bfly, 31, int)
#undef FAKECUDA_SHUFFLE

FAKECUDA_DEVICE long long clock64()
{
	return __nvvm_read_ptx_sreg_clock64();
}
FAKECUDA_DEVICE void __nanosleep(unsigned int ns)
{
	asm volatile("nanosleep.u32 %0;" ::"r"(ns));
}
FAKECUDA_DEVICE void __trap()
{
	asm volatile("trap;");
}

#endif
