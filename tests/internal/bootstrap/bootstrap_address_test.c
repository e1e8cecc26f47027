/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL_COMM_ID, the choice of interfaces, and addresses as text. */
#include "tests/internal/bootstrap/bootstrap_world.h"

/* ---- NCCL_COMM_ID, addresses ---------------------------------------------------------------- */

static void comm_id_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclUniqueId id;
	struct bootstrap_root *root = NULL;
	struct bootstrap *b = NULL;
	if (rank == 0)
		os_sleep_ns(
			((struct boot_world *)arg)->late_ns); /* the others find no root at first */
	EXPECT_NCCL(ncclSuccess, bootstrap_unique_id(&id, nobody, &root));
	EXPECT(root == NULL);
	EXPECT_NCCL(ncclSuccess, bootstrap_init(&id, rank, nranks, NULL, &b));
	gather_check(b, rank, nranks, 8, 3);
	bootstrap_part(b, 0);
	bootstrap_close(b);
}

START_TEST(comm_id_from_the_environment_names_the_root)
{
	static const char *const ids[] = {"NCCL_COMM_ID=10.0.0.1:4711", "NCCL_COMM_ID=host0:4711",
					  "NCCL_COMM_ID=localhost:4711"};
	for (uint64_t seed = 1; seed <= 9; seed++) {
		const char *env[] = {ids[seed % 3], NULL};
		struct ranks_config c = {
			.hosts = seed % 3 == 2 ? 1 : 2, .per_host = 2, .seed = seed, .env = env};
		struct boot_world w = {.late_ns = seed % 2 ? 250000000 : seed * 5000000000ull};
		ranks_run(&c, comm_id_rank, &w);
	}
}
END_TEST

static void comm_id_bad_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclUniqueId id;
	struct bootstrap_root *root = NULL;
	EXPECT_NCCL(ncclInvalidArgument, bootstrap_unique_id(&id, nobody, &root));
	const char *error = ncclGetLastError(NULL);
	EXPECT(strstr(error, "is not an address and port") ||
	       strstr(error, "nosuch has no address"));
}

START_TEST(a_malformed_comm_id_is_named)
{
	static const char *const bad[] = {"NCCL_COMM_ID=nosuch:1",   "NCCL_COMM_ID=10.0.0.1",
					  "NCCL_COMM_ID=10.0.0.1:0", "NCCL_COMM_ID=10.0.0.1:65536",
					  "NCCL_COMM_ID=[::1:5",     "NCCL_COMM_ID=10.0.0.1:12x"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const char *env[] = {bad[i], NULL};
		struct ranks_config c = {.hosts = 1, .per_host = 1, .env = env};
		ranks_run(&c, comm_id_bad_rank, NULL);
	}
}
END_TEST

static void nobody_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclUniqueId id;
	struct bootstrap_root *root = NULL;
	struct bootstrap *b = NULL;
	uint64_t start_ns = os_now_ns();
	EXPECT_NCCL(ncclSuccess, bootstrap_unique_id(&id, nobody, &root));
	bootstrap_root_close(root);
	EXPECT_NCCL(ncclRemoteError, bootstrap_init(&id, 0, 1, NULL, &b));
	EXPECT_ERROR_SAYS("no process answers at 10.0.0.1:");
	EXPECT(os_now_ns() - start_ns >= 3300000000ull);
}

START_TEST(a_root_that_is_gone_is_given_up_after_34_attempts)
{
	struct ranks_config c = {.hosts = 1, .per_host = 1, .strategy = SIM_FIFO};
	ranks_run(&c, nobody_rank, NULL);
}
END_TEST

START_TEST(interface_lists_match_as_in_nccl)
{
	ck_assert(sock_ifname_matches(NULL, "eth0"));
	ck_assert(sock_ifname_matches("", "eth0"));
	ck_assert(sock_ifname_matches("eth", "eth0"));
	ck_assert(sock_ifname_matches("ib,eth", "eth0"));
	ck_assert(!sock_ifname_matches("ib", "eth0"));
	ck_assert(sock_ifname_matches("=eth0", "eth0"));
	ck_assert(!sock_ifname_matches("=eth", "eth0"));
	ck_assert(sock_ifname_matches("=ib0,eth0", "eth0"));
	ck_assert(!sock_ifname_matches("^docker,eth", "eth0"));
	ck_assert(sock_ifname_matches("^docker,lo", "eth0"));
	ck_assert(sock_ifname_matches("^=eth", "eth0"));
	ck_assert(!sock_ifname_matches("^=eth0", "eth0"));
	ck_assert(sock_ifname_matches("eth0:1", "eth0"));
	ck_assert(sock_ifname_matches("=eth0:1", "eth0"));
	ck_assert(!sock_ifname_matches("=eth0:1", "eth0:1"));
	ck_assert(sock_ifname_matches("eth0", "eth0:1"));
	ck_assert(sock_ifname_matches("=", "eth0"));
	ck_assert(!sock_ifname_matches("^", "eth0"));
	ck_assert(sock_ifname_matches(",", "eth0"));
}
END_TEST

