/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes a topology file. It is refused with a reason, or becomes a model in which every path is
 * complete, with graphs that fit it. The first byte selects the number of GPUs, the second whether
 * NICs are merged and whether the rings leave the host. For libFuzzer (clang -fsanitize=fuzzer).
 * With -DFUZZ_MAIN it is a program that runs the given files, or, with a number N first, N
 * mutations of each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/topo/topo_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void fuzz_check_path(const struct topo_system *sys, int32_t a, int32_t b)
{
	const struct topo_path *p = topo_path_at(sys, a, b);
	int32_t node = sys->end_node[a];
	if (p->type == TOPO_PATH_DIS && sys->node[node].host != sys->node[sys->end_node[b]].host)
		return; /* between hosts only GPUs are connected */
	ASSERT(p->type < TOPO_PATH_NET);
	for (int32_t i = 0; i < p->count; i++) {
		const struct topo_link *link = &sys->link[sys->hop[p->first + i]];
		ASSERT(link->from == node && link->bw_mbps >= p->bw_mbps);
		node = link->to;
	}
	ASSERT(node == sys->end_node[b]);
}

static void fuzz_check_graph(const struct topo_system *sys, const struct topo_graph *g, bool inter)
{
	bool always = g->pattern == TOPO_RING || g->pattern == TOPO_TREE;
	ASSERT(g->nchannels >= always && g->nchannels <= DEV_MAX_CHANNELS / 2);
	for (int32_t c = 0; c < g->nchannels; c++) {
		bool seen[TOPO_MAX_LOCAL] = {false};
		for (int32_t i = 0; i < sys->ngpus; i++) {
			int32_t r = g->order[c][i];
			ASSERT(r >= 0 && r < sys->ngpus && !seen[r]);
			seen[r] = true;
		}
		for (int side = 0; side < 2; side++)
			ASSERT(inter ? g->nic[c][side] >= 0 && g->nic[c][side] < sys->nnets
				     : g->nic[c][side] == -1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct topo_select select;
	static struct topo_graph graph;
	const struct topo_system *sys;
	if (bytes < 2)
		return 0;
	memset(&select, 0, sizeof select);
	select.count = data[0] % 10;
	for (int32_t i = 0; i < select.count; i++)
		select.gpu[i].dev = i;
	bool inter = data[1] & 1;
	select.merge = data[1] & 2;
	if (topo_system_get((const char *)data + 2, bytes - 2, "fuzz", &select, &sys) !=
	    ncclSuccess) {
		ASSERT(log_last_error()[0]);
		return 0;
	}
	int32_t ends = sys->nends - sys->nnvs; /* an NVSwitch is connected to GPUs only */
	for (int32_t a = 0; a < ends; a++)
		for (int32_t b = 0; b < ends; b++)
			fuzz_check_path(sys, a, b);
	if (inter && sys->nnets == 0)
		return 0;
	for (int p = 0; p < TOPO_SEARCHED_PATTERNS; p++) {
		ASSERT(topo_search(sys, (enum topo_pattern)p, inter, &graph) == ncclSuccess);
		fuzz_check_graph(sys, &graph, inter);
	}
	return 0;
}

#ifdef FUZZ_MAIN
static uint64_t fuzz_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Overwrites, copies, deletes or doubles a few short pieces of the text. */
static size_t fuzz_mutate(uint8_t *text, size_t bytes, size_t room, uint64_t *state)
{
	for (uint64_t n = 1 + fuzz_next(state) % 4; n; n--) {
		size_t len = 1 + fuzz_next(state) % 40, at = fuzz_next(state) % (bytes - len);
		size_t to = fuzz_next(state) % (bytes - len);
		switch (fuzz_next(state) % 4) {
		case 0:
			text[at] = (uint8_t)("0123456789-x\"<>/ af"[fuzz_next(state) % 19]);
			break;
		case 1:
			memmove(text + to, text + at, len);
			break;
		case 2:
			memmove(text + at, text + at + len, bytes - at - len);
			bytes -= len;
			break;
		default:
			if (bytes + len <= room) {
				memmove(text + at + len, text + at, bytes - at);
				bytes += len;
			}
			break;
		}
		if (bytes < 128)
			return bytes;
	}
	return bytes;
}

int main(int argc, char **argv)
{
	enum { ROOM = 1 << 18 };
	static uint8_t file[ROOM], text[ROOM];
	long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	for (int i = rounds > 0 ? 2 : 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		if (!f)
			return 1;
		size_t bytes = fread(file + 2, 1, ROOM / 2, f);
		uint64_t state = 0x9e3779b97f4a7c15u + (uint64_t)i;
		fclose(f);
		for (long k = 0; k <= rounds; k++) {
			memcpy(text, file, bytes + 2);
			text[0] = (uint8_t)(k ? fuzz_next(&state) : 4);
			text[1] = (uint8_t)fuzz_next(&state);
			size_t n = k && bytes > 128 ? fuzz_mutate(text + 2, bytes, ROOM - 2, &state)
						    : bytes;
			LLVMFuzzerTestOneInput(text, n + 2);
		}
	}
	return 0;
}
#endif
