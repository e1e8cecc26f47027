/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs sanitizer: for each rule a program that breaks it, which is named with its call
 * site, and the same program done right, for which nothing is reported. */
#include <cuda_runtime_api.h>

#include "backends/fakeverbs/arena/report.h"
#include "tests/conformance/verbs_check_more.h"
#include "tests/conformance/verbs_harness.h"
#include "tests/conformance/verbs_listen.h"

/* ---- reports ------------------------------------------------------------------------------- */

static bool run_listening(void (*program)(void), const char *check)
{
	return listen_to(SIM_ENGINE_SIM, program, check);
}

/* ---- programs ------------------------------------------------------------------------------- */

static void change_what_is_being_sent(void)
{
	struct vh h;

	vh_pair(&h, &vh_defaults);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 300000);
	if (bad)
		h.end[0].buffer[299999]++;
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	h.end[0].buffer[299999]++;
	vh_free(&h);
}

/* The peer's answer comes into the buffer that is being sent: an HCA's write, and no finding. */
static void answer_into_what_is_being_sent(void)
{
	struct vh h;

	bad = false;
	vh_pair(&h, &vh_defaults);
	memset(h.end[1].buffer, 7, 300000);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 300000);
	vh_send(&h, 1, IBV_WR_RDMA_WRITE, 2, 0, 300000);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[1].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vh_free(&h);
}

static void deregister_what_is_in_use(void)
{
	struct vh h;

	vh_pair(&h, &vh_defaults);
	struct ibv_mr *mr = ibv_reg_mr(h.end[0].pd, h.end[0].buffer, 64, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)h.end[0].buffer, 64, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *refused;

	ck_assert_int_eq(ibv_post_recv(h.end[0].qp, &wr, &refused), 0);
	if (!bad) {
		vh_send(&h, 1, IBV_WR_SEND, 2, 0, 64);
		vh_expect(h.end[0].recv_cq, 1, IBV_WC_SUCCESS, NULL);
		vh_expect(h.end[1].send_cq, 2, IBV_WC_SUCCESS, NULL);
	}
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	vh_free(&h);
}

static void fill_a_queue(void)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	for (int i = 0; i < 17; i++) {
		vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, (uint64_t)i, 0, 8);
		w.wr.send_flags = i == 15 && !bad ? IBV_SEND_SIGNALED : 0;
		ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), i < 16 ? 0 : ENOMEM);
	}
	os_sleep_ns(VH_SECOND_NS / 10);
	vh_free(&h);
}

static void make_a_small_queue(void)
{
	struct vh_options o = vh_defaults;
	struct vh h;

	o.cqe = bad ? 8 : 16;
	vh_make(&h, &o);
	vh_free(&h);
}

static void overrun_a_queue(void)
{
	struct vh_options o = vh_defaults;
	struct vh h;

	o.cqe = bad ? 4 : 8;
	o.recv_wr = 1;
	vh_pair(&h, &o);
	for (uint32_t i = 0; i < 8; i++)
		vh_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 8);
	os_sleep_ns(VH_SECOND_NS / 10);
	vh_free(&h);
}

static void send_what_a_read_brings(void)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	vh_send(&h, 0, IBV_WR_RDMA_READ, 1, 0, 64);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 2, 0, 64);
	w.wr.wr.rdma.remote_addr += 4096;
	if (!bad)
		w.wr.send_flags |= IBV_SEND_FENCE;
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vh_free(&h);
}

static void modify_with_a_bit_too_few(void)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	struct ibv_qp_attr a = vh_attr_of(&h, 0);

	a.qp_state = IBV_QPS_INIT;
	ck_assert_int_eq(ibv_modify_qp(h.end[0].qp, &a, VH_INIT_MASK & ~(bad ? IBV_QP_PORT : 0)),
			 bad ? EINVAL : 0);
	vh_free(&h);
}

static void modify_with_a_value_unset(void)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	vh_connect_end(&h, 0, IBV_QPS_INIT);
	struct ibv_qp_attr a = vh_attr_of(&h, 0);

	a.qp_state = IBV_QPS_RTR;
	if (bad)
		a.path_mtu = 0;
	ck_assert_int_eq(ibv_modify_qp(h.end[0].qp, &a, VH_RTR_MASK), bad ? EINVAL : 0);
	vh_free(&h);
}

