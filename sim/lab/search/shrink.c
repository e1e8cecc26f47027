/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/search/shrink.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/lab/check/found.h"
#include "sim/lab/search/shrink_internal.h"

#define SHRINK_LIMIT_NS 10000000000ull /* of one candidate */

enum { SHRINK_RETRY_SEEDS = 10, SHRINK_SHOW_NS = 200000000 };

static uint64_t shrink_ns(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000000ull + (uint64_t)t->tv_usec * 1000ull;
}

static uint64_t shrink_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Returns the CPU time of this process and of its candidates. */
static uint64_t shrink_cpu_ns(void)
{
	struct rusage own, candidates;

	getrusage(RUSAGE_SELF, &own);
	getrusage(RUSAGE_CHILDREN, &candidates);
	return shrink_ns(&own.ru_utime) + shrink_ns(&own.ru_stime) +
	       shrink_ns(&candidates.ru_utime) + shrink_ns(&candidates.ru_stime);
}

/* A machine that does other things has little time for us: that ends nothing too early. */
static bool shrink_time_up(const struct shrink *s)
{
	return shrink_cpu_ns() - s->start_cpu_ns >= s->c->time_ns ||
	       shrink_now_ns() - s->start_ns >= SHRINK_LIMIT_REAL * s->c->time_ns;
}

static void shrink_progress(struct shrink *s)
{
	uint64_t now = shrink_now_ns(), ranks_ns = now - s->start_ns;

	if (!s->c->progress || !s->c->terminal || now - s->shown_ns < SHRINK_SHOW_NS)
		return;
	s->shown_ns = now;
	fprintf(s->c->progress,
		"\rshrinking %3" PRIu64 " s  %" PRIu64 " runs, %" PRIu64
		" fail in the same way  %" PRIu64 " special choices  %-24s",
		ranks_ns / 1000000000, s->r->candidates, s->r->failed_same, s->r->special_after,
		s->doing);
	fflush(s->c->progress);
}

/* ---- candidates ----------------------------------------------------------------------------- */

static int shrink_adopt(struct shrink *s, const struct scenario *from,
			const struct shrink_outcome *out)
{
	struct shrink_choices choices;

	ASSERT(out->ended && out->failure.kind[0]); /* it failed as the run that is shrunk */
	if (rename(s->tried, s->best)) {
		fprintf(stderr, "doppel shrink: cannot write %s: %s\n", s->best, strerror(errno));
		return errno;
	}
	if (from != &s->r->after)
		s->r->after = *from;
	s->r->after.found = s->r->failure = out->failure;
	s->r->failed_same++;
	ASSERT(s->r->failed_same <= s->r->candidates); /* each was counted when it had run */
	int rc = shrink_choices_read(&choices, s->best);
	if (rc)
		return rc;
	shrink_choices_count(&choices, &s->r->choices_after, &s->r->special_after);
	shrink_choices_free(&choices);
	return 0;
}

bool shrink_same(const struct shrink *s, const struct shrink_outcome *out)
{
	ASSERT(s->r->before.found.kind[0]); /* shrink_read refuses a run without a failure */
	return out->ended && found_compare(&s->r->before.found, &out->failure) >= FOUND_SAME_WAY;
}

/* Runs *from; when it fails in the same way it is the best from now on, and *same is true. */
static int shrink_candidate(struct shrink *s, struct scenario *from, const char *choices,
			    bool *same)
{
	struct shrink_outcome out;

	*same = false;
	int rc = shrink_try(from, choices, s->tried, s->limit_ns, NULL, NULL, &out);
	s->r->candidates++;
	shrink_progress(s);
	if (rc || !shrink_same(s, &out))
		return rc;
	*same = true;
	return shrink_adopt(s, from, &out);
}

/* ---- the scenario --------------------------------------------------------------------------- */

static int shrink_seeds(struct shrink *s, uint32_t count, bool *same)
{
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc && !*same && !shrink_time_up(s); i++) {
		/* its own seed first, for its knobs; then 1, 2, ... */
		s->candidate.lab.sim.seed = i ? i : s->r->after.lab.sim.seed;
		rc = shrink_candidate(s, &s->candidate, NULL, same);
	}
	return rc;
}

