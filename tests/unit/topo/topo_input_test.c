/* SPDX-License-Identifier: BSD-3-Clause */
/* Topology files that are accepted, and files that are refused. */
#include "tests/unit/topo/topo_util.h"
#include "tests/unit/topo/topo_input_xml.h"

/* A machine of two GPUs whose first has these PCI attributes. */
static uint32_t pci_bandwidth(const char *attributes)
{
	char xml[1024];
	snprintf(xml, sizeof xml,
		 SYSTEM CPU
		 "<pci busid=\"0000:01:00.0\" class=\"0x030200\" %s><gpu dev=\"0\" sm=\"80\"/>"
		 "</pci><pci busid=\"0000:02:00.0\" class=\"0x030200\" link_speed=\"64 GT/s\">"
		 "<gpu dev=\"1\" sm=\"80\"/></pci></cpu></system>",
		 attributes);
	return topo_gpu_bw_mbps(util_system_of(xml, 2), 0, 1);
}

START_TEST(link_speed_in_every_spelling_and_default)
{
	static const struct {
		const char *attributes;
		uint32_t mbps;
	} row[] = {
		{"link_speed=\"2.5 GT/s\" link_width=\"16\"", 3000},
		{"link_speed=\"5 GT/s\" link_width=\"16\"", 6000},
		{"link_speed=\"5.0 GT/s PCIe\" link_width=\"16\"", 6000},
		{"link_speed=\"8 GT/s\" link_width=\"16\"", 12000},
		{"link_speed=\"8.0 GT/s PCIe\" link_width=\"8\"", 6000},
		{"link_speed=\"16 GT/s\" link_width=\"16\"", 24000},
		{"link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"", 24000},
		{"link_speed=\"32 GT/s\" link_width=\"16\"", 48000},
		{"link_speed=\"32 GT/s PCIe/s\" link_width=\"16\"", 48000},
		{"link_speed=\"32.0 GT/s PCIe\" link_width=\"0\"", 48000},
		{"link_speed=\"64.0 GT/s PCIe\" link_width=\"8\"", 48000},
		{"link_speed=\"32.0 GT/s PCIe\" link_width=\"-1\"", 48000},
		{"link_speed=\"\" link_width=\"16\"", 12000},
		{"link_speed=\"Unknown speed\" link_width=\"16\"", 12000},
		{"link_width=\"4\"", 3000},
		{"", 12000},
	};
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		uint32_t got = pci_bandwidth(row[i].attributes);
		ck_assert_msg(got == row[i].mbps, "%s gives %u, expected %u", row[i].attributes,
			      got, row[i].mbps);
	}
}
END_TEST

