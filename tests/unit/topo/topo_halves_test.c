/* SPDX-License-Identifier: BSD-3-Clause */
/* The halves of a GPU (MLOPart), each one of its own: what they share, and what lies between
 * them. */
#include "core/topo/search/graph_file.h"
#include "tests/unit/topo/topo_xml.h"

/* A GPU in two halves, with the number `dev` of both, x16 at 32 GT/s, and what each half has
 * inside. */
static void split(int bus, int dev, const char *inside)
{
	add("<pci busid=\"0000:%02d:00.0\" class=\"0x030200\" link_speed=\"32 GT/s\" "
	    "link_width=\"16\">\n",
	    bus);
	for (int half = 0; half < 2; half++)
		add("<gpu dev=\"%d\" sm=\"100\" gdr=\"1\" mlopart=\"%d\">%s</gpu>\n", dev, half,
		    inside);
	add("</pci>\n");
}

#define TO_SWITCH "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>"
#define TO(bus)   "<nvlink target=\"0000:" bus ":00.0\" count=\"4\" tclass=\"0x030200\"/>"

/* With the first `halves`, which have the numbers of their GPUs. */
static const struct topo_system *end_halves(int32_t halves)
{
	struct topo_select select = {.count = halves};
	const struct topo_system *sys = NULL;

	for (int32_t i = 0; i < halves; i++)
		select.gpu[i].dev = i / 2;
	add("</system>");
	ck_assert_msg(topo_system_get(xml, strlen(xml), "test.xml", &select, &sys) == ncclSuccess,
		      "%s", log_last_error());
	return sys;
}

/* Two GPUs in halves: four. */
static void two_on_switches(void)
{
	begin();
	cpu(0, INTEL);
	split(11, 0, TO_SWITCH);
	split(12, 1, TO_SWITCH);
	nic(0, 400000, "");
	add("</cpu>");
}

static uint32_t link_mbps(const struct topo_system *sys, int32_t gpu, enum topo_path_type type)
{
	uint32_t mbps = 0;

	for (int32_t i = 0; i < topo_edge_count(sys); i++) {
		struct topo_edge edge;

		topo_edge_get(sys, i, &edge);
		if (edge.from == topo_element_of_gpu(sys, gpu) && edge.type == type)
			mbps += edge.mbps;
	}
	return mbps;
}

START_TEST(halves_are_gpus_next_to_each_other)
{
	two_on_switches();
	const struct topo_system *sys = end_halves(4);
	struct topo_element e;

	ck_assert_int_eq(topo_gpu_count(sys), 4);
	for (int32_t i = 0; i < 4; i++) {
		topo_element_get(sys, topo_element_of_gpu(sys, i), &e);
		ck_assert_int_eq(e.half, 1 + i % 2);
		ck_assert_int_eq(e.dev, i / 2);
		ck_assert_int_eq(topo_gpu_path(sys, i, i ^ 1), TOPO_PATH_LOC);
		ck_assert_uint_eq(topo_gpu_bw_mbps(sys, i, i ^ 1), 2618000);
		ck_assert_int_eq(topo_gpu_path(sys, i, i ^ 2), TOPO_PATH_NVL);
		ck_assert(topo_p2p_ok(sys, i, i ^ 1) && topo_p2p_ok(sys, i, i ^ 2));
		/* each has half of the NVLinks and all of the PCI link */
		ck_assert_uint_eq(link_mbps(sys, i, TOPO_PATH_NVL), 9 * 40100);
		ck_assert_uint_eq(link_mbps(sys, i, TOPO_PATH_PIX), 48000);
		ck_assert_int_eq(topo_nic_path(sys, i, 0), TOPO_PATH_PHB);
	}
}
END_TEST

START_TEST(one_half_in_use_has_all_the_links)
{
	struct topo_select three = {.count = 3,
				    .gpu = {{"0000:11:00.0", 0}, {"0000:12:00.0", 1}, {"", 1}}};
	const struct topo_system *sys;

	two_on_switches();
	add("</system>");
	ck_assert(topo_system_get(xml, strlen(xml), "test.xml", &three, &sys) == ncclSuccess);
	ck_assert_uint_eq(link_mbps(sys, 0, TOPO_PATH_NVL), 18 * 40100);
	ck_assert_uint_eq(link_mbps(sys, 1, TOPO_PATH_NVL), 9 * 40100);
	ck_assert_int_eq(topo_gpu_path(sys, 1, 2), TOPO_PATH_LOC);
	ck_assert_int_eq(topo_gpu_path(sys, 0, 1), TOPO_PATH_NVL);
}
END_TEST

START_TEST(a_third_rank_on_two_halves_is_refused)
{
	struct topo_select select = {
		.count = 3, .gpu = {{"0000:11:00.0", 0}, {"0000:11:00.0", 0}, {"0000:11:00.0", 0}}};

	two_on_switches();
	add("</system>");
	util_refuse(xml, &select,
		    (const char *[]){"test.xml:3", "0000:11:00.0",
				     "local ranks 0 and 2; expected one for each", NULL});
}
END_TEST

START_TEST(links_between_halves_of_two_gpus_are_shared_at_both_ends)
{
	begin();
	cpu(0, INTEL);
	split(11, 0, TO("12") TO("11"));
	split(12, 1, TO("11") TO("99"));
	add("</cpu>");
	const struct topo_system *sys = end_halves(4);
	struct topo_element e;

	for (int32_t i = 0; i < 4; i++) {
		ck_assert_int_eq(topo_gpu_path(sys, i, i ^ 2), TOPO_PATH_NVL);
		ck_assert_uint_eq(topo_gpu_bw_mbps(sys, i, i ^ 2), 4 * 40100 / 2 / 2);
		ck_assert_uint_eq(topo_gpu_bw_mbps(sys, i, i ^ 1), 2618000);
		topo_element_get(sys, topo_element_of_gpu(sys, i), &e);
		ck_assert_int_eq(e.lost, i < 2 ? 0 : 4);
	}
}
END_TEST

