/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules about attributes of queue pairs, rights, and keys: the reason for a refusal, in words. */
#include <stdio.h>
#include <string.h>

#include "backends/fakeverbs/checks/checks.h"

#define CHECK_LONG_NS 60000000000ull

struct check_name {
	uint32_t bit;
	const char *name;
};

static const struct check_name check_attrs[] = {
	{IBV_QP_CUR_STATE, "CUR_STATE"},
	{IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY"},
	{IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS"},
	{IBV_QP_PKEY_INDEX, "PKEY_INDEX"},
	{IBV_QP_PORT, "PORT"},
	{IBV_QP_QKEY, "QKEY"},
	{IBV_QP_AV, "AV"},
	{IBV_QP_PATH_MTU, "PATH_MTU"},
	{IBV_QP_TIMEOUT, "TIMEOUT"},
	{IBV_QP_RETRY_CNT, "RETRY_CNT"},
	{IBV_QP_RNR_RETRY, "RNR_RETRY"},
	{IBV_QP_RQ_PSN, "RQ_PSN"},
	{IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC"},
	{IBV_QP_ALT_PATH, "ALT_PATH"},
	{IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER"},
	{IBV_QP_SQ_PSN, "SQ_PSN"},
	{IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC"},
	{IBV_QP_PATH_MIG_STATE, "PATH_MIG_STATE"},
	{IBV_QP_CAP, "CAP"},
	{IBV_QP_DEST_QPN, "DEST_QPN"},
	{IBV_QP_RATE_LIMIT, "RATE_LIMIT"},
};

static const struct check_name check_rights[] = {
	{IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE"}, {IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE"},
	{IBV_ACCESS_REMOTE_READ, "REMOTE_READ"}, {IBV_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC"},
	{IBV_ACCESS_MW_BIND, "MW_BIND"},
};

static const char *const check_state[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

struct check_words {
	char text[320];
};

static const char *check_words(const struct check_name *names, size_t count, uint32_t bits,
			       struct check_words *to)
{
	size_t n = 0;

	snprintf(to->text, sizeof to->text, "nothing");
	for (size_t i = 0; i < count && n < sizeof to->text; i++) {
		if (!(bits & names[i].bit))
			continue;
		n += (size_t)snprintf(to->text + n, sizeof to->text - n, "%s%s", n ? " " : "",
				      names[i].name);
		bits &= ~names[i].bit;
	}
	if (bits && n < sizeof to->text) /* bits without a name */
		snprintf(to->text + n, sizeof to->text - n, "%s0x%x", n ? " " : "", bits);
	return to->text;
}

/* ---- ibv_modify_qp -------------------------------------------------------------------------- */

/* Returns the reason why no packet can reach this address; NULL: the address is valid. */
static const char *check_bad_address(uint32_t port, const struct ibv_ah_attr *ah)
{
	bool roce = hca_personality(port)->link_layer != IBV_LINK_LAYER_INFINIBAND;
	enum ibv_gid_type type;
	union ibv_gid gid;

	if (ah->port_num != 1)
		return "AV (ah_attr.port_num is not 1)";
	if (ah->sl > 15)
		return "AV (ah_attr.sl is more than 15)";
	if (roce && !ah->is_global)
		return "AV (ah_attr.is_global is not set, and RoCE has no other addresses)";
	if (ah->is_global && !hca_gid_get(port, ah->grh.sgid_index, &gid, &type))
		return "AV (ah_attr.grh.sgid_index is an empty entry of the table)";
	return !roce && !ah->dlid ? "AV (ah_attr.dlid is 0)" : NULL;
}

/* Returns the first attribute that is refused by itself. An unknown destination address and an
 * alternate path are logged elsewhere. */
static const char *check_bad_value(const struct hca_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	const int apart = IBV_QP_AV | IBV_QP_ALT_PATH;

	if ((mask & IBV_QP_CUR_STATE) && (uint32_t)a->cur_qp_state != qp->state)
		return "CUR_STATE";
	for (size_t i = 0; i < ARRAY_LEN(check_attrs); i++) {
		int bit = (int)check_attrs[i].bit;

		if ((mask & bit & ~apart) && hca_qp_check_values(qp, a, bit))
			return check_attrs[i].name;
	}
	return mask & IBV_QP_AV ? check_bad_address(qp->port, &a->ah_attr) : NULL;
}

/* Writes the errors of the mask in words; false: the mask is correct. */
static bool check_mask_words(const struct hca_qp *qp, enum ibv_qp_state to, int mask,
			     struct check_words *out)
{
	struct check_words less, more;
	int required, optional;

	if (!hca_qp_masks((enum ibv_qp_type)qp->type, (enum ibv_qp_state)qp->state, to, &required,
			  &optional)) {
		snprintf(out->text, sizeof out->text, "no such transition");
		return true;
	}
	uint32_t missing = (uint32_t)(required & ~mask);
	uint32_t extra = (uint32_t)(mask & ~(required | optional | IBV_QP_STATE));

	size_t n = (size_t)snprintf(out->text, sizeof out->text, "the mask");

	if (missing)
		n += (size_t)snprintf(
			out->text + n, sizeof out->text - n, " lacks %.180s",
			check_words(check_attrs, ARRAY_LEN(check_attrs), missing, &less));
	if (extra)
		snprintf(out->text + n, sizeof out->text - n,
			 "%s has %.180s, not allowed in this transition", missing ? ", and" : "",
			 check_words(check_attrs, ARRAY_LEN(check_attrs), extra, &more));
	return missing || extra;
}

void hca_check_modify_refused(const struct hca_qp *qp, enum ibv_qp_state to,
			      const struct ibv_qp_attr *a, int mask, uint64_t caller)
{
	struct check_words words;
	struct hca_site at;

	ASSERT(qp->state < ARRAY_LEN(check_state));
	hca_site(qp->item.proc, caller, &at);
	if ((uint32_t)to >= ARRAY_LEN(check_state)) {
		hca_check_or_log(HCA_RULE_MODIFY_VALUE, caller,
				 "ibv_modify_qp at %s: qp 0x%x, in %s: invalid state %d", at.text,
				 qp->number, check_state[qp->state], (int)to);
		return;
	}
	if (check_mask_words(qp, to, mask, &words)) {
		hca_check_or_log(HCA_RULE_MODIFY_MASK, caller,
				 "ibv_modify_qp at %s: qp 0x%x, %s to %s: %s", at.text, qp->number,
				 check_state[qp->state], check_state[to], words.text);
		return;
	}
	const char *wrong = check_bad_value(qp, a, mask);

	if (wrong)
		hca_check_or_log(HCA_RULE_MODIFY_VALUE, caller,
				 "ibv_modify_qp at %s: qp 0x%x, %s to %s: the mask has %s, "
				 "whose value this HCA does not support",
				 at.text, qp->number, check_state[qp->state], check_state[to],
				 wrong);
}

void hca_check_modified(const struct hca_qp *qp, int mask, uint64_t caller)
{
	uint64_t silent_ns = (4096ull << qp->timeout) * (qp->retry_count + 1u);
	struct hca_site at;

	ASSERT(qp->timeout <= 31); /* hca_qp_check_values; some HCAs take any retry count */
	if ((mask & IBV_QP_MIN_RNR_TIMER) && !qp->min_rnr_timer)
		hca_check(
			HCA_RULE_LONG_TIMEOUT, caller,
			"ibv_modify_qp at %s: qp 0x%x: min_rnr_timer 0 is the longest one, 655 ms",
			hca_site(qp->item.proc, caller, &at), qp->number);
	if (!(mask & IBV_QP_TIMEOUT) || !hca_qp_type_acked((enum ibv_qp_type)qp->type))
		return;
	if (!qp->timeout)
		hca_check(HCA_RULE_LONG_TIMEOUT, caller,
			  "ibv_modify_qp at %s: qp 0x%x: timeout 0 means no timeout: a dead peer "
			  "is never "
			  "noticed",
			  hca_site(qp->item.proc, caller, &at), qp->number);
	else if (silent_ns > CHECK_LONG_NS)
		hca_check(HCA_RULE_LONG_TIMEOUT, caller,
			  "ibv_modify_qp at %s: qp 0x%x: timeout %u with retry_cnt %u: a dead peer "
			  "is noticed after %llu s, or four times that",
			  hca_site(qp->item.proc, caller, &at), qp->number, qp->timeout,
			  qp->retry_count, (unsigned long long)(silent_ns / 1000000000));
}

void hca_check_reg(uint64_t address, uint64_t bytes, unsigned int access, uint64_t caller)
{
	const uint32_t writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	struct check_words rights;
	struct hca_site at;

	if ((access & writes) && !(access & IBV_ACCESS_LOCAL_WRITE))
		hca_check(HCA_RULE_ACCESS_FLAGS, caller,
			  "ibv_reg_mr of %llu bytes at 0x%llx: %s without LOCAL_WRITE is refused "
			  "(called at %s)",
			  (unsigned long long)bytes, (unsigned long long)address,
			  check_words(check_rights, ARRAY_LEN(check_rights), access & writes,
				      &rights),
			  hca_site(hca_proc_id(os_proc()), caller, &at));
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* A use of a key: by which queue pair, for which access. */
struct check_use {
	uint32_t pd, port, key, access;
	uint64_t address, bytes;
	uint64_t caller;
	const char *subject; /* "qp 0x101: the READ posted at main+0x12" */
};

static void check_live_key(const struct check_use *u, const struct hca_mr *mr)
{
	struct hca_site made;
	struct check_words rights;

	hca_site(mr->item.proc, mr->caller, &made);
	if (mr->port != u->port)
		hca_check(HCA_RULE_WRONG_DOMAIN, u->caller,
			  "%s: key 0x%x is of another HCA (registered at %s)", u->subject, u->key,
			  made.text);
	else if (mr->pd != u->pd)
		hca_check(HCA_RULE_WRONG_DOMAIN, u->caller,
			  "%s: key 0x%x is of protection domain %u (registered at %s), "
			  "the queue pair uses %u",
			  u->subject, u->key, mr->pd, made.text, u->pd);
	else if ((mr->access & u->access) != u->access)
		hca_check(HCA_RULE_ACCESS_FLAGS, u->caller,
			  "%s: the region of key 0x%x was registered without %s, at %s", u->subject,
			  u->key,
			  check_words(check_rights, ARRAY_LEN(check_rights),
				      u->access & ~mr->access, &rights),
			  made.text);
	else
		hca_check(HCA_RULE_MR_BOUNDS, u->caller,
			  "%s: %llu bytes at 0x%llx are not inside the %llu at 0x%llx of key 0x%x, "
			  "registered at %s",
			  u->subject, (unsigned long long)u->bytes, (unsigned long long)u->address,
			  (unsigned long long)mr->bytes, (unsigned long long)mr->iova, u->key,
			  made.text);
}

static void check_key(const struct check_use *u)
{
	struct hca_world *w = hca_world();
	struct hca_site made, freed;
	uint32_t index = u->key >> 8;

	if (index >= __atomic_load_n(&w->mr.count, __ATOMIC_ACQUIRE)) {
		hca_check(HCA_RULE_STALE_KEY, u->caller,
			  "%s: 0x%x is not a region's key, or a window's that does not cover the "
			  "range",
			  u->subject, u->key);
		return;
	}
	struct hca_mr *mr = hca_slab_at(&w->mr, index);

	hca_lock(&mr->item.lock);
	const struct hca_mr now = {.item = {.proc = mr->item.proc},
				   .key = mr->key,
				   .pd = mr->pd,
				   .port = mr->port,
				   .access = mr->access,
				   .iova = mr->iova,
				   .bytes = mr->bytes,
				   .caller = mr->caller,
				   .freed_caller = mr->freed_caller,
				   .freed_key = mr->freed_key};

	hca_unlock(&mr->item.lock);
	if (now.key && now.key == u->key)
		check_live_key(u, &now);
	else if (now.freed_key == u->key)
		hca_check(HCA_RULE_STALE_KEY, u->caller,
			  "%s: stale key 0x%x: its region, registered at %s, was deregistered or "
			  "changed at %s",
			  u->subject, u->key, hca_site(now.item.proc, now.caller, &made),
			  hca_site(now.item.proc, now.freed_caller, &freed));
	else
		hca_check(HCA_RULE_STALE_KEY, u->caller,
			  "%s: 0x%x was never a key, or its region was deregistered long ago",
			  u->subject, u->key);
}

void hca_check_local_keys(const struct hca_qp *qp, uint32_t pd, struct hca_wqe *e, uint32_t access,
			  const char *what)
{
	const struct ibv_sge *sge = hca_wqe_sges(e);
	struct hca_site at;
	char subject[160];

	snprintf(subject, sizeof subject, "qp 0x%x: %s wr_id 0x%llx, posted at %s", qp->number,
		 what, (unsigned long long)e->wr_id, hca_site(qp->item.proc, e->caller, &at));
	for (uint32_t i = 0; i < e->sge_count; i++) {
		const struct check_use u = {.pd = pd,
					    .port = qp->port,
					    .key = sge[i].lkey,
					    .access = access,
					    .address = sge[i].addr,
					    .bytes = sge[i].length,
					    .caller = e->caller,
					    .subject = subject};

		if (sge[i].length && hca_sges_check(pd, &sge[i], 1, access))
			check_key(&u);
	}
}

/* Returns the call site that posted the packet's request. "?" if several processes share the HCAs,
 * because the poster's process is unknown. */
static const char *check_posted_at(const struct hca_qp *qp, const struct hca_packet *p,
				   struct hca_site *at)
{
	return hca_members ? "?" : hca_site(qp->item.proc, p->caller, at);
}

void hca_check_atomic_global(const struct hca_qp *qp, const struct hca_mr *mr,
			     const struct hca_packet *p)
{
	struct hca_site at;

	hca_check(HCA_RULE_ATOMIC_GLOBAL, p->caller,
		  "qp 0x%x: the atomic of its peer, posted at %s, is on %s: there an HCA is atomic "
		  "only against itself, whatever atomic_cap reports",
		  qp->number, check_posted_at(qp, p, &at),
		  mr->gpu ? "GPU memory" : "memory of another process");
}

/* Describes the peer's request. */
static const char *check_request(const struct hca_qp *qp, const struct hca_packet *p,
				 struct check_words *to)
{
	static const char *const kind[] = {[HCA_WRITE] = "WRITE",
					   [HCA_SEND] = "SEND",
					   [HCA_READ] = "READ",
					   [HCA_ATOMIC] = "atomic"};
	struct hca_site at;

	ASSERT(p->kind < ARRAY_LEN(kind) && kind[p->kind]); /* answers have no key */
	snprintf(to->text, sizeof to->text, "qp 0x%x: the %s of its peer 0x%x, posted at %s",
		 qp->number, kind[p->kind], p->from_qpn, check_posted_at(qp, p, &at));
	return to->text;
}

void hca_check_remote_key(const struct hca_qp *qp, const struct hca_packet *p, uint32_t access)
{
	struct check_words subject;
	const struct check_use u = {.pd = qp->pd,
				    .port = qp->port,
				    .key = p->rkey,
				    .access = access,
				    .address = p->remote_address,
				    .bytes = p->total,
				    .caller = p->caller,
				    .subject = check_request(qp, p, &subject)};

	check_key(&u);
}

void hca_check_remote_flags(const struct hca_qp *qp, const struct hca_packet *p, uint32_t access)
{
	struct check_words subject, rights;

	hca_check(
		HCA_RULE_ACCESS_FLAGS, p->caller,
		"%s: the queue pair's access flags lack %s (ibv_modify_qp, IBV_QP_ACCESS_FLAGS)",
		check_request(qp, p, &subject),
		check_words(check_rights, ARRAY_LEN(check_rights), access & ~qp->access, &rights));
}

void hca_check_remote_reads(const struct hca_qp *qp, const struct hca_packet *p)
{
	struct check_words subject;

	hca_check(HCA_RULE_RD_ATOMIC, p->caller,
		  "%s: more READs and atomics than max_dest_rd_atomic, %u, of the queue pair: the "
		  "peer's max_rd_atomic is too large",
		  check_request(qp, p, &subject), qp->max_dest_rd_atomic);
}

void hca_check_qkey(const struct hca_qp *qp, const struct hca_packet *p)
{
	struct hca_site at;

	hca_check(
		HCA_RULE_UD_QKEY, p->caller,
		"qp 0x%x: a datagram of qp 0x%x, posted at %s, is dropped: its Q_Key is 0x%x, the "
		"queue pair's 0x%x",
		qp->number, p->from_qpn, check_posted_at(qp, p, &at), p->qkey, qp->qkey);
}
