// SPDX-License-Identifier: BSD-3-Clause
// ncclAlltoAll on windows as a program calls it: each rank is a GPU of this process. Sizes of lines
// and of stores, out of place and in place, and in a CUDA graph. With `mixed` the buffers of rank 1
// are not in windows.
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 3, BYTES = 4 << 20, OUT = 2 << 20 };

#define NEED(call)                                                                                 \
	do {                                                                                       \
		int rc_ = (int)(call);                                                             \
		if (rc_) {                                                                         \
			printf("%s:%d: %s: %d %s\n", __FILE__, __LINE__, #call, rc_,               \
			       ncclGetLastError(NULL));                                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

struct gpu {
	ncclComm_t comm;
	cudaStream_t stream;
	unsigned char *mem;
	ncclWindow_t win;
};

static gpu ranks[GPUS];
static unsigned char host[BYTES];

static unsigned char value(int from, int to, size_t i)
{
	return (unsigned char)(from * 89 + to * 31 + i * 7 + i / 251);
}

static void make(bool mixed)
{
	ncclComm_t comms[GPUS];

	NEED(ncclCommInitAll(comms, GPUS, NULL));
	for (int r = 0; r < GPUS; r++) {
		ranks[r].comm = comms[r];
		NEED(cudaSetDevice(r));
		NEED(cudaStreamCreateWithFlags(&ranks[r].stream, cudaStreamNonBlocking));
		NEED(ncclMemAlloc((void **)&ranks[r].mem, BYTES));
	}
	NEED(ncclGroupStart());
	for (int r = 0; r < GPUS; r++)
		NEED(ncclCommWindowRegister(ranks[r].comm, ranks[r].mem, BYTES, &ranks[r].win,
					    NCCL_WIN_COLL_SYMMETRIC));
	NEED(ncclGroupEnd());
	for (int r = 0; r < GPUS && mixed; r++) {
		NEED(cudaSetDevice(r));
		if (r == 1)
			NEED(cudaMalloc((void **)&ranks[r].mem, BYTES));
	}
}

static void call(size_t count, bool in_place)
{
	NEED(ncclGroupStart());
	for (int r = 0; r < GPUS; r++)
		NEED(ncclAlltoAll(ranks[r].mem, ranks[r].mem + (in_place ? 0 : OUT), count,
				  ncclUint8, ranks[r].comm, ranks[r].stream));
	NEED(ncclGroupEnd());
}

static void fill(size_t count)
{
	for (int r = 0; r < GPUS; r++) {
		memset(host, 0xee, sizeof host);
		for (size_t i = 0; i < GPUS * count; i++)
			host[i] = value(r, (int)(i / count), i % count);
		NEED(cudaSetDevice(r));
		NEED(cudaMemcpyAsync(ranks[r].mem, host, BYTES, cudaMemcpyHostToDevice,
				     ranks[r].stream));
		NEED(cudaStreamSynchronize(ranks[r].stream));
	}
}

static int wrong_of(size_t count, bool in_place)
{
	int wrong = 0;

	for (int r = 0; r < GPUS; r++) {
		const size_t out = in_place ? 0 : OUT;

		NEED(cudaSetDevice(r));
		NEED(cudaMemcpyAsync(host, ranks[r].mem, BYTES, cudaMemcpyDeviceToHost,
				     ranks[r].stream));
		NEED(cudaStreamSynchronize(ranks[r].stream));
		for (size_t i = 0; i < GPUS * count; i++)
			wrong += host[out + i] != value((int)(i / count), r, i % count);
		wrong += host[out + GPUS * count] != 0xee;
	}
	return wrong;
}

static int replayed(size_t count)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	int wrong = 0;

	NEED(cudaSetDevice(0));
	NEED(cudaStreamBeginCapture(ranks[0].stream, cudaStreamCaptureModeRelaxed));
	cudaEvent_t fork, join[GPUS];
	NEED(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	NEED(cudaEventRecord(fork, ranks[0].stream));
	for (int r = 1; r < GPUS; r++)
		NEED(cudaStreamWaitEvent(ranks[r].stream, fork, 0));
	call(count, false);
	for (int r = 1; r < GPUS; r++) {
		NEED(cudaSetDevice(r));
		NEED(cudaEventCreateWithFlags(&join[r], cudaEventDisableTiming));
		NEED(cudaEventRecord(join[r], ranks[r].stream));
		NEED(cudaStreamWaitEvent(ranks[0].stream, join[r], 0));
	}
	NEED(cudaSetDevice(0));
	NEED(cudaStreamEndCapture(ranks[0].stream, &graph));
	NEED(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 3; i++) {
		fill(count);
		NEED(cudaSetDevice(0));
		NEED(cudaGraphLaunch(exec, ranks[0].stream));
		NEED(cudaStreamSynchronize(ranks[0].stream));
		wrong += wrong_of(count, false);
	}
	NEED(cudaGraphExecDestroy(exec));
	NEED(cudaGraphDestroy(graph));
	NEED(cudaEventDestroy(fork));
	for (int r = 1; r < GPUS; r++)
		NEED(cudaEventDestroy(join[r]));
	return wrong;
}

static void end()
{
	for (int r = 0; r < GPUS; r++) {
		NEED(cudaSetDevice(r));
		NEED(ncclCommWindowDeregister(ranks[r].comm, ranks[r].win));
		NEED(cudaStreamDestroy(ranks[r].stream));
	}
	for (int r = 0; r < GPUS; r++)
		NEED(ncclCommDestroy(ranks[r].comm));
	for (int r = 0; r < GPUS; r++)
		NEED(ncclMemFree(ranks[r].mem));
}

int main(int argc, char **argv)
{
	static const size_t counts[] = {1, 7, 1000, 8192, 100003, 600000};
	int wrong = 0;

	make(argc > 1 && !strcmp(argv[1], "mixed"));
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		for (int in_place = 0; in_place < 2; in_place++) {
			fill(counts[i]);
			call(counts[i], in_place);
			wrong += wrong_of(counts[i], in_place);
		}
	wrong += replayed(8) + replayed(600000);
	end();
	printf("all-to-all on windows: %d wrong\n", wrong);
	return wrong != 0;
}