static int shrink_way_try(struct shrink *s, const struct dimension *d, bool *same)
{
	bool ranks = strcmp(d->cut.what, "ranks") == 0;
	uint32_t seeds = ranks ? s->c->seeds : SHRINK_RETRY_SEEDS;
	int rc = 0;

	*same = false;
	if (!ranks)
		rc = shrink_candidate(s, &s->candidate, s->best, same);
	if (!rc && !*same && !d->cut.stale)
		rc = shrink_seeds(s, seeds, same);
	return rc;
}

static int shrink_way_run(struct shrink *s, const struct dimension *d)
{
	struct shrink_result *r = s->r;
	struct shrink_cut *cut = &r->cut[r->cuts];
	bool same, any = false;
	int rc = 0;

	ASSERT(r->cuts < SHRINK_CUTS);
	s->doing = d->cut.what;
	snprintf(cut->what, sizeof cut->what, "%s", d->cut.what);
	dimension_print(d, &r->after, cut->from);
	for (uint32_t k = 0;
	     !rc && !shrink_time_up(s) && dimension_cut(d, &r->after, k, &s->candidate);) {
		rc = shrink_way_try(s, d, &same);
		any |= same;
		if (same && !d->cut.again)
			break;
		k += !same;
	}
	dimension_print(d, &r->after, cut->to);
	if (any && r->cuts < SHRINK_CUTS - 1)
		r->cuts++;
	return rc;
}

/* Compares the final values: a later cut may have taken back what an earlier one added. */
static void shrink_print_cuts(struct shrink_result *r)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < r->cuts; i++) {
		struct shrink_cut *cut = &r->cut[i];

		for (uint32_t k = 0; k < dimensions_n; k++)
			if (dimensions[k].cut.what &&
			    strcmp(dimensions[k].cut.what, cut->what) == 0) {
				dimension_print(&dimensions[k], &r->before, cut->from);
				dimension_print(&dimensions[k], &r->after, cut->to);
			}
		if (strcmp(cut->from, cut->to) != 0)
			r->cut[kept++] = *cut;
	}
	r->cuts = kept;
}

/* ---- the choices ---------------------------------------------------------------------------- */

/* Makes special choices first .. first+count-1 of a site quiet, and tries that. */
static int shrink_quieten(struct shrink *s, const char *site, uint32_t first, uint32_t count,
			  bool *same)
{
	struct shrink_choices choices;
	int rc = shrink_choices_read(&choices, s->best);

	ASSERT(count > 0); /* else the candidate is the best so far, and always succeeds */
	*same = false;
	if (rc)
		return rc;
	for (uint32_t i = 0; i < choices.sites; i++)
		if (strcmp(choices.site[i].name, site) == 0)
			shrink_site_quieten(&choices.site[i], first, count);
	rc = shrink_choices_write(&choices, s->given);
	shrink_choices_free(&choices);
	if (rc)
		return rc;
	s->candidate = s->r->after;
	return shrink_candidate(s, &s->candidate, s->given, same);
}

static int shrink_special_of(const struct shrink *s, const char *site, uint32_t *special)
{
	struct shrink_choices choices;
	int rc = shrink_choices_read(&choices, s->best);

	*special = 0;
	if (rc)
		return rc;
	for (uint32_t i = 0; i < choices.sites; i++)
		if (strcmp(choices.site[i].name, site) == 0)
			*special = shrink_site_special(&choices.site[i]);
	shrink_choices_free(&choices);
	return 0;
}

/* From the end on, because what comes first decides what the later ones mean. */
static int shrink_site(struct shrink *s, const char *site)
{
	uint32_t special, chunk;
	bool same;
	int rc = shrink_special_of(s, site, &special);

	for (chunk = special; !rc && chunk && !shrink_time_up(s); chunk /= 2) {
		uint32_t end = special;

		while (!rc && end && !shrink_time_up(s)) {
			uint32_t first = end > chunk ? end - chunk : 0;

			rc = shrink_quieten(s, site, first, end - first, &same);
			if (!rc && same)
				rc = shrink_special_of(s, site, &special);
			end = MIN_OF(first, special);
		}
		chunk = MIN_OF(chunk, special);
	}
	return rc;
}

static int shrink_site_names(const struct shrink *s, char (**names)[64], uint32_t *n)
{
	struct shrink_choices choices;
	int rc = shrink_choices_read(&choices, s->best);

	*names = NULL;
	*n = 0;
	if (rc)
		return rc;
	*names = calloc(choices.sites ? choices.sites : 1, sizeof **names);
	if (!*names)
		rc = ENOMEM;
	for (uint32_t i = 0; !rc && i < choices.sites; i++)
		memcpy((*names)[(*n)++], choices.site[i].name, 64);
	shrink_choices_free(&choices);
	return rc;
}

