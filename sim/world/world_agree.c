/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that the ranks of all processes make the same calls. Only the world sees all of them. It
 * keeps the first report for a sequence number and compares later ones with it. Nothing here is a
 * scheduling point, draws or traces: the check does not change the run.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "sim/world/world_internal.h"

/* ---- values that are equal on all ranks ------------------------------------------------------ */

/* Number of the latest sequence numbers kept per key. Ranks that are further apart are not
 * compared: memory stays bounded, and a collective keeps its ranks closer together. */
#define AGREE_KEPT 64

struct world_agreement {
	struct world_agreement *next;
	uint64_t key;
	struct agree_slot {
		uint64_t seq_plus_one; /* 0: empty */
		uint64_t hash;         /* hash of the whole text */
		uint32_t reports;      /* reports of this text, at least 1 */
		struct agree_party {
			uint64_t party;
			int32_t rank;
			const void *caller;
		} first, last; /* first and last of those reports */
		char text[sizeof(((struct os_agree_other *)0)->text)];
	} slot[AGREE_KEPT];
};

static struct world_agreement *agree_get(uint64_t key)
{
	struct world_agreement *a = world->agreements;
	while (a && a->key != key)
		a = a->next;
	if (a)
		return a;
	a = calloc(1, sizeof *a);
	ASSERT(a);
	a->key = key;
	a->next = world->agreements;
	world->agreements = a;
	return a;
}

static int agree_check(struct agree_slot *s, uint64_t seq, const struct agree_party *me,
		       const char *text, struct os_agree_other *other)
{
	uint64_t hash = hash64_str(text);
	if (s->seq_plus_one > seq + 1)
		return 0;
	if (s->seq_plus_one < seq + 1) {
		*s = (struct agree_slot){.seq_plus_one = seq + 1,
					 .hash = hash,
					 .reports = 1,
					 .first = *me,
					 .last = *me};
		snprintf(s->text, sizeof s->text, "%s", text);
		return 0;
	}
	if (s->hash == hash) {
		s->reports++;
		s->last = *me;
		return 0;
	}
	if (other) {
		other->rank = s->first.rank;
		memcpy(other->text, s->text, sizeof other->text);
		sim_call_site(s->first.caller, other->where, sizeof other->where);
		sim_call_site(me->caller, other->here, sizeof other->here);
	}
	return EINVAL;
}

/* Withdraws the report of one party; the reports of the others remain. */
static void agree_forget(struct agree_slot *s, uint64_t seq, uint64_t party)
{
	if (s->seq_plus_one != seq + 1)
		return;
	if (--s->reports == 0)
		memset(s, 0, sizeof *s);
	else if (s->first.party == party)
		s->first = s->last;
}

int world_agree(uint64_t key, uint64_t seq, int32_t rank, const char *text, const void *caller,
		struct os_agree_other *other)
{
	const struct agree_party me = {.party = (uint64_t)rank, .rank = rank, .caller = caller};
	int rc = 0;

	ASSERT(seq < UINT64_MAX);
	world_lock(&world->lock);
	struct agree_slot *s = &agree_get(key)->slot[seq % AGREE_KEPT];
	if (text)
		rc = agree_check(s, seq, &me, text, other);
	else
		agree_forget(s, seq, me.party);
	world_unlock(&world->lock);
	return rc;
}

/* ---- the order of one agent's operations under several keys ---------------------------------- */

/* One agent (a GPU of a process) that is a member of a key. In the list of its process. */
struct world_member {
	struct world_member *next;
	uint64_t agent, key;
	uint64_t done; /* number of operations so far */
};

static struct world_member **member_find(uint64_t key, uint64_t agent)
{
	struct world_member **at = &world_self()->members;

	while (*at && !((*at)->key == key && (*at)->agent == agent))
		at = &(*at)->next;
	return at;
}

void world_agree_member(uint64_t key, uint64_t agent, bool in)
{
	world_lock(&world->lock);
	struct world_member **at = member_find(key, agent), *m = *at;
	if (in && !m) {
		m = calloc(1, sizeof *m);
		ASSERT(m);
		m->agent = agent;
		m->key = key;
		m->next = world_self()->members;
		world_self()->members = m;
	} else if (!in && m) {
		*at = m->next;
		free(m);
	}
	world_unlock(&world->lock);
}

/* Compares the order of operations between two keys. It must be the same for all agents that are
 * members of both. The position of an operation is the agent's number of operations under both
 * keys. */
static int agree_order(const struct world_member *m, uint64_t seq, int32_t rank, const char *text,
		       const void *caller, struct os_agree_other *other)
{
	const struct world_proc *wp = world_self();
	const struct agree_party me = {
		.party = hash64_combine(wp->proc->id, m->agent), .rank = rank, .caller = caller};
	int rc = 0;

	for (const struct world_member *o = wp->members; o && !rc; o = o->next) {
		if (o->agent != m->agent || o->key == m->key)
			continue;
		uint64_t pair = hash64_combine(MIN_OF(m->key, o->key), MAX_OF(m->key, o->key));
		uint64_t at = seq + o->done;
		struct agree_slot *s = &agree_get(pair)->slot[at % AGREE_KEPT];
		if (text)
			rc = agree_check(s, at, &me, text, other);
		else
			agree_forget(s, at, me.party);
	}
	return rc;
}

int world_agree_order(uint64_t key, uint64_t agent, uint64_t seq, int32_t rank, const char *text,
		      const void *caller, struct os_agree_other *other)
{
	ASSERT(seq < UINT64_MAX);
	world_lock(&world->lock);
	struct world_member *m = *member_find(key, agent);
	int rc = m ? agree_order(m, seq, rank, text, caller, other) : 0;
	if (m && !rc) /* an operation that is refused does not count */
		m->done = text ? seq + 1 : seq;
	world_unlock(&world->lock);
	return rc;
}

/* ---- end ------------------------------------------------------------------------------------ */

void world_agreements_free(void)
{
	for (struct world_agreement *next, *a = world->agreements; a; a = next) {
		next = a->next;
		free(a);
	}
	world->agreements = NULL;
}

void world_members_free(struct world_proc *wp)
{
	for (struct world_member *next, *m = wp->members; m; m = next) {
		next = m->next;
		free(m);
	}
	wp->members = NULL;
}
