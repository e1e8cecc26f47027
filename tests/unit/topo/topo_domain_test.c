/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several hosts in one NVLink domain, as one file: their GPUs are one host's to the search,
 * whatever else belongs to the host that it is in.
 */
#include "core/topo/search/graph_file.h"
#include "tests/unit/topo/topo_xml.h"

/* Two GPUs and a NIC on each CPU of the host, with the bus ids and names that all hosts have. */
static void host(int number, const char *inside)
{
	add("<cpu host_hash=\"0x%x\" numaid=\"0\" " ARM ">\n", 0xabc0 + number);
	for (int i = 0; i < 2; i++)
		add("<pci busid=\"0000:%02d:00.0\" class=\"0x030200\" link_speed=\"32 GT/s\" "
		    "link_width=\"16\"><gpu dev=\"%d\" sm=\"100\" gdr=\"1\">%s</gpu></pci>\n",
		    11 + i, i, inside);
	nic(0, 400000, "");
	add("</cpu>\n");
}

#define TO_SWITCH "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>"
#define C2C       "<c2c bw=\"45000\" count=\"10\"/>"

static const struct topo_select four = {.count = 4,
					.gpu = {{"0000:11:00.0", 0},
						{"0000:12:00.0", 1},
						{"0000:11:00.0", 2},
						{"0000:12:00.0", 3}}};

static const struct topo_system *domain(const struct topo_select *select)
{
	const struct topo_system *sys = NULL;

	add("</system>");
	ck_assert_msg(topo_system_get(xml, strlen(xml), "test.xml", select, &sys) == ncclSuccess,
		      "%s", log_last_error());
	return sys;
}

static const struct topo_system *two_hosts(void)
{
	begin();
	host(0, TO_SWITCH C2C);
	host(1, TO_SWITCH C2C);
	return domain(&four);
}

START_TEST(gpus_of_all_hosts_are_on_the_nvswitch)
{
	const struct topo_system *sys = two_hosts();

	ck_assert_int_eq(sys->nhosts, 2);
	ck_assert_int_eq(topo_gpu_count(sys), 4);
	for (int32_t a = 0; a < 4; a++)
		for (int32_t b = 0; b < 4; b++) {
			ck_assert(topo_p2p_ok(sys, a, b));
			ck_assert_int_eq(topo_gpu_path(sys, a, b),
					 a == b ? TOPO_PATH_LOC : TOPO_PATH_NVL);
		}
}
END_TEST

/* A NIC, a CPU, and a GPU that sends for another one are the host's own. */
START_TEST(all_else_is_the_host_s_own)
{
	const struct topo_system *sys = two_hosts();

	ck_assert_int_eq(topo_nic_count(sys), 2);
	for (int32_t g = 0; g < 4; g++)
		for (int32_t n = 0; n < 2; n++) {
			const struct topo_path *p =
				topo_path_at(sys, sys->local_to_pos[g], topo_end_net(sys, n));
			const struct topo_path *cpu =
				topo_path_at(sys, sys->local_to_pos[g], topo_end_cpu(sys, n));

			ck_assert_int_eq(p->type, g / 2 == n ? TOPO_PATH_P2C : TOPO_PATH_DIS);
			ck_assert_int_eq(cpu->type, g / 2 == n ? TOPO_PATH_C2C : TOPO_PATH_DIS);
			ck_assert_int_eq(topo_gdr_ok(sys, g, n), g / 2 == n);
			ck_assert_int_eq(sys->gpu_cpu[sys->local_to_pos[g]], g / 2);
		}
	ck_assert_int_eq(topo_path_at(sys, topo_end_cpu(sys, 0), topo_end_cpu(sys, 1))->type,
			 TOPO_PATH_DIS);
}
END_TEST