START_TEST(malformed_input_is_refused_with_line_and_expectation)
{
	static const struct {
		const char *xml;
		const char *words[6];
	} row[] = {
		{"", {"test.xml:"}},
		{"<system version=\"1\">\n<cpu>", {"test.xml:2", "<cpu> of line 2 is open"}},
		{"<graphs version=\"1\"/>", {"test.xml:1", "<graphs>", "expected <system>"}},
		{"<system version=\"3\"/>", {"test.xml:1", "version", "expected 1 to 2"}},
		{"<system version=\"1\"/>", {"test.xml:1", "no GPU", "expected a <gpu>"}},
		{SYSTEM CPU
		 "\n<pci busid=\"zz\" class=\"0x030200\"><gpu dev=\"0\"/></pci></cpu></system>",
		 {"test.xml:3", "<pci>", "busid=\"zz\"", "expected a PCI address"}},
		{SYSTEM CPU "\n<pci class=\"0x030200\"><gpu dev=\"0\"/></pci></cpu></system>",
		 {"test.xml:3", "busid"}},
		{SYSTEM CPU
		 "\n<pci busid=\"0000:01:00.0\">\n<gpu dev=\"first\"/></pci></cpu></system>",
		 {"test.xml:4", "<gpu", "dev", "first"}},
		{SYSTEM CPU
		 "\n<pci busid=\"0000:01:00.0\">\n<gpu dev=\"-4\"/></pci></cpu></system>",
		 {"test.xml:4", "<gpu", "dev=\"-4\"", "expected 0 to"}},
		{SYSTEM CPU "\n<pci busid=\"0000:01:00.0\"><gpu dev=\"0\"/></pci>\n"
			    "<pci busid=\"0000:01:00.0\"><gpu dev=\"1\"/></pci></cpu></system>",
		 {"test.xml:4:1:", "<pci>", "busid=\"0000:01:00.0\"", "line 3"}},
		{SYSTEM CPU "\n<pci busid=\"0000:01:00.0\"><gpu dev=\"0\"/></pci>\n"
			    "<pci busid=\"0000:02:00.0\"><gpu dev=\"0\"/></pci></cpu></system>",
		 {"test.xml:4:27", "<gpu>", "dev=\"0\"", "line 3"}},
		{SYSTEM CPU "\n<pci busid=\"0000:01:00.0\"><pci busid=\"0000:02:00.0\">\n"
			    " <pci busid=\"0000:01:00.0\"><pci busid=\"0000:03:00.0\"><gpu/></pci>"
			    "</pci></pci></pci></cpu></system>",
		 {"test.xml:4:2", "<pci>", "busid=\"0000:01:00.0\"", "line 3, which it is in"}},
		{SYSTEM CPU "\n<pci busid=\"0000:01:00.0\"><pcilink target=\"up\"/>"
			    "<pci busid=\"0000:02:00.0\"><gpu/></pci></pci></cpu></system>",
		 {"test.xml:3:27", "<pcilink>", "target=\"up\"", "expected the PCI address"}},
		{SYSTEM CPU "\n<pci busid=\"0000:01:00.0\"><gpu dev=\"0\">\n"
			    "<nvlink target=\"here\"/></gpu></pci></cpu></system>",
		 {"test.xml:4", "<nvlink>", "target=\"here\"", "expected a PCI address"}},
		{SYSTEM CPU
		 "\n<nic><net name=\"a\" dev=\"0\" speed=\"fast\"/></nic></cpu></system>",
		 {"test.xml:3", "<net", "speed", "fast"}},
	};
	struct topo_select one = util_first(1);
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		util_refuse(row[i].xml, &one, row[i].words);
}
END_TEST

/* Odd files that NCCL accepts are accepted. */
START_TEST(what_nccl_accepts_is_accepted)
{
	const struct topo_system *sys = util_system_of(
		"<system version=\"2\">" CPU "<pci busid=\"0000:01:00.0\" class=\"0x060400\">"
		"<pci busid=\"0100:01.0\" class=\"0x030200\" rail=\"1\">"
		"<gpu dev=\"0\" sm=\"80\" mlopart=\"0\"/></pci></pci>"
		"<pci busid=\"0000:01:00.0\" class=\"0x060400\">"
		"<pci busid=\"0000:01:00.0\" class=\"0x020700\"><nic>"
		"<net name=\"mlx5_0\" dev=\"0\" speed=\"200000000\" rail=\"3\" plane=\"1\" "
		"net=\"1\" "
		"gin=\"0\" rma=\"0\"/></nic></pci></pci><cxb/></cpu></system>",
		1);
	struct topo_element e;

	ck_assert_int_eq(topo_nic_count(sys), 1);
	ck_assert_uint_eq(topo_net_node(sys, 0)->net.bw_mbps, 25000000);
	ck_assert_uint_eq(topo_gpu_node(sys, 0)->bus, 0x100010);
	ck_assert_int_eq(topo_nic_path(sys, 0, 0), TOPO_PATH_PHB);
	topo_element_get(sys, topo_element_of_gpu(sys, 0), &e);
	ck_assert_str_eq(e.name, "0100:01.0");
}
END_TEST

/* net="0" is a port that is part of a merged one: that one counts. */
START_TEST(ports_of_a_merged_nic_do_not_count)
{
	const struct topo_system *sys = util_system_of(
		SYSTEM CPU "<pci busid=\"0000:01:00.0\"><gpu dev=\"0\" sm=\"80\"/></pci>"
			   "<pci busid=\"0000:03:00.0\" class=\"0x020700\"><nic>"
			   "<net name=\"mlx5_0\" dev=\"0\" speed=\"100000\" net=\"0\"/>"
			   "<net name=\"mlx5_1\" dev=\"1\" speed=\"100000\" net=\"0\"/>"
			   "<net name=\"mlx5_0+mlx5_1\" dev=\"2\" speed=\"200000\"/>"
			   "</nic></pci></cpu></system>",
		1);

	ck_assert_int_eq(topo_nic_count(sys), 1);
	ck_assert_str_eq(topo_nic_name(sys, 0), "mlx5_0+mlx5_1");
}
END_TEST

