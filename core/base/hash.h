/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 64-bit hashes of bytes, for tables, host identities and the trace: XXH3 (xxhash.h), whose value
 * does not depend on compiler or CPU. Hashing cannot fail. The hashed bytes must not contain
 * addresses or padding. Not for security.
 */
#ifndef CORE_BASE_HASH_H
#define CORE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash64(const void *data, size_t bytes);
uint64_t hash64_seeded(const void *data, size_t bytes, uint64_t seed);
uint64_t hash64_str(const char *text);
/* Adds a value to a running hash; order matters. */
uint64_t hash64_combine(uint64_t hash, uint64_t value);

#endif
