/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index of waiting tasks. Waits are indexed by the 64-byte granule of the address that they
 * watch, so a write finds its waiters by hash. A write of megabytes walks the waiting tasks instead
 * if they are fewer. A write makes a waiter ready only if its wait is true afterwards. Nothing here
 * depends on addresses: tasks woken by one write become ready in order of their ids.
 *
 * `sim` only, except the evaluation of a wait, which both engines use.
 */
#include <stdlib.h>

#include "sim/engine/order/order_internal.h"

enum {
	WAIT_BITS_FIRST = 12,
	WAIT_PAGE_BITS_LESS = 2,
	GRANULE_SHIFT = 6,
	PAGE_SHIFT = 6, /* granules of a page: bits of a word */
};
DOPPEL_STATIC_CHECK(1 << PAGE_SHIFT == 64,
		    "wait_page.granules has a bit for each granule of a page");
DOPPEL_STATIC_CHECK(WAIT_PAGE_BITS_LESS < WAIT_BITS_FIRST, "the smallest table has pages, too");

/* 1 << wait_bits buckets, at least as many as nodes: a world of 1,000 ranks has 600,000 nodes. */
static struct wait_node **wait_bucket;
static uint32_t wait_bits, wait_nodes;
/* Nodes that watch a page of 4 KiB, or another page with the same hash. No task waits on most
 * payload, so a write of it needs one look per page, and one per granule that a node watches. */
static struct wait_page {
	uint64_t granules; /* a bit per granule; some bits stay set until nodes is 0 */
	uint64_t nodes;
} * wait_page; /* [1 << (wait_bits - WAIT_PAGE_BITS_LESS)] */

static inline uint32_t wait_hash(uintptr_t granule)
{
	return (uint32_t)((granule * 0x9e3779b97f4a7c15ull) >> (64 - wait_bits));
}

static inline struct wait_page *wait_page_of(uintptr_t page)
{
	return &wait_page[(page * 0x9e3779b97f4a7c15ull) >> (64 + WAIT_PAGE_BITS_LESS - wait_bits)];
}

static inline uint64_t wait_granule_bit(uintptr_t granule)
{
	return 1ull << granule % (1u << PAGE_SHIFT);
}

void sim_set_resolver(const void *(*resolve)(const void *addr),
		      const void *(*home)(const void *addr))
{
	eng.resolve = resolve;
	eng.home = home;
}

/* ---- evaluation ----------------------------------------------------------------------------- */

static inline const void *wait_at(const void *addr)
{
	return eng.resolve ? eng.resolve(addr) : addr;
}

const void *waits_at(const void *addr)
{
	return wait_at(addr);
}

const void *waits_home(const void *addr)
{
	return eng.home ? eng.home(addr) : addr;
}

/* Reads the flags of a line, its odd words. */
void wait_line_flags(const struct wait *w, uint32_t flag[2])
{
	const uint64_t *line = wait_at(w->on);

	for (int i = 0; i < 2; i++)
		flag[i] = (uint32_t)(__atomic_load_n(&line[i], __ATOMIC_ACQUIRE) >> 32);
}

/* True if both flags of the line have the wanted value. Otherwise *value is one that does not. */
static bool wait_line_read(const struct wait *w, uint64_t *value)
{
	uint32_t flag[2], want = (uint32_t)w->want;

	wait_line_flags(w, flag);
	*value = flag[flag[0] == want];
	return flag[0] == want && flag[1] == want;
}

/* Reads a word: every kind of wait except lines and objects watches one. */
static inline bool wait_word_read(const struct wait *w, uint64_t *value)
{
	const void *p = wait_at(w->on);

	if (!p)
		return false;
	if (w->bytes == 4)
		*value = __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE) & w->mask;
	else
		*value = __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE) & w->mask;
	return true;
}

bool wait_read(const struct wait *w, uint64_t *value)
{
	switch (w->kind) {
	case WAIT_OBJECT:
		*value = eng.sched->event_seq(w->on);
		return true;
	case WAIT_LINE16:
		wait_line_read(w, value);
		return true;
	default:
		return wait_word_read(w, value);
	}
}

