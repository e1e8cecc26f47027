/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/memo_table.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/macros.h"

struct memo_entry {
	struct memo_entry *next;
	uint64_t hash;
	const char *kind;
	void *value;
	size_t key_bytes;
	unsigned char key[];
};

static uint64_t memo_hash(const char *kind, const void *key, size_t key_bytes)
{
	return hash64_seeded(key, key_bytes, hash64_str(kind));
}

static struct memo_entry *memo_look(const struct memo_table *t, uint64_t hash, const char *kind,
				    const void *key, size_t key_bytes)
{
	struct memo_entry *e = t->bucket[hash % MEMO_BUCKETS];
	for (; e; e = e->next)
		if (e->hash == hash && e->key_bytes == key_bytes && strcmp(e->kind, kind) == 0 &&
		    memcmp(e->key, key, key_bytes) == 0)
			return e;
	return NULL;
}

const void *memo_table_find(const struct memo_table *t, const char *kind, const void *key,
			    size_t key_bytes)
{
	uint64_t hash = memo_hash(kind, key, key_bytes);
	const struct memo_entry *e = memo_look(t, hash, kind, key, key_bytes);
	return e ? e->value : NULL;
}

const void *memo_table_insert(struct memo_table *t, const char *kind, const void *key,
			      size_t key_bytes, void *value)
{
	ASSERT(value);
	uint64_t hash = memo_hash(kind, key, key_bytes);
	struct memo_entry *e = memo_look(t, hash, kind, key, key_bytes);
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
	e->next = t->bucket[hash % MEMO_BUCKETS];
	t->bucket[hash % MEMO_BUCKETS] = e;
	t->count++;
	return value;
}

void memo_table_clear(struct memo_table *t)
{
	for (size_t i = 0; i < MEMO_BUCKETS; i++) {
		struct memo_entry *next, *e = t->bucket[i];
		for (; e; e = next) {
			next = e->next;
			free(e->value);
			free(e);
		}
		t->bucket[i] = NULL;
	}
	t->count = 0;
}

void *memo_value_alloc(size_t bytes)
{
	return calloc(1, bytes);
}

void memo_value_free(void *value)
{
	free(value);
}
