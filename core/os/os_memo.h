/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table behind os_memo: values by (kind, key), compared in full. Used by both world halves,
 * which bring the lock and own the table; values came from malloc and are freed with it. Zeroed
 * memory is an empty table. Errors: NULL.
 */
#ifndef CORE_OS_OS_MEMO_H
#define CORE_OS_OS_MEMO_H

#include <stddef.h>
#include <stdint.h>

#define OS_MEMO_BUCKETS 256

struct os_memo_entry;
struct os_memo_table {
	struct os_memo_entry *bucket[OS_MEMO_BUCKETS];
	uint64_t count;
};

const void *os_memo_find(const struct os_memo_table *t, const char *kind, const void *key,
			 size_t key_bytes);
/* Takes the value over; where the key exists already, frees it and returns the older one. */
const void *os_memo_insert(struct os_memo_table *t, const char *kind, const void *key,
			   size_t key_bytes, void *value);
void os_memo_clear(struct os_memo_table *t);

#endif
