/* SPDX-License-Identifier: BSD-3-Clause */
/* sim/world machines: the ones that come with Doppel, dumps of real ones (where they are), odd and
 * broken ones. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/os/os_ops.h"
#include "sim/world/world.h"
#include "tests/suite.h"

struct expectation {
	const char *name;
	int32_t gpus;
	uint32_t sm, nvlinks;
	bool nvswitch;
	int32_t nics, rdma;
	uint64_t nic_mbps; /* of the first */
	int rc;
};

static const struct expectation shipped[] = {
	{"h100-8nic", 8, 90, 18, true, 8, 8, 50000, 0},
	{"h100-2nic", 4, 90, 18, true, 2, 2, 50000, 0},
	{"a100-4nic", 8, 80, 12, true, 4, 4, 25000, 0},
	{"a100-2port", 4, 80, 12, false, 4, 4, 12500, 0},
	{"pcie-4gpu", 4, 80, 0, false, 1, 1, 12500, 0},
	{"workstation-2gpu", 2, 86, 0, false, 1, 0, 1250, 0},
};

static const struct expectation zoo[] = {
	{"8xa100-4xcx6", 8, 80, 12, true, 5, 5, 25000, 0},
	{"h200-vm-8", 8, 90, 18, true, 1, 0, 1250, 0},
	{"hgx-b200-8", 8, 100, 18, true, 2, 0, 1250, 0},
	{"perlmutter-4xa100", 4, 80, 12, false, 4, 4, 25000, 0},
	{"azure-ndv5-template", 8, 80, 0, false, 8, 8, 25000, 0},
	{"azure-ndv4-template", 8, 80, 0, false, 8, 8, 25000, 0},
	{"azure-ncv4-template", 4, 80, 12, false, 1, 0, 12500, 0},
	{"aws-p4d-template", 8, 80, 0, false, 0, 0, 0, 0},
	{"aws-p5-template", 0, 0, 0, false, 0, 0, 0, ENODEV},
	{"nebius-h100-template", 8, 90, 0, false, 8, 8, 50000, 0},
};

static void check_machine(const struct world_machine *m, const struct expectation *e)
{
	int32_t rdma = 0;
	ck_assert_int_eq(m->gpu_count, e->gpus);
	for (int32_t i = 0; i < m->gpu_count; i++) {
		ck_assert_int_eq(m->gpu[i].dev, i);
		ck_assert_uint_eq(m->gpu[i].sm, e->sm);
		ck_assert_uint_eq(m->gpu[i].nvlinks, e->nvlinks);
		ck_assert_int_eq(m->gpu[i].nvswitch, e->nvswitch);
		ck_assert_uint_gt(m->gpu[i].pci_mbps, 1000);
		ck_assert_uint_eq(m->gpu[i].pci_device & 0xffff, 0x10de);
		ck_assert_uint_ge(strlen(m->gpu[i].bus_id), 12);
	}
	ck_assert_int_eq(m->nic_count, e->nics);
	for (int32_t i = 0; i < m->nic_count; i++) {
		rdma += m->nic[i].is_rdma;
		ck_assert_uint_gt(strlen(m->nic[i].name), 0);
		ck_assert_uint_gt(m->nic[i].mbps, 0);
	}
	ck_assert_int_eq(rdma, e->rdma);
	if (m->nic_count)
		ck_assert_uint_eq(m->nic[0].mbps, e->nic_mbps);
	ck_assert_uint_eq(m->xml[m->xml_bytes], 0);
}

static void load_and_check(const char *name, const struct expectation *e)
{
	struct world_machine *m = NULL;
	ck_assert_int_eq(world_machine_load(name, &m), e->rc);
	if (e->rc) {
		ck_assert_ptr_null(m);
		return;
	}
	check_machine(m, e);
	world_machine_free(m);
	ck_assert_uint_eq(os_real_alloc_count(NULL), 0);
}

START_TEST(a_shipped_machine_is_found_by_name)
{
	load_and_check(shipped[_i].name, &shipped[_i]);
}
END_TEST

START_TEST(a_dump_of_a_real_machine_is_taken)
{
	char path[512];
	snprintf(path, sizeof path, "%s/../shared/zoo/%s.xml", DOPPEL_SOURCE_DIR, zoo[_i].name);
	if (access(path, R_OK) == 0)
		load_and_check(path, &zoo[_i]);
}
END_TEST

/* ---- texts of our own ---------------------------------------------------------------------------
 */

static int load_text(const char *text, struct world_machine **m)
{
	char path[] = "/tmp/doppel-machine-XXXXXX.xml";
	int fd = mkstemps(path, 4);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (int)strlen(text));
	close(fd);
	int rc = world_machine_load(path, m);
	unlink(path);
	return rc;
}

