/* SPDX-License-Identifier: BSD-3-Clause */
/* Life of the world: configuration, hosts, leaks, and the table that implements os.h's world
 * half. */
#include "sim/world/world.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world/machine/files.h"
#include "sim/world/world_internal.h"

#define WORLD_MAX_HOSTS         4096
#define WORLD_FABRIC_LATENCY_NS 1500

struct world *world;

/* Hooks are registered once, at load, and outlive worlds. */
static void (*world_destroy_hook[WORLD_HOOKS])(void);
static uint32_t world_destroy_hooks;
static void (*world_use_hook)(const struct os_use *use);

static const struct os_world_ops world_ops = {
	.name = "world",
	.base_state = world_base_state,
	.alloc = world_alloc,
	.free = world_free,
	.memo = world_memo,
	.env = world_env_get,
	.env_at = world_env_at,
	.host_name = world_host_name,
	.boot_id = world_boot_id,
	.shm_device = world_shm_device,
	.descriptors_raise = world_descriptors_raise,
	.random = world_random,
	.file_read = world_file_read,
	.file_write = world_file_write,
	.dir_list = world_dir_list,
	.real_path = world_real_path,
	.log_line = world_log_line,
	.code_name = sim_call_site,
	.agree = world_agree,
	.agree_member = world_agree_member,
	.agree_order = world_agree_order,
	.use = world_use,
	.interface = world_interface,
	.resolve = world_resolve,
	.listen = world_listen,
	.connect = world_connect,
	.connected = world_connected,
	.accept = world_accept,
	.send = world_send,
	.recv = world_recv,
	.close = world_close,
	.socket_object = world_socket_object,
	.socket_changed = world_socket_changed,
	.shm_create = world_shm_create,
	.shm_open = world_shm_open,
	.shm_unlink = world_shm_unlink,
	.shm_unmap = world_shm_unmap,
	.mailbox_open = world_mailbox_open,
	.mailbox_close = world_mailbox_close,
	.mailbox_post = world_mailbox_post,
	.mailbox_take = world_mailbox_take,
	.mailbox_object = world_mailbox_object,
};

/* Returns the operations of a world that does not compare the ranks' calls. */
static const struct os_world_ops *world_uncompared(void)
{
	static struct os_world_ops ops;

	ops = world_ops;
	ops.agree = NULL;
	ops.agree_member = NULL;
	ops.agree_order = NULL;
	return &ops;
}

/* ---- creation -------------------------------------------------------------------------------- */

/* Determines the warp width. 0: from DOPPEL_WARP in the configured environment or the real one,
 * else 1. */
static int world_warp_width(const struct world_config *c, uint32_t *width)
{
	const char *text = NULL;
	static const char name[] = "DOPPEL_WARP=";
	*width = c->warp_width ? c->warp_width : 1;
	for (int i = 0; c->env && c->env[i]; i++)
		if (strncmp(c->env[i], name, sizeof name - 1) == 0)
			text = c->env[i] + sizeof name - 1;
	if (!text)
		text = os_real_ops.env("DOPPEL_WARP");
	if (!c->warp_width && text && *text)
		*width = strcmp(text, "32") == 0 ? 32 : strcmp(text, "1") == 0 ? 1 : 0;
	if (*width == 1 || *width == 32)
		return 0;
	if (c->warp_width)
		fprintf(stderr, "world: warp width is %u, expected 1 or 32\n", c->warp_width);
	else
		fprintf(stderr, "world: DOPPEL_WARP is \"%s\", expected 1 or 32\n", text);
	return EINVAL;
}

