/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program for tests/sim/programs/ras_hangs_test.sh: trial_absent KIND. Each kind is a hang of
 * which the last rank is the cause, except where a comment differs. Each rank prints "rank R hangs"
 * before it waits, and the program waits without end.
 */
#include <unistd.h>

#include "trial.h"

#define COUNT 100000

static ncclComm_t comm;
static float *x, *y;
static cudaStream_t stream;

static int is_last(void)
{
	return rank == ranks - 1;
}

static void hangs(void)
{
	printf("rank %d hangs\n", rank);
	fflush(stdout);
}

static void stay(void)
{
	for (;;)
		usleep(100000);
}

static void sum_of(ncclComm_t c)
{
	need(!ncclAllReduce(x, x, COUNT, ncclFloat, ncclSum, c, stream), "ncclAllReduce");
}

static void begin(void)
{
	comm = make_comm();
	need(!cudaMalloc((void **)&x, COUNT * ranks * sizeof *x), "cudaMalloc");
	need(!cudaMalloc((void **)&y, COUNT * ranks * sizeof *y), "cudaMalloc");
	need(!cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	sum_of(comm);
	need(!cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

static void end(void)
{
	hangs();
	(void)cudaStreamSynchronize(stream);
	stay();
}

/* The last rank calls one collective less. */
static void collective(void)
{
	begin();
	if (!is_last())
		sum_of(comm);
	end();
}

/* The last rank calls nothing for the call of the others, a collective of messages. */
static void all_to_all(void)
{
	begin();
	hangs();
	if (!is_last())
		need(!ncclAlltoAll(x, y, COUNT, ncclFloat, comm, stream), "ncclAlltoAll");
	end();
}

static void send_to(int peer)
{
	need(!ncclSend(x, COUNT, ncclFloat, peer, comm, stream), "ncclSend");
}

static void recv_from(int peer)
{
	need(!ncclRecv(y, COUNT, ncclFloat, peer, comm, stream), "ncclRecv");
}

/* The last rank does not receive what rank 0 sends; the two are not connected yet. */
static void send_first(void)
{
	begin();
	hangs();
	if (rank == 0)
		send_to(ranks - 1);
	end();
}

/* The last rank receives one message less than rank 0 sends. */
static void send_more(void)
{
	begin();
	if (rank == 0)
		send_to(ranks - 1);
	if (is_last())
		recv_from(0);
	need(!cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	if (rank == 0)
		for (int i = 0; i < 8; i++)
			send_to(ranks - 1);
	end();
}

/* The last rank receives what rank 0 has not sent. */
static void receive(void)
{
	begin();
	hangs();
	if (is_last())
		recv_from(0);
	end();
}

/* The last rank launches the collectives of two communicators in the other order. */
static void order(void)
{
	ncclComm_t other;

	begin();
	other = make_comm();
	sum_of(is_last() ? other : comm);
	sum_of(is_last() ? comm : other);
	end();
}

static void split(void)
{
	ncclComm_t child;

	begin();
	hangs();
	if (!is_last())
		need(!ncclCommSplit(comm, 0, rank, &child, NULL), "ncclCommSplit");
	stay();
}

/* Rank 0 makes the id of the child. */
static void shrink(void)
{
	ncclComm_t child;
	int gone = ranks - 1;

	begin();
	hangs();
	if (rank != 0 && !is_last())
		need(!ncclCommShrink(comm, &gone, 1, &child, NULL, 0), "ncclCommShrink");
	stay();
}

static void suspend(void)
{
	begin();
	hangs();
	if (!is_last())
		need(!ncclCommSuspend(comm, NCCL_SUSPEND_MEM), "ncclCommSuspend");
	stay();
}

static void init(void)
{
	hangs();
	if (!is_last())
		(void)make_comm();
	stay();
}

/* Rank 0, whose process has the root, is absent. */
static void init_root(void)
{
	hangs();
	if (rank)
		(void)make_comm();
	stay();
}

/* The last rank's process ends when the others have launched: earlier, their calls would fail. */
static void leaves(void)
{
	begin();
	if (is_last()) {
		usleep(1000000);
		_exit(0);
	}
	sum_of(comm);
	end();
}

/* Runs until a process is stopped. */
static void runs(void)
{
	begin();
	hangs();
	for (;;) {
		sum_of(comm);
		need(!cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	}
}

static const struct trial trials[] = {
	{"collective", collective},
	{"all_to_all", all_to_all},
	{"send_first", send_first},
	{"send_more", send_more},
	{"receive", receive},
	{"order", order},
	{"split", split},
	{"shrink", shrink},
	{"suspend", suspend},
	{"init", init},
	{"init_root", init_root},
	{"leaves", leaves},
	{"runs", runs},
	{0},
};

int main(int argc, char **argv)
{
	return trial_main(argc, argv, trials);
}
