/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes that know each other's queue pair and nothing else, and one of them is killed. What
 * the other hears must come from its HCA: no socket, no pipe, no signal tells. Both post WRITE,
 * WRITE_WITH_IMM, SEND, READ and FETCH_ADD as fast as they can, with SIGKILL at a random moment: while
 * the fabric is joined, while queue pairs are made, and mostly inside a post. The survivor
 *
 *   - gets IBV_WC_RETRY_EXC_ERR for its oldest request, not before retry_cnt + 1 timeouts have passed
 *     since that was posted, and not later than the specification's four times that after the kill;
 *   - sees each request complete once, in order: what is behind the failed one flushed, receives too;
 *   - received what was sent, whole and without a gap;
 *   - takes all of it down without an error.
 *
 * Timeouts are drawn short, so that a kill takes some milliseconds. A third program may stay on the
 * fabric all the while (--resident): then what the dead leave is cleared by those who come next. With
 * --stops the victim is stopped for a while before (SIGSTOP): the other goes on meanwhile.
 *
 * Usage: kill_peers [--kills N] [--seed N] [--resident] [--stops] [--slack SECONDS] [--verbose]
 * Links libibverbs and libc. Exit code 1: something of the above did not hold.
 */
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	DEPTH = 16,    /* sends under way, at most */
	RECEIVES = 64, /* posted at any time */
	SLOT = 65536,  /* bytes of one request, at most */
	RECV_SLOT = 8192,
	HEAD = 2 * sizeof(uint64_t), /* sequence number in front, and again at the end */
	QPN_PSN = 0x1234,
};

/* What a pair is like; drawn by the parent, the same for both. */
struct style {
	uint32_t timeout, retry_cnt, depth;
	bool events;      /* sleeps at a completion channel, else polls */
	bool srq;         /* receives are in a shared queue */
	bool two_entries; /* scatter lists: the HCA's long way */
	bool two_hosts;   /* over the wire, else inside one HCA */
	bool unaligned;   /* memory that peers cannot map */
	bool stops;       /* before the kill: SIGSTOP, and for half of them SIGCONT */
};

struct address {
	uint32_t qpn, rkey;
	uint64_t remote;
	union ibv_gid gid;
};

/* Parent and both peers have it mapped. */
struct shared {
	struct style style;
	struct address address[2];
	uint32_t known[2]; /* its address is there */
	uint32_t posting[2];
	uint64_t killed_ns; /* not 0: one of them is dead */
	struct result {
		uint32_t status;
		uint64_t failed_ns, post_ns; /* when it heard; when that request was posted */
		uint64_t sends, receives;
		char wrong[200]; /* empty: nothing */
	} result[2];
	uint64_t resident_ready;
	uint64_t turns[2]; /* that each took: it is not stuck */
};

static struct shared *shared;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t draw(uint64_t *state, uint64_t n)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (*state >> 33) % n;
}

/* ---- a peer --------------------------------------------------------------------------------- */

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
	uint8_t *memory, *sends, *landing, *receives; /* landing: what the other writes to, reads */
	uint64_t head, done;                          /* sends posted and completed */
	uint64_t post_ns[DEPTH];
	uint64_t sent;                 /* messages that take a receive */
	uint64_t recv_head, recv_done; /* receives posted and completed */
	uint64_t arrived;              /* messages */
	bool may_stop;                 /* the other is stopped for a while before it is killed */
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

/* Page by page: sends, what the other writes to, receives; and a word for atomics at its start. */
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

/* ---- receiving ------------------------------------------------------------------------------ */

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

