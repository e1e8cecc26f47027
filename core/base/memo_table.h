/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table behind os_memo: values by (kind, key), compared in full. Used by both world halves,
 * which bring the lock and own the table; values came from malloc and are freed with it. Zeroed
 * memory is an empty table. Errors: NULL.
 */
#ifndef CORE_BASE_MEMO_TABLE_H
#define CORE_BASE_MEMO_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define MEMO_BUCKETS 256

struct memo_entry;
struct memo_table {
	struct memo_entry *bucket[MEMO_BUCKETS];
	uint64_t count;
};

const void *memo_table_find(const struct memo_table *t, const char *kind, const void *key,
			    size_t key_bytes);
/* Takes the value over; where the key exists already, frees it and returns the older one. */
const void *memo_table_insert(struct memo_table *t, const char *kind, const void *key,
			      size_t key_bytes, void *value);
void memo_table_clear(struct memo_table *t);

/* Zeroed memory for a value, for code that makes one; free only what was never handed over. */
void *memo_value_alloc(size_t bytes);
void memo_value_free(void *value);

#endif
