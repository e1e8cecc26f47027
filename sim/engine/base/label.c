/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of objects, by address: for wait-for graphs, traces and fault addresses. Used by both
 * engines; a lock guards it in `threads`. Only the hang explainer iterates over it.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/base/engine_internal.h"

enum { LABEL_BUCKETS_FIRST = 1 << 12 };
DOPPEL_STATIC_CHECK((LABEL_BUCKETS_FIRST & (LABEL_BUCKETS_FIRST - 1)) == 0,
		    "buckets are a power of two: a mask finds one");

struct label {
	const void *object;
	struct os_label value;
	struct label *next;
};

/* At least as many buckets as labels: a world of 1,000 ranks has 400,000 labels. */
static struct label **label_bucket, *label_free;
static uint32_t label_buckets, label_count;
static pthread_mutex_t label_mutex = PTHREAD_MUTEX_INITIALIZER;

static struct label **label_bucket_of(const void *object)
{
	uint64_t hash = (uintptr_t)object * 0x9e3779b97f4a7c15ull;

	return &label_bucket[(uint32_t)(hash >> 32) & (label_buckets - 1)];
}

static struct label **label_find(const void *object)
{
	struct label **at = label_bucket_of(object);

	while (*at && (*at)->object != object)
		at = &(*at)->next;
	return at;
}

static void label_table_grow(void)
{
	struct label **old = label_bucket;
	uint32_t n = label_buckets;

	label_buckets = n ? 4 * n : LABEL_BUCKETS_FIRST;
	label_bucket = calloc(label_buckets, sizeof *label_bucket);
	ASSERT(label_bucket);
	for (uint32_t i = 0; i < n; i++) {
		while (old[i]) {
			struct label *l = old[i], **to = label_bucket_of(l->object);

			old[i] = l->next;
			l->next = *to;
			*to = l;
		}
	}
	free(old);
}

void label_set(const void *object, const struct os_label *value)
{
	ASSERT(value->what);
	pthread_mutex_lock(&label_mutex);
	if (label_count >= label_buckets)
		label_table_grow();
	struct label **at = label_find(object), *l = *at;
	if (!l) {
		l = label_free;
		if (l)
			label_free = l->next;
		else
			l = malloc(sizeof *l);
		ASSERT(l);
		*l = (struct label){.object = object};
		*at = l;
		label_count++;
	}
	l->value = *value;
	pthread_mutex_unlock(&label_mutex);
}

void label_unset(const void *object)
{
	pthread_mutex_lock(&label_mutex);
	struct label **at = label_bucket ? label_find(object) : NULL, *l = at ? *at : NULL;
	if (l) {
		ASSERT(label_count > 0);
		label_count--;
		*at = l->next;
		l->next = label_free;
		label_free = l;
	}
	pthread_mutex_unlock(&label_mutex);
}

bool label_get(const void *object, struct os_label *value)
{
	pthread_mutex_lock(&label_mutex);
	const struct label *l = object && label_bucket ? *label_find(object) : NULL;
	if (l)
		*value = l->value;
	pthread_mutex_unlock(&label_mutex);
	return l != NULL;
}

int64_t label_most(const char *what, int32_t rank)
{
	int64_t most = -1;

	pthread_mutex_lock(&label_mutex);
	for (uint32_t i = 0; i < label_buckets; i++)
		for (const struct label *l = label_bucket[i]; l; l = l->next)
			if (l->value.rank == rank && !strcmp(l->value.what, what))
				most = MAX_OF(most, l->value.number);
	pthread_mutex_unlock(&label_mutex);
	return most;
}

int64_t label_sum(const char *what, int32_t rank, int32_t peer)
{
	int64_t sum = 0;

	pthread_mutex_lock(&label_mutex);
	for (uint32_t i = 0; i < label_buckets; i++)
		for (const struct label *l = label_bucket[i]; l; l = l->next)
			if (l->value.rank == rank && l->value.peer == peer &&
			    !strcmp(l->value.what, what))
				sum += l->value.number;
	pthread_mutex_unlock(&label_mutex);
	return sum;
}

void label_stop(void)
{
	for (uint32_t i = 0; i < label_buckets; i++) {
		while (label_bucket[i]) {
			struct label *l = label_bucket[i];

			label_bucket[i] = l->next;
			free(l);
		}
	}
	while (label_free) {
		struct label *l = label_free;

		label_free = l->next;
		free(l);
	}
	free(label_bucket);
	label_bucket = NULL;
	label_buckets = label_count = 0;
}
