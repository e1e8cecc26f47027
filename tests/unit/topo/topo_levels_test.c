/* SPDX-License-Identifier: BSD-3-Clause */
/* Defaults of topology files, the network's NICs, direct links and the levels of paths. */
#include "tests/unit/topo/topo_input_xml.h"

START_TEST(the_network_says_which_nics_there_are)
{
	const char *xml = SYSTEM CPU
		"<pci busid=\"0000:01:00.0\"><gpu dev=\"0\"/></pci>"
		"<pci busid=\"0000:03:00.0\" class=\"0x020700\"><nic>"
		"<net name=\"mlx5_0\" dev=\"0\" speed=\"100000\"/>"
		"<net name=\"mlx5_1\" dev=\"1\" speed=\"100000\"/></nic></pci></cpu></system>";
	struct topo_select select = util_first(1);
	const struct topo_system *sys;
	select.network_known = true;
	ck_assert(topo_system_get(xml, strlen(xml), "test.xml", &select, &sys) == 0);
	ck_assert_int_eq(topo_nic_count(sys), 0);
	select.devices = 2;
	strcpy(select.device[0].name, "rxe0");
	select.device[0].mbit = 8000;
	strcpy(select.device[1].name, "mlx5_1");
	ck_assert(topo_system_get(xml, strlen(xml), "test.xml", &select, &sys) == 0);
	ck_assert_int_eq(topo_nic_count(sys), 2);
	ck_assert_str_eq(topo_nic_name(sys, 0), "mlx5_1");
	ck_assert_str_eq(topo_nic_name(sys, 1), "rxe0");
	ck_assert_int_eq(topo_nic_bw_mbps(sys, 0, 1), 1000);
	ck_assert_int_eq(topo_nic_path(sys, 0, 1), TOPO_PATH_PHB);
}
END_TEST

START_TEST(a_bare_file_gets_defaults)
{
	const struct topo_system *sys =
		util_system_of("<!-- before --><system><!-- inside --><cpu>"
			       "<pci busid=\"10000:01:00.0\" class=\"0x030200\" device=\"0x2330\"/>"
			       "<pci busid=\"10000:02:00.0\"><gpu dev=\"1\"/></pci>"
			       "<pci busid=\"0101:00:00.0\" class=\"0x020700\"/>"
			       "<nic><net dev=\"1\" speed=\"-1\"/><net name=\"eth9\" dev=\"9\" "
			       "speed=\"25000\"/></nic>"
			       "</cpu></system>",
			       2);
	ck_assert_int_eq(topo_gpu_sm(sys, 0), 90);
	ck_assert_int_eq(topo_gpu_sm(sys, 1), 80);
	ck_assert_int_eq(topo_nic_count(sys), 3);
	ck_assert_str_eq(topo_nic_name(sys, 0), "mlx5_0");
	ck_assert_str_eq(topo_nic_name(sys, 1), "net1");
	ck_assert_str_eq(topo_nic_name(sys, 2), "eth9");
	ck_assert_uint_eq(topo_net_node(sys, 1)->net.bw_mbps, 1250);
	ck_assert_uint_eq(topo_net_node(sys, 2)->net.bw_mbps, 3125);
	ck_assert_int_eq(topo_gpu_path(sys, 0, 1), TOPO_PATH_PHB);
}
END_TEST

/* Found by the fuzzer: a link that rounds to nothing is slow, not absent. */
START_TEST(the_slowest_links_are_still_links)
{
	const struct topo_system *sys =
		util_system_of("<system><cpu><pci busid=\"0000:01:00.0\" link_speed=\"0.001 GT/s\" "
			       "link_width=\"1\">"
			       "<gpu dev=\"0\"/></pci><nic><net name=\"a\" dev=\"0\" "
			       "speed=\"3\"/></nic></cpu></system>",
			       1);
	struct topo_graph g;
	ck_assert_int_eq(topo_nic_path(sys, 0, 0), TOPO_PATH_PHB);
	ck_assert(topo_search(sys, TOPO_RING, true, &g) == ncclSuccess);
	util_check_graph(sys, &g, true);
	ck_assert_uint_eq(g.bw_inter_mbps, 100); /* nothing fits: the fallback */
}
END_TEST