/* Whole streams first: it often is one of them that matters. Again until nothing more goes. */
static int shrink_choices(struct shrink *s)
{
	char(*name)[64];
	uint32_t sites;
	uint64_t before;
	bool same;
	int rc = shrink_site_names(s, &name, &sites);

	for (uint32_t i = 0; i < sites && !rc && !shrink_time_up(s); i++) {
		s->doing = name[i];
		rc = shrink_quieten(s, name[i], 0, UINT32_MAX / 2, &same);
	}
	do {
		before = s->r->special_after;
		for (uint32_t i = 0; i < sites && !rc && !shrink_time_up(s); i++) {
			s->doing = name[i];
			rc = shrink_site(s, name[i]);
		}
	} while (!rc && s->r->special_after < before && !shrink_time_up(s));
	free(name);
	return rc;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int shrink_file(const struct shrink *s, char *out, size_t bytes, const char *name)
{
	int n = snprintf(out, bytes, "%s/%s", s->work, name);

	return n < 0 || (size_t)n >= bytes ? ENAMETOOLONG : 0;
}

/* Reads the failure from its folder. */
static int shrink_read(struct shrink *s, int n)
{
	struct shrink_result *r = s->r;
	char config[FAIL_DIR_BYTES + 32];

	snprintf(config, sizeof config, "%.*s/config", n, s->c->dir);
	int rc = scenario_read_file(&r->before, config);
	if (rc)
		return rc;
	int differences = scenario_print_differences(&r->before, stderr);
	if (differences && !s->c->force) {
		fprintf(stderr,
			"doppel shrink: %s was recorded by another build or machine; --force "
			"shrinks it all the same\n",
			s->c->dir);
		return EINVAL;
	}
	if (!r->before.found.kind[0]) {
		fprintf(stderr, "doppel shrink: %s has no line about how it failed\n", config);
		return EINVAL;
	}
	/* a run that hangs is given up after the time of the one that was recorded */
	if (!s->limit_ns && found_is_hung(&r->before.found))
		s->limit_ns = r->before.found_seconds * 1000000000ull;
	if (!s->limit_ns)
		s->limit_ns = SHRINK_LIMIT_NS;
	return 0;
}

static int shrink_open(struct shrink *s)
{
	struct shrink_result *r = s->r;
	size_t n = strlen(s->c->dir);

	while (n > 1 && s->c->dir[n - 1] == '/')
		n--;
	if (n + 8 >= sizeof r->dir) {
		fprintf(stderr, "doppel shrink: too long a name\n");
		return ENAMETOOLONG;
	}
	int rc = shrink_read(s, (int)n);
	if (rc)
		return rc;
	snprintf(r->dir, sizeof r->dir, "%.*s-min", (int)n, s->c->dir);
	snprintf(s->work, sizeof s->work, "%s.part", r->dir);
	if (mkdir(s->work, 0777) && errno != EEXIST) {
		rc = errno;
		fprintf(stderr, "doppel shrink: cannot make %s: %s\n", s->work, strerror(rc));
		s->work[0] = '\0';
		return rc;
	}
	rc = fail_check_room(s->work);
	if (rc) {
		fprintf(stderr, "doppel shrink: cannot write to %s: %s\n", s->work, strerror(rc));
		return rc;
	}
	rc = shrink_file(s, s->best, sizeof s->best, "choices");
	rc = rc ? rc : shrink_file(s, s->tried, sizeof s->tried, "choices.tried");
	rc = rc ? rc : shrink_file(s, s->given, sizeof s->given, "choices.given");
	if (!rc)
		rc = shrink_draw_plan(&r->before);
	return rc;
}

/* Repeats the recorded run: a failure that does not come again cannot be shrunk. */
static int shrink_begin(struct shrink *s)
{
	char choices[FAIL_DIR_BYTES + 32];
	bool same = false;
	int rc = 0;

	ASSERT(strlen(s->r->dir) > 4); /* it ends in "-min" */
	snprintf(choices, sizeof choices, "%.*s/choices", (int)(strlen(s->r->dir) - 4), s->r->dir);
	s->doing = "as recorded";
	s->candidate = s->r->after = s->r->before;
	if (access(choices, R_OK) == 0)
		rc = shrink_candidate(s, &s->candidate, choices, &same);
	if (!rc && !same)
		rc = shrink_candidate(s, &s->candidate, NULL, &same);
	if (!rc && !same) {
		fprintf(stderr,
			"doppel shrink: %s does not fail with \"%s\" (exit code %d) again\n",
			s->c->dir, s->r->before.found.kind, (int)s->r->before.found.verdict);
		rc = ENOENT;
	}
	s->r->choices_before = s->r->choices_after;
	s->r->special_before = s->r->special_after;
	return rc;
}

static int shrink_finish(struct shrink *s)
{
	char path[FAIL_DIR_BYTES + 32];
	struct shrink_outcome out;
	bool hung = found_is_hung(&s->r->before.found);
	int rc = shrink_find_pair(s);

	ASSERT(s->r->failure.kind[0]); /* the best so far is a failure, if no smaller one */

	if (!rc) { /* once more, with everything that a failing run leaves */
		s->candidate = s->r->after;
		rc = shrink_try(&s->candidate, s->best, NULL, (hung ? 1 : 6) * s->limit_ns, NULL,
				s->work, &out);
	}
	s->r->after.found_seconds = hung ? (uint32_t)(s->limit_ns / 1000000000) : 0;
	unlink(s->tried);
	unlink(s->given);
	if (s->c->progress && s->c->terminal)
		fprintf(s->c->progress, "\r%-100s\r", "");
	if (!rc)
		rc = scenario_stamp(&s->r->after);
	if (!rc)
		rc = shrink_file(s, path, sizeof path, "config");
	if (!rc)
		rc = scenario_write_file(&s->r->after, path);
	if (!rc)
		rc = fail_move(s->work, s->r->dir);
	s->r->wall_ns = shrink_now_ns() - s->start_ns;
	return rc;
}

/* A result that is not whole is removed; the result of an earlier time stays. */
static void shrink_abandon(const struct shrink *s)
{
	unlink(s->tried);
	unlink(s->given);
	fail_remove(s->work);
}

int shrink_run(const struct shrink_config *config, struct shrink_result *r)
{
	struct shrink_config c = *config;
	struct shrink *s = calloc(1, sizeof *s);

	memset(r, 0, sizeof *r);
	if (!s)
		return ENOMEM;
	c.time_ns = c.time_ns ? c.time_ns : 60ull * 1000000000;
	c.seeds = c.seeds ? c.seeds : 100;
	*s = (struct shrink){.c = &c, .r = r, .limit_ns = c.run_limit_ns};
	s->start_ns = shrink_now_ns();
	s->start_cpu_ns = shrink_cpu_ns();
	int rc = shrink_open(s);
	if (!rc)
		rc = shrink_begin(s);
	for (uint32_t i = 0; i < dimensions_n && !rc && !shrink_time_up(s); i++)
		if (dimensions[i].cut.what)
			rc = shrink_way_run(s, &dimensions[i]);
	shrink_print_cuts(r);
	if (!rc)
		rc = shrink_choices(s);
	r->whole = !shrink_time_up(s);
	if (!rc)
		rc = shrink_finish(s);
	if (rc && s->work[0])
		shrink_abandon(s);
	free(s);
	return rc;
}

static void shrink_print_count(FILE *out, const char *what, uint64_t from, uint64_t to)
{
	fprintf(out, "  %-16s %" PRIu64 " -> %" PRIu64 "\n", what, from, to);
}

void shrink_print(const struct shrink_result *r, FILE *out)
{
	fprintf(out, "shrunk in %" PRIu64 ".%" PRIu64 " s, %" PRIu64 " runs%s\n",
		r->wall_ns / 1000000000, r->wall_ns / 100000000 % 10, r->candidates,
		r->whole ? "" : "; the time was up before the end: --time");
	for (uint32_t i = 0; i < r->cuts; i++)
		fprintf(out, "  %-16s %s -> %s\n", r->cut[i].what, r->cut[i].from, r->cut[i].to);
	shrink_print_count(out, "steps", r->before.found.step, r->failure.step);
	shrink_print_count(out, "choices", r->choices_before, r->choices_after);
	shrink_print_count(out, "special choices", r->special_before, r->special_after);
	if (r->has_pair)
		fprintf(out,
			"without choice %" PRIu32 " of %s (%" PRIu32 " of %" PRIu32
			") at step %" PRIu64 " it does not fail\n",
			r->pair.index, r->pair.site, r->pair.value, r->pair.n, r->pair.step);
	else
		fprintf(out, "no single choice makes it fail\n");
}