/* Each half may use the whole link, but both together may not: it is one link below a bridge. */
START_TEST(halves_share_the_c2c_link)
{
	begin();
	cpu(0, ARM);
	split(11, 0, "<c2c bw=\"45000\" count=\"10\"/>");
	add("</cpu>");
	const struct topo_system *sys = end_halves(2);
	uint32_t to_cpu = 0;
	int32_t bridges = 0;

	for (int32_t i = 0; i < topo_edge_count(sys); i++) {
		struct topo_edge edge;
		struct topo_element from, to;

		topo_edge_get(sys, i, &edge);
		topo_element_get(sys, edge.from, &from);
		topo_element_get(sys, edge.to, &to);
		if (edge.type == TOPO_PATH_C2C && to.type == TOPO_NODE_CPU)
			to_cpu += edge.mbps;
		bridges += edge.type == TOPO_PATH_C2C && to.type == TOPO_NODE_C2C &&
			   from.type == TOPO_NODE_GPU;
	}
	ck_assert_uint_eq(to_cpu, 450000);
	ck_assert_int_eq(bridges, 2);
	for (int32_t pos = 0; pos < 2; pos++) {
		const struct topo_path *p = topo_path_at(sys, pos, topo_end_cpu(sys, 0));

		ck_assert_int_eq(p->type, TOPO_PATH_C2C);
		ck_assert_uint_eq(p->bw_mbps, 450000);
	}
}
END_TEST

/* Inside a host and between hosts; a graph's text distinguishes halves of one number. */
START_TEST(rings_go_through_both_halves)
{
	static char text[1 << 16];
	struct topo_graph_file *file = NULL;
	bool found;

	two_on_switches();
	const struct topo_system *sys = end_halves(4);

	for (int inter = 0; inter < 2; inter++) {
		struct topo_graph g, again;

		ck_assert(topo_search(sys, TOPO_RING, inter, &g) == ncclSuccess);
		util_check_graph(sys, &g, inter);
		ck_assert_int_eq(g.type_intra, TOPO_PATH_NVL);
		ck_assert_uint_lt(
			topo_graphs_xml(sys, (struct topo_graph *[]){&g}, 1, text, sizeof text),
			sizeof text);
		ck_assert_ptr_nonnull(strstr(text, "<gpu dev=\"0x1\" mlopart=\"1\"/>"));
		ck_assert(topo_graph_file_read(text, strlen(text), "graph.xml", &file) ==
			  ncclSuccess);
		ck_assert_msg(topo_graph_file_match(file, sys, TOPO_RING, inter, &again, &found) ==
				      ncclSuccess,
			      "%s", log_last_error());
		ck_assert(found && again.nchannels == g.nchannels);
		for (int32_t c = 0; c < g.nchannels; c++)
			ck_assert(memcmp(again.order[c], g.order[c], 4 * sizeof g.order[0][0]) ==
				  0);
		topo_graph_file_free(file);
	}
	util_check_bounds(sys, TOPO_RING, false, "halves");
	util_check_bounds(sys, TOPO_TREE, true, "halves");
}
END_TEST

/* One more rank of a GPU is not another GPU, nor is a half that is there. */
START_TEST(what_is_not_a_half_is_taken_as_one_gpu)
{
	static const char *const second[] = {"", "mlopart=\"-1\"", "mlopart=\"0\""};

	for (size_t i = 0; i < ARRAY_LEN(second); i++) {
		begin();
		cpu(0, INTEL);
		add("<pci busid=\"0000:11:00.0\"><gpu dev=\"0\" sm=\"100\" %s>" TO_SWITCH "</gpu>"
		    "<gpu dev=\"0\" sm=\"100\" %s>" TO_SWITCH "</gpu></pci></cpu>",
		    i == 2 ? "mlopart=\"0\"" : "", second[i]);
		ck_assert_uint_eq(link_mbps(end(1), 0, TOPO_PATH_NVL), 18 * 40100);
	}
	begin();
	cpu(0, INTEL);
	add("<pci busid=\"0000:11:00.0\"><gpu dev=\"0\" mlopart=\"0\"/>\n"
	    " <gpu dev=\"0\" mlopart=\"2\"/></pci></cpu></system>");
	struct topo_select one = util_first(1);

	util_refuse(xml, &one,
		    (const char *[]){"test.xml:4:2", "<gpu>", "mlopart=\"2\"", "expected -1 to 1",
				     NULL});
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("topo_halves");
	TCase *t = tcase_create("halves");

	suite_add_tcase(suite, t);
	tcase_add_test(t, halves_are_gpus_next_to_each_other);
	tcase_add_test(t, one_half_in_use_has_all_the_links);
	tcase_add_test(t, a_third_rank_on_two_halves_is_refused);
	tcase_add_test(t, links_between_halves_of_two_gpus_are_shared_at_both_ends);
	tcase_add_test(t, halves_share_the_c2c_link);
	tcase_add_test(t, rings_go_through_both_halves);
	tcase_add_test(t, what_is_not_a_half_is_taken_as_one_gpu);
	return util_run(suite);
}
