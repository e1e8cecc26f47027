/* SPDX-License-Identifier: BSD-3-Clause */
/* A program for tests/sim/programs/trials_test.sh: groups over several streams, several
 * communicators, and messages that two ranks group differently: trial_groups KIND. Each process
 * drives one rank, but for the kinds of streams, where it drives two. */
#include "trial.h"

#define GPUS   2
#define COUNT  (1 << 16)
#define COPIES 20
#define MANY   100000

static ncclComm_t comm[GPUS];

/* ---- several streams in a group
 * --------------------------------------------------------------- */

static struct side {
	cudaStream_t first, second;
	int *a, *b, *copy, *source;
} side[GPUS];

static int *filled(int value)
{
	int *device, *host = malloc(COUNT * sizeof *host);

	need(host && !cudaMalloc((void **)&device, COUNT * sizeof *device), "cudaMalloc");
	for (int i = 0; i < COUNT; i++)
		host[i] = value;
	need(!cudaMemcpy(device, host, COUNT * sizeof *host, cudaMemcpyHostToDevice), "cudaMemcpy");
	free(host);
	return device;
}

static void all_are(const int *device, int value, const char *what)
{
	int *host = malloc(COUNT * sizeof *host), wrong = 0;

	need(host && !cudaMemcpy(host, device, COUNT * sizeof *host, cudaMemcpyDeviceToHost),
	     "cudaMemcpy");
	for (int i = 0; i < COUNT; i++)
		wrong += host[i] != value;
	if (wrong)
		printf("rank %d: %d of %d wrong in %s: %d, expected %d\n", rank, wrong, COUNT, what,
		       host[0], value);
	free(host);
	need(!wrong, what);
}

/* Rank k of `2 * ranks` has k + 1 in every element. */
static int number_of(int gpu)
{
	return GPUS * rank + gpu;
}

