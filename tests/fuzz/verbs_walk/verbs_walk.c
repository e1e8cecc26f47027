/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random walks over verbs calls. Several clients, each with two tasks and a context, create,
 * connect, use, break, reset and destroy queue pairs of all types with each other. Most of their
 * calls are valid. The walk checks:
 * - no crash, no report of a sanitizer or of the verbs sanitizer, and no leaks;
 * - each completion belongs to an outstanding request, is in order, and has a permitted status;
 * - messages arrive once, in order, and with the sent contents;
 * - memory that is read back has the written contents, and atomics count;
 * - an armed queue generates an event, and an error flushes everything;
 * - an invalid call fails with its errno and changes nothing.
 *
 * Each seed draws the features of its walk (walk.h). The walk is a case of the conformance suite's
 * harness and runs wherever that runs (suite.h). A failure ends with the command that repeats it:
 *
 *     verbs_walk_world --seeds 100                            virtual time, deterministic
 *     verbs_walk_world --engine threads --seeds 100 --steps 3000 --timeout 900
 *     verbs_walk --seed 7                                     on libibverbs.so.1
 */
#include <fcntl.h>

#include "tests/fuzz/verbs_walk/walk.h"

/* ---- helpers -------------------------------------------------------------------------------- */

uint32_t pick(struct walker *w, uint32_t n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (uint32_t)((w->random >> 11) % n);
}

bool once_in(struct walker *w, uint32_t n)
{
	return pick(w, n) == 0;
}

bool has(const struct walker *w, enum feature f)
{
	return w->client->walk->feature[f];
}

static void walk_lock(int *lock)
{
	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		vs_sleep_ns(1000);
}

void client_lock(struct client *c)
{
	walk_lock(&c->lock);
}

void client_unlock(struct client *c)
{
	__atomic_store_n(&c->lock, 0, __ATOMIC_RELEASE);
}

void gate_shut(struct client *c)
{
	walk_lock(&c->gate);
}

void gate_open(struct client *c)
{
	__atomic_store_n(&c->gate, 0, __ATOMIC_RELEASE);
}

void board_lock(struct walk *w)
{
	walk_lock(&w->lock);
}

void board_unlock(struct walk *w)
{
	__atomic_store_n(&w->lock, 0, __ATOMIC_RELEASE);
}

int slot_index(const struct walker *w, const struct walk_qp *q)
{
	return w->number * QPS + (int)(q - w->qp);
}

uint64_t slot_offset(int from, int index, uint32_t generation)
{
	uint64_t qp = (uint64_t)from * CLIENT_QPS + (uint64_t)index;

	return (qp * GENERATIONS + generation % GENERATIONS) * SLOT;
}

uint8_t *message_of(const struct walker *w, const struct walk_qp *q, bool recv, uint32_t seq)
{
	uint64_t index = (uint64_t)slot_index(w, q);

	return w->client->buffer + (recv ? RECV_AT : SEND_AT) +
	       (index * DEPTH + seq % DEPTH) * MESSAGE;
}

struct ibv_ah_attr address_of(const struct client *c, const union ibv_gid *gid, uint16_t lid)
{
	return (struct ibv_ah_attr){
		.grh = {.dgid = *gid, .sgid_index = (uint8_t)c->gid_index, .hop_limit = 64},
		.dlid = lid,
		.is_global = 1,
		.port_num = vs_port_num};
}

/* ---- a step --------------------------------------------------------------------------------- */

static void walk_recv(struct walker *w, struct walk_qp *q)
{
	if (q->srq)
		srq_post(w, 0);
	else if (q->type == IBV_QPT_RC || q->type == IBV_QPT_UC)
		recv_post(w, q);
	else
		srq_post(w, 1);
}

static void step_connected(struct walker *w, struct walk_qp *q)
{
	uint32_t n = pick(w, 1000);

	if (n < 3)
		qp_to_error(w, q);
	else if (n < 5)
		qp_destroy(w, q);
	else if (n < 7 && has(w, F_FLUSH))
		qp_flush_out(w, q);
	else if (n < 9 && has(w, F_RESET))
		qp_reset(w, q);
	else if (n < 400 || q->type == IBV_QPT_XRC_RECV)
		walk_recv(w, q);
	else if (n < 415 && has(w, F_WINDOW))
		bind_post(w, q);
	else if ((q->drained && n < 600) || (n < 425 && has(w, F_SQD)))
		qp_drain(w, q);
	else
		send_post(w, q);
}

