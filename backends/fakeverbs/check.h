/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs sanitizer: rules about what programs do with verbs, each with a name, a level, and a
 * sentence that gives the call sites: where the thing was posted, registered or made, and where it
 * went wrong. docs/verbs-sanitizer.md lists them. Called by the entry points and by the HCAs' steps.
 *
 * A rule of level FAIL is for what verbs leave undefined: the run fails with class "misuse". WARN is
 * for what a call or a completion refuses, or what hurts later: a line, once for each call site.
 * DOPPEL_VERBS_CHECK changes levels. HCAs that several processes share only warn.
 *
 * Nothing here draws, waits, traces or posts an event: the run is the same as without. Call sites are
 * return addresses, kept as numbers, and mean something in the process that made them. Functions say
 * under which lock they are called; they take leaves alone (hca.h).
 */
#ifndef BACKENDS_FAKEVERBS_CHECK_H
#define BACKENDS_FAKEVERBS_CHECK_H

#include "backends/fakeverbs/hca.h"

#pragma GCC visibility push(hidden)

enum hca_level { HCA_LEVEL_OFF, HCA_LEVEL_WARN, HCA_LEVEL_FAIL };

/* clang-format off */
#define HCA_RULES(X)                                                                               \
	X(BUFFER_IN_USE,   "verbs-buffer-in-use",   FAIL)                                          \
	X(MR_IN_USE,       "verbs-mr-in-use",       FAIL)                                          \
	X(AH_IN_USE,       "verbs-ah-in-use",       FAIL)                                          \
	X(SQ_UNSIGNALED,   "verbs-sq-unsignaled",   WARN)                                          \
	X(CQ_SMALL,        "verbs-cq-small",        WARN)                                          \
	X(CQ_OVERRUN,      "verbs-cq-overrun",      FAIL)                                          \
	X(ERROR_WC_FIELDS, "verbs-error-wc-fields", FAIL)                                          \
	X(WC_FIELDS,       "verbs-wc-fields",       FAIL)                                          \
	X(IMM_UNCHECKED,   "verbs-imm-unchecked",   WARN)                                          \
	X(MISSING_FENCE,   "verbs-missing-fence",   FAIL)                                          \
	X(MODIFY_MASK,     "verbs-modify-mask",     WARN)                                          \
	X(MODIFY_VALUE,    "verbs-modify-value",    WARN)                                          \
	X(LOST_WAKEUP,     "verbs-lost-wakeup",     FAIL)                                          \
	X(STALE_KEY,       "verbs-stale-key",       WARN)                                          \
	X(ACCESS_FLAGS,    "verbs-access-flags",    WARN)                                          \
	X(MR_BOUNDS,       "verbs-mr-bounds",       WARN)                                          \
	X(WRONG_DOMAIN,    "verbs-wrong-domain",    WARN)                                          \
	X(RD_ATOMIC,       "verbs-rd-atomic",       WARN)                                          \
	X(RNR_STORM,       "verbs-rnr-storm",       WARN)                                          \
	X(DESTROY_ORDER,   "verbs-destroy-order",   FAIL)                                          \
	X(LONG_TIMEOUT,    "verbs-long-timeout",    WARN)                                          \
	X(TWO_THREADS,     "verbs-two-threads",     FAIL)                                          \
	X(ATOMIC_ALIGN,    "verbs-atomic-align",    WARN)                                          \
	X(ATOMIC_GLOBAL,   "verbs-atomic-global",   WARN)                                          \
	X(UD_GRH,          "verbs-ud-grh",          WARN)                                          \
	X(UD_MTU,          "verbs-ud-mtu",          WARN)                                          \
	X(UD_QKEY,         "verbs-ud-qkey",         WARN)                                          \
	X(INLINE,          "verbs-inline",          WARN)                                          \
	X(IMM_NO_RECV,     "verbs-imm-no-recv",     WARN)                                          \
	X(POST_IGNORED,    "verbs-post-ignored",    WARN)                                          \
	X(CLOSE_LEAK,      "verbs-close-leak",      FAIL)                                          \
	X(BAD_HANDLE,      "verbs-bad-handle",      FAIL)                                          \
	X(WR_SECTION,      "verbs-wr-section",      FAIL)
/* clang-format on */

