/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles that are none: every call with an object that was destroyed, that another process has or
 * had, that is of another kind, NULL, or any readable memory, is refused as that call refuses, and
 * a sentence reports it. */
#include <fcntl.h>

#include "tests/conformance/verbs_harness.h"
#include "tests/conformance/verbs_listen.h"
#include "tests/conformance/verbs_ud.h"

#undef ibv_reg_mr
#undef ibv_query_port

/* ---- one object of each kind ----------------------------------------------------------------- */

enum kind { CONTEXT, PD, TD, MR, MW, AH, CHANNEL, CQ, SRQ, QP, XRCD, KINDS };

struct set {
	void *object[KINDS];
};

static struct set mine; /* living ones of the calling process */
static uint8_t memory[8192] __attribute__((aligned(4096)));

static struct ibv_qp *set_qp(struct set *s)
{
	struct ibv_qp_init_attr_ex a = {.send_cq = s->object[CQ],
					.recv_cq = s->object[CQ],
					.cap = {4, 4, 1, 1, 0},
					.qp_type = IBV_QPT_UD,
					.comp_mask = IBV_QP_INIT_ATTR_PD |
						     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					.pd = s->object[PD],
					.send_ops_flags = IBV_QP_EX_WITH_SEND};

	return ibv_create_qp_ex(s->object[CONTEXT], &a);
}

static void set_make(struct set *s)
{
	struct ibv_context *c = vh_open(0);
	struct ibv_td_init_attr td = {0};
	struct ibv_cq_init_attr_ex cq = {.cqe = 16};
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_xrcd_init_attr xrcd = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 3}};

	ck_assert_int_eq(ibv_query_gid(c, 1, 3, &ah.grh.dgid), 0);
	s->object[CONTEXT] = c;
	s->object[PD] = ibv_alloc_pd(c);
	s->object[TD] = ibv_alloc_td(c, &td);
	s->object[MR] = ibv_reg_mr(s->object[PD], memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
	s->object[MW] = ibv_alloc_mw(s->object[PD], IBV_MW_TYPE_1);
	s->object[AH] = ibv_create_ah(s->object[PD], &ah);
	s->object[CHANNEL] = ibv_create_comp_channel(c);
	s->object[CQ] = ibv_create_cq_ex(c, &cq);
	s->object[SRQ] = ibv_create_srq(s->object[PD], &srq);
	s->object[QP] = set_qp(s);
	s->object[XRCD] = ibv_open_xrcd(c, &xrcd);
	for (int i = 0; i < KINDS; i++)
		ck_assert_msg(s->object[i] != NULL, "object %d", i);
}

