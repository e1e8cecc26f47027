/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The graphs of public machines beside those that NCCL computes for them (zoo/search/graphs.tsv).
 * Skipped where the folder is not there. A row is a machine, a scope (one host, several) and a
 * pattern; it is equal when number of channels, speeds, types, same_channels and cross_nic are.
 * Another order of GPUs in a channel is an equally good result: it is counted and does not fail. A
 * row without channels (CollNet of a machine whose NICs do not reduce, NVLS without NVSwitches)
 * must be without channels here, and is no evidence of a search: counted apart.
 */
#include <ctype.h>
#include <unistd.h>

#include "core/base/xml.h"
#include "tests/unit/topo/topo_util.h"

#define FOLDER ZOO "search/"

/* Differences that are meant, each with its reason. */
static const struct {
	const char *machine, *scope, *pattern, *reason;
} allowed[] = {
	{NULL, NULL, NULL, NULL},
};

struct row {
	char machine[128], scope[8], release[8], pattern[20];
	int channels, same, cross;
	uint32_t intra, inter;
	char type_intra[8], type_inter[8];
	char *order;
};

static uint32_t milli(double gbps)
{
	return (uint32_t)(gbps * 1000 + 0.5);
}

static bool row_parse(char *line, struct row *r)
{
	double intra, inter;
	int at = 0;

	line[strcspn(line, "\r\n")] = '\0';
	if (sscanf(line, "%127s %7s %7s %19s %d %lf %lf %7s %7s %d %d%n", r->machine, r->scope,
		   r->release, r->pattern, &r->channels, &intra, &inter, r->type_intra,
		   r->type_inter, &r->same, &r->cross, &at) != 11)
		return false;
	r->intra = milli(intra);
	r->inter = milli(inter);
	r->order = line + at;
	while (isspace((unsigned char)*r->order))
		r->order++;
	return true;
}

/* ---- machines ------------------------------------------------------------------------------- */

static void select_gpus(const struct xml_node *x, struct topo_select *select)
{
	for (struct xml_node *c = xml_child(x, NULL); c; c = xml_next(c, NULL)) {
		if (strcmp(c->name, "gpu") == 0 && select->count < TOPO_MAX_LOCAL)
			snprintf(select->gpu[select->count++].bus_id, sizeof select->gpu[0].bus_id,
				 "%s", xml_attr(x, "busid"));
		select_gpus(c, select);
	}
}

static const struct topo_system *machine_system(const char *machine)
{
	static char last[128];
	static const struct topo_system *sys;
	char path[512];
	struct topo_select select = {0};
	struct xml_error error;
	struct xml_doc *doc;

	if (strcmp(last, machine) == 0)
		return sys;
	snprintf(last, sizeof last, "%s", machine);
	snprintf(path, sizeof path, FOLDER "%s", machine);
	char *xml = util_read(path);
	ck_assert_msg(xml_parse(xml, strlen(xml), machine, &doc, &error) == 0, "%s", error.text);
	select_gpus(xml_root(doc), &select);
	xml_free(doc);
	ck_assert_msg(topo_system_get(xml, strlen(xml), machine, &select, &sys) == ncclSuccess,
		      "%s: %s", machine, log_last_error());
	free(xml);
	return sys;
}

/* ---- one row -------------------------------------------------------------------------------- */

static enum topo_pattern pattern_of(const char *name)
{
	enum topo_pattern p = TOPO_RING;

	while (p < TOPO_SEARCHED_PATTERNS && strcmp(topo_pattern_name(p), name) != 0)
		p++;
	ck_assert_msg(p < TOPO_SEARCHED_PATTERNS, "pattern %s", name);
	return p;
}

static struct row row_of(const struct row *expected, const struct topo_graph *g)
{
	struct row r = *expected;

