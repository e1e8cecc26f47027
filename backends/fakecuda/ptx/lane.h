/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The border between a translated kernel and the double. Every C file that emit.c writes begins
 * with the text of this header, so it includes nothing of Doppel. It declares no name of the C
 * library either, because a kernel may have that name. The functions that are declared
 * here are in lane_memory.c, lane_warp.c and lane_calls.c of backends/fakecuda/launch. The inline
 * ones are single instructions of PTX, named as its specification names them.
 *
 * A lane is one thread of a kernel, on a fiber of its own. Addresses are 64-bit numbers: of global
 * memory as the program sees them, of shared memory from the begin of the block's (PTX_SHARED) or
 * as a pointer (PTX_GENERIC), of local memory and parameters as pointers into the lane's frames.
 * Each access is checked. A bad one ends the kernel, and the function does not return.
 */
#ifndef BACKENDS_FAKECUDA_PTX_LANE_H
#define BACKENDS_FAKECUDA_PTX_LANE_H

#include <stdbool.h>
#include <stdint.h>

struct ptx_lane {
	uint32_t tid[3], ntid[3], ctaid[3], nctaid[3];
	uint32_t laneid, warpid, nwarpid, smid;
	uint32_t shared_bytes, dynamic_bytes; /* of the block */
	const uint8_t *args;                  /* the launch's parameters */
	const uint64_t *global;               /* addresses of the module's variables on this GPU */
	uint8_t *frame;                       /* first free byte for frames of functions */
	uint8_t *frames;                      /* all of them */
	uint32_t frame_bytes;                 /* of all frames */
	uint32_t spins;   /* backward branches since the lane last let time pass */
	uint32_t carry;   /* CC.CF, of add.cc and its family */
	const char *file; /* place in the source, for reports */
	uint32_t line;
	void *dev; /* the lane's struct dev */
};

enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_CONST, PTX_SHARED, PTX_LOCAL, PTX_PARAM };
/* PTX_WEAK is the order of a plain load or store. The others are those of shared words. */
enum ptx_order { PTX_WEAK, PTX_RELAXED, PTX_ACQUIRE, PTX_RELEASE, PTX_ACQ_REL, PTX_SC };
enum ptx_scope { PTX_CTA, PTX_GPU, PTX_SYS };
struct ptx_how {
	enum ptx_space space;
	enum ptx_order order;
	enum ptx_scope scope;
};

#define PTX_API extern __attribute__((visibility("default")))
/* n values of `unit` bytes each. */
PTX_API void ptx_load(struct ptx_lane *l, struct ptx_how how, uint64_t address, void *to,
		      uint32_t unit, uint32_t n);
PTX_API void ptx_store(struct ptx_lane *l, struct ptx_how how, uint64_t address, const void *from,
		       uint32_t unit, uint32_t n);
/* One word: *address = f(*address, a, b). Returns the value before. */
typedef uint64_t ptx_change(uint64_t old, uint64_t a, uint64_t b);
PTX_API uint64_t ptx_atom(struct ptx_lane *l, struct ptx_how how, uint64_t address, uint32_t bytes,
			  ptx_change *f, uint64_t a, uint64_t b);
PTX_API void ptx_fence(struct ptx_lane *l, enum ptx_order order, enum ptx_scope scope);
/* Converts an address of a space to a generic one, and back. */
PTX_API uint64_t ptx_to_generic(struct ptx_lane *l, enum ptx_space space, uint64_t address);
PTX_API uint64_t ptx_from_generic(struct ptx_lane *l, enum ptx_space space, uint64_t address);
PTX_API bool ptx_is_space(struct ptx_lane *l, enum ptx_space space, uint64_t address);
/* Barrier `id` of the block. threads 0: all that have not exited. Returns the number of threads
 * whose predicate is true. */
