/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment of one program of a job. Its NCCL_* and DOPPEL_* variables are also set in its
 * process of the world. Replaced values are not freed: pointers from getenv stay valid.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/world/program/job_internal.h"

static size_t env_count(char *const *env)
{
	size_t n = 0;

	while (env[n])
		n++;
	return n;
}

/* Returns the index of NAME=..., or that of the final NULL. */
static size_t env_index(char *const *env, const char *name)
{
	size_t i = 0, bytes = strlen(name);

	while (env[i] && (strncmp(env[i], name, bytes) || env[i][bytes] != '='))
		i++;
	return i;
}

static bool env_is_ours(const char *name)
{
	return !strncmp(name, "NCCL_", 5) || !strncmp(name, "DOPPEL_", 7);
}

/* Sets the variable in the process of the world, too. A variable cannot be removed there: an empty
 * value counts as unset. */
static int env_pass_on(const struct job_process *p, const char *name, const char *assignment)
{
	if (!env_is_ours(name))
		return 0;
	if (!assignment)
		return world_proc_setenv(p->proc, name, "");
	if (world_env_check(assignment))
		return EINVAL;
	return world_proc_setenv(p->proc, name, strchr(assignment, '=') + 1);
}

const char *job_env_get(const struct job_process *p, const char *name)
{
	const char *found = p->env[env_index(p->env, name)];

	return found ? found + strlen(name) + 1 : NULL;
}

static int env_remove(struct job_process *p, const char *name)
{
	size_t i = env_index(p->env, name);

	if (!p->env[i])
		return 0;
	for (; p->env[i]; i++)
		p->env[i] = p->env[i + 1];
	return env_pass_on(p, name, NULL);
}

/* Stores `assignment`, which the environment then owns. */
static int env_store(struct job_process *p, const char *name, char *assignment)
{
	size_t i = env_index(p->env, name);

	if (!p->env[i]) {
		char **more = realloc(p->env, (i + 2) * sizeof *more);

		if (!more) {
			free(assignment);
			return ENOMEM;
		}
		more[i + 1] = NULL;
		p->env = more;
	}
	p->env[i] = assignment;
	return env_pass_on(p, name, assignment);
}

int job_env_set(struct job_process *p, const char *name, const char *value)
{
	size_t bytes = strlen(name) + 1 + (value ? strlen(value) : 0) + 1;
	char *assignment;
	int rc;

	if (!value) {
		rc = env_remove(p, name);
	} else {
		assignment = malloc(bytes);
		if (!assignment)
			return ENOMEM;
		snprintf(assignment, bytes, "%s=%s", name, value);
		rc = env_store(p, name, assignment);
	}
	job_env_publish(p);
	return rc;
}

void job_env_publish(const struct job_process *p)
{
	static const char *const names[] = {"environ", "__environ", "_environ"};

	for (size_t i = 0; p->program.main && i < sizeof names / sizeof names[0]; i++) {
		char ***variable = program_variable(&p->program, names[i]);

		if (variable)
			*variable = p->env;
	}
}

/* Sets the variables that Open MPI and torchrun set. Rank 0 is on host 0, where its root
 * listens. */
static int env_set_launcher(struct job_process *p, uint32_t ranks, uint32_t per_host)
{
	const struct {
		const char *name;
		uint32_t value;
	} all[] = {
		{"OMPI_COMM_WORLD_RANK", p->rank},
		{"OMPI_COMM_WORLD_SIZE", ranks},
		{"OMPI_COMM_WORLD_LOCAL_RANK", p->rank % per_host},
		{"OMPI_COMM_WORLD_LOCAL_SIZE", per_host},
		{"RANK", p->rank},
		{"WORLD_SIZE", ranks},
		{"LOCAL_RANK", p->rank % per_host},
		{"LOCAL_WORLD_SIZE", per_host},
	};
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof all / sizeof all[0]; i++) {
		char value[16];

		snprintf(value, sizeof value, "%u", all[i].value);
		rc = job_env_set(p, all[i].name, value);
	}
	return rc;
}

int job_env_make(struct job_process *p, uint32_t ranks, uint32_t per_host)
{
	size_t n = env_count(environ);

	p->env = calloc(n + 1, sizeof *p->env);
	if (!p->env)
		return ENOMEM;
	for (size_t i = 0; i < n; i++)
		p->env[i] = environ[i];
	return env_set_launcher(p, ranks, per_host);
}
