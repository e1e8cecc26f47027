// SPDX-License-Identifier: BSD-3-Clause
// Loads verbs by name and version, as NCCL does, and looks for an HCA in /sys.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct ibv_device;
int main()
{
	const char *const names[] = {"libibverbs.so", "libibverbs.so.1"};
	int *p, n = 0;
	const char *rank = getenv("RANK");
	if (cudaMalloc(&p, 64) || cudaFree(p))
		return 1;
	for (const char *name : names) {
		void *lib = dlopen(name, RTLD_NOW);
		void *list = lib ? dlvsym(lib, "ibv_get_device_list", "IBVERBS_1.1") : NULL;
		void *mr = lib ? dlvsym(lib, "ibv_reg_dmabuf_mr", "IBVERBS_1.12") : NULL;
		void *wrong = lib ? dlvsym(lib, "ibv_get_device_list", "IBVERBS_1.7") : NULL;
		if (!list || !mr || wrong)
			return printf("%s: %s\n", name, dlerror()), 1;
		if (!((struct ibv_device * *(*)(int *)) list)(&n) || n != 8)
			return printf("%d devices\n", n), 1;
	}
	char path[4096] = "", *at = realpath("/sys/class/infiniband/mlx5_3/device", path);
	printf("rank %s: %d HCAs, %s\n", rank ? rank : "-", n, at ? "shown" : "not shown");
}
