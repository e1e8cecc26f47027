/* SPDX-License-Identifier: BSD-3-Clause */
/* One of the two processes of kill_peers: posts requests and checks their completions. */
#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dropin/tests/killed/kill_peers.h"

enum {
	DEPTH = DEPTH_MAX,
	RECEIVES = 64, /* posted at any time */
	SLOT = 65536,  /* most bytes of one request */
	RECV_SLOT = 8192,
	/* sequence number at the start of a message, and again at its end */
	HEAD = 2 * sizeof(uint64_t),
	QPN_PSN = 0x1234,
};

struct peer {
	int me;
	uint64_t rng;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	/* landing: target of the peer's writes and reads */
	uint8_t *memory, *sends, *landing, *receives;
	uint64_t head, done; /* numbers of sends posted and completed */
	uint64_t post_ns[DEPTH];
	uint64_t clear_ns;             /* every completion up to this time was polled */
	uint64_t sent;                 /* messages that consume a receive */
	uint64_t recv_head, recv_done; /* numbers of receives posted and completed */
	uint64_t arrived;              /* number of messages */
	bool may_stop;                 /* the peer may be stopped for a while before it is killed */
	bool failed;
};

static void wrong(struct peer *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));
static void wrong(struct peer *p, const char *fmt, ...)
{
	struct result *r = &shared->result[p->me];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->wrong, sizeof r->wrong, fmt, ap);
	va_end(ap);
	_exit(1);
}

#define NEED(p, ok, what)                                                                          \
	do {                                                                                       \
		if (!(ok))                                                                         \
			wrong(p, "%s: %s (errno %d)", what, #ok, errno);                           \
	} while (0)

static void peer_open(struct peer *p)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	NEED(p, list && list[0], "devices");
	p->context = ibv_open_device(list[0]);
	NEED(p, p->context, "ibv_open_device");
	ibv_free_device_list(list);
	p->pd = ibv_alloc_pd(p->context);
	NEED(p, p->pd, "ibv_alloc_pd");
}

/* Allocates and registers the memory, in whole pages: sends, the peer's landing area, receives. The
 * landing area starts with a word for atomics. */
static void peer_memory(struct peer *p)
{
	const size_t bytes = (size_t)DEPTH * SLOT + SLOT + (size_t)RECEIVES * RECV_SLOT;
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	const int shareable = shared->style.unaligned ? MAP_SHARED : MAP_PRIVATE;

	p->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, shareable | MAP_ANONYMOUS, -1, 0);
	NEED(p, p->memory != MAP_FAILED, "mmap");
	p->sends = p->memory;
	p->landing = p->sends + (size_t)DEPTH * SLOT;
	p->receives = p->landing + SLOT;
	p->mr = ibv_reg_mr(p->pd, p->memory, bytes, access);
	NEED(p, p->mr, "ibv_reg_mr");
}

static void peer_queues(struct peer *p)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = RECEIVES, .max_sge = 2}};

	if (shared->style.events) {
		p->channel = ibv_create_comp_channel(p->context);
		NEED(p, p->channel, "ibv_create_comp_channel");
	}
	p->send_cq = ibv_create_cq(p->context, 2 * DEPTH, NULL, p->channel, 0);
	p->recv_cq = ibv_create_cq(p->context, 2 * RECEIVES, NULL, p->channel, 0);
	NEED(p, p->send_cq && p->recv_cq, "ibv_create_cq");
	if (shared->style.srq) {
		p->srq = ibv_create_srq(p->pd, &srq);
		NEED(p, p->srq, "ibv_create_srq");
	}
	struct ibv_qp_init_attr a = {.send_cq = p->send_cq,
				     .recv_cq = p->recv_cq,
				     .srq = p->srq,
				     .cap = {.max_send_wr = DEPTH,
					     .max_recv_wr = RECEIVES,
					     .max_send_sge = 2,
					     .max_recv_sge = 2},
				     .qp_type = IBV_QPT_RC,
				     .sq_sig_all = 1};

	p->qp = ibv_create_qp(p->pd, &a);
	NEED(p, p->qp, "ibv_create_qp");
}

