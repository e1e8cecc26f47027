// SPDX-License-Identifier: BSD-3-Clause
// Ends while threads wait for asynchronous events of HCAs, as NCCL's do.
#include <dlfcn.h>
#include <stdio.h>
#include <thread>
#include <unistd.h>
struct ibv_device;
struct ibv_context;
struct event {
	void *element;
	int type;
};
template<typename F> static F *find(void *lib, const char *name)
{
	return (F *)dlvsym(lib, name, "IBVERBS_1.1");
}
int main()
{
	int *p, n = 0;
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW);
	if (!lib || cudaMalloc(&p, 64) || cudaFree(p))
		return 1;
	auto list = find<ibv_device **(int *)>(lib, "ibv_get_device_list");
	auto open = find<ibv_context *(ibv_device *)>(lib, "ibv_open_device");
	auto get = find<int(ibv_context *, event *)>(lib, "ibv_get_async_event");
	ibv_device **all = list(&n);
	for (int i = 0; i < n; i++) {
		ibv_context *context = open(all[i]);
		if (!context)
			return 2;
		std::thread([=] {
			event e;
			while (!get(context, &e))
				;
		}).detach();
	}
	usleep(20000);
	printf("%d HCAs\n", n);
}
