/* SPDX-License-Identifier: BSD-3-Clause */
/* Merged NICs: which devices become one, where it is, and what it has. */
#include <unistd.h>

#include "tests/unit/topo/topo_xml.h"

/* A device of the network: function `port` of the card at that bus. */
static void device(int bus, int port, int dev, int speed, const char *attributes)
{
	add("<pci busid=\"0000:%02d:00.%d\" class=\"0x020000\" link_speed=\"8 GT/s\" "
	    "link_width=\"16\"><nic><net name=\"mlx5_%d\" dev=\"%d\" speed=\"%d\" port=\"%d\" "
	    "guid=\"0x%x\" gdr=\"1\" %s/></nic></pci>\n",
	    bus, port, dev, dev, speed, port + 1, bus, attributes);
}

static void pci_switch(int bus)
{
	add("<pci busid=\"0000:%02d:00.0\" class=\"0x060400\" link_speed=\"16 GT/s\" "
	    "link_width=\"16\">\n",
	    bus);
}

static const struct topo_system *merged(int32_t gpus)
{
	struct topo_select select = util_first(gpus);
	const struct topo_system *sys = NULL;

	add("</system>\n");
	select.merge = true;
	ck_assert_msg(topo_system_get(xml, strlen(xml), "test.xml", &select, &sys) == ncclSuccess,
		      "%s", log_last_error());
	return sys;
}

/* NULL-terminated. */
static void expect_nics(const struct topo_system *sys, const char *const *names)
{
	int32_t n = 0;

	for (; names[n]; n++) {
		ck_assert_int_lt(n, topo_nic_count(sys));
		ck_assert_str_eq(topo_nic_name(sys, n), names[n]);
	}
	ck_assert_int_eq(topo_nic_count(sys), n);
}

/*
 *	CPU 0: switch 20: GPU 0, card 30 with two ports, card 31; switch 21 in it: card 32
 *	       card 33
 *	CPU 1: card 40
 */
static void machine(void)
{
	begin();
	cpu(0, AMD);
	pci_switch(20);
	gpu(0, 80, 0, 0);
	device(30, 0, 0, 100000, "rail=\"0\"");
	device(30, 1, 1, 100000, "rail=\"1\"");
	device(31, 0, 2, 100000, "rail=\"0\"");
	pci_switch(21);
	device(32, 0, 3, 100000, "rail=\"0\"");
	add("</pci></pci>\n");
	device(33, 0, 4, 100000, "");
	add("</cpu>\n");
	cpu(1, AMD);
	device(40, 0, 5, 100000, "rail=\"0\"");
	add("</cpu>\n");
}

START_TEST(nics_stay_apart_where_the_selection_does_not_merge)
{
	machine();
	expect_nics(end(1), (const char *[]){"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4",
					     "mlx5_5", NULL});
}
END_TEST

