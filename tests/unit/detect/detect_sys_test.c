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
#include "tests/unit/detect/detect_host.h"

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
	return suite_run(suite);
}
