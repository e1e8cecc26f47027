/* SPDX-License-Identifier: BSD-3-Clause */
/* The HCAs of a world: tables in the arena, and the end of processes and of the world. */
#include <sched.h>
#include <stdio.h>

#include "backends/fakeverbs/check.h"
#include "backends/fakeverbs/hca.h"

struct fakeverbs_view fakeverbs;
static uint32_t hca_world_lock;

DOPPEL_STATIC_CHECK(sizeof(struct hca_cqe) % 8 == 0, "rings of cqes stay aligned");
DOPPEL_STATIC_CHECK(sizeof(struct hca_wqe) % 8 == 0, "scatter lists stay aligned");

void hca_say(const char *fmt, ...)
{
	char line[512];
	int n = snprintf(line, sizeof line, "fakeverbs: ");
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
	va_end(ap);
	os_log_line(line);
}

void hca_misuse(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	sim_misuse_of("fakeverbs: ", false, fmt, ap);
	va_end(ap);
}

bool hca_alone;

bool hca_run_ended(void)
{
	return sim_failure() && !sim_running();
}

static bool hca_lock_is_dead(uint32_t holder)
{
	return hca_far && holder && !hca_far->alive(holder - 1);
}

static bool hca_lock_is_stopped(uint32_t holder)
{
	return hca_far && holder && holder != hca_lock_me() && hca_far->stopped(holder - 1);
}

/* Waits are short: who holds one does not wait. Longer ones have a reason, which is looked for. */
#define HCA_LOCK_YIELD   64u
#define HCA_LOCK_DEAD    1024u
#define HCA_LOCK_STOPPED 8192u

static enum hca_locked hca_lock_slow(uint32_t *word, bool patient)
{
	uint32_t me = hca_lock_me(), holder = 0;