static void set_free(struct set *s)
{
	ck_assert_int_eq(ibv_close_xrcd(s->object[XRCD]), 0);
	ck_assert_int_eq(ibv_destroy_qp(s->object[QP]), 0);
	ck_assert_int_eq(ibv_destroy_srq(s->object[SRQ]), 0);
	ck_assert_int_eq(ibv_destroy_cq(s->object[CQ]), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(s->object[CHANNEL]), 0);
	ck_assert_int_eq(ibv_destroy_ah(s->object[AH]), 0);
	ck_assert_int_eq(ibv_dealloc_mw(s->object[MW]), 0);
	ck_assert_int_eq(ibv_dereg_mr(s->object[MR]), 0);
	ck_assert_int_eq(ibv_dealloc_td(s->object[TD]), 0);
	ck_assert_int_eq(ibv_dealloc_pd(s->object[PD]), 0);
	ck_assert_int_eq(ibv_close_device(s->object[CONTEXT]), 0);
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* What the call looks at before it comes to the HCA. */
enum way {
	PLAIN,
	OPS,  /* an inline function, through object->context->ops: readable memory at least */
	SELF, /* through the object's own pointers, or marks of the context: was an object */
	PART, /* an attribute of what is made, where NULL is none */
};

/* All that the calls below may want. */
static struct {
	struct ibv_qp_attr qp;
	struct ibv_qp_init_attr init;
	struct ibv_srq_init_attr srq;
	struct ibv_srq_attr srq_attr;
	struct ibv_device_attr device;
	struct ibv_modify_cq_attr cq;
	struct ibv_poll_cq_attr poll;
	struct ibv_values_ex values;
	struct ibv_mw_bind bind;
	struct ibv_ece ece;
	struct ibv_ah_attr ah;
	struct ibv_grh grh;
	struct ibv_wc wc;
	struct ibv_cq_init_attr_ex cq_ex;
	struct ibv_td_init_attr td;
	struct ibv_qp_open_attr open;
	union ibv_gid gid;
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	__be16 pkey;
	uint32_t number;
	struct ibv_cq *event_cq;
	void *event_context;
	struct ibv_send_wr send, *bad_send;
	struct ibv_recv_wr recv, *bad_recv;
	struct ibv_sge sge;
} x;

#define NONE(p)     (!(p) && errno == EINVAL)
#define MINUS(call) ((call) == -1 && errno == EINVAL)
#define VOID(call)  ((call), 1)

static int parent_of(void *pd, void *td)
{
	struct ibv_parent_domain_init_attr a = {.pd = pd, .td = td};

	return NONE(ibv_alloc_parent_domain(mine.object[CONTEXT], &a));
}

static int qp_of(void *send, void *recv, void *srq)
{
	struct ibv_qp_init_attr a = {.send_cq = send,
				     .recv_cq = recv,
				     .srq = srq,
				     .cap = {1, 1, 1, 1, 0},
				     .qp_type = IBV_QPT_RC};

	return NONE(ibv_create_qp(mine.object[PD], &a));
}

static int qp_ex_of(void *context)
{
	struct ibv_qp_init_attr_ex a = {.send_cq = mine.object[CQ],
					.recv_cq = mine.object[CQ],
					.cap = {1, 1, 1, 1, 0},
					.qp_type = IBV_QPT_RC,
					.comp_mask = IBV_QP_INIT_ATTR_PD |
						     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					.pd = mine.object[PD]};

	return NONE(ibv_create_qp_ex(context, &a));
}

static int srq_ex_of(void *context, void *pd, void *xrcd, void *cq)
{
	struct ibv_srq_init_attr_ex a = {.attr = {.max_wr = 4, .max_sge = 1},
					 .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
						      IBV_SRQ_INIT_ATTR_PD |
						      IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					 .srq_type = IBV_SRQT_XRC,
					 .pd = pd,
					 .xrcd = xrcd,
					 .cq = cq};

	return NONE(ibv_create_srq_ex(context, &a));
}

static int xrcd_of(void *context)
{
	struct ibv_xrcd_init_attr a = {.comp_mask =
					       IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .fd = -1,
				       .oflags = O_CREAT};

	return NONE(ibv_open_xrcd(context, &a));
}

static int post_send(void *o)
{
	x.bad_send = NULL;
	return ibv_post_send(o, &x.send, &x.bad_send) == EINVAL && x.bad_send == &x.send;
}

static int post_recv(void *o)
{
	x.bad_recv = NULL;
	return ibv_post_recv(o, &x.recv, &x.bad_recv) == EINVAL && x.bad_recv == &x.recv;
}

static int post_srq_recv(void *o)
{
	x.bad_recv = NULL;
	return ibv_post_srq_recv(o, &x.recv, &x.bad_recv) == EINVAL && x.bad_recv == &x.recv;
}

static int ack_async(enum ibv_event_type type, void *o)
{
	struct ibv_async_event e = {.element.qp = o, .event_type = type};

	ibv_ack_async_event(&e);
	return 1;
}

/* kind, way, what the sentence calls it, the call itself: was it refused as it should? */
#define CALLS(X)                                                                                   \
	X(CONTEXT, PLAIN, "ibv_query_device", ibv_query_device(o, &x.device) == EINVAL)            \
	X(CONTEXT, PLAIN, "ibv_query_port", ibv_query_port(o, 1, (void *)&x.port) == EINVAL)       \
	X(CONTEXT, PLAIN, "ibv_query_gid", MINUS(ibv_query_gid(o, 1, 0, &x.gid)))                  \
	X(CONTEXT, PLAIN, "ibv_query_gid_ex", ibv_query_gid_ex(o, 1, 0, &x.entry, 0) == EINVAL)    \
	X(CONTEXT, PLAIN, "ibv_query_gid_table",                                                   \
	  ibv_query_gid_table(o, &x.entry, 1, 0) == -EINVAL)                                       \
	X(CONTEXT, PLAIN, "ibv_query_pkey", MINUS(ibv_query_pkey(o, 1, 0, &x.pkey)))               \
	X(CONTEXT, PLAIN, "ibv_get_pkey_index", MINUS(ibv_get_pkey_index(o, 1, 0xffff)))           \
	X(CONTEXT, PLAIN, "ibv_alloc_pd", NONE(ibv_alloc_pd(o)))                                   \
	X(CONTEXT, PLAIN, "ibv_create_cq", NONE(ibv_create_cq(o, 4, NULL, NULL, 0)))               \
	X(CONTEXT, PLAIN, "ibv_create_comp_channel", NONE(ibv_create_comp_channel(o)))             \
	X(CONTEXT, PLAIN, "ibv_init_ah_from_wc",                                                   \
	  MINUS(ibv_init_ah_from_wc(o, 1, &x.wc, &x.grh, &x.ah)))                                  \
	X(CONTEXT, SELF, "ibv_create_cq_ex", NONE(ibv_create_cq_ex(o, &x.cq_ex)))                  \
	X(CONTEXT, SELF, "ibv_create_qp_ex", qp_ex_of(o))                                          \
	X(CONTEXT, SELF, "ibv_create_srq_ex",                                                      \
	  srq_ex_of(o, mine.object[PD], mine.object[XRCD], mine.object[CQ]))                       \
	X(CONTEXT, SELF, "ibv_alloc_td", NONE(ibv_alloc_td(o, &x.td)))                             \
	X(CONTEXT, SELF, "ibv_open_xrcd", xrcd_of(o))                                              \
	X(CONTEXT, SELF, "ibv_open_qp", NONE(ibv_open_qp(o, &x.open)))                             \
	X(CONTEXT, SELF, "ibv_query_rt_values_ex", ibv_query_rt_values_ex(o, &x.values) == EINVAL) \
	X(CONTEXT, PLAIN, "ibv_close_device", ibv_close_device(o) == EINVAL)                       \
	X(PD, PLAIN, "ibv_reg_mr", NONE(ibv_reg_mr(o, memory, 64, 0)))                             \
	X(PD, PLAIN, "ibv_reg_dmabuf_mr", NONE(ibv_reg_dmabuf_mr(o, 0, 64, 0, -1, 0)))             \
	X(PD, OPS, "ibv_alloc_null_mr", NONE(ibv_alloc_null_mr(o)))                                \
	X(PD, OPS, "ibv_advise_mr",                                                                \
	  ibv_advise_mr(o, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &x.sge, 1) == EINVAL)                 \
	X(PD, OPS, "ibv_alloc_mw", NONE(ibv_alloc_mw(o, IBV_MW_TYPE_1)))                           \
	X(PD, PLAIN, "ibv_create_qp", NONE(ibv_create_qp(o, &x.init)))                             \
	X(PD, PLAIN, "ibv_create_srq", NONE(ibv_create_srq(o, &x.srq)))                            \
	X(PD, PLAIN, "ibv_create_ah", NONE(ibv_create_ah(o, &x.ah)))                               \
	X(PD, PLAIN, "ibv_create_ah_from_wc", NONE(ibv_create_ah_from_wc(o, &x.wc, &x.grh, 1)))    \
	X(PD, PART, "ibv_alloc_parent_domain", parent_of(o, NULL))                                 \
	X(PD, PART, "ibv_rereg_mr",                                                                \
	  ibv_rereg_mr(mine.object[MR], IBV_REREG_MR_CHANGE_PD, o, NULL, 0, 0) ==                  \
		  IBV_REREG_MR_ERR_INPUT)                                                          \
	X(PD, PART, "ibv_create_srq_ex",                                                           \
	  srq_ex_of(mine.object[CONTEXT], o, mine.object[XRCD], mine.object[CQ]))                  \
	X(PD, PLAIN, "ibv_dealloc_pd", ibv_dealloc_pd(o) == EINVAL)                                \
	X(TD, PART, "ibv_alloc_parent_domain", parent_of(mine.object[PD], o))                      \
	X(TD, OPS, "ibv_dealloc_td", ibv_dealloc_td(o) == EINVAL)                                  \
	X(MR, PLAIN, "ibv_rereg_mr",                                                               \
	  ibv_rereg_mr(o, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT) \
	X(MR, PLAIN, "ibv_dereg_mr", ibv_dereg_mr(o) == EINVAL)                                    \
	X(MW, SELF, "ibv_bind_mw", ibv_bind_mw(mine.object[QP], o, &x.bind) == EINVAL)             \
	X(MW, OPS, "ibv_dealloc_mw", ibv_dealloc_mw(o) == EINVAL)                                  \
	X(AH, PLAIN, "ibv_destroy_ah", ibv_destroy_ah(o) == EINVAL)                                \
	X(CHANNEL, PLAIN, "ibv_get_cq_event",                                                      \
	  MINUS(ibv_get_cq_event(o, &x.event_cq, &x.event_context)))                               \
	X(CHANNEL, PART, "ibv_create_cq",                                                          \
	  NONE(ibv_create_cq(mine.object[CONTEXT], 4, NULL, o, 0)))                                \
	X(CHANNEL, PLAIN, "ibv_destroy_comp_channel", ibv_destroy_comp_channel(o) == EINVAL)       \
	X(CQ, OPS, "ibv_poll_cq", MINUS(ibv_poll_cq(o, 1, &x.wc)))                                 \
	X(CQ, OPS, "ibv_req_notify_cq", ibv_req_notify_cq(o, 0) == EINVAL)                         \
	X(CQ, OPS, "ibv_modify_cq", ibv_modify_cq(o, &x.cq) == EINVAL)                             \
	X(CQ, PLAIN, "ibv_resize_cq", ibv_resize_cq(o, 4) == EINVAL)                               \
	X(CQ, PLAIN, "ibv_ack_cq_events", VOID(ibv_ack_cq_events(o, 0)))                           \
	X(CQ, PLAIN, "ibv_ack_async_event", ack_async(IBV_EVENT_CQ_ERR, o))                        \
	X(CQ, SELF, "ibv_start_poll", ibv_start_poll(o, &x.poll) == EINVAL)                        \
	X(CQ, SELF, "ibv_next_poll", ibv_next_poll(o) == EINVAL)                                   \
	X(CQ, SELF, "ibv_end_poll", VOID(ibv_end_poll(o)))                                         \
	X(CQ, SELF, "ibv_wc_read_opcode", VOID(ibv_wc_read_opcode(o)))                             \
	X(CQ, PART, "ibv_create_qp", qp_of(o, mine.object[CQ], NULL))                              \
	X(CQ, PART, "ibv_create_qp", qp_of(mine.object[CQ], o, NULL))                              \
	X(CQ, PART, "ibv_create_srq_ex",                                                           \
	  srq_ex_of(mine.object[CONTEXT], mine.object[PD], mine.object[XRCD], o))                  \
	X(CQ, PLAIN, "ibv_destroy_cq", ibv_destroy_cq(o) == EINVAL)                                \
	X(SRQ, OPS, "ibv_post_srq_recv", post_srq_recv(o))                                         \
	X(SRQ, OPS, "ibv_get_srq_num", ibv_get_srq_num(o, &x.number) == EINVAL)                    \
	X(SRQ, PLAIN, "ibv_modify_srq", ibv_modify_srq(o, &x.srq_attr, 0) == EINVAL)               \
	X(SRQ, PLAIN, "ibv_query_srq", ibv_query_srq(o, &x.srq_attr) == EINVAL)                    \
	X(SRQ, PLAIN, "ibv_ack_async_event", ack_async(IBV_EVENT_SRQ_ERR, o))                      \
	X(SRQ, PART, "ibv_create_qp", qp_of(mine.object[CQ], mine.object[CQ], o))                  \
	X(SRQ, PLAIN, "ibv_destroy_srq", ibv_destroy_srq(o) == EINVAL)                             \
	X(QP, OPS, "ibv_post_send", post_send(o))                                                  \
	X(QP, OPS, "ibv_post_recv", post_recv(o))                                                  \
	X(QP, PLAIN, "ibv_modify_qp", ibv_modify_qp(o, &x.qp, IBV_QP_STATE) == EINVAL)             \
	X(QP, PLAIN, "ibv_query_qp", ibv_query_qp(o, &x.qp, 0, &x.init) == EINVAL)                 \
	X(QP, PLAIN, "ibv_attach_mcast", ibv_attach_mcast(o, &x.gid, 0) == EINVAL)                 \
	X(QP, PLAIN, "ibv_detach_mcast", ibv_detach_mcast(o, &x.gid, 0) == EINVAL)                 \
	X(QP, PLAIN, "ibv_query_ece", ibv_query_ece(o, &x.ece) == EINVAL)                          \
	X(QP, PLAIN, "ibv_set_ece", ibv_set_ece(o, &x.ece) == EINVAL)                              \
	X(QP, PLAIN, "ibv_query_qp_data_in_order",                                                 \
	  ibv_query_qp_data_in_order(o, IBV_WR_SEND, 0) == 0)                                      \
	X(QP, PLAIN, "ibv_qp_to_qp_ex", NONE(ibv_qp_to_qp_ex(o)))                                  \
	X(QP, PLAIN, "ibv_ack_async_event", ack_async(IBV_EVENT_COMM_EST, o))                      \
	X(QP, SELF, "ibv_wr_start", VOID(ibv_wr_start(o)))                                         \
	X(QP, SELF, "ibv_wr_*", VOID(ibv_wr_send(o)))                                              \
	X(QP, SELF, "ibv_wr_set_sge", VOID(ibv_wr_set_sge(o, 0, 0, 0)))                            \
	X(QP, SELF, "ibv_wr_set_ud_addr", VOID(ibv_wr_set_ud_addr(o, mine.object[AH], 1, 1)))      \
	X(QP, SELF, "ibv_wr_complete", ibv_wr_complete(o) == EINVAL)                               \
	X(QP, SELF, "ibv_wr_abort", VOID(ibv_wr_abort(o)))                                         \
	X(QP, PLAIN, "ibv_destroy_qp", ibv_destroy_qp(o) == EINVAL)                                \
	X(XRCD, PART, "ibv_create_srq_ex",                                                         \
	  srq_ex_of(mine.object[CONTEXT], mine.object[PD], o, mine.object[CQ]))                    \
	X(XRCD, OPS, "ibv_close_xrcd", ibv_close_xrcd(o) == EINVAL)

static int call(int which, void *o)
{
	int n = 0;

#define TRY(kind, way, name, expression)                                                           \
	if (n++ == which)                                                                          \
		return expression;
	CALLS(TRY)
#undef TRY
	return 0;
}

static const struct {
	enum kind kind;
	enum way way;
	const char *name;
} calls[] = {
#define ROW(kind, way, name, expression) {kind, way, name},
	CALLS(ROW)
#undef ROW
};

#define CALL_COUNT (int)(sizeof calls / sizeof calls[0])

/* ---- objects that are none ------------------------------------------------------------------- */

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
	[DESTROYED] = "was destroyed at set_free+0x",
	[OF_A_DEAD_PROCESS] = "ended with its process",
	[OF_ANOTHER_PROCESS] = "belongs to process 1, not to the caller's process 0",
	[OTHER_KIND] = "; got ",
	[GARBAGE] = "was never a handle",
	[NOTHING] = "handle is NULL",
};

static enum wrong wrong;
static int which;
static bool refused;
static struct set theirs; /* those of the other process */
static shared_u32 made, over;

static bool applies(enum wrong w, int c)
{
	switch (w) {
	case NOTHING:
		return calls[c].way == PLAIN;
	case GARBAGE:
	case OTHER_KIND:
		return calls[c].way != SELF;
	default:
		return true;
	}
}

static void wait_for(const shared_u32 *word)
{
	const struct wait w = {.on = word,
			       .want = 1,
			       .mask = WAIT_MASK_ALL,
			       .kind = WAIT_EQ,
			       .bytes = 4,
			       .why = "the other process (test)",
			       .from = {-1, -1, -1, "test"}};

	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
}

static void other_process(void *set)
{
	set_make(set);
	shared_store_u32(&made, 1, SHARED_RELEASE);
	if (wrong == OF_A_DEAD_PROCESS)
		return;
	wait_for(&over);
	set_free(set);
}

static struct os_thread *other_start(struct os_proc **proc)
{
	const struct os_thread_attr attr = {.name = "the other process", .rank = -1};
	struct os_thread *t;

	shared_store_u32(&made, 0, SHARED_RELAXED);
	shared_store_u32(&over, 0, SHARED_RELAXED);
	ck_assert_int_eq(world_proc_create(0, NULL, proc), 0);
	ck_assert_int_eq(world_thread_start(*proc, &t, &attr, other_process, &theirs), 0);
	wait_for(&made);
	return t;
}

static void *wrong_object(struct set *spare)
{
	enum kind kind = calls[which].kind;

	switch (wrong) {
	case DESTROYED:
		return spare->object[kind];
	case OF_A_DEAD_PROCESS:
	case OF_ANOTHER_PROCESS:
		return theirs.object[kind];
	case OTHER_KIND:
		return mine.object[kind == PD ? MR : PD];
	case GARBAGE:
		memset(memory, 0x5a, sizeof memory);
		*(void **)memory = mine.object[CONTEXT];
		return memory;
	default:
		return NULL;
	}
}

static void use_a_wrong_handle(void)
{
	struct os_thread *t = NULL;
	struct os_proc *proc;
	struct set spare;

	set_make(&mine);
	set_make(&spare);
	if (wrong == DESTROYED)
		set_free(&spare);
	if (wrong == OF_A_DEAD_PROCESS || wrong == OF_ANOTHER_PROCESS)
		t = other_start(&proc);
	if (wrong == OF_A_DEAD_PROCESS) {
		ck_assert_int_eq(os_thread_join(t), 0);
		world_proc_exit(proc);
	}
	errno = 0;
	refused = call(which, wrong_object(&spare));
	if (wrong == OF_ANOTHER_PROCESS) {
		shared_store_u32(&over, 1, SHARED_RELEASE);
		ck_assert_int_eq(os_thread_join(t), 0);
		world_proc_exit(proc);
	}
	if (wrong != DESTROYED)
		set_free(&spare);
	set_free(&mine); /* and nothing of it was harmed */
}

/* Each call alone, in a world of its own. */
static void check_call(enum sim_engine engine)
{
	char line[128];

	if (!applies(wrong, which))
		return;
	bool failed = listen_to(engine, use_a_wrong_handle, NULL);

	snprintf(line, sizeof line, "verbs-bad-handle: %s at ", calls[which].name);
	ck_assert_msg(strstr(logged, line), "case %d of %s logs: %s", wrong, calls[which].name,
		      logged);
	ck_assert_msg(strstr(logged, sentence[wrong]), "case %d of %s logs: %s", wrong,
		      calls[which].name, logged);
	ck_assert_msg(refused, "case %d of %s was not refused", wrong, calls[which].name);
	ck_assert(failed);
}

START_TEST(a_handle_that_is_none_is_refused_and_said)
{
	wrong = (enum wrong)_i;
	for (which = 0; which < CALL_COUNT; which++)
		check_call(SIM_ENGINE_SIM);
}
END_TEST

START_TEST(under_threads_too)
{
	wrong = DESTROYED;
	for (which = 0; which < CALL_COUNT; which += 3)
		check_call(SIM_ENGINE_THREADS);
}
END_TEST

START_TEST(silenced_it_is_refused_all_the_same)
{
	wrong = DESTROYED;
	for (which = 0; which < CALL_COUNT; which += 5) {
		ck_assert(!listen_to(SIM_ENGINE_SIM, use_a_wrong_handle,
				     "DOPPEL_VERBS_CHECK=-bad-handle"));
		ck_assert(refused);
		ck_assert_str_eq(logged, "");
	}
}
END_TEST

/* ---- other ways ------------------------------------------------------------------------------ */

static void destroy_many_more(void)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	struct ibv_cq *cq = ibv_create_cq(h.end[0].ctx, 4, NULL, NULL, 0);

	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	for (int i = 0; i < 63; i++) {
		struct ibv_cq *next = ibv_create_cq(h.end[0].ctx, 4, NULL, NULL, 0);

		ck_assert_ptr_ne(next, cq);
		ck_assert_int_eq(ibv_destroy_cq(next), 0);
	}
	ck_assert_int_eq(ibv_destroy_cq(cq), EINVAL);
	vh_free(&h);
}