bool wait_is_true(const struct wait *w)
{
	uint64_t value = 0;

	DASSERT(w->kind == WAIT_LINE16 || w->kind == WAIT_OBJECT || w->bytes == 4 || w->bytes == 8);
	switch (w->kind) {
	case WAIT_EQ:
		return wait_word_read(w, &value) && value == w->want;
	case WAIT_NE:
		return wait_word_read(w, &value) && value != w->want;
	case WAIT_GE:
		return wait_word_read(w, &value) && value >= w->want;
	case WAIT_GE_CYCLIC:
		return wait_word_read(w, &value) && wait_ge_cyclic(value, w->want, w->bytes);
	case WAIT_LINE16:
		return wait_line_read(w, &value);
	case WAIT_OBJECT:
		return wait_read(w, &value) && value != w->want;
	default:
		ASSERT(!"kind of wait");
	}
}

int waits_first_true(const struct wait *const *w, int n)
{
	for (int i = 0; i < n; i++)
		if (wait_is_true(w[i]))
			return i;
	return -1;
}

bool waits_aborted(const shared_u32 *abort)
{
	return abort &&
	       __atomic_load_n(&((const shared_u32 *)wait_at(abort))->v_, __ATOMIC_ACQUIRE) != 0;
}

uint64_t waits_deadline(const struct wait *const *w, int n)
{
	uint64_t earliest = ENGINE_NEVER;

	for (int i = 0; i < n; i++)
		if (w[i]->deadline_ns && w[i]->deadline_ns < earliest)
			earliest = w[i]->deadline_ns;
	return earliest;
}

/* ---- the index ------------------------------------------------------------------------------ */

static void wait_table_make(uint32_t bits)
{
	wait_bits = bits;
	wait_bucket = calloc((size_t)1 << bits, sizeof(struct wait_node *));
	wait_page = calloc((size_t)1 << (bits - WAIT_PAGE_BITS_LESS), sizeof *wait_page);
	ASSERT(wait_bucket && wait_page);
}

static void wait_table_free(void)
{
	free(wait_bucket);
	free(wait_page);
	wait_bucket = NULL;
	wait_page = NULL;
}

static void wait_node_insert(struct wait_node *node)
{
	uintptr_t granule = node->at >> GRANULE_SHIFT;
	struct wait_node **bucket = &wait_bucket[wait_hash(granule)];
	struct wait_page *page = wait_page_of(granule >> PAGE_SHIFT);

	node->next = *bucket;
	node->link = bucket;
	if (*bucket)
		(*bucket)->link = &node->next;
	*bucket = node;
	page->granules |= wait_granule_bit(granule);
	page->nodes++;
}

static void wait_table_grow(void)
{
	struct wait_node **old = wait_bucket;
	uint32_t n = 1u << wait_bits;

	free(wait_page);
	wait_table_make(wait_bits + 2);
	for (uint32_t i = 0; i < n; i++)
		for (struct wait_node *node = old[i], *next; node; node = next) {
			next = node->next;
			wait_node_insert(node);
		}
	free(old);
}

static void wait_node_link(struct wait_node *node, struct task *t, int32_t index, const void *on,
			   uint32_t bytes)
{
	*node = (struct wait_node){.at = (uintptr_t)on, .bytes = bytes, .index = index, .task = t};
	wait_node_insert(node);
}

static uint32_t wait_bytes(const struct wait *w)
{
	return w->kind == WAIT_LINE16 ? 16 : w->kind == WAIT_OBJECT ? 1 : w->bytes;
}

