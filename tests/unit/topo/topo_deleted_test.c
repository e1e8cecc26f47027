/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every machine, and every file of graphs, with any one line deleted, and with any one attribute
 * deleted: no crash, no search above a second of CPU time, and a refusal has a sentence. A template
 * that names no GPUs is read with the GPUs of a host that has some in these places. Some lines and
 * attributes of each file, which the commit draws, or all:
 *
 *	topo_deleted_test all
 *
 * Files of the folder of public machines are left out where it is not there.
 */
#include <glob.h>
#include <time.h>

#include "core/topo/search/graph_file.h"
#include "tests/sample.h"
#include "tests/unit/topo/topo_random.h"
#include "tests/unit/topo/topo_util.h"

#define DRAWN_OF_A_FILE 3
#define LONGEST_NS      1000000000ull

static glob_t files, graphs;
static bool all;
static uint64_t drawn;

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- which GPUs are in use ------------------------------------------------------------------ */

static int32_t count_of(const char *text, const char *word)
{
	int32_t n = 0;

	for (; (text = strstr(text, word)); text++)
		n++;
	return n;
}

/* Every fourth function that nothing describes, as in a template whose switches have a GPU and
 * NICs. */
static struct topo_select select_bare(const char *xml)
{
	struct topo_select select = {0};
	int32_t bare = 0;

	for (const char *at = xml; (at = strstr(at, "<pci busid=\"")) && select.count < 8; at++) {
		const char *end = strchr(at, '>');

		if (!end || end[-1] != '/' || bare++ % 4)
			continue;
		snprintf(select.gpu[select.count].bus_id, sizeof select.gpu[0].bus_id, "%.12s",
			 at + 12);
		select.gpu[select.count].dev = select.count;
		select.count++;
	}
	return select;
}

static struct topo_select select_of(const char *xml)
{
	int32_t gpus = MAX_OF(count_of(xml, "<gpu"), count_of(xml, " class=\"0x0302"));
	struct topo_select select = {.count = MIN_OF(gpus, 16)};

	if (gpus == 0)
		return select_bare(xml);
	for (int32_t i = 0; i < select.count; i++)
		select.gpu[i].dev = i;
	return select;
}

/* ---- one file ------------------------------------------------------------------------------- */

static void search(const struct topo_system *sys, enum topo_pattern pattern, bool inter,
		   const char *what)
{
	uint64_t before = cpu_ns();
	struct topo_graph g;

	ck_assert_msg(topo_search(sys, pattern, inter, &g) == ncclSuccess, "%s: %s", what,
		      log_last_error());
	uint64_t took = (cpu_ns() - before) / (SAMPLE_THIN > 1 ? 50 : 1);

	if (pattern <= TOPO_TREE)
		util_check_graph(sys, &g, inter);
	ck_assert_msg(took < LONGEST_NS, "%s: a search of %" PRIu64 " ms", what, took / 1000000);
}

/* True: it was read. */
static bool try_text(const char *xml, const struct topo_select *select, const char *what)
{
	const struct topo_system *sys = NULL;

	if (!select->count)
		return false;
	if (topo_system_get(xml, strlen(xml), "test.xml", select, &sys) != ncclSuccess) {
		ck_assert_msg(strstr(log_last_error(), "test.xml") != NULL, "%s: refused with '%s'",
			      what, log_last_error());
		return false;
	}
	for (int p = 0; p < TOPO_SEARCHED_PATTERNS; p++)
		for (int inter = 0; inter <= (topo_nic_count(sys) > 0); inter++)
			search(sys, (enum topo_pattern)p, inter != 0, what);
	return true;
}

/* A machine, with the GPUs of the whole file and with those that are left. */
static void try_machine(const char *text, const char *whole, const char *what)
{
	struct topo_select select = select_of(whole), fewer = select_of(text);

	try_text(text, &select, what);
	if (memcmp(&fewer, &select, sizeof select) != 0)
		try_text(text, &fewer, what);
}

static const struct topo_system *graph_of; /* whose graphs the file has */

/* Graphs that fit the machine, or a refusal. */
static void try_graphs(const char *text, const char *whole, const char *what)
{
	struct topo_graph_file *file;
	struct topo_graph g;
	bool refused = topo_graph_file_read(text, strlen(text), "test.xml", &file) != ncclSuccess;

	(void)whole;
	for (int p = TOPO_RING; p <= TOPO_TREE && !refused; p++) {
		bool found;

		refused = topo_graph_file_match(file, graph_of, (enum topo_pattern)p, false, &g,
						&found) != ncclSuccess;
		for (int32_t c = 0; !refused && found && c < g.nchannels; c++)
			for (int32_t i = 0; i < topo_gpu_count(graph_of); i++)
				UTIL_EXPECT(g.order[c][i] >= 0 &&
					    g.order[c][i] < topo_gpu_count(graph_of));
		if (refused)
			topo_graph_file_free(file);
	}
	ck_assert_msg(!refused || strstr(log_last_error(), "test.xml") != NULL,
		      "%s: refused with '%s'", what, log_last_error());
	if (!refused)
		topo_graph_file_free(file);
}

