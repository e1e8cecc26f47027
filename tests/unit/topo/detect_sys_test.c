/* SPDX-License-Identifier: BSD-3-Clause */
/* Detection on a /sys made by hand: what a kernel has, what it may lack, and what is strange. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/topo/detect/detect.h"
#include "tests/host_files.h"
#include "tests/suite.h"

/* ---- a host of files
 * -------------------------------------------------------------------------- */

static void host_end(void)
{
	const char *first = NULL;
	ck_assert_msg(os_real_alloc_count(&first) == 0, "memory left: %s", first);
	host_close();
}

#define ROOT "/sys/devices/pci0000:10"

/* A function at that place, with the two links that lead to it. */
static void host_function(const char *above, const char *bus_id, const char *numa,
			  const char *speed, const char *width)
{
	char dir[512], bus[32], at[600];
	snprintf(dir, sizeof dir, "%s/%s", above, bus_id);
	snprintf(bus, sizeof bus, "%.7s", bus_id);
	files_put(host, dir, "class", "0x030200\n");
	files_put(host, dir, "vendor", "0x10de\n");
	if (numa)
		files_put(host, dir, "numa_node", "%s\n", numa);
	if (speed)
		files_put(host, dir, "max_link_speed", "%s\n", speed);
	if (width)
		files_put(host, dir, "max_link_width", "%s\n", width);
	snprintf(at, sizeof at, "%s/pci_bus/%s", above, bus);
	files_dir(host, at);
	files_link(host, "/sys/class/pci_bus", bus, at);
	files_link(host, "/sys/bus/pci/devices", bus_id, dir);
}

/* A root port, a switch of two bridges, and a GPU below it. */
static void host_switch(void)
{
	host_function(ROOT, "0000:10:01.0", "1", "32.0 GT/s PCIe", "16");
	host_function(ROOT "/0000:10:01.0", "0000:11:00.0", "1", "16.0 GT/s PCIe", "8");
	host_function(ROOT "/0000:10:01.0/0000:11:00.0", "0000:12:00.0", "1", "8.0 GT/s PCIe", "4");
	host_function(ROOT "/0000:10:01.0/0000:11:00.0/0000:12:00.0", "0000:13:00.0", "1",
		      "16.0 GT/s PCIe", "16");
	files_put(host, "/sys/devices/system/node/node1", "cpumap", "ff00\n");
	files_put(host, "/proc", "cpuinfo",
		  "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"
		  "model name\t: x\n");
}

static const struct topo_detect_gpu gpu_13 = {
	.bus_id = "0000:13:00.0",
	.dev = 2,
	.rank = 5,
	.sm = 90,
	.gdr = true,
	.link = {{"0000:99:00.0", 3}, {"fffffff:ff:ff.0", 4}},
	.links = 2,
	.c2c = 2,
	.c2c_mbps = 44712,
};

static char *detect_text(const struct topo_detect *d)
{
	char *xml = NULL;
	size_t bytes = 0;
	ncclResult_t rc = topo_detect(d, &xml, &bytes);
	ck_assert_msg(rc == ncclSuccess, "%s", log_last_error());
	ck_assert_uint_eq(strlen(xml), bytes);
	return xml;
}

static char *detect_fuse2(const char *a, const char *b)
{
	char *xml = NULL;
	size_t bytes;
	const struct topo_detect_part part[2] = {{a, strlen(a)}, {b, strlen(b)}};
	ck_assert_int_eq(topo_detect_fuse(part, 2, &xml, &bytes), ncclSuccess);
	return xml;
}

static void expect(const char *xml, const char *what)
{
	ck_assert_msg(strstr(xml, what) != NULL, "no '%s' in\n%s", what, xml);
}

/* ---- PCI and CPU
 * -------------------------------------------------------------------------------- */

START_TEST(a_switch_is_its_upper_port_and_links_are_the_slower_end)
{
	host_open();
	host_switch();
	char *xml =
		detect_text(&(struct topo_detect){.host_hash = 0xabc, .gpu = &gpu_13, .gpus = 1});
	ck_assert_str_eq(
		xml,
		"<system version=\"1\">\n"
		"  <cpu host_hash=\"0xabc\" numaid=\"1\" affinity=\"ff00\" arch=\"x86_64\" "
		"vendor=\"AuthenticAMD\" familyid=\"175\" modelid=\"17\">\n"
		"    <pci busid=\"0000:11:00.0\" class=\"0x030200\" vendor=\"0x10de\" "
		"link_speed=\"16.0 GT/s PCIe\" link_width=\"8\">\n"
		"      <pci busid=\"0000:13:00.0\" class=\"0x030200\" vendor=\"0x10de\" "
		"link_speed=\"8.0 GT/s PCIe\" link_width=\"4\">\n"
		"        <gpu dev=\"2\" sm=\"90\" rank=\"5\" gdr=\"1\" keep=\"1\">\n"
		"          <nvlink target=\"0000:99:00.0\" count=\"3\" tclass=\"0x068000\"/>\n"
		"          <nvlink target=\"fffffff:ff:ff.0\" count=\"4\" tclass=\"0x068000\"/>\n"
		"          <c2c bw=\"44712\" count=\"2\"/>\n"
		"        </gpu>\n"
		"      </pci>\n"
		"    </pci>\n"
		"  </cpu>\n"
		"</system>\n");
	os_free(xml);
	host_end();
}
END_TEST

