/* SPDX-License-Identifier: BSD-3-Clause */
/* Worlds of a case's own, and ends in them (world.h). */
#include <unistd.h>

#include "tests/conformance/verbs/harness/target.h"
#include "tests/conformance/verbs/harness/world.h"

#define USUAL (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

const struct vs_options vw_defaults = {
	.type = IBV_QPT_RC,
	.cqe = 64,
	.send_wr = 16,
	.recv_wr = 16,
	.sge = 4,
	.inline_bytes = 64,
	.mtu = IBV_MTU_1024,
	.access = USUAL,
	.mr_access = IBV_ACCESS_LOCAL_WRITE | USUAL,
	.timeout = 10, /* 4.2 ms */
	.retry_count = 3,
	.rnr_retry = 3,
	.min_rnr_timer = 1, /* 10 us */
	.rd_atomic = 4,
	.dest_rd_atomic = 4,
	.psn = {0xfffff0, 0x123}, /* one wraps soon */
	.qkey = 0x11,
	.buffer_bytes = VW_BUFFER_BYTES,
};

/* ---- worlds --------------------------------------------------------------------------------- */

struct world_program {
	void (*run)(void);
};

static void world_program_run(void *arg)
{
	((struct world_program *)arg)->run();
}

void vw_run_with(const struct vw_run *r, void (*program)(void))
{
	struct world_program p = {program};

	vw_run_world(r, world_program_run, &p);
}

void vw_run(enum sim_engine engine, uint64_t seed, const char *plan, uint32_t hosts,
	    void (*program)(void))
{
	const struct vw_run r = {
		.sim = {.engine = engine,
			.seed = seed,
			.fault_plan = plan,
			.fault_plan_name = "case"},
		.world = {.hosts = hosts, .machine = VW_MACHINE},
	};

	vw_run_with(&r, program);
}

void vw_run_seeds(const char *plan, void (*program)(void))
{
	for (uint64_t seed = 1; seed <= VW_SEEDS; seed++)
		vw_run(SIM_ENGINE_SIM, seed, plan, 1, program);
}

char vw_logged[1 << 18];

bool vw_listen(enum sim_engine engine, void (*program)(void), const char *check)
{
	const char *const env[] = {check, NULL};
	const struct sim_config config = {.engine = engine, .seed = 1};
	const struct world_config world = {.hosts = 1, .machine = VW_MACHINE, .env = env};
	struct world_program p = {program};
	FILE *file = tmpfile();
	int err = dup(2);

	CHECK(file && err >= 0);
	fflush(stderr);
	dup2(fileno(file), 2);
	CHECK_EQ(sim_start(&config), 0);
	CHECK_EQ(world_create(&world), 0);
	enum sim_verdict verdict = sim_run(world_program_run, &p);
	bool failed = verdict != SIM_PASS || sim_failure();

	world_destroy();
	sim_stop();
	fflush(stderr);
	dup2(err, 2);
	close(err);
	rewind(file);
	size_t n = fread(vw_logged, 1, sizeof vw_logged - 1, file);

	vw_logged[n] = '\0';
	fclose(file);
	return failed;
}

/* ---- ends ----------------------------------------------------------------------------------- */

struct ibv_context *vw_open(int device)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	CHECK_MSG(list && n > device, "%d devices, expected more than %d", n, device);
	struct ibv_context *ctx = ibv_open_device(list[device]);

	CHECK(ctx);
	ibv_free_device_list(list);
	return ctx;
}

void vw_end_make(struct vs_end *e, int side, const struct vs_options *o)
{
	struct vs_pair p = {.options = *o};

	vs_end_make(&p, side);
	*e = p.end[side];
}

struct ibv_qp_init_attr vw_init_attr(const struct vs_options *o, struct ibv_cq *send,
				     struct ibv_cq *recv)
{
	struct vs_pair p = {.options = *o, .end[0] = {.send_cq = send, .recv_cq = recv}};

	return vs_init_attr(&p, 0);
}

struct ibv_qp_attr vw_attr(const struct vs_options *o, const union ibv_gid *peer, uint32_t peer_qpn,
			   uint32_t sq_psn, uint32_t rq_psn)
{
	struct vs_pair p = {
		.options = *o,
		.end[0] = {.gid_index = vs_probe->gid_index[0], .psn = sq_psn},
		.end[1] = {.gid = *peer, .psn = rq_psn},
	};

	return vs_attr_to(&p, 0, peer_qpn);
}

void vw_again(struct vs_pair *p)
{
	for (int i = 0; i < 2; i++) {
		vs_set_state(p->end[i].qp, IBV_QPS_RESET);
		p->end[i].psn = (p->end[i].psn + 5000) & 0xffffff;
	}
	for (int i = 0; i < 2; i++)
		vs_connect(p, i, IBV_QPS_RTS);
}

void vw_expect_failure_at(const char *file, int line, struct vs_pair *p, struct vs_wr *w,
			  enum ibv_wc_status status)
{
	struct ibv_qp *qp = p->end[0].qp;
	struct ibv_wc wc;
	int rc = vs_post(qp, &w->wr);

	if (rc)
		vs_fail(file, line, "ibv_post_send: %s", strerror(rc));
	vs_expect_at(file, line, p->end[0].send_cq, w->wr.wr_id, status, &wc);
	if (wc.qp_num != qp->qp_num || !wc.vendor_err)
		vs_fail(file, line,
			"completion of queue pair %u, vendor's error %u; expected %u, not 0",
			wc.qp_num, wc.vendor_err, qp->qp_num);
	if (vs_state(qp) != IBV_QPS_ERR)
		vs_fail(file, line, "state %d, expected ERR", vs_state(qp));
}

void vw_link(int device, bool up)
{
	world_port_set(world_port_of(0, device), up);
}

void vw_wait_word(const shared_u32 *word)
{
	const struct wait w = {.on = word,
			       .want = 1,
			       .mask = WAIT_MASK_ALL,
			       .kind = WAIT_EQ,
			       .bytes = 4,
			       .why = "another task (case)",
			       .from = {-1, -1, -1, "case"}};

	CHECK_EQ(os_wait_one(&w, NULL), 0);
}