static void peer_init(struct peer *p)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						   IBV_ACCESS_REMOTE_READ |
						   IBV_ACCESS_REMOTE_ATOMIC};

	NEED(p,
	     !ibv_modify_qp(p->qp, &a,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "to INIT");
}

static void peer_connect(struct peer *p, const struct address *to)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qpn,
		.rq_psn = QPN_PSN,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = to->gid, .sgid_index = 0, .hop_limit = 64}}};

	NEED(p,
	     !ibv_modify_qp(p->qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "to RTR");
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = QPN_PSN;
	a.timeout = (uint8_t)shared->style.timeout;
	a.retry_cnt = (uint8_t)shared->style.retry_cnt;
	a.rnr_retry = 7;
	a.max_rd_atomic = 4;
	NEED(p,
	     !ibv_modify_qp(p->qp, &a,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "to RTS");
}

/* ---- receives ------------------------------------------------------------------------------- */

static void peer_post_recv(struct peer *p)
{
	uint64_t n = p->recv_head++;
	struct ibv_sge sge = {.addr = (uintptr_t)(p->receives + n % RECEIVES * RECV_SLOT),
			      .length = RECV_SLOT,
			      .lkey = p->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = n, .sg_list = &sge, .num_sge = 1};
	int rc = p->srq ? ibv_post_srq_recv(p->srq, &wr, &bad) : ibv_post_recv(p->qp, &wr, &bad);

	if (rc == ETIMEDOUT && p->may_stop)
		p->recv_head--;
	else if (rc)
		wrong(p, "receive %llu: %s", (unsigned long long)n, strerror(rc));
}

/* Checks a message's number at its start and its end, or in the immediate data. */
static void peer_received(struct peer *p, const struct ibv_wc *wc)
{
	const uint8_t *at = p->receives + wc->wr_id % RECEIVES * RECV_SLOT;
	uint64_t number = p->arrived++, front, end;

	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		if (be32toh(wc->imm_data) != (uint32_t)number)
			wrong(p, "message %llu has in its immediate data that it is %u",
			      (unsigned long long)number, be32toh(wc->imm_data));
		return;
	}
	memcpy(&front, at, sizeof front);
	memcpy(&end, at + wc->byte_len - sizeof end, sizeof end);
	if (front != number || end != number)
		wrong(p, "message %llu of %u bytes has that it is %llu, and at its end %llu",
		      (unsigned long long)number, wc->byte_len, (unsigned long long)front,
		      (unsigned long long)end);
}

static void peer_recv_completed(struct peer *p, const struct ibv_wc *wc)
{
	if (wc->wr_id != p->recv_done)
		wrong(p, "receive %llu completes (%s), and the next is %llu",
		      (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status),
		      (unsigned long long)p->recv_done);
	p->recv_done++;
	if (wc->status == IBV_WC_SUCCESS)
		peer_received(p, wc);
	else if (wc->status != IBV_WC_WR_FLUSH_ERR)
		wrong(p, "receive %llu: %s", (unsigned long long)wc->wr_id,
		      ibv_wc_status_str(wc->status));
	while (!p->failed && p->recv_head - p->recv_done < RECEIVES) {
		uint64_t before = p->recv_head;

		peer_post_recv(p);
		if (p->recv_head == before)
			break;
	}
}

/* ---- sends ---------------------------------------------------------------------------------- */

/* Posts a random request. Returns false if it cannot now, because the peer was stopped inside a
 * call that concerns this process. */