/* The result of each level on the machine; at most four NICs are merged. */
static const struct {
	const char *level, *nics[7];
} levels[] = {
	{"LOC", {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5"}},
	{"PORT", {"mlx5_0+mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5"}},
	{"PIX", {"mlx5_3", "mlx5_4", "mlx5_5", "mlx5_0+mlx5_1+mlx5_2"}},
	{"PXB", {"mlx5_4", "mlx5_5", "mlx5_0+mlx5_1+mlx5_2+mlx5_3"}},
	{"PHB", {"mlx5_4", "mlx5_5", "mlx5_0+mlx5_1+mlx5_2+mlx5_3"}},
	{"SYS", {"mlx5_4", "mlx5_5", "mlx5_0+mlx5_1+mlx5_2+mlx5_3"}},
};

START_TEST(the_level_sets_how_far_they_may_be)
{
	setenv("NCCL_NET_MERGE_LEVEL", levels[_i].level, 1);
	machine();
	expect_nics(merged(1), levels[_i].nics);
}
END_TEST

START_TEST(ports_of_a_card_are_merged_by_default)
{
	const struct topo_system *sys;
	char name[TOPO_NIC_NAME];

	machine();
	sys = merged(1);
	expect_nics(sys, levels[1].nics);
	ck_assert_uint_eq(topo_net_node(sys, 0)->net.bw_mbps, 25000);
	ck_assert_int_eq(topo_net_node(sys, 0)->dev, 6); /* after those of the file, as in NCCL */
	ck_assert_int_eq(topo_net_node(sys, 0)->net.rail, -1);
	ck_assert(topo_gdr_ok(sys, 0, 0));
	ck_assert_int_eq(topo_nic_path(sys, 0, 0), TOPO_PATH_PIX);
	ck_assert_uint_eq(topo_nic_bw_mbps(sys, 0, 0), 12000); /* the card's PCI link */
	ck_assert(topo_nic_device(sys, 0, 0, name));
	ck_assert_str_eq(name, "mlx5_0");
	ck_assert(topo_nic_device(sys, 0, 1, name));
	ck_assert_str_eq(name, "mlx5_1");
	ck_assert(!topo_nic_device(sys, 0, 2, name));
	ck_assert(topo_nic_device(sys, 1, 0, name));
	ck_assert(!topo_nic_device(sys, 1, 1, name));
}
END_TEST

/* Cards of their own keep what their PCI links carry together. */
START_TEST(merged_cards_have_all_their_pci_links)
{
	const struct topo_system *sys;
	const struct topo_node *nic;

	setenv("NCCL_NET_MERGE_LEVEL", "PXB", 1);
	begin();
	cpu(0, AMD);
	pci_switch(20);
	gpu(0, 80, 0, 0);
	device(30, 0, 0, 100000, "rail=\"2\"");
	device(31, 0, 1, 100000, "rail=\"2\"");
	add("</pci></cpu>\n");
	sys = merged(1);
	expect_nics(sys, (const char *[]){"mlx5_0+mlx5_1", NULL});
	nic = &sys->node[topo_net_node(sys, 0)->parent];
	ck_assert_int_eq(nic->type, TOPO_NODE_NIC);
	ck_assert_int_eq(sys->node[nic->parent].type, TOPO_NODE_PCI);
	ck_assert_int_eq(topo_net_node(sys, 0)->net.rail, 2);
	ck_assert_int_eq(topo_nic_path(sys, 0, 0), TOPO_PATH_PIX);
	for (int32_t i = 0; i < sys->nlinks; i++)
		if (sys->link[i].from == topo_net_node(sys, 0)->parent &&
		    sys->link[i].to == nic->parent)
			ck_assert_uint_eq(sys->link[i].bw_mbps, 24000);
}
END_TEST

START_TEST(merging_can_be_disabled)
{
	setenv("NCCL_IB_MERGE_NICS", "0", 1);
	setenv("NCCL_NET_FORCE_MERGE", "mlx5_2,mlx5_3", 1);
	machine();
	expect_nics(merged(1), levels[0].nics);
}
END_TEST

START_TEST(devices_of_two_rails_can_stay_apart)
{
	setenv("NCCL_NET_MERGE_LEVEL", "PHB", 1);
	setenv("NCCL_NET_MERGE_POLICY", "RAIL", 1);
	machine();
	expect_nics(merged(1),
		    (const char *[]){"mlx5_1", "mlx5_4", "mlx5_5", "mlx5_0+mlx5_2+mlx5_3", NULL});
}
END_TEST

/* A message is cut into equal parts. */
START_TEST(devices_of_two_speeds_stay_apart)
{
	begin();
	cpu(0, AMD);
	gpu(0, 80, 0, 0);
	device(30, 0, 0, 200000, "");
	device(30, 1, 1, 100000, "");
	add("</cpu>\n");
	expect_nics(merged(1), (const char *[]){"mlx5_0", "mlx5_1", NULL});
}
END_TEST

/* A CPU's <nic> holds devices whose place is unknown: they are no ports of a card. */
START_TEST(devices_without_a_place_are_no_card)
{
	begin();
	cpu(0, AMD);
	gpu(0, 80, 0, 0);
	add("<nic><net name=\"a\" dev=\"0\" speed=\"1000\"/><net name=\"b\" dev=\"1\" "
	    "speed=\"1000\"/></nic></cpu>\n");
	expect_nics(merged(1), (const char *[]){"a", "b", NULL});
}
END_TEST

/* ---- the user's groups ---------------------------------------------------------------------- */

/* NICs of two speeds: each counts as the slower one. */
START_TEST(a_group_of_the_user_has_its_slowest_device_s_speed)
{
	const struct topo_system *sys;

	setenv("NCCL_NET_FORCE_MERGE", "mlx5_0,mlx5_1", 1);
	begin();
	cpu(0, AMD);
	gpu(0, 80, 0, 0);
	device(30, 0, 0, 400000, "");
	device(30, 1, 1, 100000, "");
	add("</cpu>\n");
	sys = merged(1);
	expect_nics(sys, (const char *[]){"mlx5_0+mlx5_1", NULL});
	ck_assert_uint_eq(topo_net_node(sys, 0)->net.bw_mbps, 25000);
	for (int32_t i = 0; i < sys->nlinks; i++)
		if (sys->link[i].type == TOPO_LINK_NET)
			ck_assert_uint_eq(sys->link[i].bw_mbps, 25000);
}
END_TEST

START_TEST(groups_of_the_user_come_first)
{
	setenv("NCCL_NET_FORCE_MERGE", "mlx5_4,mlx5_1;mlx5_2,mlx5_3:1", 1);
	machine();
	expect_nics(merged(1),
		    (const char *[]){"mlx5_0", "mlx5_5", "mlx5_4+mlx5_1", "mlx5_2+mlx5_3", NULL});
}
END_TEST

static const struct {
	const char *groups, *words[3];
} bad_groups[] = {
	{"mlx5_0,mlx5_9", {"NCCL_NET_FORCE_MERGE names mlx5_9", "no such device"}},
	{"mlx5_0,mlx5_1:7", {"NCCL_NET_FORCE_MERGE names mlx5_1:7", "no such device"}},
	{"mlx5_4,mlx5_5", {"NCCL_NET_FORCE_MERGE names mlx5_4,mlx5_5", "not below one CPU"}},
};

START_TEST(groups_that_cannot_be_are_refused)
{
	struct topo_select select = util_first(1);

	setenv("NCCL_NET_FORCE_MERGE", bad_groups[_i].groups, 1);
	select.merge = true;
	machine();
	add("</system>");
	util_refuse(xml, &select, bad_groups[_i].words);
}
END_TEST

/* Malformed: as if it were not set. */
static const char *const malformed[] = {
	"mlx5_2",         "mlx5_2,",       ",mlx5_2",
	"mlx5_2,mlx5_3;", "mlx5_2,mlx5_2", "mlx5_2,mlx5_3;mlx5_4,mlx5_2",
	"a,b,c,d,e",
};

START_TEST(malformed_groups_do_not_count)
{
	setenv("NCCL_NET_FORCE_MERGE", malformed[_i], 1);
	machine();
	expect_nics(merged(1), levels[1].nics);
}
END_TEST

/* ---- what the network has ------------------------------------------------------------------- */

static const struct topo_system *of_network(const int32_t *links)
{
	struct topo_select select = util_first(1);
	const struct topo_system *sys = NULL;

	select.merge = select.network_known = true;
	select.devices = 2;
	for (int32_t i = 0; i < 2; i++) {
		snprintf(select.device[i].name, sizeof select.device[i].name, "mlx5_%d", i);
		select.device[i].mbit = 100000;
		select.device[i].link = links[i];
	}
	ck_assert(topo_system_get(xml, strlen(xml), "test.xml", &select, &sys) == ncclSuccess);
	return sys;
}

START_TEST(devices_of_two_kinds_of_link_stay_apart)
{
	begin();
	cpu(0, AMD);
	gpu(0, 80, 0, 0);
	device(30, 0, 0, 100000, "");
	device(30, 1, 1, 100000, "");
	add("</cpu></system>\n");
	expect_nics(of_network((int32_t[]){2, 2}), (const char *[]){"mlx5_0+mlx5_1", NULL});
	expect_nics(of_network((int32_t[]){1, 2}), (const char *[]){"mlx5_0", "mlx5_1", NULL});
}
END_TEST

/* A dump has the merged one alone; the network has its devices. */
START_TEST(a_file_s_merged_nic_is_that_of_the_network_s_devices)
{
	begin();
	cpu(0, AMD);
	gpu(0, 80, 0, 0);
	add("<pci busid=\"0000:30:00.0\" class=\"0x020000\"><nic><net name=\"mlx5_0+mlx5_1\" "
	    "dev=\"2\" speed=\"200000\" gdr=\"1\"/></nic></pci></cpu></system>\n");
	expect_nics(of_network((int32_t[]){2, 2}), (const char *[]){"mlx5_0+mlx5_1", NULL});
}
END_TEST

/* ---- machines ------------------------------------------------------------------------------- */

static const struct topo_system *machine_merged(const char *path, int32_t gpus)
{
	struct topo_select select = util_first(gpus);
	const struct topo_system *sys = NULL;
	char *text = util_read(path);

	select.merge = true;
	ck_assert(topo_system_get(text, strlen(text), path, &select, &sys) == ncclSuccess);
	free(text);
	return sys;
}

START_TEST(rings_leave_by_merged_nics)
{
	const struct topo_system *sys = machine_merged(MACHINES "a100-2port.xml", 4);
	struct topo_graph g;

	expect_nics(sys, (const char *[]){"mlx5_0+mlx5_1", "mlx5_2+mlx5_3", NULL});
	ck_assert(topo_search(sys, TOPO_RING, true, &g) == ncclSuccess);
	ck_assert_int_ge(g.nchannels, 2);
	ck_assert_uint_ge((uint32_t)g.nchannels * g.bw_inter_mbps, 48000);
}
END_TEST

/* A public machine with eight cards of two ports. */
START_TEST(cards_of_a_public_machine)
{
	static const char path[] = ZOO "search/oracle-quickstart-oci-hpc-oke__BM.GPU.H100.8.xml";
	const struct topo_system *sys;

	if (access(path, R_OK))
		return;
	sys = machine_merged(path, 8);
	ck_assert_int_eq(topo_nic_count(sys), 8);
	for (int32_t n = 0; n < 8; n++)
		ck_assert_uint_eq(topo_net_node(sys, n)->net.bw_mbps, 45000);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("topo_merge");
	TCase *t = tcase_create("merge");

	suite_add_tcase(suite, t);
	tcase_add_test(t, nics_stay_apart_where_the_selection_does_not_merge);
	tcase_add_loop_test(t, the_level_sets_how_far_they_may_be, 0, (int)ARRAY_LEN(levels));
	tcase_add_test(t, ports_of_a_card_are_merged_by_default);
	tcase_add_test(t, merged_cards_have_all_their_pci_links);
	tcase_add_test(t, merging_can_be_disabled);
	tcase_add_test(t, devices_of_two_rails_can_stay_apart);
	tcase_add_test(t, devices_of_two_speeds_stay_apart);
	tcase_add_test(t, devices_without_a_place_are_no_card);
	tcase_add_test(t, a_group_of_the_user_has_its_slowest_device_s_speed);
	tcase_add_test(t, groups_of_the_user_come_first);
	tcase_add_loop_test(t, groups_that_cannot_be_are_refused, 0, (int)ARRAY_LEN(bad_groups));
	tcase_add_loop_test(t, malformed_groups_do_not_count, 0, (int)ARRAY_LEN(malformed));
	tcase_add_test(t, devices_of_two_kinds_of_link_stay_apart);
	tcase_add_test(t, a_file_s_merged_nic_is_that_of_the_network_s_devices);
	tcase_add_test(t, rings_leave_by_merged_nics);
	tcase_add_test(t, cards_of_a_public_machine);
	return util_run(suite);
}