static void wait_for_too_long(void)
{
	struct vh_options o = vh_defaults;
	struct vh h;

	o.timeout = bad ? 22 : 20;
	o.retry_count = 7;
	vh_pair(&h, &o);
	vh_free(&h);
}

static void arm_and_do_not_poll(void)
{
	struct vh h;
	struct ibv_cq *cq;
	void *context;

	vh_pair(&h, &vh_defaults);
	struct ibv_comp_channel *ch = ibv_create_comp_channel(h.end[0].ctx);
	struct ibv_cq *mine = ibv_create_cq(h.end[0].ctx, 16, NULL, ch, 0);
	struct ibv_qp_init_attr init = vh_init_attr(&h.options, mine, h.end[0].recv_cq);

	ck_assert_int_eq(ibv_destroy_qp(h.end[0].qp), 0);
	h.end[0].qp = ibv_create_qp(h.end[0].pd, &init);
	vh_to_state(h.end[1].qp, IBV_QPS_RESET);
	vh_connect_end(&h, 0, IBV_QPS_RTS);
	vh_connect_end(&h, 1, IBV_QPS_RTS);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	os_sleep_ns(VH_SECOND_NS / 10);
	ck_assert_int_eq(ibv_req_notify_cq(mine, 0), 0);
	if (!bad)
		vh_expect(mine, 1, IBV_WC_SUCCESS, NULL);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 2, 0, 8); /* so that the wait ends all the same */
	ck_assert_int_eq(ibv_get_cq_event(ch, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	ck_assert_int_eq(ibv_destroy_qp(h.end[0].qp), 0);
	ck_assert_int_eq(ibv_destroy_cq(mine), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(ch), 0);
	init = vh_init_attr(&h.options, h.end[0].send_cq, h.end[0].recv_cq);
	h.end[0].qp = ibv_create_qp(h.end[0].pd, &init);
	vh_free(&h);
}

static void use_a_key_that_is_gone(void)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	struct ibv_mr *mr = ibv_reg_mr(h.end[1].pd, h.end[1].buffer, 64,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 64);
	w.wr.wr.rdma.rkey = mr->rkey;
	if (bad)
		ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	vh_expect(h.end[0].send_cq, 1, bad ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS, NULL);
	if (!bad)
		ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	vh_free(&h);
}

static void register_without_local_write(void)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	struct ibv_mr *mr =
		ibv_reg_mr(h.end[0].pd, h.end[0].buffer, 64,
			   IBV_ACCESS_REMOTE_WRITE | (bad ? 0 : IBV_ACCESS_LOCAL_WRITE));

	ck_assert_int_eq(!mr, bad);
	if (mr)
		ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	vh_free(&h);
}

static void write_over_the_end(void)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 64);
	w.wr.wr.rdma.remote_addr += VH_BUFFER_BYTES - (bad ? 63 : 64);
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	vh_expect(h.end[0].send_cq, 1, bad ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS, NULL);
	vh_free(&h);
}

static void send_from_another_domain(void)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	struct ibv_pd *pd = ibv_alloc_pd(h.end[0].ctx);
	struct ibv_mr *mr = ibv_reg_mr(bad ? pd : h.end[0].pd, h.end[0].buffer, 64, 0);

	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 64);
	w.sge.lkey = mr->lkey;
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	vh_expect(h.end[0].send_cq, 1, bad ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS, NULL);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	vh_free(&h);
}

static void read_more_than_the_peer_takes(void)
{
	struct vh_options o = vh_defaults;
	struct vh h;

	o.rd_atomic = bad ? 8 : 1;
	o.dest_rd_atomic = 1;
	vh_pair(&h, &o);
	for (uint32_t i = 0; i < 8; i++)
		vh_send(&h, 0, IBV_WR_RDMA_READ, i, i * 65536, 65536);
	os_sleep_ns(VH_SECOND_NS / 10);
	ck_assert_int_eq(vh_state(h.end[0].qp), bad ? IBV_QPS_ERR : IBV_QPS_RTS);
	vh_free(&h);
}

static void let_the_peer_wait(void)
{
	struct vh_options o = vh_defaults;
	struct vh h;

	o.rnr_retry = 7;
	vh_pair(&h, &o);
	if (!bad)
		vh_recv(&h, 1, 1, 0, 64);
	vh_send(&h, 0, IBV_WR_SEND, 1, 0, 64);
	os_sleep_ns(VH_SECOND_NS / 100);
	if (bad)
		vh_recv(&h, 1, 1, 0, 64);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_free(&h);
}

