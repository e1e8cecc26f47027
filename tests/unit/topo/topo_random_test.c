/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Machines drawn by a number, some with halves of GPUs and linked switches: rings and trees visit
 * each GPU once and no link carries more than it has, trees have no more channels than rings, and
 * bounds change nothing.
 */
#include "tests/unit/topo/topo_xml.h"

enum { MACHINES_DRAWN = 200, EVERY_TRY = 20, GPUS_MAX = 10, NETS_MAX = 6 };

struct draw {
	uint64_t state;
	int gpus, nets, sm, links; /* links: of a pair of GPUs, or to NVSwitches */
	bool switches;
};

static int draw_below(struct draw *d, int n)
{
	d->state = d->state * 6364136223846793005ull + 1442695040888963407ull;
	return (int)((d->state >> 33) % (uint64_t)n);
}

static void draw_pci(struct draw *d, int bus, const char *class)
{
	static const char *const speed[] = {"8 GT/s", "16 GT/s", "32 GT/s"};
	static const int width[] = {16, 16, 8, 4};

	add("<pci busid=\"0000:%02x:00.0\" class=\"%s\" link_speed=\"%s\" "
	    "link_width=\"%d\">",
	    bus, class, speed[draw_below(d, 3)], width[draw_below(d, 4)]);
}

/* GPUs of even and odd number are two groups, or any two may be linked. */
static void draw_links(struct draw *d, int dev)
{
	if (d->switches && d->links)
		add("<nvlink target=\"0000:f0:00.0\" count=\"%d\" tclass=\"0x068000\"/>", d->links);
	for (int to = 0; to < GPUS_MAX && !d->switches; to++)
		if (to != dev && (to + dev + d->sm) % 3 == 0 && d->links)
			add("<nvlink target=\"0000:%02x:00.0\" count=\"%d\" "
			    "tclass=\"0x030200\"/>",
			    16 + to, d->links);
}

static void draw_device(struct draw *d)
{
	bool net = draw_below(d, 3) == 0 && d->nets < NETS_MAX;

	if (net) {
		draw_pci(d, 64 + d->nets, "0x020000");
		add("<nic><net name=\"n%d\" dev=\"%d\" speed=\"%d\" port=\"1\" gdr=\"%d\"/>"
		    "</nic></pci>\n",
		    d->nets, d->nets, 25000 << draw_below(d, 5), draw_below(d, 2));
		d->nets++;
	} else if (d->gpus < GPUS_MAX) {
		int halves = draw_below(d, 5) == 0 && d->gpus + 1 < GPUS_MAX ? 2 : 1;

		draw_pci(d, 16 + d->gpus, "0x030200");
		for (int i = 0; i < halves; i++) {
			add("<gpu dev=\"%d\" sm=\"%d\" gdr=\"1\" mlopart=\"%d\">", d->gpus, d->sm,
			    halves == 2 ? i : -1);
			draw_links(d, d->gpus);
			add("</gpu>");
			d->gpus++;
		}
		add("</pci>\n");
	}
}

/* To a switch that there may be. */
static void draw_pcilink(struct draw *d)
{
	if (draw_below(d, 3) == 0)
		add("<pcilink target=\"0000:%02x:00.0\"/>",
		    128 + 8 * draw_below(d, 3) + draw_below(d, 4));
}

static void draw_cpu(struct draw *d, int numa)
{
	static const char *const kind[] = {INTEL, AMD, ARM};
	int count = 1 + draw_below(d, 4);

	cpu(numa, kind[draw_below(d, 3)]);
	for (int i = 0; i < count; i++) {
		bool below = draw_below(d, 2);
		int devices = below ? 1 + draw_below(d, 3) : 1;

		if (below) {
			draw_pci(d, 128 + 8 * numa + i, "0x060400");
			draw_pcilink(d);
		}
		while (devices--)
			draw_device(d);
		if (below)
			add("</pci>\n");
	}
	add("</cpu>\n");
}

static const struct topo_system *draw_machine(int number)
{
	static const int sm[] = {70, 80, 90, 100, 120};
	struct draw d = {.state = (uint64_t)number * 77777 + 1};

	do {
		int cpus = 1 + draw_below(&d, 3);

		d.gpus = d.nets = 0;
		d.sm = sm[draw_below(&d, 5)];
		d.links = draw_below(&d, 3) * (1 + draw_below(&d, 4));
		d.switches = draw_below(&d, 2);
		begin();
		for (int i = 0; i < cpus; i++)
			draw_cpu(&d, i);
	} while (d.gpus == 0);
	return end(d.gpus);
}

static void check_patterns(const struct topo_system *sys, int number, bool inter)
{
	struct topo_graph ring, tree;
	char name[32];

	snprintf(name, sizeof name, "machine %d", number);
	ck_assert(topo_search(sys, TOPO_RING, inter, &ring) == ncclSuccess);
	util_check_graph(sys, &ring, inter);
	ck_assert(topo_search(sys, TOPO_TREE, inter, &tree) == ncclSuccess);
	util_check_graph(sys, &tree, inter);
	ck_assert_msg(tree.nchannels >= 1 && tree.nchannels <= ring.nchannels,
		      "%s: %d trees, %d rings", name, tree.nchannels, ring.nchannels);
	for (int p = 0; p < TOPO_SEARCHED_PATTERNS && number % EVERY_TRY == 0; p++)
		util_check_bounds(sys, (enum topo_pattern)p, inter, name);
}

START_TEST(machines_drawn_keep_the_properties)
{
	for (int i = 0; i < MACHINES_DRAWN; i++) {
		const struct topo_system *sys = draw_machine(i);

		for (int inter = 0; inter <= (sys->nnets > 0); inter++)
			check_patterns(sys, i, inter);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("topo_random");
	TCase *t = tcase_create("random");
	suite_add_tcase(suite, t);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, machines_drawn_keep_the_properties);
	return util_run(suite);
}
