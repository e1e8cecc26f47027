/* SPDX-License-Identifier: BSD-3-Clause */
/* The helpers of the drop-in return the same as those of the installed libibverbs: conversions of
 * rates, names, and conversions of the kernel's structs. */
#include <dlfcn.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *ours, *theirs;
static int bad;

static void *find(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	if (!p) {
		printf("%s: %s\n", name, dlerror());
		exit(1);
	}
	return p;
}

static void check_numbers(const char *name)
{
	int (*a)(int) = (int (*)(int))find(ours, name),
	    (*b)(int) = (int (*)(int))find(theirs, name);

	for (int i = -2; i < 1300000; i++) {
		if (a(i) == b(i))
			continue;
		printf("%s(%d): %d, expected %d\n", name, i, a(i), b(i));
		bad = 1;
		return;
	}
}

static void check_names(const char *name, int last)
{
	const char *(*a)(int) = (const char *(*)(int))find(ours, name);
	const char *(*b)(int) = (const char *(*)(int))find(theirs, name);

	for (int i = -1; i <= last; i++) {
		if (!strcasecmp(a(i), b(i)))
			continue;
		printf("%s(%d): \"%s\", the installed library returns \"%s\"\n", name, i, a(i),
		       b(i));
		bad = 1;
	}
}

/* Converts the same bytes with both libraries. The results start out equal, so padding makes no
 * difference. */
static void check_copy(const char *name, size_t from_bytes, size_t to_bytes)
{
	void (*a)(void *, const void *) = (void (*)(void *, const void *))find(ours, name);
	void (*b)(void *, const void *) = (void (*)(void *, const void *))find(theirs, name);
	uint8_t from[512], x[512], y[512];

	for (size_t i = 0; i < from_bytes; i++)
		from[i] = (uint8_t)(i * 37 + 11);
	memset(x, 0, sizeof x);
	memset(y, 0, sizeof y);
	a(x, from);
	b(y, from);
	for (size_t i = 0; i < to_bytes; i++) {
		if (x[i] == y[i])
			continue;
		printf("%s: byte %zu is 0x%x, expected 0x%x\n", name, i, x[i], y[i]);
		bad = 1;
		return;
	}
}

int main(int argc, char **argv)
{
	char path[4096];

	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
	if (n < 0)
		return 1;
	path[n] = '\0';
	*strrchr(path, '/') = '\0'; /* build/tests */
	strcat(path, "/../verbs/libibverbs.so.1");
	ours = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!ours) {
		printf("%s\n", dlerror());
		return 1;
	}
	theirs = dlopen("/usr/lib/x86_64-linux-gnu/libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!theirs || theirs == ours) {
		printf("no installed libibverbs\n");
		return 77;
	}
	check_numbers("ibv_rate_to_mult");
	check_numbers("mult_to_ibv_rate");
	check_numbers("ibv_rate_to_mbps");
	check_numbers("mbps_to_ibv_rate");
	check_names("ibv_node_type_str", 9);
	check_names("ibv_port_state_str", 7);
	check_names("ibv_event_type_str", 22);
	check_names("ibv_wc_status_str", 25);
	check_copy("ibv_copy_ah_attr_from_kern", sizeof(struct ib_uverbs_ah_attr),
		   sizeof(struct ibv_ah_attr));
	check_copy("ibv_copy_qp_attr_from_kern", sizeof(struct ib_uverbs_qp_attr),
		   sizeof(struct ibv_qp_attr));
	check_copy("ibv_copy_path_rec_from_kern", sizeof(struct ib_user_path_rec),
		   sizeof(struct ibv_sa_path_rec));
	check_copy("ibv_copy_path_rec_to_kern", sizeof(struct ibv_sa_path_rec),
		   sizeof(struct ib_user_path_rec));
	return bad;
}
