/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/ras/ras_job.h"

#include <string.h>

#include "core/os/os_grow.h"

/* Makes room for one more element. */
#define JOB_GROW(j, what, n, room)                                                                 \
	({                                                                                         \
		bool grown_ = (j)->n < (j)->room ||                                                \
			      OS_GROW((j)->what, (j)->n, (j)->room, 16, "RAS job");                \
		(j)->lost = (j)->lost || !grown_;                                                  \
		grown_;                                                                            \
	})

/* ---- processes ------------------------------------------------------------------------------ */

static bool job_is_process(const struct ras_job *j, uint32_t i, const struct os_addr *addr,
			   int32_t pid)
{
	const struct ras_process *p = &j->process[i];

	if (i >= j->processes || p->addr.port != addr->port || p->addr.family != addr->family)
		return false;
	return addr->port ? !memcmp(p->addr.ip, addr->ip, sizeof addr->ip) : p->pid == pid;
}

/* Members of a communicator are often in the order of their processes. */
static uint32_t job_find(struct ras_job *j, const struct os_addr *addr, int32_t pid)
{
	for (uint32_t k = 0; k < 2; k++)
		if (job_is_process(j, j->last + k, addr, pid))
			return j->last += k;
	for (uint32_t i = 0; i < j->processes; i++)
		if (job_is_process(j, i, addr, pid))
			return j->last = i;
	return UINT32_MAX;
}

static uint32_t job_node_of(const struct ras_job *j, uint32_t process)
{
	const struct os_addr *a = &j->process[process].addr;

	for (uint32_t i = 0; i < process; i++) {
		const struct os_addr *b = &j->process[i].addr;

		if (a->family == b->family && !memcmp(a->ip, b->ip, sizeof a->ip))
			return j->process[i].node;
	}
	return process;
}

uint32_t ras_job_process(struct ras_job *j, const struct os_addr *addr, int32_t pid)
{
	uint32_t at = job_find(j, addr, pid);
	struct ras_process *p;

	if (at != UINT32_MAX)
		return at;
	if (!JOB_GROW(j, process, processes, process_room))
		return UINT32_MAX;
	at = j->processes++;
	p = &j->process[at];
	*p = (struct ras_process){
		.addr = *addr, .pid = pid, .state = addr->port ? RAS_NEW : RAS_NONE};
	p->node = job_node_of(j, at);
	return j->last = at;
}

/* ---- merging -------------------------------------------------------------------------------- */

static bool job_knows(const struct ras_job *j, uint32_t hashes, uint64_t comm)
{
	for (uint32_t i = hashes; i-- > 0;)
		if (j->hash[i] == comm)
			return true;
	return false;
}

static void job_member(struct ras_job *j, const struct ras_member *m)
{
	uint32_t at = ras_job_process(j, &m->addr, m->pid);

	if (at == UINT32_MAX || !JOB_GROW(j, member, members, member_room))
		return;
	j->process[at].gpus |= ras_gpu_bit(m->cuda_dev);
	j->process[at].nvml |= ras_gpu_bit(m->nvml_dev);
	j->member[j->members++] = *m;
	if (job_knows(j, j->hashes, m->comm) || !JOB_GROW(j, hash, hashes, hash_room))
		return;
	j->hash[j->hashes++] = m->comm;
}

static void job_rank(struct ras_job *j, uint32_t process, const struct ras_rank *r)
{
	if (!JOB_GROW(j, rank, ranks, rank_room))
		return;
	j->process[process].gpus |= ras_gpu_bit(r->cuda_dev);
	j->process[process].nvml |= ras_gpu_bit(r->nvml_dev);
	j->rank[j->ranks++] = (struct ras_job_rank){.r = *r, .process = process};
}

/* All members of a communicator come in one message: a later one is ignored. */
void ras_job_merge(struct ras_job *j, uint32_t process, const struct ras_message *m)
{
	uint32_t before = j->hashes;

	for (uint32_t i = 0; i < m->head.ranks; i++)
		job_rank(j, process, &m->rank[i]);
	for (uint32_t i = 0; i < m->head.members; i++)
		if (!job_knows(j, before, m->member[i].comm))
			job_member(j, &m->member[i]);
	for (uint32_t i = 0; i < m->head.calls; i++)
		if (JOB_GROW(j, call, calls, call_room))
			j->call[j->calls++] = m->call[i];
	for (uint32_t i = 0; i < m->head.pairs; i++)
		if (JOB_GROW(j, pair, pairs, pair_room))
			j->pair[j->pairs++] = m->pair[i];
	ras_text_bytes(&j->process[process].dump, m->text, m->head.text);
	ras_text_bytes(&j->process[process].why, m->why, m->head.why);
	j->process[process].state = RAS_ANSWERED;
}

/* ---- sorting -------------------------------------------------------------------------------- */

static int job_order(uint64_t comm_a, int32_t rank_a, uint64_t comm_b, int32_t rank_b)
{
	if (comm_a != comm_b)
		return comm_a < comm_b ? -1 : 1;
	return rank_a < rank_b ? -1 : rank_a > rank_b;
}

static int job_order_ranks(const void *a, const void *b)
{
	const struct ras_job_rank *x = a, *y = b;
	int order = job_order(x->r.comm, x->r.rank, y->r.comm, y->r.rank);

	return order ? order : x->process < y->process ? -1 : x->process > y->process;
}

static int job_order_members(const void *a, const void *b)
{
	const struct ras_member *x = a, *y = b;

	return job_order(x->comm, x->rank, y->comm, y->rank);
}

static int job_order_calls(const void *a, const void *b)
{
	const struct ras_call *x = a, *y = b;
	int order = job_order(x->comm, x->rank, y->comm, y->rank);

	return order ? order : x->number < y->number ? -1 : x->number > y->number;
}

static int job_order_pairs(const void *a, const void *b)
{
	const struct ras_pair *x = a, *y = b;
	int order = job_order(x->comm, x->rank, y->comm, y->rank);

	if (!order)
		order = x->peer < y->peer ? -1 : x->peer > y->peer;
	return order ? order : x->is_send < y->is_send ? -1 : x->is_send > y->is_send;
}

void ras_job_sort(struct ras_job *j)
{
	uint32_t kept = 0;

	ras_sort(j->rank, j->ranks, sizeof *j->rank, job_order_ranks);
	ras_sort(j->member, j->members, sizeof *j->member, job_order_members);
	ras_sort(j->call, j->calls, sizeof *j->call, job_order_calls);
	ras_sort(j->pair, j->pairs, sizeof *j->pair, job_order_pairs);
	/* two processes that claim one rank: the first is kept */
	for (uint32_t i = 0; i < j->ranks; i++)
		if (!kept || job_order(j->rank[kept - 1].r.comm, j->rank[kept - 1].r.rank,
				       j->rank[i].r.comm, j->rank[i].r.rank))
			j->rank[kept++] = j->rank[i];
	j->ranks = kept;
	ras_comms_make(j);
}

void ras_job_free(struct ras_job *j)
{
	for (uint32_t i = 0; i < j->processes; i++) {
		ras_text_free(&j->process[i].dump);
		ras_text_free(&j->process[i].why);
	}
	os_free(j->process);
	os_free(j->rank);
	os_free(j->member);
	os_free(j->call);
	os_free(j->pair);
	os_free(j->hash);
	os_free(j->comm);
	*j = (struct ras_job){.ranks = 0};
}