START_TEST(it_is_known_for_a_while)
{
	ck_assert(listen_to(SIM_ENGINE_SIM, destroy_many_more, NULL));
	ck_assert_ptr_nonnull(strstr(logged, "was destroyed at destroy_many_more+0x"));
}
END_TEST

static int distinct;

static void make_and_destroy(void)
{
	static void *seen[512];
	struct vh h;

	distinct = 0;
	vh_make(&h, &vh_defaults);
	for (int i = 0; i < 3000; i++) {
		void *mr = ibv_reg_mr(h.end[0].pd, memory, 64, 0);
		int k = 0;

		while (k < distinct && seen[k] != mr)
			k++;
		if (k == distinct && distinct < 512)
			seen[distinct++] = mr;
		ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	}
	vh_free(&h);
}

START_TEST(the_memory_of_those_that_ended_is_bounded)
{
	ck_assert(!listen_to(SIM_ENGINE_SIM, make_and_destroy, NULL));
	ck_assert_int_lt(distinct, 100);
}
END_TEST

static struct ibv_qp *old;

static void leave_one(void)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	old = h.end[0].qp;
}

static void use_the_old_one(void)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	refused = ibv_post_recv(old, &x.recv, &x.bad_recv) == EINVAL;
	vh_free(&h);
}

START_TEST(an_object_of_an_earlier_world_is_none)
{
	listen_to(SIM_ENGINE_SIM, leave_one, NULL);
	ck_assert(listen_to(SIM_ENGINE_SIM, use_the_old_one, NULL));
	ck_assert(refused);
	ck_assert_ptr_nonnull(strstr(logged, "ibv_post_recv at use_the_old_one+0x"));
	ck_assert_ptr_nonnull(strstr(logged, "ended with its process"));
}
END_TEST