START_TEST(amds_architecture_is_read)
{
	static const struct {
		const char *text;
		int32_t gcn;
	} form[] = {{"gfx942", 0x942}, {"942", 0x942},
		    {"910", 0x90a},    {"gfx90a:sramecc+:xnack-", 0x90a},
		    {"21943", 0}, /* no architecture: as if it were not there */
		    {"green", 0},      {"", 0}};
	char xml[512];
	struct topo_element e;

	for (size_t i = 0; i < ARRAY_LEN(form); i++) {
		snprintf(xml, sizeof xml,
			 SYSTEM CPU "<pci busid=\"0000:01:00.0\"><gpu gcn=\"%s\" arch=\"38911\"/>"
				    "</pci></cpu></system>",
			 form[i].text);
		topo_element_get(util_system_of(xml, 1), 1, &e);
		ck_assert_int_eq(e.gcn, form[i].gcn);
	}
}
END_TEST

/* A second <gpu> of a function is the same GPU: two ranks cannot have it. */
START_TEST(two_gpus_of_one_function_are_explained)
{
	static const char xml[] = SYSTEM CPU "\n<pci busid=\"0000:01:00.0\">\n<gpu dev=\"0\"/>\n"
					     "<gpu dev=\"1\"/></pci></cpu></system>";
	static const char *const words[6] = {"test.xml:5: this second <gpu>",
					     "0000:01:00.0 (line 3)", "local ranks 0 and 1",
					     "a <pci> of its own"};
	static const char *const absent[6] = {"dev 1", "the second <gpu>", "in line 5",
					      "is the GPU of line 3"};
	const struct topo_select by_bus = {.count = 2,
					   .gpu = {{"0000:01:00.0", 0}, {"0000:01:00.0", 1}}};
	struct topo_select by_dev = util_first(2);

	util_refuse(xml, &by_bus, words);
	util_refuse(xml, &by_dev, absent);
}
END_TEST

/* The class of an NVLink selects its target, as in NCCL: to the NVSwitch even with a GPU's address,
 * to a GPU that there is, or nowhere; without a class by its target. */
START_TEST(an_nvlink_goes_by_its_class)
{
#define LINK(attributes)                                                                           \
	SYSTEM CPU "<pci busid=\"0000:01:00.0\"><gpu dev=\"0\" sm=\"90\"><nvlink "                 \
		   "count=\"4\" " attributes                                                       \
		   "/></gpu></pci><pci busid=\"0000:02:00.0\"><gpu dev=\"1\" sm=\"90\"/></pci>"    \
		   "</cpu></system>"
	static const struct {
		const char *xml;
		int32_t to; /* enum topo_node_type; -1: there is no NVLink */
	} row[] = {
		{LINK("target=\"0000:02:00.0\" tclass=\"0x068000\""), TOPO_NODE_NVS},
		{LINK("target=\"0000:01:00.0\" tclass=\"0x068000\""), TOPO_NODE_NVS},
		{LINK("target=\"0000:02:00.0\" tclass=\"0x068001\""), TOPO_NODE_CPU},
		{LINK("target=\"0000:02:00.0\" tclass=\"0x030200\""), TOPO_NODE_GPU},
		{LINK("target=\"0000:02:00.0\""), TOPO_NODE_GPU},
		{LINK("target=\"0000:0f:00.0\" tclass=\"0x030200\""), -1},
		{LINK("target=\"0000:0f:00.0\""), -1},
	};

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		const struct topo_system *sys = util_system_of(row[i].xml, 2);
		int32_t to = -1;

		for (int32_t k = 0; k < topo_edge_count(sys); k++) {
			struct topo_edge edge;
			struct topo_element e;

			topo_edge_get(sys, k, &edge);
			if (edge.type != TOPO_PATH_NVL || edge.from != topo_element_of_gpu(sys, 0))
				continue;
			topo_element_get(sys, edge.to, &e);
			to = (int32_t)e.type;
		}
		ck_assert_msg(to == row[i].to, "row %zu: to %d, expected %d", i, to, row[i].to);
	}
#undef LINK
}
END_TEST