START_TEST(gpus_are_numbered_in_order_of_dev)
{
	struct world_machine *m = NULL;
	ck_assert_int_eq(load_text("<system version='2'><cpu numaid='1'>"
				   "<pci busid='0000:0A:00.0' class='0x030200' link_speed='16 "
				   "GT/s' link_width='16'>"
				   "<gpu dev='6' sm='90' gdr='0'><nvlink target='0000:0b:00.0' "
				   "count='4' tclass='0x030200'/></gpu></pci>"
				   "<pci busid='0000:0b:00.0' class='0x030200'><gpu dev='2'/></pci>"
				   "</cpu></system>",
				   &m),
			 0);
	ck_assert_int_eq(m->gpu_count, 2);
	ck_assert_str_eq(m->gpu[0].bus_id, "0000:0b:00.0");
	ck_assert_uint_eq(m->gpu[0].sm, 80);
	ck_assert(m->gpu[0].gdr);
	ck_assert_str_eq(m->gpu[1].bus_id, "0000:0a:00.0");
	ck_assert_int_eq(m->gpu[1].dev, 1);
	ck_assert(!m->gpu[1].gdr);
	ck_assert_int_eq(m->gpu[1].numa, 1);
	ck_assert_uint_eq(m->gpu[1].pci_mbps, 24000);
	ck_assert_uint_eq(m->gpu[1].nvlink_mbps, 82400);
	ck_assert(!m->gpu[1].nvswitch);
	world_machine_free(m);
}
END_TEST

START_TEST(several_nets_of_a_nic_and_nets_under_a_cpu_are_taken)
{
	struct world_machine *m = NULL;
	ck_assert_int_eq(load_text("<system version='1'><cpu numaid='-1'>"
				   "<pci busid='0000:01:00.0' class='0x030200'/>"
				   "<pci busid='0000:02:00.0' class='0x020000'><nic>"
				   "<net name='mlx5_0' speed='400000' port='1' latency='0' "
				   "guid='0xabc' gdr='1'/>"
				   "<net name='mlx5_1' dev='1' speed='400000' port='2' "
				   "latency='0.000000' guid='0xabd' gdr='1'/>"
				   "</nic></pci>"
				   "<nic><net name='eth0' speed='-1'/></nic><net/>"
				   "</cpu></system>",
				   &m),
			 0);
	ck_assert_int_eq(m->nic_count, 4);
	ck_assert_uint_eq(m->nic[0].mbps, 50000);
	ck_assert_uint_eq(m->nic[0].guid, 0xabc);
	ck_assert_str_eq(m->nic[1].bus_id, "0000:02:00.0");
	ck_assert_uint_eq(m->nic[1].port, 2);
	ck_assert(!m->nic[2].is_rdma);
	ck_assert_str_eq(m->nic[2].bus_id, "");
	ck_assert_str_eq(m->nic[3].name, "net3");
	world_machine_free(m);
}
END_TEST

/* A dump has the merged NIC, with its devices or without. */
START_TEST(a_merged_nic_is_its_devices)
{
	struct world_machine *m = NULL;

	ck_assert_int_eq(
		load_text("<system version='1'><cpu numaid='0'>"
			  "<pci busid='0000:01:00.0' class='0x030200'/>"
			  "<pci busid='0000:02:00.0' class='0x020000'><nic>"
			  "<net name='mlx5_1' dev='1' speed='100000' guid='0xa' gdr='1' net='0'/>"
			  "<net name='mlx5_0+mlx5_1' dev='2' speed='200000' guid='0xa' gdr='1'/>"
			  "</nic></pci></cpu></system>",
			  &m),
		0);
	ck_assert_int_eq(m->nic_count, 2);
	ck_assert_str_eq(m->nic[0].name, "mlx5_1");
	ck_assert_str_eq(m->nic[1].name, "mlx5_0");
	for (int32_t i = 0; i < 2; i++) {
		ck_assert_uint_eq(m->nic[i].mbps, 12500);
		ck_assert_str_eq(m->nic[i].bus_id, "0000:02:00.0");
		ck_assert(m->nic[i].is_rdma);
	}
	world_machine_free(m);
}
END_TEST

