/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of graphs: what is printed is read again, and what does not fit a machine is refused. */
#include "core/topo/search/graph_file.h"
#include "tests/unit/topo/topo_util.h"

static char text[1 << 18];

static const char *print(const struct topo_system *sys, const struct topo_graph *g)
{
	FILE *out = fmemopen(text, sizeof text, "w");
	struct topo_graph copy = *g;

	topo_graph_print_xml(sys, (struct topo_graph *[]){&copy}, 1, out);
	fclose(out);
	return text;
}

static struct topo_graph_file *read_text(const char *xml)
{
	struct topo_graph_file *file = NULL;

	ck_assert_msg(topo_graph_file_read(xml, strlen(xml), "graph.xml", &file) == ncclSuccess,
		      "%s", log_last_error());
	return file;
}

static const struct {
	const char *machine;
	int32_t gpus;
} machine[] = {{MACHINES "h100-8nic.xml", 8},
	       {MACHINES "a100-4nic.xml", 8},
	       {MACHINES "a100-4nic.xml", 3},
	       {MACHINES "pcie-4gpu.xml", 4}};

START_TEST(a_printed_graph_is_read_again)
{
	const struct topo_system *sys = util_system(machine[_i].machine, machine[_i].gpus);
	struct topo_graph g, again;
	bool found;

	for (int inter = 0; inter < 2; inter++) {
		ck_assert(topo_search(sys, TOPO_RING, inter != 0, &g) == ncclSuccess);
		struct topo_graph_file *file = read_text(print(sys, &g));

		ck_assert_int_eq(file->count, 1);
		ck_assert_int_eq(file->graph[0].pattern, 4);
		ck_assert_msg(topo_graph_file_match(file, sys, TOPO_RING, inter != 0, &again,
						    &found) == ncclSuccess &&
				      found,
			      "%s", log_last_error());
		ck_assert_int_eq(again.nchannels, g.nchannels);
		ck_assert(again.bw_intra_mbps == g.bw_intra_mbps &&
			  again.bw_inter_mbps == g.bw_inter_mbps);
		ck_assert(again.type_intra == g.type_intra && again.type_inter == g.type_inter);
		ck_assert(again.same_channels == g.same_channels && again.cross_nic == g.cross_nic);
		ck_assert(memcmp(again.nic, g.nic, sizeof g.nic) == 0);
		for (int32_t c = 0; c < g.nchannels; c++)
			ck_assert(memcmp(again.order[c], g.order[c],
					 (size_t)machine[_i].gpus * sizeof g.order[0][0]) == 0);
		topo_graph_file_free(file);
	}
}
END_TEST

#define GRAPH(attributes, inside)                                                                  \
	"<graphs version=\"1\">\n<graph id=\"0\" pattern=\"4\" crossnic=\"0\" speedintra=\"20\" "  \
	"speedinter=\"20\" typeintra=\"NVL\" typeinter=\"PIX\" " attributes ">\n" inside           \
	"</graph></graphs>"

static const struct {
	const char *xml;
	const char *words[4];
} wrong[] = {
	{"<system/>", {"graph.xml:1:1", "<system>", "expected <graphs>"}},
	{"<graphs version=\"2\"/>", {"graph.xml:1:1", "version", "expected 1 to 1"}},
	{GRAPH("nchannels=\"2\"", "<channel/>"), {"graph.xml:2:1", "nchannels=\"2\", expected 1"}},
	{GRAPH("nchannels=\"99\"", ""), {"graph.xml:2:1", "nchannels=\"99\", expected 0 to 64"}},
	{GRAPH("nchannels=\"1\"", "<channel><gpu dev=\"-1\"/></channel>"),
	 {"graph.xml:3:10", "<gpu> dev=\"-1\"", "expected 0 to"}},
	{GRAPH("nchannels=\"1\"", "<channel><gpu/></channel>"), {"graph.xml:3:10", "has no dev"}},
	{"<graphs><graph typeintra=\"XYZ\"/></graphs>",
	 {"graph.xml:1:9", "typeintra=\"XYZ\"", "expected a type"}},
	{"<graphs><graph speedintra=\"fast\"/></graphs>",
	 {"graph.xml:1:9", "speedintra", "expected a number"}},
	{"<graphs><graph speedintra=\"99999\"/></graphs>",
	 {"graph.xml:1:9", "speedintra=\"99999\"", "expected 0 to 5000"}},
};