enum hca_rule {
#define HCA_RULE_ENUM(id, name, level) HCA_RULE_##id,
	HCA_RULES(HCA_RULE_ENUM)
#undef HCA_RULE_ENUM
		HCA_RULE_COUNT
};

extern uint8_t hca_rule_level[HCA_RULE_COUNT]; /* enum hca_level */

static inline bool hca_rule_on(enum hca_rule rule)
{
	return hca_rule_level[rule] != HCA_LEVEL_OFF;
}

/* Where the calling entry point was called; only in the exported function itself, or in the one
 * that ops point to. */
#define HCA_CALLER() ((uint64_t)(uintptr_t)__builtin_return_address(0))

/* Levels from the environment; at the first look at a world. */
void hca_check_load(void);

/* The rule is broken at `caller` (0: not by a call). One report for each rule and call site. */
void hca_check(enum hca_rule rule, uint64_t caller, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for why a call was refused, which is said in any case: with the rule off, without its
 * name. */
void hca_check_or_say(enum hca_rule rule, uint64_t caller, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A call site in words: "main+0x12", or "?". `proc`: of which process. */
struct hca_site {
	char text[80];
};
const char *hca_site(uint32_t proc, uint64_t caller, struct hca_site *to);

/* ---- check_post.c: what is posted, until it completes. Under the queue pair's lock ----------- */

/* The last `n` sends were posted, and what could be done at once is done. */
void hca_check_posted(struct hca_qp *qp, uint32_t n);
void hca_check_recv_posted(const struct hca_qp *qp, const struct hca_wqe *e);
/* This send completes with success. */
void hca_check_sent(const struct hca_qp *qp, struct hca_wqe *e);
/* There is no slot for another send. */
void hca_check_send_full(const struct hca_qp *qp);
/* A post was refused: it is named if the program then stands still. */
void hca_check_refused(struct hca_qp *qp, uint64_t wr_id, int rc);
/* The receiver was not ready, again; the send that it refused. */
void hca_check_not_ready(struct hca_qp *qp, const struct hca_wqe *e);
/* Completion queues that hold less than what their queue pairs can have under way. */
void hca_check_cq_size(struct ibv_qp *qp, const struct ibv_qp_cap *cap, uint64_t caller);
void hca_check_cq_leave(struct ibv_qp *qp);
/* About to wait for this channel. Under no lock. */
void hca_check_wakeup(const struct hca_channel *ch, uint64_t caller);

/* HCAs write into memory that a send may be reading: not the program's doing. */
void hca_check_wrote_watched(struct hca_mr *mr, uint64_t address, uint64_t bytes);
static inline void hca_check_wrote(struct hca_mr *mr, uint64_t address, uint64_t bytes)
{
	if (__atomic_load_n(&mr->watched, __ATOMIC_RELAXED))
		hca_check_wrote_watched(mr, address, bytes);
}

/* ---- check_attr.c: attributes and keys ------------------------------------------------------ */

/* ibv_modify_qp refused these attributes: which, and why. */
void hca_check_modify_refused(const struct hca_qp *qp, enum ibv_qp_state to,
			      const struct ibv_qp_attr *a, int mask, uint64_t caller);
void hca_check_modified(const struct hca_qp *qp, int mask, uint64_t caller);
/* One of these entries cannot be used so. */
void hca_check_local_keys(const struct hca_qp *qp, uint32_t pd, struct hca_wqe *e, uint32_t access,
			  const char *what);
/* The peer's request was refused for its key, for what the queue pair allows, or because it is one
 * more than that. */
void hca_check_remote_key(const struct hca_qp *qp, const struct hca_packet *p, uint32_t access);
/* An HCA whose atomics are global cannot make this one so, in that memory. */
void hca_check_atomic_global(const struct hca_qp *qp, const struct hca_mr *mr,
			     const struct hca_packet *p);
void hca_check_remote_flags(const struct hca_qp *qp, const struct hca_packet *p, uint32_t access);
void hca_check_remote_reads(const struct hca_qp *qp, const struct hca_packet *p);
/* A datagram is dropped for its Q_Key. */
void hca_check_qkey(const struct hca_qp *qp, const struct hca_packet *p);
void hca_check_reg(uint64_t address, uint64_t bytes, unsigned int access, uint64_t caller);

#pragma GCC visibility pop
#endif
