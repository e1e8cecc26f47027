/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of paths and searches, each on a machine as small as can be. */
#include "tests/unit/topo/topo_xml.h"

static struct topo_graph found(const struct topo_system *sys, enum topo_pattern pattern, bool inter)
{
	struct topo_graph g;

	ck_assert_msg(topo_search(sys, pattern, inter, &g) == ncclSuccess, "%s", log_last_error());
	return g;
}

/* ---- searches ------------------------------------------------------------------------------- */

static const struct topo_system *islands(int count)
{
	begin();
	cpu(0, AMD);
	for (int i = 0; i < 2 * count; i++)
		gpu(i, 80, i ^ 1, 4);
	add("</cpu>");
	return end(2 * count);
}

static int32_t least_rings(const struct topo_system *sys)
{
	static struct topo_search_record record;
	struct topo_graph g;

	ck_assert(topo_search_explain(sys, TOPO_RING, false, &g, &record) == ncclSuccess);
	ck_assert_int_ge(g.nchannels, record.min_channels);
	return record.min_channels;
}

START_TEST(two_nvlink_islands_have_two_rings)
{
	ck_assert_int_eq(least_rings(islands(1)), 1);
	ck_assert_int_eq(least_rings(islands(2)), 2);
	ck_assert_int_eq(least_rings(islands(3)), 1);
	ck_assert_int_ge(found(islands(2), TOPO_TREE, false).nchannels, 2);
}
END_TEST

START_TEST(two_nvlink_islands_have_one_ring_where_the_user_says_so)
{
	setenv("NCCL_MAX_NCHANNELS", "1", 1);
	ck_assert_int_eq(least_rings(islands(2)), 1);
}
END_TEST

START_TEST(two_nvlink_islands_needed_no_two_rings_in_2_28)
{
	setenv("NCCL_TOPO_COMPAT", "2.28", 1);
	ck_assert_int_eq(least_rings(islands(2)), 1);
}
END_TEST

/* A net of 1 Gb/s carries one ring of 0.12 GB/s. */
START_TEST(two_nvlink_islands_have_one_ring_where_two_do_not_fit)
{
	begin();
	cpu(0, AMD);
	for (int i = 0; i < 4; i++)
		gpu(i, 80, i ^ 1, 4);
	nic(0, 1000, "");
	add("</cpu>");
	struct topo_graph g = found(end(4), TOPO_RING, true);

	ck_assert_int_eq(g.nchannels, 1);
	ck_assert_uint_eq(g.bw_inter_mbps, 120);
}
END_TEST

static uint32_t pair_speed(const char *kind)
{
	begin();
	cpu(0, kind);
	gpu(0, 80, 0, 0);
	gpu(1, 80, 0, 0);
	add("</cpu>");
	return found(end(2), TOPO_RING, false).bw_intra_mbps;
}

START_TEST(through_an_intel_cpu_a_sixth_more_is_needed)
{
	ck_assert_uint_eq(pair_speed(AMD), 12000);
	ck_assert_uint_eq(pair_speed(INTEL), 10000);
}
END_TEST

static uint32_t single_speed(int sm)
{
	begin();
	cpu(0, AMD);
	bridge(0);
	gpu(0, sm, 0, 0);
	nic(0, 100000, "");
	add("</pci></cpu>");
	return found(end(1), TOPO_RING, true).bw_inter_mbps;
}

START_TEST(a_read_by_a_nic_costs_an_old_gpu_the_other_way_too)
{
	ck_assert_uint_eq(single_speed(80), 12000);
	ck_assert_uint_eq(single_speed(70), 10000);
}
END_TEST

START_TEST(two_new_cards_on_two_sockets_are_not_at_the_last_resort)
{
	begin();
	cpu(0, INTEL);
	gpu(0, 120, 0, 0);
	nic(0, 100000, "");
	add("</cpu>");
	cpu(1, INTEL);
	gpu(1, 120, 0, 0);
	add("</cpu>");
	const struct topo_system *sys = end(2);

	for (int inter = 0; inter < 2; inter++)
		for (int p = TOPO_RING; p <= TOPO_TREE; p++) {
			struct topo_graph g = found(sys, (enum topo_pattern)p, inter);

			ck_assert_int_eq(g.nchannels, 1);
			ck_assert_uint_ge(g.bw_intra_mbps, 6000);
		}
}
END_TEST

START_TEST(nets_of_one_port_share_it)
{
	static const char *const guid[2] = {"guid=\"0x1\"", "guid=\"0x2\""};
	int32_t channels[2];

	for (int apart = 0; apart < 2; apart++) {
		begin();
		cpu(0, AMD);
		for (int i = 0; i < 4; i++)
			gpu(i, 80, 0, 0);
		nic(0, 50000, guid[0]);
		nic(1, 50000, guid[apart]);
		add("</cpu>");
		struct topo_graph g = found(end(4), TOPO_RING, true);

		channels[apart] = g.nchannels * (int32_t)g.bw_inter_mbps;
	}
	ck_assert_int_eq(channels[0], 6000);
	ck_assert_int_eq(channels[1], 12000);
}
END_TEST