/* A message carries its number in front and at its end, and in the immediate data. */
static void peer_received(struct peer *p, const struct ibv_wc *wc)
{
	const uint8_t *at = p->receives + wc->wr_id % RECEIVES * RECV_SLOT;
	uint64_t number = p->arrived++, front, end;

	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		if (be32toh(wc->imm_data) != (uint32_t)number)
			wrong(p, "message %llu says in its immediate data that it is %u",
			      (unsigned long long)number, be32toh(wc->imm_data));
		return;
	}
	memcpy(&front, at, sizeof front);
	memcpy(&end, at + wc->byte_len - sizeof end, sizeof end);
	if (front != number || end != number)
		wrong(p, "message %llu of %u bytes says that it is %llu, and at its end %llu",
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

/* ---- sending -------------------------------------------------------------------------------- */

/* False: not now, the other is stopped in the middle of something here. */
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
	int n = ibv_poll_cq(p->send_cq, 8, wc), all = n;

	NEED(p, n >= 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++)
		peer_send_completed(p, &wc[i]);
	n = ibv_poll_cq(p->recv_cq, 8, wc);
	NEED(p, n >= 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++)
		peer_recv_completed(p, &wc[i]);
	return all + n;
}

/* Until something completed. */
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

/* ---- its life ------------------------------------------------------------------------------- */

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

/* Until the other is dead and the HCA says so, and all that was posted has ended. */
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
	/* a shared queue keeps what no queue pair took */
	while (p->done < p->head || (!p->srq && p->recv_done < p->recv_head))
		peer_wait(p);
	while (peer_poll(p)) /* what the queue pair had taken of a shared queue */
		;
	NEED(p, !ibv_query_qp(p->qp, &a, IBV_QP_STATE, &init), "ibv_query_qp");
	NEED(p, a.qp_state == IBV_QPS_ERR, "state after the error");
}

/* The other died before this one joined, and took the fabric with it: in the new one the same number
 * is this one's own. */
static bool peer_is_namesake(void)
{
	const struct address *a = shared->address;

	return a[0].qpn == a[1].qpn && !memcmp(&a[0].gid, &a[1].gid, sizeof a[0].gid);
}

static int peer_run(int me, uint64_t seed)
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

/* ---- the parent ----------------------------------------------------------------------------- */

struct options {
	int kills;
	uint64_t seed;
	double slack;
	bool resident, verbose, stops;
};

struct totals {
	int unborn, errors, lost;
	int stuck; /* while the other was stopped */
	uint64_t sends, receives;
	double *late_ms; /* of each error: what passed since the kill beyond the retries */
};

static uint64_t retries_ns(void)
{
	return (4096ull << shared->style.timeout) * (shared->style.retry_cnt + 1);
}

static void style_draw(const struct options *o, uint64_t *rng)
{
	struct style *s = &shared->style;

	s->timeout = 8 + (uint32_t)draw(rng, 5);
	s->retry_cnt = (uint32_t)draw(rng, 4);
	s->depth = 1 + (uint32_t)draw(rng, DEPTH);
	s->events = draw(rng, 3) == 0;
	s->srq = draw(rng, 4) == 0;
	s->two_entries = draw(rng, 4) == 0;
	s->two_hosts = draw(rng, 3) == 0;
	s->unaligned = draw(rng, 4) == 0;
	s->stops = o->stops;
	if (s->stops) /* who sleeps may do so until the kill */
		s->events = false;
}

static void style_print(const struct style *s)
{
	printf("timeout %u, retry_cnt %u, depth %u%s%s%s%s%s\n", s->timeout, s->retry_cnt, s->depth,
	       s->events ? ", events" : ", polls", s->srq ? ", shared receives" : "",
	       s->two_entries ? ", scatter lists" : "", s->two_hosts ? ", two hosts" : ", one HCA",
	       s->unaligned ? ", memory by the kernel" : "");
}

static pid_t parent_start(int me, uint64_t seed)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(peer_run(me, seed));
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	return pid;
}

/* One in four is killed on its way to its first post; the others after it. */
static void parent_await_moment(uint64_t *rng)
{
	bool early = draw(rng, 4) == 0;
	unsigned int us = (unsigned int)draw(rng, early ? 8000 : 5000);

	for (int i = 0; !early && i < 200000; i++) {
		if (__atomic_load_n(&shared->posting[0], __ATOMIC_ACQUIRE) &&
		    __atomic_load_n(&shared->posting[1], __ATOMIC_ACQUIRE))
			break;
		usleep(100);
	}
	usleep(us);
}

