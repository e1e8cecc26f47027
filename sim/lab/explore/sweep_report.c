/* SPDX-License-Identifier: BSD-3-Clause */
/* The output of a sweep: progress, failing seeds, the summary, JSON. */
#include <inttypes.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/explore/sweep_internal.h"

enum { REPORT_BAR = 24, REPORT_NAMES = 12 };

static double report_rate(uint64_t n, uint64_t ns)
{
	return ns ? (double)n * 1e9 / (double)ns : 0;
}

/* How far: by seeds or by time, whichever is farther. */
static double report_part(const struct sweep_config *c, const struct sweep_result *r, uint64_t ns)
{
	double seeds = c->count ? (double)r->seeds / (double)c->count : 0;
	double time = c->time_ns ? (double)ns / (double)c->time_ns : 0;
	double part = MAX_OF(seeds, time);

	return MIN_OF(part, 1.0);
}

void sweep_progress(const struct sweep_config *c, const struct sweep_result *r, uint64_t start_ns,
		    bool last)
{
	static uint64_t shown_ns;
	uint64_t now = sweep_now_ns(), ns = now - start_ns;
	uint64_t pause = c->terminal ? 200000000ull : 10000000000ull;
	char bar[REPORT_BAR + 1];

	if (!c->progress || (now - shown_ns < pause && !last) || (last && !c->terminal))
		return;
	if (!c->terminal && ns < pause)
		return;
	shown_ns = now;
	size_t full = (size_t)(report_part(c, r, ns) * REPORT_BAR);

	ASSERT(full <= REPORT_BAR);
	memset(bar, '#', full);
	memset(bar + full, '.', REPORT_BAR - full);
	bar[REPORT_BAR] = 0;
	if (c->terminal)
		fprintf(c->progress, "\r[%s] ", bar);
	fprintf(c->progress, "%" PRIu64 " seeds, %.1f/s, %" PRIu64 " failing", r->seeds,
		report_rate(r->seeds, ns), r->seeds - r->passed);
	fprintf(c->progress, "%s", !c->terminal ? "\n" : last ? "\033[K\n" : "\033[K");
	fflush(c->progress);
}

void sweep_print_seed(const struct sweep_seed *s, FILE *out)
{
	fprintf(out, "seed 0x%" PRIx64 " %-14s %-14s %2u ranks  step %-9" PRIu64 " %s%s%s%s\n",
		s->seed, s->failure.kind[0] ? s->failure.kind : "?",
		lab_collectives[s->collective].name, s->nranks, s->failure.step,
		s->canary ? "(canary) " : "", s->kept ? s->dir : "", s->kept ? "  " : "",
		s->failure.message);
}

static void report_verdicts(const struct sweep_result *r, FILE *out)
{
	fprintf(out, "%" PRIu64 " seeds: %" PRIu64 " passed", r->seeds, r->passed);
	for (uint32_t i = 0; i < r->failure_n; i++) {
		uint32_t n = 0, before = 0;

		for (uint32_t k = 0; k < r->failure_n; k++)
			if (!strcmp(r->failure[k].failure.kind, r->failure[i].failure.kind)) {
				n++;
				before += k < i;
			}
		if (!before)
			fprintf(out, ", %u %s", n, r->failure[i].failure.kind);
	}
	fputc('\n', out);
}

/* No run comes to it, and the catalogue has the reason. */
static bool report_idle(const struct sweep_site *s)
{
	return !s->hits && !s->visits && (sim_fault_idle(s->name) || sim_probe_idle(s->name));
}

/* Some of the names; JSON has them all. */
static void report_names(const char *what, const struct sweep_site *site, uint32_t n, bool visited,
			 FILE *out)
{
	uint32_t listed = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (site[i].hits || (site[i].visits != 0) != visited || report_idle(&site[i]))
			continue;
		if (listed < REPORT_NAMES)
			fprintf(out, "%s%s", listed ? " " : what, site[i].name);
		listed++;
	}
	if (listed > REPORT_NAMES)
		fprintf(out, " and %u more", listed - REPORT_NAMES);
	if (listed)
		fputc('\n', out);
}

static void report_sites(const char *what, const char *done, const struct sweep_site *site,
			 uint32_t n, FILE *out)
{
	uint32_t hit = 0, idle = 0;

	for (uint32_t i = 0; i < n; i++) {
		hit += site[i].hits != 0;
		idle += report_idle(&site[i]);
	}
	if (!n)
		return;
	fprintf(out, "%s: %u of %u %s", what, hit, n - idle, done);
	if (idle)
		fprintf(out, " (%u more are idle: doppel faults has the reasons)", idle);
	fputc('\n', out);
	report_names("  passed by, never taken: ", site, n, true, out);
	report_names("  never reached: ", site, n, false, out);
}

static void report_collectives(const struct sweep_result *r, FILE *out)
{
	fprintf(out, "collectives:");
	for (uint32_t i = 0; i < lab_collectives_n; i++)
		if (r->collective[i])
			fprintf(out, " %s %" PRIu64, lab_collectives[i].name, r->collective[i]);
	fputc('\n', out);
}

