/* SPDX-License-Identifier: BSD-3-Clause */
/* The communicators of a job: their status, their missing ranks, and the groups of the report. */
#include <string.h>

#include "core/include/nccl.h"
#include "core/ras/ras_job.h"

uint32_t ras_status_of(const struct ras_rank *r)
{
	if (r->aborted)
		return RAS_STATUS_ABORT;
	if (r->finalized || r->destroyed)
		return RAS_STATUS_FINALIZE;
	return r->init_state == ncclSuccess ? RAS_STATUS_RUNNING : RAS_STATUS_INIT;
}

/* Index of the highest bit. */
static uint32_t comm_highest(uint32_t status)
{
	return status ? 31 - (uint32_t)__builtin_clz(status) : 0;
}

const char *ras_status_name(uint32_t status)
{
	static const char *const names[] = {"NOCOMM", "INIT", "RUNNING", "FINALIZE", "ABORT"};

	return names[comm_highest(status)];
}

/* ---- missing ranks -------------------------------------------------------------------------- */

bool ras_missing_next(struct ras_job *j, const struct ras_comm *c, struct ras_missing *at)
{
	while (at->next < c->size && at->rank_at < c->ranks &&
	       c->rank[at->rank_at].r.rank == at->next) {
		at->next++;
		at->rank_at++;
	}
	if (at->next >= c->size)
		return false;
	at->rank = at->next++;
	while (at->member_at < c->members && c->member[at->member_at].rank < at->rank)
		at->member_at++;
	at->member = at->member_at < c->members && c->member[at->member_at].rank == at->rank
			     ? &c->member[at->member_at]
			     : NULL;
	at->process =
		at->member ? ras_job_process(j, &at->member->addr, at->member->pid) : UINT32_MAX;
	at->answered = at->process != UINT32_MAX && j->process[at->process].state == RAS_ANSWERED;
	return true;
}

static bool job_is_complete(const struct ras_job *j)
{
	for (uint32_t i = 0; i < j->processes; i++)
		if (j->process[i].state != RAS_ANSWERED)
			return false;
	return true;
}

/* A rank whose process is not known counts as one without the communicator if all known processes
 * have answered: it may not have begun its init. */
static void comm_count_missing(struct ras_job *j, struct ras_comm *c, bool complete)
{
	struct ras_missing at = {.next = 0};

	while (ras_missing_next(j, c, &at)) {
		bool left = at.answered || (at.process == UINT32_MAX && complete);

		c->missing++;
		c->incomplete += !left;
		c->status |= left ? RAS_STATUS_NOCOMM : 0;
		c->errors |= left ? RAS_ERROR_MISMATCH : RAS_ERROR_INCOMPLETE;
	}
}

/* ---- status --------------------------------------------------------------------------------- */

static bool comm_is_error(uint32_t result)
{
	return result != ncclSuccess && result != ncclInProgress;
}

static void comm_judge(struct ras_comm *c)
{
	for (uint32_t i = 0; i < c->ranks; i++) {
		const struct ras_rank *r = &c->rank[i].r;

		c->status |= ras_status_of(r);
		if (memcmp(r->count, c->rank[0].r.count, sizeof r->count) != 0)
			c->errors |= RAS_ERROR_MISMATCH;
		if (comm_is_error(r->init_state) || comm_is_error(r->async_error))
			c->errors |= RAS_ERROR_ERROR;
	}
	if (c->status & (c->status - 1))
		c->errors |= RAS_ERROR_MISMATCH;
}

/* `ranks_at`: [processes], zero on entry and on exit. */
static void comm_count_nodes(const struct ras_job *j, struct ras_comm *c, uint32_t *ranks_at)
{
	c->per_node_min = UINT32_MAX;
	for (uint32_t i = 0; i < c->ranks; i++)
		ranks_at[j->process[c->rank[i].process].node]++;
	for (uint32_t i = 0; i < c->ranks; i++) {
		uint32_t *n = &ranks_at[j->process[c->rank[i].process].node];

		if (!*n)
			continue;
		c->nodes++;
		c->per_node_min = MIN_OF(c->per_node_min, *n);
		c->per_node_max = MAX_OF(c->per_node_max, *n);
		*n = 0;
	}
}

