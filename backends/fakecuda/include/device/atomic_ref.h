/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Part of <cuda/atomic>: orders, scopes, fences, and cuda::atomic_ref of integers of 4 and 8 bytes
 * with load and store. Other members are errors of the compiler.
 */
#ifndef FAKECUDA_DEVICE_ATOMIC_REF_H
#define FAKECUDA_DEVICE_ATOMIC_REF_H

#if defined(__CUDA__) && defined(__clang__)

namespace cuda
{

enum memory_order {
	memory_order_relaxed,
	memory_order_consume,
	memory_order_acquire,
	memory_order_release,
	memory_order_acq_rel,
	memory_order_seq_cst
};

enum thread_scope {
	thread_scope_system,
	thread_scope_device,
	thread_scope_block,
	thread_scope_thread
};

namespace fakecuda
{

/* Release, acquire and both are one instruction. */
#define FAKECUDA_SCOPE(name, scope)                                                                \
	FAKECUDA_DEVICE void fence_##name(memory_order order)                                      \
	{                                                                                          \
		if (order == memory_order_seq_cst)                                                 \
			asm volatile("fence.sc." scope ";" ::: "memory");                          \
		else if (order != memory_order_relaxed)                                            \
			asm volatile("fence.acq_rel." scope ";" ::: "memory");                     \
	}                                                                                          \
	FAKECUDA_WORD(name, scope, unsigned int, "r", 32)                                          \
	FAKECUDA_WORD(name, scope, unsigned long long, "l", 64)
#define FAKECUDA_WORD(name, scope, type, reg, bits)                                                \
	FAKECUDA_DEVICE type load_##name(const type *p, memory_order order)                        \
	{                                                                                          \
		type v;                                                                            \
		if (order == memory_order_relaxed)                                                 \
			asm volatile("ld.relaxed." scope ".u" #bits " %0, [%1];"                   \
				     : "=" reg(v)                                                  \
				     : "l"(p)                                                      \
				     : "memory");                                                  \
		else                                                                               \
			asm volatile("ld.acquire." scope ".u" #bits " %0, [%1];"                   \
				     : "=" reg(v)                                                  \
				     : "l"(p)                                                      \
				     : "memory");                                                  \
		return v;                                                                          \
	}                                                                                          \
	FAKECUDA_DEVICE void store_##name(type *p, type v, memory_order order)                     \
	{                                                                                          \
		if (order == memory_order_relaxed)                                                 \
			asm volatile("st.relaxed." scope ".u" #bits " [%0], %1;" ::"l"(p), reg(v)  \
				     : "memory");                                                  \
		else                                                                               \
			asm volatile("st.release." scope ".u" #bits " [%0], %1;" ::"l"(p), reg(v)  \
				     : "memory");                                                  \
	}

FAKECUDA_SCOPE(system, "sys")
FAKECUDA_SCOPE(device, "gpu")
FAKECUDA_SCOPE(block, "cta")

#undef FAKECUDA_SCOPE
#undef FAKECUDA_WORD

template <int bytes> struct word {
	static_assert(bytes == 4, "cuda::atomic_ref is built for integers of 4 and 8 bytes");
	using type = unsigned int;
};
template <> struct word<8> {
	using type = unsigned long long;
};

} // namespace fakecuda

FAKECUDA_DEVICE void atomic_thread_fence(memory_order order,
					 thread_scope scope = thread_scope_system)
{
	if (scope == thread_scope_system)
		fakecuda::fence_system(order);
	else if (scope == thread_scope_device)
		fakecuda::fence_device(order);
	else
		fakecuda::fence_block(order);
}

template <typename T, thread_scope scope = thread_scope_system> struct atomic_ref {
	static_assert(static_cast<T>(3) / 2 == static_cast<T>(1), "T is an integer");
	using word = typename fakecuda::word<sizeof(T)>::type;
	word *at;

	__device__ explicit atomic_ref(T &value) : at(reinterpret_cast<word *>(&value))
	{
	}

	__device__ T load(memory_order order = memory_order_seq_cst) const
	{
		if (order == memory_order_seq_cst)
			atomic_thread_fence(order, scope);
		if (scope == thread_scope_system)
			return static_cast<T>(fakecuda::load_system(at, order));
		if (scope == thread_scope_device)
			return static_cast<T>(fakecuda::load_device(at, order));
		return static_cast<T>(fakecuda::load_block(at, order));
	}

	__device__ void store(T value, memory_order order = memory_order_seq_cst) const
	{
		if (order == memory_order_seq_cst)
			atomic_thread_fence(order, scope);
		if (scope == thread_scope_system)
			fakecuda::store_system(at, static_cast<word>(value), order);
		else if (scope == thread_scope_device)
			fakecuda::store_device(at, static_cast<word>(value), order);
		else
			fakecuda::store_block(at, static_cast<word>(value), order);
	}
};

} // namespace cuda

#endif

#endif