/* A step of a broken queue pair: recovers, posts (which is flushed), resets, or destroys it. */
static void step_broken(struct walker *w, struct walk_qp *q)
{
	uint32_t n = pick(w, 8);

	if (q->type == IBV_QPT_UC && n < 3)
		qp_recover(w, q);
	else if (n < 5)
		walk_recv(w, q);
	else if (n == 5 && has(w, F_RESET))
		qp_reset(w, q);
	else if (n == 6 && has(w, F_FLUSH))
		qp_flush_out(w, q);
	else
		qp_destroy(w, q);
}

static void step(struct walker *w)
{
	struct walk_qp *q = &w->qp[pick(w, QPS)];
	int own = w->number;

	trash_empty(w);
	client_lock(w->client); /* another task may have polled the error */
	if (q->life == CONNECTED && q->broken)
		q->life = BROKEN;
	client_unlock(w->client);
	if (once_in(w, 3)) {
		walk_poll(w, once_in(w, 2) ? own : SHARED_CQ);
	} else if (has(w, F_CHANNEL) && once_in(w, 30)) {
		arm(w, once_in(w, 2) ? own : SHARED_CQ);
	} else if (once_in(w, 40)) {
		noise(w);
	} else if (has(w, F_WRONG) && once_in(w, 40)) {
		wrong(w);
	} else if (w->number == 0 && once_in(w, 20)) {
		async_look(w->client);
		channel_look(w, SHARED_CQ);
	} else if (has(w, F_UD) && once_in(w, 5)) {
		ud_step(w);
	} else if (q->life == NONE) {
		qp_make(w, q);
	} else if (q->life == FRESH) {
		qp_pair(w, q);
	} else if (q->life == CONNECTED) {
		step_connected(w, q);
	} else {
		step_broken(w, q);
	}
}

/* ---- a walker ------------------------------------------------------------------------------- */

static void walker_domain(struct walker *w)
{
	struct client *c = w->client;
	struct ibv_td_init_attr none = {0};

	w->pd = c->pd;
	if (!has(w, F_PARENT) || once_in(w, 2))
		return;
	struct ibv_parent_domain_init_attr a = {.pd = c->pd};

	if (once_in(w, 2)) {
		w->td = ibv_alloc_td(c->ctx, &none);
		CHECK_MSG(w->td, "ibv_alloc_td: %s", strerror(errno));
		a.td = w->td;
	}
	w->pd = ibv_alloc_parent_domain(c->ctx, &a);
	CHECK_MSG(w->pd, "ibv_alloc_parent_domain: %s", strerror(errno));
}

static void walker_run(void *arg)
{
	struct walker *w = arg;
	struct client *c = w->client;

	walker_domain(w);
	if (has(w, F_UD))
		ud_make(w);
	for (int i = 0; i < c->walk->steps; i++)
		step(w);
	for (int i = 0; i < QPS; i++) {
		struct walk_qp *q = &w->qp[i];

		if (q->life != NONE && q->life != FRESH)
			qp_flush_out(w, q);
		if (q->life != NONE)
			qp_destroy(w, q);
	}
	if (has(w, F_UD))
		ud_destroy(w);
	trash_empty(w);
	if (w->pd != c->pd)
		CHECK_EQ(ibv_dealloc_pd(w->pd), 0);
	if (w->td)
		CHECK_EQ(ibv_dealloc_td(w->td), 0);
}

/* ---- a client ------------------------------------------------------------------------------- */

static void client_cq(struct client *c, struct walk_cq *q, bool extended, bool channel)
{
	struct ibv_cq_init_attr_ex a = {.cqe = CQE, .cq_context = q};

	*q = (struct walk_cq){.armed = false};
	if (channel) {
		q->channel = ibv_create_comp_channel(c->ctx);
		CHECK(q->channel);
	}
	if (!extended) {
		q->cq = ibv_create_cq(c->ctx, CQE, q, q->channel, 0);
		CHECK_MSG(q->cq, "ibv_create_cq: %s", strerror(errno));
		return;
	}
	a.channel = q->channel;
	a.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
		     IBV_WC_EX_WITH_SRC_QP;
	if (vs_has(VS_NEED_TIMESTAMP))
		a.wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	q->ex = ibv_create_cq_ex(c->ctx, &a);
	CHECK_MSG(q->ex, "ibv_create_cq_ex: %s", strerror(errno));
	q->cq = ibv_cq_ex_to_cq(q->ex);
}

