/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs in words: for the dump of a failing run, and for a wait on a completion queue. */
#include <stdio.h>

#include "backends/fakeverbs/entry/entry.h"

static const char *hca_state_name(const struct hca_qp *q)
{
	static const char *const name[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	_Static_assert(ARRAY_LEN(name) == IBV_QPS_ERR + 1, "a name for each state");
	return name[q->state];
}

/* Prints the queue pairs that are not idle, in the dump of a failing run. */
static void hca_print_busy(FILE *out)
{
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
			hca_state_name(q));
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

/* Names the link that blocks the queue pair's packets. Empty: both links are up. */
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

/* Describes a queue pair for a wait for its completions. */
static bool hca_explain_qp(const struct hca_qp *q, struct sim_explained *out)
{
	const struct world_port *port = world_port(q->port), *peer = world_port(q->dest_port);
	uint32_t sends = q->sq.head - q->sq.done, spent = q->retry_count - q->req.retries;
	char links[96], to[64] = "no peer", retries[64] = "";

	hca_explain_links(q, links, sizeof links);
	if (peer)
		snprintf(to, sizeof to, "host %u %s qp 0x%x", peer->host, peer->nic->name,
			 q->dest_qpn);
	if (q->state == IBV_QPS_RTS && sends && spent)
		snprintf(retries, sizeof retries, "; %u of %u retries spent, %llu packets resent",
			 spent, q->retry_count, (unsigned long long)q->req.resent);
	snprintf(out->text, sizeof out->text,
		 "host %u %s qp 0x%x %s, to %s: %u sends and %u receives under way%s%s%s",
		 port->host, port->nic->name, q->number, hca_state_name(q), to, sends,
		 q->rq.head - q->rq.done, q->req.rnr_wait ? "; the peer has no receive posted" : "",
		 retries, links);
	out->stuck = q->state != IBV_QPS_RTS || links[0] || (sends && (spent || q->req.rnr_wait));
	return true;
}

/* Describes a wait on a completion queue by one of its queue pairs: the first stuck one, else the
 * first one. */
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

__attribute__((constructor)) static void hca_explain_load(void)
{
	sim_on_failure(hca_print_busy);
	sim_on_explain(hca_explain);
}
