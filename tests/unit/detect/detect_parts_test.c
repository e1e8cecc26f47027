/* SPDX-License-Identifier: BSD-3-Clause */
/* Detection: NICs, and the parts that the ranks of a host find. */
#include "tests/unit/detect/detect_host.h"

/* ---- NICs
 * --------------------------------------------------------------------------------------- */

static void host_hca(const char *name, const char *device, const char *state)
{
	char dir[128];
	snprintf(dir, sizeof dir, "/sys/class/infiniband/%s", name);
	if (device)
		files_link(host, dir, "device", device);
	files_put(host, dir, "sys_image_guid", "b8ce:f603:00d2:1a4c\n");
	snprintf(dir, sizeof dir, "/sys/class/infiniband/%s/ports/1", name);
	files_put(host, dir, "state", "%s\n", state);
	files_put(host, dir, "rate", "400 Gb/sec (4X NDR)\n");
}

START_TEST(nics_are_the_active_ports_of_hcas)
{
	struct topo_detect_nic nic[4];
	host_open();
	host_hca("mlx5_1", NULL, "4: ACTIVE");
	host_hca("mlx5_0", NULL, "1: DOWN");
	files_put(host, "/sys/class/infiniband/mlx5_1/ports/x", "state", "4\n");
	files_add(host, "/sys/class/infiniband/file", "");
	files_put(host, "/sys/class/net/eth0", "operstate", "up\n");
	ck_assert_int_eq(topo_detect_nics(nic, 4), 1);
	ck_assert_str_eq(nic[0].name, "mlx5_1");
	ck_assert_int_eq(nic[0].port, 1);
	ck_assert_uint_eq(nic[0].mbit, 400000);
	ck_assert_uint_eq(nic[0].guid, 0xb8cef60300d21a4c);
	ck_assert(nic[0].rdma && !nic[0].gdr);
	files_put(host, "/sys/module/nvidia_peermem", "version", "1\n");
	ck_assert_int_eq(topo_detect_nics(nic, 4), 1);
	ck_assert(nic[0].gdr);
	host_end();
}
END_TEST

START_TEST(without_hcas_they_are_the_interfaces_that_are_up)
{
	struct topo_detect_nic nic[4];
	host_open();
	files_put(host, "/sys/class/net/lo", "operstate", "up\n");
	files_put(host, "/sys/class/net/eth1", "operstate", "up\n");
	files_put(host, "/sys/class/net/eth1", "speed", "-1\n");
	files_put(host, "/sys/class/net/eth2", "operstate", "down\n");
	files_put(host, "/sys/class/net/eth3", "operstate", "up\n");
	files_put(host, "/sys/class/net/eth3", "speed", "25000\n");
	ck_assert_int_eq(topo_detect_nics(nic, 4), 2);
	ck_assert_str_eq(nic[0].name, "eth1");
	ck_assert_uint_eq(nic[0].mbit, 10000);
	ck_assert_str_eq(nic[1].name, "eth3");
	ck_assert_uint_eq(nic[1].mbit, 25000);
	ck_assert_int_eq(topo_detect_nics(nic, 1), 1);
	host_end();
}
END_TEST

/* The second port of a card is its first function's, a virtual function its physical one's; a
 * device that is no PCI function is below the first CPU. */
