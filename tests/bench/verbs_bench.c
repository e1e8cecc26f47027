/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the HCA double, in one process, and plain memcpy in the same run:
 *
 *   threads: post + execute + poll of an 8-byte WRITE (target: 100 ns), the message rate with 32 in
 *            flight, and the bandwidth of 64 KiB and 1 MiB WRITEs;
 *   sim:     packets per second of one core, with simulated time and order (target: 2 million),
 *            between two HCAs: WRITEs of 64 KiB, which travel as bursts of 64 packets at an MTU of
 *            1024 bytes and 16 at one of 4096; WRITEs of one packet, which cost an acknowledge and
 *            a completion each; and memcpy of the same bytes.
 *
 * Each figure is the best of several rounds: of real time for threads, of the core's time for sim.
 * The rounds of threads are short and many, so that one of them is undisturbed on a busy machine.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/macros.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"

enum { ROUNDS = 7, SHORT_ROUNDS = 400, DEPTH = 32, BUFFER = 4 << 20 };

struct bench {
	struct ibv_context *ctx[2];
	struct ibv_pd *pd[2];
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	struct ibv_mr *mr[2];
	uint8_t *buffer[2];
	union ibv_gid gid[2];
};

static clockid_t bench_clock = CLOCK_MONOTONIC;

static uint64_t bench_now(void)
{
	struct timespec t;

	clock_gettime(bench_clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- a connected pair ----------------------------------------------------------------------- */

static void bench_open(struct bench *b, int end, struct ibv_device *device)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	b->ctx[end] = ibv_open_device(device);
	ASSERT(b->ctx[end]);
	b->pd[end] = ibv_alloc_pd(b->ctx[end]);
	b->cq[end] = ibv_create_cq(b->ctx[end], 4 * DEPTH, NULL, NULL, 0);
	b->buffer[end] = aligned_alloc(4096, BUFFER);
	ASSERT(b->pd[end] && b->cq[end] && b->buffer[end]);
	memset(b->buffer[end], end + 1, BUFFER);
	b->mr[end] = ibv_reg_mr(b->pd[end], b->buffer[end], BUFFER, access);
	struct ibv_qp_init_attr a = {.send_cq = b->cq[end],
				     .recv_cq = b->cq[end],
				     .cap = {.max_send_wr = 2 * DEPTH,
					     .max_recv_wr = 1,
					     .max_send_sge = 1,
					     .max_recv_sge = 1,
					     .max_inline_data = 64},
				     .qp_type = IBV_QPT_RC};

	b->qp[end] = ibv_create_qp(b->pd[end], &a);
	ASSERT(b->mr[end] && b->qp[end]);
	ASSERT(ibv_query_gid(b->ctx[end], 1, 3, &b->gid[end]) == 0);
}

static void bench_connect(struct bench *b, int end, enum ibv_mtu mtu)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	ASSERT(ibv_modify_qp(b->qp[end], &a,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_ACCESS_FLAGS) == 0);
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu,
		.dest_qp_num = b->qp[!end]->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = b->gid[!end], .sgid_index = 3, .hop_limit = 64}}};
	ASSERT(ibv_modify_qp(b->qp[end], &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER) == 0);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				 .timeout = 18,
				 .retry_cnt = 7,
				 .rnr_retry = 7,
				 .max_rd_atomic = 1};
	ASSERT(ibv_modify_qp(b->qp[end], &a,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void bench_make(struct bench *b, enum ibv_mtu mtu, int second)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	ASSERT(list && list[0] && list[second]);
	bench_open(b, 0, list[0]);
	bench_open(b, 1, list[second]);
	ibv_free_device_list(list);
	bench_connect(b, 0, mtu);
	bench_connect(b, 1, mtu);
}

static void bench_end(struct bench *b)
{
	for (int end = 0; end < 2; end++) {
		ibv_destroy_qp(b->qp[end]);
		ibv_destroy_cq(b->cq[end]);
		ibv_dereg_mr(b->mr[end]);
		ibv_dealloc_pd(b->pd[end]);
		ibv_close_device(b->ctx[end]);
		free(b->buffer[end]);
	}
}

/* Makes the request that a stream posts repeatedly, like programs that post many equal requests. */
static void bench_request(const struct bench *b, uint32_t bytes, struct ibv_send_wr *wr,
			  struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){.length = bytes, .lkey = b->mr[0]->lkey};
	*wr = (struct ibv_send_wr){.sg_list = sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_RDMA_WRITE,
				   .send_flags =
					   IBV_SEND_SIGNALED | (bytes <= 64 ? IBV_SEND_INLINE : 0),
				   .wr.rdma.rkey = b->mr[1]->rkey};
}

static void bench_post(const struct bench *b, struct ibv_send_wr *wr, uint64_t at)
{
	struct ibv_send_wr *bad;

	wr->sg_list->addr = (uintptr_t)b->buffer[0] + at;
	wr->wr.rdma.remote_addr = (uintptr_t)b->buffer[1] + at;
	ASSERT(ibv_post_send(b->qp[0], wr, &bad) == 0);
}

static void bench_poll(struct bench *b)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(b->cq[0], 1, &wc)) == 0)
		;
	ASSERT(n == 1 && wc.status == IBV_WC_SUCCESS);
}

