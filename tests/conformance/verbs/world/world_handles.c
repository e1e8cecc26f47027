/* SPDX-License-Identifier: BSD-3-Clause */
/* Invalid handles: an object that was destroyed, that another process has or had, or that is of
 * another kind, NULL, any readable memory. Every call refuses each as its manual page defines, and
 * the double logs one line. */
#include "tests/conformance/verbs/world/world_handles.h"
#include "tests/conformance/verbs/harness/world_ud.h"

/* ---- invalid objects
 * -------------------------------------------------------------------------- */

enum wrong {
	DESTROYED,
	OF_A_DEAD_PROCESS,
	OF_ANOTHER_PROCESS,
	OTHER_KIND,
	GARBAGE,
	NOTHING,
	WRONGS
};

static const char *const sentence[WRONGS] = {
	[DESTROYED] = "was destroyed at handle_set_free+0x",
	[OF_A_DEAD_PROCESS] = "ended with its process",
	[OF_ANOTHER_PROCESS] = "belongs to process 1, not to the caller's process 0",
	[OTHER_KIND] = "; got ",
	[GARBAGE] = "was never a handle",
	[NOTHING] = "handle is NULL",
};

static enum wrong wrong;
static int which;
static bool refused;
static struct handle_set theirs; /* objects of the other process */
static shared_u32 made, over;

static bool applies(enum wrong w, int c)
{
	switch (w) {
	case NOTHING:
		return handle_calls[c].way == PLAIN;
	case GARBAGE:
	case OTHER_KIND:
		return handle_calls[c].way != SELF;
	default:
		return true;
	}
}

static void other_process(void *set)
{
	handle_set_make(set);
	shared_store_u32(&made, 1, SHARED_RELEASE);
	if (wrong == OF_A_DEAD_PROCESS)
		return;
	vw_wait_word(&over);
	handle_set_free(set);
}

static struct os_thread *other_start(struct os_proc **proc)
{
	const struct os_thread_attr attr = {.name = "the other process", .rank = -1};
	struct os_thread *t;

	shared_store_u32(&made, 0, SHARED_RELAXED);
	shared_store_u32(&over, 0, SHARED_RELAXED);
	CHECK_EQ(world_proc_create(0, NULL, proc), 0);
	CHECK_EQ(world_thread_start(*proc, &t, &attr, other_process, &theirs), 0);
	vw_wait_word(&made);
	return t;
}

static void *wrong_object(struct handle_set *spare)
{
	enum handle_kind kind = handle_calls[which].kind;

	switch (wrong) {
	case DESTROYED:
		return spare->object[kind];
	case OF_A_DEAD_PROCESS:
	case OF_ANOTHER_PROCESS:
		return theirs.object[kind];
	case OTHER_KIND:
		return handle_mine.object[kind == PD ? MR : PD];
	case GARBAGE:
		memset(handle_memory, 0x5a, sizeof handle_memory);
		*(void **)handle_memory = handle_mine.object[CONTEXT];
		return handle_memory;
	default:
		return NULL;
	}
}

static void use_a_wrong_handle(void)
{
	struct os_thread *t = NULL;
	struct os_proc *proc;
	struct handle_set spare;

	handle_set_make(&handle_mine);
	handle_set_make(&spare);
	if (wrong == DESTROYED)
		handle_set_free(&spare);
	if (wrong == OF_A_DEAD_PROCESS || wrong == OF_ANOTHER_PROCESS)
		t = other_start(&proc);
	if (wrong == OF_A_DEAD_PROCESS) {
		CHECK_EQ(os_thread_join(t), 0);
		world_proc_exit(proc);
	}
	errno = 0;
	refused = handle_call(which, wrong_object(&spare));
	if (wrong == OF_ANOTHER_PROCESS) {
		shared_store_u32(&over, 1, SHARED_RELEASE);
		CHECK_EQ(os_thread_join(t), 0);
		world_proc_exit(proc);
	}
	if (wrong != DESTROYED)
		handle_set_free(&spare);
	handle_set_free(&handle_mine); /* its objects still work */
}

/* One call in a world of its own. */
static void check_call(enum sim_engine engine)
{
	char line[128];

	if (!applies(wrong, which))
		return;
	bool failed = vw_listen(engine, use_a_wrong_handle, NULL);

	snprintf(line, sizeof line, "verbs-bad-handle: %s at ", handle_calls[which].name);
	CHECK_MSG(strstr(vw_logged, line), "case %d of %s logs: %s", wrong,
		  handle_calls[which].name, vw_logged);
	CHECK_MSG(strstr(vw_logged, sentence[wrong]), "case %d of %s logs: %s", wrong,
		  handle_calls[which].name, vw_logged);
	CHECK_MSG(refused, "case %d of %s was not refused", wrong, handle_calls[which].name);
	CHECK(failed);
}

CASE(a_handle_that_is_none_is_refused_and_said, .engine = "sim", .worlds = true, .count = WRONGS)
{
	wrong = (enum wrong)vs_param;
	for (which = 0; which < handle_call_count; which++)
		check_call(SIM_ENGINE_SIM);
}