typedef void (*try_file)(const char *text, const char *whole, const char *what);

/* From `at` on, with what is deleted left out. */
static void try_without(const char *xml, const char *at, size_t bytes, const char *what,
			try_file try)
{
	size_t n = strlen(xml), first = (size_t)(at - xml);
	char *text = calloc(1, n + 1);

	memcpy(text, xml, first);
	memcpy(text + first, at + bytes, n - first - bytes);
	try(text, xml, what);
	free(text);
}

static bool is_drawn(uint64_t i, uint64_t of)
{
	uint64_t from = drawn % MAX_OF(of, 1u);

	return all || (i + of - from) % of < DRAWN_OF_A_FILE;
}

static void each_line(const char *xml, const char *path, try_file try)
{
	uint64_t lines = (uint64_t)count_of(xml, "\n"), i = 0;
	char what[512];

	for (const char *end, *at = xml; (end = strchr(at, '\n')); at = end + 1, i++) {
		if (!is_drawn(i, lines))
			continue;
		snprintf(what, sizeof what, "%s without line %" PRIu64, path, i + 1);
		try_without(xml, at, (size_t)(end + 1 - at), what, try);
	}
}

/* NAME="VALUE" with the space before it. */
static void each_attribute(const char *xml, const char *path, try_file try)
{
	uint64_t attributes = (uint64_t)count_of(xml, "=\""), i = 0;
	char what[512];

	for (const char *at = xml; (at = strstr(at, "=\"")); at++, i++) {
		const char *first = at, *end = strchr(at + 2, '"');

		while (first > xml && first[-1] != ' ' && first[-1] != '\n' && first[-1] != '\t')
			first--;
		if (!end || first == xml || !is_drawn(i, attributes))
			continue;
		snprintf(what, sizeof what, "%s without attribute %" PRIu64 ", %.*s", path, i,
			 (int)(at - first), first);
		try_without(xml, first, (size_t)(end + 1 - first), what, try);
	}
}

START_TEST(a_machine_without_a_line_or_an_attribute_is_read_or_refused)
{
	const char *path = files.gl_pathv[_i];
	char *xml = util_read(path);
	struct topo_select select = select_of(xml);

	ck_assert_msg(try_text(xml, &select, path), "%s with %d GPUs is refused: %s", path,
		      select.count, log_last_error());
	each_line(xml, path, try_machine);
	each_attribute(xml, path, try_machine);
	free(xml);
}
END_TEST

/* "FOLDER/expected/NAME.graph.xml" has those of "FOLDER/NAME.xml". */
START_TEST(graphs_without_a_line_or_an_attribute_are_read_or_refused)
{
	const char *path = graphs.gl_pathv[_i], *name = strrchr(path, '/') + 1;
	char machine[512], *xml = util_read(path);

	snprintf(machine, sizeof machine, ZOO "%.*s.xml", (int)strcspn(name, "."), name);
	char *text = util_read(machine);
	struct topo_select select = select_of(text);

	ck_assert(topo_system_get(text, strlen(text), machine, &select, &graph_of) == ncclSuccess);
	try_graphs(xml, xml, path);
	each_line(xml, path, try_graphs);
	each_attribute(xml, path, try_graphs);
	free(text);
	free(xml);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("topo_deleted");
	TCase *t = tcase_create("deleted");

	all = argc > 1 && strcmp(argv[1], "all") == 0;
	drawn = random_of_commit();
	glob(MACHINES "*.xml", 0, NULL, &files);
	glob(ZOO "*.xml", GLOB_APPEND, NULL, &files);
	glob(ZOO "search/*.xml", GLOB_APPEND, NULL, &files);
	glob(ZOO "expected/*.graph.xml", 0, NULL, &graphs);
	printf("%zu machines, %s\n", files.gl_pathc, all ? "all" : "a sample");
	if (files.gl_pathc == 0)
		return EXIT_FAILURE;
	suite_add_tcase(suite, t);
	tcase_set_timeout(t, all ? 600 : 60);
	tcase_add_loop_test(t, a_machine_without_a_line_or_an_attribute_is_read_or_refused, 0,
			    (int)files.gl_pathc);
	tcase_add_loop_test(t, graphs_without_a_line_or_an_attribute_are_read_or_refused, 0,
			    (int)graphs.gl_pathc);
	return util_run(suite);
}