/* Returns the offset of the next message in the buffers. */
static uint64_t bench_next(uint64_t at, uint32_t bytes)
{
	at += bytes;
	return at + bytes <= BUFFER ? at : 0;
}

/* Returns the nanoseconds for n messages with `depth` in flight; the best round. */
static uint64_t bench_stream(struct bench *b, uint32_t bytes, int n, int depth, int rounds)
{
	uint64_t best = UINT64_MAX;
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	bench_request(b, bytes, &wr, &sge);
	for (int r = 0; r < rounds; r++) {
		uint64_t start = bench_now(), at = 0;

		for (int posted = 0, polled = 0; polled < n;) {
			while (posted < n && posted - polled < depth) {
				bench_post(b, &wr, at);
				at = bench_next(at, bytes);
				posted++;
			}
			bench_poll(b);
			polled++;
		}
		best = MIN_OF(best, bench_now() - start);
	}
	return best;
}

static uint64_t bench_memcpy(struct bench *b, uint32_t bytes, int n, int rounds)
{
	uint64_t best = UINT64_MAX;

	for (int r = 0; r < rounds; r++) {
		uint64_t start = bench_now(), at = 0;

		for (int i = 0; i < n; i++) {
			memcpy(b->buffer[1] + at, b->buffer[0] + at, bytes);
			at = bench_next(at, bytes);
			__asm__ volatile("" ::: "memory");
		}
		best = MIN_OF(best, bench_now() - start);
	}
	return best;
}

/* ---- the two engines ------------------------------------------------------------------------ */

static void bench_threads(void *arg)
{
	static const uint32_t sizes[] = {65536, 1 << 20};
	const int n = 1000;
	const char *only = arg;
	struct bench b;

	bench_make(&b, IBV_MTU_4096, 0);
	if (only) {
		bench_stream(&b, 8, (int)strtoul(only, NULL, 10), 1, 1);
		bench_end(&b);
		return;
	}
	double one = (double)bench_stream(&b, 8, n, 1, SHORT_ROUNDS) / n;
	double many = (double)bench_stream(&b, 8, n, DEPTH, SHORT_ROUNDS) / n;

	printf("threads: 8 B WRITE, post + execute + poll   %8.1f ns\n", one);
	printf("threads: 8 B WRITE, %d in flight            %8.1f ns, %.1f million/s\n", DEPTH,
	       many, 1000 / many);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		int round = (int)(2 * BUFFER / sizes[i]);
		double bytes = (double)sizes[i] * round;
		double ours =
			bytes / (double)bench_stream(&b, sizes[i], round, 4, SHORT_ROUNDS / 4);
		double theirs = bytes / (double)bench_memcpy(&b, sizes[i], round, SHORT_ROUNDS / 4);

		printf("threads: %4u KiB WRITE %6.1f GB/s, memcpy %6.1f GB/s: %.0f %%\n",
		       sizes[i] >> 10, ours, theirs, 100 * ours / theirs);
	}
	bench_end(&b);
}

static void bench_sim(void *arg)
{
	static const struct {
		enum ibv_mtu mtu;
		uint32_t mtu_bytes, bytes;
		int n, depth;
	} row[] = {
		{IBV_MTU_1024, 1024, 65536, 2000, 8},
		{IBV_MTU_4096, 4096, 65536, 2000, 8},
		{IBV_MTU_1024, 1024, 1024, 20000, DEPTH},
		{IBV_MTU_1024, 1024, 8, 20000, DEPTH},
	};

	const char *only = arg;

	int rounds = only ? 1 : ROUNDS;

	bench_clock = CLOCK_PROCESS_CPUTIME_ID;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		if (only && i != strtoul(only, NULL, 10))
			continue;
		uint32_t bytes = row[i].bytes;
		int n = row[i].n;
		struct bench b;

		bench_make(&b, row[i].mtu, 1);
		double packets = (double)n * DIV_UP(bytes, row[i].mtu_bytes);
		double ours = (double)bench_stream(&b, bytes, n, row[i].depth, rounds);
		double theirs = (double)bench_memcpy(&b, bytes, n, rounds);

		printf("sim: WRITEs of %5u bytes, MTU %u: %5.2f million packets/s, %.2f GB/s, "
		       "memcpy %.1f GB/s\n",
		       bytes, row[i].mtu_bytes, packets * 1000 / ours, (double)n * bytes / ours,
		       (double)n * bytes / theirs);
		bench_end(&b);
	}
}

static int bench_run(enum sim_engine engine, void (*fn)(void *), void *arg)
{
	const struct sim_config config = {.engine = engine, .seed = 1, .strategy = SIM_FIFO};
	const struct world_config world = {.hosts = 1, .machine = "h100-8nic"};

	if (sim_start(&config) || world_create(&world))
		return SIM_USAGE;
	int verdict = sim_run(fn, arg);

	world_destroy();
	sim_stop();
	return verdict;
}

/* Arguments: "threads" or "sim" runs only that engine. For a profiler, "sim N" runs only row N,
 * once, and "threads N" sends N messages of 8 bytes, one after the other. */
int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : "";
	char *part = argc > 2 ? argv[2] : NULL;
	int rc = 0;

	if (strcmp(only, "sim") != 0)
		rc = bench_run(SIM_ENGINE_THREADS, bench_threads, part);
	if (!rc && strcmp(only, "threads") != 0)
		rc = bench_run(SIM_ENGINE_SIM, bench_sim, part);
	return rc;
}