START_TEST(a_nic_is_below_its_card)
{
	struct topo_detect_nic nic[5] = {{.name = "mlx5_0", .rdma = true},
					 {.name = "mlx5_1", .rdma = true},
					 {.name = "mlx5_2", .rdma = true},
					 {.name = "rxe0", .rdma = true},
					 {.name = "../x", .rdma = true}};
	host_open();
	host_switch();
	host_function(ROOT, "0000:20:00.0", "0", NULL, NULL);
	host_function(ROOT, "0000:20:00.1", "0", NULL, NULL);
	host_function(ROOT, "0000:20:01.3", "0", NULL, NULL);
	files_link(host, ROOT "/0000:20:01.3", "physfn", ROOT "/0000:20:00.1");
	host_hca("mlx5_0", ROOT "/0000:20:00.0", "4: ACTIVE");
	host_hca("mlx5_1", ROOT "/0000:20:00.1", "4: ACTIVE");
	host_hca("mlx5_2", ROOT "/0000:20:01.3", "4: ACTIVE");
	host_hca("rxe0", "/sys/devices/virtual/net/eth0", "4: ACTIVE");
	char *xml = detect_text(
		&(struct topo_detect){.gpu = &gpu_13, .gpus = 1, .nic = nic, .nics = 5});
	const char *card = strstr(xml, "busid=\"0000:20:00.0\"");
	ck_assert_ptr_nonnull(card);
	expect(card, "mlx5_0");
	expect(card, "mlx5_1");
	expect(card, "mlx5_2");
	ck_assert_ptr_null(strstr(xml, "busid=\"0000:20:00.1\""));
	const char *gpu = strstr(xml, "</gpu>"), *virtual = strstr(xml, "name=\"rxe0\"");
	ck_assert(virtual > gpu && virtual < card);
	expect(xml, "name=\"../x\"");
	os_free(xml);
	host_end();
}
END_TEST

/* ---- parts
 * -------------------------------------------------------------------------------------- */

#define SYSTEM(text) "<system version=\"1\">" text "</system>"

START_TEST(parts_with_one_bus_id_are_one_function)
{
	char *xml = detect_fuse2(
		SYSTEM("<cpu numaid=\"0\"><pci busid=\"0000:02:00.0\"><pci busid=\"0000:04:00.0\">"
		       "<gpu dev=\"1\" keep=\"1\"/></pci></pci></cpu>"),
		SYSTEM("<cpu numaid=\"0\"><pci busid=\"0000:02:00.0\" link_width=\"8\"><pci "
		       "busid=\"0000:03:00.0\"><gpu dev=\"0\" keep=\"1\"/></pci><pci "
		       "busid=\"0000:04:00.0\"><gpu dev=\"7\" sm=\"80\"/></pci></pci></cpu>"));
	ck_assert_str_eq(xml, "<system version=\"1\">\n"
			      "  <cpu numaid=\"0\">\n"
			      "    <pci busid=\"0000:02:00.0\" link_width=\"8\">\n"
			      "      <pci busid=\"0000:03:00.0\">\n"
			      "        <gpu dev=\"0\"/>\n"
			      "      </pci>\n"
			      "      <pci busid=\"0000:04:00.0\">\n"
			      "        <gpu dev=\"1\" sm=\"80\"/>\n"
			      "      </pci>\n"
			      "    </pci>\n"
			      "  </cpu>\n"
			      "</system>\n");
	os_free(xml);
}
END_TEST

START_TEST(what_no_rank_uses_is_left_out)
{
	char *xml = detect_fuse2(
		SYSTEM("<cpu numaid=\"0\"><pci busid=\"0000:02:00.0\"><gpu dev=\"0\"/></pci><nic>"
		       "<net name=\"a\" keep=\"1\"/><net name=\"b\" keep=\"0\"/></nic></cpu>"
		       "<cpu numaid=\"1\"><pci busid=\"0000:05:00.0\"><pci "
		       "busid=\"0000:06:00.0\"/></pci></cpu>"),
		SYSTEM("<cpu numaid=\"2\"><pci busid=\"0000:07:00.0\"><gpu dev=\"3\" keep=\"1\">"
		       "<nvlink target=\"0000:02:00.0\" count=\"2\"/></gpu></pci></cpu>"));
	ck_assert_str_eq(xml, "<system version=\"1\">\n"
			      "  <cpu numaid=\"0\">\n"
			      "    <nic>\n"
			      "      <net name=\"a\"/>\n"
			      "    </nic>\n"
			      "  </cpu>\n"
			      "  <cpu numaid=\"2\">\n"
			      "    <pci busid=\"0000:07:00.0\">\n"
			      "      <gpu dev=\"3\">\n"
			      "        <nvlink target=\"0000:02:00.0\" count=\"2\"/>\n"
			      "      </gpu>\n"
			      "    </pci>\n"
			      "  </cpu>\n"
			      "</system>\n");
	os_free(xml);
}
END_TEST

