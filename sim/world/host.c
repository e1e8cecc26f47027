/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a host tells its processes: name, boot id, files. And what the world keeps for all of them:
 * the memo and the agreements.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "sim/engine/symbol.h"
#include "sim/world/world_internal.h"

/* ---- identity and files ------------------------------------------------------------------------
 */

static uint32_t host_self(void)
{
	return world_self()->proc->host;
}

void world_host_name(char *out, size_t bytes)
{
	snprintf(out, bytes, "host%u", host_self());
}

/* Shaped like a random UUID; the host's index says all there is to say. */
static void host_boot_id(uint32_t host, char *out, size_t bytes)
{
	uint64_t h = hash64_combine(0xb007, host);
	snprintf(out, bytes, "%08x-%04x-4%03x-8%03x-%012llx", (uint32_t)(h >> 32),
		 (uint32_t)(h >> 16) & 0xffff, (uint32_t)h & 0xfff, (uint32_t)(h >> 52) & 0xfff,
		 (unsigned long long)host);
}

void world_boot_id(char *out, size_t bytes)
{
	host_boot_id(host_self(), out, bytes);
}

int32_t world_cpu(void)
{
	return -1;
}

/* The host's files. `text` is room for the short ones. */
static const char *host_file(uint32_t host, const char *path, char text[128], size_t *bytes)
{
	const struct world_machine *m = world->host[host].machine;
	if (strcmp(path, WORLD_TOPO_PATH) == 0) {
		*bytes = m->xml_bytes;
		return m->xml;
	}
	if (strcmp(path, "/proc/sys/kernel/random/boot_id") == 0) {
		host_boot_id(host, text, 120);
		strcat(text, "\n");
	} else if (strcmp(path, "/proc/sys/kernel/hostname") == 0) {
		snprintf(text, 128, "host%u\n", host);
	} else {
		return NULL;
	}
	*bytes = strlen(text);
	return text;
}

int world_file_read(const char *path, char **data, size_t *bytes)
{
	world_point("os_file_read");
	char text[128];
	size_t n = 0;
	const char *contents = host_file(host_self(), path, text, &n);
	struct os_fault f;
	if (!contents)
		return ENOENT;
	if (os_fault("os.file", NULL, &f) && f.kind == OS_FAULT_FAIL)
		return f.arg ? (int)f.arg : EIO;
	char *out = world_alloc(n + 1, "file contents");
	if (!out)
		return ENOMEM;
	memcpy(out, contents, n);
	*data = out;
	*bytes = n;
	return 0;
}

void world_log_line(const char *line)
{
	/* one call, so that lines of several threads do not mix */
	fprintf(stderr, "%s\n", line);
}

/* ---- memo ----------------------------------------------------------------------------------- */

const void *world_memo(const char *kind, const void *key, size_t key_bytes,
		       void *(*make)(const void *, size_t, void *), void *arg)
{
	world_lock(&world->lock);
	const void *found = memo_table_find(&world->memo, kind, key, key_bytes);
	world_unlock(&world->lock);
	if (found)
		return found;
	void *made = make(key, key_bytes, arg);
	if (!made)
		return NULL;
	world_lock(&world->lock);
	found = memo_table_insert(&world->memo, kind, key, key_bytes, made);
	world_unlock(&world->lock);
	return found;
}

/* ---- agreements ----------------------------------------------------------------------------- */

/* The latest AGREE_KEPT sequence numbers of one key. Ranks that are further apart than that are not
 * compared: memory stays bounded, and a collective keeps its ranks closer together. */
#define AGREE_KEPT 64

struct world_agreement {
	struct world_agreement *next;
	uint64_t key;
	struct agree_slot {
		uint64_t seq_plus_one; /* 0: empty */
		uint64_t hash;         /* of the whole text */
		const void *caller;    /* of the first */
		struct os_agree_other first;
	} slot[AGREE_KEPT];
};

static struct world_agreement *agree_get(uint64_t key)
{
	struct world_agreement *a = world->agreements;
	while (a && a->key != key)
		a = a->next;
	if (a)
		return a;
	a = calloc(1, sizeof *a);
	ASSERT(a);
	a->key = key;
	a->next = world->agreements;
	world->agreements = a;
	return a;
}

/* A return address in words: the function of the program that made the call. */
static void agree_where(const void *caller, char *out, size_t bytes)
{
	char name[64] = "?";
	size_t at = 0;

	if (caller && symbol_find((const char *)caller - 1, name, sizeof name, &at))
		snprintf(out, bytes, "%s+0x%zx", name, at + 1);
	else
		snprintf(out, bytes, "?");
}

static int agree_check(struct agree_slot *s, uint64_t seq, int32_t rank, const char *text,
		       const void *caller, struct os_agree_other *other)
{
	uint64_t hash = hash64_str(text);
	if (s->seq_plus_one > seq + 1)
		return 0;
	if (s->seq_plus_one < seq + 1) {
		s->seq_plus_one = seq + 1;
		s->hash = hash;
		s->caller = caller;
		s->first.rank = rank;
		snprintf(s->first.text, sizeof s->first.text, "%s", text);
		return 0;
	}
	if (s->hash == hash)
		return 0;
	if (other) {
		*other = s->first;
		agree_where(s->caller, other->where, sizeof other->where);
		agree_where(caller, other->here, sizeof other->here);
	}
	return EINVAL;
}

int world_agree(uint64_t key, uint64_t seq, int32_t rank, const char *text, const void *caller,
		struct os_agree_other *other)
{
	ASSERT(text && seq < UINT64_MAX);
	world_lock(&world->lock);
	struct agree_slot *s = &agree_get(key)->slot[seq % AGREE_KEPT];
	int rc = agree_check(s, seq, rank, text, caller, other);
	world_unlock(&world->lock);
	return rc;
}

void world_agreements_free(void)
{
	for (struct world_agreement *next, *a = world->agreements; a; a = next) {
		next = a->next;
		free(a);
	}
	world->agreements = NULL;
}
