/* SPDX-License-Identifier: BSD-3-Clause */
/* Half of a page is registered when the program forks. The child has its own copy of the page, may
 * write there, and cannot use its parent's verbs objects. Writes of HCAs arrive in the parent's
 * memory, also after either process has written to the page. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

static void child(struct pair *p, char *page, int from)
{
	struct ibv_wc wc;
	char byte;

	if (strcmp(page, "both") || strcmp(page + 2048, "before"))
		_exit(1);
	memcpy(page, "child", 6);
	memcpy(page + 2048, "child", 6);
	if (read(from, &byte, 1) != 1) /* the parent's HCA has written */
		_exit(2);
	if (strcmp(page, "child") || strcmp(page + 2048, "child"))
		_exit(3);
	_exit(ibv_poll_cq(p->cq, 1, &wc) < 0 ? 0 : 4);
}

int main(void)
{
	struct pair p;
	int line[2], status;

	pair_need(!ibv_fork_init(), "ibv_fork_init");
	pair_open(&p);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(page, "both", 5);
	memcpy(page + 2048, "before", 7);
	struct ibv_mr *half = ibv_reg_mr(p.pd, page + 2048, 2048, PAIR_ACCESS);

	pair_need(half && !pipe(line), "a region, a pipe");
	pair_connect(&p);
	pid_t pid = fork();

	if (pid == 0)
		child(&p, page, line[0]);
	/* copies the page (copy-on-write) unless it is protected from that */
	memcpy(page, "parent", 7);
	memcpy(p.memory, "arrived", 8);
	struct ibv_sge sge = {(uintptr_t)p.memory, 8, p.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)page + 2048, half->rkey}};
	struct ibv_send_wr *bad;

	pair_need(!ibv_post_send(p.qp[0], &wr, &bad), "a write");
	pair_need(pair_wait(&p).status == IBV_WC_SUCCESS, "a write that succeeds");
	pair_need(!strcmp(page, "parent") && !strcmp(page + 2048, "arrived"), "the parent's page");
	pair_need(write(line[1], "x", 1) == 1, "a byte for the child");
	pair_need(waitpid(pid, &status, 0) == pid, "the child's end");
	if (status)
		printf("the child ended with 0x%x\n", status);
	return status != 0;
}