/* Two GPUs with a NIC each; the ring that leaves by the other NIC is shorter. */
static struct topo_graph pair_with_nics(const char *first, const char *second)
{
	begin();
	cpu(0, AMD);
	for (int i = 0; i < 2; i++) {
		bridge(i);
		gpu(i, 80, 1 - i, 4);
		nic(i, 100000, i ? second : first);
		add("</pci>");
	}
	add("</cpu>");
	return found(end(2), TOPO_RING, true);
}

static bool leaves_by_another(const struct topo_graph *g)
{
	ck_assert_int_ge(g->nchannels, 1);
	return g->nic[0][0] != g->nic[0][1];
}

START_TEST(rings_leave_by_another_nic_of_their_rail_or_port_alone)
{
	struct topo_graph g;

	setenv("NCCL_CROSS_NIC", "0", 1);
	g = pair_with_nics("guid=\"0x1\" rail=\"3\"", "guid=\"0x2\" rail=\"3\"");
	ck_assert(leaves_by_another(&g));
	g = pair_with_nics("guid=\"0x1\" rail=\"3\"", "guid=\"0x2\" rail=\"4\"");
	ck_assert(!leaves_by_another(&g));
	/* a rail counts before the port */
	g = pair_with_nics("guid=\"0x1\" rail=\"3\"", "guid=\"0x1\" rail=\"4\"");
	ck_assert(!leaves_by_another(&g));
	g = pair_with_nics("guid=\"0x1\" rail=\"3\"", "guid=\"0x1\"");
	ck_assert(leaves_by_another(&g));
}
END_TEST

START_TEST(rings_stay_on_their_plane)
{
	struct topo_graph g;

	setenv("NCCL_CROSS_NIC", "1", 1);
	g = pair_with_nics("guid=\"0x1\" plane=\"0\"", "guid=\"0x2\" plane=\"0\"");
	ck_assert(leaves_by_another(&g));
	g = pair_with_nics("guid=\"0x1\" plane=\"0\"", "guid=\"0x2\" plane=\"1\"");
	ck_assert(!leaves_by_another(&g));
}
END_TEST

/* Tries of trees that are not balanced, on a host of H100 whose GPUs are of another generation. */
static int plain_trees(int sm)
{
	static struct topo_search_record record;
	char *text = util_read(MACHINES "h100-8nic.xml"), value[8];
	struct topo_graph g;
	int count = 0;

	snprintf(value, sizeof value, "\"%d\"", sm);
	for (char *at = text; (at = strstr(at, "sm=\"90\"")); at++)
		memcpy(at + 3, value, 4);
	ck_assert(topo_search_explain(util_system_of(text, 8), TOPO_TREE, true, &g, &record) ==
		  ncclSuccess);
	for (int32_t i = 0; i < record.attempts; i++)
		count += record.attempt[i].shape == TOPO_SHAPE_TREE;
	free(text);
	return count;
}

START_TEST(trees_that_are_not_balanced_are_tried_from_sm_90_on)
{
	ck_assert_int_eq(plain_trees(80), 0);
	ck_assert_int_gt(plain_trees(90), 0);
}
END_TEST

/* A try ends after so many GPUs that it placed, not that it looked at. */
START_TEST(a_try_s_budget_is_placed_steps)
{
	static struct topo_search_record record;
	struct topo_graph g;
	int ended = 0;

	ck_assert(topo_search_explain(util_system(MACHINES "h100-8nic.xml", 8), TOPO_TREE, false,
				      &g, &record) == ncclSuccess);
	for (int32_t i = 0; i < record.attempts; i++) {
		const struct topo_attempt *a = &record.attempt[i];

		if (a->end != TOPO_ATTEMPT_BUDGET)
			continue;
		ck_assert_int_eq(a->visited, a->same_channels ? 256 : 16384);
		ended++;
	}
	ck_assert_int_ge(ended, 1);
}
END_TEST

static const struct topo_system *lopsided(void)
{
	begin();
	cpu(0, AMD);
	gpu(0, 80, 1, 4);
	gpu(1, 80, 0, 2);
	add("</cpu>");
	return end(2);
}

START_TEST(an_nvlink_that_differs_by_direction_is_searched_with_a_warning)
{
	const struct topo_system *sys = lopsided();

	ck_assert_msg(strstr(log_last_error(), "each direction counts"), "'%s'", log_last_error());
	struct topo_graph g = found(sys, TOPO_RING, false);
	ck_assert_int_eq(g.type_intra, TOPO_PATH_NVL);
	ck_assert_uint_eq((uint32_t)g.nchannels * g.bw_intra_mbps, 40000);
	util_check_graph(sys, &g, false);
}
END_TEST