	for (uint32_t n = 1; !__atomic_compare_exchange_n(word, &holder, me, false,
							  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
	     n++) {
		if (n % HCA_LOCK_YIELD == 0)
			sched_yield();
		if (n % HCA_LOCK_DEAD == 0 && hca_lock_is_dead(holder) &&
		    __atomic_compare_exchange_n(word, &holder, me, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return HCA_LOCKED_BROKEN;
		if (n % HCA_LOCK_STOPPED == 0 && hca_lock_is_stopped(holder) && !patient)
			return HCA_LOCKED_NOT;
		holder = 0;
	}
	return HCA_LOCKED;
}

bool hca_lock_wait(uint32_t *word)
{
	if (hca_alone) {
		ASSERT(hca_run_ended()); /* in a step, which left its locks */
		*word = 1;
		return false;
	}
	return hca_lock_slow(word, true) == HCA_LOCKED_BROKEN;
}

enum hca_locked hca_lock_unless_stopped_wait(uint32_t *word)
{
	if (hca_alone)
		return hca_lock_wait(word) ? HCA_LOCKED_BROKEN : HCA_LOCKED;
	return hca_lock_slow(word, false);
}

/* ---- slabs ---------------------------------------------------------------------------------- */

static void hca_slab_init(struct hca_slab *s, size_t item_bytes, uint32_t chunk_shift,
			  uint32_t reuse_after)
{
	s->item_bytes = (uint32_t)ALIGN_UP(item_bytes, 64);
	s->chunk_shift = chunk_shift;
	s->reuse_after = reuse_after;
}

static struct hca_item *hca_slab_grow(struct hca_slab *s)
{
	uint32_t index = s->count, chunk = index >> s->chunk_shift;

	if (chunk >= HCA_CHUNKS)
		return NULL;
	if ((index & ((1u << s->chunk_shift) - 1)) == 0) {
		void *p = world_arena_alloc((size_t)s->item_bytes << s->chunk_shift, "hca table");

		if (!p)
			return NULL;
		__atomic_store_n(&s->chunk[chunk], world_arena_offset(p), __ATOMIC_RELEASE);
		if (s == &fakeverbs.world->qp)
			fakeverbs.qp[chunk] = p;
	}
	__atomic_store_n(&s->count, index + 1, __ATOMIC_RELEASE);
	struct hca_item *it = hca_slab_at(s, index);

	it->index = index;
	return it;
}

/* The list of free ones again, after somebody died who was changing it. */
static void hca_slab_repair(struct hca_slab *s)
{
	uint32_t last = 0;

	s->free_count = s->free_first = s->free_last = 0;
	for (uint32_t i = 0; i < s->count; i++) {
		struct hca_item *it = hca_slab_at(s, i);

		if (it->live)
			continue;
		it->index = i;
		it->next_free = 0;
		if (last)
			((struct hca_item *)hca_slab_at(s, last - 1))->next_free = i + 1;
		else
			s->free_first = i + 1;
		last = i + 1;
		s->free_count++;
	}
	s->free_last = last;
}

static void hca_slab_lock(struct hca_slab *s)
{
	if (hca_lock_broken(&s->lock))
		hca_slab_repair(s);
}

static void *hca_slab_take_for(struct hca_slab *s, uint32_t proc, void *handle)
{
	struct hca_item *it = NULL;

	hca_slab_lock(s);
	if (s->free_count <= s->reuse_after)
		it = hca_slab_grow(s);
	if (!it && s->free_count) {
		it = hca_slab_at(s, s->free_first - 1);
		s->free_first = it->next_free;
		if (--s->free_count == 0)
			s->free_last = 0;
	}
	if (it) {
		ASSERT(!it->live);
		it->next_free = 0;
		/* who looks through a slab may still look at what was here before */
		__atomic_store_n(&it->proc, proc, __ATOMIC_RELAXED);
		__atomic_store_n(&it->handle, (uintptr_t)handle, __ATOMIC_RELAXED);
		it->made = 0;
		__atomic_store_n(&it->live, 1, __ATOMIC_RELEASE);
	}
	hca_unlock(&s->lock);
	return it;
}

void *hca_slab_take(struct hca_slab *s)
{
	uint32_t proc =
		hca_far ? hca_far->self << HCA_FAR_NUMBER_BITS | HCA_FAR_NOBODY : UINT32_MAX;

	return hca_slab_take_for(s, proc, NULL);
}

void *hca_slab_take_owned(struct hca_slab *s, void *handle)
{
	return hca_slab_take_for(s, hca_proc_id(os_proc()), handle);
}

void hca_slab_give(struct hca_slab *s, void *item)
{
	struct hca_item *it = item;

	hca_slab_lock(s);
	ASSERT(it->live);
	__atomic_store_n(&it->generation, it->generation + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&it->live, 0, __ATOMIC_RELEASE);
	it->next_free = 0;
	if (s->free_count++)
		((struct hca_item *)hca_slab_at(s, s->free_last - 1))->next_free = it->index + 1;
	else
		s->free_first = it->index + 1;
	s->free_last = it->index + 1;
	hca_unlock(&s->lock);
}

void *hca_slab_next(struct hca_slab *s, uint32_t proc, uint32_t *cursor)
{
	uint32_t count = __atomic_load_n(&s->count, __ATOMIC_ACQUIRE);

	while (*cursor < count) {
		struct hca_item *it = hca_slab_at(s, (*cursor)++);

		if (__atomic_load_n(&it->live, __ATOMIC_ACQUIRE) &&
		    (proc == UINT32_MAX || __atomic_load_n(&it->proc, __ATOMIC_RELAXED) == proc))
			return it;
	}
	return NULL;
}

/* ---- life ----------------------------------------------------------------------------------- */

static struct hca_world *hca_world_make(void)
{
	uint32_t ports = world_port_count();
	struct hca_world *w = world_arena_alloc(sizeof *w + ports * sizeof w->port[0], "hca world");
	void *rings = world_arena_alloc(HCA_RINGS_BYTES, "hca rings");

	ASSERT(w && rings);
	w->ports = ports;
	hca_early_configure(w);
	for (uint32_t i = 0; i < ports; i++) {
		hca_port_init(&w->port[i], i);
		hca_port_configure(&w->port[i], i);
	}
	hca_slab_init(&w->qp, sizeof(struct hca_qp), FAKEVERBS_QP_SHIFT, 16);
	hca_slab_init(&w->cq, sizeof(struct hca_cq), 5, 16);
	hca_slab_init(&w->srq, sizeof(struct hca_srq), 5, 16);
	hca_slab_init(&w->ah, sizeof(struct hca_ah), 5, 16);
	hca_slab_init(&w->member, sizeof(struct hca_member), 5, 0);
	hca_slab_init(&w->xrcd, sizeof(struct hca_xrcd), 4, 4);
	hca_slab_init(&w->xrcd_open, sizeof(struct hca_xrcd_open), 4, 4);
	hca_slab_init(&w->qp_open, sizeof(struct hca_qp_open), 4, 4);
	hca_slab_init(&w->mr, sizeof(struct hca_mr), 6, 64);
	hca_slab_init(&w->mw, sizeof(struct hca_mw), 6, 64);
	hca_slab_init(&w->pd, sizeof(struct hca_pd), 5, 16);
	hca_slab_init(&w->context, sizeof(struct hca_context), 5, 4);
	hca_slab_init(&w->channel, sizeof(struct hca_channel), 4, 4);
	hca_slab_init(&w->event, sizeof(struct hca_event), 6, 0);
	hca_slab_init(&w->packet, sizeof(struct hca_packet), 7, 0);
	hca_slab_init(&w->small, sizeof(struct hca_buffer_small), 4, 0);
	hca_slab_init(&w->large, sizeof(struct hca_buffer_large), 2, 0);
	hca_rings_init(&w->rings, rings, HCA_RINGS_BYTES);
	return w;
}

struct hca_world *hca_world_first(void)
{
	hca_lock(&hca_world_lock);
	if (!fakeverbs.world) {
		struct hca_world *w = hca_far ? hca_far->world(hca_world_make) : hca_world_make();
		if (sim_engine_kind() == SIM_ENGINE_SIM)
			hca_alone = true;
		hca_check_load();
		__atomic_store_n(&fakeverbs.world, w, __ATOMIC_RELEASE);
	}
	hca_unlock(&hca_world_lock);
	return fakeverbs.world;
}

/* Ends everything of one kind that the process still has; counts it unless the process was killed.
 */
static void hca_proc_end_kind(struct hca_slab *s, const struct os_proc *proc, bool killed,
			      const char *kind, void (*end)(void *item))
{
	uint64_t n = 0;
	uint32_t at = 0;
	struct hca_item *it;
	char first[160];
	struct hca_site made;

	while ((it = hca_slab_next(s, hca_proc_id(proc), &at))) {
		void *memory = (void *)(uintptr_t)it->handle;

		if (s == &fakeverbs.world->context)
			memory = hca_context_of(memory);
		if (n++ == 0)
			snprintf(first, sizeof first, "number %u of %s, made at %s", it->index,
				 proc->name, hca_site(it->proc, it->made, &made));
		end(it);
		os_unlabel(memory);
		hca_handle_sweep(memory, killed);
	}
	if (!killed)
		world_leak(kind, n, first);
}

static void hca_end_qp(void *qp)
{
	hca_qp_release(qp, true);
}
static void hca_end_qp_open(void *open)
{
	hca_qp_open_end(open);
}
static void hca_end_xrcd_open(void *open)
{
	hca_xrcd_open_end(open);
}
static void hca_end_cq(void *cq)
{
	hca_cq_destroy(cq);
}
static void hca_end_srq(void *srq)
{
	hca_srq_destroy(srq);
}
static void hca_end_ah(void *ah)
{
	hca_slab_give(&fakeverbs.world->ah, ah);
}
static void hca_end_mr(void *mr)
{
	hca_mr_destroy(mr);
}
static void hca_end_mw(void *mw)
{
	hca_mw_destroy(mw);
}
static void hca_end_pd(void *pd)
{
	hca_slab_give(&fakeverbs.world->pd, pd);
}
static void hca_end_channel(void *channel)
{
	hca_channel_destroy(channel);
}
static void hca_end_context(void *context)
{
	hca_context_destroy(context);
}

void hca_world_each_kind(struct hca_world *w, uint32_t member,
			 void (*one)(struct hca_slab *s, uint32_t member, void (*end)(void *item)))
{
	one(&w->qp_open, member, hca_end_qp_open);
	one(&w->qp, member, hca_end_qp);
	one(&w->srq, member, hca_end_srq);
	one(&w->cq, member, hca_end_cq);
	one(&w->ah, member, hca_end_ah);
	one(&w->xrcd_open, member, hca_end_xrcd_open);
	one(&w->mw, member, hca_end_mw);
	one(&w->mr, member, hca_end_mr);
	one(&w->pd, member, hca_end_pd);
	one(&w->channel, member, hca_end_channel);
	one(&w->context, member, hca_end_context);
}

/* What a process still has when it ends, from the top down. */
static void hca_proc_end(struct os_proc *proc, bool killed)
{
	struct hca_world *w = fakeverbs.world;

	if (!w)
		return;
	hca_proc_end_kind(&w->qp_open, proc, killed, "opened queue pair", hca_end_qp_open);
	hca_proc_end_kind(&w->qp, proc, killed, "queue pair", hca_end_qp);
	hca_proc_end_kind(&w->srq, proc, killed, "shared receive queue", hca_end_srq);
	hca_proc_end_kind(&w->cq, proc, killed, "completion queue", hca_end_cq);
	hca_proc_end_kind(&w->ah, proc, killed, "address handle", hca_end_ah);
	hca_proc_end_kind(&w->xrcd_open, proc, killed, "XRC domain", hca_end_xrcd_open);
	hca_proc_end_kind(&w->mw, proc, killed, "memory window", hca_end_mw);
	hca_proc_end_kind(&w->mr, proc, killed, "memory region", hca_end_mr);
	hca_proc_end_kind(&w->pd, proc, killed, "protection domain", hca_end_pd);
	hca_proc_end_kind(&w->channel, proc, killed, "completion channel", hca_end_channel);
	hca_proc_end_kind(&w->context, proc, killed, "verbs context", hca_end_context);
	hca_devices_end(proc, killed);
	hca_handles_sweep(hca_proc_id(proc));
}

void hca_forget(void)
{
	hca_handles_end(true);
	hca_devices_forget();
	memset(&fakeverbs, 0, sizeof fakeverbs);
	hca_far = NULL;
	hca_world_lock = 0;
}

/* The arena goes with the world. */
static void hca_world_end(void)
{
	hca_handles_end(false);
	memset(&fakeverbs, 0, sizeof fakeverbs);
	if (hca_alone)
		hca_alone = false;
}

static void hca_port_changed(struct world_port *port)
{
	struct hca_world *w = fakeverbs.world;
	uint32_t at = 0;
	struct hca_context *c;

	if (!w)
		return;
	__atomic_store_n(&w->port[port->index].up, port->up, __ATOMIC_RELEASE);
	while ((c = hca_slab_next(&w->context, UINT32_MAX, &at))) {
		hca_lock(&c->item.lock);
		bool mine = !c->closed && c->port == port->index;

		hca_unlock(&c->item.lock);
		if (mine)
			hca_event_post(c->item.index,
				       port->up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, 1, 0);
	}
}

/* For the dump of a failing run: queue pairs that are not idle. */
static void hca_print_busy(FILE *out)
{
	static const char *const state[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
	struct hca_world *w = fakeverbs.world;
	struct hca_site site;
	bool first = true;
	uint32_t at = 0;
	struct hca_qp *q;

	if (!w)
		return;
	while ((q = hca_slab_next(&w->qp, UINT32_MAX, &at))) {
		bool refused = q->refused && hca_rule_on(HCA_RULE_POST_IGNORED);

		if (q->sq.head == q->sq.done && q->state == IBV_QPS_RTS && !refused)
			continue;
		if (first)
			fprintf(out, "queue pairs that are not idle:\n");
		first = false;
		const struct world_port *port = world_port(q->port);
		const struct world_port *peer = world_port(q->dest_port);

		fprintf(out, "  h%u %s qp 0x%x %s", port->host, port->nic->name, q->number,
			state[q->state]);
		if (peer)
			fprintf(out, " -> h%u %s qp 0x%x", peer->host, peer->nic->name,
				q->dest_qpn);
		fprintf(out,
			": %u sends, %u of them started; %u receives; psn una 0x%x next 0x%x, "
			"expected 0x%x; %u retries, %u rnr left, %llu packets resent%s\n",
			q->sq.head - q->sq.done, q->sq.next - q->sq.done, q->rq.head - q->rq.done,
			q->req.psn_una, q->req.psn_next, q->resp.psn, q->req.retries,
			q->req.rnr_retries, (unsigned long long)q->req.resent,
			q->req.rnr_wait ? "; waits for the receiver" : "");
		if (refused)
			fprintf(out,
				"    verbs-post-ignored: its last post, wr_id 0x%llx at %s, was "
				"refused: %s\n",
				(unsigned long long)q->refused_wr_id,
				hca_site(q->item.proc, q->refused_caller, &site),
				strerror((int)q->refused));
	}
}

/* The link that keeps the queue pair's packets, in words; 0 characters: both are up. */
static void hca_explain_links(const struct hca_qp *q, char *out, size_t bytes)
{
	const struct world_port *port[2] = {world_port(q->port), world_port(q->dest_port)};
	char since[32];

	out[0] = '\0';
	for (int i = 0; i < 2; i++) {
		if (!port[i] || port[i]->up)
			continue;
		sim_format_ns(since, sim_now_ns() - port[i]->changed_ns);
		snprintf(out, bytes, "; link of host %u %s down since %s", port[i]->host,
			 port[i]->nic->name, since);
		return;
	}
}

/* What a wait for this queue pair's completions should know of it. */
static bool hca_explain_qp(const struct hca_qp *q, struct sim_explained *out)
{
	static const char *const state[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
	const struct world_port *port = world_port(q->port), *peer = world_port(q->dest_port);
	uint32_t sends = q->sq.head - q->sq.done, spent = q->retry_count - q->req.retries;
	char links[96], to[64] = "nobody", retries[64] = "";

	hca_explain_links(q, links, sizeof links);
	if (peer)
		snprintf(to, sizeof to, "host %u %s qp 0x%x", peer->host, peer->nic->name,
			 q->dest_qpn);
	if (q->state == IBV_QPS_RTS && sends && spent)
		snprintf(retries, sizeof retries, "; %u of %u retries spent, %llu packets resent",
			 spent, q->retry_count, (unsigned long long)q->req.resent);
	snprintf(out->text, sizeof out->text,
		 "host %u %s qp 0x%x %s, to %s: %u sends and %u receives under way%s%s%s",
		 port->host, port->nic->name, q->number, state[q->state], to, sends,
		 q->rq.head - q->rq.done, q->req.rnr_wait ? "; the peer has no receive posted" : "",
		 retries, links);
	out->stuck = q->state != IBV_QPS_RTS || links[0] || (sends && (spent || q->req.rnr_wait));
	return true;
}

/* A wait on a completion queue is one for its queue pairs: the one that is stuck, else the first
 * with something under way. */
static bool hca_explain(const struct wait *w, struct sim_explained *out)
{
	struct hca_world *world = fakeverbs.world;
	uint32_t at = 0, qp_at = 0;
	struct hca_cq *cq;
	struct hca_qp *q;
	struct sim_explained e = {false, ""};

	if (!world || w->kind != WAIT_OBJECT)
		return false;
	do
		cq = hca_slab_next(&world->cq, UINT32_MAX, &at);
	while (cq && cq->item.handle != (uint64_t)(uintptr_t)w->on);
	if (!cq)
		return false;
	out->text[0] = '\0';
	while (!out->stuck && (q = hca_slab_next(&world->qp, UINT32_MAX, &qp_at))) {
		if (q->send_cq != cq->item.index && q->recv_cq != cq->item.index)
			continue;
		if (hca_explain_qp(q, &e) && (e.stuck || !out->text[0]))
			*out = e;
	}
	return true;
}

__attribute__((constructor)) static void hca_load(void)
{
	world_on_proc_exit(hca_proc_end);
	world_on_destroy(hca_world_end);
	world_on_port_change(hca_port_changed);
	sim_on_failure(hca_print_busy);
	sim_on_explain(hca_explain);
}
