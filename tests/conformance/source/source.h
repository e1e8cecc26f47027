/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of cuda_source_test.sh: kernels in CUDA source, each checked against a computation of
 * the host. A program prints a line for each check and returns 0 if all hold.
 */
#ifndef TESTS_CONFORMANCE_SOURCE_H
#define TESTS_CONFORMANCE_SOURCE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define NEED(call)                                                                                 \
	do {                                                                                       \
		cudaError_t rc_ = (call);                                                          \
		if (rc_) {                                                                         \
			printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                       \
			       cudaGetErrorName(rc_));                                             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Memory of the GPU with a copy on the host. */
template <class T> struct both {
	T *host, *gpu;
	int n;

	explicit both(int count) : n(count)
	{
		host = (T *)calloc(count, sizeof(T));
		NEED(cudaMalloc(&gpu, count * sizeof(T)));
		up();
	}
	~both()
	{
		free(host);
		cudaFree(gpu);
	}
	void up()
	{
		NEED(cudaMemcpy(gpu, host, n * sizeof(T), cudaMemcpyHostToDevice));
	}
	void down()
	{
		NEED(cudaDeviceSynchronize());
		NEED(cudaMemcpy(host, gpu, n * sizeof(T), cudaMemcpyDeviceToHost));
	}
};

/* Compares bits, so that a NaN equals itself. */
template <class T, class F> static void check(const char *name, const both<T> &got, F expected)
{
	int bad = 0;

	for (int i = 0; i < got.n; i++) {
		T want = expected(i);
		if (memcmp(&want, &got.host[i], sizeof want) && bad++ == 0)
			printf("%s: element %d is %g; expected %g\n", name, i, (double)got.host[i],
			       (double)want);
	}
	printf("%s %s\n", name, bad ? "FAILED" : "ok");
	failures += bad != 0;
}

/* A value for each index: small and large, of both signs. */
template <class T> static T sample(int i)
{
	unsigned long long x = (unsigned long long)(i + 1) * 0x9e3779b97f4a7c15ull;

	x ^= x >> 29;
	return i % 3 == 0 ? (T)(x >> 58) : (T)x;
}

#endif