/* AMD's links, a direct link one way only, a link to oneself, one to a GPU outside the file. */
START_TEST(direct_links_of_every_kind)
{
	const struct topo_system *sys = util_system_of(
		"<system version=\"2\"><cpu arch=\"x86_64\" vendor=\"AuthenticAMD\">"
		"<pci busid=\"0000:01:00.0\" class=\"0x038000\"><gpu dev=\"0\" gcn=\"942\" "
		"arch=\"gfx942\">"
		"<xgmi target=\"0000:02:00.0\" count=\"2\" tclass=\"0x038000\"/></gpu></pci>"
		"<pci busid=\"0000:02:00.0\" class=\"0x038000\"><gpu dev=\"1\" sm=\"80\">"
		"<nvlink target=\"0000:02:00.0\" count=\"12\" tclass=\"0x030200\"/>"
		"<nvlink target=\"0000:03:00.0\" count=\"4\" tclass=\"0x030200\"/>"
		"<nvlink target=\"0000:0f:00.0\" count=\"4\" tclass=\"0x030200\"/></gpu></pci>"
		"<pci busid=\"0000:03:00.0\" class=\"0x030200\"><gpu dev=\"2\" sm=\"80\"/></pci>"
		"</cpu></system>",
		3);
	ck_assert_int_eq(topo_gpu_path(sys, 0, 1), TOPO_PATH_NVL);
	ck_assert_uint_eq(topo_gpu_bw_mbps(sys, 0, 1), 2 * 48000);
	ck_assert_int_eq(topo_gpu_path(sys, 1, 2), TOPO_PATH_NVL);
	ck_assert_int_eq(topo_gpu_path(sys, 0, 2), TOPO_PATH_NVB);
	ck_assert_int_eq(topo_gpu_path(sys, 2, 0), TOPO_PATH_PHB);
	ck_assert(topo_p2p_ok(sys, 0, 2) && !topo_p2p_ok(sys, 2, 0));
}
END_TEST

/* A GPU passes on to one more GPU, not to a second one. */
START_TEST(a_path_leads_through_one_gpu_at_most)
{
	char xml[4096], *at = xml;
	at += sprintf(at, SYSTEM CPU);
	for (int i = 0; i < 4; i++) {
		at += sprintf(at, "<pci busid=\"0000:0%d:00.0\"><gpu dev=\"%d\" sm=\"70\">", i, i);
		if (i < 3)
			at += sprintf(at, "<nvlink target=\"0000:0%d:00.0\" tclass=\"0x030200\"/>",
				      i + 1);
		at += sprintf(at, "</gpu></pci>");
	}
	sprintf(at, "</cpu></system>");
	const struct topo_system *sys = util_system_of(xml, 4);
	ck_assert_int_eq(topo_gpu_path(sys, 0, 1), TOPO_PATH_NVL);
	ck_assert_int_eq(topo_gpu_path(sys, 0, 2), TOPO_PATH_NVB);
	ck_assert_int_eq(topo_gpu_path(sys, 0, 3), TOPO_PATH_PHB);
}
END_TEST

START_TEST(levels_come_from_the_environment)
{
	setenv("NCCL_P2P_LEVEL", "PHB", 1);
	setenv("NCCL_NET_GDR_LEVEL", "0", 1);
	const struct topo_system *sys = util_system_of(two_gpus, 2);
	ck_assert_int_eq(topo_gpu_path(sys, 0, 1), TOPO_PATH_PHB);
	ck_assert(topo_p2p_ok(sys, 0, 1));
	sys = util_system(MACHINES "pcie-4gpu.xml", 4);
	ck_assert(topo_p2p_ok(sys, 0, 1) && !topo_p2p_ok(sys, 0, 2));
	ck_assert(!topo_gdr_ok(sys, 0, 0));
	ck_assert_int_eq(topo_nic_path(sys, 0, 0), TOPO_PATH_PHB); /* over the CPU, on purpose */
}
END_TEST

START_TEST(p2p_can_be_switched_off_and_a_bad_level_is_named)
{
	setenv("NCCL_P2P_DISABLE", "1", 1);
	setenv("NCCL_NET_GDR_LEVEL", "near", 1);
	const struct topo_system *sys = util_system(MACHINES "h100-8nic.xml", 8);
	ck_assert_msg(strstr(log_last_error(), "NCCL_NET_GDR_LEVEL is 'near'") &&
			      strstr(log_last_error(), "expected LOC"),
		      "%s", log_last_error());
	ck_assert(!topo_p2p_ok(sys, 0, 1) && topo_p2p_ok(sys, 0, 0));
	ck_assert_int_eq(topo_gpu_path(sys, 0, 1), TOPO_PATH_PHB);
	ck_assert_int_eq(topo_gpu_path(sys, 0, 4), TOPO_PATH_SYS);
	ck_assert(topo_gdr_ok(sys, 0, 0));
}
END_TEST

START_TEST(two_gpus_on_amd_reach_each_other_more_do_not)
{
	const struct topo_system *sys = util_system(MACHINES "workstation-2gpu.xml", 2);
	ck_assert(topo_p2p_ok(sys, 0, 1));
	ck_assert_int_eq(topo_gpu_path(sys, 0, 1), TOPO_PATH_PHB);
	ck_assert(!topo_p2p_ok(util_system_of(two_gpus, 2), 0, 1)); /* Intel */
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("topo_input");
	TCase *t = tcase_create("input");
	suite_add_tcase(suite, t);
	tcase_add_test(t, the_network_says_which_nics_there_are);
	tcase_add_test(t, a_bare_file_gets_defaults);
	tcase_add_test(t, the_slowest_links_are_still_links);
	tcase_add_test(t, direct_links_of_every_kind);
	tcase_add_test(t, a_path_leads_through_one_gpu_at_most);
	tcase_add_test(t, levels_come_from_the_environment);
	tcase_add_test(t, p2p_can_be_switched_off_and_a_bad_level_is_named);
	tcase_add_test(t, two_gpus_on_amd_reach_each_other_more_do_not);
	return util_run(suite);
}
