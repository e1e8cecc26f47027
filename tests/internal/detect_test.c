/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Round trip: a machine's file becomes the /sys and the drivers of a world's host. Detection makes
 * a topology of them, which is that of the file: nodes, paths between all ends, graphs. Facts that
 * a file can have and a host cannot show may differ: an interface has port 0 and no guid, a
 * familyid is NCCL's, and all HCAs of a host reach the memory of GPUs if one does. A file with
 * functions that no host shows is only detected, not compared. Folders that are not there are
 * skipped.
 */
#include <check.h>
#include <ctype.h>
#include <cuda_runtime_api.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/pci_address.h"
#include "core/detect/gpu.h"
#include "core/topo/detect/detect.h"
#include "core/topo/topo_internal.h"
#include "sim/world/world.h"
#include "tests/suite.h"

#define MACHINES DOPPEL_SOURCE_DIR "/sim/world/machines"
#define ZOO      DOPPEL_SOURCE_DIR "/../shared/zoo"

/* ---- detection in a world
 * ----------------------------------------------------------------------- */

enum { NICS = 64 };

struct trip {
	char path[512];
	char *xml; /* as it is detected; malloc */
	size_t bytes;
	struct topo_select select; /* all GPUs of the machine */
};

static int32_t trip_gpus(struct topo_detect_gpu *gpu)
{
	int count = 0;
	ck_assert_int_eq(cudaGetDeviceCount(&count), cudaSuccess);
	count = MIN_OF(count, TOPO_MAX_LOCAL);
	for (int i = 0; i < count; i++) {
		char bus_id[24];
		ck_assert_int_eq(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, i), cudaSuccess);
		for (char *p = bus_id; *p; p++)
			*p = (char)tolower((unsigned char)*p);
		ck_assert_int_eq(detect_gpu_facts(i, bus_id, &gpu[i]), ncclSuccess);
		gpu[i].rank = i;
	}
	return count;
}

/* Each rank detects its own GPU and all NICs; then all parts are merged into one. */
static void trip_detect(void *arg)
{
	struct trip *t = arg;
	static struct topo_detect_gpu gpu[TOPO_MAX_LOCAL];
	static struct topo_detect_nic nic[NICS];
	static struct topo_detect_part part[TOPO_MAX_LOCAL];
	char *text[TOPO_MAX_LOCAL], *xml;
	size_t bytes;
	int32_t gpus = trip_gpus(gpu), nics = topo_detect_nics(nic, NICS);
	t->select.count = gpus;
	for (int32_t i = 0; i < gpus; i++) {
		struct topo_detect d = {.host_hash = topo_host_hash(),
					.gpu = &gpu[i],
					.gpus = 1,
					.nic = nic,
					.nics = nics,
					.all_cpus = true};
		ck_assert_int_eq(topo_detect(&d, &text[i], &part[i].bytes), ncclSuccess);
		part[i].xml = text[i];
		memcpy(t->select.gpu[i].bus_id, gpu[i].bus_id, sizeof gpu[i].bus_id);
		t->select.gpu[i].dev = gpu[i].dev;
	}
	ck_assert_int_eq(topo_detect_fuse(part, gpus, &xml, &bytes), ncclSuccess);
	for (int32_t i = 0; i < gpus; i++)
		os_free(text[i]);
	t->xml = strdup(xml);
	t->bytes = bytes;
	os_free(xml);
}

/* False: the world does not take the file (it has no GPU). */
static bool trip_run(struct trip *t)
{
	const struct sim_config sim = {.engine = SIM_ENGINE_SIM, .strategy = SIM_FIFO};
	const struct world_config world = {.hosts = 1, .machine = t->path};
	ck_assert_int_eq(sim_start(&sim), 0);
	bool made = world_create(&world) == 0;
	if (made) {
		ck_assert_int_eq(sim_run(trip_detect, t), SIM_PASS);
		ck_assert_uint_eq(world_destroy(), 0);
	}
	sim_stop();
	return made;
}

/* ---- comparing
 * ---------------------------------------------------------------------------------- */

static int trip_differences;

#define DIFFERS(...)                                                                               \
	do {                                                                                       \
		trip_differences++;                                                                \
		printf("    ");                                                                    \
		printf(__VA_ARGS__);                                                               \
		printf("\n");                                                                      \
	} while (0)

static const char *const trip_types[] = {"GPU", "PCI", "NVS", "CPU", "NIC", "NET", "C2C"};

