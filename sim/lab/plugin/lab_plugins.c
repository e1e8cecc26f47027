/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/plugin/lab_plugins.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/engine/order/order.h"
#include "sim/lab/plugin/collnet_plugin.h"
#include "sim/lab/plugin/net_plugin.h"
#include "sim/lab/plugin/profiler_plugin.h"
#include "sim/lab/run/runner_internal.h"
#include "sim/world/world.h"

const char *const lab_plugin_names[] = {"tuner", "profiler", "net", "collnet", NULL};

/* A word of the plugin and one of its settings; the first function of the network is
 * LAB_PLUGIN_FAILS_TUNER + 1. */
const char *const lab_plugin_fails[] = {"none",       "tuner-init",  "net-init",   "net-devices",
					"net-listen", "net-connect", "net-accept", "net-regmr",
					"net-isend",  "net-irecv",   "net-test",   NULL};
DOPPEL_STATIC_CHECK(ARRAY_LEN(lab_plugin_fails) == LAB_PLUGIN_FAILS + 2, "all functions");

static struct lab_run *plugin_run; /* NULL: no run has plugins now */

/* ---- settings -------------------------------------------------------------------------------- */

enum { PLUGIN_SETTINGS = 24, PLUGIN_SETTING_BYTES = 32 };

/* The run's settings, which plug_setting returns. */
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

/* The call that fails: the n-th one of its function. */
static struct {
	int at, calls;
	bool failed;
} plugin_failure;

bool plug_fails(const char *name, const char *what)
{
	if (!plug_setting_is(name, what) ||
	    __atomic_add_fetch(&plugin_failure.calls, 1, __ATOMIC_RELAXED) != plugin_failure.at)
		return false;
	plugin_failure.failed = true;
	return true;
}

/* Functions that a rank calls once, or for each connection, fail early. */
static void plugin_draw_failure(const struct lab_config *c)
{
	const char *function = lab_plugin_fails[c->plugin_fails];
	struct sim_rng rng;

	memset(&plugin_failure, 0, sizeof plugin_failure);
	if (!c->plugin_fails)
		return;
	sim_rng_seed(&rng, c->sim.seed, "plugin.failure");
	plugin_failure.at = 1 + (int)sim_rng_below(&rng, 1 + sim_rng_below(&rng, 40));
	if (c->plugin_fails == LAB_PLUGIN_FAILS_TUNER)
		plugin_set("TUNER_FAULT", "%s", strchr(function, '-') + 1);
	else
		plugin_set("PLUG_FAULT", "%s", strchr(function, '-') + 1);
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

/* The number in a variable that all processes have; 0: none. */
static int plugin_limit(const struct lab_config *c, const char *name)
{
	size_t n = strlen(name);
	int limit = 0;

	for (const char *const *e = c->env; e && *e; e++)
		if (!strncmp(*e, name, n) && (*e)[n] == '=')
			limit = (int)strtol(*e + n + 1, NULL, 10);
	return c->env_odd && !strncmp(c->env_odd, name, n) ? 0 : limit;
}

/* The channels that calls may have, which their events show. Messages to other ranks go over the
 * network where hosts have one rank; no limit is for a rank's messages to itself. */
static void plugin_limit_channels(const struct lab_config *c)
{
	int most = plugin_limit(c, "NCCL_MAX_NCHANNELS");
	int pair = plugin_limit(c, "NCCL_MAX_P2P_NCHANNELS");
	int net = plugin_limit(c, "NCCL_NCHANNELS_PER_NET_PEER");

	if (net > 0 && c->gpus == 1 && !c->host_gpus_n)
		pair = pair > 0 ? MIN_OF(pair, net) : net;
	if (most > 0)
		plugin_set("PROF_CHANNELS", "%d", most);
	if (pair > 0)
		plugin_set("PROF_P2P_CHANNELS", "%d", pair);
}

/* Devices are functions of the machine's NICs, or have no place in it. */
static void plugin_draw_net(uint64_t seed)
{
	static const int pointers[] = {NET_ABI_HOST, NET_ABI_HOST | NET_ABI_CUDA};
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "plugin.net");
	plugin_set("PLUG_DEVICES", "%d", 1 + (int)sim_rng_below(&rng, 4));
	plugin_set("PLUG_SAME_CARD", "%d", (int)sim_rng_below(&rng, 2));
	plugin_set("PLUG_RECVS", "%d", 1 + (int)sim_rng_below(&rng, PLUG_MOST_RECVS));
	plugin_set("PLUG_LATE", "%d", (int)sim_rng_below(&rng, 5));
	plugin_set("PLUG_POINTERS", "%d", pointers[sim_rng_below(&rng, 3) != 0]);
	plugin_set("PLUG_DMABUF", "%d", (int)sim_rng_below(&rng, 2));
	plugin_set("PLUG_FLUSH", "%d", (int)sim_rng_below(&rng, 2));
	plugin_set("PLUG_PLACES", "%d", sim_rng_below(&rng, 4) != 0);
}

