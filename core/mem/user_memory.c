/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/mem/user_memory.h"

#include "core/base/log.h"
#include "core/base/macros.h"
#include "core/rank/registry.h"

#define USER_MEMORY_WHAT "memory of ncclMemAlloc"

struct user_memory {
	struct registry_node node; /* must be first: node of the process' registry */
	uint8_t *mem;
	size_t bytes;
	/* holds and freed change under the registry's lock */
	uint32_t holds;
	bool freed; /* true after the program's ncclMemFree */
};

static struct user_memory *user_memory_of(struct registry_node *n)
{
	return n->kind == REGISTRY_MEMORY ? (struct user_memory *)n : NULL;
}

/* Returns the memory that begins at `at`, or NULL. Caller holds the registry's lock. Memory with
 * `freed` set remains in the list until its last hold is dropped. */
static struct user_memory *user_memory_at(struct registry_node *first, const void *at)
{
	for (struct registry_node *n = first; n; n = n->next) {
		struct user_memory *m = user_memory_of(n);

		if (m && m->mem == at)
			return m;
	}
	return NULL;
}

static struct user_memory *user_memory_find(struct registry_node *first, const uint8_t *at,
					    size_t bytes)
{
	for (struct registry_node *n = first; n; n = n->next) {
		struct user_memory *m = user_memory_of(n);

		if (m && !m->freed && at >= m->mem && bytes <= m->bytes &&
		    (size_t)(at - m->mem) <= m->bytes - bytes)
			return m;
	}
	return NULL;
}

ncclResult_t user_memory_alloc(void **mem, size_t bytes)
{
	struct user_memory *m = os_alloc(sizeof *m, "memory for ncclMemAlloc");
	ncclResult_t rc;

	*mem = NULL;
	if (!m) {
		WARN("ncclMemAlloc: no memory to note %zu bytes of device memory", bytes);
		return ncclSystemError;
	}
	rc = mem_device_alloc(mem, bytes, USER_MEMORY_WHAT);
	if (rc) {
		os_free(m);
		return rc;
	}
	m->node.kind = REGISTRY_MEMORY;
	m->mem = *mem;
	m->bytes = bytes;
	registry_add(&m->node);
	return ncclSuccess;
}

/* Frees the memory. First removes it from the registry, so that no other task finds it. */
static ncclResult_t user_memory_end(struct user_memory *m)
{
	ncclResult_t rc;

	registry_remove(&m->node);
	rc = mem_device_free(m->mem, USER_MEMORY_WHAT);
	os_free(m);
	return rc;
}

ncclResult_t user_memory_free(void *mem)
{
	struct registry_node *first = registry_lock();
	struct user_memory *m = user_memory_at(first, mem);
	bool again = m && m->freed, held = m && m->holds;

	if (m)
		m->freed = true;
	registry_unlock(first);
	if (again) {
		WARN("ncclMemFree: %p was freed before", mem);
		return ncclInvalidArgument;
	}
	if (!m)
		return mem_device_free(mem, USER_MEMORY_WHAT);
	if (!held)
		return user_memory_end(m);
	OS_PROBE("mem.free_waits_for_others", "memory is freed that another rank has mapped", true);
	INFO(LOG_REG, "ncclMemFree: %p is freed when the ranks that have mapped it have closed it",
	     mem);
	return ncclSuccess;
}

struct user_memory *user_memory_hold(const void *at, size_t bytes)
{
	struct registry_node *first = registry_lock();
	struct user_memory *m = user_memory_find(first, at, bytes);

	if (m)
		m->holds++;
	registry_unlock(first);
	return m;
}

void user_memory_hold_again(struct user_memory *m)
{
	struct registry_node *first = registry_lock();

	ASSERT(m->holds);
	m->holds++;
	registry_unlock(first);
}

void user_memory_drop(struct user_memory *m)
{
	struct registry_node *first = registry_lock();
	bool last;

	ASSERT(m->holds);
	last = --m->holds == 0 && m->freed;
	registry_unlock(first);
	if (last)
		(void)user_memory_end(m);
}

uint8_t *user_memory_base(const struct user_memory *m)
{
	return m->mem;
}
