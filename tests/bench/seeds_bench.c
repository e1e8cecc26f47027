/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures seeds per second: whole runs, one after the other in one process, from the machine's XML
 * to the count of leaks, with checked payload and trace hash. Each run has 2 hosts x 8 GPUs, one 64
 * KiB all-reduce, warp width 1, and another seed.
 *
 *   seeds_bench [SECONDS|COUNTx] [MACHINE] [BYTES] [races|memory-order|both]
 *                                    (default 5 s, h100-8nic, 65536, with neither)
 *
 * COUNTx runs that many seeds, so that two builds can be compared by their instruction counts:
 * `valgrind --tool=callgrind seeds_bench 10x`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/lab/run/runner.h"

static double bench_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double bench_cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void bench_machine(void)
{
	char line[256], name[200] = "unknown CPU";
	FILE *f = fopen("/proc/cpuinfo", "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "model name : %199[^\n]", name) == 1)
			break;
	if (f)
		fclose(f);
	printf("# machine: %s\n", name);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 5;
	uint64_t most = argc > 1 && strchr(argv[1], 'x') ? strtoull(argv[1], NULL, 0) : UINT64_MAX;
	struct lab_config c;
	struct lab_result r;
	uint64_t seeds = 0, switches = 0, steps = 0;
	lab_config_default(&c);
	c.machine = argc > 2 ? argv[2] : "h100-8nic";
	c.hosts = 2;
	c.bytes_min = c.bytes_max = argc > 3 ? strtoull(argv[3], NULL, 0) : 64 << 10;
	c.in_place = false;
	const char *with = argc > 4 ? argv[4] : "";
	bool both = strcmp(with, "both") == 0;
	bool order = both || strcmp(with, "memory-order") == 0;
	c.sim.memory_order = order ? SIM_MEMORY_ON : SIM_MEMORY_OFF;
	c.sim.races = both || strcmp(with, "races") == 0;
	double start = bench_now(), start_cpu = bench_cpu(), now = start;
	while (most == UINT64_MAX ? now - start < seconds : seeds < most) {
		c.sim.seed = ++seeds;
		if (lab_run(&c, &r) || r.verdict != SIM_PASS || r.wrong || r.operations != 1) {
			fprintf(stderr, "seed %lu: verdict %d, %lu wrong\n", (unsigned long)seeds,
				r.verdict, (unsigned long)r.wrong);
			return 1;
		}
		switches += r.switches;
		steps += r.steps;
		now = bench_now();
	}
	double cpu = bench_cpu() - start_cpu;
	bench_machine();
	printf("# 2 hosts x 8 GPUs of %s, all-reduce of %llu bytes, %d ranks\n", c.machine,
	       (unsigned long long)c.bytes_max, r.nranks);
	printf("%.1f seeds/s of one core (%.1f by the clock): %lu seeds, %.0f task switches and "
	       "%.0f steps each, "
	       "%.2f M switches/s\n",
	       seeds / cpu, seeds / (now - start), (unsigned long)seeds, (double)switches / seeds,
	       (double)steps / seeds, switches / cpu / 1e6);
	return 0;
}
