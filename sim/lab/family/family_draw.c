/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of a family, drawn from the run's seed. */
#include "sim/lab/family/family.h"

int32_t family_index(const struct family_members *m, int32_t rank)
{
	for (int32_t i = 0; i < m->n; i++)
		if (m->rank[i] == rank)
			return i;
	return -1;
}

static bool family_one_in(struct sim_rng *rng, uint64_t n)
{
	return sim_rng_below(rng, n) == 0;
}

void family_split_members(const struct family_members *parent, const struct family_colors *s,
			  int color, struct family_members *out)
{
	out->n = 0;
	for (int key = -2; key < 2; key++)
		for (int32_t i = 0; i < parent->n; i++)
			if (s->color[i] == color && s->key[i] == key)
				out->rank[out->n++] = parent->rank[i];
}

bool family_breaks(const struct family_step *s)
{
	return s->revokes || s->way == FAMILY_SHRINK_ABORT;
}

/* ---- members --------------------------------------------------------------------------------- */

static void family_draw_colors(struct sim_rng *rng, int32_t n, struct family_colors *s)
{
	int32_t always = (int32_t)sim_rng_below(rng, (uint64_t)n);

	for (int32_t i = 0; i < n; i++) {
		uint64_t kind = sim_rng_below(rng, 5);

		s->key[i] = (int)sim_rng_below(rng, 4) - 2;
		s->color[i] = kind < 3 || i == always ? 0 : kind == 3 ? 1 : NCCL_SPLIT_NOCOLOR;
	}
}

/* A non-blocking parent takes one call at a time. */
static void family_draw_split(struct sim_rng *rng, struct family_step *s)
{
	bool more = family_one_in(rng, 3);

	family_draw_colors(rng, s->parent.n, &s->split);
	family_split_members(&s->parent, &s->split, 0, &s->child);
	ASSERT(s->child.n > 0); /* one rank always has color 0 */
	if (more && s->is.blocking)
		s->together = 1 + (uint32_t)sim_rng_below(rng, FAMILY_TOGETHER);
	for (uint32_t k = 0; k < s->together; k++)
		family_draw_colors(rng, s->parent.n, &s->more[k]);
	s->refused = family_one_in(rng, 3);
	s->wrong = (int32_t)sim_rng_below(rng, (uint64_t)s->parent.n);
	s->empty = family_one_in(rng, 6);
}

static void family_draw_shrink(struct sim_rng *rng, struct family_step *s)
{
	int32_t never = (int32_t)sim_rng_below(rng, (uint64_t)s->parent.n);
	int32_t always = (never + 1) % s->parent.n;

	ASSERT(s->parent.n > 1); /* one leaves, and one stays */
	for (int32_t i = 0; i < s->parent.n; i++) {
		bool out = family_one_in(rng, 3);

		if (i != never && (out || i == always))
			s->excluded[s->excludes++] = i;
		else
			s->child.rank[s->child.n++] = s->parent.rank[i];
	}
	ASSERT(s->excludes > 0 && s->child.n > 0); /* ncclCommShrink refuses others */
}

/* Returns false if no rank can be added. New ranks have no parent whose config they inherit. */
static bool family_draw_growth(const struct lab_run *run, struct sim_rng *rng,
			       struct family_step *s)
{
	if (run->config->config_version)
		return false;
	s->child = s->parent;
	for (int32_t r = 0; r < run->nranks; r++)
		if (family_index(&s->parent, r) < 0 && !family_one_in(rng, 3))
			s->child.rank[s->child.n++] = r;
	s->asks = (int32_t)sim_rng_below(rng, (uint64_t)s->parent.n);
	s->refused = family_one_in(rng, 2);
	s->wrong = s->asks;
	return s->child.n > s->parent.n;
}

/* ---- options --------------------------------------------------------------------------------- */

static int family_draw_value(struct sim_rng *rng, int value)
{
	return sim_rng_below(rng, 2) ? value : NCCL_CONFIG_UNDEF_INT;
}

static int family_config_merge(int given, int inherited)
{
	return given == NCCL_CONFIG_UNDEF_INT ? inherited : given;
}