static void client_srq(struct client *c)
{
	struct ibv_srq_init_attr a = {.srq_context = c,
				      .attr = {.max_wr = SRQ_DEPTH, .max_sge = 2}};
	struct ibv_xrcd_init_attr x = {.comp_mask =
					       IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .fd = -1,
				       .oflags = O_CREAT};

	if (c->walk->feature[F_SRQ]) {
		c->srq[0].srq = ibv_create_srq(c->pd, &a);
		CHECK_MSG(c->srq[0].srq, "ibv_create_srq: %s", strerror(errno));
	}
	if (!c->walk->feature[F_XRC])
		return;
	c->xrcd = ibv_open_xrcd(c->ctx, &x);
	CHECK_MSG(c->xrcd, "ibv_open_xrcd: %s", strerror(errno));
	struct ibv_srq_init_attr_ex ex = {.srq_context = c,
					  .attr = a.attr,
					  .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
						       IBV_SRQ_INIT_ATTR_XRCD |
						       IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
					  .srq_type = IBV_SRQT_XRC,
					  .pd = c->pd,
					  .xrcd = c->xrcd,
					  .cq = c->cq[SHARED_CQ].cq};

	c->srq[1].srq = ibv_create_srq_ex(c->ctx, &ex);
	CHECK_MSG(c->srq[1].srq, "ibv_create_srq_ex: %s", strerror(errno));
	CHECK_EQ(ibv_get_srq_num(c->srq[1].srq, &c->srq[1].number), 0);
}

static void client_open(struct walk *walk, int number, uint64_t seed)
{
	struct client *c = &walk->client[number];
	unsigned int access =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	*c = (struct client){.number = number, .walk = walk};
	for (int i = 0; i < WALKERS; i++) {
		uint64_t n = (seed * CLIENTS + (uint64_t)number) * WALKERS + (uint64_t)i + 1;

		c->walker[i].client = c;
		c->walker[i].number = i;
		c->walker[i].random = n * 0x9e3779b97f4a7c15ull;
	}
	struct walker *w = &c->walker[0];

	c->ctx = vs_open(number % 2);
	c->pd = ibv_alloc_pd(c->ctx);
	CHECK(c->pd);
	for (int i = 0; i <= WALKERS; i++) {
		bool extended = has(w, F_CQ_EX) && once_in(w, 2);

		client_cq(c, &c->cq[i], extended, has(w, F_CHANNEL));
	}
	client_srq(c);
	c->buffer = vs_alloc(BUFFER_BYTES);
	if (vs_has(VS_NEED_ATOMIC))
		access |= IBV_ACCESS_REMOTE_ATOMIC;
	if (has(w, F_WINDOW))
		access |= IBV_ACCESS_MW_BIND;
	c->mr = ibv_reg_mr(c->pd, c->buffer, BUFFER_BYTES, (int)access);
	CHECK_MSG(c->mr, "ibv_reg_mr: %s", strerror(errno));
	if (has(w, F_NULL_MR)) {
		c->null = ibv_alloc_null_mr(c->pd);
		CHECK_MSG(c->null, "ibv_alloc_null_mr: %s", strerror(errno));
	}
	c->gid_index = vs_gid_index(c->ctx);
	CHECK_EQ(ibv_query_gid(c->ctx, vs_port_num, c->gid_index, &c->gid), 0);
	c->lid = vs_port_attr(c->ctx).lid;
}

static void client_close(struct client *c)
{
	struct ibv_wc wc;

	async_look(c);
	for (int i = 0; i < 2; i++)
		if (c->srq[i].srq)
			CHECK_EQ(ibv_destroy_srq(c->srq[i].srq), 0);
	if (c->xrcd)
		CHECK_EQ(ibv_close_xrcd(c->xrcd), 0);
	for (int i = 0; i <= WALKERS; i++) {
		while (ibv_poll_cq(c->cq[i].cq, 1, &wc) == 1)
			;
		CHECK_EQ(ibv_destroy_cq(c->cq[i].cq), 0);
		if (c->cq[i].channel)
			CHECK_EQ(ibv_destroy_comp_channel(c->cq[i].channel), 0);
	}
	if (c->null)
		CHECK_EQ(ibv_dereg_mr(c->null), 0);
	CHECK_EQ(ibv_dereg_mr(c->mr), 0);
	CHECK_EQ(ibv_dealloc_pd(c->pd), 0);
	CHECK_EQ(ibv_close_device(c->ctx), 0);
	vs_release(c->buffer);
}

