/* SPDX-License-Identifier: BSD-3-Clause */
/* Clocks and stamps of the happens-before check (happens.h). */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/memory/happens.h"

enum { CLOCK_STEP = 64 };
DOPPEL_STATIC_CHECK(CLOCK_STEP % 4 == 0, "a clock is whole vectors of four slots");

static struct happens_clock *clock_spare; /* unused clocks, all of one width */

/* Frees the unused clocks. Clocks are allocated and freed all the time, most of them as wide as the
 * current number of slots. */
void happens_clock_spares_free(void)
{
	while (clock_spare) {
		struct happens_clock *c = clock_spare;

		clock_spare = c->spare;
		free(c);
	}
}

static struct happens_clock *clock_new(void)
{
	uint32_t n = ALIGN_UP(MAX_OF(happens_slots(), 1u), (uint32_t)CLOCK_STEP);
	struct happens_clock *c = clock_spare;

	if (c && c->n == n) {
		clock_spare = c->spare;
	} else {
		happens_clock_spares_free();
		c = malloc(sizeof *c + n * sizeof c->at[0]);
		ASSERT(c);
		c->n = n;
	}
	c->refs = 1;
	return c;
}

struct happens_clock *happens_clock_ref(struct happens_clock *c)
{
	if (c)
		c->refs++;
	return c;
}

void happens_clock_unref(struct happens_clock *c)
{
	ASSERT(!c || c->refs > 0);
	if (!c || --c->refs)
		return;
	if (clock_spare && clock_spare->n != c->n) {
		free(c);
		return;
	}
	c->spare = clock_spare;
	clock_spare = c;
}

/* Makes *c writable, with room for all slots; copies it if it is shared. */
static struct happens_clock *clock_own(struct happens_clock **c)
{
	struct happens_clock *old = *c, *new;
	uint32_t n = old ? old->n : 0;

	if (old && old->refs == 1 && n >= happens_slots())
		return old;
	new = clock_new();
	ASSERT(new->n >= n);
	if (n)
		memcpy(new->at, old->at, n * sizeof new->at[0]);
	memset(new->at + n, 0, (new->n - n) * sizeof new->at[0]);
	happens_clock_unref(old);
	return *c = new;
}

/* Handles four slots together: clocks are long, and compared and joined all the time. Their width
 * is a multiple of CLOCK_STEP, and epochs are below 2^31. */
typedef int32_t clock_four __attribute__((vector_size(16), aligned(4), may_alias));

static inline const clock_four *clock_fours(const struct happens_clock *c)
{
	return (const clock_four *)c->at;
}

static inline bool four_any(clock_four f)
{
	return f[0] | f[1] | f[2] | f[3];
}

/* True if a slot of the clock, from slot `from` on, is above 0. */
static bool clock_any(const struct happens_clock *c, uint32_t from)
{
	clock_four any = {0};

	for (uint32_t i = from / 4; i < c->n / 4; i++)
		any |= clock_fours(c)[i];
	return four_any(any);
}

/* Compares two clocks. CLOCK_MORE: a slot of `c` is above that of `of`. CLOCK_LESS: a slot is
 * below. Stops once both are known. */
enum { CLOCK_MORE = 1, CLOCK_LESS = 2 };
static int clock_compare(const struct happens_clock *c, const struct happens_clock *of)
{
	uint32_t n = MIN_OF(c->n, of->n);
	bool above = false, below = false;

	for (uint32_t i = 0; i < n / 4 && !(above && below); i += CLOCK_STEP / 4) {
		clock_four more = {0}, less = {0};

		for (uint32_t k = i; k < i + CLOCK_STEP / 4; k++) {
			more |= (clock_four)(clock_fours(c)[k] > clock_fours(of)[k]);
			less |= (clock_four)(clock_fours(c)[k] < clock_fours(of)[k]);
		}
		above |= four_any(more);
		below |= four_any(less);
	}
	above = above || clock_any(c, n);
	below = below || clock_any(of, n);
	return (above ? CLOCK_MORE : 0) | (below ? CLOCK_LESS : 0);
}

static bool clock_within(const struct happens_clock *c, const struct happens_clock *of)
{
	if (!c || c == of)
		return true;
	return of ? !(clock_compare(c, of) & CLOCK_MORE) : !clock_any(c, 0);
}

void happens_clock_join(struct happens_clock **into, struct happens_clock *c)
{
	if (!c || c == *into)
		return;
	int differ = *into ? clock_compare(c, *into) : CLOCK_MORE;

	if (!(differ & CLOCK_MORE))
		return;
	if (!(differ & CLOCK_LESS)) {
		happens_clock_ref(c);
		happens_clock_unref(*into);
		*into = c;
		return;
	}
	clock_four *own = (clock_four *)clock_own(into)->at;

	ASSERT((*into)->n >= c->n); /* widths are multiples of CLOCK_STEP */
	for (uint32_t i = 0; i < c->n / 4; i++) {
		clock_four theirs = clock_fours(c)[i], more = (clock_four)(theirs > own[i]);

		own[i] = (theirs & more) | (own[i] & ~more);
	}
}

void happens_clock_raise(struct happens_clock **into, uint32_t slot, uint32_t epoch)
{
	ASSERT(slot == HAPPENS_NONE || slot < happens_slots());
	if (slot != HAPPENS_NONE && happens_clock_at(*into, slot) < epoch)
		clock_own(into)->at[slot] = epoch;
}

bool happens_stamp_covers(const struct happens_stamp *s, const struct happens_seen *seen)
{
	return (s->slot == seen->slot && s->epoch >= seen->epoch) ||
	       happens_clock_at(s->clock, seen->slot) >= seen->epoch;
}

void happens_stamp_clear(struct happens_stamp *s)
{
	happens_clock_unref(s->clock);
	s->clock = NULL;
	s->slot = HAPPENS_NONE;
}

void happens_stamp_set(struct happens_stamp *s, const struct happens_stamp *from)
{
	struct happens_stamp copy = *from;

	happens_clock_ref(copy.clock);
	happens_clock_unref(s->clock);
	*s = copy;
}

bool happens_part_has(const struct happens_part *p, const struct happens_stamp *s)
{
	return s->slot != HAPPENS_NONE ? happens_part_knows(p, s->slot) >= s->epoch
				       : clock_within(s->clock, p->known);
}

void happens_part_join(struct happens_part *p, const struct happens_stamp *s)
{
	if (happens_stamp_is_empty(s) || happens_part_has(p, s))
		return;
	happens_clock_join(&p->known, s->clock);
	if (s->slot != p->slot)
		happens_clock_raise(&p->known, s->slot, s->epoch);
}

void happens_stamp_join(struct happens_stamp *s, const struct happens_stamp *more,
			const struct happens_part *p)
{
	if (happens_stamp_is_empty(more))
		return;
	if (happens_stamp_is_empty(s) ||
	    (more->slot == p->slot && more->epoch == p->epoch && happens_part_has(p, s))) {
		happens_stamp_set(s, more);
		return;
	}
	if (s->slot != HAPPENS_NONE)
		happens_clock_raise(&s->clock, s->slot, s->epoch);
	happens_clock_join(&s->clock, more->clock);
	happens_clock_raise(&s->clock, more->slot, more->epoch);
	s->slot = HAPPENS_NONE;
	s->device = more->device;
	s->block = more->block;
	s->scope = MAX_OF(s->scope, more->scope);
}
