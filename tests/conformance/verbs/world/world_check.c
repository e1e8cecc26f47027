/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs sanitizer: for each rule a program that breaks it, which the sanitizer reports with its
 * call site, and the correct program, for which it reports nothing. */
#include "backends/fakeverbs/arena/report.h"
#include "tests/conformance/verbs/world/world_check.h"

bool check_bad;

static bool run_listening(void (*program)(void), const char *check)
{
	return vw_listen(SIM_ENGINE_SIM, program, check);
}

/* ---- the rules ------------------------------------------------------------------------------ */

static const struct {
	const char *rule;
	void (*program)(void);
	bool fails; /* the run fails; otherwise the sanitizer only logs a line */
} cases[] = {
	{"verbs-buffer-in-use", change_what_is_being_sent, true},
	{"verbs-mr-in-use", deregister_what_is_in_use, true},
	{"verbs-sq-unsignaled", fill_a_queue, false},
	{"verbs-cq-small", make_a_small_queue, false},
	{"verbs-cq-overrun", overrun_a_queue, true},
	{"verbs-missing-fence", send_what_a_read_brings, true},
	{"verbs-modify-mask", modify_with_a_bit_too_few, false},
	{"verbs-modify-value", modify_with_a_value_unset, false},
	{"verbs-long-timeout", wait_for_too_long, false},
	{"verbs-lost-wakeup", arm_and_do_not_poll, true},
	{"verbs-stale-key", use_a_key_that_is_gone, false},
	{"verbs-access-flags", register_without_local_write, false},
	{"verbs-mr-bounds", write_over_the_end, false},
	{"verbs-wrong-domain", send_from_another_domain, false},
	{"verbs-rd-atomic", read_more_than_the_peer_takes, false},
	{"verbs-rnr-storm", let_the_peer_wait, false},
	{"verbs-imm-no-recv", write_with_immediate_to_nobody, false},
	{"verbs-destroy-order", destroy_the_queue_first, true},
	{"verbs-close-leak", close_with_something_open, true},
	{"verbs-atomic-align", add_across_words, false},
	{"verbs-atomic-global", add_globally_to_a_gpu, false},
	{"verbs-inline", send_too_much_inline, false},
	{"verbs-ah-in-use", end_an_address_in_use, true},
	{"verbs-ud-grh", receive_without_room_for_a_header, false},
	{"verbs-ud-mtu", send_a_long_datagram, false},
	{"verbs-ud-qkey", send_with_another_qkey, false},
	{"verbs-error-wc-fields", read_fields_of_an_error, true},
	{"verbs-wc-fields", read_a_field_that_is_not_there, true},
	{"verbs-imm-unchecked", read_immediate_data_unchecked, false},
	{"verbs-two-threads", poll_from_two_threads, true},
	{"verbs-wr-section", make_a_request_outside, true},
	{"verbs-bad-handle", destroy_it_twice, true},
	{"verbs-wrong-domain", use_a_queue_of_another_context, false},
	{"verbs-post-ignored", ignore_that_a_post_failed, true},
};

#define CASES (int)(sizeof cases / sizeof cases[0])

/* The rule's report in vw_logged; NULL: no report. */
static const char *is_reported(const char *rule)
{
	char line[64];

	snprintf(line, sizeof line, "%s: ", rule);
	return strstr(vw_logged, line);
}

static void check_that_nothing_is_said(void)
{
#define SILENT(id, name, level) CHECK_MSG(!is_reported(name), "%s", vw_logged);
	HCA_RULES(SILENT)
#undef SILENT
}

/* Without its program here, a rule could be removed and no test would fail. */
CASE(each_rule_has_a_case, .engine = "sim", .worlds = true)
{
	static const char *const rules[] = {
#define NAME(id, name, level) name,
		HCA_RULES(NAME)
#undef NAME
	};

	for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
		int n = 0;

		for (int i = 0; i < CASES; i++)
			n += strcmp(cases[i].rule, rules[r]) == 0;
		CHECK_MSG(n > 0, "%s has no case here", rules[r]);
	}
}

/* The report has the rule's name and a call site in the program. */
CASE(the_rule_is_named_with_its_call_site, .engine = "sim", .worlds = true, .count = CASES)
{
	check_bad = true;
	bool failed = run_listening(cases[vs_param].program, NULL);
	const char *at = is_reported(cases[vs_param].rule);

	CHECK_MSG(at, "%s is not reported, but: %s", cases[vs_param].rule, vw_logged);
	CHECK_MSG(strcspn(strstr(at, "+0x"), "\n") < strcspn(at, "\n"), "no call site: %s", at);
	CHECK_MSG(failed == cases[vs_param].fails, "%s: the run %s", cases[vs_param].rule,
		  failed ? "failed" : "did not fail");
}

CASE(a_program_that_does_it_right_hears_nothing, .engine = "sim", .worlds = true, .count = CASES)
{
	check_bad = false;
	CHECK_MSG(!run_listening(cases[vs_param].program, NULL), "%s", vw_logged);
	check_that_nothing_is_said();
}

