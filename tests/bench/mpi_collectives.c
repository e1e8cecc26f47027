/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Allreduce, MPI_Allgather or MPI_Alltoall of floats, out of place, for comparison with `doppel
 * run --engine threads` on one host. Sizes are those of nccl-tests: bytes of the larger buffer, a
 * multiple of 4 bytes per rank, each twice the previous. Prints "bytes us" per size: the mean over
 * ranks of the mean time of one call. threads_vs_mpi.sh runs it.
 *
 *   mpi_collectives all_reduce|all_gather|all_to_all MIN MAX ITERATIONS WARM_UP
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRONG_RESULT = 11 }; /* SIM_WRONG_RESULT, whose header an MPI program cannot include */
enum bench_kind { BENCH_ALL_REDUCE, BENCH_ALL_GATHER, BENCH_ALL_TO_ALL, BENCH_KINDS };
static const char *const bench_names[BENCH_KINDS] = {"all_reduce", "all_gather", "all_to_all"};

static void bench_call(enum bench_kind kind, const float *send, float *recv, int count, int ranks)
{
	if (kind == BENCH_ALL_REDUCE)
		MPI_Allreduce(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	else if (kind == BENCH_ALL_GATHER)
		MPI_Allgather(send, count / ranks, MPI_FLOAT, recv, count / ranks, MPI_FLOAT,
			      MPI_COMM_WORLD);
	else
		MPI_Alltoall(send, count / ranks, MPI_FLOAT, recv, count / ranks, MPI_FLOAT,
			     MPI_COMM_WORLD);
}

/* True if the result is right. Each rank sends its number + 1. */
static int bench_right(enum bench_kind kind, const float *recv, int count, int ranks)
{
	if (kind == BENCH_ALL_REDUCE)
		return recv[0] == (float)(ranks * (ranks + 1) / 2);
	for (int r = 0; r < ranks; r++)
		if (recv[(size_t)r * (size_t)(count / ranks)] != (float)(r + 1))
			return 0;
	return 1;
}

static double bench_size(enum bench_kind kind, const float *send, float *recv, size_t bytes,
			 int iterations, int warm_up, int ranks)
{
	int count = (int)(bytes / sizeof(float));

	for (int i = 0; i < warm_up; i++)
		bench_call(kind, send, recv, count, ranks);
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime(), mine, sum;
	for (int i = 0; i < iterations; i++)
		bench_call(kind, send, recv, count, ranks);
	mine = (MPI_Wtime() - start) / iterations * 1e6;
	MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	if (!bench_right(kind, recv, count, ranks))
		MPI_Abort(MPI_COMM_WORLD, WRONG_RESULT);
	return sum / ranks;
}

int main(int argc, char **argv)
{
	int rank, ranks, kind = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	while (argc == 6 && kind < BENCH_KINDS && strcmp(argv[1], bench_names[kind]))
		kind++;
	if (argc != 6 || kind == BENCH_KINDS) {
		fprintf(stderr, "usage: mpi_collectives all_reduce|all_gather|all_to_all MIN MAX "
				"ITERATIONS WARM_UP\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	size_t min = strtoull(argv[2], NULL, 0), max = strtoull(argv[3], NULL, 0);
	float *send = malloc(max), *recv = malloc(max);
	if (!send || !recv)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (size_t i = 0; i < max / sizeof(float); i++)
		send[i] = (float)(rank + 1);
	for (size_t bytes = min; bytes <= max; bytes *= 2) {
		double us = bench_size((enum bench_kind)kind, send, recv, bytes, atoi(argv[4]),
				       atoi(argv[5]), ranks);

		if (rank == 0)
			printf("%zu %.2f\n", bytes, us);
	}
	free(send);
	free(recv);
	MPI_Finalize();
	return 0;
}