/* The survivor's exit status; -1: it did not end in time. */
static int parent_await(pid_t pid, double seconds)
{
	uint64_t until = now_ns() + (uint64_t)(seconds * 1e9);
	int status;

	while (now_ns() < until) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return status;
		usleep(200);
	}
	return -1;
}

static bool parent_judge(const struct options *o, int survivor, int status, struct totals *t)
{
	const struct result *r = &shared->result[survivor];
	uint64_t retries = retries_ns(), from = r->post_ns;

	if (status == -1)
		printf("the survivor still runs\n");
	else if (r->wrong[0])
		printf("the survivor: %s\n", r->wrong);
	else if (status)
		printf("the survivor ended with status 0x%x\n", status);
	if (status)
		return false;
	if (!r->failed_ns) { /* it never knew of the other */
		t->unborn++;
		return true;
	}
	if (from < shared->killed_ns)
		from = shared->killed_ns;
	t->sends += r->sends;
	t->receives += r->receives;
	if (r->failed_ns - r->post_ns < retries) {
		printf("its error came %.3f ms after the post, before its retries of %.3f ms\n",
		       (double)(r->failed_ns - r->post_ns) / 1e6, (double)retries / 1e6);
		return false;
	}
	if (r->failed_ns < shared->killed_ns) {
		t->lost++;
		return true;
	}
	double after_ms = (double)(r->failed_ns - from) / 1e6;

	t->late_ms[t->errors++] = after_ms - (double)retries / 1e6;
	if (after_ms * 1e6 > 4 * (double)retries + o->slack * 1e9) {
		printf("its error came %.3f ms after the kill; its retries are %.3f ms\n", after_ms,
		       (double)retries / 1e6);
		return false;
	}
	return true;
}

/* Nobody of this fabric lives: then it has no name either. */
static bool parent_gone(const char *fabric)
{
	FILE *f = fopen("/proc/net/unix", "r");
	char line[512];
	bool gone = true;

	while (f && fgets(line, sizeof line, f))
		if (strstr(line, "@doppel-fabric") && strstr(line, fabric)) {
			printf("left: %s", line);
			gone = false;
		}
	if (f)
		fclose(f);
	return gone;
}

/* Does the other go on, in whatever the victim is stopped? */
static bool parent_stop(pid_t victim, int other, bool goes_on)
{
	uint64_t turns;
	bool turned = false;

	kill(victim, SIGSTOP);
	waitpid(victim, NULL, WUNTRACED);
	turns = __atomic_load_n(&shared->turns[other], __ATOMIC_RELAXED);
	for (int i = 0; i < 5000 && !turned; i++) { /* 5 s, where 1 ms should be enough */
		usleep(1000);
		/* it may be over, or not posting yet */
		turned = __atomic_load_n(&shared->turns[other], __ATOMIC_RELAXED) > turns + 1 ||
			 shared->result[other].failed_ns || !shared->posting[other];
	}
	if (goes_on) {
		kill(victim, SIGCONT);
		usleep(3000);
	}
	return turned;
}

static bool parent_kill_one(const struct options *o, uint64_t *rng, struct totals *t)
{
	memset(shared, 0, sizeof *shared);
	style_draw(o, rng);
	int victim = (int)draw(rng, 2);
	pid_t pid[2];

	for (int i = 0; i < 2; i++)
		pid[i] = parent_start(i, draw(rng, 1ull << 30));
	parent_await_moment(rng);
	if (o->stops)
		t->stuck += !parent_stop(pid[victim], !victim, draw(rng, 2));
	kill(pid[victim], SIGKILL);
	__atomic_store_n(&shared->killed_ns, now_ns(), __ATOMIC_RELEASE);
	waitpid(pid[victim], NULL, 0);
	int status = parent_await(pid[!victim], (double)retries_ns() * 4e-9 + o->slack + 10);
	bool good = parent_judge(o, !victim, status, t);

	if (o->verbose || !good)
		style_print(&shared->style);
	if (status == -1) {
		printf("it is process %d\n", pid[!victim]);
		if (getenv("KILL_PEERS_STAY"))
			pause();
		kill(pid[!victim], SIGKILL);
		waitpid(pid[!victim], NULL, 0);
	}
	return good;
}

