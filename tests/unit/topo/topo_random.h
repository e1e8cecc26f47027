/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers, a number that the commit draws, and random machines as topology XML. */
#ifndef TESTS_UNIT_TOPO_RANDOM_H
#define TESTS_UNIT_TOPO_RANDOM_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/hash.h"
#include "core/base/macros.h"

struct random_state {
	uint64_t seed, n;
};

static inline uint64_t random_below(struct random_state *r, uint64_t below)
{
	return hash64_combine(r->seed, ++r->n) % below;
}

static inline bool random_one_in(struct random_state *r, uint64_t n)
{
	return random_below(r, n) == 0;
}

/* A seed from the commit of the sources, so that the commits of a branch take different samples; 1
 * without git. */
static inline uint64_t random_of_commit(void)
{
	FILE *git = popen("git -C '" DOPPEL_SOURCE_DIR "' rev-parse HEAD 2>/dev/null", "r");
	char text[64] = "1";

	if (git) {
		if (!fgets(text, 13, git))
			snprintf(text, sizeof text, "1");
		pclose(git);
	}
	return strtoull(text, NULL, 16);
}

/* ---- machines: 1 to 16 GPUs, 0 to 16 NICs, 0 to 4 switches on 1 to 4 CPUs, mixed widths
 * ------- */

struct random_machine {
	char xml[1 << 16];
	size_t bytes;
	int32_t gpus, nics, switches, cpus;
	int32_t gpu_place[16], nic_place[16]; /* CPU, or cpus + switch */
	int32_t switch_place[4];              /* CPU, or cpus + a lower switch */
};

#define RANDOM_ADD(m, ...)                                                                         \
	((m)->bytes +=                                                                             \
	 (size_t)snprintf((m)->xml + (m)->bytes, sizeof(m)->xml - (m)->bytes, __VA_ARGS__))

static inline void random_link(struct random_machine *m, struct random_state *r)
{
	static const char *const gts[] = {"2.5", "5.0", "8.0", "16.0", "32.0", "64.0"};

	RANDOM_ADD(m, " link_speed=\"%s GT/s PCIe\" link_width=\"%d\"",
		   gts[random_below(r, ARRAY_LEN(gts))], 1 << random_below(r, 5));
}

/* How the GPUs of a machine are linked. */
enum random_nvlink { RANDOM_NONE, RANDOM_SWITCHED, RANDOM_MESH, RANDOM_SOME, RANDOM_ONE_WAY };

static inline bool random_has_link(uint64_t seed, enum random_nvlink how, int32_t a, int32_t b)
{
	uint64_t pair = how == RANDOM_ONE_WAY ? (uint64_t)(a * 16 + b)
					      : (uint64_t)(MIN_OF(a, b) * 16 + MAX_OF(a, b));

	return a != b && (how == RANDOM_MESH || hash64_combine(seed, pair) % 3 == 0);
}

static inline void random_gpu(struct random_machine *m, struct random_state *r, int32_t g,
			      enum random_nvlink how, uint64_t mesh, int32_t sm)
{
	RANDOM_ADD(m, "<pci busid=\"0000:%02x:00.0\" class=\"0x030200\"", 0x40 + (unsigned)g);
	random_link(m, r);
	RANDOM_ADD(m, "><gpu dev=\"%d\" sm=\"%d\" gdr=\"%d\">", g, sm, !random_one_in(r, 5));
	if (how == RANDOM_SWITCHED)
		RANDOM_ADD(m, "<nvlink target=\"fffffff:ff:ff.0\" count=\"%d\"/>",
			   1 + (int)random_below(r, 18));
	for (int32_t b = 0; how >= RANDOM_MESH && b < m->gpus; b++)
		if (random_has_link(mesh, how, g, b))
			RANDOM_ADD(m,
				   "<nvlink target=\"0000:%02x:00.0\" count=\"%d\" "
				   "tclass=\"0x030200\"/>",
				   0x40 + (unsigned)b, 1 + (int)(hash64_combine(mesh, 7) % 4));
	RANDOM_ADD(m, "</gpu></pci>\n");
}

