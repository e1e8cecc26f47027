// SPDX-License-Identifier: BSD-3-Clause
// A captured launch of a kernel from source: its grid, its parameters by value at the capture.
#include "source.h"

__global__ void add(int *c, int by)
{
	int i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;

	c[i] += by;
}

int main()
{
	both<int> c(2 * 3 * 32);
	cudaStream_t s;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	int by = 5;

	NEED(cudaStreamCreate(&s));
	NEED(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	add<<<dim3(2, 3), 32, 0, s>>>(c.gpu, by);
	by = 1000;
	add<<<dim3(2, 3), 32, 0, s>>>(c.gpu, by);
	NEED(cudaStreamEndCapture(s, &graph));
	NEED(cudaGraphInstantiate(&exec, graph, NULL, NULL, 0));
	for (int i = 0; i < 3; i++)
		NEED(cudaGraphLaunch(exec, s));
	NEED(cudaStreamSynchronize(s));
	NEED(cudaGraphExecDestroy(exec));
	NEED(cudaGraphDestroy(graph));
	NEED(cudaStreamDestroy(s));
	c.down();
	check("graph", c, [](int) { return 3 * 1005; });
	return failures != 0;
}