PTX_API uint32_t ptx_barrier(struct ptx_lane *l, uint32_t id, uint32_t threads, bool predicate);
PTX_API void ptx_barrier_arrive(struct ptx_lane *l, uint32_t id, uint32_t threads);
/* The lanes of the mask meet; each of them must call with the same mask. */
PTX_API uint32_t ptx_shuffle(struct ptx_lane *l, uint32_t mask, uint32_t value, uint32_t source);
PTX_API uint32_t ptx_ballot(struct ptx_lane *l, uint32_t mask, bool predicate);
PTX_API uint32_t ptx_match(struct ptx_lane *l, uint32_t mask, uint64_t value, bool all, bool *same);
enum ptx_reduction { PTX_ADD, PTX_MIN, PTX_MAX, PTX_MIN_S, PTX_MAX_S, PTX_AND, PTX_OR, PTX_XOR };
PTX_API uint32_t ptx_redux(struct ptx_lane *l, uint32_t mask, uint32_t value,
			   enum ptx_reduction op);
PTX_API uint32_t ptx_lanes(struct ptx_lane *l); /* mask of the lanes that the warp has */
/* Called at backward branches, so that a loop that waits lets other tasks run. */
PTX_API void ptx_pause(struct ptx_lane *l);
PTX_API void ptx_sleep(struct ptx_lane *l, uint32_t ns);
PTX_API uint64_t ptx_now_ns(struct ptx_lane *l);
PTX_API void ptx_exit(struct ptx_lane *l) __attribute__((noreturn));
PTX_API void ptx_trap(struct ptx_lane *l, const char *why) __attribute__((noreturn));
PTX_API uint8_t *ptx_frame(struct ptx_lane *l, uint32_t bytes);
PTX_API int32_t ptx_vprintf(struct ptx_lane *l, uint64_t format, uint64_t values);
PTX_API void ptx_assert_fail(struct ptx_lane *l, uint64_t text, uint64_t file, uint32_t line,
			     uint64_t function) __attribute__((noreturn));

/* ---- bits and numbers ----------------------------------------------------------------------- */

