/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/plugin/lab_plugins.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/base/macros.h"
#include "sim/lab/run/runner_internal.h"
#include "sim/world/world.h"

const char *const lab_plugin_names[] = {"tuner", NULL};

static struct lab_run *plugin_run; /* NULL: no run has plugins now */

/* ---- the run --------------------------------------------------------------------------------- */

/* Variables of a process for each kind. */
static const struct plugin_env {
	uint32_t plugin;
	const char *name, *value;
} plugin_envs[] = {
	{LAB_PLUGIN_TUNER, "NCCL_TUNER_PLUGIN", "STATIC_PLUGIN"},
};

int lab_plugins_env(const struct lab_config *c, struct os_proc *proc)
{
	int rc = 0;

	for (size_t i = 0; i < ARRAY_LEN(plugin_envs) && !rc; i++)
		if (c->plugins & plugin_envs[i].plugin)
			rc = world_proc_setenv(proc, plugin_envs[i].name, plugin_envs[i].value);
	return rc;
}

void lab_plugins_begin(struct lab_run *run)
{
	if (!run->config->plugins)
		return;
	plugin_run = run;
	tuner_plugin_begin();
}

void lab_plugins_end(struct lab_run *run, bool passed)
{
	if (!run->config->plugins)
		return;
	tuner_plugin_end(passed);
	plugin_run = NULL;
}

/* ---- what plugins call ----------------------------------------------------------------------- */

uint64_t lab_plugin_seed(void)
{
	return plugin_run ? plugin_run->config->sim.seed : 0;
}

void lab_plugin_wrong(const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(stderr, "doppel: plugin: %s\n", text);
	sim_note_failure(SIM_ERROR, "plugin", -1, "plugin: %s", text);
	if (plugin_run)
		plugin_run->judged = SIM_ERROR;
}
