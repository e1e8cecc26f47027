/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plugins of the lab's own: a run has each kind, uses it, passes, and gives the same hash again. A
 * call of a plugin that is wrong is the run's failure. This program makes the wrong calls in place
 * of the stack.
 */
#include <check.h>
#include <string.h>

#include "core/profiler/profiler_abi.h"
#include "core/transport/collnet/collnet_abi.h"
#include "core/transport/net_plugin/net_abi.h"
#include "core/tune/tuner_abi.h"
#include "sim/lab/check/collective.h"
#include "sim/lab/run/runner.h"
#include "tests/suite.h"

#define PLUGINS_SEEDS  12
#define PLUGINS_SCENES 48
#define PLUGINS_DIFFER (1u << 4) /* the scene "calls that differ" */

extern const struct tuner_v6 ncclTunerPlugin_v6;
extern const struct profiler_table ncclProfiler_v7;
extern const struct net_abi ncclNetPlugin_v12;
extern const struct collnet_abi ncclCollNetPlugin_v12;

typedef void wrong_fn(int32_t rank, ncclComm_t comm, void *arg);

static void plugins_config(struct lab_config *c, uint32_t plugins, uint64_t seed)
{
	static const char *const env[] = {"NCCL_DEBUG=NONE", "NCCL_MAX_NCHANNELS=2",
					  "NCCL_ALGO=allreduce:CollNetChain,Ring", NULL};

	lab_config_default(c);
	c->collective = lab_collective_find("all_reduce", strlen("all_reduce"));
	c->hosts = 2;
	c->gpus = 2;
	c->bytes_min = 4096;
	c->bytes_max = 64 << 10;
	c->factor = 4;
	c->env = env;
	c->sim.seed = seed;
	/* accesses of the plugins to memory of GPUs, which need flushes there, are ordered */
	c->sim.races = seed % 2;
	c->machine = seed % 2 ? "a100-4nic" : "h100-8nic";
	c->plugins = plugins;
}

/* Runs, and returns whether that passed. */
static bool plugins_run(uint32_t plugins, uint64_t seed, wrong_fn *wrong, struct lab_result *r)
{
	struct lab_config c;

	plugins_config(&c, plugins, seed);
	c.on_ready = wrong;
	ck_assert_int_eq(lab_run(&c, r), 0);
	return lab_outcome(&c, r) == SIM_PASS;
}

START_TEST(a_run_with_each_plugin_passes_and_repeats)
{
	static const uint32_t lists[] = {LAB_PLUGIN_TUNER, LAB_PLUGIN_PROFILER, LAB_PLUGIN_NET,
					 LAB_PLUGIN_COLLNET | LAB_PLUGIN_NET,
					 LAB_PLUGIN_COLLNET | LAB_PLUGIN_NET | LAB_PLUGIN_TUNER |
						 LAB_PLUGIN_PROFILER};
	uint32_t used = 0;

	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		for (uint64_t seed = 1; seed <= PLUGINS_SEEDS; seed++) {
			struct lab_result r, again;

			ck_assert(plugins_run(lists[i], seed, NULL, &r));
			ck_assert(plugins_run(lists[i], seed, NULL, &again));
			ck_assert_uint_eq(r.hash, again.hash);
			ck_assert_uint_eq(r.plugins & ~(lists[i] | LAB_PLUGIN_NET), 0);
			used |= r.plugins;
		}
	ck_assert_uint_eq(used, (1u << LAB_PLUGINS) - 1);
}
END_TEST

START_TEST(a_run_without_plugins_loads_none)
{
	struct lab_result r;

	ck_assert(plugins_run(0, 1, NULL, &r));
	ck_assert_uint_eq(r.plugins, 0);
}
END_TEST

/* A failing call is an error of the run, which ends. Each function is called in some seed. */
START_TEST(a_call_of_a_plugin_that_fails_is_an_error_of_a_rank)
{
	for (uint32_t fails = 1; fails <= LAB_PLUGIN_FAILS; fails++) {
		uint32_t errors = 0;

		for (uint64_t seed = 1; seed <= PLUGINS_SEEDS; seed++) {
			struct lab_config c;
			struct lab_result r;

			plugins_config(&c, LAB_PLUGIN_NET | LAB_PLUGIN_TUNER, seed);
			c.plugin_fails = fails;
			c.errors_allowed = true;
			ck_assert_int_eq(lab_run(&c, &r), 0);
			ck_assert_msg(lab_outcome(&c, &r) == SIM_PASS, "%s, seed %d: %s",
				      lab_plugin_fails[fails], (int)seed, r.failure.message);
			errors += r.error != ncclSuccess;
		}
		ck_assert_msg(errors, "%s: no error", lab_plugin_fails[fails]);
	}
}
END_TEST

/* ---- wrong calls ---------------------------------------------------------------------------- */

static void wrong_log(int level, unsigned long flags, const char *file, int line,
		      const char *format, ...)
{
	(void)level, (void)flags, (void)file, (void)line, (void)format;
}