static void sides_begin(void)
{
	ncclUniqueId id;

	need(!ncclGetUniqueId(&id) && !ncclGroupStart(), "a group");
	for (int g = 0; g < GPUS; g++) {
		need(!cudaSetDevice(device_of(g, GPUS)), "cudaSetDevice");
		need(!ncclCommInitRank(&comm[g], GPUS * ranks, id, number_of(g)),
		     "ncclCommInitRank");
	}
	need(!ncclGroupEnd(), "init");
	for (int g = 0; g < GPUS; g++) {
		struct side *s = &side[g];

		need(!cudaSetDevice(device_of(g, GPUS)), "cudaSetDevice");
		need(!cudaStreamCreateWithFlags(&s->first, cudaStreamNonBlocking) &&
			     !cudaStreamCreateWithFlags(&s->second, cudaStreamNonBlocking),
		     "streams");
		s->a = filled(0);
		s->b = filled(number_of(g) + 1);
		s->copy = filled(0);
		s->source = filled(number_of(g) + 1);
		need(!cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	}
}

static void sides_end(void)
{
	for (int g = 0; g < GPUS; g++) {
		struct side *s = &side[g];

		need(!cudaSetDevice(device_of(g, GPUS)) && !ncclCommDestroy(comm[g]),
		     "ncclCommDestroy");
		need(!cudaFree(s->a) && !cudaFree(s->b) && !cudaFree(s->copy) &&
			     !cudaFree(s->source),
		     "cudaFree");
		need(!cudaStreamDestroy(s->first) && !cudaStreamDestroy(s->second),
		     "cudaStreamDestroy");
	}
	printf("rank %d: right\n", rank);
}

static int sum_of_all(void)
{
	int all = GPUS * ranks;

	return all * (all + 1) / 2;
}

/* A stream of the group waits for what its other stream has done in it. */
static void streams_after(void)
{
	sides_begin();
	need(!ncclGroupStart(), "a group");
	for (int g = 0; g < GPUS; g++) {
		struct side *s = &side[g];

		need(!ncclAllReduce(s->a, s->a, COUNT, ncclInt, ncclSum, comm[g], s->first),
		     "a sum");
		need(!ncclAllReduce(s->b, s->b, COUNT, ncclInt, ncclSum, comm[g], s->second),
		     "a sum");
	}
	need(!ncclGroupEnd(), "the group");
	for (int g = 0; g < GPUS; g++)
		need(!cudaMemcpyAsync(side[g].copy, side[g].b, COUNT * sizeof(int),
				      cudaMemcpyDeviceToDevice, side[g].first),
		     "a copy");
	for (int g = 0; g < GPUS; g++)
		need(!cudaStreamSynchronize(side[g].first), "the first stream");
	for (int g = 0; g < GPUS; g++)
		all_are(side[g].copy, sum_of_all(),
			"a copy in the first stream of the second stream's sum");
	for (int g = 0; g < GPUS; g++)
		need(!cudaStreamSynchronize(side[g].second), "the second stream");
	sides_end();
}

/* The group waits for what each of its streams had before it. */
static void streams_before(void)
{
	sides_begin();
	for (int g = 0; g < GPUS; g++) {
		for (int i = 0; i < COPIES; i++)
			need(!cudaMemcpyAsync(side[g].copy, side[g].source, COUNT * sizeof(int),
					      cudaMemcpyDeviceToDevice, side[g].second),
			     "a copy");
		need(!cudaMemcpyAsync(side[g].a, side[g].source, COUNT * sizeof(int),
				      cudaMemcpyDeviceToDevice, side[g].second),
		     "a copy");
	}
	need(!ncclGroupStart(), "a group");
	for (int g = 0; g < GPUS; g++) {
		struct side *s = &side[g];

		need(!ncclAllReduce(s->a, s->a, COUNT, ncclInt, ncclSum, comm[g], s->first),
		     "a sum");
		need(!ncclAllReduce(s->b, s->b, COUNT, ncclInt, ncclSum, comm[g], s->second),
		     "a sum");
	}
	need(!ncclGroupEnd(), "the group");
	for (int g = 0; g < GPUS; g++)
		need(!cudaStreamSynchronize(side[g].first), "the first stream");
	for (int g = 0; g < GPUS; g++)
		all_are(side[g].a, sum_of_all(),
			"the first stream's sum of what the second stream copied");
	for (int g = 0; g < GPUS; g++)
		need(!cudaStreamSynchronize(side[g].second), "the second stream");
	sides_end();
}

/* The same with messages in the second stream, around all ranks. */
static void streams_messages(void)
{
	int all = GPUS * ranks;

	sides_begin();
	need(!ncclGroupStart(), "a group");
	for (int g = 0; g < GPUS; g++) {
		struct side *s = &side[g];
		int next = (number_of(g) + 1) % all, before = (number_of(g) + all - 1) % all;

		need(!ncclAllReduce(s->a, s->a, COUNT, ncclInt, ncclSum, comm[g], s->first),
		     "a sum");
		need(!ncclSend(s->source, COUNT, ncclInt, next, comm[g], s->second), "ncclSend");
		need(!ncclRecv(s->b, COUNT, ncclInt, before, comm[g], s->second), "ncclRecv");
	}
	need(!ncclGroupEnd(), "the group");
	for (int g = 0; g < GPUS; g++)
		need(!cudaMemcpyAsync(side[g].copy, side[g].b, COUNT * sizeof(int),
				      cudaMemcpyDeviceToDevice, side[g].first),
		     "a copy");
	for (int g = 0; g < GPUS; g++)
		need(!cudaStreamSynchronize(side[g].first) &&
			     !cudaStreamSynchronize(side[g].second),
		     "streams");
	for (int g = 0; g < GPUS; g++)
		all_are(side[g].copy, (number_of(g) + all - 1) % all + 1,
			"a copy in the first stream of the second stream's message");
	sides_end();
}

/* ---- messages
 * ----------------------------------------------------------------------------------- */

static cudaStream_t stream;
static int *out, *in;

static void pair_begin(void)
{
	comm[0] = make_comm();
	need(!cudaStreamCreate(&stream), "cudaStreamCreate");
	out = filled(rank + 1);
	in = filled(0);
}

static void pair_end(int from)
{
	need(!cudaStreamSynchronize(stream), "the stream");
	if (from >= 0)
		all_are(in, from + 1, "what was received");
	need(!ncclCommDestroy(comm[0]), "ncclCommDestroy");
	need(!cudaFree(out) && !cudaFree(in) && !cudaStreamDestroy(stream), "cudaFree");
	printf("rank %d: right\n", rank);
}

/* Even ranks send and then receive, in two calls; odd ones do both in a group. */
static void split(void)
{
	int peer = rank ^ 1;

	pair_begin();
	if (peer >= ranks) {
		pair_end(-1);
		return;
	}
	if (rank % 2 == 0) {
		need(!ncclSend(out, COUNT, ncclInt, peer, comm[0], stream), "ncclSend");
		need(!ncclRecv(in, COUNT, ncclInt, peer, comm[0], stream), "ncclRecv");
	} else {
		need(!ncclGroupStart(), "a group");
		need(!ncclRecv(in, COUNT, ncclInt, peer, comm[0], stream), "ncclRecv");
		need(!ncclSend(out, COUNT, ncclInt, peer, comm[0], stream), "ncclSend");
		need(!ncclGroupEnd(), "the group");
	}
	pair_end(peer);
}

/* Every rank's first call is a send to the next one, and none receives before it returns. */
static void all_send(void)
{
	pair_begin();
	ncclResult_t rc = ncclSend(out, COUNT, ncclInt, (rank + 1) % ranks, comm[0], stream);

	printf("rank %d: %s: %s\n", rank, ncclGetErrorString(rc), ncclGetLastError(NULL));
	(void)ncclRecv(in, COUNT, ncclInt, (rank + ranks - 1) % ranks, comm[0], stream);
	(void)cudaStreamSynchronize(stream);
}

/* Messages of no element, to all ranks and to oneself, and one that is not empty. */
static void empty(void)
{
	pair_begin();
	need(!ncclGroupStart(), "a group");
	for (int r = 0; r < ranks; r++) {
		need(!ncclSend(NULL, 0, ncclInt, r, comm[0], stream), "ncclSend");
		need(!ncclRecv(NULL, 0, ncclInt, r, comm[0], stream), "ncclRecv");
	}
	need(!ncclSend(out, COUNT, ncclInt, (rank + 1) % ranks, comm[0], stream), "ncclSend");
	need(!ncclRecv(in, COUNT, ncclInt, (rank + ranks - 1) % ranks, comm[0], stream),
	     "ncclRecv");
	need(!ncclGroupEnd(), "the group");
	pair_end((rank + ranks - 1) % ranks);
}

/* A group of very many messages to oneself ends in a time in proportion to their number. */
static void to_oneself(void)
{
	int *host = malloc(2 * MANY * sizeof *host), *both, wrong = 0;

	pair_begin();
	for (int i = 0; i < 2 * MANY; i++)
		host[i] = i;
	need(!cudaMalloc((void **)&both, 2 * MANY * sizeof *both), "cudaMalloc");
	need(!cudaMemcpy(both, host, 2 * MANY * sizeof *both, cudaMemcpyHostToDevice),
	     "cudaMemcpy");
	need(!ncclGroupStart(), "a group");
	for (int i = 0; i < MANY; i++) {
		need(!ncclSend(both + i, 1, ncclInt, rank, comm[0], stream), "ncclSend");
		need(!ncclRecv(both + MANY + i, 1, ncclInt, rank, comm[0], stream), "ncclRecv");
	}
	need(!ncclGroupEnd() && !cudaStreamSynchronize(stream), "the group");
	need(!cudaMemcpy(host, both, 2 * MANY * sizeof *both, cudaMemcpyDeviceToHost),
	     "cudaMemcpy");
	for (int i = 0; i < MANY; i++)
		wrong += host[MANY + i] != i;
	need(!wrong, "messages to oneself");
	free(host);
	need(!cudaFree(both), "cudaFree");
	pair_end(-1);
}

static void all_to_all_in_place(void)
{
	int *host = malloc((size_t)ranks * sizeof *host), *device;

	pair_begin();
	for (int r = 0; r < ranks; r++)
		host[r] = 100 * rank + r;
	need(!cudaMalloc((void **)&device, (size_t)ranks * sizeof *device), "cudaMalloc");
	need(!cudaMemcpy(device, host, (size_t)ranks * sizeof *device, cudaMemcpyHostToDevice),
	     "cudaMemcpy");
	need(!ncclAlltoAll(device, device, 1, ncclInt, comm[0], stream) &&
		     !cudaStreamSynchronize(stream),
	     "ncclAlltoAll");
	need(!cudaMemcpy(host, device, (size_t)ranks * sizeof *device, cudaMemcpyDeviceToHost),
	     "cudaMemcpy");
	for (int r = 0; r < ranks; r++)
		need(host[r] == 100 * r + rank, "a block of ncclAlltoAll");
	free(host);
	need(!cudaFree(device), "cudaFree");
	pair_end(-1);
}

/* ---- two communicators
 * --------------------------------------------------------------------------- */

/* Rank 0 sends over both in one group; rank 1 receives in two calls. */
static void two_comms(void)
{
	pair_begin();
	comm[1] = make_comm();
	if (rank == 0 && ranks > 1) {
		need(!ncclGroupStart(), "a group");
		for (int i = 0; i < 2; i++)
			need(!ncclSend(out, COUNT, ncclInt, 1, comm[i], stream), "ncclSend");
		need(!ncclGroupEnd(), "the group");
	}
	for (int i = 0; i < 2 && rank == 1; i++)
		need(!ncclRecv(in, COUNT, ncclInt, 0, comm[i], stream), "ncclRecv");
	need(!cudaStreamSynchronize(stream), "the stream");
	need(!ncclCommDestroy(comm[1]), "ncclCommDestroy");
	pair_end(rank == 1 ? 0 : -1);
}

/* Rank 0 launches over one communicator and then the other, each in a stream of its own; rank 1
 * launches in the opposite order. */
static void crossed(void)
{
	cudaStream_t other;

	pair_begin();
	comm[1] = make_comm();
	need(!cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "cudaStreamCreate");
	for (int i = 0; i < 2; i++) {
		int k = rank % 2 ? 1 - i : i;

		need(!ncclAllReduce(k ? in : out, k ? in : out, COUNT, ncclInt, ncclSum, comm[k],
				    k ? other : stream),
		     "a sum");
	}
	need(!cudaStreamSynchronize(stream) && !cudaStreamSynchronize(other), "streams");
	all_are(out, ranks * (ranks + 1) / 2, "a sum");
	need(!ncclCommDestroy(comm[1]) && !cudaStreamDestroy(other), "ncclCommDestroy");
	pair_end(-1);
}

int main(int argc, char **argv)
{
	static const struct trial all[] = {{"streams_after", streams_after},
					   {"streams_before", streams_before},
					   {"streams_messages", streams_messages},
					   {"split", split},
					   {"all_send", all_send},
					   {"empty", empty},
					   {"to_oneself", to_oneself},
					   {"all_to_all_in_place", all_to_all_in_place},
					   {"two_comms", two_comms},
					   {"crossed", crossed},
					   {0}};

	return trial_main(argc, argv, all);
}