static const struct topo_node *trip_node(const struct topo_system *sys,
					 const struct topo_node *like)
{
	for (int32_t i = 0; i < sys->nnodes; i++) {
		const struct topo_node *n = &sys->node[i];
		if (n->type == like->type && strcmp(n->name, like->name) == 0 &&
		    (n->type != TOPO_NODE_NET || n->net.port == like->net.port || !n->net.port ||
		     !like->net.port))
			return n;
	}
	return NULL;
}

/* A template may have the kernel's number, with the two fields added. */
static int32_t trip_family(int32_t family)
{
	return family < 15 || (family - 15) % 16 == 0 ? family : 15 + 16 * (family - 15);
}

static void trip_compare_node(const struct topo_node *a, const struct topo_node *b)
{
	if (a->type == TOPO_NODE_GPU && (a->gpu.sm != b->gpu.sm || a->gpu.gdr != b->gpu.gdr))
		DIFFERS("GPU %s: sm %d gdr %d, detected sm %d gdr %d", a->name, a->gpu.sm,
			a->gpu.gdr, b->gpu.sm, b->gpu.gdr);
	if (a->type == TOPO_NODE_CPU &&
	    (a->cpu.arch != b->cpu.arch || a->cpu.vendor != b->cpu.vendor ||
	     trip_family(a->cpu.family) != b->cpu.family || a->cpu.model != b->cpu.model))
		DIFFERS("CPU %s: %d %d %d %d, detected %d %d %d %d", a->name, a->cpu.arch,
			a->cpu.vendor, a->cpu.family, a->cpu.model, b->cpu.arch, b->cpu.vendor,
			b->cpu.family, b->cpu.model);
	if (a->type == TOPO_NODE_NET &&
	    (a->net.bw_mbps != b->net.bw_mbps || a->net.gdr > b->net.gdr ||
	     (a->net.guid != b->net.guid && b->net.port)))
		DIFFERS("net %s: %u MB/s gdr %d guid 0x%llx, detected %u, %d, 0x%llx", a->name,
			a->net.bw_mbps, a->net.gdr, (unsigned long long)a->net.guid, b->net.bw_mbps,
			b->net.gdr, (unsigned long long)b->net.guid);
}

static int32_t trip_end(const struct topo_system *sys, const struct topo_node *node)
{
	for (int32_t i = 0; i < sys->nends; i++)
		if (&sys->node[sys->end_node[i]] == node)
			return i;
	return -1;
}

static void trip_compare_paths(const struct topo_system *a, const struct topo_system *b,
			       const int32_t *to)
{
	for (int32_t i = 0; i < a->nends; i++) {
		for (int32_t j = 0; j < a->nends; j++) {
			if (to[i] < 0 || to[j] < 0)
				continue;
			const struct topo_path *p = topo_path_at(a, i, j);
			const struct topo_path *q = topo_path_at(b, to[i], to[j]);
			if (p->type != q->type || p->bw_mbps != q->bw_mbps || p->count != q->count)
				DIFFERS("path %s to %s: %s %u MB/s %d hops, detected %s %u, %d",
					a->node[a->end_node[i]].name, a->node[a->end_node[j]].name,
					topo_path_name(p->type), p->bw_mbps, p->count,
					topo_path_name(q->type), q->bw_mbps, q->count);
		}
	}
}

/* True: the ends are in one order, so that ties of the search fall the same way. */
static bool trip_compare_nodes(const struct topo_system *a, const struct topo_system *b,
			       int32_t *to)
{
	bool same_order = a->nends == b->nends && a->nnodes == b->nnodes;
	for (int32_t i = 0; i < a->nnodes; i++) {
		const struct topo_node *n = trip_node(b, &a->node[i]);
		if (!n)
			DIFFERS("%s %s is not detected", trip_types[a->node[i].type],
				a->node[i].name);
		else
			trip_compare_node(&a->node[i], n);
	}
	for (int32_t i = 0; i < b->nnodes; i++)
		if (!trip_node(a, &b->node[i]))
			DIFFERS("%s %s is detected", trip_types[b->node[i].type], b->node[i].name);
	for (int32_t i = 0; i < a->nends; i++) {
		const struct topo_node *n = trip_node(b, &a->node[a->end_node[i]]);
		to[i] = n ? trip_end(b, n) : -1;
		same_order &= to[i] == i;
	}
	for (int32_t i = 0; i < a->nnodes && same_order; i++)
		same_order &= strcmp(a->node[i].name, b->node[i].name) == 0;
	return same_order;
}

