// SPDX-License-Identifier: BSD-3-Clause
// A text of PTX that ends with its page, without a NUL. The next page cannot be read.
#include <cuda.h>
#include <string.h>
#include <sys/mman.h>

#include "source.h"

static const char text[] = ".version 8.5\n.target sm_90\n.address_size 64\n"
			   ".visible .entry store(.param .u64 p)\n{\n"
			   "	.reg .b64 %a;\n"
			   "	ld.param.u64 %a, [p];\n"
			   "	st.global.u32 [%a], 42;\n"
			   "	ret;\n}";

static const char *text_at_end()
{
	size_t page = 65536, n = sizeof text - 1; /* a multiple of any page */
	void *room =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (room == MAP_FAILED || mprotect((char *)room + page, page, PROT_NONE))
		return NULL;
	return (const char *)memcpy((char *)room + page - n, text, n);
}

int main()
{
	const char *at = text_at_end();
	int *p, got = 0;
	CUmodule m;
	CUfunction f;

	NEED(cudaMalloc(&p, sizeof *p));
	void *params[] = {&p};
	bool ok = at && !cuModuleLoadData(&m, at) && !cuModuleGetFunction(&f, m, "store") &&
		  !cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, params, NULL) && !cuModuleUnload(m);
	NEED(cudaMemcpy(&got, p, sizeof got, cudaMemcpyDeviceToHost));
	NEED(cudaFree(p));
	ok = ok && got == 42;
	printf("text at the end of a page %s\n", ok ? "ok" : "WRONG");
	return !ok;
}
