/* SPDX-License-Identifier: BSD-3-Clause */
/* The machines that come with Doppel: models, paths and rings. */
#include "tests/unit/topo/topo_util.h"

static const struct {
	const char *name;
	int32_t gpus, nics;
	struct {
		int32_t channels;
		uint32_t bw;
		int32_t intra, inter;
	} host, net; /* rings inside the host; between hosts */
} machine[] = {
	{"h100-8nic",
	 8,
	 8,
	 {12, 30000, TOPO_PATH_NVL, TOPO_PATH_PIX},
	 {8, 48000, TOPO_PATH_NVL, TOPO_PATH_PIX}},
	{"a100-4nic",
	 8,
	 4,
	 {12, 20000, TOPO_PATH_NVL, TOPO_PATH_PIX},
	 {4, 24000, TOPO_PATH_NVL, TOPO_PATH_PIX}},
	{"h100-2nic",
	 4,
	 2,
	 {12, 30000, TOPO_PATH_NVL, TOPO_PATH_PIX},
	 {4, 24000, TOPO_PATH_NVL, TOPO_PATH_PXN}},
	{"a100-2port",
	 4,
	 4,
	 {12, 20000, TOPO_PATH_NVL, TOPO_PATH_PIX},
	 {4, 12000, TOPO_PATH_NVL, TOPO_PATH_PIX}},
	{"pcie-4gpu",
	 4,
	 1,
	 {1, 10000, TOPO_PATH_SYS, TOPO_PATH_PIX},
	 {1, 10000, TOPO_PATH_SYS, TOPO_PATH_SYS}},
	{"workstation-2gpu",
	 2,
	 1,
	 {1, 12000, TOPO_PATH_PHB, TOPO_PATH_PIX},
	 {1, 1200, TOPO_PATH_PHB, TOPO_PATH_PHB}},
};

static const char *machine_path(int i)
{
	static char path[512];
	snprintf(path, sizeof path, MACHINES "%s.xml", machine[i].name);
	return path;
}

START_TEST(rings_are_as_expected_and_fit)
{
	struct topo_graph g = util_search(machine_path(_i), machine[_i].gpus, false);
	util_expect(&g, machine[_i].host.channels, machine[_i].host.bw, machine[_i].host.intra,
		    machine[_i].host.inter);
	g = util_search(machine_path(_i), machine[_i].gpus, true);
	util_expect(&g, machine[_i].net.channels, machine[_i].net.bw, machine[_i].net.intra,
		    machine[_i].net.inter);
}
END_TEST

/* Any number of GPUs, from one to all, finds rings. */
START_TEST(every_subset_of_gpus_finds_rings)
{
	for (int32_t n = 1; n <= machine[_i].gpus; n++)
		for (int inter = 0; inter < 2; inter++)
			util_search(machine_path(_i), n, inter != 0);
}
END_TEST

START_TEST(the_last_gpus_alone_find_rings_too)
{
	char *xml = util_read(machine_path(_i));
	struct topo_select select = {.count = machine[_i].gpus / 2};
	for (int32_t i = 0; i < select.count; i++)
		select.gpu[i].dev = machine[_i].gpus - 1 - i;
	const struct topo_system *sys;
	struct topo_graph g;
	ck_assert(topo_system_get(xml, strlen(xml), "test.xml", &select, &sys) == ncclSuccess);
	ck_assert_int_eq(topo_gpu_node(sys, sys->local_to_pos[0])->dev, machine[_i].gpus - 1);
	for (int inter = 0; inter < 2; inter++) {
		ck_assert(topo_search(sys, TOPO_RING, inter != 0, &g) == ncclSuccess);
		util_check_graph(sys, &g, inter != 0);
	}
	free(xml);
}
END_TEST

START_TEST(rings_enter_and_leave_by_nics_next_to_their_gpus)
{
	if (machine[_i].gpus < 8)
		return;
	const struct topo_system *sys = util_system(machine_path(_i), 8);
	struct topo_graph g;
	bool used[TOPO_MAX_NETS] = {false};
	int32_t nics = 0;
	ck_assert(topo_search(sys, TOPO_RING, true, &g) == ncclSuccess);
	ck_assert_int_ge(g.nchannels, 4);
	for (int32_t c = 0; c < g.nchannels; c++) {
		ck_assert(topo_gdr_ok(sys, g.order[c][0], g.nic[c][0]));
		ck_assert(topo_gdr_ok(sys, g.order[c][7], g.nic[c][1]));
		nics += !used[g.nic[c][0]];
		used[g.nic[c][0]] = true;
	}
	ck_assert_int_eq(nics, machine[_i].nics);
}
END_TEST

