/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel sweep-merge: reads what `doppel sweep --shard K/N --json FILE` wrote, N times, and reports
 * the sum as one sweep does. The files come from other machines and are checked. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/macros.h"
#include "sim/cli/cli.h"
#include "sim/cli/report/report_json.h"
#include "sim/cli/rules.h"
#include "sim/engine/base/output.h"
#include "sim/lab/explore/sweep.h"

enum { MERGE_FILES_MOST = 10000, MERGE_BYTES_MOST = 256 << 20 };

struct merge {
	const char *json;
	char **file;
	int files;
	/* of the first file; the others must have the same */
	char campaign[16], build[24];
	uint32_t shards;
	const char **by_shard; /* the file of each shard; NULL: none yet */
	struct sweep_config config;
	struct sweep_result sum;
};

static const struct argp_option merge_argp_options[] = {
	{"json", 'J', "FILE", 0, "write the summary and the failures (default: none)", 0},
	{0},
};

static error_t merge_parse(int key, char *arg, struct argp_state *state)
{
	struct merge *m = state->input;

	cli_take(state, merge_argp_options, NULL, key, arg);
	switch (key) {
	case 'J':
		m->json = arg;
		return 0;
	case ARGP_KEY_ARGS:
		m->file = state->argv + state->next;
		m->files = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state,
			   "which shards? the files of `doppel sweep --shard K/N --json FILE`");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- one file ------------------------------------------------------------------------------- */

static int merge_wrong(const char *file, const char *expected)
{
	fprintf(stderr, "doppel sweep-merge: %s: expected %s\n", file, expected);
	return EINVAL;
}

static uint64_t merge_number(const struct json *j, const struct json_node *node, const char *name)
{
	int64_t value = json_number(j, node, name, 0);

	return value > 0 ? (uint64_t)value : 0;
}

/* The i-th number of a list. */
static uint64_t merge_of_list(const struct json *j, const struct json_node *list, int i)
{
	const struct json_node *item = json_first(j, list);

	while (item && i--)
		item = json_next(j, item);
	if (!item || item->kind != JSON_NUMBER || item->text[0] == '-')
		return 0;
	return strtoull(item->text, NULL, 10);
}

static int merge_collective(const char *name)
{
	for (uint32_t i = 0; i < lab_collectives_n; i++)
		if (!strcmp(lab_collectives[i].name, name))
			return (int)i;
	return -1;
}

static bool merge_seed(const struct json *j, const struct json_node *f, struct sweep_seed *s)
{
	int code = (int)json_number(j, f, "code", 0);
	int collective = merge_collective(json_text(j, f, "collective", ""));
	struct sim_failure *found = &s->failure;

	s->seed = strtoull(json_text(j, f, "seed", "0"), NULL, 16);
	s->nranks = (uint32_t)merge_number(j, f, "ranks");
	s->canary = json_true(j, f, "canary");
	s->signal = code > SIM_BY_SIGNAL ? code - SIM_BY_SIGNAL : 0;
	s->outcome = code > SIM_BY_SIGNAL ? SIM_CRASH : (enum sim_verdict)code;
	s->collective = collective < 0 ? 0 : (uint32_t)collective;
	found->rank = (int32_t)json_number(j, f, "rank", -1);
	found->step = merge_number(j, f, "step");
	found->vtime_ns = merge_number(j, f, "vtime_ns");
	found->hash = strtoull(json_text(j, f, "hash", "0"), NULL, 16);
	snprintf(found->kind, sizeof found->kind, "%s", json_text(j, f, "kind", ""));
	snprintf(found->message, sizeof found->message, "%s", json_text(j, f, "message", ""));
	snprintf(s->dir, sizeof s->dir, "%s", json_text(j, f, "dir", ""));
	s->kept = s->dir[0] != '\0';
	return collective >= 0 && code > 0 && code < SIM_BY_SIGNAL + 64 &&
	       fail_severity(s->outcome) > 0;
}

static int merge_failures(const char *file, const struct json *j, struct sweep_result *r)
{
	const struct json_node *list = json_member(j, &j->node[0], "failures");
	uint32_t n = 0;

	for (const struct json_node *f = json_first(j, list); f; f = json_next(j, f))
		n++;
	r->failure = calloc((size_t)n + 1, sizeof *r->failure);
	if (!r->failure) {
		fprintf(stderr, "doppel sweep-merge: %s\n", strerror(ENOMEM));
		return ENOMEM;
	}
	for (const struct json_node *f = json_first(j, list); f; f = json_next(j, f))
		if (!merge_seed(j, f, &r->failure[r->failure_n++]))
			return merge_wrong(file, "failures with a code and a known collective");
	return 0;
}

static void merge_sites(const struct json *j, const char *name, struct sweep_site *site,
			uint32_t *n)
{
	const struct json_node *list = json_member(j, &j->node[0], name);

	for (const struct json_node *s = json_first(j, list); s && *n < SWEEP_SITES;
	     s = json_next(j, s)) {
		struct sweep_site *to = &site[(*n)++];

		snprintf(to->name, sizeof to->name, "%s", s->name ? s->name : "");
		to->visits = merge_of_list(j, s, 0);
		to->hits = merge_of_list(j, s, 1);
	}
}

static void merge_counts(const struct json *j, struct sweep_result *r)
{
	const struct json_node *root = &j->node[0];
	const struct json_node *canaries = json_member(j, root, "canaries");
	const struct json_node *list = json_member(j, root, "strategies");
	const struct json_node *seconds = json_member(j, root, "seconds");
	uint32_t n = 0;

	r->seeds = merge_number(j, root, "seeds");
	r->passed = merge_number(j, root, "passed");
	r->twice = merge_number(j, root, "twice");
	r->killed = merge_number(j, root, "killed");
	r->unrecorded = merge_number(j, root, "unrecorded");
	r->steps = merge_number(j, root, "steps");
	r->switches = merge_number(j, root, "switches");
	r->virtual_ns = merge_number(j, root, "virtual_ns");
	if (seconds && seconds->kind == JSON_NUMBER)
		r->wall_ns = (uint64_t)(MIN_OF(MAX_OF(atof(seconds->text), 0.0), 1e9) * 1e9);
	r->canaries = merge_of_list(j, canaries, 0);
	r->canaries_found = merge_of_list(j, canaries, 1);
	for (const struct json_node *s = json_first(j, list); s && n < SWEEP_STRATEGIES;
	     s = json_next(j, s), n++) {
		snprintf(r->strategy[n].name, sizeof r->strategy[n].name, "%s",
			 s->name ? s->name : "");
		r->strategy[n].seeds = merge_number(j, list, s->name ? s->name : "");
	}
	list = json_member(j, root, "collectives");
	for (uint32_t i = 0; i < lab_collectives_n; i++)
		r->collective[i] = merge_number(j, list, lab_collectives[i].name);
	merge_sites(j, "buggify", r->buggify, &r->buggify_n);
	merge_sites(j, "faults", r->fault, &r->fault_n);
	merge_sites(j, "probes", r->probe, &r->probe_n);
}

/* ---- shards --------------------------------------------------------------------------------- */

/* Takes the campaign of the first file; compares it with that of the others. */
static int merge_campaign(struct merge *m, const char *file, const struct json *j)
{
	const char *campaign = json_text(j, &j->node[0], "campaign", "");
	const char *build = json_text(j, &j->node[0], "build", "");
	uint64_t shards = merge_of_list(j, json_member(j, &j->node[0], "shard"), 1);

	if (!campaign[0] || !shards || shards > MERGE_FILES_MOST)
		return merge_wrong(file, "what `doppel sweep --shard K/N --json FILE` writes");
	if (!m->by_shard) {
		m->shards = (uint32_t)shards;
		m->by_shard = calloc(shards, sizeof *m->by_shard);
		if (!m->by_shard)
			return ENOMEM;
		snprintf(m->campaign, sizeof m->campaign, "%s", campaign);
		snprintf(m->build, sizeof m->build, "%s", build);
	}
	if (strcmp(m->campaign, campaign) != 0 || m->shards != shards)
		return merge_wrong(file, "the options and seeds of the first file");
	if (strcmp(m->build, build) != 0)
		return merge_wrong(file, "the build of the first file");
	return 0;
}

static int merge_take_shard(struct merge *m, const char *file, const struct json *j)
{
	uint64_t k = merge_of_list(j, json_member(j, &j->node[0], "shard"), 0);
	uint64_t seeds = merge_number(j, &j->node[0], "seeds");
	uint64_t count = merge_number(j, &j->node[0], "count");

	if (!k || k > m->shards)
		return merge_wrong(file, "the number of a shard");
	if (m->by_shard[k - 1]) {
		fprintf(stderr, "doppel sweep-merge: shard %" PRIu64 "/%u is in %s and in %s\n", k,
			m->shards, m->by_shard[k - 1], file);
		return EINVAL;
	}
	if (seeds != count) {
		fprintf(stderr,
			"doppel sweep-merge: shard %" PRIu64 "/%u (%s) ended after %" PRIu64
			" of %" PRIu64 " seeds; run it again\n",
			k, m->shards, file, seeds, count);
		return EINVAL;
	}
	if (k == 1)
		m->config.first = strtoull(json_text(j, &j->node[0], "first", "0"), NULL, 16);
	m->config.count += count;
	m->by_shard[k - 1] = file;
	return 0;
}

static int merge_shard(struct merge *m, const char *file, const struct json *j)
{
	static struct sweep_result shard;

	shard = (struct sweep_result){0};
	int rc = merge_campaign(m, file, j);
	if (!rc)
		rc = merge_take_shard(m, file, j);
	if (!rc)
		rc = merge_failures(file, j, &shard);
	if (!rc) {
		merge_counts(j, &shard);
		if (shard.seeds != shard.passed + shard.failure_n)
			rc = merge_wrong(file, "as many seeds as passed and failed");
	}
	if (!rc)
		sweep_merge(&m->sum, &shard);
	m->config.canary |= shard.canaries > 0;
	sweep_result_free(&shard);
	return rc;
}

/* Reads a file. NULL: explained. */
static char *merge_text(const char *file)
{
	FILE *f = fopen(file, "re");
	struct stat st = {0};
	char *text = NULL;

	if (f && !fstat(fileno(f), &st) && S_ISREG(st.st_mode) && st.st_size < MERGE_BYTES_MOST)
		text = malloc((size_t)st.st_size + 1);
	if (text)
		text[fread(text, 1, (size_t)st.st_size, f)] = '\0';
	else
		fprintf(stderr, "doppel sweep-merge: %s: %s\n", file,
			f ? "expected a file of at most 256 MiB" : strerror(errno));
	if (f)
		fclose(f);
	return text;
}

static int merge_file(struct merge *m, const char *file)
{
	char *text = merge_text(file);
	struct json j = {0};
	int rc = text ? json_read(&j, text) : EIO;

	if (rc == EINVAL || (!rc && j.node[0].kind != JSON_OBJECT))
		rc = merge_wrong(file, "JSON of a sweep; the file is damaged or cut off");
	else if (!rc)
		rc = merge_shard(m, file, &j);
	json_free(&j);
	free(text);
	return rc;
}

/* Names the shards that are missing, on one line. */
static int merge_missing(const struct merge *m)
{
	uint32_t missing = 0;

	for (uint32_t k = 0; k < m->shards; k++)
		if (!m->by_shard[k])
			fprintf(stderr, "%s %u",
				missing++ ? "," : "doppel sweep-merge: missing: shard", k + 1);
	if (missing)
		fprintf(stderr, " of %u\n", m->shards);
	return missing ? EINVAL : 0;
}

static int merge_write_json(const struct merge *m)
{
	FILE *f = m->json ? output_open("doppel sweep-merge: --json", m->json) : NULL;

	if (!m->json)
		return 0;
	if (!f)
		return EIO;
	sweep_print_json(&m->config, &m->sum, f);
	return output_close(f, "doppel sweep-merge: --json", m->json);
}

static int merge_run(struct merge *m)
{
	int rc = 0;

	sweep_config_default(&m->config);
	m->config.count = 0;
	for (int i = 0; i < m->files && !rc; i++)
		rc = merge_file(m, m->file[i]);
	if (!rc)
		rc = merge_missing(m);
	if (rc)
		return SIM_USAGE;
	m->config.campaign = (uint32_t)strtoul(m->campaign, NULL, 16);
	sweep_merge_end(&m->sum);
	sweep_print(&m->config, &m->sum, stdout);
	fflush(stdout);
	int code = sweep_exit_code(&m->sum);
	return merge_write_json(m) && code == SIM_PASS ? SIM_USAGE : code;
}

int cli_sweep_merge(int argc, char **argv)
{
	static const struct argp argp = {
		.options = merge_argp_options,
		.parser = merge_parse,
		.args_doc = "FILE...",
		.doc = "Adds up the shards of a sweep, from the files that `doppel sweep --shard "
		       "K/N --json FILE` wrote. The result is that of one sweep over all seeds. "
		       "A shard that is missing, is there twice, or ended early is named.\vExit "
		       "status: that of the worst finding; 1 when the shards are not complete.",
	};
	static struct merge m;

	m = (struct merge){0};
	cli_parse(&argp, 0, argc, argv, &m);
	int code = merge_run(&m);
	sweep_result_free(&m.sum);
	free(m.by_shard);
	return code;
}
