/* SPDX-License-Identifier: BSD-3-Clause */
/* Kills processes while they destroy their queues, with receives and sends in them. The next
 * process on the fabric completes the destruction and detects no inconsistency. One program stays
 * on the fabric meanwhile, so that damage persists; its queue pair must still work at the end. */
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLS = 60, RECEIVES = 32 };

static uint32_t *turns; /* rounds of the killed process, in shared memory */

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	printf("%d: not so: %s\n", (int)getpid(), what);
	exit(1);
}

static struct ibv_pd *pd_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	need(list && list[0], "there is an HCA");
	struct ibv_context *ctx = ibv_open_device(list[0]);

	need(ctx != NULL, "it opens");
	ibv_free_device_list(list);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);

	need(pd != NULL, "a protection domain");
	return pd;
}

static struct ibv_qp *qp_make(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr a = {.send_cq = cq,
				     .recv_cq = cq,
				     .srq = srq,
				     .cap = {RECEIVES, RECEIVES, 1, 1, 0},
				     .qp_type = IBV_QPT_RC};
	struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp = ibv_create_qp(pd, &a);

	need(qp && !ibv_modify_qp(qp, &to,
				  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					  IBV_QP_ACCESS_FLAGS),
	     "a queue pair in INIT");
	return qp;
}

static void one_round(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = RECEIVES, .max_sge = 1}};
	struct ibv_recv_wr *bad, wr = {.num_sge = 0};
	struct ibv_cq *cq = ibv_create_cq(pd->context, 2 * RECEIVES, NULL, NULL, 0);
	struct ibv_srq *srq = ibv_create_srq(pd, &a);

	need(cq && srq, "queues");
	struct ibv_qp *qp = qp_make(pd, cq, NULL), *shares = qp_make(pd, cq, srq);

	for (int i = 0; i < RECEIVES; i++)
		need(!ibv_post_recv(qp, &wr, &bad) && !ibv_post_srq_recv(srq, &wr, &bad),
		     "receives");
	need(!ibv_destroy_qp(qp) && !ibv_destroy_qp(shares) && !ibv_destroy_srq(srq) &&
		     !ibv_destroy_cq(cq),
	     "all of it goes");
}

/* Runs rounds until it is killed. */
static void child_run(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct ibv_pd *pd = pd_open();

	for (;;) {
		one_round(pd);
		__atomic_fetch_add(turns, 1, __ATOMIC_RELEASE);
	}
}

static void kill_one(unsigned int us)
{
	uint32_t before = __atomic_load_n(turns, __ATOMIC_ACQUIRE);
	int status;

	fflush(stdout);
	pid_t child = fork();

	if (child == 0)
		child_run();
	while (__atomic_load_n(turns, __ATOMIC_ACQUIRE) == before) {
		need(waitpid(child, &status, WNOHANG) == 0, "it takes its queues down");
		usleep(200);
	}
	usleep(us);
	kill(child, SIGKILL);
	need(waitpid(child, &status, 0) == child && WIFSIGNALED(status), "it is killed");
}

/* Standard error of all processes. */
static char logged[1 << 16];

int main(void)
{
	char name[32];
	uint32_t draw = 1;
	FILE *err = tmpfile();
	int before = dup(2);

	alarm(250);
	snprintf(name, sizeof name, "reap-%d", (int)getpid());
	setenv("DOPPEL_FABRIC", name, 1);
	turns = mmap(NULL, sizeof *turns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	need(turns != MAP_FAILED && err && dup2(fileno(err), 2) == 2, "files");
	/* the resident is a separate process, because children of a process with an open device
	 * behave differently */
	pid_t stays = fork();

	if (stays == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		one_round(pd_open());
		__atomic_fetch_add(turns, 1, __ATOMIC_RELEASE);
		for (;;)
			pause();
	}
	while (!__atomic_load_n(turns, __ATOMIC_ACQUIRE))
		usleep(1000);
	for (int i = 0; i < KILLS; i++) {
		draw = draw * 1103515245 + 12345;
		kill_one(draw / 65536 % 1000);
	}
	one_round(pd_open()); /* clears the objects of the last one */
	kill(stays, SIGKILL);
	waitpid(stays, NULL, 0);
	dup2(before, 2);
	rewind(err);
	logged[fread(logged, 1, sizeof logged - 1, err)] = '\0';
	if (*logged)
		printf("logged: %.2000s\n", logged);
	need(!strstr(logged, "request of a") && !strstr(logged, "queue ends"),
	     "each request ends once");
	return 0;
}
