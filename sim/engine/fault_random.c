/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans drawn from the seed, by swarm: first which layers take part at all, then which lines of
 * each, then how strong each line is; most runs have few kinds of faults, and no two the same mix.
 * Every line draws the same number of numbers whether it is in or not, so that a new line shifts
 * only those behind it in its own layer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/engine/engine_internal.h"
#include "sim/engine/fault.h"

enum { RANDOM_LINE_IN = 4 /* one line in that many of a layer that takes part */ };

static void random_line(FILE *out, struct sim_rng *rng, const struct fault_recipe *r, bool in)
{
	unsigned v[FAULT_RANGES_MAX];

	for (int i = 0; i < FAULT_RANGES_MAX; i++) {
		uint64_t width = r->range[i].most - r->range[i].least + 1;
		uint64_t draw = sim_rng_below(rng, width);

		v[i] = r->range[i].least + (unsigned)draw;
	}
	uint64_t draw = sim_rng_below(rng, RANDOM_LINE_IN);
	if (!in || draw)
		return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
	fprintf(out, r->line, v[0], v[1], v[2], v[3]);
#pragma GCC diagnostic pop
	fputc('\n', out);
}

static void random_layer(FILE *out, const struct fault_layer *l)
{
	struct sim_rng rng;
	char stream[48];

	snprintf(stream, sizeof stream, "engine.faults.%s", l->name);
	sim_rng_init(&rng, stream);
	bool in = sim_rng_below(&rng, 2);
	for (const struct fault_recipe *r = l->recipe; r->line; r++)
		random_line(out, &rng, r, in);
}

char *fault_random_text(void)
{
	struct sim_rng rng;
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);

	if (!out)
		return NULL;
	for (const struct fault_layer *l = fault_layers; l->name; l++)
		random_layer(out, l);
	sim_rng_init(&rng, "engine.faults");
	bool heals = sim_rng_below(&rng, 2);
	uint64_t after_us = sim_rng_below(&rng, 20000);
	if (heals)
		fprintf(out, "heal after=%" PRIu64 "us\n", 1 + after_us);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