/* Interfaces of a host, in the order in which the system lists them: 10.0.0.1, 10.0.0.2... */
static const char *const *host_names;

static int host_interface(int index, char *name, size_t bytes, struct os_addr *addr)
{
	for (int i = 0; i <= index; i++)
		if (!host_names[i])
			return ENOENT;
	bool lo = strcmp(host_names[index], "lo") == 0;

	snprintf(name, bytes, "%s", host_names[index]);
	*addr = (struct os_addr){.family = 4,
				 .ip = {lo ? 127 : 10, 0, 0, (uint8_t)(lo ? 1 : index + 1)}};
	return 0;
}

/* The last byte of the address that is chosen. */
static int chosen_of(const char *const *names)
{
	const struct os_world_ops *before = os_world_in_force();
	struct os_world_ops ops = *before;
	struct os_addr addr;
	ncclResult_t rc;

	ops.interface = host_interface;
	host_names = names;
	os_install(NULL, &ops);
	rc = sock_addr_own(&addr);
	os_install(NULL, before);
	ck_assert_int_eq(rc, ncclSuccess);
	return addr.ip[0] == 127 ? 127 : addr.ip[3];
}

#define CHOSEN_OF(...) chosen_of((const char *const[]){__VA_ARGS__, NULL})

START_TEST(without_a_list_bridges_and_loopback_come_last)
{
	ck_assert_int_eq(CHOSEN_OF("docker0", "eth0"), 2);
	ck_assert_int_eq(CHOSEN_OF("lo", "virbr0", "docker0", "eth0", "eth1"), 4);
	ck_assert_int_eq(CHOSEN_OF("eth0", "ib0", "ib1"), 2);
	ck_assert_int_eq(CHOSEN_OF("virbr0", "docker0"), 2);
	ck_assert_int_eq(CHOSEN_OF("virbr0", "lo"), 127);
	ck_assert_int_eq(CHOSEN_OF("lo", "docker0"), 2);
	ck_assert_int_eq(CHOSEN_OF("virbr0"), 1);
}
END_TEST

/* Names of all interfaces that are found, with their addresses' last byte. */
static void found_of(const char *const *names, char *out)
{
	const struct os_world_ops *before = os_world_in_force();
	struct os_world_ops ops = *before;
	struct sock_interface found[SOCK_INTERFACES];
	int count = 0;

	ops.interface = host_interface;
	host_names = names;
	os_install(NULL, &ops);
	ck_assert_int_eq(sock_interfaces(found, &count), ncclSuccess);
	os_install(NULL, before);
	*out = '\0';
	for (int i = 0; i < count; i++)
		out += sprintf(out, "%s%s.%u", i ? " " : "", found[i].name, found[i].addr.ip[3]);
}

#define FOUND_OF(out, ...) found_of((const char *const[]){__VA_ARGS__, NULL}, out)

START_TEST(interfaces_of_the_best_kind_are_found_once_each)
{
	char text[256];

	FOUND_OF(text, "lo", "docker0", "eth0", "eth1", "eth0");
	ck_assert_str_eq(text, "eth0.3 eth1.4");
	FOUND_OF(text, "eth0", "ib0", "ib1");
	ck_assert_str_eq(text, "ib0.2 ib1.3");
	FOUND_OF(text, "lo");
	ck_assert_str_eq(text, "lo.1");
}
END_TEST

START_TEST(addresses_print_and_parse)
{
	static const char *const texts[] = {"10.0.0.1:4711", "[fe80::1]:65535", "[::1]:1"};
	struct os_addr a;
	char out[SOCK_TEXT_BYTES];
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		ck_assert_int_eq(sock_addr_parse(texts[i], &a), ncclSuccess);
		ck_assert_str_eq(sock_addr_print(&a, out), texts[i]);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("bootstrap_address");
	TCase *t = tcase_create("bootstrap");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, comm_id_from_the_environment_names_the_root);
	tcase_add_test(t, a_malformed_comm_id_is_named);
	tcase_add_test(t, a_root_that_is_gone_is_given_up_after_34_attempts);
	tcase_add_test(t, interface_lists_match_as_in_nccl);
	tcase_add_test(t, interfaces_of_the_best_kind_are_found_once_each);
	tcase_add_test(t, without_a_list_bridges_and_loopback_come_last);
	tcase_add_test(t, addresses_print_and_parse);
	suite_add_tcase(s, t);
	return suite_run(s);
}