static void trip_compare_graph(const struct topo_system *a, const struct topo_system *b,
			       enum topo_pattern pattern, bool inter, bool same_order)
{
	static struct topo_graph g, h;
	ck_assert_int_eq(topo_search(a, pattern, inter, &g), ncclSuccess);
	ck_assert_int_eq(topo_search(b, pattern, inter, &h), ncclSuccess);
	if (g.nchannels != h.nchannels || g.bw_intra_mbps != h.bw_intra_mbps ||
	    g.bw_inter_mbps != h.bw_inter_mbps || g.type_intra != h.type_intra ||
	    g.type_inter != h.type_inter || g.same_channels != h.same_channels ||
	    g.cross_nic != h.cross_nic)
		DIFFERS("%s %s hosts: %d x %u/%u %s/%s, detected %d x %u/%u %s/%s",
			topo_pattern_name(pattern), inter ? "between" : "inside", g.nchannels,
			g.bw_intra_mbps, g.bw_inter_mbps, topo_path_name(g.type_intra),
			topo_path_name(g.type_inter), h.nchannels, h.bw_intra_mbps, h.bw_inter_mbps,
			topo_path_name(h.type_intra), topo_path_name(h.type_inter));
	else if (same_order && memcmp(&g, &h, sizeof g) != 0)
		DIFFERS("%s %s hosts: other orders", topo_pattern_name(pattern),
			inter ? "between" : "inside");
}

static void trip_compare_graphs(const struct topo_system *a, const struct topo_system *b,
				bool inter, bool same_order)
{
	for (int p = TOPO_RING; p < TOPO_SEARCHED_PATTERNS; p++)
		trip_compare_graph(a, b, (enum topo_pattern)p, inter, same_order);
}

/* A kernel has each function once, and all parts of its address; a file may have it otherwise. */
static bool trip_is_no_hosts(const char *xml)
{
	for (const char *at = strstr(xml, " busid="); at; at = strstr(at + 1, " busid=")) {
		char text[48], address[32] = "";
		snprintf(text, sizeof text, "%.*s", (int)strcspn(at + 1, " />") + 1, at);
		sscanf(text, " busid=\"%31[^\"]", address);
		if (strstr(at + 1, text) || !pci_address_is_whole(address))
			return true;
	}
	return false;
}

/* A file that the reader refuses is no machine, but what is detected is one all the same. */
static void trip_compare(const struct trip *t, const char *xml, size_t bytes)
{
	const struct topo_system *a, *b;
	ncclResult_t rc = topo_system_get(t->xml, t->bytes, "detected", &t->select, &b);
	if (rc)
		printf("%s", t->xml);
	ck_assert_msg(rc == ncclSuccess, "%s: %s", t->path, log_last_error());
	if (topo_system_get(xml, bytes, t->path, &t->select, &a) != ncclSuccess) {
		printf("    refused: %s\n", log_last_error());
		return;
	}
	if (trip_is_no_hosts(xml)) {
		printf("    no host shows such functions\n");
		return;
	}
	static int32_t to[TOPO_MAX_LOCAL + TOPO_MAX_NETS + TOPO_MAX_CPUS];
	bool same_order = trip_compare_nodes(a, b, to);
	trip_compare_paths(a, b, to);
	trip_compare_graphs(a, b, false, same_order);
	if (a->nnets && b->nnets)
		trip_compare_graphs(a, b, true, same_order);
}

/* ---- machines
 * ----------------------------------------------------------------------------------- */

static void trip_file(const char *folder, const char *name)
{
	struct trip t = {0};
	struct world_machine *m;
	snprintf(t.path, sizeof t.path, "%s/%s", folder, name);
	if (!trip_run(&t))
		return;
	printf("  %s\n", name);
	ck_assert_int_eq(world_machine_load(t.path, &m), 0);
	trip_differences = 0;
	trip_compare(&t, m->xml, m->xml_bytes);
	if (trip_differences)
		printf("%s", t.xml);
	ck_assert_msg(trip_differences == 0, "%s: %d differences", name, trip_differences);
	world_machine_free(m);
	free(t.xml);
}

static void trip_folder(const char *folder)
{
	struct dirent **entry;
	int n = scandir(folder, &entry, NULL, alphasort);
	if (n < 0)
		printf("skipped: no folder %s\n", folder);
	for (int i = 0; i < n; i++) {
		size_t length = strlen(entry[i]->d_name);
		if (length > 4 && strcmp(entry[i]->d_name + length - 4, ".xml") == 0)
			trip_file(folder, entry[i]->d_name);
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
}

static const char *const folders[] = {MACHINES, ZOO, ZOO "/search"};

START_TEST(what_is_detected_is_what_the_file_has)
{
	trip_folder(folders[_i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("detect");
	TCase *t = tcase_create("round trip");
	suite_add_tcase(suite, t);
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, what_is_detected_is_what_the_file_has, 0, (int)ARRAY_LEN(folders));
	return suite_run(suite);
}
