/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/os/os_memo.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/macros.h"

struct os_memo_entry {
	struct os_memo_entry *next;
	uint64_t hash;
	const char *kind;
	void *value;
	size_t key_bytes;
	unsigned char key[];
};

static uint64_t os_memo_hash(const char *kind, const void *key, size_t key_bytes)
{
	return hash64_seeded(key, key_bytes, hash64_str(kind));
}

static struct os_memo_entry *os_memo_look(const struct os_memo_table *t, uint64_t hash,
					  const char *kind, const void *key, size_t key_bytes)
{
	struct os_memo_entry *e = t->bucket[hash % OS_MEMO_BUCKETS];
	for (; e; e = e->next)
		if (e->hash == hash && e->key_bytes == key_bytes && strcmp(e->kind, kind) == 0 &&
		    memcmp(e->key, key, key_bytes) == 0)
			return e;
	return NULL;
}

const void *os_memo_find(const struct os_memo_table *t, const char *kind, const void *key,
			 size_t key_bytes)
{
	uint64_t hash = os_memo_hash(kind, key, key_bytes);
	const struct os_memo_entry *e = os_memo_look(t, hash, kind, key, key_bytes);
	return e ? e->value : NULL;
}

const void *os_memo_insert(struct os_memo_table *t, const char *kind, const void *key,
			   size_t key_bytes, void *value)
{
	ASSERT(value);
	uint64_t hash = os_memo_hash(kind, key, key_bytes);
	struct os_memo_entry *e = os_memo_look(t, hash, kind, key, key_bytes);
	if (e) {
		free(value);
		return e->value;
	}
	e = malloc(sizeof *e + key_bytes);
	if (!e) {
		free(value);
		return NULL;
	}
	e->hash = hash;
	e->kind = kind;
	e->value = value;
	e->key_bytes = key_bytes;
	memcpy(e->key, key, key_bytes);
	e->next = t->bucket[hash % OS_MEMO_BUCKETS];
	t->bucket[hash % OS_MEMO_BUCKETS] = e;
	t->count++;
	return value;
}

void os_memo_clear(struct os_memo_table *t)
{
	for (size_t i = 0; i < OS_MEMO_BUCKETS; i++) {
		struct os_memo_entry *next, *e = t->bucket[i];
		for (; e; e = next) {
			next = e->next;
			free(e->value);
			free(e);
		}
		t->bucket[i] = NULL;
	}
	t->count = 0;
}