static const struct {
	const char *text;
	int rc;
} broken[] = {
	{"<system version='1'/>", ENODEV},
	{"<graphs/>", EINVAL},
	{"<system>", EINVAL},
	{"", EINVAL},
	{"<system><cpu><pci class='0x030200'><gpu dev='zero'/></pci></cpu></system>", EINVAL},
	{"<system><cpu><pci class='0x030200'><gpu dev='-1'/></pci></cpu></system>", EINVAL},
	{"<system><cpu><pci class='GPU'/></cpu></system>", EINVAL},
	{"<system><cpu numaid='x'><gpu/></cpu></system>", EINVAL},
	{"<system><cpu><pci busid='0000:01:00.0' link_width='wide'><gpu/></pci></cpu></system>",
	 EINVAL},
	{"<system><cpu><pci busid='0000:00:00.0.0000000000000000000'><gpu/></pci></cpu></system>",
	 EINVAL},
	{"<system><cpu><gpu dev='1'/><gpu dev='1'/></cpu></system>", EINVAL},
	{"<system><cpu><gpu/><net name='a/b'/></cpu></system>", EINVAL},
	{"<system><cpu><gpu/><net name='' /></cpu></system>", EINVAL},
	{"<system><cpu><gpu/><net name='a+' /></cpu></system>", EINVAL},
	{"<system><cpu><gpu/><net name='a+b/c' /></cpu></system>", EINVAL},
	{"<system><cpu><gpu/><net speed='99999999999'/></cpu></system>", EINVAL},
	{"<system><cpu><gpu><nvlink count='many'/></gpu></cpu></system>", EINVAL},
	{"<!DOCTYPE system><system><gpu/></system>", EINVAL},
};

START_TEST(a_broken_machine_is_refused)
{
	struct world_machine *m = NULL;
	ck_assert_int_eq(load_text(broken[_i].text, &m), broken[_i].rc);
	ck_assert_ptr_null(m);
	ck_assert_uint_eq(os_real_alloc_count(NULL), 0);
}
END_TEST

/* Machines that the stack accepts: halves of a GPU, the same port twice, a speed that is not a
 * number, several hosts. */
START_TEST(an_odd_machine_is_taken)
{
	struct world_machine *m = NULL;

	ck_assert_int_eq(
		load_text("<system><cpu host_hash='0x1' numaid='0'>"
			  "<pci busid='0000:01:00.0' link_speed='fast'>"
			  "<gpu dev='0' mlopart='1'/><gpu dev='0' mlopart='0'/></pci>"
			  "<nic><net name='mlx5_0' dev='0' guid='1'/>"
			  "<net name='mlx5_0' dev='0' guid='1'/></nic></cpu>"
			  "<cpu host_hash='0x2' numaid='0'><pci busid='0000:01:00.0'>"
			  "<gpu dev='0'/></pci><nic><net name='mlx5_0' dev='0' guid='2'/></nic>"
			  "</cpu><cpu numaid='1'/></system>",
			  &m),
		0);
	ck_assert_int_eq(m->hosts, 2);
	ck_assert_int_eq(m->gpu_count, 3);
	ck_assert_int_eq(m->nic_count, 2);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(m->gpu[i].host, i / 2);
		ck_assert_int_eq(m->gpu[i].half, i < 2 ? 1 + i : 0);
		ck_assert_int_eq(m->gpu[i].dev, i);
	}
	world_machine_free(m);
}
END_TEST

START_TEST(a_missing_machine_is_refused)
{
	struct world_machine *m = NULL;
	ck_assert_int_eq(world_machine_load("no-such-machine", &m), ENOENT);
	ck_assert_int_eq(world_machine_load("/no/such/file.xml", &m), ENOENT);
	ck_assert_int_eq(world_machine_load("no-such-file.xml", &m), ENOENT);
	ck_assert_ptr_null(m);
}
END_TEST

START_TEST(the_machine_folder_can_be_elsewhere)
{
	struct world_machine *m = NULL;
	setenv("DOPPEL_MACHINE_DIR", "/no/such/folder", 1);
	ck_assert_int_eq(world_machine_load("h100-8nic", &m), ENOENT);
	char dir[512];
	snprintf(dir, sizeof dir, "%s/sim/world/machines", DOPPEL_SOURCE_DIR);
	setenv("DOPPEL_MACHINE_DIR", dir, 1);
	ck_assert_int_eq(world_machine_load("h100-8nic.xml", &m), 0);
	world_machine_free(m);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("machine");
	TCase *tc = tcase_create("machine");
	tcase_add_loop_test(tc, a_shipped_machine_is_found_by_name, 0, ARRAY_LEN(shipped));
	tcase_add_loop_test(tc, a_dump_of_a_real_machine_is_taken, 0, ARRAY_LEN(zoo));
	tcase_add_test(tc, gpus_are_numbered_in_order_of_dev);
	tcase_add_test(tc, a_merged_nic_is_its_devices);
	tcase_add_test(tc, several_nets_of_a_nic_and_nets_under_a_cpu_are_taken);
	tcase_add_loop_test(tc, a_broken_machine_is_refused, 0, ARRAY_LEN(broken));
	tcase_add_test(tc, an_odd_machine_is_taken);
	tcase_add_test(tc, a_missing_machine_is_refused);
	tcase_add_test(tc, the_machine_folder_can_be_elsewhere);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
