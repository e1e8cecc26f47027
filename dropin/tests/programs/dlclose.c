/* SPDX-License-Identifier: BSD-3-Clause */
/* A plugin opens a library, uses it and closes it, twice, while a device stays open. The program
 * still ends normally. Arguments: the libraries. */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>

typedef struct ibv_device **list_fn(int *count);
typedef struct ibv_context *open_fn(struct ibv_device *device);

static int use(const char *library)
{
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	list_fn *list = lib ? (list_fn *)dlsym(lib, "ibv_get_device_list") : NULL;
	open_fn *open = lib ? (open_fn *)dlsym(lib, "ibv_open_device") : NULL;
	int n = 0;
	struct ibv_device **devices = list ? list(&n) : NULL;

	if (!devices || n < 1 || !open || !open(devices[0])) {
		printf("%s: %d devices, or none that opens: %s\n", library, n,
		       lib ? "" : dlerror());
		return 1;
	}
	return dlclose(lib);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (use(argv[i]) || use(argv[i]))
			return 1;
	return 0;
}
