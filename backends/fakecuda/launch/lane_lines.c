/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of 128 bytes that the lanes of a warp write together.
 *
 * On a GPU, a warp's store instruction leaves as whole lines, and NVLink and the memory system
 * deliver each line whole. Here lanes run one after another. A strong store of 16 bytes is
 * therefore kept as a piece of its line. A line that has all eight pieces is written together:
 * another agent sees all of it, or nothing. Engine `threads` writes the words in their order, so
 * a flag must be in the last word there.
 *
 * A line stays incomplete if some lanes do not write it. Its pieces are written
 *  - when lanes that wrote them meet (shuffle, vote, __syncwarp): each has made its stores then;
 *  - when a lane needs its own pieces in memory (fence, atomic, barrier, end, backward branch) and
 *    each other lane of the warp is settled: it waits, has ended, or spins;
 *  - before an access of the warp to the same bytes, and when the warp has too many such lines.
 * Memory that does not keep lines whole (host memory, peers over PCIe) has no pieces.
 */
#include "backends/fakecuda/launch/lane_run.h"

#include <stdlib.h>
#include <string.h>

enum {
	LINES_MOST = 64,  /* incomplete lines of a warp; more are torn */
	LINES_PAUSES = 8, /* of a lane that spins, since the newest line began */
	LINES_PIECES = 8,
	LINES_WHOLE = (1 << LINES_PIECES) - 1,
};

struct lane_line {
	uint64_t at;
	uint32_t lanes;  /* bits: they wrote the pieces */
	uint32_t pieces; /* bits: which there are */
	uint64_t word[2 * LINES_PIECES];
};

struct lane_lines {
	shared_u32 moves;   /* lanes that settle wait on it */
	uint32_t settling;  /* bits: these lanes */
	uint8_t pauses[32]; /* of each lane, since the newest line began */
	uint32_t count;
	struct lane_line line[LINES_MOST]; /* the oldest first */
};

DOPPEL_STATIC_CHECK(LINES_PIECES *DEV_LINE_BYTES == DEV_LINE128_BYTES, "pieces of a line");

static struct run_warp *lines_warp(struct dev *d)
{
	return &d->blk->warp[d->thread / 32];
}

/* Lets the lanes that settle check again. */
static void lines_stir(struct lane_lines *n)
{
	if (!n->settling)
		return;
	__atomic_store_n(&n->moves.v_, n->moves.v_ + 1, __ATOMIC_RELEASE);
	sim_wrote(&n->moves, sizeof n->moves);
}