static void open_too_late(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device *d = list[0];
	const char *name = ibv_get_device_name(d);

	ck_assert_ptr_nonnull(name);
	ibv_free_device_list(list);
	errno = 0;
	refused = NONE(ibv_open_device(d)) && !ibv_get_device_name(d) &&
		  ibv_get_device_index(d) == -1 && !ibv_get_device_guid(d) &&
		  !ibv_get_device_name(NULL);
}

START_TEST(a_device_whose_list_was_freed_is_none)
{
	ck_assert(listen_to(SIM_ENGINE_SIM, open_too_late, NULL));
	ck_assert(refused);
	ck_assert_ptr_nonnull(
		strstr(logged, "verbs-bad-handle: ibv_open_device at open_too_late+0x"));
	ck_assert_ptr_nonnull(
		strstr(logged, "ended with the last list and context (open_too_late+0x"));
	ck_assert_ptr_nonnull(strstr(logged, "verbs-bad-handle: ibv_get_device_guid at "));
}
END_TEST

static void wait_at_a_closed_context(void)
{
	struct ibv_async_event e;
	struct ibv_context *c = vh_open(0);

	ck_assert_int_eq(ibv_close_device(c), 0);
	errno = 0;
	refused = ibv_get_async_event(c, &e) == -1 && errno == ENODEV;
}

