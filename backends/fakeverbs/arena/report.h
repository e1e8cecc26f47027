/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the double reports: lines of its log, and the rules of the verbs sanitizer. A rule has a
 * name, a level, and a sentence that gives the call sites: where the thing was posted, registered
 * or made, and where it went wrong. docs/verbs-sanitizer.md lists the rules; checks/checks.h has
 * most of the code that looks for them.
 *
 * A rule of level FAIL is for what verbs leave undefined: the run fails with class "misuse". WARN
 * is for what a call or a completion refuses, or what hurts later: a line, once for each call site.
 * DOPPEL_VERBS_CHECK changes levels. HCAs that several processes share only warn.
 *
 * Nothing here draws, waits, traces or posts an event: the run is the same as without. Call sites
 * are return addresses, kept as numbers, and mean something in the process that made them.
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

extern uint8_t hca_rule_level[HCA_RULE_COUNT]; /* enum hca_level */

static inline bool hca_rule_on(enum hca_rule rule)
{
	return hca_rule_level[rule] != HCA_LEVEL_OFF;
}

/* Where the calling entry point was called; only in the exported function itself, or in the one
 * that ops point to. */
#define HCA_CALLER() ((uint64_t)(uintptr_t)__builtin_return_address(0))

/* Did a failure end the run? One that was only noted did not. */
bool hca_run_ended(void);
/* One line: "fakeverbs: h0 mlx5_0 qp 0x101: ...". */
void hca_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same for what verbs leave undefined: fails the run (sim_misuse). */
void hca_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Levels from the environment; at the first look at a world. */
void hca_check_load(void);

/* The rule is broken at `caller` (0: not by a call). One report for each rule and call site. */
void hca_check(enum hca_rule rule, uint64_t caller, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for the reason of a refused call, which is always logged: with the rule off, without its
 * name. */
void hca_check_or_log(enum hca_rule rule, uint64_t caller, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A call site in words: "main+0x12", or "?". `proc`: of which process. */
struct hca_site {
	char text[80];
};
const char *hca_site(uint32_t proc, uint64_t caller, struct hca_site *to);

#pragma GCC visibility pop
#endif
