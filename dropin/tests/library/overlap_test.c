/* SPDX-License-Identifier: BSD-3-Clause */
/* A registration copies whole pages into shared memory. Writes of a peer to another region on those
 * pages are not lost meanwhile. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "dropin/tests/library/side.h"

enum { BLOCK_BYTES = 64 * 4096, WORD_AT = 5000, ROUNDS = 1000 };

/* Executes one request of 8 bytes between the buffer and the peer's. */
static void side_move(struct side *s, enum ibv_wr_opcode opcode, const struct card *to)
{
	struct ibv_sge sge = {.addr = (uintptr_t)s->buffer, .length = 8, .lkey = s->mr->lkey};
	struct ibv_send_wr *bad,
		wr = {.sg_list = &sge,
		      .num_sge = 1,
		      .opcode = opcode,
		      .wr = {.rdma = {.remote_addr = to->address, .rkey = to->rkey}}};
	struct ibv_wc wc;

	need(!ibv_post_send(s->qp, &wr, &bad), "it is posted");
	while (!ibv_poll_cq(s->cq, 1, &wc))
		;
	need(wc.status == IBV_WC_SUCCESS, "it is done");
}

/* Writes a number to the peer's word, and reads it back, until the reader ends. */
static void peer(int in, int out)
{
	struct side s;
	struct card theirs;

	side_open(&s, 0);
	side_qp(&s);
	struct card mine = side_card(&s);

	need(write(out, &mine, sizeof mine) == sizeof mine, "a card is sent");
	need(read(in, &theirs, sizeof theirs) == sizeof theirs, "a card comes");
	side_connect(&s, &theirs);
	uint64_t *word = (uint64_t *)s.buffer;

	for (uint64_t i = 1;; i++) {
		*word = i;
		side_move(&s, IBV_WR_RDMA_WRITE, &theirs);
		*word = 0;
		side_move(&s, IBV_WR_RDMA_READ, &theirs);
		if (*word != i)
			printf("wrote %llu, read %llu\n", (unsigned long long)i,
			       (unsigned long long)*word);
		need(*word == i, "what was written is there");
		if (i % 64 == 0 && write(out, "", 1) != 1)
			exit(0);
	}
}

int main(void)
{
	int in, out, status;
	struct side s;
	struct card theirs;
	char byte;

	signal(SIGPIPE, SIG_IGN);
	side_fabric("overlap");
	pid_t child = side_fork(peer, &in, &out);

	side_open(&s, 0);
	side_qp(&s);
	unsigned char *block = aligned_alloc(4096, BLOCK_BYTES);

	need(block != NULL, "memory");
	memset(block, 0, BLOCK_BYTES);
	const int access =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_mr *small = ibv_reg_mr(s.pd, block + WORD_AT, 64, access); /* no whole page */

	need(small != NULL, "a small region");
	struct card mine = side_card(&s);

	mine.rkey = small->rkey;
	mine.address = (uintptr_t)small->addr;
	need(read(in, &theirs, sizeof theirs) == sizeof theirs, "a card comes");
	side_connect(&s, &theirs);
	need(write(out, &mine, sizeof mine) == sizeof mine, "a card is sent");
	need(read(in, &byte, 1) == 1, "it writes");
	for (int i = 0; i < ROUNDS && waitpid(child, &status, WNOHANG) == 0; i++) {
		struct ibv_mr *large = ibv_reg_mr(s.pd, block, BLOCK_BYTES, access);

		need(large && !ibv_dereg_mr(large), "a large region around it");
	}
	close(in);
	need(waitpid(child, &status, 0) == child && status == 0, "the writer lost nothing");
	return 0;
}