CASE(under_threads_too, .engine = "sim", .worlds = true)
{
	wrong = DESTROYED;
	for (which = 0; which < handle_call_count; which += 3)
		check_call(SIM_ENGINE_THREADS);
}

CASE(silenced_it_is_refused_all_the_same, .engine = "sim", .worlds = true)
{
	wrong = DESTROYED;
	for (which = 0; which < handle_call_count; which += 5) {
		CHECK(!vw_listen(SIM_ENGINE_SIM, use_a_wrong_handle,
				 "DOPPEL_VERBS_CHECK=-bad-handle"));
		CHECK(refused);
		CHECK(!strcmp(vw_logged, ""));
	}
}

/* ---- other ways ------------------------------------------------------------------------------ */

static void destroy_many_more(void)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	struct ibv_cq *cq = ibv_create_cq(h.end[0].ctx, 4, NULL, NULL, 0);

	CHECK_EQ(ibv_destroy_cq(cq), 0);
	for (int i = 0; i < 63; i++) {
		struct ibv_cq *next = ibv_create_cq(h.end[0].ctx, 4, NULL, NULL, 0);

		CHECK(next != cq);
		CHECK_EQ(ibv_destroy_cq(next), 0);
	}
	CHECK_EQ(ibv_destroy_cq(cq), EINVAL);
	vs_free(&h);
}

CASE(it_is_known_for_a_while, .engine = "sim", .worlds = true)
{
	CHECK(vw_listen(SIM_ENGINE_SIM, destroy_many_more, NULL));
	CHECK(strstr(vw_logged, "was destroyed at destroy_many_more+0x"));
}

static int distinct;

static void make_and_destroy(void)
{
	static void *seen[512];
	struct vs_pair h;

	distinct = 0;
	vs_make(&h, &vw_defaults);
	for (int i = 0; i < 3000; i++) {
		void *mr = ibv_reg_mr(h.end[0].pd, handle_memory, 64, 0);
		int k = 0;

		while (k < distinct && seen[k] != mr)
			k++;
		if (k == distinct && distinct < 512)
			seen[distinct++] = mr;
		CHECK_EQ(ibv_dereg_mr(mr), 0);
	}
	vs_free(&h);
}

CASE(the_memory_of_those_that_ended_is_bounded, .engine = "sim", .worlds = true)
{
	CHECK(!vw_listen(SIM_ENGINE_SIM, make_and_destroy, NULL));
	CHECK(distinct < 100);
}

static struct ibv_qp *old;

static void leave_one(void)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	old = h.end[0].qp;
}

static void use_the_old_one(void)
{
	struct ibv_recv_wr recv = {0}, *bad;
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	refused = ibv_post_recv(old, &recv, &bad) == EINVAL;
	vs_free(&h);
}

CASE(an_object_of_an_earlier_world_is_none, .engine = "sim", .worlds = true)
{
	vw_listen(SIM_ENGINE_SIM, leave_one, NULL);
	CHECK(vw_listen(SIM_ENGINE_SIM, use_the_old_one, NULL));
	CHECK(refused);
	CHECK(strstr(vw_logged, "ibv_post_recv at use_the_old_one+0x"));
	CHECK(strstr(vw_logged, "ended with its process"));
}

static void open_too_late(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device *d = list[0];
	const char *name = ibv_get_device_name(d);

	CHECK(name);
	ibv_free_device_list(list);
	errno = 0;
	refused = HANDLE_NONE(ibv_open_device(d)) && !ibv_get_device_name(d) &&
		  ibv_get_device_index(d) == -1 && !ibv_get_device_guid(d) &&
		  !ibv_get_device_name(NULL);
}

CASE(a_device_whose_list_was_freed_is_none, .engine = "sim", .worlds = true)
{
	CHECK(vw_listen(SIM_ENGINE_SIM, open_too_late, NULL));
	CHECK(refused);
	CHECK(strstr(vw_logged, "verbs-bad-handle: ibv_open_device at open_too_late+0x"));
	CHECK(strstr(vw_logged, "ended with the last list and context (open_too_late+0x"));
	CHECK(strstr(vw_logged, "verbs-bad-handle: ibv_get_device_guid at "));
}

static void wait_at_a_closed_context(void)
{
	struct ibv_async_event e;
	struct ibv_context *c = vs_open(0);

	CHECK_EQ(ibv_close_device(c), 0);
	errno = 0;
	refused = ibv_get_async_event(c, &e) == -1 && errno == ENODEV;
}

static void wait_at_no_context(void)
{
	struct ibv_async_event e;
	struct ibv_context *c = vs_open(0);

	refused = HANDLE_MINUS(ibv_get_async_event((struct ibv_context *)handle_memory, &e)) &&
		  HANDLE_MINUS(ibv_get_async_event(NULL, &e));
	CHECK_EQ(ibv_close_device(c), 0);
}

/* A thread that waits for events receives ENODEV when the device is closed. This is not an error of
 * the program. */
