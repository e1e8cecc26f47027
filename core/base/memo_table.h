/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of os_memo: values by (kind, key), compared in full. Both world halves use it; they
 * provide the lock and own the table. Values are allocated by malloc and freed with the table.
 * Zeroed memory is an empty table. On failure functions return NULL.
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
/* Inserts the value and becomes its owner. If the key exists, frees the value and returns the older
 * one. */
const void *memo_table_insert(struct memo_table *t, const char *kind, const void *key,
			      size_t key_bytes, void *value);
void memo_table_clear(struct memo_table *t);

/* Allocates zeroed memory for a value. Free only a value that was not inserted. */
void *memo_value_alloc(size_t bytes);
void memo_value_free(void *value);

#endif
