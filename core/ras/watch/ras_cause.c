/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why ranks wait: the first lines of DUMP. A rank waits if its kernels run, or if it is in a call
 * that waits for other ranks. It waits for a rank that has made fewer calls: of a collective, of
 * the other end of a message, or of a call that forms communicators. In a job that runs, ranks
 * differ for a moment, too. Only a hang shows the same lines again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/type_name.h"
#include "core/ras/ras_status.h"

#define CAUSE_LINES 8 /* messages of a communicator that are listed */

/* ---- text ----------------------------------------------------------------------------------- */

struct cause_ranks {
	bool (*has)(const struct ras_comm *c, const struct ras_rank *r, const void *arg);
	const void *arg;
};

/* Writes "rank 3" or "ranks 0-1, 3": the ranks that have a property. Returns their number. */
static uint32_t cause_ranks(struct ras_text *out, const struct ras_comm *c, struct cause_ranks of)
{
	struct ras_text text = {.bytes = 0};
	struct ras_list l = {.out = &text, .first = -1};

	for (uint32_t i = 0; i < c->ranks; i++)
		if (of.has(c, &c->rank[i].r, of.arg))
			ras_list_add(&l, c->rank[i].r.rank);
	ras_list_end(&l);
	if (l.n)
		ras_text_add(out, "%s %s", l.n > 1 ? "ranks" : "rank", text.at ? text.at : "");
	out->lost = out->lost || text.lost;
	ras_text_free(&text);
	return l.n;
}

static void cause_begin(struct ras_text *out, const struct ras_comm *c)
{
	ras_text_add(out, "#%u-%u (%016" PRIx64 "): ", c->group, c->number, c->hash);
}

/* Writes "; ranks 0-1 wait" and a newline. */
static void cause_waits(struct ras_text *out, const struct ras_comm *c, struct cause_ranks of,
			const char *in)
{
	uint32_t n;

	ras_text_add(out, "; ");
	n = cause_ranks(out, c, of);
	ras_text_add(out, n > 1 ? " wait%s\n" : " waits%s\n", in);
}

/* Adds what an absent rank does meanwhile, if it waits itself. */
static void cause_busy(struct ras_text *out, const struct ras_comm *c, int32_t rank)
{
	for (uint32_t i = 0; i < c->ranks; i++) {
		const struct ras_rank *r = &c->rank[i].r;

		if (r->rank != rank || !ras_rank_waits(r))
			continue;
		if (r->call[0])
			ras_text_add(out, "; rank %d is in %s since %.3f s", rank, r->call,
				     (double)r->waits_ns * 1e-9);
		else
			ras_text_add(out, "; a kernel of rank %d runs", rank);
	}
}

static bool cause_is_waiting(const struct ras_comm *c, const struct ras_rank *r, const void *arg)
{
	(void)c;
	(void)arg;
	return ras_rank_waits(r);
}

/* ---- ranks without an answer ---------------------------------------------------------------- */

static void cause_missing_why(struct ras_text *out, const struct ras_job *j,
			      const struct ras_missing *m)
{
	const struct ras_process *p = m->process == UINT32_MAX ? NULL : &j->process[m->process];
	char host[RAS_HOST_BYTES];

	ras_text_add(out, "rank %d ", m->rank);
	if (!p)
		ras_text_add(out, "is not in the communicator yet");
	else if (m->answered)
		ras_text_add(out, "has left the communicator (process %d)", p->pid);
	else if (p->state == RAS_NONE)
		ras_text_add(out, "has no RAS task (process %d)", p->pid);
	else
		ras_text_add(out, "gives no answer: process %d on node %s %s", p->pid,
			     ras_host_print(&p->addr, host),
			     p->state == RAS_DEAD ? "has ended"
						  : "is stopped, or cannot be reached");
}

/* The call in which the first waiting rank is. */
static void cause_call_of_waiter(struct ras_text *out, const struct ras_comm *c)
{
	for (uint32_t i = 0; i < c->ranks; i++) {
		const struct ras_rank *r = &c->rank[i].r;
		const struct ras_call *last = ras_call_last(c, r->rank);

		if (!ras_rank_waits(r))
			continue;
		if (r->call[0]) {
			ras_text_add(out, " in %s", r->call);
		} else if (last) {
			ras_text_add(out, " in ");
			ras_call_write(out, last);
			ras_text_add(out, " (call %" PRIu64 ")", last->number);
		}
		return;
	}
}

