/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic functions. Plain ones have the scope of the GPU, _block that of the block, _system that of
 * all GPUs and the host. All are relaxed. */
#ifndef FAKECUDA_DEVICE_ATOMICS_H
#define FAKECUDA_DEVICE_ATOMICS_H

/* The instruction itself: register type, suffix of the opcode. */
#define FAKECUDA_ATOMIC(name, op, type, reg)                                                       \
	FAKECUDA_ATOMIC_IN(name, op, type, reg, "gpu")                                             \
	FAKECUDA_ATOMIC_IN(name##_block, op, type, reg, "cta")                                     \
	FAKECUDA_ATOMIC_IN(name##_system, op, type, reg, "sys")
#define FAKECUDA_ATOMIC_IN(name, op, type, reg, scope)                                             \
	FAKECUDA_DEVICE type name(type *p, type v)                                                 \
	{                                                                                          \
		type old;                                                                          \
		asm volatile("atom.relaxed." scope "." op " %0, [%1], %2;"                         \
			     : "=" reg(old)                                                        \
			     : "l"(p), reg(v)                                                      \
			     : "memory");                                                          \
		return old;                                                                        \
	}
#define FAKECUDA_CAS(name, op, type, reg)                                                          \
	FAKECUDA_CAS_IN(name, op, type, reg, "gpu")                                                \
	FAKECUDA_CAS_IN(name##_block, op, type, reg, "cta")                                        \
	FAKECUDA_CAS_IN(name##_system, op, type, reg, "sys")
#define FAKECUDA_CAS_IN(name, op, type, reg, scope)                                                \
	FAKECUDA_DEVICE type name(type *p, type compare, type v)                                   \
	{                                                                                          \
		type old;                                                                          \
		asm volatile("atom.relaxed." scope "." op " %0, [%1], %2, %3;"                     \
			     : "=" reg(old)                                                        \
			     : "l"(p), reg(compare), reg(v)                                        \
			     : "memory");                                                          \
		return old;                                                                        \
	}

FAKECUDA_ATOMIC(atomicAdd, "add.s32", int, "r")
FAKECUDA_ATOMIC(atomicAdd, "add.u32", unsigned int, "r")
FAKECUDA_ATOMIC(atomicAdd, "add.u64", unsigned long long, "l")
FAKECUDA_ATOMIC(atomicAdd, "add.f32", float, "f")
FAKECUDA_ATOMIC(atomicAdd, "add.f64", double, "d")
FAKECUDA_ATOMIC(atomicMin, "min.s32", int, "r")
FAKECUDA_ATOMIC(atomicMin, "min.u32", unsigned int, "r")
FAKECUDA_ATOMIC(atomicMin, "min.s64", long long, "l")
FAKECUDA_ATOMIC(atomicMin, "min.u64", unsigned long long, "l")
FAKECUDA_ATOMIC(atomicMax, "max.s32", int, "r")
FAKECUDA_ATOMIC(atomicMax, "max.u32", unsigned int, "r")
FAKECUDA_ATOMIC(atomicMax, "max.s64", long long, "l")
FAKECUDA_ATOMIC(atomicMax, "max.u64", unsigned long long, "l")
FAKECUDA_ATOMIC(atomicAnd, "and.b32", int, "r")
FAKECUDA_ATOMIC(atomicAnd, "and.b32", unsigned int, "r")
FAKECUDA_ATOMIC(atomicAnd, "and.b64", unsigned long long, "l")
FAKECUDA_ATOMIC(atomicOr, "or.b32", int, "r")
FAKECUDA_ATOMIC(atomicOr, "or.b32", unsigned int, "r")
FAKECUDA_ATOMIC(atomicOr, "or.b64", unsigned long long, "l")
FAKECUDA_ATOMIC(atomicXor, "xor.b32", int, "r")
FAKECUDA_ATOMIC(atomicXor, "xor.b32", unsigned int, "r")
FAKECUDA_ATOMIC(atomicXor, "xor.b64", unsigned long long, "l")
FAKECUDA_ATOMIC(atomicExch, "exch.b32", int, "r")
FAKECUDA_ATOMIC(atomicExch, "exch.b32", unsigned int, "r")
FAKECUDA_ATOMIC(atomicExch, "exch.b64", unsigned long long, "l")
FAKECUDA_ATOMIC(atomicExch, "exch.b32", float, "f")
FAKECUDA_ATOMIC(atomicInc, "inc.u32", unsigned int, "r")
FAKECUDA_ATOMIC(atomicDec, "dec.u32", unsigned int, "r")
FAKECUDA_CAS(atomicCAS, "cas.b32", int, "r")
FAKECUDA_CAS(atomicCAS, "cas.b32", unsigned int, "r")
FAKECUDA_CAS(atomicCAS, "cas.b64", unsigned long long, "l")
#undef FAKECUDA_ATOMIC
#undef FAKECUDA_ATOMIC_IN
#undef FAKECUDA_CAS
#undef FAKECUDA_CAS_IN

FAKECUDA_DEVICE int atomicSub(int *p, int v)
{
	return atomicAdd(p, -v);
}
FAKECUDA_DEVICE unsigned int atomicSub(unsigned int *p, unsigned int v)
{
	return atomicAdd(p, -v);
}

#endif
