/* SPDX-License-Identifier: BSD-3-Clause */
/* Dumps of real machines, and the graphs that NCCL itself found for them. Skipped where the folder
 * is not there. */
#include <unistd.h>

#include "core/base/xml.h"
#include "tests/unit/topo/topo_util.h"

static const struct {
	const char *name;
	int32_t gpus; /* 0: a template without GPUs */
	bool net;
} zoo[] = {
	{"8xa100-4xcx6", 8, true},
	{"aws-p4d-template", 8, false},
	{"aws-p5-template", 0, false},
	{"azure-ncv4-template", 4, true},
	{"azure-ndv4-template", 8, true},
	{"azure-ndv5-template", 8, true},
	{"h200-vm-8", 8, true},
	{"hgx-b200-8", 8, true},
	{"nebius-h100-template", 8, true},
	{"perlmutter-4xa100", 4, true},
};

static const char *zoo_path(const char *folder, const char *name, const char *suffix)
{
	static char path[512];
	snprintf(path, sizeof path, ZOO "%s%s%s", folder, name, suffix);
	return path;
}

START_TEST(every_dump_is_read_and_finds_rings)
{
	const char *path = zoo_path("", zoo[_i].name, ".xml");
	if (zoo[_i].gpus == 0) {
		char *xml = util_read(path);
		struct topo_select one = util_first(1);
		util_refuse(xml, &one, (const char *[]){"no GPU", NULL});
		free(xml);
		return;
	}
	for (int32_t n = 1; n <= zoo[_i].gpus; n++)
		for (int inter = 0; inter <= zoo[_i].net; inter++)
			util_search(path, n, inter != 0);
}
END_TEST

static int64_t attr_int(const struct xml_node *x, const char *name)
{
	struct xml_error error;
	int64_t v;
	ck_assert_msg(xml_attr_i64(x, name, -1, &v, &error) == 0, "%s", error.text);
	return v;
}

static int64_t attr_milli(const struct xml_node *x, const char *name)
{
	struct xml_error error;
	int64_t v;
	ck_assert_msg(xml_attr_milli(x, name, NULL, -1, &v, &error) == 0, "%s", error.text);
	return v;
}

static const char *const expected[] = {"h200-vm-8", "hgx-b200-8", "perlmutter-4xa100"};

/* NCCL's ring graph: channels, speeds, types, and even the order of every channel. */
START_TEST(the_ring_graph_is_the_one_that_nccl_found)
{
	char *xml = util_read(zoo_path("expected/", expected[_i], ".graph.xml"));
	struct xml_doc *doc;
	struct xml_error error;
	ck_assert_msg(xml_parse(xml, strlen(xml), "expected", &doc, &error) == 0, "%s", error.text);
	const struct xml_node *x = xml_child(xml_root(doc), "graph");
	const char *path = zoo_path("", expected[_i], ".xml");
	int32_t gpus = _i == 2 ? 4 : 8;
	struct topo_graph g = util_search(path, gpus, false);
	const struct topo_system *sys = util_system(path, gpus);
	ck_assert_int_eq(attr_int(x, "id"), 0);
	ck_assert_int_eq(attr_int(x, "nchannels"), g.nchannels);
	ck_assert_int_eq(attr_int(x, "samechannels"), g.same_channels);
	ck_assert_int_eq(attr_int(x, "crossnic"), g.cross_nic);
	ck_assert_int_eq(attr_milli(x, "speedintra"), g.bw_intra_mbps);
	ck_assert_int_eq(attr_milli(x, "speedinter"), g.bw_inter_mbps);
	ck_assert_str_eq(xml_attr(x, "typeintra"), topo_path_name(g.type_intra));
	ck_assert_str_eq(xml_attr(x, "typeinter"), topo_path_name(g.type_inter));
	int32_t c = 0;
	for (struct xml_node *ch = xml_child(x, "channel"); ch; ch = xml_next(ch, "channel"), c++) {
		int32_t i = 0;
		for (struct xml_node *n = xml_child(ch, "gpu"); n; n = xml_next(n, "gpu"), i++)
			ck_assert_int_eq(attr_int(n, "dev"),
					 topo_gpu_node(sys, sys->local_to_pos[g.order[c][i]])->dev);
		ck_assert_int_eq(i, gpus);
	}
	ck_assert_int_eq(c, g.nchannels);
	xml_free(doc);
	free(xml);
}
END_TEST

/* One NVLink line less: that GPU is reached over PCI only, and the rings collapse. */
START_TEST(a_missing_nvlink_collapses_the_rings)
{
	char *xml = util_read(zoo_path("", "h200-vm-8", ".xml")), *line = xml;
	for (int i = 0; i <= _i; i++)
		line = strstr(line + 1, "<nvlink");
	memset(line, ' ', (size_t)(strstr(line, "/>") + 2 - line));
	const struct topo_system *sys = util_system_of(xml, 8);
	struct topo_graph g;
	ck_assert(topo_search(sys, TOPO_RING, false, &g) == ncclSuccess);
	util_check_graph(sys, &g, false);
	ck_assert_msg(g.nchannels <= 2 && g.type_intra >= TOPO_PATH_PHB, "%d channels at %s",
		      g.nchannels, topo_path_name(g.type_intra));
	free(xml);
}
END_TEST

START_TEST(real_nics_next_to_gpus_carry_the_rings)
{
	struct topo_graph g = util_search(zoo_path("", "8xa100-4xcx6", ".xml"), 8, true);
	util_expect(&g, 4, 24000, TOPO_PATH_NVL, TOPO_PATH_PXB);
	const struct topo_system *sys = util_system(zoo_path("", "8xa100-4xcx6", ".xml"), 8);
	for (int32_t c = 0; c < g.nchannels; c++)
		ck_assert_str_ne(topo_nic_name(sys, g.nic[c][0]), "mlx5_bond_0");
	g = util_search(zoo_path("", "perlmutter-4xa100", ".xml"), 4, true);
	util_expect(&g, 4, 24000, TOPO_PATH_NVL, TOPO_PATH_PHB);
}
END_TEST

int main(void)
{
	if (access(ZOO "README.md", R_OK) != 0) {
		printf("skipped: no folder " ZOO "\n");
		return 77;
	}
	Suite *suite = suite_create("topo_zoo");
	TCase *t = tcase_create("zoo");
	suite_add_tcase(suite, t);
	tcase_add_loop_test(t, every_dump_is_read_and_finds_rings, 0, (int)ARRAY_LEN(zoo));
	tcase_add_loop_test(t, the_ring_graph_is_the_one_that_nccl_found, 0,
			    (int)ARRAY_LEN(expected));
	tcase_add_loop_test(t, a_missing_nvlink_collapses_the_rings, 0, 8);
	tcase_add_test(t, real_nics_next_to_gpus_carry_the_rings);
	return util_run(suite);
}
