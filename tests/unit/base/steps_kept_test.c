/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The step of a connection over several works, as its three counters keep it: the kernels at both
 * ends and a proxy. A kernel runs every work of its channel; a proxy has an operation only for a
 * work that uses the connection (core/plan/launch.c), and counts as core/proxy/progress.c does.
 * Works whose chunks have one step cannot show a difference, and today only those leave a
 * connection unused.
 */
#include <check.h>

#include "core/device/layout/steps.h"
#include "tests/suite.h"

/* A work as a connection sees it. */
struct use {
	uint32_t chunk_steps;
	uint32_t chunks; /* 0: the work does not use the connection */
};

static uint64_t kernel_step(uint64_t step, const struct use *u)
{
	uint64_t begin = ALIGN_UP(step, u->chunk_steps);

	return steps_kept(step, begin + (uint64_t)u->chunks * u->chunk_steps, u->chunk_steps);
}

static uint64_t proxy_step(uint64_t step, const struct use *u)
{
	uint64_t steps = (uint64_t)u->chunks * u->chunk_steps;

	return steps ? ALIGN_UP(step, u->chunk_steps) + steps : step;
}

/* Every chunk that divides DEV_STEPS, with none, one, and more chunks than a buffer holds. */
static struct use use_of(int i)
{
	static const uint32_t chunks[] = {0, 1, DEV_STEPS + 1};

	return (struct use){.chunk_steps = 1u << i / 3, .chunks = chunks[i % 3]};
}
enum { USES = 4 * 3 };

START_TEST(kernel_and_proxy_keep_the_same_step)
{
	for (int i = 0; i < USES * USES * USES; i++) {
		struct use use[] = {use_of(i % USES), use_of(i / USES % USES),
				    use_of(i / USES / USES)};
		uint64_t kernel = 0, proxy = 0;

		for (size_t k = 0; k < ARRAY_LEN(use); k++) {
			kernel = kernel_step(kernel, &use[k]);
			proxy = proxy_step(proxy, &use[k]);
			if (kernel != proxy)
				ck_abort_msg("series %d, work %zu of %u chunks of %u steps: the "
					     "kernel is at step %llu, the proxy at %llu",
					     i, k, use[k].chunks, use[k].chunk_steps,
					     (unsigned long long)kernel, (unsigned long long)proxy);
		}
	}
}
END_TEST

START_TEST(a_connection_that_is_not_used_keeps_its_step)
{
	for (uint64_t step = 0; step < 2 * DEV_STEPS; step++)
		for (uint32_t chunk = 1; chunk <= DEV_STEPS; chunk *= 2)
			ck_assert_uint_eq(kernel_step(step, &(struct use){.chunk_steps = chunk}),
					  step);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("steps kept");
	TCase *t = tcase_create("steps");

	tcase_add_test(t, kernel_and_proxy_keep_the_same_step);
	tcase_add_test(t, a_connection_that_is_not_used_keeps_its_step);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
