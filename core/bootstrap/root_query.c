/* SPDX-License-Identifier: BSD-3-Clause */
/* A request to a root for the ranks that have not checked in. It comes from a process whose rank
 * waits in its init: from the RAS task for a report, or from a rank that checks whether all can
 * still come. It changes nothing of that init. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/bootstrap/root_internal.h"

#define ROOT_LIST_BYTES 72 /* of a list of ranks */

DOPPEL_STATIC_CHECK(BOOTSTRAP_QUERY_BYTES == BOOTSTRAP_REASON_BYTES, "an answer has a reason");

/* ---- the root ------------------------------------------------------------------------------- */

/* Writes "rank 2" or "ranks 0-1, 3": of the ranks that this root serves, those that have arrived,
 * or have not. Returns their number. */
static int32_t root_list(const struct bootstrap_root *r, bool arrived, char out[ROOT_LIST_BYTES])
{
	int32_t total = arrived ? r->arrived : r->count - r->arrived;
	size_t n = (size_t)snprintf(out, ROOT_LIST_BYTES, total > 1 ? "ranks" : "rank");

	for (int32_t i = 0, last; i < r->count; i = last + 1) {
		last = i;
		if ((r->by_rank[i] != NULL) != arrived)
			continue;
		while (last + 1 < r->count && (r->by_rank[last + 1] != NULL) == arrived)
			last++;
		if (n + 32 > ROOT_LIST_BYTES) {
			snprintf(out + n, ROOT_LIST_BYTES - n, ", ...");
			break;
		}
		n += (size_t)snprintf(out + n, ROOT_LIST_BYTES - n, "%s %d", n > 5 ? "," : "",
				      r->first + i);
		if (last > i)
			n += (size_t)snprintf(out + n, ROOT_LIST_BYTES - n, "-%d", r->first + last);
	}
	return total;
}

void bootstrap_root_absent(const struct bootstrap_root *r, struct bootstrap_reason *out)
{
	char absent[ROOT_LIST_BYTES], here[ROOT_LIST_BYTES];
	int32_t n;

	*out = (struct bootstrap_reason){.text = ""};
	if (!r->by_rank || r->failed)
		return;
	n = root_list(r, false, absent);
	(void)root_list(r, true, here);
	if (n)
		snprintf(out->text, sizeof out->text, "%s %s not called\n%s %s", absent,
			 n > 1 ? "have" : "has", here, r->arrived > 1 ? "wait" : "waits");
}

/* ---- the other end -------------------------------------------------------------------------- */

/* Sends the request. Returns 0 or an errno. */
static int root_query(const struct bootstrap_id *of, int rank, int nranks, const char *why,
		      uint64_t deadline_ns, struct bootstrap_answer *a)
{
	struct sock_ctx ctx = {why, rank, -1, NULL};
	const struct bootstrap_hello hello = {
		.magic = of->magic, .kind = BOOTSTRAP_QUERY, .rank = rank, .nranks = nranks};
	int e = sock_query(&of->root, &hello, sizeof hello, a, sizeof *a, &ctx, deadline_ns);

	if (!e && (a->magic != of->magic || a->kind != BOOTSTRAP_ABSENT))
		e = EPROTO;
	return e;
}

int bootstrap_root_query(const ncclUniqueId *id, int rank, int nranks, uint64_t deadline_ns,
			 char out[BOOTSTRAP_QUERY_BYTES], bool *from_env)
{
	struct bootstrap_answer a;
	struct bootstrap_id of;
	int e;

	memcpy(&of, id->internal, sizeof of);
	*from_env = of.from_env != 0;
	out[0] = '\0';
	e = root_query(&of, rank, nranks, "RAS: the root's list of absent ranks", deadline_ns, &a);
	if (e)
		return e;
	memcpy(out, a.reason.text, BOOTSTRAP_QUERY_BYTES);
	out[BOOTSTRAP_QUERY_BYTES - 1] = '\0';
	return 0;
}

int32_t bootstrap_root_awaits(const ncclUniqueId *id, int rank, int nranks, uint64_t deadline_ns)
{
	struct bootstrap_answer a;
	struct bootstrap_id of;

	memcpy(&of, id->internal, sizeof of);
	if (root_query(&of, rank, nranks, "bootstrap: the root's first absent rank", deadline_ns,
		       &a))
		return -1;
	return a.rank >= 0 && a.rank < nranks ? a.rank : -1;
}
