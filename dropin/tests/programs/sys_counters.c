/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of an HCA appear in /sys under the names of the device's driver: requests, retries,
 * packets out of sequence, receivers that are not ready, refused accesses. With the argument
 * `lossy`, a fault plan drops some packets to the second device. */
#include <inttypes.h>

#include "pair.h"

static int counters_of_rxe;

static int counters_exist(const char *name)
{
	char path[256];

	snprintf(path, sizeof path, "/sys/class/infiniband/mlx5_0/ports/1/%s", name);
	FILE *f = fopen(path, "r");

	if (f)
		fclose(f);
	return f != NULL;
}

static uint64_t counters_read(const char *name)
{
	char path[256];
	uint64_t n = 0;

	snprintf(path, sizeof path, "/sys/class/infiniband/mlx5_0/ports/1/%s", name);
	FILE *f = fopen(path, "r");

	if (!f || fscanf(f, "%" SCNu64, &n) != 1) {
		printf("%s cannot be read\n", path);
		exit(1);
	}
	fclose(f);
	return n;
}

/* Waits until the counter has that value, or with `more` a greater one. Values in /sys may be 10 ms
 * old, and on a busy machine older. */
static void counters_expect(const char *mlx5, const char *rxe, uint64_t value, int more)
{
	const char *name = counters_of_rxe ? rxe : mlx5;
	uint64_t n = 0;

	if (!name)
		return;
	for (int i = 0; i < 3000; i++) {
		n = counters_read(name);
		if (n >= value)
			break;
		pair_sleep_ms(10);
	}
	if (n == value || (more && n > value))
		return;
	printf("%s is %" PRIu64 ", expected %" PRIu64 "%s\n", name, n, value,
	       more ? " or more" : "");
	exit(1);
}

static void counters_of_requests(struct pair *p)
{
	pair_connect(p);
	for (int i = 0; i < 10; i++) {
		pair_need(!pair_post(p, IBV_WR_RDMA_WRITE, p->mr->rkey), "a write");
		pair_need(pair_wait(p).status == IBV_WC_SUCCESS, "a write that succeeds");
	}
	for (int i = 0; i < 3; i++) {
		pair_need(!pair_post(p, IBV_WR_RDMA_READ, p->mr->rkey), "a read");
		pair_need(pair_wait(p).status == IBV_WC_SUCCESS, "a read that succeeds");
	}
	counters_expect("hw_counters/rx_write_requests", NULL, 10, 0);
	counters_expect("hw_counters/rx_read_requests", NULL, 3, 0);
	counters_expect("counters/port_xmit_packets", "hw_counters/sent_pkts", 13, 1);
	counters_expect("counters/port_rcv_packets", "hw_counters/rcvd_pkts", 13, 1);
	counters_expect("counters/port_xmit_data", NULL, 13 * 8 / 4, 1);
	pair_disconnect(p);
	/* destroying a queue pair reduces no counter */
	counters_expect("hw_counters/rx_write_requests", NULL, 10, 0);
}

static void counters_of_no_receive(struct pair *p)
{
	p->rnr_retries = 3;
	pair_connect(p);
	pair_need(!pair_post(p, IBV_WR_SEND, 0), "a send");
	pair_need(pair_wait(p).status == IBV_WC_RNR_RETRY_EXC_ERR, "no receive for a send");
	counters_expect("hw_counters/rnr_nak_retry_err", "hw_counters/rcvd_rnr_err",
			counters_of_rxe ? 4 : 3, 0);
	counters_expect("hw_counters/out_of_buffer", "hw_counters/send_rnr_err", 4, 0);
	counters_expect("hw_counters/req_rnr_retries_exceeded",
			"hw_counters/retry_rnr_exceeded_err", 1, 0);
	p->rnr_retries = 7;
	pair_disconnect(p);
}

