/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults, then healing: a call that does not return is a verdict, and so is a rank that receives no
 * error, survivors make a second communicator, and an error that blames the program is not
 * accepted. The runs here misbehave on purpose, through the lab's hook; each in a child, since a
 * failure may end the program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/lab/run/runner.h"

#define EXPECT(x)                                                                                  \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #x);          \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static struct lab_result *test_result;
static bool test_hasty;
static void (*test_config)(struct lab_config *c); /* NULL: the run has no other settings */

static void test_failed(const struct lab_result *r, void *arg)
{
	*test_result = *r;
	_exit(0);
}

static void test_run(const char *plan, bool recover, uint64_t heal_ns,
		     void (*on_ready)(int32_t rank, ncclComm_t comm, void *arg))
{
	fflush(NULL);
	memset(test_result, 0, sizeof *test_result);
	pid_t pid = fork();
	if (pid == 0) {
		struct lab_config c;

		lab_config_default(&c);
		c.hosts = c.gpus = 2;
		c.bytes_min = c.bytes_max = 4096;
		c.recover = recover;
		c.errors_allowed = true;
		c.on_ready = on_ready;
		c.hasty = test_hasty;
		c.on_failed = test_failed;
		c.sim.fault_plan = plan;
		c.sim.heal_ns = heal_ns;
		c.sim.seed = 3;
		if (test_config)
			test_config(&c);
		int rc = lab_run(&c, test_result);
		_exit(rc);
	}
	int status = -1;
	EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_aborts(int32_t rank, ncclComm_t comm, void *arg)
{
	if (rank == 1)
		EXPECT(ncclCommAbort(comm) == ncclSuccess);
}

/* A fault that never matches: the plan is there for its healing. */
#define NOTHING "os.task rank=77 nth=1 kill\n"
/* Begun before the faults heal, and no end to it. */
#define SLEEPS "os.task rank=1 nth=1 starve by=600s\n"

static void test_a_call_that_does_not_return(void)
{
	test_run(NOTHING "heal after=50us\n", false, 0, NULL);
	EXPECT(test_result->verdict == SIM_PASS);
	test_run(SLEEPS, false, 50000, NULL);
	EXPECT(test_result->fired == 1);
	EXPECT(test_result->verdict == SIM_NO_PROGRESS);
	EXPECT(strcmp(test_result->failure.kind, "liveness") == 0);
	EXPECT(strstr(test_result->failure.message, "has not returned"));
	EXPECT(test_result->failure.rank >= 0);
	EXPECT(test_result->failure.vtime_ns >= 10000000000ull);
	EXPECT(test_result->failure.vtime_ns < 50000000000ull);
}

/* Without an end of the faults nothing is promised: the run goes on after the hour. */
static void test_no_bound_without_healing(void)
{
	test_run(SLEEPS, false, 0, NULL);
	EXPECT(test_result->verdict == SIM_PASS && test_result->error == ncclSuccess);
	EXPECT(test_result->virtual_ns > 600000000000ull);
}

/* The communicator is destroyed while its last all-reduce runs. A rank that cannot wait for the
 * kernel leaves the others, which then receive an error. No rank waits for a rank whose kernel
 * waits for a rank that left. */
static void test_an_end_without_a_gpu(void)
{
	bool fired = false;

	for (int nth = 1; nth <= 12; nth++) {
		char plan[64];

		snprintf(plan, sizeof plan, "cuda.event_query rank=0 nth=%d sticky\n", nth);
		test_hasty = true;
		test_run(plan, false, 1000000000, NULL);
		test_hasty = false;
		EXPECT(test_result->verdict == SIM_PASS);
		fired |= test_result->fired && test_result->error != ncclSuccess;
	}
	EXPECT(fired);
}

/* The same, with a network error that no task has queried yet: success means a result. */
static void test_an_end_without_asking(void)
{
	int failed = 0;

	for (int nth = 1; nth <= 60; nth++) {
		char plan[96];

		snprintf(plan, sizeof plan,
			 "verbs.qp rank=2 nth=%d flush\nos.task prob=1/16 starve by=50us\n", nth);
		test_hasty = true;
		test_run(plan, false, 1000000000, NULL);
		test_hasty = false;
		EXPECT(test_result->verdict == SIM_PASS && !test_result->wrong);
		failed += test_result->fired && test_result->error != ncclSuccess;
	}
	EXPECT(failed > 0);
}

/* An error that CUDA raises itself is not an error of the program. */
static void test_a_pointer_that_cuda_cannot_look_up(void)
{
	test_run("cuda.pointer_get_attributes rank=1 nth=3 fail\n", true, 1000000000, NULL);
	EXPECT(test_result->verdict == SIM_PASS && test_result->fired == 1);
	EXPECT(test_result->error == ncclUnhandledCudaError ||
	       test_result->error == ncclRemoteError);
}

static void test_one_task(struct lab_config *c)
{
	c->hosts = 1;
	c->drive = LAB_DRIVE_PROCESS;
	c->ranks_per_proc = LAB_ALL_RANKS;
	c->local_register = LAB_REGISTER_RENEW;
}

/* A task that makes the calls of all ranks cannot go back to its own device. It does not allocate
 * the rank's next buffers on another one, which the second communicator would refuse. */
static void test_a_device_that_cannot_be_set(void)
{
	int failed = 0;

	test_config = test_one_task;
	for (int nth = 1; nth <= 60; nth++) {
		char plan[64];

		snprintf(plan, sizeof plan, "cuda.set_device rank=0 nth=%d fail\n", nth);
		test_run(plan, true, 1000000000, NULL);
		if (test_result->verdict != SIM_PASS)
			fprintf(stderr, "%s%s\n", plan, test_result->failure.message);
		EXPECT(test_result->verdict == SIM_PASS);
		failed += test_result->fired && test_result->error == ncclUnhandledCudaError;
	}
	test_config = NULL;
	EXPECT(failed > 0);
}

/* A call fails in ncclMemAlloc, and the program drops the error, as a function of the stack may:
 * no rank has reported the failure. */
static void test_drops_an_error(int32_t rank, ncclComm_t comm, void *arg)
{
	ncclResult_t rc = ncclSuccess;
	void *p = NULL;

	for (int i = 0; i < 100 && rank == 1 && !rc; i++) {
		rc = ncclMemAlloc(&p, 4096);
		EXPECT(rc || ncclMemFree(p) == ncclSuccess);
	}
	EXPECT(rank != 1 || rc);
}

static void test_a_failure_that_no_rank_reports(void)
{
	test_run("cuda.malloc rank=1 nth=60 fail\n", false, 1000000000, test_drops_an_error);
	EXPECT(test_result->fired == 1 && test_result->error == ncclSuccess);
	EXPECT(test_result->verdict == SIM_ERROR);
	EXPECT(strcmp(test_result->failure.kind, "unreported") == 0);
	EXPECT(strstr(test_result->failure.message, "cuda.malloc failed at rank 1"));
	EXPECT(strstr(test_result->failure.message, "ncclMemAlloc"));
}

/* A destroy that cannot wait for its kernels returns that error, and the program has had no other
 * one. */
static void test_a_destroy_that_cannot_wait(void)
{
	test_run("cuda.event_synchronize rank=0 nth=1 fail\n", false, 1000000000, NULL);
	EXPECT(test_result->verdict == SIM_PASS && test_result->fired == 1);
	EXPECT(test_result->error == ncclUnhandledCudaError);
}

static void test_survivors_go_on(void)
{
	test_run("os.task rank=1 after=300us kill\n", true, 10000000000, NULL);
	EXPECT(test_result->verdict == SIM_PASS && test_result->fired == 1);
	EXPECT(test_result->error == ncclRemoteError && test_result->recovered);
	test_run("cuda.launch_ex nth=1 sticky\n", true, 10000000000, NULL);
	EXPECT(test_result->verdict == SIM_PASS && test_result->fired == 1);
	EXPECT(test_result->error != ncclSuccess && test_result->recovered);
	test_run("verbs.qp rank=2 nth=9 fatal\n", true, 10000000000, NULL);
	EXPECT(test_result->verdict == SIM_PASS && test_result->fired == 1);
	EXPECT(test_result->error != ncclSuccess && test_result->recovered);
	/* no trouble, no second communicator */
	test_run(NOTHING, true, 10000000000, NULL);
	EXPECT(test_result->verdict == SIM_PASS && !test_result->recovered);
}

/* No rank can know of one that died before it checked in: the launcher aborts the others, 20 s
 * later, and when the faults have been healed for 40 s. A rank that is aborted has no error of its
 * own. */
static void test_the_launcher_tells(void)
{
	test_run("os.task rank=1 nth=1 kill\nheal after=1ms\n", false, 0, NULL);
	EXPECT(test_result->verdict == SIM_PASS && test_result->fired == 1);
	EXPECT(test_result->error == ncclSuccess);
	EXPECT(test_result->virtual_ns >= 40000000000ull);
	EXPECT(test_result->virtual_ns < 45000000000ull);
	test_run("os.task rank=1 nth=1 kill\nheal after=30s\n", false, 0, NULL);
	EXPECT(test_result->verdict == SIM_PASS && test_result->fired == 1);
	EXPECT(test_result->virtual_ns >= 70000000000ull);
	EXPECT(test_result->virtual_ns < 75000000000ull);
	/* nothing is promised while faults may come: 20 s are enough */
	test_run("os.task rank=1 nth=1 kill\n", false, 0, NULL);
	EXPECT(test_result->verdict == SIM_PASS && test_result->fired == 1);
	EXPECT(test_result->virtual_ns >= 20000000000ull);
	EXPECT(test_result->virtual_ns < 25000000000ull);
	/* one that dies later is missed by its neighbours, and that takes no launcher */
	test_run("os.task rank=1 after=300us kill\nheal after=1ms\n", false, 0, NULL);
	EXPECT(test_result->verdict == SIM_PASS && test_result->fired == 1);
	EXPECT(test_result->error == ncclRemoteError);
	EXPECT(test_result->virtual_ns < 10000000000ull);
}

/* Its own program's fault: the others see it as a remote one, it is blamed by name. */
static void test_an_error_that_blames_the_program(void)
{
	test_run(NOTHING, false, 1000000, test_aborts);
	EXPECT(test_result->verdict == SIM_ERROR);
	EXPECT(strcmp(test_result->failure.kind, "error-class") == 0);
	EXPECT(test_result->failure.rank == 1);
}

int main(void)
{
	test_result = mmap(NULL, sizeof *test_result, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	EXPECT(test_result != MAP_FAILED);
	test_a_call_that_does_not_return();
	test_no_bound_without_healing();
	test_survivors_go_on();
	test_an_error_that_blames_the_program();
	test_the_launcher_tells();
	test_an_end_without_a_gpu();
	test_an_end_without_asking();
	test_a_pointer_that_cuda_cannot_look_up();
	test_a_device_that_cannot_be_set();
	test_a_failure_that_no_rank_reports();
	test_a_destroy_that_cannot_wait();
	return 0;
}
