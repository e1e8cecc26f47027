/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rare paths on purpose (os_buggify): the sites of the stack and of the doubles, which of them this
 * run may take, and how often it came by and took them.
 *
 * A site is active in one seed of four, by hash and not by draw, so that a new site shifts no
 * other; an active one takes its rare path one visit in four (FoundationDB's rates). Never under
 * fifo, never under `threads`.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/engine_internal.h"

enum { BUGGIFY_ACTIVE_ONE_OF = 4, BUGGIFY_FIRES_ONE_OF = 4, BUGGIFY_MAX = 64 };

/* Every site there is; tests/unit/rules_sites_test.sh compares it with the code. */
static const struct {
	const char *name, *what;
} buggify_sites[] = {
	{"bootstrap.send_byte", "a message is sent byte by byte"},
	{"bootstrap.recv_byte", "an answer is read byte by byte"},
	{"bootstrap.connect_again", "an attempt to connect is refused"},
	{"bootstrap.gather_odd", "an all-gather's blocks are cut in odd places"},
	{"bootstrap.message_byte", "a message between ranks is read byte by byte"},
	{"bootstrap.take_early", "messages for later are taken first, and queued"},
	{"bootstrap.listener_stays", "a rank that leaves closes its listener last, and late"},
	{"bootstrap.root_send_byte", "the root sends an answer byte by byte"},
	{"proxy.send_one_slot", "one slice on the wire at a time"},
	{"proxy.recv_one_slot", "one receive posted at a time"},
	{"proxy.pass_one", "a pass ends with the first connection that moved"},
	{"proxy.wake_early", "the progress task's wait ends at once"},
	{"proxy.service_wake_early", "the service task's wait ends at once"},
	{"proxy.no_gpu_direct", "a connection's slots are in host memory"},
	{"net.poll_one", "completions are polled one at a time"},
	{"net.resolve_later", "a queue pair's address takes a while to resolve"},
	{"cuda.malloc_waits", "cudaMalloc waits for the context's work, as it may"},
	{"cuda.host_alloc_waits", "cudaHostAlloc waits for the context's work, as it may"},
};

static struct {
	struct sim_buggify_stat stat[BUGGIFY_MAX];
	bool active[BUGGIFY_MAX];
	struct choice_site *choice[BUGGIFY_MAX]; /* NULL: not drawn yet */
	const char *seen[BUGGIFY_MAX];           /* the caller's copy of the name: a shortcut */
	uint32_t n;
} buggify;

static bool buggify_is_active(const char *name)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (const char *s = name; *s; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3ull;
	h = (h ^ eng.seed) * 0x9e3779b97f4a7c15ull;
	h ^= h >> 29;
	return h * 0xbf58476d1ce4e5b9ull < UINT64_MAX / BUGGIFY_ACTIVE_ONE_OF;
}

static uint32_t buggify_add(const char *name, const char *what)
{
	uint32_t i = buggify.n++;

	ASSERT(i < BUGGIFY_MAX);
	buggify.stat[i] = (struct sim_buggify_stat){.name = name, .what = what};
	buggify.active[i] = strategy_exploring() && engine_in_sim() && buggify_is_active(name);
	buggify.choice[i] = NULL;
	buggify.seen[i] = NULL;
	return i;
}

void buggify_start(void)
{
	buggify.n = 0;
	for (size_t i = 0; i < ARRAY_LEN(buggify_sites); i++)
		buggify_add(buggify_sites[i].name, buggify_sites[i].what);
}

static uint32_t buggify_find(const char *name)
{
	for (uint32_t i = 0; i < buggify.n; i++)
		if (buggify.seen[i] == name)
			return i;
	for (uint32_t i = 0; i < buggify.n; i++) {
		if (strcmp(buggify.stat[i].name, name) == 0) {
			buggify.seen[i] = name;
			return i;
		}
	}
	return buggify_add(name, "a test's own");
}

bool buggify_visit(const char *name)
{
	if (!strategy_exploring() || eng.phase != ENGINE_RUNNING)
		return false;
	uint32_t i = buggify_find(name);

	buggify.stat[i].visits++;
	if (!buggify.active[i])
		return false;
	if (!buggify.choice[i])
		buggify.choice[i] = choice_site_get(name);
	if (choice_draw_quiet(buggify.choice[i], BUGGIFY_FIRES_ONE_OF, 1))
		return false;
	buggify.stat[i].hits++;
	return true;
}

uint32_t sim_buggify_stats(const struct sim_buggify_stat **stats)
{
	*stats = buggify.stat;
	return buggify.n;
}

void sim_buggify_print_sites(FILE *out)
{
	for (size_t i = 0; i < ARRAY_LEN(buggify_sites); i++)
		fprintf(out, "  %-24s %s\n", buggify_sites[i].name, buggify_sites[i].what);
}