static void wait_at_no_context(void)
{
	struct ibv_async_event e;
	struct ibv_context *c = vh_open(0);

	refused = MINUS(ibv_get_async_event((struct ibv_context *)memory, &e)) &&
		  MINUS(ibv_get_async_event(NULL, &e));
	ck_assert_int_eq(ibv_close_device(c), 0);
}

/* A thread that waits for events learns so that the device was closed: no mistake. */
START_TEST(events_of_a_closed_context_end)
{
	ck_assert(!listen_to(SIM_ENGINE_SIM, wait_at_a_closed_context, NULL));
	ck_assert(refused);
	ck_assert_str_eq(logged, "");
	ck_assert(listen_to(SIM_ENGINE_SIM, wait_at_no_context, NULL));
	ck_assert(refused);
	ck_assert_ptr_nonnull(strstr(logged, "verbs-bad-handle: ibv_get_async_event at "));
}
END_TEST

/* ---- in requests ----------------------------------------------------------------------------- */

static void send_to_an_address_that_ended(void)
{
	struct ud u;
	struct vh_wr w;

	ud_make(&u);
	ck_assert_int_eq(ibv_destroy_ah(u.ah), 0);
	vh_wr_fill(&w, &u.h, 0, IBV_WR_SEND, 2, 0, 8);
	w.wr.wr.ud.ah = u.ah;
	w.wr.wr.ud.remote_qpn = u.qp[1]->qp_num;
	refused = vh_post(u.qp[0], &w.wr) == EINVAL;
	u.ah = NULL;
	ud_free(&u);
}