/* Sums of floats without rules for infinities and NaNs do not go with any numbers. Half of the
 * networks only sum, as those of some switches do. */
static void plugin_draw_collnet(uint64_t seed, bool any_numbers)
{
	static const char *const odd[] = {"late", "slow"};
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "plugin.collnet");
	uint64_t which = sim_rng_below(&rng, 4), polls = sim_rng_below(&rng, 8);
	bool integers = sim_rng_below(&rng, 6) == 0, sums = sim_rng_below(&rng, 2);

	plugin_set("COLL_POLLS", "%u", (unsigned)polls);
	if (which < ARRAY_LEN(odd))
		plugin_set("COLL_FAULT", "%s", odd[which]);
	if (integers || any_numbers)
		plugin_set("COLL_TYPES", "int");
	if (sums)
		plugin_set("COLL_OPS", "sum");
}

const char *plug_pci_path(int dev)
{
	static _Thread_local char path[PLUG_MOST_DEVICES][48];
	const struct world_machine *m = world_host_machine(os_proc()->host);
	int at = dev % PLUG_MOST_DEVICES;

	if (!plug_number("PLUG_PLACES", 0) || !m->nic_count)
		return NULL;
	snprintf(path[at], sizeof path[at], "/sys/devices/%s", m->nic[dev % m->nic_count].bus_id);
	return path[at];
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Variables of a process for each kind. */
static const struct plugin_env {
	uint32_t plugin;
	const char *name, *value;
} plugin_envs[] = {
	{LAB_PLUGIN_TUNER, "NCCL_TUNER_PLUGIN", "STATIC_PLUGIN"},
	{LAB_PLUGIN_PROFILER, "NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN"},
	{LAB_PLUGIN_NET, "NCCL_NET_PLUGIN", "STATIC_PLUGIN"},
	{LAB_PLUGIN_COLLNET, "NCCL_NET_PLUGIN", "STATIC_PLUGIN"},
	{LAB_PLUGIN_COLLNET, "NCCL_COLLNET_ENABLE", "1"},
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
	plugin_draw_failure(run->config);
	plugin_draw_profiler(run->config->sim.seed);
	plugin_limit_channels(run->config);
	plugin_draw_net(run->config->sim.seed);
	plugin_draw_collnet(run->config->sim.seed, run->config->any_numbers);
	tuner_plugin_begin();
	prof_reset();
	plug_tables_reset();
}

/* All that began has ended, and what had other rules than the plugin knows was reported. */
static bool plugin_profiler_end(bool passed)
{
	const struct prof_counts *c = &prof_counts;
	const bool used = c->inits > 0;

	for (int i = 0; i < PROF_KINDS && passed; i++)
		if (c->started[i] != c->stopped[i])
			plug_wrong("profiler: %d events of kind %s have not ended",
				   c->started[i] - c->stopped[i], prof_kinds[i]);
	if (passed && c->inits != c->finals)
		plug_wrong("profiler: %d of %d communicators are not finalized",
			   c->inits - c->finals, c->inits);
	prof_reset();
	return used;
}

uint32_t lab_plugins_end(struct lab_run *run, bool passed)
{
	uint32_t used = 0;

	if (!run->config->plugins)
		return 0;
	used |= tuner_plugin_end(passed) ? LAB_PLUGIN_TUNER : 0;
	used |= plugin_profiler_end(passed) ? LAB_PLUGIN_PROFILER : 0;
	plug_gpu_end(passed);
	used |= plug_net_end(passed) ? LAB_PLUGIN_NET : 0;
	coll_memory_end(passed);
	used |= coll_end(passed) ? LAB_PLUGIN_COLLNET : 0;
	if (passed && plugin_failure.failed && run->error == ncclSuccess)
		plug_wrong("%s has failed, and no rank has an error",
			   lab_plugin_fails[run->config->plugin_fails]);
	if (passed && !plugin_failure.failed && run->error && !run->armed && !run->config->refuses)
		plug_wrong("rank %d has an error, and no call of a plugin has failed",
			   run->error_rank);
	plugin_run = NULL;
	return used;
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