static uint32_t cause_missing(struct ras_text *out, struct ras_job *j, const struct ras_comm *c)
{
	const struct cause_ranks waiting = {cause_is_waiting, NULL};
	struct ras_missing m = {.next = 0};
	uint32_t n = 0, waits = 0;

	for (uint32_t i = 0; i < c->ranks; i++)
		waits += ras_rank_waits(&c->rank[i].r);
	while (waits && ras_missing_next(j, c, &m)) {
		struct ras_text in = {.bytes = 0};

		if (n++ >= CAUSE_LINES)
			continue;
		cause_begin(out, c);
		cause_missing_why(out, j, &m);
		cause_call_of_waiter(&in, c);
		cause_waits(out, c, waiting, in.at ? in.at : "");
		ras_text_free(&in);
	}
	return n;
}

/* ---- collectives ---------------------------------------------------------------------------- */

static bool cause_lacks_call(const struct ras_comm *c, const struct ras_rank *r, const void *arg)
{
	(void)c;
	return r->calls <= *(const uint64_t *)arg;
}

static bool cause_waits_in_call(const struct ras_comm *c, const struct ras_rank *r, const void *arg)
{
	(void)c;
	return r->calls > *(const uint64_t *)arg && ras_rank_waits(r);
}

/* The first collective that some ranks have called and others have not. */
static uint32_t cause_collective(struct ras_text *out, const struct ras_comm *c)
{
	uint64_t number = UINT64_MAX;
	uint32_t waits = 0;

	for (uint32_t i = 0; i < c->ranks; i++)
		number = MIN_OF(number, c->rank[i].r.calls);
	for (uint32_t i = 0; i < c->ranks; i++)
		waits += cause_waits_in_call(c, &c->rank[i].r, &number);
	if (!waits)
		return 0;
	const struct cause_ranks absent = {cause_lacks_call, &number};
	const struct cause_ranks waiting = {cause_waits_in_call, &number};
	const struct ras_call *call = ras_call_find(c, number);

	cause_begin(out, c);
	ras_text_add(out, "%s not called ", cause_ranks(out, c, absent) > 1 ? " have" : " has");
	if (call)
		ras_call_write(out, call);
	else
		ras_text_add(out, "a collective");
	ras_text_add(out, " (call %" PRIu64 ")", number);
	for (uint32_t i = 0; i < c->ranks; i++)
		if (cause_lacks_call(c, &c->rank[i].r, &number))
			cause_busy(out, c, c->rank[i].r.rank);
	cause_waits(out, c, waiting, "");
	return 1;
}

static uint32_t cause_differ(struct ras_text *out, const struct ras_comm *c)
{
	struct ras_text why = {.bytes = 0};
	bool differ = ras_calls_differ(&why, c);

	if (differ) {
		cause_begin(out, c);
		ras_text_add(out, "ranks have called different collectives: ");
		ras_text_bytes(out, why.at, why.bytes);
		ras_text_add(out, "\n");
	}
	out->lost = out->lost || why.lost;
	ras_text_free(&why);
	return differ;
}

/* ---- messages ------------------------------------------------------------------------------- */

static const struct ras_rank *cause_rank(const struct ras_comm *c, int32_t rank)
{
	for (uint32_t i = 0; i < c->ranks; i++)
		if (c->rank[i].r.rank == rank)
			return &c->rank[i].r;
	return NULL;
}

/* Returns the number of messages that the peer has called for this direction. */
static uint64_t cause_called(const struct ras_comm *c, const struct ras_pair *p)
{
	for (uint32_t i = 0; i < c->pairs; i++) {
		const struct ras_pair *o = &c->pair[i];

		if (o->rank == p->peer && o->peer == p->rank && o->is_send != p->is_send)
			return o->called;
	}
	return 0;
}

