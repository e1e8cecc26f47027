/* SPDX-License-Identifier: BSD-3-Clause */
/* Every call of libibverbs that takes a handle, and one object of each kind (world_handles.h). */
#include <fcntl.h>

#include "tests/conformance/verbs/world/world_handles.h"

#undef ibv_reg_mr
#undef ibv_query_port

/* ---- one object of each kind ----------------------------------------------------------------- */

struct handle_set handle_mine;
uint8_t handle_memory[8192] __attribute__((aligned(4096)));

static struct ibv_qp *set_qp(struct handle_set *s)
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

void handle_set_make(struct handle_set *s)
{
	struct ibv_context *c = vs_open(0);
	struct ibv_td_init_attr td = {0};
	struct ibv_cq_init_attr_ex cq = {.cqe = 16};
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_xrcd_init_attr xrcd = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 3}};

	CHECK_EQ(ibv_query_gid(c, 1, 3, &ah.grh.dgid), 0);
	s->object[CONTEXT] = c;
	s->object[PD] = ibv_alloc_pd(c);
	s->object[TD] = ibv_alloc_td(c, &td);
	s->object[MR] = ibv_reg_mr(s->object[PD], handle_memory, sizeof handle_memory,
				   IBV_ACCESS_LOCAL_WRITE);
	s->object[MW] = ibv_alloc_mw(s->object[PD], IBV_MW_TYPE_1);
	s->object[AH] = ibv_create_ah(s->object[PD], &ah);
	s->object[CHANNEL] = ibv_create_comp_channel(c);
	s->object[CQ] = ibv_create_cq_ex(c, &cq);
	s->object[SRQ] = ibv_create_srq(s->object[PD], &srq);
	s->object[QP] = set_qp(s);
	s->object[XRCD] = ibv_open_xrcd(c, &xrcd);
	for (int i = 0; i < KINDS; i++)
		CHECK_MSG(s->object[i] != NULL, "object %d", i);
}

