/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the environment that a world sets for its processes, and the real variables that the
 * doubles read. The checks run when the world is created. An invalid value is then one error at the
 * start, instead of whatever each reader makes of it. Also reads the topology file that the user
 * names, which is in the real file system.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/param_row.h"
#include "core/os/os_conf.h"
#include "core/os/os_ops.h"
#include "sim/world/world_internal.h"

static bool (*env_fits[PARAM_COUNT + PARAM_DOUBLES_MAX])(const char *value);

void world_env_on_check(int p, bool (*fits)(const char *value))
{
	ASSERT(!env_fits[p]);
	env_fits[p] = fits;
}

static int env_check_value(int p, const char *value)
{
	char expected[PARAM_EXPECTED_BYTES];

	bool allowed = param_allows(p, value, expected, sizeof expected);

	if (allowed && (!env_fits[p] || env_fits[p](value)))
		return 0;
	if (allowed)
		param_expected(p, expected, sizeof expected);
	fprintf(stderr, "doppel: %s is '%.200s', expected %s\n", param_name(p), value, expected);
	return EINVAL;
}

int world_env_check(const char *assignment)
{
	const char *equals = strchr(assignment, '=');
	if (!equals || equals == assignment) {
		fprintf(stderr, "doppel: the environment has '%.200s', expected NAME=VALUE\n",
			assignment);
		return EINVAL;
	}
	int p = param_find(assignment, (size_t)(equals - assignment));
	return p < 0 ? 0 : env_check_value(p, equals + 1);
}

int world_env_check_real(void)
{
	int rc = 0;
	for (int p = 0; p < param_count() && !rc; p++) {
		const char *value = os_real_ops.env(param_name(p));
		if (value && !strncmp(param_name(p), "DOPPEL_", 7))
			rc = env_check_value(p, value);
	}
	return rc;
}

void world_env_warn_unknown(const char *const *env)
{
	for (; env && *env; env++) {
		size_t n = strcspn(*env, "=");
		if (!strncmp(*env, "DOPPEL_", 7) && param_find(*env, n) < 0)
			fprintf(stderr,
				"doppel: warning: %.*s is not a variable of Doppel; nearest: %s\n",
				(int)MIN_OF(n, (size_t)80), *env, param_nearest(*env, n));
	}
}

/* Returns the value of a configured variable; its last assignment counts. */
static const char *env_configured(const struct world_config *c, const char *name)
{
	const char *value = NULL;
	size_t n = strlen(name);
	for (int i = 0; c->env && c->env[i]; i++)
		if (!strncmp(c->env[i], name, n) && c->env[i][n] == '=')
			value = c->env[i] + n + 1;
	return value;
}

/* Variables that name a file which every host reads. Processes see the file at the same path. */
enum { ENV_TOPO_FILE, ENV_GRAPH_FILE, ENV_CONF_FILE, ENV_ETC_CONF, ENV_FILES };
static const char *const env_files[ENV_FILES] = {
	[ENV_TOPO_FILE] = "NCCL_TOPO_FILE",
	[ENV_GRAPH_FILE] = "NCCL_GRAPH_FILE",
	[ENV_CONF_FILE] = "NCCL_CONF_FILE",
	[ENV_ETC_CONF] = "DOPPEL_ETC_CONF",
};

static void env_file_read(struct world_file *file, const char *path)
{
	file->path = path;
	file->rc = os_real_ops.file_read(path, &file->data, &file->bytes);
	if (file->rc)
		file->data = NULL;
}

static int env_file_start(struct world_file *file, const char *name)
{
	const char *path = env_configured(&world->config, name);

	if (!path || !*path || strcmp(path, WORLD_TOPO_PATH) == 0)
		return 0;
	env_file_read(file, path);
	if (file->rc)
		fprintf(stderr, "doppel: %s is '%s', which cannot be read: %s\n", name, path,
			strerror(file->rc));
	return file->rc;
}

/* Reads the configuration files of the real machine that no variable names. They may be absent. */
static int env_conf_start(void)
{
	const char *home = os_real_ops.env("HOME");

	if (!world->file[ENV_ETC_CONF].path)
		env_file_read(&world->file[ENV_FILES], CONF_ETC_PATH);
	if (world->file[ENV_CONF_FILE].path || !home || !*home)
		return 0;
	if (asprintf(&world->user_conf, "%s%s", home, CONF_USER_NAME) < 0) {
		world->user_conf = NULL;
		return ENOMEM;
	}
	env_file_read(&world->file[ENV_FILES + 1], world->user_conf);
	return 0;
}
DOPPEL_STATIC_CHECK((int)ENV_FILES + 2 == WORLD_FILES, "and /etc/nccl.conf and ~/.nccl.conf");

int world_files_start(void)
{
	int rc = 0;

	for (int i = 0; i < ENV_FILES && !rc; i++)
		rc = env_file_start(&world->file[i], env_files[i]);
	return !rc && world->config.real_conf ? env_conf_start() : rc;
}

const struct world_file *world_files_find(const char *path)
{
	for (int i = 0; i < WORLD_FILES; i++)
		if (world->file[i].path && strcmp(path, world->file[i].path) == 0)
			return &world->file[i];
	return NULL;
}

void world_files_free(void)
{
	for (int i = 0; i < WORLD_FILES; i++)
		if (world->file[i].data)
			os_real_ops.free(world->file[i].data);
	free(world->user_conf);
}