/* True if the rank of `p` waits for a call that its peer has not made. */
static bool cause_lacks_message(const struct ras_comm *c, const struct ras_pair *p)
{
	const struct ras_rank *r = cause_rank(c, p->rank);

	return r && ras_rank_waits(r) && cause_rank(c, p->peer) && p->called > cause_called(c, p);
}

/* True for a call that is one message, and not a collective of many. */
static bool cause_is_single(const struct ras_pair *p)
{
	return !strcmp(p->call, "ncclSend") || !strcmp(p->call, "ncclRecv");
}

static void cause_message(struct ras_text *out, const struct ras_comm *c, const struct ras_pair *p)
{
	uint64_t number = cause_called(c, p);

	cause_begin(out, c);
	ras_text_add(out, "rank %d has not called %s %s rank %d (message %" PRIu64 ")", p->peer,
		     p->is_send ? "ncclRecv" : "ncclSend", p->is_send ? "from" : "to", p->rank,
		     number);
	cause_busy(out, c, p->peer);
	ras_text_add(out, "; rank %d waits in %s", p->rank, p->call);
	if (p->called == number + 1)
		ras_text_add(out, " of %" PRIu64 " %s", p->count, type_name_any(p->type));
	ras_text_add(out, " %s rank %d\n", p->is_send ? "to" : "from", p->peer);
}

/* A collective that consists of messages, and the rank that has not called it. */
struct cause_many {
	const char *call;
	int32_t absent;
};

static bool cause_waits_in_many(const struct ras_comm *c, const struct ras_rank *r, const void *arg)
{
	const struct cause_many *m = arg;

	for (uint32_t i = 0; i < c->pairs; i++)
		if (c->pair[i].rank == r->rank && c->pair[i].peer == m->absent &&
		    !strcmp(c->pair[i].call, m->call) && cause_lacks_message(c, &c->pair[i]))
			return true;
	return false;
}

/* True if an earlier pair has the same absent rank and call. */
static bool cause_is_listed(const struct ras_comm *c, const struct ras_pair *p)
{
	for (const struct ras_pair *o = c->pair; o < p; o++)
		if (o->peer == p->peer && !strcmp(o->call, p->call) && cause_lacks_message(c, o))
			return true;
	return false;
}

static void cause_many(struct ras_text *out, const struct ras_comm *c, const struct ras_pair *p)
{
	const struct cause_many m = {p->call, p->peer};

	cause_begin(out, c);
	ras_text_add(out, "rank %d has not called %s", p->peer, p->call);
	cause_busy(out, c, p->peer);
	cause_waits(out, c, (struct cause_ranks){cause_waits_in_many, &m}, "");
}

static uint32_t cause_messages(struct ras_text *out, const struct ras_comm *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->pairs; i++) {
		const struct ras_pair *p = &c->pair[i];
		bool single = cause_is_single(p);

		if (!cause_lacks_message(c, p) || (!single && cause_is_listed(c, p)))
			continue;
		if (n++ >= CAUSE_LINES)
			continue;
		if (single)
			cause_message(out, c, p);
		else
			cause_many(out, c, p);
	}
	if (n > CAUSE_LINES) {
		cause_begin(out, c);
		ras_text_add(out, "%u further messages wait for calls of their peers\n",
			     n - CAUSE_LINES);
	}
	return n;
}

/* ---- calls that form communicators, suspend or resume --------------------------------------- */

/* True if the rank is in such a call. */
static bool cause_forms(const struct ras_rank *r)
{
	return strncmp(r->call, "ncclComm", 8) == 0;
}

static bool cause_lacks_form(const struct ras_comm *c, const struct ras_rank *r, const void *arg)
{
	(void)c;
	return r->formed < *(const uint64_t *)arg;
}

static bool cause_waits_in_form(const struct ras_comm *c, const struct ras_rank *r, const void *arg)
{
	(void)c;
	return r->formed == *(const uint64_t *)arg && cause_forms(r) && r->awaited < 0;
}

