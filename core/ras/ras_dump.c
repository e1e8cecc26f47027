/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The report of DUMP: the causes of waits; after the status the ranks that others wait for, the
 * ranks whose calls differ, and the pending operations of each process.
 * A rank that has launched fewer collectives of a kind than another rank is absent from the next
 * one. A rank without data may be absent too, and is listed.
 */
#include <inttypes.h>

#include "core/ras/ras_status.h"

static uint64_t dump_most(const struct ras_comm *c, int func)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < c->ranks; i++)
		most = MAX_OF(most, c->rank[i].r.count[func]);
	return most;
}

static uint32_t dump_ranks_at(const struct ras_comm *c, int func, uint64_t count)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->ranks; i++)
		n += c->rank[i].r.count[func] == count;
	return n;
}

static void dump_absent_func(struct ras_text *out, const struct ras_job *j,
			     const struct ras_comm *c, int func)
{
	uint64_t most = dump_most(c, func);

	for (uint32_t i = 0; i < c->ranks; i++) {
		const struct ras_rank *r = &c->rank[i].r;

		if (r->count[func] == most)
			continue;
		ras_text_add(out,
			     "  Rank %d has not launched %s %" PRIu64 ", which %u rank%s launched",
			     r->rank, ras_func_name(func), r->count[func] + 1,
			     dump_ranks_at(c, func, most),
			     dump_ranks_at(c, func, most) > 1 ? "s have" : " has");
		ras_place_write(out, &j->process[c->rank[i].process], r->cuda_dev, r->nvml_dev);
	}
}

static void dump_absent(struct ras_text *out, struct ras_job *j, const struct ras_comm *c)
{
	struct ras_missing m = {.next = 0};

	if (!c->errors)
		return;
	ras_comm_title(out, c, "ABSENT");
	for (int func = 0; func < RAS_FUNCS; func++)
		dump_absent_func(out, j, c, func);
	while (ras_missing_next(j, c, &m))
		ras_missing_write(out, j, &m,
				  m.answered || m.process == UINT32_MAX
					  ? " is not in the communicator"
					  : " has given no answer");
	ras_text_add(out, "\n");
}

/* Writes the first call in which the ranks differ. */
static void dump_differ(struct ras_text *out, const struct ras_comm *c)
{
	struct ras_text why = {.bytes = 0};

	if (ras_calls_differ(&why, c)) {
		ras_comm_title(out, c, "DIFFERENT CALLS");
		ras_text_add(out, "  ");
		ras_text_bytes(out, why.at, why.bytes);
		ras_text_add(out, "\n\n");
	}
	out->lost = out->lost || why.lost;
	ras_text_free(&why);
}

void ras_dump_causes(struct ras_text *out, struct ras_job *j)
{
	struct ras_text causes = {.bytes = 0};

	ras_text_add(out, "Causes\n======\n\n");
	if (!ras_causes_write(&causes, j))
		ras_text_add(&causes, "No rank waits for another one.\n");
	ras_text_bytes(out, causes.at, causes.bytes);
	ras_text_add(out, "\n");
	out->lost = out->lost || causes.lost;
	ras_text_free(&causes);
}

void ras_dump_write(struct ras_text *out, struct ras_job *j)
{
	char host[RAS_HOST_BYTES];

	ras_text_add(out, "Absent ranks\n============\n\n");
	for (uint32_t i = 0; i < j->comms; i++)
		dump_absent(out, j, &j->comm[i]);
	for (uint32_t i = 0; i < j->comms; i++)
		dump_differ(out, &j->comm[i]);
	ras_text_add(out, "Pending operations\n==================\n\n");
	for (uint32_t i = 0; i < j->processes; i++) {
		const struct ras_process *p = &j->process[i];

		if (p->state != RAS_ANSWERED)
			continue;
		ras_text_add(out, "Process %d on node %s\n", p->pid,
			     ras_host_print(&p->addr, host));
		ras_text_bytes(out, p->dump.at, p->dump.bytes);
		ras_text_add(out, "\n");
	}
}