/* ---- paths ---------------------------------------------------------------------------------- */

static const struct topo_path *to_net(const struct topo_system *sys, int32_t gpu_pos)
{
	return topo_path_at(sys, gpu_pos, topo_end_net(sys, 0));
}

/* The GPU next to the NIC has this many NVLinks to the other one. */
static const struct topo_system *relay_over(int links)
{
	begin();
	cpu(0, INTEL);
	gpu(0, 80, 1, links);
	bridge(0);
	gpu(1, 80, 0, links);
	nic(0, 100000, "");
	add("</pci></cpu>");
	return end(2);
}

static const struct topo_system *relay(void)
{
	return relay_over(4);
}

START_TEST(pxn_is_a_path_towards_the_net_only)
{
	const struct topo_system *sys = relay();

	ck_assert_int_eq(to_net(sys, 0)->type, TOPO_PATH_PXN);
	ck_assert_int_eq(to_net(sys, 1)->type, TOPO_PATH_PIX);
	ck_assert_int_eq(topo_path_at(sys, topo_end_net(sys, 0), 0)->type, TOPO_PATH_PHB);
}
END_TEST

START_TEST(pxn_needs_nvlink_and_gpu_direct_of_the_relay)
{
	ck_assert_int_eq(to_net(relay_over(0), 0)->type, TOPO_PATH_PHB);
	relay();
	char *gdr = strstr(strstr(xml, "dev=\"1\""), "gdr=\"1\"");
	memcpy(gdr, "gdr=\"0\"", 7);
	const struct topo_system *sys = util_system_of(xml, 2);
	ck_assert_int_eq(to_net(sys, 0)->type, TOPO_PATH_PHB);
	ck_assert_int_eq(to_net(sys, 1)->type, TOPO_PATH_PHB); /* over the CPU, on purpose */
}
END_TEST

START_TEST(pxn_can_be_disabled)
{
	setenv("NCCL_PXN_DISABLE", "1", 1);
	ck_assert_int_eq(to_net(relay(), 0)->type, TOPO_PATH_PHB);
}
END_TEST

START_TEST(c2c_and_a_cpu_s_own_nic_make_p2c)
{
	begin();
	cpu(0, ARM);
	add("<pci busid=\"0000:10:00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" "
	    "link_width=\"16\"><gpu dev=\"0\" sm=\"90\" gdr=\"1\">"
	    "<c2c bw=\"30000\" count=\"10\"/></gpu></pci>");
	nic(0, 100000, "");
	add("</cpu>");
	ck_assert_int_eq(to_net(end(1), 0)->type, TOPO_PATH_P2C);
}
END_TEST

/* The GPU's own NIC is that of more bandwidth. */
START_TEST(c2c_brings_a_gpu_s_own_nics_near_alone)
{
	begin();
	cpu(0, ARM);
	add("<pci busid=\"0000:10:00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" "
	    "link_width=\"16\"><gpu dev=\"0\" sm=\"90\" gdr=\"1\">"
	    "<c2c bw=\"30000\" count=\"10\"/></gpu></pci>");
	nic(0, 100000, "");
	nic(1, 25000, "");
	add("</cpu>");
	const struct topo_system *sys = end(1);

	ck_assert_int_eq(topo_path_at(sys, 0, topo_end_net(sys, 0))->type, TOPO_PATH_P2C);
	ck_assert_int_eq(topo_path_at(sys, 0, topo_end_net(sys, 1))->type, TOPO_PATH_PHB);
}
END_TEST

/* A narrow NVLink between two GPUs that are on NVSwitches as well. */
static uint32_t bridged_bw(void)
{
	begin();
	cpu(0, AMD);
	for (int i = 0; i < 2; i++)
		add("<pci busid=\"0000:%02d:00.0\" class=\"0x030200\"><gpu dev=\"%d\" sm=\"80\">"
		    "<nvlink target=\"0000:%02d:00.0\" count=\"1\" tclass=\"0x030200\"/>"
		    "<nvlink target=\"0000:90:00.0\" count=\"8\" tclass=\"0x068000\"/>"
		    "</gpu></pci>",
		    10 + i, i, 11 - i);
	add("</cpu>");
	return topo_gpu_bw_mbps(end(2), 0, 1);
}

START_TEST(bandwidth_counts_before_hops)
{
	ck_assert_uint_eq(bridged_bw(), 160000);
}
END_TEST

START_TEST(bandwidth_counted_after_hops_in_2_28)
{
	setenv("NCCL_TOPO_COMPAT", "2.28", 1);
	ck_assert_uint_eq(bridged_bw(), 20000);
}
END_TEST

