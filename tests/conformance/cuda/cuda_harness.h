/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Harness of the CUDA conformance suite: the GPU double against what the CUDA documentation
 * defines. A test is a function that runs as the main task of a world; under `sim` once for each of
 * CH_SEEDS seeds, in a world of its own each time, and once under `threads`. It may leave nothing.
 * Kernels of tests are plain functions over the fakedev_* calls. Used by cuda_*_test.c only.
 */
#ifndef TESTS_CONFORMANCE_CUDA_CUDA_HARNESS_H
#define TESTS_CONFORMANCE_CUDA_CUDA_HARNESS_H

#include <check.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/os/os.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"
#include "tests/conformance/cuda/cuda_kernel.h"
#include "tests/suite.h"

#define CH_SEEDS 5

struct ch_world {
	uint32_t hosts;
	const char *machine;
	uint32_t width;
	bool loose; /* device memory is readable by the host */
	bool races; /* with the happens-before check */
	uint64_t va_bytes;
	uint64_t leaks; /* expected */
	const char *plan;
	const char *const *env;
	enum sim_strategy strategy;
};

struct ch_run {
	void (*body)(void);
	enum sim_engine engine;
};
static struct ch_run ch_now; /* what runs, for tests that differ by engine */

static inline bool ch_in_sim(void)
{
	return ch_now.engine == SIM_ENGINE_SIM;
}

/* Tests that define CH_DRIVER begin in each process with a call of the driver. */
static inline void ch_init(void)
{
#ifdef CH_DRIVER
	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
#endif
}

static inline void ch_main(void *arg)
{
	(void)arg;
	ch_init();
	ch_now.body();
}

static inline void ch_run_once(enum sim_engine engine, uint64_t seed, const struct ch_world *w,
			       void (*body)(void))
{
	const struct sim_config config = {.engine = engine,
					  .seed = seed,
					  .strategy = w->strategy,
					  .races = w->races,
					  .fault_plan = w->plan,
					  .fault_plan_name = "test"};
	const struct world_config world = {.hosts = w->hosts ? w->hosts : 1,
					   .machine = w->machine ? w->machine : "a100-4nic",
					   .strict_device_view = !w->loose,
					   .gpu_va_bytes = w->va_bytes,
					   .env = w->env,
					   .warp_width = w->width ? w->width : 1};

	ch_now = (struct ch_run){body, engine};
	ck_assert_int_eq(sim_start(&config), 0);
	ck_assert_int_eq(world_create(&world), 0);
	ck_assert_int_eq(sim_run(ch_main, NULL), SIM_PASS);
	ck_assert_uint_eq(world_destroy(), w->leaks);
	/* also what was noted as the world ended */
	ck_assert_msg(!sim_failure(), "%s", sim_failure() ? sim_failure()->message : "");
	sim_stop();
}

/* engine: the loop index of the test, 0 sim, 1 threads. */
static inline void ch_run(int engine, const struct ch_world *w, void (*body)(void))
{
	if (engine == 1) {
		ch_run_once(SIM_ENGINE_THREADS, 1, w, body);
		return;
	}
	for (uint64_t seed = 1; seed <= CH_SEEDS; seed++)
		ch_run_once(SIM_ENGINE_SIM, seed, w, body);
}