/* What it is bound to, or the window itself, is gone. */
static bool window;

static void bind_what_ended(void)
{
	struct vh h;

	vh_pair(&h, &vh_defaults);
	struct ibv_mw *mw = ibv_alloc_mw(h.end[0].pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr =
		ibv_reg_mr(h.end[0].pd, memory, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {.mw = mw,
			    .rkey = ibv_inc_rkey(mw->rkey),
			    .bind_info = {.mr = mr, .addr = (uintptr_t)memory, .length = 64}}};

	ck_assert_int_eq(window ? ibv_dealloc_mw(mw) : ibv_dereg_mr(mr), 0);
	refused = vh_post(h.end[0].qp, &wr) == EINVAL;
	ck_assert_int_eq(window ? ibv_dereg_mr(mr) : ibv_dealloc_mw(mw), 0);
	vh_free(&h);
}

START_TEST(a_request_that_names_what_ended_is_refused)
{
	ck_assert(listen_to(SIM_ENGINE_SIM, send_to_an_address_that_ended, NULL));
	ck_assert(refused);
	ck_assert_ptr_nonnull(strstr(logged, "was destroyed at send_to_an_address_that_ended+0x"));
	for (int i = 0; i < 2; i++) {
		window = i;
		ck_assert(listen_to(SIM_ENGINE_SIM, bind_what_ended, NULL));
		ck_assert(refused);
		ck_assert_ptr_nonnull(strstr(logged, "was destroyed at bind_what_ended+0x"));
		ck_assert_ptr_nonnull(strstr(logged, window ? "memory window" : "memory region"));
	}
}
END_TEST

/* ---- of another context ---------------------------------------------------------------------- */

static void mix_contexts(void)
{
	struct set other;

	set_make(&mine);
	set_make(&other);
	struct ibv_xrcd *xrcd = other.object[XRCD];

	errno = 0;
	refused = qp_of(other.object[CQ], mine.object[CQ], NULL) &&
		  qp_of(mine.object[CQ], other.object[CQ], NULL) &&
		  qp_of(mine.object[CQ], mine.object[CQ], other.object[SRQ]) &&
		  parent_of(other.object[PD], NULL) &&
		  parent_of(mine.object[PD], other.object[TD]) &&
		  srq_ex_of(mine.object[CONTEXT], other.object[PD], mine.object[XRCD],
			    mine.object[CQ]) &&
		  srq_ex_of(mine.object[CONTEXT], mine.object[PD], xrcd, mine.object[CQ]) &&
		  srq_ex_of(mine.object[CONTEXT], mine.object[PD], mine.object[XRCD],
			    other.object[CQ]) &&
		  NONE(ibv_create_cq(mine.object[CONTEXT], 4, NULL, other.object[CHANNEL], 0)) &&
		  ibv_rereg_mr(mine.object[MR], IBV_REREG_MR_CHANGE_PD, other.object[PD], NULL, 0,
			       0) == IBV_REREG_MR_ERR_INPUT;
	set_free(&other);
	set_free(&mine);
}

/* The call fails: a line, and the run goes on. */
START_TEST(parts_of_another_context_are_refused)
{
	static const char *const parts[] = {
		"ibv_create_qp at qp_of+0x",         "ibv_alloc_parent_domain at parent_of+0x",
		"ibv_create_srq_ex at srq_ex_of+0x", "ibv_create_cq at mix_contexts+0x",
		"ibv_rereg_mr at mix_contexts+0x",
	};

	ck_assert_msg(!listen_to(SIM_ENGINE_SIM, mix_contexts, NULL), "%s", logged);
	ck_assert_msg(refused, "%s", logged);
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		char line[96];

		snprintf(line, sizeof line, "verbs-wrong-domain: %s", parts[i]);
		ck_assert_msg(strstr(logged, line), "no '%s' in: %s", line, logged);
	}
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("handle");

	tcase_add_loop_test(t, a_handle_that_is_none_is_refused_and_said, 0, WRONGS);
	tcase_add_test(t, under_threads_too);
	tcase_add_test(t, silenced_it_is_refused_all_the_same);
	tcase_add_test(t, it_is_known_for_a_while);
	tcase_add_test(t, the_memory_of_those_that_ended_is_bounded);
	tcase_add_test(t, an_object_of_an_earlier_world_is_none);
	tcase_add_test(t, a_device_whose_list_was_freed_is_none);
	tcase_add_test(t, events_of_a_closed_context_end);
	tcase_add_test(t, a_request_that_names_what_ended_is_refused);
	tcase_add_test(t, parts_of_another_context_are_refused);
	return vh_suite_run("verbs handle", t);
}