/* ---- groups --------------------------------------------------------------------------------- */

/* Orders the largest first. 0: they are of one group. */
static int comm_order_group(const struct ras_comm *a, const struct ras_comm *b)
{
	uint32_t of_a[] = {(uint32_t)a->size, a->nodes, comm_highest(a->status), a->errors};
	uint32_t of_b[] = {(uint32_t)b->size, b->nodes, comm_highest(b->status), b->errors};

	for (size_t i = 0; i < ARRAY_LEN(of_a); i++)
		if (of_a[i] != of_b[i])
			return of_a[i] > of_b[i] ? -1 : 1;
	return 0;
}

static int comm_order(const void *a, const void *b)
{
	const struct ras_comm *x = a, *y = b;
	int order = comm_order_group(x, y);

	if (!order && x->ranks != y->ranks)
		order = x->ranks < y->ranks ? -1 : 1;
	return order ? order : x->hash < y->hash ? -1 : 1;
}

static void comms_group(struct ras_job *j)
{
	ras_sort(j->comm, j->comms, sizeof *j->comm, comm_order);
	for (uint32_t i = 1; i < j->comms; i++) {
		struct ras_comm *c = &j->comm[i];
		bool same = comm_order_group(c - 1, c) == 0;

		c->group = c[-1].group + !same;
		c->number = same ? c[-1].number + 1 : 0;
	}
}

/* Returns the communicator of the ranks from `first` on. */
static struct ras_comm comm_of(const struct ras_job *j, uint32_t first, uint32_t *member_at,
			       uint32_t *call_at, uint32_t *pair_at)
{
	struct ras_comm c = {.hash = j->rank[first].r.comm,
			     .size = j->rank[first].r.nranks,
			     .rank = &j->rank[first]};

	while (first + c.ranks < j->ranks && j->rank[first + c.ranks].r.comm == c.hash)
		c.ranks++;
	while (*member_at < j->members && j->member[*member_at].comm < c.hash)
		++*member_at;
	c.member = j->member + *member_at;
	while (*member_at + c.members < j->members && c.member[c.members].comm == c.hash)
		c.members++;
	while (*call_at < j->calls && j->call[*call_at].comm < c.hash)
		++*call_at;
	c.call = j->call + *call_at;
	while (*call_at + c.calls < j->calls && c.call[c.calls].comm == c.hash)
		c.calls++;
	while (*pair_at < j->pairs && j->pair[*pair_at].comm < c.hash)
		++*pair_at;
	c.pair = j->pair + *pair_at;
	while (*pair_at + c.pairs < j->pairs && c.pair[c.pairs].comm == c.hash)
		c.pairs++;
	return c;
}

void ras_comms_make(struct ras_job *j)
{
	uint32_t *ranks_at = os_alloc((j->processes + 1) * sizeof *ranks_at, "RAS nodes");
	bool complete = job_is_complete(j);
	uint32_t member_at = 0, call_at = 0, pair_at = 0, at = 0;

	j->comm = os_alloc((j->ranks + 1) * sizeof *j->comm, "RAS communicators");
	if (!j->comm || !ranks_at)
		j->lost = true;
	while (!j->lost && at < j->ranks) {
		struct ras_comm *c = &j->comm[j->comms++];

		*c = comm_of(j, at, &member_at, &call_at, &pair_at);
		at += c->ranks;
		comm_count_missing(j, c, complete);
		comm_judge(c);
		comm_count_nodes(j, c, ranks_at);
	}
	os_free(ranks_at);
	comms_group(j);
}
