/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits that ibv_query_device reports can be reached: each kind of object alone, with queues
 * smaller than the largest; and the size of a single queue. The memory of destroyed queues serves
 * queues of other sizes. Messages still arrive when all memory is used. */
#include <errno.h>

#include "dropin/tests/library/side.h"

enum { MOST = 131072, CQ_ENTRIES = 4000 };

static struct side side;
static struct ibv_device_attr limits;
static void *made[MOST + 1];

static int cq_entries, qp_entries;

static void *make_cq(void)
{
	return ibv_create_cq(side.ctx, cq_entries, NULL, NULL, 0);
}
static int end_cq(void *cq)
{
	return ibv_destroy_cq(cq);
}
static void *make_qp(void)
{
	uint32_t entries = (uint32_t)qp_entries;
	struct ibv_qp_init_attr a = {.send_cq = side.cq,
				     .recv_cq = side.cq,
				     .cap = {entries, entries, 1, 1, 0},
				     .qp_type = IBV_QPT_RC};

	return ibv_create_qp(side.pd, &a);
}
static int end_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}
static void *make_srq(void)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 1, .max_sge = 1}};

	return ibv_create_srq(side.pd, &a);
}
static int end_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}
static void *make_mr(void)
{
	return ibv_reg_mr(side.pd, side.buffer, 64, IBV_ACCESS_LOCAL_WRITE);
}
static int end_mr(void *mr)
{
	return ibv_dereg_mr(mr);
}
static void *make_mw(void)
{
	return ibv_alloc_mw(side.pd, IBV_MW_TYPE_2);
}
static int end_mw(void *mw)
{
	return ibv_dealloc_mw(mw);
}
static void *make_pd(void)
{
	return ibv_alloc_pd(side.ctx);
}
static int end_pd(void *pd)
{
	return ibv_dealloc_pd(pd);
}
static void *make_ah(void)
{
	struct ibv_ah_attr a = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = side.gid, .sgid_index = GID}};

	return ibv_create_ah(side.pd, &a);
}
static int end_ah(void *ah)
{
	return ibv_destroy_ah(ah);
}

/* Creates objects until a call fails. Returns their number; they are in `made`. */
static int fill(void *(*make)(void), int most)
{
	int n = 0;

	errno = 0;
	while (n < most && (made[n] = make()))
		n++;
	need(n == most || errno == ENOMEM, "one too many is ENOMEM");
	return n;
}

static void empty(int (*end)(void *), int n)
{
	while (n--)
		need(!end(made[n]), "it ends");
}

/* Checks a limit. `mine`: the number of such objects that the test already has. */
static void limit_holds(const char *what, int limit, int mine, void *(*make)(void),
			int (*end)(void *))
{
	need(limit > mine && limit <= MOST, what);
	int n = fill(make, limit - mine);

	printf("%s: %d of %d\n", what, n + mine, limit);
	need(n + mine == limit, what);
	empty(end, n);
}

/* An HCA that has reached its limit does not affect the others. */
static void regions_of_another_hca(void)
{
	struct side other;
	int n = fill(make_mr, limits.max_mr - 1);

	need(n == limits.max_mr - 1 && !make_mr() && errno == ENOMEM, "no region is left");
	side_open(&other, 1);
	need(!ibv_dereg_mr(other.mr) && !ibv_destroy_cq(other.cq), "they end");
	need(!ibv_dealloc_pd(other.pd) && !ibv_close_device(other.ctx), "they end");
	free(other.buffer);
	empty(end_mr, n);
}

/* ---- with all memory used ------------------------------------------------------------------- */

static void message_arrives(void)
{
	struct ibv_sge sge = {(uintptr_t)side.buffer, BYTES, side.mr->lkey};
	struct ibv_send_wr *bad_send, send = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_recv_wr *bad_recv, receive = {.sg_list = &sge, .num_sge = 1};
	struct ibv_wc wc;

	need(!ibv_post_recv(side.qp, &receive, &bad_recv), "a receive");
	need(!ibv_post_send(side.qp, &send, &bad_send), "a send");
	for (int n = 0; n < 2; n++) {
		while (!ibv_poll_cq(side.cq, 1, &wc))
			;
		need(wc.status == IBV_WC_SUCCESS, "a message arrives");
	}
}

/* Uses all memory with large rings, then with small ones. */
static void all_taken(void)
{
	int large, small;

	cq_entries = limits.max_cqe;
	large = fill(make_cq, MOST);
	need(large > 0, "a completion queue of the largest size");
	message_arrives();
	empty(end_cq, large);

	qp_entries = limits.max_qp_wr;
	small = fill(make_qp, MOST);
	need(small > 0, "a queue pair with queues of the largest size");
	message_arrives();
	empty(end_qp, small);

	cq_entries = limits.max_cqe;
	need(fill(make_cq, MOST) == large, "as many large queues as before fit again");
	empty(end_cq, large);
}

int main(void)
{
	side_fabric("limits");
	alarm(0);                                 /* ctest has a limit */
	setenv("DOPPEL_HCA_FAST_PATH", "off", 1); /* packet path */
	side_open(&side, 0);
	side_qp(&side);

	struct card me = side_card(&side);

	side_connect(&side, &me);
	need(!ibv_query_device(side.ctx, &limits), "what there can be");
	limit_holds("protection domains", limits.max_pd, 1, make_pd, end_pd);
	limit_holds("regions", limits.max_mr, 1, make_mr, end_mr);
	regions_of_another_hca();
	limit_holds("address handles", limits.max_ah, 0, make_ah, end_ah);
	limit_holds("shared receive queues", limits.max_srq, 0, make_srq, end_srq);
	cq_entries = CQ_ENTRIES;
	limit_holds("completion queues", limits.max_cq, 1, make_cq, end_cq);
	qp_entries = 16;
	limit_holds("queue pairs", limits.max_qp, 1, make_qp, end_qp);
	/* in this order: deregistering a region scans all queue pairs ever created, and destroying
	 * queue pairs scans all windows */
	limit_holds("windows", limits.max_mw, 0, make_mw, end_mw);
	all_taken();
	return 0;
}