static int world_config_check(const struct world_config *c)
{
	if (c->hosts == 0 || c->hosts > WORLD_MAX_HOSTS) {
		fprintf(stderr, "world: %u hosts, expected 1 to %u\n", c->hosts, WORLD_MAX_HOSTS);
		return EINVAL;
	}
	if (c->real && c->hosts != 1 && !c->share.processes) {
		fprintf(stderr, "world: %u hosts in a real process, expected 1\n", c->hosts);
		return EINVAL;
	}
	if (world_share_check(c))
		return EINVAL;
	if (!c->machine && !c->machines) {
		fprintf(stderr,
			"world: no machine: none configured, and DOPPEL_MACHINE is not set\n");
		return EINVAL;
	}
	int rc = world_env_check_real();
	for (int i = 0; c->env && c->env[i] && !rc; i++)
		rc = world_env_check(c->env[i]);
	return rc;
}

/* Loads each machine once. */
static int world_machine_get(const char *name, const char *const *names, uint32_t host,
			     const struct world_machine **out)
{
	for (uint32_t h = 0; h < host; h++) {
		if (!names || strcmp(names[h], name) == 0) {
			*out = world->host[h].machine;
			return 0;
		}
	}
	struct world_machine *m;
	int rc = world_machine_load(name, &m);
	if (rc)
		return rc;
	world->machine[world->machine_count++] = m;
	*out = m;
	if (m->hosts <= 1)
		return 0;
	fprintf(stderr,
		"%s: has %d hosts of one NVLink domain (host_hash of <cpu>), expected one\n",
		m->path, m->hosts);
	return EINVAL;
}

static int world_hosts_start(void)
{
	const struct world_config *c = &world->config;
	world->host = calloc(c->hosts, sizeof *world->host);
	world->machine = calloc(c->hosts, sizeof(struct world_machine *));
	world->sys = calloc(c->hosts, sizeof(struct files *));
	if (!world->host || !world->machine || !world->sys)
		return ENOMEM;
	for (uint32_t h = 0; h < c->hosts; h++) {
		const char *name = c->machines ? c->machines[h] : c->machine;
		int rc = world_machine_get(name, c->machines, h, &world->host[h].machine);
		if (rc)
			return rc;
		world->host[h].next_tcp_port = 32768;
	}
	return 0;
}

/* Adds the configured variables to the environment of this process. Must precede every read of a
 * parameter. */
static int world_env_real(const struct world_config *c)
{
	int rc = 0;
	for (int i = 0; rc == 0 && c->env && c->env[i]; i++) {
		const char *equals = strchr(c->env[i], '=');
		char *name = strndup(c->env[i], (size_t)(equals - c->env[i]));
		rc = !name || setenv(name, equals + 1, 1) ? ENOMEM : 0;
		free(name);
	}
	return rc;
}

static int world_topo_file_real(void)
{
	char path[PATH_MAX];
	const char *at = world->host[world->config.share.host].machine->path;
	if (!realpath(at, path))
		return errno;
	return setenv("NCCL_TOPO_FILE", path, 0) ? ENOMEM : 0;
}

static void world_free_all(void)
{
	world_fabric_free();
	world_agreements_free();
	memo_table_clear(&world->memo);
	world_arena_free();
	world_procs_free();
	world_files_free();
	for (uint32_t i = 0; i < world->machine_count; i++) {
		files_free(world->sys[i]);
		world_machine_free(world->machine[i]);
	}
	free(world->sys);
	free(world->machine);
	free(world->host);
	free(world);
	world = NULL;
}

