/* SPDX-License-Identifier: BSD-3-Clause */
/* A signal ends a wait for an event as it ends read(2): -1 and EINTR if the handler was installed
 * without SA_RESTART. With SA_RESTART the wait continues and gets its event. A thread that waits
 * can be cancelled. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "dropin/tests/library/side.h"

enum { FIRST_US = 20000, AGAIN_US = 10000 };

static struct side side;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static volatile sig_atomic_t alarms;

static int wait_cq(void)
{
	struct ibv_cq *got;
	void *context;
	int rc = ibv_get_cq_event(channel, &got, &context);

	if (!rc)
		ibv_ack_cq_events(got, 1);
	return rc;
}

static int wait_async(void)
{
	struct ibv_async_event e;
	int rc = ibv_get_async_event(side.ctx, &e);

	if (!rc)
		ibv_ack_async_event(&e);
	return rc;
}

static void on_alarm(int number)
{
	(void)number;
	alarms++;
}

static void ring_alarms(int flags)
{
	const struct sigaction a = {.sa_handler = on_alarm, .sa_flags = flags};
	/* repeated, because the first signal may arrive before the wait has begun */
	const struct itimerval t = {.it_value = {.tv_usec = FIRST_US},
				    .it_interval = {.tv_usec = AGAIN_US}};

	alarms = 0;
	need(!sigaction(SIGALRM, &a, NULL) && !setitimer(ITIMER_REAL, &t, NULL), "a timer");
}

static void stop_alarms(void)
{
	const struct itimerval none = {.it_value = {.tv_sec = 0}};

	need(!setitimer(ITIMER_REAL, &none, NULL), "no timer");
}

static void interrupted(int (*wait)(void), const char *what)
{
	ring_alarms(0);
	errno = 0;
	int rc = wait();
	int error = errno;

	stop_alarms();
	need(rc == -1 && error == EINTR && alarms > 0, what);
}

/* ---- a wait that continues ------------------------------------------------------------------ */

static void *post_later(void *arg)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND};

	(void)arg;
	while (alarms < 3)
		usleep(1000);
	need(!ibv_post_send(side.qp, &wr, &bad), "a send");
	return NULL;
}

static void restarted(void)
{
	pthread_t thread;
	sigset_t alarm_set;

	need(!ibv_req_notify_cq(cq, 0), "armed");
	/* the signal must be delivered to this thread, which waits */
	sigemptyset(&alarm_set);
	sigaddset(&alarm_set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm_set, NULL);
	need(!pthread_create(&thread, NULL, post_later, NULL), "a thread");
	pthread_sigmask(SIG_UNBLOCK, &alarm_set, NULL);
	ring_alarms(SA_RESTART);
	int rc = wait_cq();

	stop_alarms();
	need(rc == 0 && alarms >= 3, "a wait goes on where the handler has SA_RESTART");
	need(!pthread_join(thread, NULL), "the thread ends");
}

/* ---- cancellation --------------------------------------------------------------------------- */

static void *wait_for_ever(void *wait)
{
	(void)(*(int (**)(void))wait)();
	return NULL;
}

/* Cancels a waiting thread. Skipped under AddressSanitizer, which does not recognise that a
 * cancellation unwinds the thread's frames, and reports the end of the thread. */
static void cancelled(int (*wait)(void), const char *what)
{
	pthread_t thread;
	void *result;

#ifdef __SANITIZE_ADDRESS__
	return;
#endif
	need(!pthread_create(&thread, NULL, wait_for_ever, &wait), "a thread");
	usleep(FIRST_US);
	need(!pthread_cancel(thread) && !pthread_join(thread, &result) &&
		     result == PTHREAD_CANCELED,
	     what);
}

int main(void)
{
	side_fabric("signal");
	alarm(0); /* this test has its own alarms, and ctest its limit */
	side_open(&side, 0);
	channel = ibv_create_comp_channel(side.ctx);
	cq = ibv_create_cq(side.ctx, 16, NULL, channel, 0);
	need(channel && cq, "a completion queue with a channel");
	side.cq = cq;
	side_qp(&side);

	struct card me = side_card(&side);

	side_connect(&side, &me);

	struct ibv_recv_wr *bad, receive = {.wr_id = 1};

	need(!ibv_post_recv(side.qp, &receive, &bad), "a receive");
	interrupted(wait_cq, "ibv_get_cq_event is -1 and EINTR after a signal");
	interrupted(wait_async, "ibv_get_async_event is -1 and EINTR after a signal");
	restarted();
	cancelled(wait_cq, "a thread in ibv_get_cq_event is cancelled");
	cancelled(wait_async, "a thread in ibv_get_async_event is cancelled");
	return 0;
}