static void write_with_immediate_to_nobody(void)
{
	struct vh h;

	vh_pair(&h, &vh_defaults);
	if (!bad)
		vh_recv(&h, 1, 1, 0, 0);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 64);
	vh_expect(h.end[0].send_cq, 1, bad ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_SUCCESS, NULL);
	vh_free(&h);
}

static void destroy_the_queue_first(void)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	if (bad)
		ck_assert_int_eq(ibv_destroy_cq(h.end[0].send_cq), EBUSY);
	vh_free(&h);
}

static void close_with_something_open(void)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	if (bad)
		ck_assert_int_eq(ibv_close_device(h.end[0].ctx), EBUSY);
	vh_free(&h);
}

static void add_across_words(void)
{
	struct vh_options o = vh_defaults;
	struct vh h;
	struct vh_wr w;

	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	vh_pair(&h, &o);
	struct ibv_mr *mr = ibv_reg_mr(h.end[1].pd, h.end[1].buffer, 64,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	vh_wr_fill(&w, &h, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8);
	w.wr.wr.atomic.remote_addr = (uintptr_t)h.end[1].buffer + (bad ? 4 : 8);
	w.wr.wr.atomic.rkey = mr->rkey;
	w.wr.wr.atomic.compare_add = 1;
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	os_sleep_ns(VH_SECOND_NS / 10);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	vh_free(&h);
}

/* What an HCA reports about its atomics is true of host memory. */
static void add_globally_to_a_gpu(void)
{
	struct vh_options o = vh_defaults;
	struct vh h;
	struct vh_wr w;
	void *gpu = NULL;

	setenv("DOPPEL_HCA_ATOMIC", "glob", 1);
	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	vh_pair(&h, &o);
	ck_assert_int_eq(cudaMalloc(&gpu, 4096), cudaSuccess);
	void *where = bad ? gpu : h.end[1].buffer;
	struct ibv_mr *mr = ibv_reg_mr(h.end[1].pd, where, 64,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	ck_assert_ptr_nonnull(mr);
	vh_wr_fill(&w, &h, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8);
	w.wr.wr.atomic.remote_addr = (uintptr_t)where;
	w.wr.wr.atomic.rkey = mr->rkey;
	w.wr.wr.atomic.compare_add = 1;
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(cudaFree(gpu), cudaSuccess);
	vh_free(&h);
	unsetenv("DOPPEL_HCA_ATOMIC");
}

static void send_too_much_inline(void)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, bad ? 65 : 64);
	w.wr.send_flags |= IBV_SEND_INLINE;
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), bad ? EINVAL : 0);
	os_sleep_ns(VH_SECOND_NS / 10);
	vh_free(&h);
}

/* ---- the rules ------------------------------------------------------------------------------ */

static const struct {
	const char *rule;
	void (*program)(void);
	bool fails; /* the run, not only a line */
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

/* Where the rule speaks; NULL: it does not. */
static const char *is_reported(const char *rule)
{
	char line[64];

	snprintf(line, sizeof line, "%s: ", rule);
	return strstr(logged, line);
}

static void check_that_nothing_is_said(void)
{
#define SILENT(id, name, level) ck_assert_msg(!is_reported(name), "%s", logged);
	HCA_RULES(SILENT)
#undef SILENT
}

/* A rule that no program here breaks could disappear unnoticed. */
START_TEST(each_rule_has_a_case)
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
		ck_assert_msg(n > 0, "%s has no case here", rules[r]);
	}
}
END_TEST

/* Names the rule, and a call site that is in the program. */
START_TEST(the_rule_is_named_with_its_call_site)
{
	bad = true;
	bool failed = run_listening(cases[_i].program, NULL);
	const char *at = is_reported(cases[_i].rule);

	ck_assert_msg(at, "%s is not reported, but: %s", cases[_i].rule, logged);
	ck_assert_msg(strcspn(strstr(at, "+0x"), "\n") < strcspn(at, "\n"), "no call site: %s", at);
	ck_assert_msg(failed == cases[_i].fails, "%s: the run %s", cases[_i].rule,
		      failed ? "failed" : "did not fail");
}
END_TEST

START_TEST(a_program_that_does_it_right_hears_nothing)
{
	bad = false;
	ck_assert_msg(!run_listening(cases[_i].program, NULL), "%s", logged);
	check_that_nothing_is_said();
}
END_TEST

