/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the cost of a sweep: seeds of the default swarm without faults per second of one core;
 * the same with a trace file, in task switches per second; and the time of a replay against the
 * original.
 *
 *   swarm_bench [SEEDS|FILE...]      (default 100; or the scenarios of these files)
 *
 * Swarms of two commits differ, so two commits are compared over the same files.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sim/lab/search/scenario.h"

enum swarm_way { SWARM_PLAIN, SWARM_TRACED, SWARM_RECORDED, SWARM_REPLAYED };

static double bench_cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Returns the CPU seconds of a seed's run, or of a file's. */
static double bench_seed(uint64_t seed, const char *file, enum swarm_way way, struct lab_result *r)
{
	static struct scenario s;

	if (!file)
		scenario_swarm(&s, seed, SCENARIO_FAULTS_NONE);
	else if (scenario_read_file(&s, file))
		exit(1);
	s.lab.sim.trace_path = way == SWARM_TRACED ? "/dev/null" : NULL;
	s.lab.sim.choices_out = way == SWARM_RECORDED ? "swarm_bench.choices" : NULL;
	s.lab.sim.choices_in = way == SWARM_REPLAYED ? "swarm_bench.choices" : NULL;
	double start = bench_cpu();
	if (lab_run(scenario_lab(&s), r) || lab_outcome(&s.lab, r) != SIM_PASS) {
		fprintf(stderr, "seed %lu %s: verdict %d\n", (unsigned long)seed, file ? file : "",
			r->verdict);
		exit(1);
	}
	return bench_cpu() - start;
}

int main(int argc, char **argv)
{
	static const char *const name[] = {"plain", "trace on", "recording choices", "replay"};
	bool files = argc > 1 && !isdigit((unsigned char)argv[1][0]);
	uint64_t seeds = files ? (uint64_t)argc - 1 : argc > 1 ? strtoull(argv[1], NULL, 0) : 100;
	uint64_t switches[4] = {0};
	double cpu[4] = {0};
	struct lab_result r;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		uint64_t hash = 0;

		for (int way = SWARM_PLAIN; way <= SWARM_REPLAYED; way++) {
			cpu[way] += bench_seed(seed, files ? argv[seed] : NULL, (enum swarm_way)way,
					       &r);
			switches[way] += r.switches;
			if (way && r.hash != hash) {
				fprintf(stderr, "seed %lu: another hash, %s\n", (unsigned long)seed,
					name[way]);
				return 1;
			}
			hash = r.hash;
		}
	}
	remove("swarm_bench.choices");
	for (int way = SWARM_PLAIN; way <= SWARM_REPLAYED; way++)
		printf("%-18s %6.1f seeds/s of one core, %.2f M switches/s, %.2f of plain\n",
		       name[way], (double)seeds / cpu[way], (double)switches[way] / cpu[way] / 1e6,
		       cpu[way] / cpu[0]);
	return 0;
}