void waits_add(struct task *t, const struct wait *const *w, int n, const shared_u32 *abort)
{
	uint32_t want = (uint32_t)n + (abort != NULL);

	ASSERT(n >= 0 && want > 0);
	ASSERT(t->node_n == 0);
	while (wait_nodes + want > 1u << wait_bits)
		wait_table_grow();
	if (want > t->node_cap) {
		t->node_cap = ALIGN_UP(want, 8);
		t->node = realloc(t->node, t->node_cap * sizeof *t->node);
		ASSERT(t->node);
	}
	for (int i = 0; i < n; i++)
		wait_node_link(&t->node[i], t, i, waits_home(w[i]->on), wait_bytes(w[i]));
	if (abort)
		wait_node_link(&t->node[n], t, -1, abort, sizeof *abort);
	t->node_n = want;
	wait_nodes += want;
	t->pub.wait = w;
	t->pub.wait_n = n;
	t->pub.wait_abort = abort;
	t->wait_since_ns = eng.now_ns;
}

void waits_remove(struct task *t)
{
	ASSERT(wait_nodes >= t->node_n);
	for (uint32_t i = 0; i < t->node_n; i++) {
		struct wait_node *node = &t->node[i];
		struct wait_page *page = wait_page_of(node->at >> (GRANULE_SHIFT + PAGE_SHIFT));

		ASSERT(*node->link == node && page->nodes > 0);
		*node->link = node->next;
		if (node->next)
			node->next->link = node->link;
		if (!--page->nodes)
			page->granules = 0;
	}
	wait_nodes -= t->node_n;
	t->node_n = 0;
	t->pub.wait = NULL;
	t->pub.wait_n = 0;
	t->pub.wait_abort = NULL;
}

/* ---- waking --------------------------------------------------------------------------------- */

static bool node_is_true(const struct wait_node *node)
{
	const struct sim_task *p = &node->task->pub;

	return node->index < 0 ? waits_aborted(p->wait_abort) : wait_is_true(p->wait[node->index]);
}

static bool node_in_range(const struct wait_node *node, uintptr_t addr, size_t bytes)
{
	return node->at < addr + bytes && addr < node->at + node->bytes;
}

/* Tasks to wake, each once; sorted by ids before they wake. A barrier of 512 threads wakes 511. */
struct wake_list {
	struct task *first;
	bool sorted;
};

static void wake_list_add(struct wake_list *list, struct task *t)
{
	if (t->waking)
		return;
	t->waking = true;
	t->wake_next = list->first;
	list->sorted &= !list->first || t->pub.self.id < list->first->pub.self.id;
	list->first = t;
}

static struct task *wake_list_merge(struct task *a, struct task *b)
{
	struct task *first = NULL, **end = &first;

	while (a && b) {
		struct task **less = a->pub.self.id < b->pub.self.id ? &a : &b;

		*end = *less;
		end = &(*less)->wake_next;
		*less = *end;
	}
	*end = a ? a : b;
	return first;
}

/* Sorts the list by ids: run[i] holds 2^i sorted tasks, or none. */
static struct task *wake_list_sort(struct task *t)
{
	struct task *run[32] = {NULL};
	uint32_t i;

	while (t) {
		struct task *one = t;

		t = t->wake_next;
		one->wake_next = NULL;
		for (i = 0; run[i]; i++) {
			one = wake_list_merge(run[i], one);
			run[i] = NULL;
		}
		ASSERT(i < ARRAY_LEN(run));
		run[i] = one;
	}
	for (i = 0; i < ARRAY_LEN(run); i++)
		t = wake_list_merge(run[i], t);
	return t;
}

static void wake_list_run(struct wake_list *list)
{
	struct task *next = list->sorted ? list->first : wake_list_sort(list->first);

	while (next) {
		struct task *t = next;

		next = t->wake_next;
		t->wake_next = NULL;
		t->waking = false;
		ASSERT(t->pub.state == SIM_TASK_WAITING && eng.waiting > 0);
		waits_remove(t);
		if (t->timer.at)
			timer_remove(&t->timer);
		eng.waiting--;
		task_make_ready(t);
	}
}

static void wake_walk_granule(uintptr_t granule, uintptr_t addr, size_t bytes,
			      struct wake_list *wake)
{
	for (struct wait_node *n = wait_bucket[wait_hash(granule)]; n; n = n->next)
		if (n->at >> GRANULE_SHIFT == granule && node_in_range(n, addr, bytes) &&
		    node_is_true(n))
			wake_list_add(wake, n->task);
}