static int world_start(const struct world_config *config)
{
	struct world_config c = *config;
	if (!c.machine && !c.machines)
		c.machine = os_real_ops.env("DOPPEL_MACHINE");
	int rc = world_config_check(&c);
	if (!rc && c.real)
		rc = world_env_real(&c);
	if (!rc)
		rc = world_share_join(&c);
	if (rc)
		return rc;
	world = calloc(1, sizeof *world);
	if (!world)
		return ENOMEM;
	world->config = c;
	world->locking = sim_engine_kind() == SIM_ENGINE_THREADS;
	if (!world->config.fabric_latency_ns)
		world->config.fabric_latency_ns = WORLD_FABRIC_LATENCY_NS;
	rc = world_warp_width(config, &world->config.warp_width);
	if (rc == 0)
		rc = world_hosts_start();
	if (rc == 0)
		rc = c.real ? world_topo_file_real() : world_files_start();
	if (rc == 0)
		rc = world_arena_start();
	if (rc == 0)
		rc = world_procs_start();
	if (rc == 0)
		rc = world_fabric_start();
	if (rc) {
		world_free_all();
		return rc;
	}
	sim_set_killer(world_proc_kill);
	mem_on_describe(world_describe);
	if (!c.real)
		os_install(NULL, c.uncompared ? world_uncompared() : &world_ops);
	rc = world_share_start();
	if (rc) {
		world_share_end();
		os_install(NULL, &os_real_ops);
		sim_set_killer(NULL);
		world_free_all();
	}
	return rc;
}

int world_create(const struct world_config *config)
{
	ASSERT(!world && config);
	int rc = world_start(config);
	if (rc == ENOMEM)
		fprintf(stderr,
			"world: no memory for %u hosts: %s; expected %llu MiB of address space for "
			"the arena, and more for GPU memory (ulimit -v)\n",
			config->hosts, strerror(rc), (unsigned long long)WORLD_ARENA_BYTES >> 20);
	return rc;
}

void world_forget(void)
{
	os_install(NULL, &os_real_ops);
	sim_set_killer(NULL);
	world = NULL;
	world_arena_base = NULL;
}

const struct world_config *world_config(void)
{
	return world ? &world->config : NULL;
}

uint32_t world_host_count(void)
{
	return world->config.hosts;
}

const struct world_machine *world_host_machine(uint32_t host)
{
	ASSERT(host < world->config.hosts);
	return world->host[host].machine;
}

/* ---- leaks and the end ---------------------------------------------------------------------- */

void world_on_destroy(void (*hook)(void))
{
	ASSERT(world_destroy_hooks < WORLD_HOOKS);
	world_destroy_hook[world_destroy_hooks++] = hook;
}

void world_on_use(void (*hook)(const struct os_use *use))
{
	ASSERT(!world_use_hook);
	world_use_hook = hook;
}

void world_use(const struct os_use *use)
{
	sim_faults_operation(use->number);
	if (world_use_hook)
		world_use_hook(use);
}

void world_leak(const char *kind, uint64_t count, const char *first)
{
	if (!count)
		return;
	world_lock(&world->lock);
	struct world_leak **at = &world->leaks;
	while (*at && strcmp((*at)->kind, kind) < 0)
		at = &(*at)->next;
	if (!*at || strcmp((*at)->kind, kind) != 0) {
		struct world_leak *l = calloc(1, sizeof *l);
		ASSERT(l);
		snprintf(l->kind, sizeof l->kind, "%s", kind);
		snprintf(l->first, sizeof l->first, "%s", first ? first : "");
		l->next = *at;
		*at = l;
	}
	(*at)->count += count;
	world_unlock(&world->lock);
}

static uint64_t world_leaks_print(void)
{
	uint64_t sum = 0;
	while (world->leaks) {
		struct world_leak *l = world->leaks;
		world->leaks = l->next;
		sum += l->count;
		fprintf(stderr, "leak: %s %llu (first: %s)\n", l->kind,
			(unsigned long long)l->count, l->first);
		free(l);
	}
	return sum;
}

uint64_t world_destroy(void)
{
	ASSERT(world);
	world_share_leave();
	world_procs_end();
	for (uint32_t i = 0; i < world_destroy_hooks; i++)
		world_destroy_hook[i]();
	world_sockets_free();
	world_segments_free();
	world_share_end();
	if (world->config.real) {
		const char *first;
		uint64_t n = os_real_alloc_count(&first);
		world_leak("memory", n, first);
	}
	uint64_t leaks = world_leaks_print();
	os_install(NULL, &os_real_ops);
	sim_set_killer(NULL);
	world_free_all();
	return leaks;
}