static pid_t parent_resident(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	struct peer peer = {.me = 0};

	peer_open(&peer);
	__atomic_store_n(&shared->resident_ready, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static bool parent_options(int argc, char **argv, struct options *o)
{
	static const struct option known[] = {{"kills", required_argument, NULL, 'k'},
					      {"seed", required_argument, NULL, 's'},
					      {"slack", required_argument, NULL, 'l'},
					      {"resident", no_argument, NULL, 'r'},
					      {"stops", no_argument, NULL, 'p'},
					      {"verbose", no_argument, NULL, 'v'},
					      {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
		switch (c) {
		case 'k':
			o->kills = atoi(optarg);
			break;
		case 's':
			o->seed = strtoull(optarg, NULL, 0);
			break;
		case 'l':
			o->slack = atof(optarg);
			break;
		case 'r':
			o->resident = true;
			break;
		case 'p':
			o->stops = true;
			break;
		case 'v':
			o->verbose = true;
			break;
		default:
			return false;
		}
	return optind == argc;
}

static int totals_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void totals_print(const struct options *o, const struct totals *t)
{
	int n = t->errors, all = n + t->lost;

	printf("%d kills: %d survivors with a transport error, %d that never knew the other; %llu "
	       "requests and %llu messages, each accounted for\n",
	       all + t->unborn, all, t->unborn, (unsigned long long)t->sends,
	       (unsigned long long)t->receives);
	if (!n)
		return;
	printf("%d of them before the kill: the other was stopped, or the machine busy, for longer "
	       "than "
	       "the retries\n",
	       t->lost);
	if (o->stops)
		printf("%d were stuck while the other was stopped\n", t->stuck);
	qsort(t->late_ms, (size_t)n, sizeof t->late_ms[0], totals_compare);
	printf("the error came so much after kill + timeout * (retry_cnt + 1): median %.2f ms, 99 "
	       "of "
	       "100 %.2f ms, all %.2f ms\n",
	       t->late_ms[n / 2], t->late_ms[n * 99 / 100], t->late_ms[n - 1]);
}

int main(int argc, char **argv)
{
	struct options o = {.kills = 20, .seed = 1, .slack = 20};
	struct totals t = {0};
	char fabric[32];
	pid_t resident = 0;
	bool good = true;

	if (!parent_options(argc, argv, &o))
		return 2;
	t.late_ms = calloc((size_t)o.kills + 1, sizeof t.late_ms[0]);
	if (!t.late_ms)
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(fabric, sizeof fabric, "kill-peers-%d", (int)getpid());
	setenv("DOPPEL_FABRIC", fabric, 1);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	if (o.resident) {
		resident = parent_resident();
		while (!__atomic_load_n(&shared->resident_ready, __ATOMIC_ACQUIRE))
			usleep(1000);
	}
	for (int i = 0; good && i < o.kills; i++) {
		uint64_t rng = o.seed * 1000003 + (uint64_t)i;

		draw(&rng, 2);
		good = parent_kill_one(&o, &rng, &t);
		if (!good)
			printf("kill %d of seed %llu\n", i, (unsigned long long)o.seed);
	}
	if (resident) {
		kill(resident, SIGKILL);
		waitpid(resident, NULL, 0);
	}
	good = parent_gone(fabric) && good;
	/* a stop within the lock of a table, which takes nanoseconds, is waited for */
	good = good && t.stuck <= o.kills / 4 && (t.errors || o.kills < 20);
	totals_print(&o, &t);
	return good ? 0 : 1;
}
