/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports of the double: lines of its log, and the rules of the verbs sanitizer. A rule has a name,
 * a level, and a sentence with the call sites: where the object was posted, registered or created,
 * and where the error happened. docs/verbs/sanitizer.md lists the rules; checks/checks.h has most
 * of the code that checks them.
 *
 * A rule of level FAIL is for behaviour that verbs leave undefined: the run fails with class
 * "misuse". A rule of level WARN is for a call or completion that fails, or for a later problem: it
 * logs one line per call site. DOPPEL_VERBS_CHECK changes levels. HCAs that several processes share
 * only warn.
 *
 * No function draws random numbers, waits, traces or posts an event: a run is the same without
 * them. Call sites are return addresses, stored as numbers. They are valid only in the process that
 * created them.
 */
#ifndef BACKENDS_FAKEVERBS_REPORT_H
#define BACKENDS_FAKEVERBS_REPORT_H

#include <stdbool.h>
#include <stdint.h>

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

extern uint8_t hca_rule_level[HCA_RULE_COUNT]; /* enum hca_level, by rule */

static inline bool hca_rule_on(enum hca_rule rule)
{
	return hca_rule_level[rule] != HCA_LEVEL_OFF;
}

/* Call site of the calling entry point. Only for the exported function itself, or for the function
 * that ops point to. */
#define HCA_CALLER() ((uint64_t)(uintptr_t)__builtin_return_address(0))

/* True if a failure ended the run; false if the failure was only recorded. */
bool hca_run_ended(void);
/* Logs one line: "fakeverbs: h0 mlx5_0 qp 0x101: ...". */
void hca_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Logs one line and fails the run (sim_misuse). For behaviour that verbs leave undefined. */
void hca_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Sets the levels from the environment, when a world is first used. */
void hca_check_load(void);

/* Reports that the rule is broken at `caller` (0: not by a call). Once per rule and call site. */
void hca_check(enum hca_rule rule, uint64_t caller, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Reports the reason of a refused call. It is logged in any case: without the rule's name if the
 * rule is off. */
void hca_check_or_log(enum hca_rule rule, uint64_t caller, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A call site in words: "main+0x12", or "?". `proc`: process of the call site. */
struct hca_site {
	char text[80];
};
const char *hca_site(uint32_t proc, uint64_t caller, struct hca_site *to);

#pragma GCC visibility pop
#endif
