/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Allreduce of floats (sum, out of place), sizes doubling: the peer of `doppel run --engine
 * threads` on one host. Prints "bytes us" per size, the mean over ranks of the mean time of one
 * call. Run by threads_vs_mpi.sh.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WRONG_RESULT = 11 }; /* SIM_WRONG_RESULT, which a program of MPI alone cannot include */

int main(int argc, char **argv)
{
	int rank, ranks;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	size_t min = argc > 1 ? strtoull(argv[1], NULL, 0) : 8,
	       max = argc > 2 ? strtoull(argv[2], NULL, 0) : min;
	int iterations = argc > 3 ? atoi(argv[3]) : 5;
	float *send = malloc(max), *recv = malloc(max);
	if (!send || !recv)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (size_t i = 0; i < max / sizeof(float); i++)
		send[i] = (float)(rank + 1);
	for (size_t bytes = min; bytes <= max; bytes *= 2) {
		int count = (int)(bytes / sizeof(float));
		double mine, sum;
		MPI_Allreduce(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		MPI_Barrier(MPI_COMM_WORLD);
		double start = MPI_Wtime();
		for (int i = 0; i < iterations; i++)
			MPI_Allreduce(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		mine = (MPI_Wtime() - start) / iterations * 1e6;
		MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
		if (recv[0] != (float)(ranks * (ranks + 1) / 2))
			MPI_Abort(MPI_COMM_WORLD, WRONG_RESULT);
		if (rank == 0)
			printf("%zu %.2f\n", bytes, sum / ranks);
	}
	free(send);
	free(recv);
	MPI_Finalize();
	return 0;
}
