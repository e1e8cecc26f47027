/* SPDX-License-Identifier: BSD-3-Clause */
/* Instructions of <cuda/atomic> in kernels. clang has no PTX for C++ atomics that acquire or
 * release, so each instruction is written here. Order and scope are constants after inlining. */
#ifndef FAKECUDA_DEVICE_ATOMIC_REF_H
#define FAKECUDA_DEVICE_ATOMIC_REF_H

namespace cuda
{
template <unsigned long Bytes> struct fakecuda_bits_of;
template <> struct fakecuda_bits_of<4> {
	typedef unsigned int type;
};
template <> struct fakecuda_bits_of<8> {
	typedef unsigned long long type;
};

/* One instruction: text with % for the order and the scope. A scope of one thread is that of the
 * block. */
#define FAKECUDA_SCOPED(scope, statement)                                                          \
	do {                                                                                       \
		if ((scope) == thread_scope_system)                                                \
			statement("sys");                                                          \
		else if ((scope) == thread_scope_device)                                           \
			statement("gpu");                                                          \
		else                                                                               \
			statement("cta");                                                          \
	} while (0)

FAKECUDA_DEVICE void fakecuda_fence(memory_order order, thread_scope scope)
{
#define FAKECUDA_FENCE_SC(s) asm volatile("fence.sc." s ";" ::: "memory")
#define FAKECUDA_FENCE(s)    asm volatile("fence.acq_rel." s ";" ::: "memory")
	if (order == memory_order_relaxed)
		return;
	if (order == memory_order_seq_cst)
		FAKECUDA_SCOPED(scope, FAKECUDA_FENCE_SC);
	else
		FAKECUDA_SCOPED(scope, FAKECUDA_FENCE);
#undef FAKECUDA_FENCE_SC
#undef FAKECUDA_FENCE
}

/* A fence before the instruction makes it sequentially consistent. */
FAKECUDA_DEVICE void fakecuda_before(memory_order order, thread_scope scope)
{
	if (order == memory_order_seq_cst)
		fakecuda_fence(order, scope);
}

#define FAKECUDA_LOAD(s)                                                                           \
	do {                                                                                       \
		if (order == memory_order_relaxed)                                                 \
			FAKECUDA_LOAD_IN("ld.relaxed." s);                                         \
		else                                                                               \
			FAKECUDA_LOAD_IN("ld.acquire." s);                                         \
	} while (0)
#define FAKECUDA_STORE(s)                                                                          \
	do {                                                                                       \
		if (order == memory_order_relaxed)                                                 \
			FAKECUDA_STORE_IN("st.relaxed." s);                                        \
		else                                                                               \
			FAKECUDA_STORE_IN("st.release." s);                                        \
	} while (0)
#define FAKECUDA_LOAD_IN(text)                                                                     \
	do {                                                                                       \
		if (sizeof(T) == 4)                                                                \
			asm volatile(text ".b32 %0, [%1];" : "=r"(low) : "l"(at) : "memory");      \
		else                                                                               \
			asm volatile(text ".b64 %0, [%1];" : "=l"(wide) : "l"(at) : "memory");     \
	} while (0)
#define FAKECUDA_STORE_IN(text)                                                                    \
	do {                                                                                       \
		if (sizeof(T) == 4)                                                                \
			asm volatile(text ".b32 [%0], %1;" ::"l"(at), "r"((unsigned int)bits)      \
				     : "memory");                                                  \
		else                                                                               \
			asm volatile(text ".b64 [%0], %1;" ::"l"(at),                              \
				     "l"((unsigned long long)bits)                                 \
				     : "memory");                                                  \
	} while (0)

template <thread_scope Scope, class T>
FAKECUDA_DEVICE T fakecuda_load(const T *at, memory_order order)
{
	typename fakecuda_bits_of<sizeof(T)>::type bits;
	unsigned int low = 0;
	unsigned long long wide = 0;

	fakecuda_before(order, Scope);
	FAKECUDA_SCOPED(Scope, FAKECUDA_LOAD);
	bits = sizeof(T) == 4 ? low : wide;
	return __builtin_bit_cast(T, bits);
}

template <thread_scope Scope, class T>
FAKECUDA_DEVICE void fakecuda_store(T *at, T v, memory_order order)
{
	auto bits = __builtin_bit_cast(typename fakecuda_bits_of<sizeof(T)>::type, v);

	fakecuda_before(order, Scope);
	FAKECUDA_SCOPED(Scope, FAKECUDA_STORE);
}
#undef FAKECUDA_LOAD
#undef FAKECUDA_STORE
#undef FAKECUDA_LOAD_IN
#undef FAKECUDA_STORE_IN

/* Reads, changes and writes. `op` is the end of the opcode for 4 and for 8 bytes. */
#define FAKECUDA_CHANGE(s)                                                                         \
	do {                                                                                       \
		if (order == memory_order_relaxed)                                                 \
			FAKECUDA_CHANGE_IN("atom.relaxed." s);                                     \
		else if (order == memory_order_acquire || order == memory_order_consume)           \
			FAKECUDA_CHANGE_IN("atom.acquire." s);                                     \
		else if (order == memory_order_release)                                            \
			FAKECUDA_CHANGE_IN("atom.release." s);                                     \
		else                                                                               \
			FAKECUDA_CHANGE_IN("atom.acq_rel." s);                                     \
	} while (0)
#define FAKECUDA_CHANGE_IN(text)                                                                   \
	do {                                                                                       \
		if (sizeof(T) == 4)                                                                \
			asm volatile(text FAKECUDA_OP("32")                                        \
				     : "=r"(low)                                                   \
				     : "l"(at), "r"((unsigned int)bits), "r"((unsigned int)other)  \
				     : "memory");                                                  \
		else                                                                               \
			asm volatile(text FAKECUDA_OP("64")                                        \
				     : "=l"(wide)                                                  \
				     : "l"(at), "l"((unsigned long long)bits),                     \
				       "l"((unsigned long long)other)                              \
				     : "memory");                                                  \
	} while (0)
#define FAKECUDA_CHANGE_BODY                                                                       \
	unsigned int low = 0;                                                                      \
	unsigned long long wide = 0;                                                               \
                                                                                                   \
	fakecuda_before(order, Scope);                                                             \
	FAKECUDA_SCOPED(Scope, FAKECUDA_CHANGE);                                                   \
	typename fakecuda_bits_of<sizeof(T)>::type old = sizeof(T) == 4 ? low : wide;
#define FAKECUDA_FETCHES(name)                                                                     \
	template <thread_scope Scope, class T>                                                     \
	FAKECUDA_DEVICE T fakecuda_##name(T *at, T v, memory_order order)                          \
	{                                                                                          \
		auto bits = __builtin_bit_cast(typename fakecuda_bits_of<sizeof(T)>::type, v);     \
		const int other = 0;                                                               \
		FAKECUDA_CHANGE_BODY                                                               \
		return __builtin_bit_cast(T, old);                                                 \
	}

#define FAKECUDA_OP(n) ".add.u" n " %0, [%1], %2;"
FAKECUDA_FETCHES(add)
#undef FAKECUDA_OP
#define FAKECUDA_OP(n) ".and.b" n " %0, [%1], %2;"
FAKECUDA_FETCHES(and)
#undef FAKECUDA_OP
#define FAKECUDA_OP(n) ".or.b" n " %0, [%1], %2;"
FAKECUDA_FETCHES(or)
#undef FAKECUDA_OP
#define FAKECUDA_OP(n) ".xor.b" n " %0, [%1], %2;"
FAKECUDA_FETCHES(xor)
#undef FAKECUDA_OP
#define FAKECUDA_OP(n) ".exch.b" n " %0, [%1], %2;"
FAKECUDA_FETCHES(exch)
#undef FAKECUDA_OP

#define FAKECUDA_OP(n) ".min.s" n " %0, [%1], %2;"
FAKECUDA_FETCHES(min_s)
#undef FAKECUDA_OP
#define FAKECUDA_OP(n) ".max.s" n " %0, [%1], %2;"
FAKECUDA_FETCHES(max_s)
#undef FAKECUDA_OP
#define FAKECUDA_OP(n) ".min.u" n " %0, [%1], %2;"
FAKECUDA_FETCHES(min_u)
#undef FAKECUDA_OP
#define FAKECUDA_OP(n) ".max.u" n " %0, [%1], %2;"
FAKECUDA_FETCHES(max_u)
#undef FAKECUDA_OP
template <thread_scope Scope, class T>
FAKECUDA_DEVICE T fakecuda_min(T *at, T v, memory_order order)
{
	return (T)-1 < (T)0 ? fakecuda_min_s<Scope>(at, v, order)
			    : fakecuda_min_u<Scope>(at, v, order);
}
template <thread_scope Scope, class T>
FAKECUDA_DEVICE T fakecuda_max(T *at, T v, memory_order order)
{
	return (T)-1 < (T)0 ? fakecuda_max_s<Scope>(at, v, order)
			    : fakecuda_max_u<Scope>(at, v, order);
}

#define FAKECUDA_OP(n) ".cas.b" n " %0, [%1], %2, %3;"
template <thread_scope Scope, class T>
FAKECUDA_DEVICE bool fakecuda_cas(T *at, T &expected, T v, memory_order order)
{
	auto bits = __builtin_bit_cast(typename fakecuda_bits_of<sizeof(T)>::type, expected);
	auto other = __builtin_bit_cast(typename fakecuda_bits_of<sizeof(T)>::type, v);
	FAKECUDA_CHANGE_BODY
	expected = __builtin_bit_cast(T, old);
	return old == bits;
}
#undef FAKECUDA_OP
#undef FAKECUDA_FETCHES
#undef FAKECUDA_CHANGE_BODY
#undef FAKECUDA_CHANGE
#undef FAKECUDA_CHANGE_IN
#undef FAKECUDA_SCOPED
} // namespace cuda

#endif