START_TEST(a_rule_is_silenced_by_its_name)
{
	char check[80];

	bad = true;
	snprintf(check, sizeof check, "DOPPEL_VERBS_CHECK=-%s%s", cases[_i].rule + (_i % 2 ? 6 : 0),
		 _i % 3 ? "" : ",-inline");
	run_listening(cases[_i].program, check);
	ck_assert_msg(!is_reported(cases[_i].rule), "%s", logged);
}
END_TEST

START_TEST(levels_change)
{
	bad = true;
	ck_assert(!run_listening(change_what_is_being_sent, "DOPPEL_VERBS_CHECK=warn"));
	ck_assert_ptr_nonnull(strstr(logged, "verbs-buffer-in-use"));
	ck_assert(!run_listening(change_what_is_being_sent, "DOPPEL_VERBS_CHECK=none"));
	ck_assert_ptr_null(strstr(logged, "verbs-"));
	ck_assert(run_listening(make_a_small_queue, "DOPPEL_VERBS_CHECK=cq-small=fail"));
	ck_assert(run_listening(make_a_small_queue, "DOPPEL_VERBS_CHECK=none,all"));
	ck_assert_int_eq(world_env_check("DOPPEL_VERBS_CHECK=-cq-small,warn"), 0);
	ck_assert_int_eq(world_env_check("DOPPEL_VERBS_CHECK=-cq-smal"), EINVAL);
	ck_assert_int_eq(world_env_check("DOPPEL_VERBS_CHECK=cq-small=warm"), EINVAL);
}
END_TEST

START_TEST(what_an_hca_writes_is_not_the_programs_doing)
{
	ck_assert(!run_listening(answer_into_what_is_being_sent, NULL));
	check_that_nothing_is_said();
}
END_TEST

/* What the last call of each of these is refused for. */
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
	struct vh h;

	vh_make(&h, &vh_defaults);
	struct ibv_qp_attr a = vh_attr_of(&h, 0);
	int mask = VH_INIT_MASK;

	a.qp_state = IBV_QPS_INIT;
	a.port_num = (uint8_t)refusals[refusal].port_num;
	a.ah_attr.grh.sgid_index = (uint8_t)refusals[refusal].sgid_index;
	if (refusals[refusal].state)
		a.qp_state = (enum ibv_qp_state)refusals[refusal].state;
	if (a.qp_state == IBV_QPS_RTR) {
		vh_connect_end(&h, 0, IBV_QPS_INIT);
		mask = VH_RTR_MASK;
	}
	mask = (mask & ~refusals[refusal].mask_less) | refusals[refusal].mask_more;
	ck_assert_int_eq(ibv_modify_qp(h.end[0].qp, &a, mask), EINVAL);
	vh_free(&h);
}

/* With the sanitizer, and without it. */
START_TEST(a_refused_ibv_modify_qp_says_why)
{
	refusal = _i / 2;
	ck_assert(!run_listening(modify_and_be_refused, _i % 2 ? "DOPPEL_VERBS_CHECK=none" : NULL));
	ck_assert_msg(strstr(logged, refusals[refusal].why), "expected '%s' in: %s",
		      refusals[refusal].why, logged);
	ck_assert_int_eq(strstr(logged, "verbs-modify") == NULL, _i % 2);
}
END_TEST

START_TEST(a_hang_is_not_blamed_on_a_post_that_was_mended)
{
	ck_assert(run_listening(mend_a_refused_post_and_hang, NULL));
	ck_assert_ptr_nonnull(strstr(logged, "deadlock"));
	check_that_nothing_is_said();
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("check");

	tcase_add_loop_test(t, the_rule_is_named_with_its_call_site, 0, CASES);
	tcase_add_loop_test(t, a_program_that_does_it_right_hears_nothing, 0, CASES);
	tcase_add_loop_test(t, a_rule_is_silenced_by_its_name, 0, CASES);
	tcase_add_test(t, each_rule_has_a_case);
	tcase_add_test(t, levels_change);
	tcase_add_test(t, what_an_hca_writes_is_not_the_programs_doing);
	tcase_add_loop_test(t, a_refused_ibv_modify_qp_says_why, 0,
			    2 * (int)(sizeof refusals / sizeof refusals[0]));
	tcase_add_test(t, a_hang_is_not_blamed_on_a_post_that_was_mended);
	return vh_suite_run("verbs check", t);
}
