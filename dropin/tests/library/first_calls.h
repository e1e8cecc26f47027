/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs whose first calls are made by many threads at the same time. The test executes itself
 * anew for each round, because a process has only one first call. The threads of a round leave a
 * barrier together.
 */
#ifndef DROPIN_TESTS_FIRST_CALLS_H
#define DROPIN_TESTS_FIRST_CALLS_H

#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sample.h"

enum { FIRST_THREADS = 16, FIRST_ROUNDS = 120 };

static pthread_barrier_t first_go;
static void (*first_body)(long thread);

static void *first_thread(void *arg)
{
	pthread_barrier_wait(&first_go);
	first_body((long)arg);
	return NULL;
}

static int first_round(void)
{
	pthread_t thread[FIRST_THREADS];

	pthread_barrier_init(&first_go, NULL, FIRST_THREADS);
	for (long i = 0; i < FIRST_THREADS; i++)
		if (pthread_create(&thread[i], NULL, first_thread, (void *)i))
			return 1;
	for (int i = 0; i < FIRST_THREADS; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

/* Runs `body` in each thread of each round. `body` ends the process with 1 if its call failed. */
static int first_main(int argc, char **argv, void (*body)(long thread))
{
	char fabric[64], *const again[] = {argv[0], "round", NULL};
	extern char **environ;
	int bad = 0, rounds = FIRST_ROUNDS / SAMPLE_THIN;

	first_body = body;
	if (argc > 1)
		return first_round();
	snprintf(fabric, sizeof fabric, "first-%d", (int)getpid());
	setenv("DOPPEL_FABRIC", fabric, 1);
	for (int i = 0; i < rounds; i++) {
		pid_t pid;
		int status = -1;

		if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, again, environ) ||
		    waitpid(pid, &status, 0) != pid || status) {
			printf("round %d of %d ends with status %x\n", i, rounds, status);
			bad++;
		}
	}
	return bad != 0;
}

#endif
