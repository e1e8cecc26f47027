/* SPDX-License-Identifier: BSD-3-Clause */
/* A process' environment, random numbers and memory. proc.c creates and ends processes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/os/os_conf.h"
#include "sim/world/world_internal.h"

/* ---- environment ----------------------------------------------------------------------------- */

static const char *proc_env(const void *ctx, const char *name)
{
	const struct world_proc *wp = ctx;
	size_t n = strlen(name);
	for (const struct world_env *e = wp->env; e; e = e->next)
		if (!e->gone && e->name_bytes == n && memcmp(e->text, name, n) == 0)
			return e->value;
	return NULL;
}

static int proc_env_add(struct world_proc *wp, const char *name, size_t name_bytes,
			const char *value)
{
	size_t bytes = name_bytes + 1 + strlen(value) + 1;
	struct world_env *e = malloc(sizeof *e + bytes);
	if (!e)
		return ENOMEM;
	snprintf(e->text, bytes, "%.*s=%s", (int)name_bytes, name, value);
	e->value = e->text + name_bytes + 1;
	e->of_file = e->gone = false;
	e->name_bytes = name_bytes;
	e->next = wp->env;
	wp->env = e;
	return 0;
}

/* ---- configuration files --------------------------------------------------------------------- */

static int proc_conf_read(void *ctx, const char *path, char **data, size_t *bytes)
{
	const struct world_file *file = world_files_find(path);

	if (!file || file->rc)
		return file ? file->rc : ENOENT;
	*data = file->data;
	*bytes = file->bytes;
	return 0;
}

/* The text belongs to the world. */
static void proc_conf_keep(void *data)
{
}

static int proc_conf_add(void *ctx, const char *name, const char *value)
{
	struct world_proc *wp = ctx;
	int rc = proc_env_add(wp, name, strlen(name), value);

	if (!rc)
		wp->env->of_file = true;
	return rc;
}

/* Adds the variables of the configuration files, instead of those that are there. Then reads the
 * parameters. */
static int proc_env_parse(struct world_proc *wp)
{
	const char *home = os_real_ops.env("HOME");
	const struct conf_process process = {
		.ctx = wp,
		.env = proc_env,
		.read = proc_conf_read,
		.free = proc_conf_keep,
		.add = proc_conf_add,
		.home = !world->config.real_conf ? NULL
			: home                   ? home
						 : "",
	};
	struct conf *before = wp->conf;

	for (struct world_env *e = wp->env; e; e = e->next)
		e->gone |= e->of_file;
	int rc = conf_load(&process, &wp->conf);
	base_state_init(&wp->base, proc_env, wp, wp->conf);
	conf_free(before);
	return rc;
}

/* Sets the initial environment of a process: the path of its host's topology, then the
 * configuration's variables, which override it. */
int proc_env_start(struct world_proc *wp)
{
	int rc = proc_env_add(wp, "NCCL_TOPO_FILE", strlen("NCCL_TOPO_FILE"), WORLD_TOPO_PATH);
	const char *const *env = world->config.env;
	for (int i = 0; rc == 0 && env && env[i]; i++) {
		const char *equals = strchr(env[i], '=');
		ASSERT(equals); /* world_create has checked it */
		rc = proc_env_add(wp, env[i], (size_t)(equals - env[i]), equals + 1);
	}
	return rc ? rc : proc_env_parse(wp);
}

void proc_env_free(struct world_proc *wp)
{
	for (struct world_env *next, *e = wp->env; e; e = next) {
		next = e->next;
		free(e);
	}
	conf_free(wp->conf);
}

int world_proc_setenv(struct os_proc *proc, const char *name, const char *value)
{
	if (!name || !*name || strchr(name, '=') || !value)
		return EINVAL;
	struct world_proc *wp = world_proc_of(proc);
	world_lock(&wp->lock);
	int rc = proc_env_add(wp, name, strlen(name), value);
	if (rc == 0)
		rc = proc_env_parse(wp);
	world_unlock(&wp->lock);
	return rc;
}