/* Each test under both engines; what follows `name` are fields of struct ch_world. */
#define CH_TEST(name, ...)                                                                         \
	static void name##_body(void);                                                             \
	START_TEST(name)                                                                           \
	{                                                                                          \
		const struct ch_world w = {__VA_ARGS__};                                           \
		ch_run(_i, &w, name##_body);                                                       \
	}                                                                                          \
	END_TEST                                                                                   \
	static void name##_body(void)
#define CH_ADD(tcase, name)     tcase_add_loop_test(tcase, name, 0, 2)
#define CH_ADD_SIM(tcase, name) tcase_add_loop_test(tcase, name, 0, 1)

static inline int ch_suite_run(const char *name, TCase *tcase)
{
	Suite *s = suite_create(name);

	tcase_set_timeout(tcase, 60);
	suite_add_tcase(s, tcase);
	return suite_run(s);
}

#define CU(call) ck_assert_msg((call) == cudaSuccess, "%s", #call)
/* The call fails so, and cudaGetLastError returns the same, once. */
#define CU_FAILS(call, error)                                                                      \
	do {                                                                                       \
		cudaError_t got_ = (call);                                                         \
		ck_assert_msg(got_ == (error), "%s: got %s, expected %s", #call,                   \
			      cudaGetErrorName(got_), cudaGetErrorName(error));                    \
		ck_assert_int_eq(cudaGetLastError(), (error));                                     \
		ck_assert_int_eq(cudaGetLastError(), cudaSuccess);                                 \
	} while (0)

/* ---- messages -------------------------------------------------------------------------------- */

/* The call fails so and explains itself with these words. */
#define CU_SAYS(call, error, words)                                                                \
	do {                                                                                       \
		struct ch_capture c_;                                                              \
		ch_capture_begin(&c_);                                                             \
		cudaError_t said_ = (call);                                                        \
		ch_capture_end(&c_);                                                               \
		ck_assert_msg(said_ == (error), "%s: got %s, expected %s", #call,                  \
			      cudaGetErrorName(said_), cudaGetErrorName(error));                   \
		ck_assert_msg(strstr(c_.text, words) != NULL, "%s: logged \"%s\"", #call,          \
			      c_.text);                                                            \
		(void)cudaGetLastError();                                                          \
	} while (0)

/* The same where CUDA leaves undefined what happens: misuse, which the test wants. */
#define CU_MISUSE(call, error, words)                                                              \
	do {                                                                                       \
		sim_expect_misuse(words);                                                          \
		CU_SAYS(call, error, words);                                                       \
	} while (0)

/* A function that ends the program: runs in a child; returns its exit status and what it logged. */
static inline int ch_child(void (*fn)(void), char *text, size_t bytes)
{
	int file = memfd_create("child", 0);
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		dup2(file, 1);
		dup2(file, 2);
		fn();
		_exit(0);
	}
	int status = 0;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ssize_t n = pread(file, text, bytes - 1, 0);
	text[n > 0 ? n : 0] = 0;
	close(file);
	return WIFEXITED(status) ? WEXITSTATUS(status) : SIM_BY_SIGNAL + WTERMSIG(status);
}

/* ---- kernels of the world's warp width ------------------------------------------------------ */

static inline const struct dev_kernel *ch_by_width(const struct dev_kernel *w1,
						   const struct dev_kernel *w32)
{
	return world_config()->warp_width == 32 ? w32 : w1;
}
#define CH_BY_WIDTH(name) ch_by_width(&name##_w1, &name##_w32)

/* ---- other processes ------------------------------------------------------------------------ */

static inline struct os_proc *ch_proc(uint32_t host, const char *name)
{
	struct os_proc *p = NULL;

	ck_assert_int_eq(world_proc_create(host, name, &p), 0);
	return p;
}

struct ch_task {
	void (*fn)(void *);
	void *arg;
};

static inline void ch_task_main(void *task)
{
	const struct ch_task *t = task;

	ch_init();
	t->fn(t->arg);
}

/* Runs fn as a task of the process and waits for its end. */
static inline void ch_in(struct os_proc *p, void (*fn)(void *), void *arg)
{
	struct ch_task task = {fn, arg};
	const struct os_thread_attr attr = {.name = "other main", .rank = -1};
	struct os_thread *t = NULL;

	ck_assert_int_eq(world_thread_start(p, &t, &attr, ch_task_main, &task), 0);
	ck_assert_int_eq(os_thread_join(t), 0);
}

/* ---- memory --------------------------------------------------------------------------------- */

static inline void *ch_malloc(size_t bytes)
{
	void *p = NULL;

	CU(cudaMalloc(&p, bytes));
	ck_assert_ptr_nonnull(p);
	return p;
}

static inline void *ch_pinned(size_t bytes)
{
	void *p = NULL;

	CU(cudaHostAlloc(&p, bytes, cudaHostAllocMapped));
	ck_assert_ptr_nonnull(p);
	return p;
}

static inline void ch_pattern(void *p, size_t n, unsigned key)
{
	uint8_t *b = (uint8_t *)p;

	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)(i * 7 + key * 31 + (i >> 8));
}

static inline void ch_expect(const void *p, size_t n, unsigned key)
{
	const uint8_t *b = (const uint8_t *)p;

	for (size_t i = 0; i < n; i++) {
		uint8_t want = (uint8_t)(i * 7 + key * 31 + (i >> 8));

		if (b[i] != want)
			ck_abort_msg("byte %zu of %zu is 0x%02x, expected 0x%02x", i, n, b[i],
				     want);
	}
}

#endif