static bool peer_post(struct peer *p)
{
	static const enum ibv_wr_opcode kind[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						  IBV_WR_SEND, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD};
	const struct address *to = &shared->address[!p->me];
	enum ibv_wr_opcode op = kind[draw(&p->rng, 5)];
	uint8_t *from = p->sends + p->head % DEPTH * SLOT;
	uint32_t max = op == IBV_WR_SEND ? RECV_SLOT : SLOT;
	uint32_t bytes = HEAD + (uint32_t)draw(&p->rng, 1ull << draw(&p->rng, 17)) % (max - HEAD);

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		bytes = sizeof(uint64_t);
	if (op == IBV_WR_SEND) {
		memcpy(from, &p->sent, sizeof p->sent);
		memcpy(from + bytes - sizeof p->sent, &p->sent, sizeof p->sent);
	}
	uint32_t first = shared->style.two_entries && bytes > 8 ? bytes / 2 : bytes;
	struct ibv_sge sge[2] = {
		{.addr = (uintptr_t)from, .length = first, .lkey = p->mr->lkey},
		{.addr = (uintptr_t)from + first, .length = bytes - first, .lkey = p->mr->lkey}};
	struct ibv_send_wr *bad, wr = {.wr_id = p->head,
				       .sg_list = sge,
				       .num_sge = first < bytes ? 2 : 1,
				       .opcode = op,
				       .imm_data = htobe32((uint32_t)p->sent)};

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = to->remote;
		wr.wr.atomic.rkey = to->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = to->remote;
		wr.wr.rdma.rkey = to->rkey;
	}
	p->post_ns[p->head % DEPTH] = now_ns();
	int rc = ibv_post_send(p->qp, &wr, &bad);

	if (rc == ETIMEDOUT && p->may_stop)
		return false;
	if (rc)
		wrong(p, "send %llu: %s", (unsigned long long)wr.wr_id, strerror(rc));
	p->sent += op == IBV_WR_SEND || op == IBV_WR_RDMA_WRITE_WITH_IMM;
	p->head++;
	return true;
}

static void peer_send_completed(struct peer *p, const struct ibv_wc *wc)
{
	struct result *r = &shared->result[p->me];

	if (wc->status == IBV_WC_SUCCESS)
		r->clear_ns = p->clear_ns;
	if (wc->wr_id != p->done)
		wrong(p, "send %llu completes (%s), and the next is %llu",
		      (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status),
		      (unsigned long long)p->done);
	if (wc->status != (p->failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS) &&
	    (p->failed || wc->status != IBV_WC_RETRY_EXC_ERR))
		wrong(p, "send %llu: %s%s", (unsigned long long)wc->wr_id,
		      ibv_wc_status_str(wc->status), p->failed ? " after the first error" : "");
	if (wc->status == IBV_WC_RETRY_EXC_ERR) {
		p->failed = true;
		r->failed_ns = now_ns();
		r->post_ns = p->post_ns[wc->wr_id % DEPTH];
		r->status = wc->status;
	}
	p->done++;
}

static int peer_poll(struct peer *p)
{
	struct ibv_wc wc[8];
	uint64_t began_ns = now_ns();
	int n = ibv_poll_cq(p->send_cq, 8, wc), all = n;

	NEED(p, n >= 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++)
		peer_send_completed(p, &wc[i]);
	if (n < 8)
		p->clear_ns = began_ns;
	n = ibv_poll_cq(p->recv_cq, 8, wc);
	NEED(p, n >= 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++)
		peer_recv_completed(p, &wc[i]);
	return all + n;
}