static inline void random_nic(struct random_machine *m, struct random_state *r, int32_t n)
{
	static const int mbit[] = {10000, 25000, 100000, 200000, 400000, -1};

	RANDOM_ADD(m, "<pci busid=\"0000:%02x:00.0\" class=\"0x020700\"", 0x80 + (unsigned)n);
	random_link(m, r);
	RANDOM_ADD(m,
		   "><nic><net name=\"mlx5_%d\" dev=\"%d\" speed=\"%d\" port=\"1\" guid=\"0x%x\" "
		   "gdr=\"%d\" coll=\"%d\"/></nic></pci>\n",
		   n, n, mbit[random_below(r, ARRAY_LEN(mbit))], 0x1000 + (unsigned)n,
		   !random_one_in(r, 4), n % 4 != 3);
}

struct random_kind {
	enum random_nvlink how;
	uint64_t mesh;
	int32_t sm; /* 0: each GPU has its own */
};

/* The nodes at a place: switches, GPUs, NICs. */
static inline void random_place(struct random_machine *m, struct random_state *r, int32_t place,
				const struct random_kind *kind)
{
	static const int32_t sm[] = {61, 70, 75, 80, 86, 90, 100, 120};

	for (int32_t s = 0; s < m->switches; s++) {
		if (m->switch_place[s] != place)
			continue;
		RANDOM_ADD(m, "<pci busid=\"0000:%02x:00.0\" class=\"0x060400\"", 1 + (unsigned)s);
		random_link(m, r);
		RANDOM_ADD(m, ">\n");
		random_place(m, r, m->cpus + s, kind);
		RANDOM_ADD(m, "</pci>\n");
	}
	for (int32_t g = 0; g < m->gpus; g++)
		if (m->gpu_place[g] == place)
			random_gpu(m, r, g, kind->how, kind->mesh,
				   kind->sm ? kind->sm : sm[random_below(r, ARRAY_LEN(sm))]);
	for (int32_t n = 0; n < m->nics; n++)
		if (m->nic_place[n] == place)
			random_nic(m, r, n);
}

static inline void random_shape(struct random_machine *m, struct random_state *r)
{
	m->gpus = 1 + (int32_t)random_below(r, random_one_in(r, 4) ? 16 : 8);
	m->nics = (int32_t)random_below(r, 17);
	m->switches = (int32_t)random_below(r, 5);
	m->cpus = 1 << random_below(r, 3);
	for (int32_t s = 0; s < m->switches; s++)
		m->switch_place[s] = (int32_t)random_below(r, (uint64_t)(m->cpus + s));
	for (int32_t g = 0; g < m->gpus; g++)
		m->gpu_place[g] = (int32_t)random_below(r, (uint64_t)(m->cpus + m->switches));
	for (int32_t n = 0; n < m->nics; n++)
		m->nic_place[n] = (int32_t)random_below(r, (uint64_t)(m->cpus + m->switches));
}

static inline void random_machine_make(struct random_machine *m, struct random_state *r)
{
	static const char *const cpu[] = {
		"arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\"",
		"arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"79\"",
		"arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" modelid=\"1\"",
		"arch=\"arm64\"", "arch=\"ppc64\""};
	const char *kind_of_cpu = cpu[random_below(r, ARRAY_LEN(cpu))];
	struct random_kind kind = {
		.how = (enum random_nvlink)random_below(r, 5),
		.mesh = random_below(r, UINT64_MAX),
		.sm = random_one_in(r, 6) ? 0 : 60 + 10 * (int32_t)random_below(r, 5)};

	m->bytes = 0;
	random_shape(m, r);
	RANDOM_ADD(m, "<system version=\"1\">\n");
	for (int32_t c = 0; c < m->cpus; c++) {
		RANDOM_ADD(m, "<cpu numaid=\"%d\" %s>\n", c, kind_of_cpu);
		random_place(m, r, c, &kind);
		RANDOM_ADD(m, "</cpu>\n");
	}
	RANDOM_ADD(m, "</system>\n");
	ASSERT(m->bytes < sizeof m->xml);
}

#endif
