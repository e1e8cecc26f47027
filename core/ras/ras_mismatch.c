/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of a communicator that differ, grouped by value, the most frequent value first. The ranks
 * of small groups are listed: they are the likely cause.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/ras/ras_status.h"

#define MISMATCH_VALUES 16 /* further values are counted together */
#define MISMATCH_STATUS (-1)
#define MISMATCH_PHRASE 64

/* The distinct values of one property. */
struct mismatch {
	int func; /* enum ras_func; MISMATCH_STATUS */
	uint64_t value[MISMATCH_VALUES];
	uint32_t count[MISMATCH_VALUES], n;
	uint32_t others; /* ranks with further values */
};

static uint64_t mismatch_value(const struct mismatch *m, const struct ras_rank *r)
{
	return m->func == MISMATCH_STATUS ? ras_status_of(r) : r->count[m->func];
}

static void mismatch_add(struct mismatch *m, uint64_t value, uint32_t count)
{
	for (uint32_t i = 0; i < m->n; i++) {
		if (m->value[i] != value)
			continue;
		m->count[i] += count;
		return;
	}
	if (m->n == MISMATCH_VALUES) {
		m->others += count;
		return;
	}
	m->value[m->n] = value;
	m->count[m->n++] = count;
}

/* Moves the most frequent value, of equal ones the largest, to place `at`. */
static void mismatch_select(struct mismatch *m, uint32_t at)
{
	uint32_t best = at;

	for (uint32_t i = at + 1; i < m->n; i++)
		if (m->count[i] > m->count[best] ||
		    (m->count[i] == m->count[best] && m->value[i] > m->value[best]))
			best = i;
	uint64_t value = m->value[best];
	uint32_t count = m->count[best];

	m->value[best] = m->value[at];
	m->count[best] = m->count[at];
	m->value[at] = value;
	m->count[at] = count;
}

static const char *mismatch_phrase(const struct mismatch *m, uint64_t value, bool several,
				   char out[MISMATCH_PHRASE])
{
	const char *have = several ? "have" : "has";

	if (m->func == MISMATCH_STATUS)
		snprintf(out, MISMATCH_PHRASE, " %s status %s", have,
			 ras_status_name((uint32_t)value));
	else if (value)
		snprintf(out, MISMATCH_PHRASE, " %s launched up to operation %" PRIu64, have,
			 value);
	else
		snprintf(out, MISMATCH_PHRASE, " %s not launched any operations", have);
	return out;
}

/* Lists the ranks of the value at `at`. A single rank's line has the phrase. */
static void mismatch_list(struct ras_text *out, struct ras_job *j, const struct ras_comm *c,
			  const struct mismatch *m, uint32_t at, const char *phrase)
{
	struct ras_missing left = {.next = 0};

	for (uint32_t i = 0; i < c->ranks; i++) {
		const struct ras_rank *r = &c->rank[i].r;

		if (mismatch_value(m, r) != m->value[at])
			continue;
		ras_text_add(out, "  Rank %d%s", r->rank, phrase);
		ras_place_write(out, &j->process[c->rank[i].process], r->cuda_dev, r->nvml_dev);
	}
	if (m->func != MISMATCH_STATUS || m->value[at] != RAS_STATUS_NOCOMM)
		return;
	while (ras_missing_next(j, c, &left))
		if (left.answered || left.process == UINT32_MAX)
			ras_missing_write(out, j, &left, phrase);
}

static void mismatch_value_write(struct ras_text *out, struct ras_job *j, const struct ras_comm *c,
				 const struct mismatch *m, uint32_t at, bool verbose)
{
	uint32_t count = m->count[at];
	char phrase[MISMATCH_PHRASE];

	mismatch_phrase(m, m->value[at], count > 1, phrase);
	if (count > 1)
		ras_text_add(out, "  %u ranks%s\n", count, phrase);
	if (ras_is_outlier(count, (uint32_t)c->size, verbose))
		mismatch_list(out, j, c, m, at, count > 1 ? "" : phrase);
}

/* Writes one property if the ranks differ in it. */
static void mismatch_property(struct ras_text *out, struct ras_job *j, const struct ras_comm *c,
			      int func, bool verbose)
{
	struct mismatch m = {.func = func};

	for (uint32_t i = 0; i < c->ranks; i++)
		mismatch_add(&m, mismatch_value(&m, &c->rank[i].r), 1);
	if (func == MISMATCH_STATUS && c->missing > c->incomplete)
		mismatch_add(&m, RAS_STATUS_NOCOMM, c->missing - c->incomplete);
	if (m.n < 2)
		return;
	if (func == MISMATCH_STATUS)
		ras_text_add(out, "  Communicator ranks have different status\n");
	else
		ras_text_add(out, "  Communicator ranks have different %s operation counts\n",
			     ras_func_name(func));
	for (uint32_t at = 0; at < m.n; at++) {
		mismatch_select(&m, at);
		mismatch_value_write(out, j, c, &m, at, verbose);
	}
	if (m.others)
		ras_text_add(out, "  %u ranks have further values\n", m.others);
	ras_text_add(out, "\n");
}

void ras_mismatch_write(struct ras_text *out, struct ras_job *j, const struct ras_comm *c,
			bool verbose)
{
	ras_comm_title(out, c, "MISMATCH");
	mismatch_property(out, j, c, MISMATCH_STATUS, verbose);
	for (int func = 0; func < RAS_FUNCS; func++)
		mismatch_property(out, j, c, func, verbose);
}