	r.channels = g->nchannels;
	r.intra = g->bw_intra_mbps;
	r.inter = g->bw_inter_mbps;
	r.same = g->same_channels;
	r.cross = g->cross_nic;
	snprintf(r.type_intra, sizeof r.type_intra, "%s",
		 topo_path_name((enum topo_path_type)g->type_intra));
	snprintf(r.type_inter, sizeof r.type_inter, "%s",
		 topo_path_name((enum topo_path_type)g->type_inter));
	return r;
}

/* 0.12 / 2 and the like are printed with few digits. */
static bool near(uint32_t a, uint32_t b)
{
	return a + 1 >= b && b + 1 >= a;
}

static bool row_equal(const struct row *a, const struct row *b)
{
	return a->channels == b->channels && near(a->intra, b->intra) && near(a->inter, b->inter) &&
	       strcmp(a->type_intra, b->type_intra) == 0 &&
	       strcmp(a->type_inter, b->type_inter) == 0 && a->same == b->same &&
	       a->cross == b->cross;
}

static bool row_less(const struct row *mine, const struct row *nccl)
{
	return (uint64_t)mine->channels * (mine->intra + 1) <
		       (uint64_t)nccl->channels * nccl->intra ||
	       (uint64_t)mine->channels * (mine->inter + 1) <
		       (uint64_t)nccl->channels * nccl->inter;
}

static bool row_allowed(const struct row *r)
{
	for (int i = 0; allowed[i].machine; i++)
		if (strcmp(allowed[i].machine, r->machine) == 0 &&
		    strcmp(allowed[i].scope, r->scope) == 0 &&
		    strcmp(allowed[i].pattern, r->pattern) == 0)
			return true;
	return false;
}

static void row_print(const char *who, const struct row *r)
{
	printf("  %-5s %2d x %g/%g %s/%s same %d cross %d\n", who, r->channels, r->intra / 1000.0,
	       r->inter / 1000.0, r->type_intra, r->type_inter, r->same, r->cross);
}

/* "n0 0 1 n0;..." */
static bool order_equal(const struct row *r, const struct topo_graph *g,
			const struct topo_system *sys)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	for (int32_t c = 0; c < g->nchannels; c++) {
		fprintf(f, "%s", c ? ";" : "");
		if (g->nic[c][0] >= 0)
			fprintf(f, "n%d ", topo_net_node(sys, g->nic[c][0])->dev);
		for (int32_t i = 0; i < (g->shape == TOPO_SHAPE_NVLS ? 1 : sys->ngpus); i++)
			fprintf(f, "%s%d", i ? " " : "", g->order[c][i]);
		if (g->nic[c][1] >= 0)
			fprintf(f, " n%d", topo_net_node(sys, g->nic[c][1])->dev);
	}
	fclose(f);
	bool equal = strcmp(text, r->order) == 0;
	if (!equal && getenv("TOPO_ORDER"))
		printf("order of %s %s %s:\n  nccl %s\n  here %s\n", r->machine, r->scope,
		       r->pattern, r->order, text);
	free(text);
	return equal;
}

struct tally {
	int rows, equal, order, meant, less, unexpected; /* rows with channels */
	int empty;
};

static void tally_empty(struct tally *t, const struct row *nccl, const struct topo_graph *g)
{
	t->empty++;
	if (!g->nchannels)
		return;
	printf("%s %s %s: %d channels, NCCL has none\n", nccl->machine, nccl->scope, nccl->pattern,
	       g->nchannels);
	t->unexpected++;
}

static void tally_row(struct tally *t, const struct row *nccl)
{
	const struct topo_system *sys = machine_system(nccl->machine);
	struct topo_graph g;

	ck_assert_msg(topo_search(sys, pattern_of(nccl->pattern), strcmp(nccl->scope, "inter") == 0,
				  &g) == ncclSuccess,
		      "%s: %s", nccl->machine, log_last_error());
	if (!nccl->channels) {
		tally_empty(t, nccl, &g);
		return;
	}
	struct row mine = row_of(nccl, &g);
	t->rows++;
	if (row_equal(&mine, nccl)) {
		t->equal++;
		t->order += order_equal(nccl, &g, sys);
		return;
	}
	bool less = row_less(&mine, nccl);
	bool meant = row_allowed(nccl) && !less;
	printf("%s %s %s%s%s\n", nccl->machine, nccl->scope, nccl->pattern, meant ? " (meant)" : "",
	       less ? ": LESS" : "");
	row_print("NCCL", nccl);
	row_print("here", &mine);
	t->less += less;
	t->meant += meant;
	t->unexpected += !meant;
}

