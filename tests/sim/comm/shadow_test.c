/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flavour checked: a collective over unwritten memory stops with a report of the address and the
 * reader; over written memory it is correct. Other flavours have no shadow state: skipped.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/lab/run/runner.h"

#define EXPECT(x)                                                                                  \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #x);          \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static void reduce_unwritten(int32_t rank, ncclComm_t comm, void *arg)
{
	void *fresh;
	(void)rank, (void)arg;
	EXPECT(cudaMalloc(&fresh, 4096) == cudaSuccess);
	EXPECT(ncclAllReduce(fresh, fresh, 1024, ncclFloat32, ncclSum, comm, NULL) == ncclSuccess);
	while (cudaStreamQuery(NULL) == cudaErrorNotReady)
		;
	EXPECT(cudaStreamQuery(NULL) == cudaErrorIllegalAddress);
}

static bool said_uninitialised(FILE *said)
{
	char line[512];
	bool found = false;
	rewind(said);
	while (fgets(line, sizeof line, said))
		found |= strstr(line, "uninitialised read") && strstr(line, "never written");
	return found;
}

int main(void)
{
	struct lab_config c;
	struct lab_result r;
#ifndef DOPPEL_CHECKED
	printf("skipped: shadow memory is in the preset checked\n");
	return 77;
#endif
	lab_config_default(&c);
	c.gpus = 2;
	c.bytes_max = 4096;
	EXPECT(lab_run(&c, &r) == 0 && r.verdict == SIM_PASS && r.wrong == 0);

	FILE *said = tmpfile();
	int real_stderr = dup(2);
	EXPECT(said);
	dup2(fileno(said), 2);
	c.on_ready = reduce_unwritten;
	int rc = lab_run(&c, &r);
	fflush(stderr);
	dup2(real_stderr, 2);
	EXPECT(rc == 0 && (r.verdict != SIM_PASS || r.error != ncclSuccess));
	EXPECT(said_uninitialised(said));
	fclose(said);
	printf("memory that nobody wrote is not read in silence\n");
	return 0;
}