/* Waits until a request completes. */
static void peer_wait(struct peer *p)
{
	struct ibv_cq *cq;
	void *context;

	while (!peer_poll(p)) {
		__atomic_fetch_add(&shared->turns[p->me], 1, __ATOMIC_RELAXED);
		if (!p->channel)
			continue;
		NEED(p, !ibv_req_notify_cq(p->send_cq, 0) && !ibv_req_notify_cq(p->recv_cq, 0),
		     "ibv_req_notify_cq");
		if (peer_poll(p))
			return;
		NEED(p, !ibv_get_cq_event(p->channel, &cq, &context), "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
	}
}

/* ---- run ------------------------------------------------------------------------------------ */

static bool peer_dead(void)
{
	return __atomic_load_n(&shared->killed_ns, __ATOMIC_ACQUIRE) != 0;
}

static void peer_end(struct peer *p)
{
	NEED(p, !ibv_destroy_qp(p->qp), "ibv_destroy_qp");
	NEED(p, !p->srq || !ibv_destroy_srq(p->srq), "ibv_destroy_srq");
	NEED(p, !ibv_destroy_cq(p->send_cq) && !ibv_destroy_cq(p->recv_cq), "ibv_destroy_cq");
	NEED(p, !p->channel || !ibv_destroy_comp_channel(p->channel), "ibv_destroy_comp_channel");
	NEED(p, !ibv_dereg_mr(p->mr), "ibv_dereg_mr");
	NEED(p, !ibv_dealloc_pd(p->pd), "ibv_dealloc_pd");
	NEED(p, !ibv_close_device(p->context), "ibv_close_device");
}

/* Posts until the HCA reports the peer's death, and then until every posted request has
 * completed. */
static void peer_traffic(struct peer *p)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	while (!p->failed) {
		while (!p->failed && p->head - p->done < shared->style.depth && peer_post(p))
			;
		if (p->head > p->done || !p->may_stop)
			peer_wait(p);
		else
			(void)peer_poll(p);
		__atomic_fetch_add(&shared->turns[p->me], 1, __ATOMIC_RELAXED);
	}
	/* a shared receive queue keeps the receives that no queue pair has taken */
	while (p->done < p->head || (!p->srq && p->recv_done < p->recv_head))
		peer_wait(p);
	while (peer_poll(p)) /* receives of the shared queue that the queue pair had taken */
		;
	NEED(p, !ibv_query_qp(p->qp, &a, IBV_QP_STATE, &init), "ibv_query_qp");
	NEED(p, a.qp_state == IBV_QPS_ERR, "state after the error");
}

/* True if the peer died before this process joined, and the fabric vanished with it. In the new
 * fabric the peer's queue pair number is then this process' own. */
static bool peer_is_namesake(void)
{
	const struct address *a = shared->address;

	return a[0].qpn == a[1].qpn && !memcmp(&a[0].gid, &a[1].gid, sizeof a[0].gid);
}

int peer_run(int me, uint64_t seed)
{
	struct peer peer = {.me = me, .rng = seed, .may_stop = shared->style.stops}, *p = &peer;
	struct address *mine = &shared->address[me];

	setenv("DOPPEL_HOST", me && shared->style.two_hosts ? "1" : "0", 1);
	peer_open(p);
	peer_memory(p);
	peer_queues(p);
	peer_init(p);
	for (int i = 0; i < RECEIVES; i++)
		peer_post_recv(p);
	NEED(p, !ibv_query_gid(p->context, 1, 0, &mine->gid), "ibv_query_gid");
	mine->qpn = p->qp->qp_num;
	mine->rkey = p->mr->rkey;
	mine->remote = (uintptr_t)p->landing;
	__atomic_store_n(&shared->known[me], 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&shared->known[!me], __ATOMIC_ACQUIRE) && !peer_dead())
		usleep(100);
	if (__atomic_load_n(&shared->known[!me], __ATOMIC_ACQUIRE) && !peer_is_namesake()) {
		peer_connect(p, &shared->address[!me]);
		__atomic_store_n(&shared->posting[me], 1, __ATOMIC_RELEASE);
		peer_traffic(p);
		shared->result[me].sends = p->done;
		shared->result[me].receives = p->arrived;
	}
	peer_end(p);
	return 0;
}

void peer_stay(void)
{
	struct peer peer = {.me = 0};

	peer_open(&peer);
	__atomic_store_n(&shared->resident_ready, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}