START_TEST(rings_and_trees_go_over_all_hosts)
{
	const struct topo_system *sys = two_hosts();
	struct topo_graph g;

	for (int inter = 0; inter < 2; inter++) {
		ck_assert(topo_search(sys, TOPO_RING, inter, &g) == ncclSuccess);
		util_check_graph(sys, &g, inter);
		ck_assert_int_eq(g.type_intra, TOPO_PATH_NVL);
		ck_assert_uint_ge(g.bw_intra_mbps, inter ? 10000 : 40000);
		ck_assert(topo_search(sys, TOPO_TREE, inter, &g) == ncclSuccess);
		ck_assert_int_eq(g.type_intra, TOPO_PATH_NVL);
		util_check_bounds(sys, TOPO_RING, inter, "domain");
	}
}
END_TEST

/* Over CPUs, where p2p is not allowed, there is no way to another host: NVLink stays. */
START_TEST(without_p2p_hosts_are_joined_by_nvlink_still)
{
	setenv("NCCL_P2P_DISABLE", "1", 1);
	const struct topo_system *sys = two_hosts();

	ck_assert(!topo_p2p_ok(sys, 0, 1) && !topo_p2p_ok(sys, 0, 2));
	ck_assert_int_eq(topo_gpu_path(sys, 0, 1), TOPO_PATH_C2C);
	ck_assert_int_eq(topo_gpu_path(sys, 0, 2), TOPO_PATH_NVL);
}
END_TEST

/* Ranks of one host alone: the file's other hosts are not there. */
START_TEST(a_host_without_a_rank_is_left_out)
{
	const struct topo_select one = {.count = 2,
					.gpu = {{"0000:11:00.0", 0}, {"0000:12:00.0", 1}}};

	begin();
	host(0, "");
	host(1, "");
	const struct topo_system *sys = domain(&one);

	ck_assert_int_eq(sys->nhosts, 1);
	ck_assert_int_eq(topo_nic_count(sys), 1);
	ck_assert_int_eq(sys->ncpus, 1);
	ck_assert_int_eq(topo_gpu_path(sys, 0, 1), TOPO_PATH_PHB);
}
END_TEST

START_TEST(a_cpu_without_a_host_hash_is_of_the_host_before_it)
{
	begin();
	host(0, TO_SWITCH);
	add("<cpu numaid=\"1\" " ARM "><pci busid=\"0000:21:00.0\"><gpu dev=\"2\" sm=\"100\">"
	    "<nvlink target=\"0000:11:00.0\" count=\"2\" tclass=\"0x030200\"/></gpu></pci></cpu>");
	const struct topo_system *sys = end(3);

	ck_assert_int_eq(sys->nhosts, 1);
	ck_assert_int_eq(sys->one_way_links, 1); /* the target is the GPU of that host */
	ck_assert_int_eq(topo_path_at(sys, topo_end_cpu(sys, 0), topo_end_cpu(sys, 1))->type,
			 TOPO_PATH_SYS);
}
END_TEST

START_TEST(what_hosts_cannot_be_is_refused)
{
	begin();
	host(0, TO_SWITCH);
	host(1, "");
	add("</system>");
	util_refuse(xml, &four,
		    (const char *[]){"test.xml:8", "0000:11:00.0", "no NVLink to an NVSwitch",
				     "GPUs are of 2 hosts", NULL});
	begin();
	host(0, TO_SWITCH);
	host(1, TO_SWITCH);
	host(1, TO_SWITCH);
	add("</system>");
	util_refuse(xml, &four,
		    (const char *[]){"test.xml:12:1", "<cpu>",
				     "numaid=\"0\" is also that of line 7", NULL});
	begin();
	for (int i = 0; i < 70; i++)
		add("<cpu host_hash=\"0x%x\"/>\n", i);
	add("</system>");
	util_refuse(
		xml, &four,
		(const char *[]){"test.xml:66:1", "one host too many, expected at most 64", NULL});
}
END_TEST