/* A tuner that is not finalized. */
static void wrong_tuner(int32_t rank, ncclComm_t comm, void *arg)
{
	struct tuner_domains domains = {1, 2, 2};
	struct tuner_constants constants = {.kernel_us = {{0}}};
	void *context = NULL;

	(void)comm, (void)arg;
	if (!rank)
		ck_assert_int_eq(ncclTunerPlugin_v6.v5.init(&context, 1, 2, 1, wrong_log, &domains,
							    &constants),
				 ncclSuccess);
}

/* An event that is stopped twice. */
static void wrong_event(int32_t rank, ncclComm_t comm, void *arg)
{
	struct profiler_descr d = {.type = PROFILER_PROXY_CTRL, .rank = 7};
	void *context = NULL, *event = NULL;
	int mask = 0;

	(void)comm, (void)arg;
	if (rank)
		return;
	(void)ncclProfiler_v7.init.v5(&context, 1, &mask, "wrong", 1, 8, 7, wrong_log);
	(void)ncclProfiler_v7.start(context, &event, &d);
	for (int i = 0; event && i < 2; i++)
		(void)ncclProfiler_v7.stop(event);
	(void)ncclProfiler_v7.finalize(context);
}

/* A listener that is not closed. */
static void wrong_listener(int32_t rank, ncclComm_t comm, void *arg)
{
	uint64_t handle[NET_ABI_HANDLE_BYTES / 8];
	void *listener = NULL;

	(void)comm;
	if (!rank)
		ck_assert_int_eq(ncclNetPlugin_v12.listen.v11(&handle, 0, handle, &listener),
				 ncclSuccess);
	(void)arg;
}

/* A group whose members are not closed. */
static void wrong_group(int32_t rank, ncclComm_t comm, void *arg)
{
	uint64_t handle[2][NET_ABI_HANDLE_BYTES / 8];
	void *handles[2] = {handle[0], handle[1]}, *listener[2] = {NULL, NULL}, *coll = NULL;
	const struct collnet_abi *a = &ncclCollNetPlugin_v12;

	(void)comm, (void)arg;
	if (rank)
		return;
	for (int i = 0; i < 2; i++)
		(void)a->listen.v11(&handle, 0, handles[i], &listener[i]);
	for (int calls = 0; calls < 400 && !coll; calls++)
		(void)a->connect(handles, 2, calls % 2, listener[calls % 2], &coll);
	for (int i = 0; i < 2; i++)
		(void)a->close_listen(listener[i]);
	ck_assert_ptr_nonnull(coll);
}

START_TEST(a_wrong_call_of_a_plugin_is_found)
{
	static const struct {
		uint32_t plugins;
		wrong_fn *wrong;
		const char *text;
	} cases[] = {
		{LAB_PLUGIN_TUNER, wrong_tuner, "are not finalized"},
		{LAB_PLUGIN_PROFILER, wrong_event, "a stop of what is not running"},
		{LAB_PLUGIN_NET, wrong_listener, "listeners are not closed"},
		{LAB_PLUGIN_COLLNET, wrong_group, "that are not closed"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct lab_result r;

		ck_assert(!plugins_run(cases[i].plugins, 3, cases[i].wrong, &r));
		ck_assert(r.failed);
		ck_assert_str_eq(r.failure.kind, "plugin");
		ck_assert_ptr_nonnull(strstr(r.failure.message, cases[i].text));
	}
}
END_TEST

/* A network that reduces finds that calls of ranks differ: an error of its own. */
START_TEST(calls_that_differ_are_no_scene_with_a_network_that_reduces)
{
	const char *env[] = {"NCCL_MAX_NCHANNELS=1", "NCCL_DEBUG=NONE", "DOPPEL_TIMEOUT_MS=1000",
			     "NCCL_ALGO=allreduce:CollNetChain,Ring", NULL};

	for (uint32_t collnet = 0; collnet < 2; collnet++) {
		struct lab_config c;
		struct lab_result r;

		plugins_config(&c, collnet ? LAB_PLUGIN_COLLNET : 0, 3);
		c.gpus = 1;
		c.env = env;
		c.scenes = PLUGINS_SCENES;
		c.uncompared = true;
		ck_assert_int_eq(lab_run(&c, &r), 0);
		ck_assert_int_eq(lab_outcome(&c, &r), SIM_PASS);
		ck_assert_int_eq(!!(r.scenes & PLUGINS_DIFFER), !collnet);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plugins");
	TCase *t = tcase_create("plugins");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, a_run_with_each_plugin_passes_and_repeats);
	tcase_add_test(t, a_run_without_plugins_loads_none);
	tcase_add_test(t, a_call_of_a_plugin_that_fails_is_an_error_of_a_rank);
	tcase_add_test(t, a_wrong_call_of_a_plugin_is_found);
	tcase_add_test(t, calls_that_differ_are_no_scene_with_a_network_that_reduces);
	suite_add_tcase(s, t);
	return suite_run(s);
}
