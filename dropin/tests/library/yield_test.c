/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes share one processor, and one of them polls: it yields the processor when a poll
 * finds nothing. The other meanwhile sends a message and then changes a word elsewhere ("I am
 * gone"). The program must not see the two in the opposite order: an empty poll, and then the word.
 * Otherwise programs that look at their connection's events after an empty poll lose their last
 * message. For example, libfabric's ofi_rxm then destroys the queue pair and its completions. */
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "dropin/tests/library/side.h"

enum { ROUNDS = 200 };

/* The kernel may preempt the poller at the critical point, but it seldom does. */
enum { OFTEN = ROUNDS / 2 };

/* Both processes have it mapped. */
static struct {
	struct card card[2];
	uint32_t known[2];
	uint32_t connected[2];
	uint32_t round; /* number of the message for which the poller waits */
	uint32_t sent;  /* number of the last message sent */
} * shared;

static void await(const uint32_t *word, uint32_t value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
		sched_yield();
}

static void make(struct side *s, bool extended, int me)
{
	struct ibv_cq_init_attr_ex cq = {.cqe = 16};

	side_open_device(s, 0);
	if (extended) {
		struct ibv_cq_ex *ex = ibv_create_cq_ex(s->ctx, &cq);

		s->cq = ex ? ibv_cq_ex_to_cq(ex) : NULL;
	} else {
		s->cq = ibv_create_cq(s->ctx, 16, NULL, NULL, 0);
	}
	need(s->cq != NULL, "a completion queue");
	side_qp(s);
	shared->card[me] = (struct card){.gid = s->gid, .qpn = s->qp->qp_num};
	__atomic_store_n(&shared->known[me], 1, __ATOMIC_RELEASE);
	await(&shared->known[!me], 1);
	side_connect(s, &shared->card[!me]);
	__atomic_store_n(&shared->connected[me], 1, __ATOMIC_RELEASE);
	await(&shared->connected[!me], 1);
}

static void side_close(struct side *s)
{
	need(!ibv_destroy_qp(s->qp) && !ibv_destroy_cq(s->cq) && !ibv_dealloc_pd(s->pd) &&
		     !ibv_close_device(s->ctx),
	     "all of it goes");
}

/* True if there was a completion, which must be a success. */
static bool side_poll(struct side *s, bool extended)
{
	struct ibv_poll_cq_attr none = {.comp_mask = 0};
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)s->cq;
	struct ibv_wc wc;

	if (!extended) {
		int n = ibv_poll_cq(s->cq, 1, &wc);

		need(n == 0 || (n == 1 && wc.status == IBV_WC_SUCCESS), "a poll");
		return n == 1;
	}
	int rc = ibv_start_poll(ex, &none);

	need(!rc || rc == ENOENT, "an extended poll");
	if (rc)
		return false;
	need(ex->status == IBV_WC_SUCCESS, "a good completion");
	ibv_end_poll(ex);
	return true;
}

static void sender_run(bool extended)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND};
	struct side s;

	make(&s, extended, 1);
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		await(&shared->round, i);
		need(!ibv_post_send(s.qp, &wr, &bad), "a message");
		while (!side_poll(&s, extended))
			;
		__atomic_store_n(&shared->sent, i, __ATOMIC_RELEASE);
	}
	await(&shared->round, ROUNDS + 1);
	side_close(&s);
	exit(0);
}

/* Returns how often the word changed before the message was visible. */
static int poller_run(bool extended)
{
	struct ibv_recv_wr *bad, wr = {.num_sge = 0};
	struct side s;
	int wrong = 0;

	make(&s, extended, 0);
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		bool sent = false;

		need(!ibv_post_recv(s.qp, &wr, &bad), "a receive");
		__atomic_store_n(&shared->round, i, __ATOMIC_RELEASE);
		while (!side_poll(&s, extended)) {
			if (!sent && __atomic_load_n(&shared->sent, __ATOMIC_ACQUIRE) == i) {
				sent = true;
				wrong++;
			}
		}
	}
	__atomic_store_n(&shared->round, ROUNDS + 1, __ATOMIC_RELEASE);
	side_close(&s);
	return wrong;
}

/* Binds this process, and its children, to the first processor that it may use. */
static void one_processor(void)
{
	cpu_set_t mine;
	int first = 0;

	need(!sched_getaffinity(0, sizeof mine, &mine), "which processors");
	while (!CPU_ISSET(first, &mine))
		first++;
	CPU_ZERO(&mine);
	CPU_SET(first, &mine);
	need(!sched_setaffinity(0, sizeof mine, &mine), "one processor");
}

static void run(bool extended)
{
	int status;

	memset(shared, 0, sizeof *shared);
	fflush(stdout);
	pid_t child = fork();

	if (child == 0)
		sender_run(extended);
	/* also in a separate process: the next pair starts with new ones */
	pid_t poller = fork();

	if (poller == 0) {
		int wrong = poller_run(extended);

		printf("%s: %d of %d times nothing was there, and then that it was sent\n",
		       extended ? "ibv_start_poll" : "ibv_poll_cq", wrong, ROUNDS);
		exit(wrong > OFTEN);
	}
	need(waitpid(poller, &status, 0) == poller && status == 0, "the poller is content");
	need(waitpid(child, &status, 0) == child && status == 0, "the sender is content");
}

int main(void)
{
	side_fabric("yield");
	one_processor();
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	need(shared != MAP_FAILED, "shared words");
	run(false);
	run(true);
	return 0;
}