static inline float ptx_f32(uint32_t bits)
{
	float f;
	__builtin_memcpy(&f, &bits, sizeof f);
	return f;
}
static inline double ptx_f64(uint64_t bits)
{
	double f;
	__builtin_memcpy(&f, &bits, sizeof f);
	return f;
}
static inline uint32_t ptx_b32(float f)
{
	uint32_t bits;
	__builtin_memcpy(&bits, &f, sizeof bits);
	return bits;
}
static inline uint64_t ptx_b64(double f)
{
	uint64_t bits;
	__builtin_memcpy(&bits, &f, sizeof bits);
	return bits;
}
/* Half precision is kept as its 16 bits and computed in f32. */
static inline float ptx_from_f16(uint16_t bits)
{
	uint32_t sign = (uint32_t)(bits & 0x8000) << 16, e = bits >> 10 & 31, m = bits & 1023;
	if (e == 31)
		return ptx_f32(sign | 0x7f800000u | m << 13);
	if (e)
		return ptx_f32(sign | (e + 112) << 23 | m << 13);
	return ptx_f32(sign | ptx_b32((float)m * 0x1p-24f));
}
/* Rounds to the nearest, to even. */
static inline uint16_t ptx_to_f16(float f)
{
	uint32_t bits = ptx_b32(f), sign = bits >> 16 & 0x8000, mag = bits & 0x7fffffff;
	if (mag > 0x7f800000u)
		return 0x7fff;
	if (mag >= 0x477ff000u)
		return (uint16_t)(sign | 0x7c00);
	if (mag < 0x38800000u) /* below the normal numbers: units of 2^-24 */
		return (uint16_t)(sign | (uint32_t)__builtin_rintf(ptx_f32(mag) * 0x1p24f));
	mag += 0xfff + (mag >> 13 & 1);
	return (uint16_t)(sign | (mag - 0x38000000u) >> 13);
}
static inline float ptx_from_bf16(uint16_t bits)
{
	return ptx_f32((uint32_t)bits << 16);
}
static inline uint16_t ptx_to_bf16(float f)
{
	uint32_t bits = ptx_b32(f);
	if (f != f)
		return 0x7fff;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
/* Rounding to odd: if digits are lost, the last bit is 1. A second rounding, to fewer digits, then
 * gives the same as one rounding of the exact number. A long double has all of u64 and f64. */
static inline float ptx_odd_f32(long double x)
{
	float f = (float)x;
	if (x != x || f == x || (ptx_b32(f) & 1))
		return f;
	return ptx_f32((f < x) == (x > 0) ? ptx_b32(f) + 1 : ptx_b32(f) - 1);
}
/* f16 and bf16. The product is exact in f64; `lost` is the part of the sum that f64 has not. */
static inline float ptx_fma_half(float a, float b, float c)
{
	double p = (double)a * b, sum = p + c, other = sum - p;
	double lost = (p - (sum - other)) + (c - other);
	if (lost != 0 && sum - sum == 0 && !(ptx_b64(sum) & 1))
		sum = ptx_f64((lost > 0) == (sum > 0) ? ptx_b64(sum) + 1 : ptx_b64(sum) - 1);
	return ptx_odd_f32(sum);
}

/* Division by zero gives all bits, as on a GPU. */
#define PTX_DIVIDE(t, type, wide)                                                                  \
	static inline type ptx_div_##t(type a, type b)                                             \
	{                                                                                          \
		return b == 0 ? (type)-1 : (type)((wide)a / (wide)b);                              \
	}                                                                                          \
	static inline type ptx_rem_##t(type a, type b)                                             \
	{                                                                                          \
		return b == 0 ? a : (type)((wide)a % (wide)b);                                     \
	}
PTX_DIVIDE(u16, uint16_t, uint32_t)
PTX_DIVIDE(u32, uint32_t, uint32_t)
PTX_DIVIDE(u64, uint64_t, uint64_t)
PTX_DIVIDE(s16, int16_t, int32_t)
PTX_DIVIDE(s32, int32_t, int64_t)
PTX_DIVIDE(s64, int64_t, __int128)

/* A shift by more than the width gives 0, or the sign. */
#define PTX_SHIFT(bits, type, signed_type)                                                         \
	static inline type ptx_shl_b##bits(type a, uint32_t n)                                     \
	{                                                                                          \
		return n >= bits ? 0 : (type)(a << n);                                             \
	}                                                                                          \
	static inline type ptx_shr_u##bits(type a, uint32_t n)                                     \
	{                                                                                          \
		return n >= bits ? 0 : (type)(a >> n);                                             \
	}                                                                                          \
	static inline type ptx_shr_b##bits(type a, uint32_t n)                                     \
	{                                                                                          \
		return ptx_shr_u##bits(a, n);                                                      \
	}                                                                                          \
	static inline signed_type ptx_shr_s##bits(signed_type a, uint32_t n)                       \
	{                                                                                          \
		return (signed_type)(a >> (n >= bits ? bits - 1 : n));                             \
	}
PTX_SHIFT(16, uint16_t, int16_t)
PTX_SHIFT(32, uint32_t, int32_t)
PTX_SHIFT(64, uint64_t, int64_t)

static inline uint64_t ptx_mask64(uint32_t n)
{
	return n >= 64 ? ~0ull : (1ull << n) - 1;
}
static inline uint64_t ptx_bfe_u64(uint64_t a, uint32_t at, uint32_t n)
{
	return ptx_shr_u64(a, at & 255) & ptx_mask64(n & 255);
}
static inline uint32_t ptx_bfe_u32(uint32_t a, uint32_t at, uint32_t n)
{
	return (uint32_t)ptx_bfe_u64(a, at, n);
}
/* The field's highest bit, or that of the number if the field goes beyond it, fills the rest. */
static inline int64_t ptx_bfe_s(int64_t a, uint32_t at, uint32_t n, uint32_t bits)
{
	uint32_t length = n & 255, from = at & 255, top = from + length - 1;
	if (!length)
		return 0;
	uint64_t sign = a >> (top < bits - 1 ? top : bits - 1) & 1;
	uint64_t mask = ptx_mask64(length), field = from < bits ? (uint64_t)(a >> from) & mask : 0;
	if (from + length > bits)
		field &= from < bits ? ptx_mask64(bits - from) : 0;
	uint64_t have = from >= bits ? 0 : from + length > bits ? bits - from : length;
	return (int64_t)(sign ? field | ~ptx_mask64((uint32_t)have) : field);
}
static inline int32_t ptx_bfe_s32(int32_t a, uint32_t at, uint32_t n)
{
	return (int32_t)ptx_bfe_s(a, at, n, 32);
}
static inline int64_t ptx_bfe_s64(int64_t a, uint32_t at, uint32_t n)
{
	return ptx_bfe_s(a, at, n, 64);
}
static inline uint64_t ptx_bfi_b64(uint64_t a, uint64_t b, uint32_t at, uint32_t n)
{
	uint64_t mask = ptx_shl_b64(ptx_mask64(n & 255), at & 255);
	return (b & ~mask) | (ptx_shl_b64(a, at & 255) & mask);
}
static inline uint32_t ptx_bfi_b32(uint32_t a, uint32_t b, uint32_t at, uint32_t n)
{
	return (uint32_t)ptx_bfi_b64(a, b, at, n);
}
static inline uint32_t ptx_clz_b32(uint32_t a)
{
	return a ? (uint32_t)__builtin_clz(a) : 32;
}
static inline uint32_t ptx_clz_b64(uint64_t a)
{
	return a ? (uint32_t)__builtin_clzll(a) : 64;
}
static inline uint32_t ptx_bfind(uint64_t a)
{
	return a ? 63 - (uint32_t)__builtin_clzll(a) : ~0u;
}
static inline uint64_t ptx_brev_b64(uint64_t a)
{
	uint64_t r = 0;
	for (int i = 0; i < 64; i++)
		r |= (a >> i & 1) << (63 - i);
	return r;
}
static inline uint32_t ptx_brev_b32(uint32_t a)
{
	return (uint32_t)(ptx_brev_b64(a) >> 32);
}
/* Sums and differences with a carry, or a borrow, of numbers of `bits`. set: the flag changes. */
static inline uint64_t ptx_add_carry(struct ptx_lane *l, uint64_t a, uint64_t b, uint32_t carry,
				     uint32_t bits, bool set)
{
	unsigned __int128 sum = (unsigned __int128)a + b + carry;
	if (set)
		l->carry = (uint32_t)(sum >> bits) & 1;
	return (uint64_t)sum;
}
static inline uint64_t ptx_sub_borrow(struct ptx_lane *l, uint64_t a, uint64_t b, uint32_t borrow,
				      bool set)
{
	if (set)
		l->carry = (unsigned __int128)b + borrow > a;
	return a - b - borrow;
}
/* Each nibble of the selector takes one byte of b:a, or copies of its sign. */
static inline uint32_t ptx_prmt(uint32_t a, uint32_t b, uint32_t selector)
{
	uint64_t both = a | (uint64_t)b << 32;
	uint32_t r = 0;
	for (int i = 0; i < 4; i++) {
		uint32_t s = selector >> (4 * i) & 15, byte = (uint32_t)(both >> 8 * (s & 7)) & 255;
		if (s & 8)
			byte = byte & 128 ? 255 : 0;
		r |= byte << (8 * i);
	}
	return r;
}
static inline uint32_t ptx_shf_l(uint32_t a, uint32_t b, uint32_t n)
{
	return (uint32_t)(((uint64_t)b << 32 | a) << n >> 32);
}
static inline uint32_t ptx_shf_r(uint32_t a, uint32_t b, uint32_t n)
{
	return (uint32_t)(((uint64_t)b << 32 | a) >> n);
}
static inline uint32_t ptx_least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}
/* Each bit of the table is the result for one set of the three bits. */
static inline uint32_t ptx_lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
	uint32_t r = 0;
	for (uint32_t i = 0; i < 8; i++) {
		if (table >> i & 1)
			r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
	}
	return r;
}
static inline uint32_t ptx_dp4a_u(uint32_t a, uint32_t b, uint32_t c)
{
	for (int i = 0; i < 32; i += 8)
		c += (a >> i & 255) * (b >> i & 255);
	return c;
}
static inline int32_t ptx_dp4a_s(int32_t a, int32_t b, int32_t c)
{
	for (int i = 0; i < 32; i += 8)
		c += (int32_t)(int8_t)(a >> i) * (int8_t)(b >> i);
	return c;
}
/* A NaN loses against a number; -0 is below +0. */
#define PTX_EXTREMES(t, type, f_min, f_max)                                                        \
	static inline type ptx_min_##t(type a, type b)                                             \
	{                                                                                          \
		return a == b && a == 0 ? (__builtin_signbit(a) ? a : b) : f_min(a, b);            \
	}                                                                                          \
	static inline type ptx_max_##t(type a, type b)                                             \
	{                                                                                          \
		return a == b && a == 0 ? (__builtin_signbit(a) ? b : a) : f_max(a, b);            \
	}