/* Two switches below two CPUs: their GPUs reach each other over the link, not the CPUs. */
START_TEST(switches_can_be_linked)
{
#define LINKED(target)                                                                             \
	SYSTEM "<cpu numaid=\"0\"><pci busid=\"0000:01:00.0\"><pcilink target=\"" target           \
	       "\"/><pci busid=\"0000:02:00.0\"><gpu dev=\"0\"/></pci></pci></cpu>"                \
	       "<cpu numaid=\"1\"><pci busid=\"0000:11:00.0\"><pcilink target=\"0000:01:00.0\"/>"  \
	       "<pci busid=\"0000:12:00.0\"><gpu dev=\"1\"/></pci></pci></cpu></system>"
	const struct topo_system *sys = util_system_of(LINKED("0000:11:00.0"), 2);

	ck_assert_int_eq(topo_gpu_path(sys, 0, 1), TOPO_PATH_PXB);
	ck_assert_int_eq(topo_gpu_path(sys, 1, 0), TOPO_PATH_PXB);
	ck_assert_int_eq(topo_gpu_bw_mbps(sys, 0, 1), 12000);
	/* one way only: to a function that is not there, to itself */
	ck_assert_int_eq(topo_gpu_path(util_system_of(LINKED("0000:99:00.0"), 2), 0, 1),
			 TOPO_PATH_SYS);
	ck_assert_int_eq(topo_gpu_path(util_system_of(LINKED("0000:01:00.0"), 2), 0, 1),
			 TOPO_PATH_SYS);
}
END_TEST

/* Switches linked in a circle, below one CPU: each path is as long as it has to be. */
START_TEST(switches_linked_in_a_circle_are_no_endless_way)
{
	char xml[2048], *at = xml;

	at += sprintf(at, SYSTEM "<cpu numaid=\"0\">");
	for (int i = 0; i < 4; i++)
		at += sprintf(at,
			      "<pci busid=\"0000:%d1:00.0\"><pcilink target=\"0000:%d1:00.0\"/>"
			      "<pcilink target=\"0000:%d1:00.0\"/>"
			      "<pci busid=\"0000:%d2:00.0\"><gpu dev=\"%d\"/></pci></pci>\n",
			      i, (i + 1) % 4, (i + 3) % 4, i, i);
	sprintf(at, "</cpu></system>");
	const struct topo_system *sys = util_system_of(xml, 4);

	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(topo_gpu_path(sys, i, (i + 1) % 4), TOPO_PATH_PXB);
		ck_assert_int_eq(topo_path_at(sys, i, (i + 1) % 4)->count, 3);
		ck_assert_int_eq(topo_path_at(sys, i, (i + 2) % 4)->count, 4);
	}
}
END_TEST

/* A template whose leaves have only an address: the leaves of the GPUs in use are GPUs. */
START_TEST(a_function_without_a_class_is_a_gpu_by_its_address)
{
	const char *xml = "<system><cpu numaid=\"0\"><pci busid=\"0000:45:00.0\">"
			  "<pci busid=\"0000:4f:00.0\"/><pci busid=\"0000:53:00.0\"/></pci>"
			  "<pci busid=\"0000:56:00.0\"><pci busid=\"0000:64:00.0\"/></pci>"
			  "</cpu></system>";
	struct topo_select select = {.count = 2, .gpu = {{"0000:53:00.0", 0}, {"0000:64:00.0", 1}}};
	const struct topo_system *sys;
	struct topo_select one = util_first(1);

	ck_assert(topo_system_get(xml, strlen(xml), "test.xml", &select, &sys) == ncclSuccess);
	ck_assert_int_eq(topo_gpu_count(sys), 2);
	ck_assert_int_eq(topo_gpu_path(sys, 0, 1), TOPO_PATH_PHB);
	util_refuse(xml, &one, (const char *[]){"test.xml:1:1", "no GPU", NULL});
}
END_TEST