/* ---- the case ------------------------------------------------------------------------------- */

/* Capability that a device needs for each feature; VS_NEED_COUNT: needs no capability. */
static const enum vs_need walk_need[FEATURES] = {
	[F_UC] = VS_NEED_UC,
	[F_UD] = VS_NEED_UD,
	[F_SRQ] = VS_NEED_SRQ,
	[F_XRC] = VS_NEED_XRC,
	[F_WINDOW] = VS_NEED_MW2,
	[F_CQ_EX] = VS_NEED_CQ_EX,
	[F_QP_EX] = VS_NEED_QP_EX,
	[F_CHANNEL] = VS_NEED_COUNT,
	[F_RESIZE] = VS_NEED_RESIZE_CQ,
	[F_PARENT] = VS_NEED_PARENT_DOMAIN,
	[F_TEMPORARY] = VS_NEED_COUNT,
	[F_NULL_MR] = VS_NEED_NULL_MR,
	[F_ATOMIC] = VS_NEED_ATOMIC,
	[F_SQD] = VS_NEED_SQD,
	[F_RESET] = VS_NEED_COUNT,
	[F_FLUSH] = VS_NEED_COUNT,
	[F_BAD] = VS_NEED_COUNT,
	[F_WRONG] = VS_NEED_COUNT,
};

static void walk_draw(struct walk *walk, uint64_t seed)
{
	static const char *const name[] = {
#define WALK_NAME(id) #id,
		WALK_FEATURES(WALK_NAME)
#undef WALK_NAME
	};
	struct walker dice = {.random = (seed + 1) * 0xd1342543de82ef95ull};

	printf("seed %llu:", (unsigned long long)seed);
	for (int i = 0; i < FEATURES; i++) {
		bool there = walk_need[i] == VS_NEED_COUNT || vs_has(walk_need[i]);

		walk->feature[i] = pick(&dice, 4) != 0 && there;
		if (walk->feature[i])
			printf(" %s", name[i]);
	}
	printf("\n");
}

static uint64_t client_report(const struct client *c)
{
	uint64_t all = 0;

	for (int i = 0; i < WALKERS; i++) {
		const struct walker *w = &c->walker[i];
		const uint64_t *n = w->done;

		printf("client %d.%d: %llu connections, %llu sends %llu writes %llu reads (%llu "
		       "compared) %llu atomics %llu binds %llu datagrams, %llu received, %llu "
		       "errors, %llu refusals\n",
		       c->number, i, (unsigned long long)w->connections,
		       (unsigned long long)(n[SEND] + n[SEND_INV]),
		       (unsigned long long)(n[WRITE] + n[WRITE_IMM]), (unsigned long long)n[READ],
		       (unsigned long long)w->compared, (unsigned long long)(n[ADD] + n[CAS]),
		       (unsigned long long)(n[BIND] + n[BIND_1] + n[INV]),
		       (unsigned long long)w->datagrams, (unsigned long long)w->received,
		       (unsigned long long)w->errors, (unsigned long long)w->refused);
		for (int k = 0; k < KINDS; k++)
			all += n[k];
	}
	return all;
}

/* Walks destroy objects in use to check for EBUSY, which the sanitizer need not report. */
__attribute__((constructor)) static void walk_environment(void)
{
	setenv("DOPPEL_VERBS_CHECK", "-destroy-order,-wrong-domain,-stale-key", 0);
}

CASE(several_clients)
{
	static struct walk walk;
	struct vs_thread *t[CLIENTS * WALKERS];
	uint64_t done = 0;

	memset(&walk, 0, sizeof walk);
	walk.steps = vs_steps(3000);
	walk_draw(&walk, vs_seed());
	for (int i = 0; i < CLIENTS; i++)
		client_open(&walk, i, vs_seed());
	for (int i = 0; i < CLIENTS * WALKERS; i++)
		t[i] = vs_thread_start(walker_run, &walk.client[i / WALKERS].walker[i % WALKERS]);
	for (int i = 0; i < CLIENTS * WALKERS; i++)
		vs_thread_join(t[i]);
	for (int i = 0; i < CLIENTS; i++)
		done += client_report(&walk.client[i]);
	CHECK_MSG(done > 0, "nothing was ever done");
	for (int i = 0; i < CLIENTS; i++)
		client_close(&walk.client[i]);
}