START_TEST(ports_of_one_device_are_different_nets)
{
	char *xml = detect_fuse2(
		SYSTEM("<cpu numaid=\"0\"><nic><net name=\"a\" port=\"1\" "
		       "keep=\"1\"/></nic></cpu>"),
		SYSTEM("<cpu numaid=\"0\"><nic><net name=\"a\" port=\"2\" keep=\"1\"/><net "
		       "name=\"a\" port=\"1\" keep=\"1\"/></nic></cpu>"));
	expect(xml, "<net name=\"a\" port=\"1\"/>\n      <net name=\"a\" port=\"2\"/>\n    </nic>");
	os_free(xml);
}
END_TEST

START_TEST(a_part_that_is_no_xml_is_refused)
{
	const struct topo_detect_part part = {"<system", 7};
	char *xml = NULL;
	size_t bytes;
	ck_assert_int_eq(topo_detect_fuse(&part, 1, &xml, &bytes), ncclInvalidUsage);
	ck_assert_ptr_null(xml);
	expect(log_last_error(), "a part of the topology:1:");
}
END_TEST

START_TEST(a_template_has_a_gpu_without_its_element)
{
	static const char head[] = SYSTEM("<cpu numaid=\"0\"><pci busid=\"0000:03:00.0\" "
					  "class=\"0x030200\"><gpu dev=\"0\"/></pci>%s</cpu>");
	static const struct {
		const char *pci;
		bool is_template;
	} with[] = {
		{"", false},
		{"<pci busid=\"0000:02:00.0\" class=\"0x030200\"/>", true},
		{"<pci><pci busid=\"0000:02:00.0\" class=\"0x030000\" vendor=\"0x10de\"/></pci>",
		 true},
		{"<pci busid=\"0000:02:00.0\" class=\"0x030000\" vendor=\"0x1a03\"/>", false},
		{"<pci busid=\"0000:02:00.0\" class=\"0x020700\"/>", false},
		{"<pci class=\"0x030200\">", false}, /* no XML */
		/* spelt in other ways, or no GPU by the second look */
		{"<pci class='0x030200'></pci>", true},
		{"<pci class = \"&#48;x030200\" />", true},
		{"<pci class=\"0x030200\">\n  <!-- none --></pci>", true},
		{"<pci class=\"0x030200\"><!-- one --><gpu dev=\"1\"/></pci>", false},
		{"<!-- class=\"0x030200\" -->", false},
	};
	for (size_t i = 0; i < ARRAY_LEN(with); i++) {
		char xml[512];
		int bytes = snprintf(xml, sizeof xml, head, with[i].pci);
		ck_assert_int_eq(topo_detect_is_template(xml, (size_t)bytes), with[i].is_template);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("detect_sys");
	TCase *t = tcase_create("detect_sys");
	suite_add_tcase(suite, t);
	tcase_add_test(t, nics_are_the_active_ports_of_hcas);
	tcase_add_test(t, without_hcas_they_are_the_interfaces_that_are_up);
	tcase_add_test(t, a_nic_is_below_its_card);
	tcase_add_test(t, parts_with_one_bus_id_are_one_function);
	tcase_add_test(t, what_no_rank_uses_is_left_out);
	tcase_add_test(t, ports_of_one_device_are_different_nets);
	tcase_add_test(t, a_part_that_is_no_xml_is_refused);
	tcase_add_test(t, a_template_has_a_gpu_without_its_element);
	return suite_run(suite);
}