/* All ranks meet in the call. */
static uint32_t cause_form(struct ras_text *out, const struct ras_comm *c)
{
	const struct ras_rank *first = NULL;
	uint32_t lack = 0;

	for (uint32_t i = 0; i < c->ranks; i++) {
		const struct ras_rank *r = &c->rank[i].r;

		if (cause_forms(r) && r->awaited < 0 && (!first || r->formed > first->formed))
			first = r;
	}
	for (uint32_t i = 0; i < c->ranks && first; i++)
		lack += cause_lacks_form(c, &c->rank[i].r, &first->formed);
	if (!lack)
		return 0;
	const struct cause_ranks absent = {cause_lacks_form, &first->formed};
	const struct cause_ranks waiting = {cause_waits_in_form, &first->formed};

	cause_begin(out, c);
	ras_text_add(out, "%s not called %s", cause_ranks(out, c, absent) > 1 ? " have" : " has",
		     first->call);
	for (uint32_t i = 0; i < c->ranks; i++)
		if (cause_lacks_form(c, &c->rank[i].r, &first->formed))
			cause_busy(out, c, c->rank[i].r.rank);
	cause_waits(out, c, waiting, "");
	return 1;
}

/* A rank waits in the call for another one, which is not in it. */
static uint32_t cause_form_of(struct ras_text *out, const struct ras_comm *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->ranks; i++) {
		const struct ras_rank *r = &c->rank[i].r;
		const struct ras_rank *peer = cause_forms(r) ? cause_rank(c, r->awaited) : NULL;

		if (!peer || !strcmp(peer->call, r->call) || n++ >= CAUSE_LINES)
			continue;
		cause_begin(out, c);
		ras_text_add(out, "rank %d has not called %s", peer->rank, r->call);
		cause_busy(out, c, peer->rank);
		ras_text_add(out, "; rank %d waits\n", r->rank);
	}
	return n;
}

/* ---- all ------------------------------------------------------------------------------------ */

/* Ranks wait although all have called the same: for streams, or for the network. */
static uint32_t cause_all(struct ras_text *out, const struct ras_comm *c)
{
	const struct cause_ranks waiting = {cause_is_waiting, NULL};
	struct ras_text in = {.bytes = 0};
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->ranks; i++)
		n += ras_rank_waits(&c->rank[i].r);
	if (!n)
		return 0;
	cause_begin(out, c);
	ras_text_add(out, "all ranks have made the same calls");
	cause_call_of_waiter(&in, c);
	ras_text_add(&in, "; the pending operations below have its reason");
	cause_waits(out, c, waiting, in.at ? in.at : "");
	out->lost = out->lost || in.lost;
	ras_text_free(&in);
	return 1;
}

static uint32_t cause_comm(struct ras_text *out, struct ras_job *j, const struct ras_comm *c)
{
	uint32_t n = cause_missing(out, j, c);

	n += cause_differ(out, c);
	n += cause_collective(out, c);
	n += cause_messages(out, c);
	n += cause_form(out, c);
	n += cause_form_of(out, c);
	return n ? n : cause_all(out, c);
}

/* True if the text has the line. */
static bool cause_has_line(const struct ras_text *out, const char *line, size_t bytes)
{
	for (size_t at = 0; at + bytes <= out->bytes; at++)
		if (!memcmp(out->at + at, line, bytes))
			return true;
	return false;
}

/* Writes the lines of a process that no earlier process has. */
static uint32_t cause_own(struct ras_text *out, const struct ras_job *j, uint32_t process)
{
	const struct ras_text *why = &j->process[process].why;
	const char *at = why->at, *end;
	uint32_t n = 0;

	for (; at && *at; at = end + 1) {
		size_t bytes;

		end = strchr(at, '\n');
		if (!end)
			break;
		bytes = (size_t)(end - at) + 1;
		if (cause_has_line(out, at, bytes))
			continue;
		ras_text_bytes(out, at, bytes);
		n++;
	}
	return n;
}

uint32_t ras_causes_write(struct ras_text *out, struct ras_job *j)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < j->processes; i++)
		n += cause_own(out, j, i);
	n += ras_orders_write(out, j);
	for (uint32_t i = 0; i < j->comms; i++)
		n += cause_comm(out, j, &j->comm[i]);
	return n;
}