START_TEST(the_printed_system_is_the_golden_one)
{
	char path[512], *text = NULL;
	size_t bytes = 0;
	snprintf(path, sizeof path, DOPPEL_SOURCE_DIR "/tests/unit/golden/topo_%s.txt",
		 machine[_i].name);
	FILE *out = open_memstream(&text, &bytes);
	topo_system_print(util_system(machine_path(_i), machine[_i].gpus), out);
	fclose(out);
	char *golden = util_read(path);
	ck_assert_msg(strcmp(text, golden) == 0, "%s differs; now it is\n%s", path, text);
	free(golden);
	free(text);
}
END_TEST

START_TEST(a_fast_gpu_needs_no_flush)
{
	const struct topo_system *h100 = util_system(MACHINES "h100-8nic.xml", 8);
	const struct topo_system *a100 = util_system(MACHINES "a100-4nic.xml", 8);
	ck_assert(!topo_needs_flush(h100, 0) && topo_needs_flush(a100, 0));
	ck_assert(topo_gdr_ok(a100, 1, 0) && !topo_gdr_ok(a100, 2, 0) && !topo_gdr_ok(a100, 7, 0));
	ck_assert_int_eq(topo_nic_path(h100, 5, 5), TOPO_PATH_PIX);
	ck_assert_int_eq(topo_nic_path(h100, 5, 4), TOPO_PATH_PHB);
	ck_assert_int_eq(topo_nic_path(h100, 5, 0), TOPO_PATH_SYS);
	ck_assert_uint_eq(topo_gpu_bw_mbps(h100, 0, 7), 370800);
}
END_TEST

/* The NIC that messages come in by, and the GPU that they leave through to the NIC's rail. */
START_TEST(messages_leave_through_the_owner_of_the_nic)
{
	const struct topo_system *few = util_system(MACHINES "h100-2nic.xml", 4);
	const struct topo_system *a100 = util_system(MACHINES "a100-4nic.xml", 8);
	const struct topo_system *pcie = util_system(MACHINES "pcie-4gpu.xml", 4);
	const int32_t nearest[4] = {0, 0, 1, 1};

	for (int32_t gpu = 0; gpu < 4; gpu++) {
		ck_assert_int_eq(topo_nic_nearest(few, gpu), nearest[gpu]);
		ck_assert_int_eq(topo_nic_owner(few, gpu, 0), 0);
		ck_assert_int_eq(topo_nic_owner(few, gpu, 1), 2);
	}
	ck_assert_int_eq(topo_nic_relay(a100, 1, 0), -1); /* near both GPUs of a switch, */
	ck_assert_int_eq(topo_nic_owner(a100, 1, 0), 0);  /* and belongs to the first */
	ck_assert_int_eq(topo_nic_owner(a100, 0, 0), 0);
	ck_assert_int_eq(topo_nic_owner(pcie, 3, 0), -1); /* no NVLink */
}
END_TEST

/* The relay is the GPU that the path leads by. */
START_TEST(a_gpu_next_to_no_nic_sends_through_one_that_is)
{
	const struct topo_system *few = util_system(MACHINES "h100-2nic.xml", 4);
	const struct topo_system *a100 = util_system(MACHINES "a100-4nic.xml", 8);
	const int32_t relay[4][2] = {{-1, 2}, {0, 2}, {0, -1}, {0, 2}};

	for (int32_t gpu = 0; gpu < 4; gpu++)
		for (int32_t nic = 0; nic < 2; nic++)
			ck_assert_int_eq(topo_nic_relay(few, gpu, nic), relay[gpu][nic]);
	ck_assert_int_eq(topo_nic_path(few, 1, 0), TOPO_PATH_PHB); /* its own */
	ck_assert_int_eq(topo_nic_relay(a100, 1, 0), -1);          /* both of a switch are near */
}
END_TEST