CASE(a_rule_is_silenced_by_its_name, .engine = "sim", .worlds = true, .count = CASES)
{
	char check[80];

	check_bad = true;
	snprintf(check, sizeof check, "DOPPEL_VERBS_CHECK=-%s%s",
		 cases[vs_param].rule + (vs_param % 2 ? 6 : 0), vs_param % 3 ? "" : ",-inline");
	run_listening(cases[vs_param].program, check);
	CHECK_MSG(!is_reported(cases[vs_param].rule), "%s", vw_logged);
}

CASE(levels_change, .engine = "sim", .worlds = true)
{
	check_bad = true;
	CHECK(!run_listening(change_what_is_being_sent, "DOPPEL_VERBS_CHECK=warn"));
	CHECK(strstr(vw_logged, "verbs-buffer-in-use"));
	CHECK(!run_listening(change_what_is_being_sent, "DOPPEL_VERBS_CHECK=none"));
	CHECK(!strstr(vw_logged, "verbs-"));
	CHECK(run_listening(make_a_small_queue, "DOPPEL_VERBS_CHECK=cq-small=fail"));
	CHECK(run_listening(make_a_small_queue, "DOPPEL_VERBS_CHECK=none,all"));
	CHECK_EQ(world_env_check("DOPPEL_VERBS_CHECK=-cq-small,warn"), 0);
	CHECK_EQ(world_env_check("DOPPEL_VERBS_CHECK=-cq-smal"), EINVAL);
	CHECK_EQ(world_env_check("DOPPEL_VERBS_CHECK=cq-small=warm"), EINVAL);
}

CASE(what_an_hca_writes_is_not_the_programs_doing, .engine = "sim", .worlds = true)
{
	CHECK(!run_listening(answer_into_what_is_being_sent, NULL));
	check_that_nothing_is_said();
}

/* The reason for which the last call of each row fails. */
static const struct {
	int mask_less, mask_more;
	int port_num, state, sgid_index;
	const char *why;
} refusals[] = {
	{IBV_QP_PORT | IBV_QP_PKEY_INDEX, 0, 1, 0, 3,
	 "RESET to INIT: the mask lacks PKEY_INDEX PORT"},
	{0, IBV_QP_QKEY | IBV_QP_SQ_PSN, 1, 0, 3,
	 "RESET to INIT: the mask has QKEY SQ_PSN, not allowed in this transition"},
	{IBV_QP_PORT, IBV_QP_QKEY, 1, 0, 3,
	 "RESET to INIT: the mask lacks PORT, and has QKEY, not allowed in this transition"},
	{0, IBV_QP_QKEY | 1 << 30, 1, 0, 3, "the mask has QKEY 0x40000000, not"},
	{0, 0, 2, 0, 3, "RESET to INIT: the mask has PORT, whose value this HCA does not"},
	{0, 0, 1, IBV_QPS_RTS, 3, "RESET to RTS: no such transition"},
	{0, 0, 1, 77, 3, "in RESET: invalid state 77"},
	{0, 0, 1, IBV_QPS_RTR, 200,
	 "INIT to RTR: the mask has AV (ah_attr.grh.sgid_index is an empty"},
};

static int refusal;

static void modify_and_be_refused(void)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	struct ibv_qp_attr a = vs_attr(&h, 0);
	int mask = VW_INIT_MASK;

	a.qp_state = IBV_QPS_INIT;
	a.port_num = (uint8_t)refusals[refusal].port_num;
	a.ah_attr.grh.sgid_index = (uint8_t)refusals[refusal].sgid_index;
	if (refusals[refusal].state)
		a.qp_state = (enum ibv_qp_state)refusals[refusal].state;
	if (a.qp_state == IBV_QPS_RTR) {
		vs_connect(&h, 0, IBV_QPS_INIT);
		mask = VW_RTR_MASK;
	}
	mask = (mask & ~refusals[refusal].mask_less) | refusals[refusal].mask_more;
	CHECK_EQ(ibv_modify_qp(h.end[0].qp, &a, mask), EINVAL);
	vs_free(&h);
}

/* Even values: with the sanitizer. Odd values: without it. */
CASE(a_refused_ibv_modify_qp_says_why, .engine = "sim", .worlds = true,
     .count = 2 * (int)(sizeof refusals / sizeof refusals[0]))
{
	refusal = vs_param / 2;
	CHECK(!run_listening(modify_and_be_refused,
			     vs_param % 2 ? "DOPPEL_VERBS_CHECK=none" : NULL));
	CHECK_MSG(strstr(vw_logged, refusals[refusal].why), "expected '%s' in: %s",
		  refusals[refusal].why, vw_logged);
	CHECK_EQ(strstr(vw_logged, "verbs-modify") == NULL, vs_param % 2);
}

CASE(a_hang_is_not_blamed_on_a_post_that_was_mended, .engine = "sim", .worlds = true)
{
	CHECK(run_listening(mend_a_refused_post_and_hang, NULL));
	CHECK(strstr(vw_logged, "deadlock"));
	check_that_nothing_is_said();
}
