/* SPDX-License-Identifier: BSD-3-Clause */
/* State spaces of addresses, and barriers with numbers. */
#ifndef FAKECUDA_DEVICE_SPACES_H
#define FAKECUDA_DEVICE_SPACES_H

#define FAKECUDA_SPACE(space, test)                                                                \
	FAKECUDA_DEVICE size_t __cvta_generic_to_##space(const void *p)                            \
	{                                                                                          \
		size_t r;                                                                          \
		asm("cvta.to." FAKECUDA_SPACE_NAME(space) ".u64 %0, %1;" : "=l"(r) : "l"(p));      \
		return r;                                                                          \
	}                                                                                          \
	FAKECUDA_DEVICE void *__cvta_##space##_to_generic(size_t p)                                \
	{                                                                                          \
		void *r;                                                                           \
		asm("cvta." FAKECUDA_SPACE_NAME(space) ".u64 %0, %1;" : "=l"(r) : "l"(p));         \
		return r;                                                                          \
	}                                                                                          \
	FAKECUDA_DEVICE unsigned int test(const void *p)                                           \
	{                                                                                          \
		unsigned int r;                                                                    \
		asm("{ .reg .pred p; isspacep." FAKECUDA_SPACE_NAME(                               \
			    space) " p, %1;"                                                       \
				   " selp.u32 %0, 1, 0, p; }"                                      \
		    : "=r"(r)                                                                      \
		    : "l"(p));                                                                     \
		return r;                                                                          \
	}
#define FAKECUDA_SPACE_NAME(space)   FAKECUDA_SPACE_NAME_##space
#define FAKECUDA_SPACE_NAME_global   "global"
#define FAKECUDA_SPACE_NAME_shared   "shared"
#define FAKECUDA_SPACE_NAME_local    "local"
#define FAKECUDA_SPACE_NAME_constant "const"
FAKECUDA_SPACE(global, __isGlobal)
FAKECUDA_SPACE(shared, __isShared)
FAKECUDA_SPACE(local, __isLocal)
FAKECUDA_SPACE(constant, __isConstant)
#undef FAKECUDA_SPACE
#undef FAKECUDA_SPACE_NAME
#undef FAKECUDA_SPACE_NAME_global
#undef FAKECUDA_SPACE_NAME_shared
#undef FAKECUDA_SPACE_NAME_local
#undef FAKECUDA_SPACE_NAME_constant

FAKECUDA_DEVICE void __barrier_sync(unsigned int id)
{
	asm volatile("barrier.sync %0;" ::"r"(id) : "memory");
}
FAKECUDA_DEVICE void __barrier_sync_count(unsigned int id, unsigned int threads)
{
	asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#endif