void handle_set_free(struct handle_set *s)
{
	CHECK_EQ(ibv_close_xrcd(s->object[XRCD]), 0);
	CHECK_EQ(ibv_destroy_qp(s->object[QP]), 0);
	CHECK_EQ(ibv_destroy_srq(s->object[SRQ]), 0);
	CHECK_EQ(ibv_destroy_cq(s->object[CQ]), 0);
	CHECK_EQ(ibv_destroy_comp_channel(s->object[CHANNEL]), 0);
	CHECK_EQ(ibv_destroy_ah(s->object[AH]), 0);
	CHECK_EQ(ibv_dealloc_mw(s->object[MW]), 0);
	CHECK_EQ(ibv_dereg_mr(s->object[MR]), 0);
	CHECK_EQ(ibv_dealloc_td(s->object[TD]), 0);
	CHECK_EQ(ibv_dealloc_pd(s->object[PD]), 0);
	CHECK_EQ(ibv_close_device(s->object[CONTEXT]), 0);
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* Arguments of the calls below. */
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

#define VOID(handle_call) ((handle_call), 1)

int handle_parent_of(void *pd, void *td)
{
	struct ibv_parent_domain_init_attr a = {.pd = pd, .td = td};

	return HANDLE_NONE(ibv_alloc_parent_domain(handle_mine.object[CONTEXT], &a));
}

int handle_qp_of(void *send, void *recv, void *srq)
{
	struct ibv_qp_init_attr a = {.send_cq = send,
				     .recv_cq = recv,
				     .srq = srq,
				     .cap = {1, 1, 1, 1, 0},
				     .qp_type = IBV_QPT_RC};

	return HANDLE_NONE(ibv_create_qp(handle_mine.object[PD], &a));
}

static int qp_ex_of(void *context)
{
	struct ibv_qp_init_attr_ex a = {.send_cq = handle_mine.object[CQ],
					.recv_cq = handle_mine.object[CQ],
					.cap = {1, 1, 1, 1, 0},
					.qp_type = IBV_QPT_RC,
					.comp_mask = IBV_QP_INIT_ATTR_PD |
						     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					.pd = handle_mine.object[PD]};

	return HANDLE_NONE(ibv_create_qp_ex(context, &a));
}

int handle_srq_ex_of(void *context, void *pd, void *xrcd, void *cq)
{
	struct ibv_srq_init_attr_ex a = {.attr = {.max_wr = 4, .max_sge = 1},
					 .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
						      IBV_SRQ_INIT_ATTR_PD |
						      IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					 .srq_type = IBV_SRQT_XRC,
					 .pd = pd,
					 .xrcd = xrcd,
					 .cq = cq};

	return HANDLE_NONE(ibv_create_srq_ex(context, &a));
}

static int xrcd_of(void *context)
{
	struct ibv_xrcd_init_attr a = {.comp_mask =
					       IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .fd = -1,
				       .oflags = O_CREAT};

	return HANDLE_NONE(ibv_open_xrcd(context, &a));
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

/* Kind, way, the name in the report, the call: was it refused as it should be? */
#define CALLS(X)                                                                                   \
	X(CONTEXT, PLAIN, "ibv_query_device", ibv_query_device(o, &x.device) == EINVAL)            \
	X(CONTEXT, PLAIN, "ibv_query_port", ibv_query_port(o, 1, (void *)&x.port) == EINVAL)       \
	X(CONTEXT, PLAIN, "ibv_query_gid", HANDLE_MINUS(ibv_query_gid(o, 1, 0, &x.gid)))           \
	X(CONTEXT, PLAIN, "ibv_query_gid_ex", ibv_query_gid_ex(o, 1, 0, &x.entry, 0) == EINVAL)    \
	X(CONTEXT, PLAIN, "ibv_query_gid_table",                                                   \
	  ibv_query_gid_table(o, &x.entry, 1, 0) == -EINVAL)                                       \
	X(CONTEXT, PLAIN, "ibv_query_pkey", HANDLE_MINUS(ibv_query_pkey(o, 1, 0, &x.pkey)))        \
	X(CONTEXT, PLAIN, "ibv_get_pkey_index", HANDLE_MINUS(ibv_get_pkey_index(o, 1, 0xffff)))    \
	X(CONTEXT, PLAIN, "ibv_alloc_pd", HANDLE_NONE(ibv_alloc_pd(o)))                            \
	X(CONTEXT, PLAIN, "ibv_create_cq", HANDLE_NONE(ibv_create_cq(o, 4, NULL, NULL, 0)))        \
	X(CONTEXT, PLAIN, "ibv_create_comp_channel", HANDLE_NONE(ibv_create_comp_channel(o)))      \
	X(CONTEXT, PLAIN, "ibv_init_ah_from_wc",                                                   \
	  HANDLE_MINUS(ibv_init_ah_from_wc(o, 1, &x.wc, &x.grh, &x.ah)))                           \
	X(CONTEXT, SELF, "ibv_create_cq_ex", HANDLE_NONE(ibv_create_cq_ex(o, &x.cq_ex)))           \
	X(CONTEXT, SELF, "ibv_create_qp_ex", qp_ex_of(o))                                          \
	X(CONTEXT, SELF, "ibv_create_srq_ex",                                                      \
	  handle_srq_ex_of(o, handle_mine.object[PD], handle_mine.object[XRCD],                    \
			   handle_mine.object[CQ]))                                                \
	X(CONTEXT, SELF, "ibv_alloc_td", HANDLE_NONE(ibv_alloc_td(o, &x.td)))                      \
	X(CONTEXT, SELF, "ibv_open_xrcd", xrcd_of(o))                                              \
	X(CONTEXT, SELF, "ibv_open_qp", HANDLE_NONE(ibv_open_qp(o, &x.open)))                      \
	X(CONTEXT, SELF, "ibv_query_rt_values_ex", ibv_query_rt_values_ex(o, &x.values) == EINVAL) \
	X(CONTEXT, PLAIN, "ibv_close_device", ibv_close_device(o) == EINVAL)                       \
	X(PD, PLAIN, "ibv_reg_mr", HANDLE_NONE(ibv_reg_mr(o, handle_memory, 64, 0)))               \
	X(PD, PLAIN, "ibv_reg_dmabuf_mr", HANDLE_NONE(ibv_reg_dmabuf_mr(o, 0, 64, 0, -1, 0)))      \
	X(PD, OPS, "ibv_alloc_null_mr", HANDLE_NONE(ibv_alloc_null_mr(o)))                         \
	X(PD, OPS, "ibv_advise_mr",                                                                \
	  ibv_advise_mr(o, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &x.sge, 1) == EINVAL)                 \
	X(PD, OPS, "ibv_alloc_mw", HANDLE_NONE(ibv_alloc_mw(o, IBV_MW_TYPE_1)))                    \
	X(PD, PLAIN, "ibv_create_qp", HANDLE_NONE(ibv_create_qp(o, &x.init)))                      \
	X(PD, PLAIN, "ibv_create_srq", HANDLE_NONE(ibv_create_srq(o, &x.srq)))                     \
	X(PD, PLAIN, "ibv_create_ah", HANDLE_NONE(ibv_create_ah(o, &x.ah)))                        \
	X(PD, PLAIN, "ibv_create_ah_from_wc",                                                      \
	  HANDLE_NONE(ibv_create_ah_from_wc(o, &x.wc, &x.grh, 1)))                                 \
	X(PD, PART, "ibv_alloc_parent_domain", handle_parent_of(o, NULL))                          \
	X(PD, PART, "ibv_rereg_mr",                                                                \
	  ibv_rereg_mr(handle_mine.object[MR], IBV_REREG_MR_CHANGE_PD, o, NULL, 0, 0) ==           \
		  IBV_REREG_MR_ERR_INPUT)                                                          \
	X(PD, PART, "ibv_create_srq_ex",                                                           \
	  handle_srq_ex_of(handle_mine.object[CONTEXT], o, handle_mine.object[XRCD],               \
			   handle_mine.object[CQ]))                                                \
	X(PD, PLAIN, "ibv_dealloc_pd", ibv_dealloc_pd(o) == EINVAL)                                \
	X(TD, PART, "ibv_alloc_parent_domain", handle_parent_of(handle_mine.object[PD], o))        \
	X(TD, OPS, "ibv_dealloc_td", ibv_dealloc_td(o) == EINVAL)                                  \
	X(MR, PLAIN, "ibv_rereg_mr",                                                               \
	  ibv_rereg_mr(o, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT) \
	X(MR, PLAIN, "ibv_dereg_mr", ibv_dereg_mr(o) == EINVAL)                                    \
	X(MW, SELF, "ibv_bind_mw", ibv_bind_mw(handle_mine.object[QP], o, &x.bind) == EINVAL)      \
	X(MW, OPS, "ibv_dealloc_mw", ibv_dealloc_mw(o) == EINVAL)                                  \
	X(AH, PLAIN, "ibv_destroy_ah", ibv_destroy_ah(o) == EINVAL)                                \
	X(CHANNEL, PLAIN, "ibv_get_cq_event",                                                      \
	  HANDLE_MINUS(ibv_get_cq_event(o, &x.event_cq, &x.event_context)))                        \
	X(CHANNEL, PART, "ibv_create_cq",                                                          \
	  HANDLE_NONE(ibv_create_cq(handle_mine.object[CONTEXT], 4, NULL, o, 0)))                  \
	X(CHANNEL, PLAIN, "ibv_destroy_comp_channel", ibv_destroy_comp_channel(o) == EINVAL)       \
	X(CQ, OPS, "ibv_poll_cq", HANDLE_MINUS(ibv_poll_cq(o, 1, &x.wc)))                          \
	X(CQ, OPS, "ibv_req_notify_cq", ibv_req_notify_cq(o, 0) == EINVAL)                         \
	X(CQ, OPS, "ibv_modify_cq", ibv_modify_cq(o, &x.cq) == EINVAL)                             \
	X(CQ, PLAIN, "ibv_resize_cq", ibv_resize_cq(o, 4) == EINVAL)                               \
	X(CQ, PLAIN, "ibv_ack_cq_events", VOID(ibv_ack_cq_events(o, 0)))                           \
	X(CQ, PLAIN, "ibv_ack_async_event", ack_async(IBV_EVENT_CQ_ERR, o))                        \
	X(CQ, SELF, "ibv_start_poll", ibv_start_poll(o, &x.poll) == EINVAL)                        \
	X(CQ, SELF, "ibv_next_poll", ibv_next_poll(o) == EINVAL)                                   \
	X(CQ, SELF, "ibv_end_poll", VOID(ibv_end_poll(o)))                                         \
	X(CQ, SELF, "ibv_wc_read_opcode", VOID(ibv_wc_read_opcode(o)))                             \
	X(CQ, PART, "ibv_create_qp", handle_qp_of(o, handle_mine.object[CQ], NULL))                \
	X(CQ, PART, "ibv_create_qp", handle_qp_of(handle_mine.object[CQ], o, NULL))                \
	X(CQ, PART, "ibv_create_srq_ex",                                                           \
	  handle_srq_ex_of(handle_mine.object[CONTEXT], handle_mine.object[PD],                    \
			   handle_mine.object[XRCD], o))                                           \
	X(CQ, PLAIN, "ibv_destroy_cq", ibv_destroy_cq(o) == EINVAL)                                \
	X(SRQ, OPS, "ibv_post_srq_recv", post_srq_recv(o))                                         \
	X(SRQ, OPS, "ibv_get_srq_num", ibv_get_srq_num(o, &x.number) == EINVAL)                    \
	X(SRQ, PLAIN, "ibv_modify_srq", ibv_modify_srq(o, &x.srq_attr, 0) == EINVAL)               \
	X(SRQ, PLAIN, "ibv_query_srq", ibv_query_srq(o, &x.srq_attr) == EINVAL)                    \
	X(SRQ, PLAIN, "ibv_ack_async_event", ack_async(IBV_EVENT_SRQ_ERR, o))                      \
	X(SRQ, PART, "ibv_create_qp",                                                              \
	  handle_qp_of(handle_mine.object[CQ], handle_mine.object[CQ], o))                         \
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
	X(QP, PLAIN, "ibv_qp_to_qp_ex", HANDLE_NONE(ibv_qp_to_qp_ex(o)))                           \
	X(QP, PLAIN, "ibv_ack_async_event", ack_async(IBV_EVENT_COMM_EST, o))                      \
	X(QP, SELF, "ibv_wr_start", VOID(ibv_wr_start(o)))                                         \
	X(QP, SELF, "ibv_wr_*", VOID(ibv_wr_send(o)))                                              \
	X(QP, SELF, "ibv_wr_set_sge", VOID(ibv_wr_set_sge(o, 0, 0, 0)))                            \
	X(QP, SELF, "ibv_wr_set_ud_addr",                                                          \
	  VOID(ibv_wr_set_ud_addr(o, handle_mine.object[AH], 1, 1)))                               \
	X(QP, SELF, "ibv_wr_complete", ibv_wr_complete(o) == EINVAL)                               \
	X(QP, SELF, "ibv_wr_abort", VOID(ibv_wr_abort(o)))                                         \
	X(QP, PLAIN, "ibv_destroy_qp", ibv_destroy_qp(o) == EINVAL)                                \
	X(XRCD, PART, "ibv_create_srq_ex",                                                         \
	  handle_srq_ex_of(handle_mine.object[CONTEXT], handle_mine.object[PD], o,                 \
			   handle_mine.object[CQ]))                                                \
	X(XRCD, OPS, "ibv_close_xrcd", ibv_close_xrcd(o) == EINVAL)

int handle_call(int which, void *o)
{
	int n = 0;

#define TRY(kind, way, name, expression)                                                           \
	if (n++ == which)                                                                          \
		return expression;
	CALLS(TRY)
#undef TRY
	return 0;
}

const struct handle_call_row handle_calls[] = {
#define ROW(kind, way, name, expression) {kind, way, name},
	CALLS(ROW)
#undef ROW
};

const int handle_call_count = (int)ARRAY_LEN(handle_calls);