START_TEST(the_class_of_a_links_far_end_is_the_kernels)
{
	host_open();
	host_switch();
	files_put(host, "/sys/devices/pci0000:99/0000:99:00.0", "class", "0x068001\n");
	files_link(host, "/sys/bus/pci/devices", "0000:99:00.0",
		   "../../../devices/pci0000:99/0000:99:00.0");
	char *xml = detect_text(&(struct topo_detect){.gpu = &gpu_13, .gpus = 1});
	expect(xml, "target=\"0000:99:00.0\" count=\"3\" tclass=\"0x068001\"");
	os_free(xml);
	host_end();
}
END_TEST

START_TEST(the_drivers_link_goes_over_the_kernels)
{
	struct topo_detect_gpu gpu = gpu_13;
	host_open();
	host_switch();
	snprintf(gpu.link_speed, sizeof gpu.link_speed, "32.0 GT/s PCIe");
	gpu.link_width = 16;
	char *xml = detect_text(&(struct topo_detect){.gpu = &gpu, .gpus = 1});
	expect(xml, "busid=\"0000:13:00.0\" class=\"0x030200\" vendor=\"0x10de\" "
		    "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"");
	os_free(xml);
	/* but not over a file's */
	static const char base[] = "<system version=\"1\"><cpu numaid=\"1\"><pci "
				   "busid=\"0000:13:00.0\" link_width=\"2\"/></cpu></system>";
	xml = detect_text(&(struct topo_detect){.gpu = &gpu,
						.gpus = 1,
						.base = base,
						.source = "base",
						.base_bytes = sizeof base - 1});
	expect(xml, "link_width=\"2\" class=\"0x030200\" vendor=\"0x10de\" "
		    "link_speed=\"32.0 GT/s PCIe\"");
	os_free(xml);
	host_end();
}
END_TEST

START_TEST(the_rules_of_nccl_2_28_have_the_kernels_link)
{
	struct topo_detect_gpu gpu = gpu_13;
	setenv("NCCL_TOPO_COMPAT", "2.28", 1);
	host_open();
	host_switch();
	snprintf(gpu.link_speed, sizeof gpu.link_speed, "32.0 GT/s PCIe");
	gpu.link_width = 16;
	char *xml = detect_text(&(struct topo_detect){.gpu = &gpu, .gpus = 1});
	expect(xml, "busid=\"0000:13:00.0\" class=\"0x030200\" vendor=\"0x10de\" "
		    "link_speed=\"8.0 GT/s PCIe\" link_width=\"4\"");
	os_free(xml);
	host_end();
	unsetenv("NCCL_TOPO_COMPAT");
}
END_TEST

START_TEST(addresses_of_a_file_may_be_written_otherwise)
{
	struct topo_detect_gpu gpu = gpu_13;
	static const char base[] = "<system version=\"1\"><cpu numaid=\"0\"><pci "
				   "busid=\"0000:1D:0.0\" class=\"0x030200\"/>"
				   "<pci busid=\"0100:02.0\" class=\"0x020700\"/></cpu></system>";
	memcpy(gpu.bus_id, "0000:1d:00.0", sizeof "0000:1d:00.0");
	host_open();
	char *xml = detect_text(&(struct topo_detect){.gpu = &gpu,
						      .gpus = 1,
						      .base = base,
						      .source = "base",
						      .base_bytes = sizeof base - 1});
	expect(xml, "    <pci busid=\"0000:1d:00.0\" class=\"0x030200\">\n      <gpu dev=\"2\"");
	expect(xml, "    <pci busid=\"0001:00:02.0\" class=\"0x020700\"/>\n");
	ck_assert_ptr_null(strstr(xml, "numaid=\"-1\""));
	os_free(xml);
	host_end();
}
END_TEST

START_TEST(a_gpu_that_the_kernel_does_not_show_hangs_below_an_unknown_cpu)
{
	host_open();
	char *xml = detect_text(&(struct topo_detect){.gpu = &gpu_13, .gpus = 1});
	expect(xml, "<cpu host_hash=\"0x0\" numaid=\"-1\">\n    <pci busid=\"0000:13:00.0\">\n");
	os_free(xml);
	host_end();
}
END_TEST

START_TEST(what_files_lack_is_unknown)
{
	host_open();
	host_function(ROOT, "0000:13:00.0", "-1", "16.0 GT/s PCIe", "16");
	char *xml = detect_text(&(struct topo_detect){.gpu = &gpu_13, .gpus = 1});
	expect(xml, "numaid=\"-1\"");
	/* the root has no port with a width */
	expect(xml, "link_speed=\"16.0 GT/s PCIe\" link_width=\"0\"");
	os_free(xml);
	files_free(host);
	host = files_new();
	host_function(ROOT, "0000:13:00.0", "a lot", NULL, NULL);
	xml = detect_text(&(struct topo_detect){.gpu = &gpu_13, .gpus = 1});
	expect(xml, "numaid=\"-1\"");
	expect(xml, "vendor=\"0x10de\" link_width=\"0\">");
	os_free(xml);
	host_end();
}
END_TEST

START_TEST(strange_contents_become_printable_and_short)
{
	static char long_text[5000];
	host_open();
	host_function(ROOT, "0000:13:00.0", NULL, "\"<&\x01\xff=", "16");
	memset(long_text, 'x', sizeof long_text - 1);
	files_add(host, ROOT "/0000:13:00.0/device", long_text);
	char *xml = detect_text(&(struct topo_detect){.gpu = &gpu_13, .gpus = 1});
	expect(xml, "link_speed=\"&quot;&lt;&amp;?\?=\"");
	ck_assert_uint_lt(strlen(xml), 1500);
	os_free(xml);
	/* a loop of links, and a function that is a file */
	files_free(host);
	host = files_new();
	files_link(host, "/sys/bus/pci/devices", "0000:13:00.0", "0000:13:00.0");
	xml = detect_text(&(struct topo_detect){.gpu = &gpu_13, .gpus = 1});
	expect(xml, "numaid=\"-1\"");
	os_free(xml);
	host_end();
}
END_TEST

START_TEST(a_function_twice_on_its_own_way_is_one)
{
	host_open();
	host_function(ROOT "/0000:13:00.0/0000:14:00.0/0000:15:00.0/0000:14:00.1", "0000:13:00.0",
		      "0", NULL, NULL);
	char *xml = detect_text(&(struct topo_detect){.gpu = &gpu_13, .gpus = 1});
	const char *first = strstr(xml, "busid=\"0000:13:00.0\"");
	ck_assert_ptr_nonnull(first);
	ck_assert_ptr_null(strstr(first + 1, "busid=\"0000:13:00.0\""));
	os_free(xml);
	host_end();
}
END_TEST

START_TEST(cpus_are_known_by_their_lines)
{
	static const struct {
		const char *info, *attributes;
	} cpu[] = {
		{"CPU implementer\t: 0x41\n", " arch=\"arm64\">"},
		{"cpu\t\t: POWER9, altivec\n", " arch=\"ppc64\">"},
		{"vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\n",
		 " arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"207\">"},
		{"vendor_id\t:   Shanghai  \n", " arch=\"x86_64\" vendor=\"  Shanghai  \">"},
		{"model name : nothing of use\n", "numaid=\"-1\">"},
		{"vendor_id", "numaid=\"-1\">"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cpu); i++) {
		host_open();
		files_add(host, "/proc/cpuinfo", cpu[i].info);
		char *xml = detect_text(&(struct topo_detect){.gpu = &gpu_13, .gpus = 1});
		expect(xml, cpu[i].attributes);
		os_free(xml);
		host_end();
	}
}
END_TEST

/* A GPU of a virtual machine is next to a root that has no port, and its switch is not to be
 * seen. */
static void host_virtual_gpu(const char *bus_id)
{
	char dir[128];
	host_function("/sys/devices/pci0000:00", bus_id, "-1", "32.0 GT/s PCIe", "16");
	snprintf(dir, sizeof dir, "/sys/devices/pci0000:00/%s", bus_id);
	files_put(host, dir, "device", "0x2335\n");
	files_put(host, dir, "subsystem_vendor", "0x10de\n");
	files_put(host, dir, "subsystem_device", "0x18bf\n");
}

#define VIRTUAL_GPU(bus_id, number)                                                                \
	"    <pci busid=\"" bus_id "\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2335\" "    \
	"subsystem_vendor=\"0x10de\" subsystem_device=\"0x18bf\" link_speed=\"32.0 GT/s PCIe\" "   \
	"link_width=\"0\">\n"                                                                      \
	"      <gpu dev=\"" number "\" sm=\"90\" rank=\"" number "\" gdr=\"1\">\n"                 \
	"        <nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>\n"          \
	"      </gpu>\n"                                                                           \
	"    </pci>\n"

/* Field by field what NCCL writes on a virtual machine of two H200, where NVML does not have the
 * link. */
START_TEST(a_virtual_machine_is_as_nccl_writes_it)
{
	struct topo_detect_gpu gpu[2] = {{.bus_id = "0000:00:06.0",
					  .sm = 90,
					  .gdr = true,
					  .link = {{"fffffff:ff:ff.0", 18}},
					  .links = 1}};
	struct topo_detect_part part[2];
	struct topo_detect_nic nic[4];
	char *text[2], *xml = NULL;
	size_t bytes;
	gpu[1] = gpu[0];
	memcpy(gpu[1].bus_id, "0000:00:07.0", sizeof "0000:00:07.0");
	gpu[1].dev = gpu[1].rank = 1;
	host_open();
	host_virtual_gpu("0000:00:06.0");
	host_virtual_gpu("0000:00:07.0");
	files_link(host, "/sys/class/net/eth0", "device",
		   "/sys/devices/pci0000:00/0000:00:03.0/virtio0");
	files_dir(host, "/sys/devices/pci0000:00/0000:00:03.0/virtio0");
	files_put(host, "/sys/class/net/eth0", "operstate", "up\n");
	files_put(host, "/sys/class/net/eth0", "speed", "-1\n");
	files_put(host, "/proc", "cpuinfo",
		  "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\n");
	ck_assert_int_eq(topo_detect_nics(nic, 4), 1);
	for (int i = 0; i < 2; i++) {
		text[i] = detect_text(&(struct topo_detect){.host_hash = 0x917aab85256575bd,
							    .gpu = &gpu[i],
							    .gpus = 1,
							    .nic = nic,
							    .nics = 1});
		part[i] = (struct topo_detect_part){text[i], strlen(text[i])};
	}
	ck_assert_int_eq(topo_detect_fuse(part, 2, &xml, &bytes), ncclSuccess);
	ck_assert_str_eq(
		xml,
		"<system version=\"1\">\n"
		"  <cpu host_hash=\"0x917aab85256575bd\" numaid=\"-1\" arch=\"x86_64\" "
		"vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"207\">\n" VIRTUAL_GPU(
			"0000:00:06.0", "0")
			VIRTUAL_GPU("0000:00:07.0",
				    "1") "    <nic>\n"
					 "      <net name=\"eth0\" dev=\"0\" latency=\"0\" "
					 "speed=\"10000\" "
					 "port=\"0\" guid=\"0x0\" maxconn=\"65536\" gdr=\"0\"/>\n"
					 "    </nic>\n"
					 "  </cpu>\n"
					 "</system>\n");
	os_free(text[0]);
	os_free(text[1]);
	os_free(xml);
	host_end();
}
END_TEST

START_TEST(without_memory_it_is_an_error)
{
	host_open();
	host_switch();
	for (int n = 1; n < 1000; n++) {
		char *xml = NULL;
		size_t bytes;
		host_failing = n;
		ncclResult_t rc =
			topo_detect(&(struct topo_detect){.gpu = &gpu_13, .gpus = 1}, &xml, &bytes);
		if (host_failing) { /* fewer reads than that */
			ck_assert_int_eq(rc, ncclSuccess);
			os_free(xml);
			ck_assert_int_gt(n, 10);
			host_end();
			return;
		}
		ck_assert_int_eq(rc, ncclSystemError);
		ck_assert_ptr_null(xml);
	}
	ck_abort_msg("more than 1000 reads");
}
END_TEST

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
	tcase_add_test(t, a_switch_is_its_upper_port_and_links_are_the_slower_end);
	tcase_add_test(t, the_class_of_a_links_far_end_is_the_kernels);
	tcase_add_test(t, the_drivers_link_goes_over_the_kernels);
	tcase_add_test(t, the_rules_of_nccl_2_28_have_the_kernels_link);
	tcase_add_test(t, addresses_of_a_file_may_be_written_otherwise);
	tcase_add_test(t, a_gpu_that_the_kernel_does_not_show_hangs_below_an_unknown_cpu);
	tcase_add_test(t, what_files_lack_is_unknown);
	tcase_add_test(t, strange_contents_become_printable_and_short);
	tcase_add_test(t, a_function_twice_on_its_own_way_is_one);
	tcase_add_test(t, cpus_are_known_by_their_lines);
	tcase_add_test(t, a_virtual_machine_is_as_nccl_writes_it);
	tcase_add_test(t, without_memory_it_is_an_error);
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