START_TEST(link_speeds_by_generation)
{
	static const uint32_t nvlink[][2] = {{0, 20000},  {52, 20000},  {60, 18000},
					     {70, 20000}, {80, 20000},  {86, 12000},
					     {90, 20600}, {100, 40100}, {120, 40100}};
	static const uint32_t xgmi[][2] = {
		{0x906, 24000}, {0x908, 24000}, {0x90a, 36000}, {0x940, 48000}, {0x942, 48000}};

	for (size_t i = 0; i < ARRAY_LEN(nvlink); i++)
		ck_assert_uint_eq(topo_nvlink_mbps((int32_t)nvlink[i][0]), nvlink[i][1]);
	for (size_t i = 0; i < ARRAY_LEN(xgmi); i++)
		ck_assert_uint_eq(topo_xgmi_mbps((int32_t)xgmi[i][0]), xgmi[i][1]);
}
END_TEST

/* GPUs in rows and columns, each with NVLinks to its four neighbours; the last are those of the
 * first. */
static const struct topo_system *torus(int side, int sm, int count)
{
	begin();
	cpu(0, AMD);
	for (int i = 0; i < side * side; i++) {
		int row = i / side, column = i % side;
		const int to[] = {
			(row + 1) % side * side + column, (row + side - 1) % side * side + column,
			row * side + (column + 1) % side, row * side + (column + side - 1) % side};

		add("<pci busid=\"0000:%02d:00.0\" class=\"0x030200\"><gpu dev=\"%d\" sm=\"%d\">",
		    10 + i, i, sm);
		for (size_t k = 0; k < ARRAY_LEN(to); k++)
			add("<nvlink target=\"0000:%02d:00.0\" count=\"%d\" tclass=\"0x030200\"/>",
			    10 + to[k], count);
		add("</gpu></pci>\n");
	}
	add("</cpu>");
	return end(side * side);
}

/* A tree inside the host is a chain, and each ring has one; a search that ends early must not end
 * with less. */
START_TEST(a_tree_of_a_torus_is_as_good_as_its_ring)
{
	static const int sm[] = {70, 80, 90};

	for (int count = 1; count <= 3; count++) {
		const struct topo_system *sys = torus(4, sm[_i], count);
		struct topo_graph ring = found(sys, TOPO_RING, false);
		struct topo_graph tree = found(sys, TOPO_TREE, false);

		ck_assert_int_eq(ring.type_intra, TOPO_PATH_NVL);
		ck_assert_int_eq(tree.type_intra, TOPO_PATH_NVL);
		ck_assert_int_eq(tree.nchannels, ring.nchannels);
		ck_assert_uint_ge(tree.bw_intra_mbps, ring.bw_intra_mbps);
		util_check_graph(sys, &tree, false);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("topo_rules");
	TCase *t = tcase_create("rules");
	suite_add_tcase(suite, t);
	tcase_add_test(t, two_nvlink_islands_have_two_rings);
	tcase_add_test(t, two_nvlink_islands_have_one_ring_where_the_user_says_so);
	tcase_add_test(t, two_nvlink_islands_needed_no_two_rings_in_2_28);
	tcase_add_test(t, two_nvlink_islands_have_one_ring_where_two_do_not_fit);
	tcase_add_test(t, through_an_intel_cpu_a_sixth_more_is_needed);
	tcase_add_test(t, a_read_by_a_nic_costs_an_old_gpu_the_other_way_too);
	tcase_add_test(t, two_new_cards_on_two_sockets_are_not_at_the_last_resort);
	tcase_add_test(t, nets_of_one_port_share_it);
	tcase_add_test(t, rings_leave_by_another_nic_of_their_rail_or_port_alone);
	tcase_add_test(t, rings_stay_on_their_plane);
	tcase_add_test(t, trees_that_are_not_balanced_are_tried_from_sm_90_on);
	tcase_add_test(t, a_try_s_budget_is_placed_steps);
	tcase_add_test(t, an_nvlink_that_differs_by_direction_is_searched_with_a_warning);
	tcase_add_test(t, pxn_is_a_path_towards_the_net_only);
	tcase_add_test(t, pxn_needs_nvlink_and_gpu_direct_of_the_relay);
	tcase_add_test(t, pxn_can_be_disabled);
	tcase_add_test(t, c2c_and_a_cpu_s_own_nic_make_p2c);
	tcase_add_test(t, c2c_brings_a_gpu_s_own_nics_near_alone);
	tcase_add_test(t, bandwidth_counts_before_hops);
	tcase_add_test(t, bandwidth_counted_after_hops_in_2_28);
	tcase_add_test(t, link_speeds_by_generation);
	tcase_add_loop_test(t, a_tree_of_a_torus_is_as_good_as_its_ring, 0, 3);
	return util_run(suite);
}
