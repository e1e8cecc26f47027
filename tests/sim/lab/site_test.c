/* SPDX-License-Identifier: BSD-3-Clause */
/* Rare paths and probes are found by the line where they stand, in each library that has some. */
#include <check.h>
#include <cuda_runtime_api.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "core/include/nccl.h"
#include "core/os/os.h"
#include "sim/engine/sim.h"
#include "tests/suite.h"

static void site_main(void *arg)
{
	bool *rare = arg;

	for (int i = 0; i < 1000; i++)
		*rare |= OS_BUGGIFY("zz_test.rare", "of this test");
	OS_PROBE("zz_test.probe", "of this test", arg != NULL);
	OS_PROBE_IDLE("zz_test.never", "of this test", "the condition is false", arg == NULL);
}

static uint32_t site_names(enum os_site_kind kind, const char *name[], uint32_t max)
{
	const struct sim_buggify_stat *rare;
	const struct sim_probe_stat *probe;
	uint32_t n = kind == OS_SITE_RARE ? sim_buggify_stats(&rare) : sim_probe_stats(&probe);

	ck_assert_uint_le(n, max);
	for (uint32_t i = 0; i < n; i++) {
		name[i] = kind == OS_SITE_RARE ? rare[i].name : probe[i].name;
		ck_assert_uint_gt(strlen(kind == OS_SITE_RARE ? rare[i].what : probe[i].what), 10);
	}
	return n;
}

static uint32_t site_count(const char *const name[], uint32_t n, const char *prefix)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++)
		count += strncmp(name[i], prefix, strlen(prefix)) == 0;
	return count;
}

static void site_run(uint64_t seed)
{
	struct sim_config c = {.seed = seed, .strategy = SIM_UNIFORM};
	bool rare = false;

	ck_assert_int_eq(sim_start(&c), 0);
	ck_assert_int_eq(sim_run(site_main, &rare), SIM_PASS);
	sim_stop();
}

START_TEST(each_library_has_its_sites_sorted_by_name)
{
	const char *rare[128], *probe[128];

	/* a call into each library, or the linker leaves it out */
	ck_assert_str_eq(ncclGetErrorString(ncclSuccess), "no error");
	ck_assert_str_eq(cudaGetErrorString(cudaSuccess), "no error");
	ck_assert_str_eq(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
	site_run(1);
	uint32_t rares = site_names(OS_SITE_RARE, rare, ARRAY_LEN(rare));
	uint32_t probes = site_names(OS_SITE_PROBE, probe, ARRAY_LEN(probe));

	ck_assert_uint_ge(site_count(rare, rares, "bootstrap."), 8);
	ck_assert_uint_ge(site_count(rare, rares, "proxy."), 6);
	ck_assert_uint_ge(site_count(rare, rares, "net."), 2);
	ck_assert_uint_ge(site_count(probe, probes, "comm."), 5);
#ifdef DOPPEL_FAKECUDA
	ck_assert_uint_ge(site_count(rare, rares, "cuda."), 2);
	ck_assert_uint_ge(site_count(probe, probes, "cuda."), 1);
#endif
#ifdef DOPPEL_FAKEVERBS
	ck_assert_uint_ge(site_count(probe, probes, "hca."), 15);
#endif
	/* the test's own came by in this run: its library hands nothing to the engine */
	ck_assert_str_eq(rare[rares - 1], "zz_test.rare");
	ck_assert_str_eq(probe[probes - 1], "zz_test.probe");
	ck_assert_uint_eq(site_count(probe, probes, "zz_test."), 1);
	for (uint32_t i = 1; i < rares; i++)
		ck_assert_str_lt(rare[i - 1], rare[i]);
	for (uint32_t i = 1; i < probes; i++)
		ck_assert_str_lt(probe[i - 1], probe[i]);
}
END_TEST

static uint32_t site_loaded(const char *name)
{
	const char *probe[128];

	site_run(2);
	return site_count(probe, site_names(OS_SITE_PROBE, probe, ARRAY_LEN(probe)), name);
}

/* A mutant of a library brings the same names again; a library may be unloaded. */
START_TEST(the_sites_of_a_library_come_and_go_and_a_name_counts_once)
{
	static const struct os_site one = {OS_SITE_PROBE, "late.one", "the first of two", NULL},
				    two = {OS_SITE_PROBE, "late.two", "the other one", "a test's"};
	static const struct os_site *const library[] = {&two, &one}, *const again[] = {&one};

	ck_assert_uint_eq(site_loaded("late."), 0);
	os_sites_join(library, library + 2);
	os_sites_join(again, again + 1);
	ck_assert_uint_eq(site_loaded("late."), 2);
	ck_assert_str_eq(sim_probe_idle("late.two"), "a test's");
	ck_assert_ptr_null(sim_probe_idle("late.one"));
	os_sites_leave(library);
	ck_assert_uint_eq(site_loaded("late."), 1);
	ck_assert_ptr_null(sim_probe_idle("late.two"));
	os_sites_leave(again);
	ck_assert_uint_eq(site_loaded("late."), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("site");
	TCase *t = tcase_create("site");

	tcase_add_test(t, each_library_has_its_sites_sorted_by_name);
	tcase_add_test(t, the_sites_of_a_library_come_and_go_and_a_name_counts_once);
	suite_add_tcase(s, t);
	return suite_run(s);
}
