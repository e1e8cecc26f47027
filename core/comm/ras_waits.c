/* SPDX-License-Identifier: BSD-3-Clause */
/* The waits of this process' ranks, for the RAS task's DUMP: their kernels, calls that wait for
 * other ranks, messages, and inits from which ranks are absent. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/comm/comm_internal.h"
#include "core/rank/cuda_result.h"

#define WAITS_COMMS 256 /* most communicators of a process that are described */

/* ---- calls and messages --------------------------------------------------------------------- */

static struct ras_rank *waits_find(const struct ras_view *v, const struct ncclComm *c)
{
	for (uint32_t i = 0; i < v->ranks; i++)
		if (v->rank[i].comm == c->id_hash && v->rank[i].rank == c->rank)
			return &v->rank[i];
	return NULL;
}

static void waits_pair(struct ras_view *v, const struct ncclComm *c, const struct rank_message *m)
{
	struct ras_pair *p = ras_view_pair(v);

	if (!p)
		return;
	p->comm = c->id_hash;
	p->called = m->called;
	p->count = m->count;
	p->order = m->order;
	p->stream = m->stream;
	p->rank = c->rank;
	p->peer = m->peer;
	p->is_send = m->is_send;
	p->type = m->type;
	snprintf(p->call, sizeof p->call, "%s", m->call);
}

static void waits_pairs(struct ras_view *v, const struct ncclComm *c)
{
	struct rank_message m;

	for (int32_t i = 0; i < 2 * c->nranks && c->pairs; i++)
		if (rank_pairs_read(c->pairs, i / 2, i % 2, &m))
			waits_pair(v, c, &m);
}

static void waits_call(struct ras_rank *r, const struct ncclComm *c)
{
	uint64_t since_ns;
	const char *name = rank_timed_waits(&c->timed, &since_ns, &r->awaited);

	if (!name)
		return;
	snprintf(r->call, sizeof r->call, "%s", name);
	r->waits_ns = os_now_ns() - since_ns;
	r->awaited = r->awaited < c->nranks ? r->awaited : -1;
}

/* In its init a communicator has no event yet. */
static bool waits_has_launched(const struct ncclComm *c)
{
	return c->life->state != COMM_INIT &&
	       (c->pairs || shared_load_u64(&c->launches.last_ns, SHARED_ACQUIRE));
}

/* Lists the communicators with launches. They may end as soon as the lock is released; comm_is_busy
 * checks them. */
static int waits_comms(struct ras_view *v, struct ncclComm *comm[WAITS_COMMS])
{
	struct registry_node *first = registry_lock();
	int n = 0;

	for (struct registry_node *node = first; node && n < WAITS_COMMS; node = node->next) {
		struct ncclComm *c = comm_of(node);
		struct ras_rank *r = c ? waits_find(v, c) : NULL;

		if (!r)
			continue;
		waits_call(r, c);
		waits_pairs(v, c);
		if (waits_has_launched(c))
			comm[n++] = c;
	}
	registry_unlock(first);
	return n;
}

void comm_ras_waits(struct ras_view *v)
{
	struct ncclComm **comm = os_alloc(WAITS_COMMS * sizeof(struct ncclComm *), "RAS waits");
	enum cudaStreamCaptureMode mode = cuda_capture_mode(cudaStreamCaptureModeRelaxed);
	int n = comm ? waits_comms(v, comm) : 0;

	v->lost = v->lost || !comm;
	for (int i = 0; i < n; i++) {
		bool busy = comm_is_busy(comm[i]);
		struct registry_node *first = registry_lock();
		struct registry_node *node = first;

		while (node && comm_of(node) != comm[i])
			node = node->next;
		struct ras_rank *r = node ? waits_find(v, comm[i]) : NULL;

		if (r)
			r->busy = busy;
		registry_unlock(first);
	}
	(void)cuda_capture_mode(mode);
	os_free(comm);
}

/* ---- inits ---------------------------------------------------------------------------------- */

/* An init that runs. */
struct waits_init {
	ncclUniqueId id;
	const char *call; /* the public function */
	uint64_t hash, since_ns;
	int32_t rank, nranks;
	uint32_t step;
};

static bool waits_same_id(const ncclUniqueId *a, const ncclUniqueId *b)
{
	return !memcmp(a->internal, b->internal, sizeof a->internal);
}

/* Lists the inits that run, one for each unique id. */
static int waits_inits(struct waits_init *init)
{
	struct registry_node *first = registry_lock();
	int n = 0, k;

	for (struct registry_node *node = first; node && n < WAITS_COMMS; node = node->next) {
		const struct ncclComm *c = comm_of(node);
		uint64_t since_ns = c && c->life->state == COMM_INIT
					    ? shared_load_u64(&c->life->init_ns, SHARED_ACQUIRE)
					    : 0;

		if (!since_ns)
			continue;
		for (k = 0; k < n && !waits_same_id(&init[k].id, &c->life->id); k++)
			;
		if (k < n)
			continue;
		init[n++] = (struct waits_init){
			.id = c->life->id,
			.call = c->life->made_by,
			.hash = c->id_hash,
			.since_ns = since_ns,
			.rank = c->rank,
			.nranks = c->nranks,
			.step = shared_load_u32(&c->life->init_step, SHARED_RELAXED),
		};
	}
	registry_unlock(first);
	return n;
}

/* Writes the part of the init that runs: every rank has come, or the root is gone. */
static void waits_step_write(struct ras_text *why, const struct waits_init *i)
{
	ras_text_add(why, "rank %d waits in %s of %d ranks since %.3f s: it is %s\n", i->rank,
		     i->call, i->nranks, (double)(os_now_ns() - i->since_ns) * 1e-9,
		     comm_init_step_name(i->step));
}

static void waits_init_write(struct ras_text *why, const struct waits_init *i, uint64_t deadline_ns)
{
	char text[BOOTSTRAP_QUERY_BYTES] = "", *second;
	bool joins = i->step == COMM_STEP_JOIN && i->nranks > 1, from_env = false;
	int e = joins ? bootstrap_root_query(&i->id, i->rank, i->nranks, deadline_ns, text,
					     &from_env)
		      : 0;

	ras_text_add(why, "(%016" PRIx64 "): ", i->hash);
	second = strchr(text, '\n');
	if (joins && second)
		ras_text_add(why, "%.*s %s of %d ranks; %s\n", (int)(second - text), text, i->call,
			     i->nranks, second + 1);
	else if (joins && from_env && e == ECONNREFUSED)
		ras_text_add(why,
			     "rank 0 has not called %s of %d ranks: no process listens at "
			     "NCCL_COMM_ID; rank %d waits\n",
			     i->call, i->nranks, i->rank);
	else
		waits_step_write(why, i);
}

void comm_ras_why(struct ras_text *why, uint64_t deadline_ns)
{
	struct waits_init *init = os_alloc(WAITS_COMMS * sizeof *init, "RAS inits");
	int n = init ? waits_inits(init) : 0;

	why->lost = why->lost || !init;
	for (int i = 0; i < n; i++)
		waits_init_write(why, &init[i], deadline_ns);
	os_free(init);
}