void sweep_print(const struct sweep_config *c, const struct sweep_result *r, FILE *out)
{
	char vtime[32];

	for (uint32_t i = 0; i < r->failure_n; i++)
		sweep_print_seed(&r->failure[i], out);
	report_verdicts(r, out);
	if (r->killed)
		fprintf(out, "%" PRIu64 " seeds had a process killed by the plan\n", r->killed);
	sim_format_ns(vtime, r->virtual_ns);
	fprintf(out,
		"%.1f seeds/s, %.1f s; %s of virtual time, %.2f M steps, %.2f M task switches\n",
		report_rate(r->seeds, r->wall_ns), (double)r->wall_ns / 1e9, vtime,
		(double)r->steps / 1e6, (double)r->switches / 1e6);
	report_collectives(r, out);
	fprintf(out, "strategies:");
	for (uint32_t i = 0; i < SWEEP_STRATEGIES && r->strategy[i].name[0]; i++)
		fprintf(out, " %s %" PRIu64, r->strategy[i].name, r->strategy[i].seeds);
	fprintf(out, "; %" PRIu64 " seeds run twice\n", r->twice);
	report_sites("rare paths", "taken", r->buggify, r->buggify_n, out);
	report_sites("fault sites", "taken", r->fault, r->fault_n, out);
	report_sites("probes", "reached", r->probe, r->probe_n, out);
	if (r->unrecorded)
		fprintf(out, "not recorded, for want of room in %s: %" PRIu64 " failures\n",
			c->fail_dir, r->unrecorded);
	if (c->canary)
		fprintf(out, "canaries: %" PRIu64 " planted, %" PRIu64 " found\n", r->canaries,
			r->canaries_found);
}

static void report_json_text(const char *key, const char *text, FILE *out)
{
	fprintf(out, "\"%s\":\"", key);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc((uint8_t)*text < ' ' ? ' ' : *text, out);
	}
	fputc('"', out);
}

static void report_json_seed(const struct sweep_seed *s, FILE *out)
{
	fprintf(out,
		"{\"seed\":\"0x%" PRIx64 "\",\"code\":%d,\"ranks\":%u,\"rank\":%d,"
		"\"step\":%" PRIu64 ",\"vtime_ns\":%" PRIu64 ",\"hash\":\"%016" PRIx64 "\","
		"\"canary\":%s,\"collective\":\"%s\",",
		s->seed, sweep_seed_code(s), s->nranks, s->failure.rank, s->failure.step,
		s->failure.vtime_ns, s->failure.hash, s->canary ? "true" : "false",
		lab_collectives[s->collective].name);
	report_json_text("kind", s->failure.kind, out);
	fputc(',', out);
	report_json_text("message", s->failure.message, out);
	fputc(',', out);
	report_json_text("dir", s->kept ? s->dir : "", out);
	fputc('}', out);
}

/* name: [visits, hits] */
static void report_json_sites(const char *key, const struct sweep_site *site, uint32_t n, FILE *out)
{
	fprintf(out, "\"%s\":{", key);
	for (uint32_t i = 0; i < n; i++)
		fprintf(out, "%s\"%s\":[%" PRIu64 ",%" PRIu64 "]", i ? "," : "", site[i].name,
			site[i].visits, site[i].hits);
	fputc('}', out);
}

void sweep_print_json(const struct sweep_config *c, const struct sweep_result *r, FILE *out)
{
	fprintf(out,
		"{\"commit\":\"%s\",\"first\":\"0x%" PRIx64 "\",\"seeds\":%" PRIu64
		",\"passed\":%" PRIu64 ",\"seconds\":%.3f,\"virtual_ns\":%" PRIu64
		",\"steps\":%" PRIu64 ",\"switches\":%" PRIu64 ",\"twice\":%" PRIu64
		",\"killed\":%" PRIu64 ",\"unrecorded\":%" PRIu64
		",\"signal\":%d,\"code\":%d,\"canaries\":[%" PRIu64 ",%" PRIu64
		"],\"build\":\"%s\",\"campaign\":\"%08x\",\"shard\":[%u,%u],\"count\":%" PRIu64
		",\n\"failures\":[",
		build_commit(), c->first, r->seeds, r->passed, (double)r->wall_ns / 1e9,
		r->virtual_ns, r->steps, r->switches, r->twice, r->killed, r->unrecorded, r->signal,
		sweep_exit_code(r), r->canaries, r->canaries_found, build_id(), c->campaign,
		c->shard, c->shards, c->count);
	for (uint32_t i = 0; i < r->failure_n; i++) {
		fputs(i ? ",\n" : "\n", out);
		report_json_seed(&r->failure[i], out);
	}
	fprintf(out, "],\n\"collectives\":{");
	for (uint32_t i = 0; i < lab_collectives_n; i++)
		fprintf(out, "%s\"%s\":%" PRIu64, i ? "," : "", lab_collectives[i].name,
			r->collective[i]);
	fprintf(out, "},\n\"strategies\":{");
	for (uint32_t i = 0; i < SWEEP_STRATEGIES && r->strategy[i].name[0]; i++)
		fprintf(out, "%s\"%s\":%" PRIu64, i ? "," : "", r->strategy[i].name,
			r->strategy[i].seeds);
	fprintf(out, "},\n");
	report_json_sites("buggify", r->buggify, r->buggify_n, out);
	fprintf(out, ",\n");
	report_json_sites("faults", r->fault, r->fault_n, out);
	fprintf(out, ",\n");
	report_json_sites("probes", r->probe, r->probe_n, out);
	fprintf(out, "}\n");
}