static void counters_of_silence(struct pair *p)
{
	p->retries = 2;
	p->timeout = 10;
	pair_connect(p);
	pair_need(!ibv_destroy_qp(p->qp[1]), "the end of the peer");
	p->qp[1] = NULL;
	pair_need(!pair_post(p, IBV_WR_RDMA_WRITE, p->mr->rkey), "a write to no peer");
	pair_need(pair_wait(p).status == IBV_WC_RETRY_EXC_ERR, "no peer");
	counters_expect("hw_counters/local_ack_timeout_err", "hw_counters/completer_retry_err", 2,
			0);
	counters_expect("hw_counters/req_transport_retries_exceeded",
			"hw_counters/retry_exceeded_err", 1, 0);
	pair_disconnect(p);
}

static void counters_of_sequence(struct pair *p)
{
	p->retries = 1;
	p->sq_psn = 10;
	p->rq_psn = 5;
	pair_connect(p);
	pair_need(!pair_post(p, IBV_WR_RDMA_WRITE, p->mr->rkey), "a write");
	pair_need(pair_wait(p).status == IBV_WC_RETRY_EXC_ERR, "a write that is ahead");
	counters_expect("hw_counters/out_of_sequence", "hw_counters/out_of_seq_request", 2, 0);
	pair_disconnect(p);
	p->rq_psn = 11;
	pair_connect(p);
	uint64_t before = counters_read("hw_counters/duplicate_request");

	pair_need(!pair_post(p, IBV_WR_RDMA_WRITE, p->mr->rkey), "a write");
	counters_expect("hw_counters/duplicate_request", "hw_counters/duplicate_request",
			before + 1, 1);
	pair_disconnect(p);
	p->sq_psn = p->rq_psn = 0;
	p->retries = 7;
	p->timeout = 14;
}

static void counters_of_access(struct pair *p)
{
	pair_connect(p);
	pair_need(!pair_post(p, IBV_WR_RDMA_WRITE, p->mr->rkey + 1), "a write with a bad key");
	pair_need(pair_wait(p).status == IBV_WC_REM_ACCESS_ERR, "a refused write");
	counters_expect("hw_counters/resp_remote_access_errors", NULL, 1, 0);
	counters_expect("hw_counters/req_remote_access_errors", NULL, 1, 0);
	counters_expect("hw_counters/req_cqe_error", NULL, 4, 1);
	pair_disconnect(p);
}

/* Packets between two devices, of which a plan drops some. Each dropped packet is counted as out of
 * sequence at the receiver and as a NAK at the sender, which resends it. */
static void counters_of_loss(void)
{
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, 0}};
	struct pair p[2];

	for (int i = 0; i < 2; i++) {
		pair_open_nth(&p[i], i);
		a.send_cq = a.recv_cq = p[i].cq;
		p[i].qp[0] = ibv_create_qp(p[i].pd, &a);
		pair_need(p[i].qp[0] && !pair_to_init(p[i].qp[0]), "a queue pair");
	}
	for (int i = 0; i < 2; i++) /* the address is that of the other's port */
		pair_need(!pair_to_rts(&p[1 - i], p[i].qp[0], p[1 - i].qp[0]->qp_num),
			  "a connection");
	struct ibv_mr *to = ibv_reg_mr(p[1].pd, p[0].memory, PAIR_BYTES, PAIR_ACCESS);

	for (int i = 0; i < 100; i++) {
		for (int n = 0; n < 8; n++)
			pair_need(!pair_post(&p[0], IBV_WR_RDMA_WRITE, to->rkey), "a write");
		for (int n = 0; n < 8; n++)
			pair_need(pair_wait(&p[0]).status == IBV_WC_SUCCESS,
				  "a write that succeeds");
	}
	counters_expect("hw_counters/packet_seq_err", "hw_counters/rcvd_seq_err", 1, 1);
}

int main(int argc, char **argv)
{
	struct pair p;

	counters_of_rxe = counters_exist("hw_counters/rcvd_seq_err");
	if (argc > 1 && !strcmp(argv[1], "lossy")) {
		counters_of_loss();
		return 0;
	}
	pair_open(&p);
	pair_need(counters_read("hw_counters/lifespan") == 10, "a lifespan of 10 ms");
	counters_of_requests(&p);
	counters_of_no_receive(&p);
	counters_of_silence(&p);
	counters_of_sequence(&p);
	counters_of_access(&p);
	return 0;
}
