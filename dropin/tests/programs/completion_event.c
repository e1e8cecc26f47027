/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion events. A completion that is already in the queue when it is armed causes no event.
 * The next one does, but only one event. A queue that is armed for solicited completions causes no
 * event for others, and one for an error. */
#include <poll.h>

#include "pair.h"

static int event_comes(const struct pair *p, int ms)
{
	struct pollfd f = {.fd = p->channel->fd, .events = POLLIN};

	return poll(&f, 1, ms) == 1;
}

static void event_take(const struct pair *p)
{
	struct ibv_cq *cq = NULL;
	void *context;

	pair_need(event_comes(p, 60000), "an event");
	pair_need(!ibv_get_cq_event(p->channel, &cq, &context) && cq == p->cq, "the queue's event");
	ibv_ack_cq_events(cq, 1);
	pair_need(!event_comes(p, 0), "one event alone");
}

static void write_one(const struct pair *p)
{
	pair_need(!pair_post(p, IBV_WR_RDMA_WRITE, p->mr->rkey), "a write");
}

int main(void)
{
	struct pair p;
	struct ibv_wc wc;

	pair_open(&p);
	pair_connect(&p);
	write_one(&p);
	while (!memchr(p.memory + 64, 1, 1)) { /* until the write has arrived */
		p.memory[0] = 1;
		write_one(&p);
		pair_need(pair_wait(&p).status == IBV_WC_SUCCESS, "a write that succeeds");
	}
	/* one completion remains in the queue */
	pair_need(!ibv_req_notify_cq(p.cq, 0), "an armed queue");
	pair_need(!event_comes(&p, 300), "no event of what was there before");
	write_one(&p);
	event_take(&p);
	pair_wait(&p);
	pair_wait(&p);
	pair_need(ibv_poll_cq(p.cq, 1, &wc) == 0, "an empty queue");
	write_one(&p);
	pair_wait(&p);
	pair_need(!event_comes(&p, 100), "no event of a queue that is not armed again");

	pair_need(!ibv_req_notify_cq(p.cq, 1), "a queue that is armed for solicited ones");
	write_one(&p);
	pair_wait(&p);
	pair_need(!event_comes(&p, 200), "no event of one that is not solicited");
	pair_need(!ibv_req_notify_cq(p.cq, 0), "a queue that is armed for all");
	write_one(&p);
	event_take(&p);
	pair_wait(&p);
	pair_need(!ibv_req_notify_cq(p.cq, 1), "a queue that is armed for solicited ones");
	pair_need(!pair_post(&p, IBV_WR_RDMA_WRITE, p.mr->rkey + 1), "a write with a bad key");
	event_take(&p);
	pair_need(pair_wait(&p).status == IBV_WC_REM_ACCESS_ERR, "a refused write");
	return 0;
}