/* GPUs and NICs have the same numbers on each host. */
START_TEST(a_graph_s_text_names_the_host)
{
	static char text[1 << 16];
	const struct topo_system *sys = two_hosts();
	struct topo_graph_file *file = NULL;
	struct topo_graph g, again;
	bool found;

	ck_assert(topo_search(sys, TOPO_RING, true, &g) == ncclSuccess);
	ck_assert_uint_lt(topo_graphs_xml(sys, (struct topo_graph *[]){&g}, 1, text, sizeof text),
			  sizeof text);
	ck_assert_ptr_nonnull(strstr(text, "<gpu dev=\"0x1\" host=\"1\"/>"));
	ck_assert(topo_graph_file_read(text, strlen(text), "graph.xml", &file) == ncclSuccess);
	ck_assert_msg(topo_graph_file_match(file, sys, TOPO_RING, true, &again, &found) ==
			      ncclSuccess,
		      "%s", log_last_error());
	ck_assert(found && memcmp(again.nic, g.nic, sizeof g.nic) == 0);
	for (int32_t c = 0; c < g.nchannels; c++)
		ck_assert(memcmp(again.order[c], g.order[c], 4 * sizeof g.order[0][0]) == 0);
	topo_graph_file_free(file);
}
END_TEST

/* 18 hosts of four: as fast as one of eight, each channel by another NIC. */
START_TEST(seventy_two_gpus_are_one_ring)
{
	static char text[1 << 17];
	static struct topo_select all = {.count = 72};
	const struct topo_system *sys = NULL;
	struct topo_graph g;
	size_t at = (size_t)sprintf(text, "<system version=\"2\">\n");

	for (int i = 0; i < 72; i++) {
		if (i % 2 == 0)
			at += (size_t)sprintf(text + at,
					      "%s<cpu host_hash=\"0x%x\" numaid=\"%d\" " ARM ">\n",
					      i ? "</cpu>" : "", 1 + i / 4, i / 2 % 2);
		at += (size_t)sprintf(
			text + at,
			"<pci busid=\"0000:%02d:00.0\" class=\"0x060400\" "
			"link_speed=\"32 GT/s\"><pci busid=\"0000:%02d:00.0\" class=\"0x030200\" "
			"link_speed=\"32 GT/s\"><gpu dev=\"%d\" sm=\"100\" gdr=\"1\">" TO_SWITCH
			"</gpu></pci><pci busid=\"0000:%02d:00.0\" class=\"0x020700\" "
			"link_speed=\"32 GT/s\"><nic><net name=\"mlx5_%d\" dev=\"%d\" gdr=\"1\" "
			"speed=\"400000\" guid=\"0x%x\"/></nic></pci></pci>\n",
			50 + i % 4, 10 + i % 4, i % 4, 20 + i % 4, i % 4, i % 4, 0x1000 + i);
		sprintf(all.gpu[i].bus_id, "0000:%02d:00.0", 10 + i % 4);
	}
	sprintf(text + at, "</cpu></system>\n");
	ck_assert_msg(topo_system_get(text, strlen(text), "test.xml", &all, &sys) == ncclSuccess,
		      "%s", log_last_error());
	ck_assert_int_eq(sys->nhosts, 18);
	for (int inter = 0; inter < 2; inter++) {
		ck_assert(topo_search(sys, TOPO_RING, inter, &g) == ncclSuccess);
		util_check_graph(sys, &g, inter);
		/* a ring returns by the host that it came by: its last GPU sends over the first */
		util_expect(&g, 16, inter ? 45100 : 45000, TOPO_PATH_NVL,
			    inter ? TOPO_PATH_PXN : TOPO_PATH_PIX);
	}
	for (int c = 1; c < g.nchannels; c++)
		ck_assert_int_ne(g.nic[c][0], g.nic[c - 1][0]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("topo_domain");
	TCase *t = tcase_create("domain");

	suite_add_tcase(suite, t);
	tcase_add_test(t, gpus_of_all_hosts_are_on_the_nvswitch);
	tcase_add_test(t, all_else_is_the_host_s_own);
	tcase_add_test(t, rings_and_trees_go_over_all_hosts);
	tcase_add_test(t, without_p2p_hosts_are_joined_by_nvlink_still);
	tcase_add_test(t, a_host_without_a_rank_is_left_out);
	tcase_add_test(t, a_cpu_without_a_host_hash_is_of_the_host_before_it);
	tcase_add_test(t, what_hosts_cannot_be_is_refused);
	tcase_add_test(t, a_graph_s_text_names_the_host);
	tcase_add_test(t, seventy_two_gpus_are_one_ring);
	return util_run(suite);
}