CASE(events_of_a_closed_context_end, .engine = "sim", .worlds = true)
{
	CHECK(!vw_listen(SIM_ENGINE_SIM, wait_at_a_closed_context, NULL));
	CHECK(refused);
	CHECK(!strcmp(vw_logged, ""));
	CHECK(vw_listen(SIM_ENGINE_SIM, wait_at_no_context, NULL));
	CHECK(refused);
	CHECK(strstr(vw_logged, "verbs-bad-handle: ibv_get_async_event at "));
}

/* ---- in requests ----------------------------------------------------------------------------- */

static void send_to_an_address_that_ended(void)
{
	struct ud u;
	struct vs_wr w;

	ud_make(&u);
	CHECK_EQ(ibv_destroy_ah(u.ah), 0);
	vs_fill(&w, &u.h, 0, IBV_WR_SEND, 2, 0, 8);
	w.wr.wr.ud.ah = u.ah;
	w.wr.wr.ud.remote_qpn = u.qp[1]->qp_num;
	refused = vs_post(u.qp[0], &w.wr) == EINVAL;
	u.ah = NULL;
	ud_free(&u);
}

/* Deallocate the window before it is bound? Otherwise its region is deregistered. */
static bool window;

static void bind_what_ended(void)
{
	struct vs_pair h;

	vs_pair(&h, &vw_defaults);
	struct ibv_mw *mw = ibv_alloc_mw(h.end[0].pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr = ibv_reg_mr(h.end[0].pd, handle_memory, 64,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {
			.mw = mw,
			.rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = {.mr = mr, .addr = (uintptr_t)handle_memory, .length = 64}}};

	CHECK_EQ(window ? ibv_dealloc_mw(mw) : ibv_dereg_mr(mr), 0);
	refused = vs_post(h.end[0].qp, &wr) == EINVAL;
	CHECK_EQ(window ? ibv_dereg_mr(mr) : ibv_dealloc_mw(mw), 0);
	vs_free(&h);
}

CASE(a_request_that_names_what_ended_is_refused, .engine = "sim", .worlds = true)
{
	CHECK(vw_listen(SIM_ENGINE_SIM, send_to_an_address_that_ended, NULL));
	CHECK(refused);
	CHECK(strstr(vw_logged, "was destroyed at send_to_an_address_that_ended+0x"));
	for (int i = 0; i < 2; i++) {
		window = i;
		CHECK(vw_listen(SIM_ENGINE_SIM, bind_what_ended, NULL));
		CHECK(refused);
		CHECK(strstr(vw_logged, "was destroyed at bind_what_ended+0x"));
		CHECK(strstr(vw_logged, window ? "memory window" : "memory region"));
	}
}

/* ---- of another context ---------------------------------------------------------------------- */

static void mix_contexts(void)
{
	struct handle_set other;

	handle_set_make(&handle_mine);
	handle_set_make(&other);
	struct ibv_xrcd *xrcd = other.object[XRCD];

	errno = 0;
	refused = handle_qp_of(other.object[CQ], handle_mine.object[CQ], NULL) &&
		  handle_qp_of(handle_mine.object[CQ], other.object[CQ], NULL) &&
		  handle_qp_of(handle_mine.object[CQ], handle_mine.object[CQ], other.object[SRQ]) &&
		  handle_parent_of(other.object[PD], NULL) &&
		  handle_parent_of(handle_mine.object[PD], other.object[TD]) &&
		  handle_srq_ex_of(handle_mine.object[CONTEXT], other.object[PD],
				   handle_mine.object[XRCD], handle_mine.object[CQ]) &&
		  handle_srq_ex_of(handle_mine.object[CONTEXT], handle_mine.object[PD], xrcd,
				   handle_mine.object[CQ]) &&
		  handle_srq_ex_of(handle_mine.object[CONTEXT], handle_mine.object[PD],
				   handle_mine.object[XRCD], other.object[CQ]) &&
		  HANDLE_NONE(ibv_create_cq(handle_mine.object[CONTEXT], 4, NULL,
					    other.object[CHANNEL], 0)) &&
		  ibv_rereg_mr(handle_mine.object[MR], IBV_REREG_MR_CHANGE_PD, other.object[PD],
			       NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT;
	handle_set_free(&other);
	handle_set_free(&handle_mine);
}

/* The call fails and the double logs a line. The run does not fail. */
CASE(parts_of_another_context_are_refused, .engine = "sim", .worlds = true)
{
	static const char *const parts[] = {
		"ibv_create_qp at handle_qp_of+0x",
		"ibv_alloc_parent_domain at handle_parent_of+0x",
		"ibv_create_srq_ex at handle_srq_ex_of+0x",
		"ibv_create_cq at mix_contexts+0x",
		"ibv_rereg_mr at mix_contexts+0x",
	};

	CHECK_MSG(!vw_listen(SIM_ENGINE_SIM, mix_contexts, NULL), "%s", vw_logged);
	CHECK_MSG(refused, "%s", vw_logged);
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		char line[96];

		snprintf(line, sizeof line, "verbs-wrong-domain: %s", parts[i]);
		CHECK_MSG(strstr(vw_logged, line), "no '%s' in: %s", line, vw_logged);
	}
}