static void family_draw_config(const struct lab_run *run, struct sim_rng *rng,
			       struct family_step *s)
{
	const long forced = lab_comm_blocking(run->config);
	struct family_config *c = &s->config;

	c->blocking = family_draw_value(rng, (int)sim_rng_below(rng, 2));
	c->cluster = family_draw_value(rng, (int)sim_rng_below(rng, 9));
	c->max_ctas = family_draw_value(rng, 1 + (int)sim_rng_below(rng, 8));
	c->min_ctas = family_draw_value(
		rng, 1 + (int)sim_rng_below(rng, c->max_ctas > 0 ? (uint64_t)c->max_ctas : 1));
	c->traffic = family_draw_value(rng, (int)sim_rng_below(rng, 256));
	c->share = (int)(s->ready & 1);
	c->socket = family_one_in(rng, 6);
	s->configured = family_one_in(rng, 2);
	if (!s->configured)
		*c = (struct family_config){NCCL_CONFIG_UNDEF_INT,
					    NCCL_CONFIG_UNDEF_INT,
					    NCCL_CONFIG_UNDEF_INT,
					    NCCL_CONFIG_UNDEF_INT,
					    NCCL_CONFIG_UNDEF_INT,
					    NCCL_CONFIG_UNDEF_INT,
					    false};
	s->becomes = (struct family_config){
		.blocking = forced >= 0 ? (int)forced
					: family_config_merge(c->blocking, s->is.blocking),
		.cluster = family_config_merge(c->cluster, s->is.cluster),
		.min_ctas = family_config_merge(c->min_ctas, s->is.min_ctas),
		.max_ctas = family_config_merge(c->max_ctas, s->is.max_ctas),
		.traffic = family_config_merge(c->traffic, s->is.traffic),
		.share = family_config_merge(c->share, s->is.share),
		.socket = c->socket || s->is.socket,
	};
	/* a most number that is passed goes before a least one that is inherited */
	if (s->becomes.max_ctas > 0)
		s->becomes.min_ctas = MIN_OF(s->becomes.min_ctas, s->becomes.max_ctas);
	ASSERT(s->becomes.blocking != NCCL_CONFIG_UNDEF_INT); /* the first parent is the run's */
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Members may abort the parent only when all have the child. */
static void family_draw_end(struct family_step *s)
{
	if (s->end == FAMILY_ABORT && (s->parent_first || s->child.n < s->parent.n))
		s->end = FAMILY_DESTROY;
}

static void family_draw_way(const struct lab_run *run, struct sim_rng *rng, struct family_step *s,
			    bool first)
{
	s->way = (enum family_way)sim_rng_below(rng, FAMILY_WAYS);
	if (first && s->way == FAMILY_SHRINK_ABORT)
		s->way = FAMILY_SHRINK;
	if (s->way == FAMILY_GROW && (s->revokes || !family_draw_growth(run, rng, s)))
		s->way = FAMILY_SPLIT;
	if (s->parent.n == 1 && (s->way == FAMILY_SHRINK || s->way == FAMILY_SHRINK_ABORT))
		s->way = FAMILY_SPLIT;
	if (s->way == FAMILY_GROW)
		return;
	s->child.n = 0;
	if (s->way == FAMILY_SPLIT)
		family_draw_split(rng, s);
	else
		family_draw_shrink(rng, s);
}

void family_draw(const struct lab_run *run, struct sim_rng *rng, struct family_step *s, bool first)
{
	ASSERT(s->parent.n > 0 && s->parent.n <= FAMILY_RANKS);
	s->end = (enum family_end)sim_rng_below(rng, FAMILY_ENDS);
	s->revokes = family_one_in(rng, 3) && !first;
	s->hangs = family_one_in(rng, 2);
	s->sends = family_one_in(rng, 2) && !s->is.blocking;
	s->parent_first = family_one_in(rng, 2);
	s->elsewhere = family_one_in(rng, 2);
	family_draw_config(run, rng, s);
	family_draw_way(run, rng, s, first);
	ASSERT(!first || !family_breaks(s)); /* the run's communicator goes on */
	ASSERT(!s->together || s->is.blocking);
	s->hangs = s->hangs && family_breaks(s);
	s->refused = s->refused && !family_breaks(s);
	family_draw_end(s);
}
