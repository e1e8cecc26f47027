/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of networks: how a row is found, and what a row takes where its network has nothing. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/transport/net_plugin/net_plugin.h"
#include "core/transport/nets.h"
#include "tests/suite.h"

START_TEST(net_is_found_by_its_name_in_any_case)
{
	ck_assert_ptr_eq(net_find("IB"), &net_verbs);
	ck_assert_ptr_eq(net_find("ib"), &net_verbs);
	ck_assert_ptr_eq(net_find("Socket"), &net_socket);
	ck_assert_ptr_null(net_find("IBM"));
	ck_assert_ptr_null(net_find(""));
}
END_TEST

START_TEST(net_rows_have_an_index)
{
	ck_assert_int_eq(net_index(&net_verbs), 0);
	ck_assert_int_eq(net_index(&net_socket), 1);
	ck_assert_int_lt(net_index(&net_plugin), -1); /* -1: no network */
}
END_TEST

START_TEST(net_plugin_is_not_the_default_of_doubles)
{
	ck_assert_ptr_eq(net_name_find("ib"), &net_verbs);
	ck_assert_ptr_null(net_name_find("AWS Libfabric"));
}
END_TEST

START_TEST(net_of_another_name_is_a_plugins)
{
	char wide[NET_NAME_BYTES + 1];

	memset(wide, 'a', sizeof wide);
	wide[NET_NAME_BYTES] = '\0';
	ck_assert_int_eq(setenv("NCCL_NET_PLUGIN", "ofi", 1), 0);
	ck_assert_ptr_eq(net_name_find("Socket"), &net_socket);
	ck_assert_ptr_eq(net_name_find("AWS Libfabric"), &net_plugin);
	ck_assert_ptr_null(net_name_find(""));
	ck_assert_ptr_null(net_name_find(wide));
}
END_TEST

START_TEST(net_names_are_listed_and_cut)
{
	char text[64], little[2];

	ck_assert_str_eq(net_names(text, sizeof text), "IB, Socket");
	ck_assert_str_eq(net_names(little, sizeof little), "I");
}
END_TEST

/* A NULL slot would be a crash in the proxy, at the first transfer that needs it. */
START_TEST(net_rows_have_every_slot)
{
	for (const struct net_ops *const *net = nets; *net; net++) {
		const void *slot[sizeof **net / sizeof(void *)];

		memcpy(slot, *net, sizeof slot);
		for (size_t i = 0; i < ARRAY_LEN(slot); i++)
			ck_assert_msg(slot[i], "slot %zu of %s is NULL", i, (*net)->name);
	}
	for (size_t i = 0; i < sizeof net_plugin / sizeof(void *); i++)
		ck_assert_msg(((const void *const *)&net_plugin)[i], "slot %zu is NULL", i);
}
END_TEST

START_TEST(net_plain_registers_host_memory_alone)
{
	char data[8];
	void *mr = data;

	ck_assert_int_eq(net_plain_reg_mr(NULL, data, sizeof data, NET_HOST, &mr), ncclSuccess);
	ck_assert_ptr_null(mr);
	ck_assert_int_eq(net_plain_dereg_mr(NULL, mr), ncclSuccess);
	ck_assert_int_eq(net_plain_reg_mr(NULL, data, sizeof data, NET_GPU, &mr), ncclInvalidUsage);
	ck_assert_int_eq(net_plain_reg_mr(NULL, data, sizeof data, NET_GPU_FLUSH, &mr),
			 ncclInvalidUsage);
}
END_TEST

START_TEST(net_plain_flush_fails)
{
	struct net_request *req = (void *)1;
	struct wait w;

	ck_assert_int_eq(net_plain_iflush(NULL, NULL, 8, NULL, &req, &w), ncclInternalError);
	ck_assert_ptr_null(req);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("net");
	TCase *tc = tcase_create("net");

	tcase_add_test(tc, net_is_found_by_its_name_in_any_case);
	tcase_add_test(tc, net_rows_have_an_index);
	tcase_add_test(tc, net_plugin_is_not_the_default_of_doubles);
	tcase_add_test(tc, net_of_another_name_is_a_plugins);
	tcase_add_test(tc, net_names_are_listed_and_cut);
	tcase_add_test(tc, net_rows_have_every_slot);
	tcase_add_test(tc, net_plain_registers_host_memory_alone);
	tcase_add_test(tc, net_plain_flush_fails);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
