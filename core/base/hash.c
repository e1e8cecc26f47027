/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/hash.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash64(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

uint64_t hash64_seeded(const void *data, size_t bytes, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, bytes, seed);
}

uint64_t hash64_str(const char *text)
{
	return XXH3_64bits(text, strlen(text));
}

uint64_t hash64_combine(uint64_t hash, uint64_t value)
{
	/* Two rounds of a 64-bit finaliser. The constants are the golden ratio and murmur's. */
	uint64_t x = (hash ^ value) + 0x9e3779b97f4a7c15ull + (hash << 6);
	x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdull;
	x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ull;
	return x ^ (x >> 33);
}