/* Too much of everything: refused, and early. */
START_TEST(what_is_too_large_is_refused)
{
	static char xml[16 << 20];
	struct topo_select one = util_first(1);
	size_t n = (size_t)sprintf(xml, "<system>\n<cpu>\n");

	for (int i = 0; i < 1000000 && n < sizeof xml - 64; i++)
		n += (size_t)sprintf(xml + n, "<a/>\n");
	util_refuse(xml, &one, (const char *[]){"test.xml", "at most", NULL});
	xml[3 << 20] = '\0';
	util_refuse(xml, &one,
		    (const char *[]){"test.xml:4097:1", "more than 4096 elements", NULL});
	n = 0;
	for (int i = 0; i < 100000; i++)
		n += (size_t)sprintf(xml + n, "<pci busid=\"0000:01:00.0\">");
	util_refuse(xml, &one, (const char *[]){"test.xml:1:", "nested deeper than 32", NULL});
	sprintf(xml, "<?xml version=\"1.0\"?>\n<!DOCTYPE system [<!ENTITY a \"aaaaaaaaaa\">\n"
		     "<!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">]><system>&b;</system>");
	util_refuse(xml, &one, (const char *[]){"test.xml:2:1", "document type", NULL});
	sprintf(xml, "<system>\n <cpu>&bomb;</cpu></system>");
	util_refuse(xml, &one, (const char *[]){"test.xml:2:7", "undefined entity", NULL});
	/* many attributes; one of three megabytes, of which the message has the beginning */
	n = (size_t)sprintf(xml, "<system>\n <cpu");
	for (int i = 0; i < 100000; i++)
		n += (size_t)sprintf(xml + n, " a%d=\"\"", i);
	sprintf(xml + n, "/></system>");
	util_refuse(
		xml, &one,
		(const char *[]){"test.xml:2:2", "100000 attributes, expected at most 64", NULL});
	n = (size_t)sprintf(xml, "<system><cpu>\n<pci busid=\"");
	memset(xml + n, 'f', 3 << 20);
	sprintf(xml + n + (3 << 20), "\"><gpu/></pci></cpu></system>");
	util_refuse(xml, &one,
		    (const char *[]){"test.xml:2:1", "<pci>", "expected a PCI address", NULL});
}
END_TEST

START_TEST(a_selection_must_name_gpus_of_the_file_once)
{
	struct topo_select none = {.count = 0}, far = util_first(2), twice = util_first(2);
	far.gpu[1].dev = 7;
	strcpy(far.gpu[1].bus_id, "0000:99:00.0");
	twice.gpu[1].dev = 0;
	util_refuse(two_gpus, &none,
		    (const char *[]){"0 GPUs are selected", "expected 1 to", NULL});
	util_refuse(two_gpus, &far,
		    (const char *[]){"test.xml", "local rank 1", "0000:99:00.0", "dev 7", NULL});
	util_refuse(two_gpus, &twice, (const char *[]){"test.xml:2", "local ranks 0 and 1", NULL});
}
END_TEST

START_TEST(bus_ids_count_only_when_all_are_there)
{
	struct topo_select swapped = {.count = 2,
				      .gpu = {{"0000:02:00.0", 0}, {"0000:01:00.0", 1}}};
	struct topo_select foreign = {.count = 2,
				      .gpu = {{"0000:02:00.0", 0}, {"0000:77:00.0", 1}}};
	const struct topo_system *sys;
	ck_assert(topo_system_get(two_gpus, strlen(two_gpus), "test.xml", &swapped, &sys) == 0);
	ck_assert_int_eq(topo_gpu_node(sys, sys->local_to_pos[0])->dev, 1);
	ck_assert_int_eq(topo_gpu_node(sys, sys->local_to_pos[1])->dev, 0);
	ck_assert(topo_system_get(two_gpus, strlen(two_gpus), "test.xml", &foreign, &sys) == 0);
	ck_assert_int_eq(topo_gpu_node(sys, sys->local_to_pos[0])->dev, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("topo_input");
	TCase *t = tcase_create("input");
	suite_add_tcase(suite, t);
	tcase_add_test(t, two_gpus_of_one_function_are_explained);
	tcase_add_test(t, an_nvlink_goes_by_its_class);
	tcase_add_test(t, link_speed_in_every_spelling_and_default);
	tcase_add_test(t, malformed_input_is_refused_with_line_and_expectation);
	tcase_add_test(t, what_nccl_accepts_is_accepted);
	tcase_add_test(t, ports_of_a_merged_nic_do_not_count);
	tcase_add_test(t, amds_architecture_is_read);
	tcase_add_test(t, switches_can_be_linked);
	tcase_add_test(t, switches_linked_in_a_circle_are_no_endless_way);
	tcase_add_test(t, a_function_without_a_class_is_a_gpu_by_its_address);
	tcase_add_test(t, what_is_too_large_is_refused);
	tcase_add_test(t, a_selection_must_name_gpus_of_the_file_once);
	tcase_add_test(t, bus_ids_count_only_when_all_are_there);
	return util_run(suite);
}