static struct tally tally_release(const char *release)
{
	FILE *f = fopen(FOLDER "graphs.tsv", "r");
	struct tally t = {0};
	static char line[65536];
	struct row r;

	ck_assert(f != NULL);
	while (fgets(line, sizeof line, f))
		if (row_parse(line, &r) && strcmp(r.release, release) == 0)
			tally_row(&t, &r);
	fclose(f);
	printf("NCCL %s: %d graphs with channels, %d equal (%.1f %%), of these %d in order too; %d "
	       "other as meant, %d of less bandwidth; %d without channels\n",
	       release, t.rows, t.equal, 100.0 * t.equal / t.rows, t.order, t.meant, t.less,
	       t.empty);
	return t;
}

START_TEST(graphs_are_those_of_nccl_2_30)
{
	struct tally t = tally_release("2.30.7");

	ck_assert_int_ge(t.rows, 140);
	ck_assert_int_eq(t.less, 0);
	ck_assert_int_eq(t.unexpected, 0);
	ck_assert_int_ge(100 * t.equal, 98 * t.rows);
}
END_TEST

/* All machines, those too that NCCL 2.30.7 did not take. The rows of 2.28.9 were made without PXN:
 * none has its path. */
START_TEST(graphs_are_those_of_nccl_2_28)
{
	setenv("NCCL_TOPO_COMPAT", "2.28", 1);
	setenv("NCCL_PXN_DISABLE", "1", 1);
	struct tally t = tally_release("2.28.9");

	ck_assert_int_eq(t.rows, 156);
	ck_assert_int_eq(t.equal, t.rows);
	ck_assert_int_eq(t.unexpected, 0);
}
END_TEST

/* Each row of 2.28.9: all machines. */
static void each_row(void (*check)(const struct topo_system *sys, const struct row *r))
{
	FILE *f = fopen(FOLDER "graphs.tsv", "r");
	static char line[65536];
	struct row r;

	ck_assert(f != NULL);
	while (fgets(line, sizeof line, f))
		if (row_parse(line, &r) && strcmp(r.release, "2.28.9") == 0)
			check(machine_system(r.machine), &r);
	fclose(f);
}

static void check_bounds(const struct topo_system *sys, const struct row *r)
{
	util_check_bounds(sys, pattern_of(r->pattern), strcmp(r->scope, "inter") == 0, r->machine);
}

START_TEST(bounds_change_nothing)
{
	each_row(check_bounds);
}
END_TEST

static void check_speed(const struct topo_system *sys, const struct row *r)
{
	struct topo_graph g;

	ck_assert(topo_search(sys, pattern_of(r->pattern), strcmp(r->scope, "inter") == 0, &g) ==
		  ncclSuccess);
	ck_assert_msg(g.nchannels == 0 || g.bw_intra_mbps > 100, "%s %s %s", r->machine, r->scope,
		      r->pattern);
}

START_TEST(no_machine_is_at_the_last_resort)
{
	each_row(check_speed);
}
END_TEST

int main(void)
{
	if (access(FOLDER "graphs.tsv", R_OK) != 0) {
		printf("skipped: no folder " FOLDER "\n");
		return 77;
	}
	Suite *suite = suite_create("topo_graphs");
	TCase *t = tcase_create("graphs");
	suite_add_tcase(suite, t);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, graphs_are_those_of_nccl_2_30);
	tcase_add_test(t, graphs_are_those_of_nccl_2_28);
	tcase_add_test(t, bounds_change_nothing);
	tcase_add_test(t, no_machine_is_at_the_last_resort);
	return util_run(suite);
}