const char *world_env_get(const char *name)
{
	struct world_proc *wp = world_self();
	world_lock(&wp->lock);
	const char *value = proc_env(wp, name);
	world_unlock(&wp->lock);
	return value;
}

/* Skips values that a newer one has replaced. */
const char *world_env_at(int index)
{
	struct world_proc *wp = world_self();
	const char *found = NULL;

	world_lock(&wp->lock);
	for (const struct world_env *e = wp->env; e && !found; e = e->next) {
		const struct world_env *newer = wp->env;

		while (newer != e && (newer->gone || newer->name_bytes != e->name_bytes ||
				      memcmp(newer->text, e->text, e->name_bytes) != 0))
			newer = newer->next;
		if (newer == e && !e->gone && index-- == 0)
			found = e->text;
	}
	world_unlock(&wp->lock);
	return found;
}

void world_random(void *out, size_t bytes)
{
	struct world_proc *wp = world_self();
	world_lock(&wp->lock);
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)out)[i] = (uint8_t)(sim_rng_u64(&wp->rng) >> 56);
	world_unlock(&wp->lock);
}

/* ---- memory --------------------------------------------------------------------------------- */

void *world_alloc(size_t bytes, const char *what)
{
	struct os_fault f;
	if (os_fault("os.alloc", NULL, &f) && f.kind == OS_FAULT_FAIL)
		return NULL;
	if (bytes > SIZE_MAX - sizeof(struct world_block))
		return NULL;
	struct world_block *b = calloc(1, sizeof *b + bytes);
	if (!b)
		return NULL;
	mem_fresh(b + 1, bytes);
	struct world_proc *wp = world_self();
	b->owner = wp;
	b->what = what;
	b->bytes = bytes;
	b->magic = WORLD_BLOCK_MAGIC;
	world_lock(&wp->lock);
	b->next = wp->blocks.next;
	b->prev = &wp->blocks;
	b->next->prev = b;
	wp->blocks.next = b;
	world_unlock(&wp->lock);
	return b + 1;
}

/* Frees a block. Any process may free it: an event step of a double frees blocks of its process. */
void world_free(void *p)
{
	struct world_block *b = (struct world_block *)p - 1;
	ASSERT(b->magic == WORLD_BLOCK_MAGIC); /* not from os_alloc, or already freed */
	struct world_proc *wp = b->owner;
	world_lock(&wp->lock);
	b->next->prev = b->prev;
	b->prev->next = b->next;
	world_unlock(&wp->lock);
	b->magic = 0;
	mem_fresh(p, b->bytes);
	free(b);
}

bool world_describe(const void *at, char *out, size_t bytes)
{
	for (uint32_t id = 0; world && id <= world->proc_count; id++) {
		const struct world_proc *wp =
			id < world->proc_count ? world->proc[id] : world->no_proc;

		if (!wp)
			continue;
		for (const struct world_block *b = wp->blocks.next; b != &wp->blocks; b = b->next) {
			uint64_t off = (uintptr_t)at - (uintptr_t)(b + 1);

			if (off >= b->bytes)
				continue;
			snprintf(out, bytes,
				 "%llu bytes into \"%s\", %zu bytes of host memory of %s",
				 (unsigned long long)off, b->what, b->bytes, wp->name);
			return true;
		}
	}
	return false;
}

uint64_t world_blocks_free(struct world_proc *wp, const char **first)
{
	uint64_t n = 0;
	while (wp->blocks.next != &wp->blocks) {
		struct world_block *b = wp->blocks.next;
		*first = b->what; /* newest first: the last one stored is the oldest */
		wp->blocks.next = b->next;
		b->magic = 0;
		mem_fresh(b + 1, b->bytes);
		free(b);
		n++;
	}
	wp->blocks.prev = &wp->blocks;
	return n;
}