static void wake_walk_granules(uintptr_t addr, size_t bytes, struct wake_list *wake)
{
	const uintptr_t first = addr >> GRANULE_SHIFT, last = (addr + bytes - 1) >> GRANULE_SHIFT;

	for (uintptr_t page = first >> PAGE_SHIFT; page <= last >> PAGE_SHIFT; page++) {
		uint64_t granules = wait_page_of(page)->granules;

		if (page == first >> PAGE_SHIFT)
			granules &= -wait_granule_bit(first);
		if (page == last >> PAGE_SHIFT)
			granules &= 2 * wait_granule_bit(last) - 1;
		for (; granules; granules &= granules - 1)
			wake_walk_granule((page << PAGE_SHIFT) +
						  (uintptr_t)__builtin_ctzll(granules),
					  addr, bytes, wake);
	}
}

static void wake_walk_tasks(uintptr_t addr, size_t bytes, struct wake_list *wake)
{
	for (struct sim_task *p = sim_task_first(); p; p = p->next) {
		struct task *t = task_of(p);

		for (uint32_t i = 0; i < t->node_n; i++)
			if (node_in_range(&t->node[i], addr, bytes) && node_is_true(&t->node[i]))
				wake_list_add(wake, t);
	}
}

void waits_wrote(const void *addr, size_t bytes)
{
	struct wake_list wake = {.sorted = true};

	/* A poller's writes while its polls are fruitless belong to the polling (a count of users,
	 * a lock). If they counted as changes, two pollers would keep each other awake without
	 * end. */
	if (!eng.current || eng.current->poll_row < POLL_FREE) {
		eng.changes++;
		if (eng.pollers)
			pollers_wake();
	}
	if (!wait_nodes || !bytes)
		return;
	addr = waits_home(addr);
	size_t pages = (bytes >> (GRANULE_SHIFT + PAGE_SHIFT)) + 2;
	if (pages <= wait_nodes + eng.live)
		wake_walk_granules((uintptr_t)addr, bytes, &wake);
	else
		wake_walk_tasks((uintptr_t)addr, bytes, &wake);
	if (wake.first)
		wake_list_run(&wake);
}

void sim_wrote(const void *addr, size_t bytes)
{
	if (eng.phase != ENGINE_OFF)
		eng.sched->wrote(addr, bytes);
}

/* ---- pollers -------------------------------------------------------------------------------- */

void pollers_park(struct task *t)
{
	ASSERT(t == eng.current && t->node_n == 0); /* a poller has no waits that a write finds */
	t->poll_next = NULL;
	if (!eng.pollers)
		eng.parked_ns = eng.now_ns;
	*eng.pollers_end = t;
	eng.pollers_end = &t->poll_next;
	eng.waiting++;
}

void pollers_unpark(struct task *t)
{
	struct task **at = &eng.pollers;

	while (*at != t) {
		ASSERT(*at);
		at = &(*at)->poll_next;
	}
	*at = t->poll_next;
	if (eng.pollers_end == &t->poll_next)
		eng.pollers_end = at;
	eng.waiting--;
}

/* Wakes all parked pollers after a change. */
void pollers_wake(void)
{
	struct task *t = eng.pollers;

	eng.pollers = NULL;
	eng.pollers_end = &eng.pollers;
	while (t) {
		struct task *next = t->poll_next;

		ASSERT(t->pub.state == SIM_TASK_WAITING && eng.waiting > 0);
		eng.waiting--;
		task_make_ready(t);
		t = next;
	}
}

/* ---- life ----------------------------------------------------------------------------------- */

void waits_start(void)
{
	wait_table_free();
	wait_table_make(WAIT_BITS_FIRST);
	wait_nodes = 0;
	eng.pollers = NULL;
	eng.pollers_end = &eng.pollers;
}

void waits_stop(void)
{
	wait_table_free();
}