void lane_lines_stir(struct run_warp *w)
{
	if (w->lines)
		lines_stir(w->lines);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void line_write(const struct lane_line *line)
{
	uint64_t *to = fc_alias(line->at);
	const uint8_t *p = (const uint8_t *)(uintptr_t)line->at;

	for (uint32_t i = 0; i < LINES_PIECES; i++) {
		if (!(line->pieces >> i & 1))
			continue;
		run_store(to + 2 * i, 8, line->word[2 * i], SHARED_RELAXED);
		run_store(to + 2 * i + 1, 8, line->word[2 * i + 1], SHARED_RELEASE);
		if (line->pieces != LINES_WHOLE)
			fc_wrote(p + DEV_LINE_BYTES * i, DEV_LINE_BYTES);
	}
	if (line->pieces == LINES_WHOLE)
		fc_wrote(p, DEV_LINE128_BYTES);
}

static void lines_write(struct lane_lines *n, uint32_t i)
{
	const struct lane_line line = n->line[i];
	uint32_t waiting = 0;

	n->count--;
	memmove(&n->line[i], &n->line[i + 1], (n->count - i) * sizeof n->line[0]);
	line_write(&line);
	lines_stir(n);
	for (uint32_t k = 0; k < n->count; k++)
		waiting |= n->line[k].lanes;
	n->settling &= waiting; /* the others go on */
}

void lane_lines_write(struct run_warp *w, uint32_t lanes)
{
	struct lane_lines *n = w->lines;

	for (uint32_t i = 0; n && i < n->count;) {
		if (n->line[i].lanes & lanes)
			lines_write(n, i);
		else
			i++;
	}
}

void lane_lines_show(struct run_warp *w, uint64_t address, uint64_t bytes)
{
	struct lane_lines *n = w->lines;

	for (uint32_t i = 0; n && i < n->count;) {
		if (address < n->line[i].at + DEV_LINE128_BYTES && n->line[i].at < address + bytes)
			lines_write(n, i);
		else
			i++;
	}
}

/* ---- settling ------------------------------------------------------------------------------- */

static bool lines_lane_settled(struct dev *d, uint32_t lane)
{
	const struct run_warp *w = lines_warp(d);
	const struct run_thread *t = &d->blk->thread[d->thread - d->thread % 32 + lane];
	uint32_t gone = __atomic_load_n(&w->gone, __ATOMIC_RELAXED) | w->lines->settling;

	if (gone >> lane & 1 || w->lines->pauses[lane] >= LINES_PAUSES)
		return true;
	return t->parked && __atomic_load_n(&t->parked->v_, __ATOMIC_RELAXED) == t->parked_phase;
}

static bool lines_others_settled(struct dev *d)
{
	uint32_t me = d->thread % 32, lanes = MIN_OF(d->nthreads - (d->thread - me), 32u);

	for (uint32_t i = 0; i < lanes; i++) {
		if (i != me && !lines_lane_settled(d, i))
			return false;
	}
	return true;
}

static bool lines_has(const struct lane_lines *n, uint32_t lane)
{
	for (uint32_t i = 0; i < n->count; i++) {
		if (n->line[i].lanes >> lane & 1)
			return true;
	}
	return false;
}

/* Waits until another lane of the warp moves. */
static void lines_wait(struct dev *d, struct lane_lines *n)
{
	const struct wait w = {
		.on = &n->moves,
		.want = n->moves.v_,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_NE,
		.bytes = 4,
		.why = "stores of the warp to one line",
		.from = {d->blk->kernel->rank, (int32_t)d->block, -1, "lanes of the warp"}};

	n->settling |= 1u << d->thread % 32;
	run_wait(d, &w, NULL, NULL);
	n->settling &= ~(1u << d->thread % 32);
}

void lane_lines_settle(struct dev *d)
{
	struct run_warp *w = lines_warp(d);
	uint32_t me = d->thread % 32;

	while (w->lines && lines_has(w->lines, me)) {
		if (lines_others_settled(d))
			lane_lines_write(w, 1u << me);
		else
			lines_wait(d, w->lines);
	}
}

void lane_lines_paused(struct dev *d)
{
	struct lane_lines *n = lines_warp(d)->lines;
	uint8_t *pauses = n ? &n->pauses[d->thread % 32] : NULL;

	if (!n || !n->count || *pauses == UINT8_MAX)
		return;
	++*pauses;
	lines_stir(n);
}

/* ---- stores --------------------------------------------------------------------------------- */

/* Does all that a store does besides its bytes. The memory model sees it now, and not late. */
static void lines_announce(struct dev *d, void *p)
{
	run_use(d, p, DEV_LINE_BYTES, true);
	fc_shadow_write((uintptr_t)p, DEV_LINE_BYTES);
	fc_va_wrote((uintptr_t)p, DEV_LINE_BYTES);
	for (uint32_t i = 0; i < DEV_LINE_BYTES; i += 8) {
		struct mem_access a =
			run_access((uint8_t *)p + i, 8, SHARED_RMW, SHARED_RELAXED, SHARED_SYSTEM);
		mem_access(&a);
	}
}

static struct lane_lines *lines_of(struct run_warp *w)
{
	if (!w->lines)
		w->lines = fc_device_alloc(sizeof *w->lines);
	return w->lines;
}

/* Returns the line at the address, without this piece. Begins a line that does not exist. */
static struct lane_line *lines_begin(struct lane_lines *n, uint64_t at, uint32_t piece)
{
	for (uint32_t i = 0; i < n->count; i++) {
		if (n->line[i].at != at)
			continue;
		if (!(n->line[i].pieces & piece))
			return &n->line[i];
		lines_write(n, i); /* it was written before, by this lane or another one */
		break;
	}
	if (n->count == LINES_MOST)
		lines_write(n, 0);
	struct lane_line *line = &n->line[n->count++];
	*line = (struct lane_line){.at = at};
	memset(n->pauses, 0, sizeof n->pauses);
	return line;
}

bool lane_lines_store(struct dev *d, void *p, const void *from)
{
	uint64_t address = (uintptr_t)p;
	uint32_t me = d->thread % 32,
		 piece = (uint32_t)(address % DEV_LINE128_BYTES / DEV_LINE_BYTES);

	if (d->nthreads - (d->thread - me) < LINES_PIECES ||
	    !run_keeps_lines(d, run_range(d, "write", p, DEV_LINE_BYTES)))
		return false;
	run_enter(d, "dev.store");
	run_lines_done(d);
	lines_announce(d, p);
	struct lane_lines *n = lines_of(lines_warp(d));
	struct lane_line *line = lines_begin(n, address - address % DEV_LINE128_BYTES, 1u << piece);
	line->pieces |= 1u << piece;
	line->lanes |= 1u << me;
	memcpy(&line->word[2 * piece], from, DEV_LINE_BYTES);
	n->pauses[me] = 0;
	if (line->pieces == LINES_WHOLE)
		lines_write(n, (uint32_t)(line - n->line));
	return true;
}
