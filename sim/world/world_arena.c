/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arena: one reserved range, allocated from the front and freed with the world. The head is at
 * offset 0 and counts the used bytes: the range may be the configuration's and shared with other
 * processes. Untouched pages cost no memory.
 */
#include <errno.h>
#include <sys/mman.h>

#include "sim/world/world_internal.h"

#define ARENA_BYTES WORLD_ARENA_BYTES
#define ARENA_ALIGN WORLD_ARENA_FIRST

uint8_t *world_arena_base;

int world_arena_start(void)
{
	void *p = world->config.arena;
	if (!p)
		p = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return ENOMEM;
	world->arena = world_arena_base = p;
	if (!world->config.arena)
		((struct world_arena_head *)p)->used = ARENA_ALIGN;
	return 0;
}

void world_arena_free(void)
{
	if (world->arena && !world->config.arena)
		munmap(world->arena, ARENA_BYTES);
	world->arena = world_arena_base = NULL;
}

void *world_arena_alloc(size_t bytes, const char *what)
{
	ASSERT(world && world->arena);
	ASSERT(bytes > 0);
	struct world_arena_head *head = (struct world_arena_head *)world->arena;
	uint64_t take = ALIGN_UP((uint64_t)bytes, ARENA_ALIGN);
	uint64_t at = __atomic_fetch_add(&head->used, take, __ATOMIC_ACQ_REL);
	bool room = take >= bytes && at < ARENA_BYTES && take <= ARENA_BYTES - at;
	if (!room)
		__atomic_fetch_sub(&head->used, take, __ATOMIC_ACQ_REL);
	if (!room) {
		fprintf(stderr, "world arena: no room for %zu bytes of %s after offset %llu\n",
			bytes, what, (unsigned long long)at);
		return NULL;
	}
	return world->arena + at;
}

uint64_t world_arena_offset(const void *p)
{
	uint64_t offset = (uint64_t)((const uint8_t *)p - world->arena);
	ASSERT(offset >= ARENA_ALIGN && offset < ARENA_BYTES);
	return offset;
}
