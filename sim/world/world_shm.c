/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host's /dev/shm. A segment has the same address in every process that maps it. It lives while
 * it has a name or a mapping. With DOPPEL_HOST_SHM=process each process has a /dev/shm of its own,
 * as in a container.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/world/world_internal.h"

#define SHM_NAME_BYTES 256

struct world_segment {
	struct world_segment *next;
	uint32_t mount; /* shm_mount */
	char name[SHM_NAME_BYTES];
	bool named;
	uint32_t maps;
	size_t bytes;
	void *mem;
};

struct world_mapping {
	struct world_mapping *next;
	struct world_segment *segment;
	uint32_t host;
};

static void (*shm_unmap_hook)(struct os_proc *proc, const void *mem, size_t bytes);

void world_on_unmap(void (*hook)(struct os_proc *proc, const void *mem, size_t bytes))
{
	ASSERT(!shm_unmap_hook);
	shm_unmap_hook = hook;
}

static struct world_host *shm_host(const struct world_proc *wp)
{
	return &world->host[wp->proc->host];
}

/* Returns 0 for the /dev/shm of the host, another number for one of the process. */
static uint32_t shm_mount(const struct world_proc *wp)
{
	bool apart = strcmp(param_str(PARAM_DOPPEL_HOST_SHM), "process") == 0;

	return apart ? 1 + wp->proc->id : 0;
}

static struct world_segment *shm_find(const struct world_proc *wp, const char *name)
{
	const uint32_t mount = shm_mount(wp);
	struct world_segment *s = shm_host(wp)->segments;

	while (s && !(s->named && s->mount == mount && strcmp(s->name, name) == 0))
		s = s->next;
	return s;
}

/* Frees the segment if it has neither a name nor a mapping. */
static void shm_settle(struct world_host *h, struct world_segment *s)
{
	if (s->named || s->maps)
		return;
	struct world_segment **at = &h->segments;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	mem_fresh(s->mem, s->bytes);
	munmap(s->mem, s->bytes);
	free(s);
}

static int shm_name_check(const char *name)
{
	if (!*name || strchr(name, '/'))
		return EINVAL;
	return strlen(name) < SHM_NAME_BYTES ? 0 : ENAMETOOLONG;
}

static int shm_map(struct world_proc *wp, struct world_segment *s, void **mem)
{
	struct world_mapping *m = malloc(sizeof *m);
	if (!m)
		return ENOMEM;
	*m = (struct world_mapping){wp->mappings, s, wp->proc->host};
	wp->mappings = m;
	s->maps++;
	*mem = s->mem;
	return 0;
}

static int shm_make(struct world_proc *wp, const char *name, size_t bytes, void **mem)
{
	struct world_host *h = shm_host(wp);
	if (shm_find(wp, name))
		return EEXIST;
	struct world_segment *s = calloc(1, sizeof *s);
	if (!s)
		return ENOMEM;
	s->bytes = bytes;
	s->mount = shm_mount(wp);
	s->mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->mem == MAP_FAILED) {
		free(s);
		return ENOMEM;
	}
	mem_fresh(s->mem, bytes);
	snprintf(s->name, sizeof s->name, "%s", name);
	s->named = true;
	s->next = h->segments;
	h->segments = s;
	int rc = shm_map(wp, s, mem);
	if (rc) {
		s->named = false;
		shm_settle(h, s);
	}
	return rc;
}

int world_shm_device(uint64_t *device)
{
	const struct world_proc *wp = world_self();

	*device = 1 + (uint64_t)wp->proc->host + ((uint64_t)shm_mount(wp) << 32);
	return 0;
}

int world_shm_create(const char *name, size_t bytes, void **mem)
{
	world_point("os_shm_create");
	struct os_fault f;
	int rc = bytes ? shm_name_check(name) : EINVAL;
	if (rc)
		return rc;
	if (os_fault("os.shm", NULL, &f) && f.kind == OS_FAULT_FAIL)
		return f.arg ? (int)f.arg : ENOSPC;
	struct world_proc *wp = world_self();
	world_lock(&world->shm_lock);
	rc = shm_make(wp, name, bytes, mem);
	world_unlock(&world->shm_lock);
	if (rc == 0)
		os_trace("shm.create", wp->proc->id, bytes, 0);
	return rc;
}

int world_shm_open(const char *name, size_t bytes, void **mem, size_t *found)
{
	world_point("os_shm_open");
	struct os_fault f;
	int rc = bytes ? shm_name_check(name) : EINVAL;
	if (rc)
		return rc;
	if (os_fault("os.shm", NULL, &f) && f.kind == OS_FAULT_FAIL)
		return f.arg ? (int)f.arg : ENOMEM;
	struct world_proc *wp = world_self();
	world_lock(&world->shm_lock);
	struct world_segment *s = shm_find(wp, name);
	*found = s ? s->bytes : 0;
	rc = !s ? ENOENT : s->bytes != bytes ? EINVAL : shm_map(wp, s, mem);
	world_unlock(&world->shm_lock);
	if (rc == 0)
		os_trace("shm.open", wp->proc->id, bytes, 0);
	return rc;
}

int world_shm_unlink(const char *name)
{
	world_point("os_shm_unlink");
	int rc = shm_name_check(name);
	if (rc)
		return rc;
	struct world_proc *wp = world_self();
	world_lock(&world->shm_lock);
	struct world_segment *s = shm_find(wp, name);
	if (s) {
		s->named = false;
		shm_settle(shm_host(wp), s);
	}
	world_unlock(&world->shm_lock);
	return s ? 0 : ENOENT;
}

static void shm_unmap_at(struct world_mapping **at)
{
	struct world_mapping *m = *at;
	*at = m->next;
	ASSERT(m->segment->maps > 0);
	m->segment->maps--;
	shm_settle(&world->host[m->host], m->segment);
	free(m);
}

int world_shm_unmap(void *mem, size_t bytes)
{
	world_point("os_shm_unmap");
	struct world_proc *wp = world_self();
	if (shm_unmap_hook)
		shm_unmap_hook(wp->proc, mem, bytes);
	world_lock(&world->shm_lock);
	struct world_mapping **at = &wp->mappings;
	while (*at && (*at)->segment->mem != mem)
		at = &(*at)->next;
	bool found = *at != NULL;
	if (found)
		shm_unmap_at(at);
	world_unlock(&world->shm_lock);
	if (!found)
		fprintf(stderr, "os_shm_unmap: process %s has no mapping there\n", wp->name);
	return found ? 0 : EINVAL;
}

uint64_t world_mappings_close(struct world_proc *wp, char *first, size_t bytes)
{
	uint64_t n = 0;
	world_lock(&world->shm_lock);
	for (; wp->mappings; n++) {
		/* newest first: the last one described is the oldest */
		snprintf(first, bytes, "%s of %s", wp->mappings->segment->name, wp->name);
		shm_unmap_at(&wp->mappings);
	}
	world_unlock(&world->shm_lock);
	return n;
}

void world_segments_free(void)
{
	for (uint32_t i = 0; i < world->config.hosts; i++) {
		struct world_host *h = &world->host[i];
		while (h->segments) {
			struct world_segment *s = h->segments;
			ASSERT(s->maps == 0 && s->named);
			char first[SHM_NAME_BYTES + 32];
			snprintf(first, sizeof first, "%s on host%u", s->name, i);
			world_leak("shared memory segment", 1, first);
			s->named = false;
			shm_settle(h, s);
		}
	}
}
