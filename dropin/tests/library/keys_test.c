/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of other owners, between processes of a fabric. Requests with keys of another process or of
 * another HCA end with the specification's error, and a log line names the owner. */
#include <sys/wait.h>

#include "dropin/tests/library/side.h"

/* Returns the status of a WRITE of 64 bytes with these keys. Inlined, because a rule reports each
 * call site only once. */
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

/* ---- reports -------------------------------------------------------------------------------- */

static char logged[1 << 16];

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
	logged[fread(logged, 1, sizeof logged - 1, file)] = '\0';
	fclose(file);
}

static void need_said(const char *what)
{
	if (!strstr(logged, what))
		printf("logged: %s\n", logged);
	need(strstr(logged, what) != NULL, what);
}

/* ---- the other process ---------------------------------------------------------------------- */

/* Waits while the peer that is connected to it writes, and never polls. Connects a new queue pair
 * for each card that it receives. */
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
	int in, out, status, err;
	struct side a, second;
	FILE *file;

	side_fabric("keys");
	pid_t child = side_fork(other_process, &in, &out);

	side_open(&a, 0);
	side_open(&second, 1);
	listen_start(&file, &err);

	struct card c = meet(&a, in, out);

	need(c.rkey != a.mr->rkey, "keys of two processes differ");
	need(side_write(&a, a.mr->lkey, c.rkey, c.address) == IBV_WC_SUCCESS,
	     "what is right works");
	need(side_write(&a, c.rkey, c.rkey, c.address) == IBV_WC_LOC_PROT_ERR,
	     "another process' key as lkey");
	c = meet(&a, in, out);
	need(side_write(&a, second.mr->lkey, c.rkey, c.address) == IBV_WC_LOC_PROT_ERR,
	     "another HCA's lkey");
	c = meet(&a, in, out);
	need(side_write(&a, a.mr->lkey, a.mr->rkey, (uintptr_t)a.buffer) == IBV_WC_REM_ACCESS_ERR,
	     "one's own rkey, sent to the other process");
	c = meet(&a, in, out);
	need(side_write(&a, a.mr->lkey, second.mr->rkey, (uintptr_t)second.buffer) ==
		     IBV_WC_REM_ACCESS_ERR,
	     "another HCA's rkey");
	c = meet(&a, in, out);
	need(side_write(&a, a.mr->lkey, c.rkey, c.address + BYTES - 63) == IBV_WC_REM_ACCESS_ERR,
	     "over the end of the other's region");
	listen_end(file, err);
	need_said("verbs-wrong-domain: ");
	need_said("posted at main+0x");
	need_said("(registered at another process)");
	need_said(" is of another HCA (registered at side_open+0x");
	need_said("verbs-mr-bounds: ");
	need(memcmp(a.buffer, second.buffer, BYTES) == 0, "nothing was written where it may not");

	close(out);
	need(waitpid(child, &status, 0) == child && status == 0, "the other process is content");
	return 0;
}
