/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys that are somebody else's, between processes of a fabric: another process' and another HCA's
 * keys have the specification's error, and a sentence that says whose they are. */
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 4096, GID = 3 };

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	printf("%d: not so: %s\n", (int)getpid(), what);
	exit(1);
}

struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	union ibv_gid gid;
	unsigned char *buffer;
};

/* What two sides tell each other. */
struct card {
	union ibv_gid gid;
	uint32_t qpn, rkey;
	uint64_t address;
};

static void side_open(struct side *s, int device)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	need(list && n > device, "there are HCAs");
	s->ctx = ibv_open_device(list[device]);
	need(s->ctx != NULL, "it opens");
	ibv_free_device_list(list);
	s->pd = ibv_alloc_pd(s->ctx);
	s->buffer = aligned_alloc(4096, BYTES);
	memset(s->buffer, 0x11, BYTES);
	s->mr = ibv_reg_mr(s->pd, s->buffer, BYTES,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	s->cq = ibv_create_cq(s->ctx, 256, NULL, NULL, 0);
	need(s->pd && s->mr && s->cq && !ibv_query_gid(s->ctx, 1, GID, &s->gid), "its objects");
}

static void side_qp(struct side *s)
{
	struct ibv_qp_init_attr a = {.send_cq = s->cq,
				     .recv_cq = s->cq,
				     .cap = {4, 4, 1, 1, 0},
				     .qp_type = IBV_QPT_RC,
				     .sq_sig_all = 1};

	s->qp = ibv_create_qp(s->pd, &a);
	need(s->qp != NULL, "a queue pair");
}

static void side_connect(struct side *s, const struct card *peer)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qp_access_flags =
					IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

	need(!ibv_modify_qp(s->qp, &a,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "INIT");
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = peer->qpn;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = peer->gid, .sgid_index = GID, .hop_limit = 64}};
	need(!ibv_modify_qp(s->qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 20;
	a.retry_cnt = 7;
	a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	need(!ibv_modify_qp(s->qp, &a,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

static struct card side_card(const struct side *s)
{
	return (struct card){.gid = s->gid,
			     .qpn = s->qp->qp_num,
			     .rkey = s->mr->rkey,
			     .address = (uintptr_t)s->buffer};
}

/* How a WRITE of 64 bytes with these keys ends. Inlined: each is a call site of its own, of which a
 * rule speaks once. */
__attribute__((always_inline)) static inline enum ibv_wc_status
side_write(struct side *s, uint32_t lkey, uint32_t rkey, uint64_t to)
{
	struct ibv_sge sge = {.addr = (uintptr_t)s->buffer, .length = 64, .lkey = lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .wr = {.rdma = {.remote_addr = to, .rkey = rkey}}};
	struct ibv_wc wc;

	need(!ibv_post_send(s->qp, &wr, &bad), "it is posted");
	while (!ibv_poll_cq(s->cq, 1, &wc))
		;
	return wc.status;
}

/* ---- what is said ---------------------------------------------------------------------------- */

static char said[1 << 16];

static void listen_start(FILE **file, int *err)
{
	*file = tmpfile();
	*err = dup(2);
	need(*file && *err >= 0 && dup2(fileno(*file), 2) == 2, "standard error goes to a file");
}

static void listen_end(FILE *file, int err)
{
	dup2(err, 2);
	close(err);
	rewind(file);
	said[fread(said, 1, sizeof said - 1, file)] = '\0';
	fclose(file);
}

static void need_said(const char *what)
{
	if (!strstr(said, what))
		printf("said: %s\n", said);
	need(strstr(said, what) != NULL, what);
}

/* ---- the other process ----------------------------------------------------------------------- */

/* It waits; whoever is connected to it writes, and it never polls. For each line that comes: a new
 * queue pair. */
static void other_process(int in, int out)
{
	struct side s;
	struct card theirs;

	side_open(&s, 0);
	for (;;) {
		side_qp(&s);
		struct card mine = side_card(&s);

		need(write(out, &mine, sizeof mine) == sizeof mine, "a card is sent");
		if (read(in, &theirs, sizeof theirs) != sizeof theirs)
			exit(0);
		side_connect(&s, &theirs);
		need(write(out, "", 1) == 1, "that it is connected");
	}
}

static struct card meet(struct side *s, int in, int out)
{
	struct card theirs, mine;
	char byte;

	side_qp(s);
	mine = side_card(s);
	need(read(in, &theirs, sizeof theirs) == sizeof theirs, "a card comes");
	need(write(out, &mine, sizeof mine) == sizeof mine, "a card is sent");
	need(read(in, &byte, 1) == 1, "the other one is connected");
	side_connect(s, &theirs);
	return theirs;
}

int main(void)
{
	int to[2], from[2], status, err;
	struct side a, second;
	char name[32];
	FILE *file;

	alarm(120);
	snprintf(name, sizeof name, "keys-%d", (int)getpid());
	setenv("DOPPEL_FABRIC", name, 1);
	need(!pipe(to) && !pipe(from), "pipes");
	pid_t child = fork();

	if (child == 0) {
		close(to[1]);
		close(from[0]);
		other_process(to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	side_open(&a, 0);
	side_open(&second, 1);
	listen_start(&file, &err);

	struct card c = meet(&a, from[0], to[1]);

	need(c.rkey != a.mr->rkey, "keys of two processes differ");
	need(side_write(&a, a.mr->lkey, c.rkey, c.address) == IBV_WC_SUCCESS,
	     "what is right works");
	need(side_write(&a, c.rkey, c.rkey, c.address) == IBV_WC_LOC_PROT_ERR,
	     "another process' key as lkey");
	c = meet(&a, from[0], to[1]);
	need(side_write(&a, second.mr->lkey, c.rkey, c.address) == IBV_WC_LOC_PROT_ERR,
	     "another HCA's lkey");
	c = meet(&a, from[0], to[1]);
	need(side_write(&a, a.mr->lkey, a.mr->rkey, (uintptr_t)a.buffer) == IBV_WC_REM_ACCESS_ERR,
	     "one's own rkey, sent to the other process");
	c = meet(&a, from[0], to[1]);
	need(side_write(&a, a.mr->lkey, second.mr->rkey, (uintptr_t)second.buffer) ==
		     IBV_WC_REM_ACCESS_ERR,
	     "another HCA's rkey");
	c = meet(&a, from[0], to[1]);
	need(side_write(&a, a.mr->lkey, c.rkey, c.address + BYTES - 63) == IBV_WC_REM_ACCESS_ERR,
	     "over the end of the other's region");
	listen_end(file, err);
	need_said("verbs-wrong-domain: ");
	need_said("posted at main+0x");
	need_said("(registered at another process)");
	need_said(" is of another HCA (registered at side_open+0x");
	need_said("verbs-mr-bounds: ");
	need(memcmp(a.buffer, second.buffer, BYTES) == 0, "nothing was written where it may not");

	close(to[1]);
	need(waitpid(child, &status, 0) == child && status == 0, "the other process is content");
	return 0;
}
