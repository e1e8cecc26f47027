/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the tests of real processes that share a world (struct world_share): run() forks two
 * processes, which take turns. A process may be killed. Used by cuda_ipc_share_test.c and
 * cuda_vmm_share_test.c.
 */
#ifndef TESTS_CONFORMANCE_CUDA_PROCESSES_H
#define TESTS_CONFORMANCE_CUDA_PROCESSES_H

#include <cuda.h>
#include <errno.h>
#include <signal.h>

#include "tests/conformance/cuda/cuda_harness.h"

/* Memory of the test and its processes. */
static struct stage {
	uint32_t turn;
	int32_t pid, fd;
	cudaIpcMemHandle_t handle;
	void *pointer;
} * stage;
static void *arena;

/* ---- processes ------------------------------------------------------------------------------ */

static inline void need_at(bool ok, int line, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "line %d: not so: %s\n", line, what);
	_exit(1);
}
#define NEED(what) need_at(what, __LINE__, #what)

static inline void says(cudaError_t got, cudaError_t want, struct ch_capture *c, const char *words,
			int line)
{
	ch_capture_end(c);
	if (got == want && strstr(c->text, words))
		return;
	fprintf(stderr, "line %d: %s, expected %s and '%s': %s\n", line, cudaGetErrorName(got),
		cudaGetErrorName(want), words, c->text);
	_exit(1);
}
#define SAYS(call, want, words)                                                                    \
	do {                                                                                       \
		struct ch_capture c_;                                                              \
		ch_capture_begin(&c_);                                                             \
		says(call, want, &c_, words, __LINE__);                                            \
	} while (0)

static inline void give_turn(void)
{
	__atomic_fetch_add(&stage->turn, 1, __ATOMIC_ACQ_REL);
}

static inline void wait_turn(uint32_t turn)
{
	for (int i = 0; __atomic_load_n(&stage->turn, __ATOMIC_ACQUIRE) < turn; i++) {
		need_at(i < 60000, (int)turn, "the other process comes to this turn in 60 s");
		usleep(1000);
	}
}

static inline void *join(void)
{
	return arena;
}

static inline int joined(void)
{
	return 0;
}

static inline void leave(void)
{
}

static inline void body(void *arg)
{
	void (*fn)(void) = *(void (**)(void))arg;

	fn();
}

/* Starts process `index` of two on one host; it runs fn. */
static inline pid_t start(uint32_t index, void (*fn)(void))
{
	static const struct world_joiner joiner = {join, joined, leave};
	const struct sim_config sim = {.engine = SIM_ENGINE_THREADS, .seed = 1};
	const struct world_config world = {.hosts = 1,
					   .machine = "a100-4nic",
					   .real = true,
					   .share = {.process = index, .processes = 2}};
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	world_on_join(&joiner);
	NEED(!sim_start(&sim) && !world_create(&world));
	NEED(sim_run(body, &fn) == SIM_PASS);
	NEED(world_destroy() == 0);
	_exit(0);
}

static inline void ends(pid_t pid, int code)
{
	int status = 0;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), code);
}

/* Runs both to their ends. The first is killed, and reaped, when it has given its last turn. */
static inline void run(void (*first)(void), int32_t kill_at, void (*second)(void))
{
	int memory = memfd_create("arena", 0);

	ck_assert(memory >= 0 && !ftruncate(memory, (off_t)WORLD_ARENA_BYTES));
	arena = mmap(NULL, WORLD_ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		     memory, 0);
	stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	ck_assert(arena != MAP_FAILED && stage != MAP_FAILED);
	((struct world_arena_head *)arena)->used = WORLD_ARENA_FIRST;
	pid_t a = start(0, first);

	wait_turn(1); /* one makes the tables, as the joiner ensures */
	pid_t b = start(1, second);

	if (kill_at > 0) {
		wait_turn((uint32_t)kill_at);
		kill(a, SIGKILL);
		ends(a, -SIGKILL);
		give_turn();
	} else {
		ends(a, 0);
	}
	ends(b, 0);
}

#endif