PTX_EXTREMES(f32, float, __builtin_fminf, __builtin_fmaxf)
PTX_EXTREMES(f64, double, __builtin_fmin, __builtin_fmax)
/* Two numbers of 16 bits in one register, the first in the low bits. from and to convert between
 * the bits and a number. */
#define PTX_PAIR(name, t, type, from, to, expression)                                              \
	static inline uint16_t ptx_##name##_half_##t(uint16_t x, uint16_t y, uint16_t z)           \
	{                                                                                          \
		type a = from(x), b = from(y), c = from(z);                                        \
		(void)b, (void)c;                                                                  \
		return to(expression);                                                             \
	}                                                                                          \
	static inline uint32_t ptx_##name##_##t##x2(uint32_t x, uint32_t y, uint32_t z)            \
	{                                                                                          \
		uint16_t low = ptx_##name##_half_##t((uint16_t)x, (uint16_t)y, (uint16_t)z);       \
		uint32_t high = ptx_##name##_half_##t((uint16_t)(x >> 16), (uint16_t)(y >> 16),    \
						      (uint16_t)(z >> 16));                        \
		return low | high << 16;                                                           \
	}
#define PTX_PAIRS(t)                                                                               \
	PTX_PAIR(add, t, float, ptx_from_##t, ptx_to_##t, a + b)                                   \
	PTX_PAIR(sub, t, float, ptx_from_##t, ptx_to_##t, a - b)                                   \
	PTX_PAIR(mul, t, float, ptx_from_##t, ptx_to_##t, a *b)                                    \
	PTX_PAIR(min, t, float, ptx_from_##t, ptx_to_##t, ptx_min_f32(a, b))                       \
	PTX_PAIR(max, t, float, ptx_from_##t, ptx_to_##t, ptx_max_f32(a, b))                       \
	PTX_PAIR(fma, t, float, ptx_from_##t, ptx_to_##t, ptx_fma_half(a, b, c))
PTX_PAIRS(f16)
PTX_PAIRS(bf16)
PTX_PAIR(add, u16, int32_t, (int32_t), (uint16_t), a + b)
PTX_PAIR(min, u16, int32_t, (int32_t), (uint16_t), a < b ? a : b)
PTX_PAIR(max, u16, int32_t, (int32_t), (uint16_t), a > b ? a : b)
PTX_PAIR(min, s16, int32_t, (int16_t), (uint16_t), a < b ? a : b)
PTX_PAIR(max, s16, int32_t, (int16_t), (uint16_t), a > b ? a : b)
static inline float ptx_saturate_f32(float a)
{
	return a > 0 ? (a < 1 ? a : 1) : 0; /* NaN: 0 */
}
static inline double ptx_saturate_f64(double a)
{
	return a > 0 ? (a < 1 ? a : 1) : 0;
}
/* A number that is too small becomes a zero of its sign. */
static inline float ptx_ftz(float a)
{
	return (ptx_b32(a) & 0x7f800000u) == 0 ? __builtin_copysignf(0, a) : a;
}
/* Float to integer: clamps to the range; a NaN becomes 0. */
#define PTX_TO_INTEGER(t, type, low, high)                                                         \
	static inline type ptx_integer_##t(double a)                                               \
	{                                                                                          \
		return a != a ? 0 : a <= (double)low ? low : a >= (double)high ? high : (type)a;   \
	}
PTX_TO_INTEGER(u8, uint8_t, 0, UINT8_MAX)
PTX_TO_INTEGER(u16, uint16_t, 0, UINT16_MAX)
PTX_TO_INTEGER(u32, uint32_t, 0, UINT32_MAX)
PTX_TO_INTEGER(u64, uint64_t, 0, UINT64_MAX)
PTX_TO_INTEGER(s8, int8_t, INT8_MIN, INT8_MAX)
PTX_TO_INTEGER(s16, int16_t, INT16_MIN, INT16_MAX)
PTX_TO_INTEGER(s32, int32_t, INT32_MIN, INT32_MAX)
PTX_TO_INTEGER(s64, int64_t, INT64_MIN, INT64_MAX)

/* Integers in the range of a smaller type. */
#define PTX_CLAMP(t, type, low, high)                                                              \
	static inline type ptx_clamp_##t(__int128 a)                                               \
	{                                                                                          \
		return a < low ? low : a > (__int128)high ? high : (type)a;                        \
	}
PTX_CLAMP(u8, uint8_t, 0, UINT8_MAX)
PTX_CLAMP(u16, uint16_t, 0, UINT16_MAX)
PTX_CLAMP(u32, uint32_t, 0, UINT32_MAX)
PTX_CLAMP(u64, uint64_t, 0, UINT64_MAX)
PTX_CLAMP(s8, int8_t, INT8_MIN, INT8_MAX)
PTX_CLAMP(s16, int16_t, INT16_MIN, INT16_MAX)
PTX_CLAMP(s32, int32_t, INT32_MIN, INT32_MAX)
PTX_CLAMP(s64, int64_t, INT64_MIN, INT64_MAX)

/* ---- shuffles: the source lane, and whether it is in the segment ---------------------------- */

static inline uint32_t ptx_source(const struct ptx_lane *l, char mode, uint32_t b, uint32_t c,
				  bool *inside)
{
	uint32_t lane = l->laneid, n = b & 31, clamp = c & 31, segment = c >> 8 & 31, j = 0;
	uint32_t most = (lane & segment) | (clamp & ~segment), least = lane & segment;

	switch (mode) {
	case 'u':
		j = lane - n;
		*inside = (int32_t)j >= (int32_t)most;
		break;
	case 'd':
		j = lane + n;
		*inside = j <= most;
		break;
	case 'b':
		j = lane ^ n;
		*inside = j <= most;
		break;
	default:
		j = least | (n & ~segment);
		*inside = j <= most;
	}
	return *inside ? j : lane;
}

/* ---- changes of atomics --------------------------------------------------------------------- */

#define PTX_CHANGE(name, expression)                                                               \
	static inline uint64_t ptx_change_##name(uint64_t old, uint64_t a, uint64_t b)             \
	{                                                                                          \
		(void)old, (void)a, (void)b;                                                       \
		return (uint64_t)(expression);                                                     \
	}
PTX_CHANGE(add, old + a)
PTX_CHANGE(and, old &a)
PTX_CHANGE(or, old | a)
PTX_CHANGE(xor, old ^ a)
PTX_CHANGE(exch, a)
PTX_CHANGE(cas, old == a ? b : old)
PTX_CHANGE(min, old < a ? old : a)
PTX_CHANGE(max, old > a ? old : a)
PTX_CHANGE(min_s32, (uint32_t)((int32_t)old < (int32_t)a ? old : a))
PTX_CHANGE(max_s32, (uint32_t)((int32_t)old > (int32_t)a ? old : a))
PTX_CHANGE(min_s64, (int64_t)old < (int64_t)a ? old : a)
PTX_CHANGE(max_s64, (int64_t)old > (int64_t)a ? old : a)
PTX_CHANGE(inc, old >= a ? 0 : old + 1)
PTX_CHANGE(dec, old == 0 || old > a ? a : old - 1)
PTX_CHANGE(add_f32, ptx_b32(ptx_f32((uint32_t)old) + ptx_f32((uint32_t)a)))
PTX_CHANGE(add_f64, ptx_b64(ptx_f64(old) + ptx_f64(a)))

#endif