START_TEST(a_graph_prints_as_nccl_writes_it)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	const struct topo_system *sys = util_system(MACHINES "workstation-2gpu.xml", 2);
	struct topo_graph g;
	ck_assert(topo_search(sys, TOPO_RING, true, &g) == ncclSuccess);
	topo_graph_print_xml(sys, (struct topo_graph *[]){&g}, 1, out);
	fclose(out);
	ck_assert_str_eq(
		text,
		"<graphs version=\"1\">\n"
		"  <graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" speedintra=\"1.2\" "
		"speedinter=\"1.2\" latencyinter=\"0\" typeintra=\"PHB\" typeinter=\"PHB\" "
		"samechannels=\"1\">\n"
		"    <channel>\n"
		"      <net dev=\"0\"/>\n"
		"      <gpu dev=\"0\"/>\n"
		"      <gpu dev=\"0x1\"/>\n"
		"      <net dev=\"0\"/>\n"
		"    </channel>\n"
		"  </graph>\n"
		"</graphs>\n");
	free(text);
}
END_TEST

START_TEST(limits_of_the_user_are_kept)
{
	setenv("NCCL_MAX_NCHANNELS", "3", 1);
	setenv("NCCL_CROSS_NIC", "0", 1);
	struct topo_graph g = util_search(MACHINES "h100-8nic.xml", 8, false);
	ck_assert_int_le(g.nchannels, 3);
	g = util_search(MACHINES "h100-8nic.xml", 8, true);
	ck_assert_int_eq(g.cross_nic, 0);
	ck_assert_int_le(g.nchannels, 3);
}
END_TEST

START_TEST(no_net_no_ring_between_hosts)
{
	const struct topo_system *sys = util_system_of(
		"<system><cpu><pci busid=\"0000:01:00.0\"><gpu dev=\"0\"/></pci></cpu></system>",
		1);
	struct topo_graph g;
	ck_assert(topo_search(sys, TOPO_RING, false, &g) == ncclSuccess);
	util_check_graph(sys, &g, false);
	ck_assert(topo_search(sys, TOPO_RING, true, &g) == ncclInvalidUsage);
	ck_assert(strstr(log_last_error(), "no <net>"));
}
END_TEST

START_TEST(bounds_change_nothing)
{
	const struct topo_system *sys = util_system(machine_path(_i), machine[_i].gpus);

	for (int inter = 0; inter < 2; inter++)
		for (int p = 0; p < TOPO_SEARCHED_PATTERNS; p++)
			util_check_bounds(sys, (enum topo_pattern)p, inter, machine[_i].name);
}
END_TEST

/* A ring that leaves by the NIC of entry returns over the NVLinks of every GPU, which carry seven.
 * No order is tried to place an eighth. */
START_TEST(channels_that_cannot_fit_take_no_steps)
{
	static struct topo_search_record record;
	static struct topo_graph g;
	const struct topo_system *sys = util_system(MACHINES "h100-8nic.xml", 8);

	ck_assert(topo_search_explain(sys, TOPO_RING, true, &g, &record) == ncclSuccess);
	ck_assert_int_eq(g.nchannels, 8);
	ck_assert_int_lt(record.visited, 1000);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("topo_machines");
	TCase *t = tcase_create("machines");
	int n = (int)ARRAY_LEN(machine);
	suite_add_tcase(suite, t);
	tcase_add_loop_test(t, rings_are_as_expected_and_fit, 0, n);
	tcase_add_loop_test(t, every_subset_of_gpus_finds_rings, 0, n);
	tcase_add_loop_test(t, the_last_gpus_alone_find_rings_too, 0, n);
	tcase_add_loop_test(t, rings_enter_and_leave_by_nics_next_to_their_gpus, 0, n);
	tcase_add_loop_test(t, the_printed_system_is_the_golden_one, 0, n);
	tcase_add_loop_test(t, bounds_change_nothing, 0, n);
	tcase_add_test(t, channels_that_cannot_fit_take_no_steps);
	tcase_add_test(t, a_fast_gpu_needs_no_flush);
	tcase_add_test(t, messages_leave_through_the_owner_of_the_nic);
	tcase_add_test(t, a_gpu_next_to_no_nic_sends_through_one_that_is);
	tcase_add_test(t, a_graph_prints_as_nccl_writes_it);
	tcase_add_test(t, limits_of_the_user_are_kept);
	tcase_add_test(t, no_net_no_ring_between_hosts);
	return util_run(suite);
}
