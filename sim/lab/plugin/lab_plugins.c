/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/plugin/lab_plugins.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/engine/order/order.h"
#include "sim/lab/plugin/plugin_host.h"
#include "sim/lab/plugin/profiler_plugin.h"
#include "sim/lab/run/runner_internal.h"
#include "sim/world/world.h"

const char *const lab_plugin_names[] = {"tuner", "profiler", NULL};

static struct lab_run *plugin_run; /* NULL: no run has plugins now */

/* ---- settings -------------------------------------------------------------------------------- */

enum { PLUGIN_SETTINGS = 16, PLUGIN_SETTING_BYTES = 32 };

/* Those of the run, which plug_setting returns. */
static struct plugin_setting {
	const char *name;
	char value[PLUGIN_SETTING_BYTES];
} plugin_settings[PLUGIN_SETTINGS];
static size_t plugin_settings_n;

static void plugin_set(const char *name, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void plugin_set(const char *name, const char *format, ...)
{
	struct plugin_setting *s = &plugin_settings[plugin_settings_n++];
	va_list args;

	ASSERT(plugin_settings_n <= PLUGIN_SETTINGS);
	s->name = name;
	va_start(args, format);
	vsnprintf(s->value, sizeof s->value, format, args);
	va_end(args);
}

const char *plug_setting(const char *name)
{
	for (size_t i = 0; i < plugin_settings_n; i++)
		if (!strcmp(plugin_settings[i].name, name))
			return plugin_settings[i].value;
	return NULL;
}

/* Half of the runs have all kinds of events; of the others half change the kinds later. One in
 * eight has starts that fail. */
static void plugin_draw_profiler(uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "plugin.profiler");
	bool all = sim_rng_below(&rng, 2), later = sim_rng_below(&rng, 2);
	uint64_t mask = sim_rng_below(&rng, 1 << 16), then = sim_rng_below(&rng, 1 << 16);
	uint64_t after = 1 + sim_rng_below(&rng, 200);
	bool some = sim_rng_below(&rng, 8) == 0;

	if (some)
		plugin_set("PROF_FAULT", "some");
	if (all)
		return;
	plugin_set("PROF_MASK", "0x%x", (unsigned)mask);
	if (!later)
		return;
	plugin_set("PROF_LATER", "0x%x", (unsigned)then);
	plugin_set("PROF_AFTER", "%u", (unsigned)after);
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Variables of a process for each kind. */
static const struct plugin_env {
	uint32_t plugin;
	const char *name, *value;
} plugin_envs[] = {
	{LAB_PLUGIN_TUNER, "NCCL_TUNER_PLUGIN", "STATIC_PLUGIN"},
	{LAB_PLUGIN_PROFILER, "NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN"},
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
	plugin_settings_n = 0;
	plugin_draw_profiler(run->config->sim.seed);
	tuner_plugin_begin();
	prof_reset();
}

/* All that began has ended, and what had other rules than the plugin knows was reported. */
static void plugin_profiler_end(bool passed)
{
	const struct prof_counts *c = &prof_counts;

	for (int i = 0; i < PROF_KINDS && passed; i++)
		if (c->started[i] != c->stopped[i])
			plug_wrong("profiler: %d events of kind %s have not ended",
				   c->started[i] - c->stopped[i], prof_kinds[i]);
	if (passed && c->inits != c->finals)
		plug_wrong("profiler: %d of %d communicators are not finalized",
			   c->inits - c->finals, c->inits);
	prof_reset();
}

void lab_plugins_end(struct lab_run *run, bool passed)
{
	if (!run->config->plugins)
		return;
	tuner_plugin_end(passed);
	plugin_profiler_end(passed);
	plugin_run = NULL;
}

/* ---- what plugins call ----------------------------------------------------------------------- */

uint64_t lab_plugin_seed(void)
{
	return plugin_run ? plugin_run->config->sim.seed : 0;
}

static void plugin_report(const char *text)
{
	fprintf(stderr, "doppel: plugin: %s\n", text);
	sim_note_failure(SIM_ERROR, "plugin", -1, "plugin: %s", text);
	if (plugin_run)
		plugin_run->judged = SIM_ERROR;
}

void plug_wrong(const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	plugin_report(text);
}