START_TEST(a_malformed_file_is_refused_with_its_place)
{
	struct topo_graph_file *file = NULL;

	ck_assert(topo_graph_file_read(wrong[_i].xml, strlen(wrong[_i].xml), "graph.xml", &file) ==
		  ncclInvalidUsage);
	ck_assert_ptr_null(file);
	for (int i = 0; wrong[_i].words[i]; i++)
		ck_assert_msg(strstr(log_last_error(), wrong[_i].words[i]), "'%s' is not in '%s'",
			      wrong[_i].words[i], log_last_error());
}
END_TEST

#define RING(nets, gpus) GRAPH("nchannels=\"1\"", "<channel>" nets gpus nets "</channel>")
#define GPU(n)           "<gpu dev=\"" #n "\"/>"
#define NET(n)           "<net dev=\"" #n "\"/>"

static const struct {
	const char *xml;
	bool inter;
	const char *words;
} other[] = {
	{RING("", GPU(0) GPU(1)), false, "has GPUs: 2, expected each GPU in use once"},
	{RING("", GPU(0) GPU(1) GPU(1) GPU(2)), false,
	 "<gpu> dev 1, expected each GPU in use once"},
	{RING("", GPU(0) GPU(1) GPU(2) GPU(9)), false, "<gpu> dev 9, expected each"},
	{RING(NET(5), GPU(0) GPU(1) GPU(2) GPU(3)), true, "<net> dev 5, expected a NIC"},
	{RING("", GPU(0) GPU(1) GPU(2) GPU(3)), true, "has NICs: 0, expected 2"},
	{RING(NET(0), GPU(0) GPU(1) GPU(2) GPU(3)), false, "has NICs: 2, expected none"},
	{RING(NET(0), GPU(0) NET(0) GPU(1) GPU(2) GPU(3)), true, "expected a NIC of this host"},
};

START_TEST(a_graph_of_another_machine_is_refused)
{
	const struct topo_system *sys = util_system(MACHINES "pcie-4gpu.xml", 4);
	struct topo_graph_file *file = read_text(other[_i].xml);
	struct topo_graph g;
	bool found;

	ck_assert(topo_graph_file_match(file, sys, TOPO_RING, other[_i].inter, &g, &found) ==
		  ncclInvalidUsage);
	ck_assert_msg(strstr(log_last_error(), other[_i].words) &&
			      strstr(log_last_error(), "graph.xml:3:1: <channel>"),
		      "'%s' is not in '%s'", other[_i].words, log_last_error());
	topo_graph_file_free(file);
}
END_TEST

START_TEST(a_file_without_rings_leaves_them_to_the_search)
{
	struct topo_graph_file *file =
		read_text("<graphs><graph id=\"1\" pattern=\"1\" typeintra=\"NVL\" "
			  "typeinter=\"PIX\" nchannels=\"0\"/></graphs>");
	struct topo_graph g;
	bool found = true;

	ck_assert(topo_graph_file_match(file, util_system(MACHINES "pcie-4gpu.xml", 4), TOPO_RING,
					false, &g, &found) == ncclSuccess);
	ck_assert(!found);
	topo_graph_file_free(file);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("topo_graph_file");
	TCase *t = tcase_create("graph_file");

	suite_add_tcase(suite, t);
	tcase_add_loop_test(t, a_printed_graph_is_read_again, 0, (int)ARRAY_LEN(machine));
	tcase_add_loop_test(t, a_malformed_file_is_refused_with_its_place, 0,
			    (int)ARRAY_LEN(wrong));
	tcase_add_loop_test(t, a_graph_of_another_machine_is_refused, 0, (int)ARRAY_LEN(other));
	tcase_add_test(t, a_file_without_rings_leaves_them_to_the_search);
	return util_run(suite);
}
