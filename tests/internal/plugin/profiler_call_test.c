/* SPDX-License-Identifier: BSD-3-Clause */
/* The descriptors and arguments that a profiler plugin of each version receives, and the names of
 * plugins' files. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/profiler/profiler_internal.h"
#include "tests/suite.h"

/* The last call of the plugin. */
static union {
	struct profiler_descr_v1 v1;
	struct profiler_descr_v2 v2;
	struct profiler_descr_v3 v3;
	struct profiler_descr_v4 v4;
	struct profiler_descr v5;
} got;
static int calls, version, state;
static union profiler_args args_v4;
static union profiler_args_v3 args_v3;
static bool no_args;

static ncclResult_t fake_start(void *context, void **event, void *descr)
{
	static const size_t bytes[] = {
		[1] = sizeof got.v1, [2] = sizeof got.v2, [3] = sizeof got.v3, [4] = sizeof got.v4,
		[5] = sizeof got.v5, [6] = sizeof got.v5, [7] = sizeof got.v5};

	memcpy(&got, descr, bytes[version]);
	calls++;
	*event = context;
	return ncclSuccess;
}

static ncclResult_t fake_record(void *event, int at, void *args)
{
	(void)event;
	calls++;
	state = at;
	no_args = !args;
	if (args && version <= 3)
		args_v3 = *(union profiler_args_v3 *)args;
	else if (args)
		args_v4 = *(union profiler_args *)args;
	return ncclSuccess;
}

static const struct profiler_table fake = {
	.name = "fake", .start = fake_start, .record = fake_record};
static char parent, group;

/* Returns true if the event was sent. */
static bool start(int v, const struct profiler_descr *d)
{
	struct profiler of = {.table = &fake, .version = v};
	struct profiler_comm pc = {.of = &of, .context = &of, .comm_name = "name"};
	void *event = &of;

	version = v;
	calls = 0;
	memset(&got, 0xee, sizeof got);
	ck_assert_int_eq(profiler_call_start(&pc, 0xabc, d, &event), ncclSuccess);
	ck_assert_ptr_eq(event, calls ? &of : NULL);
	return calls == 1;
}

static struct profiler_descr coll(const char *algo)
{
	struct profiler_descr d = {.type = PROFILER_COLL, .parent = &parent, .rank = 3};

	d.coll.number = 11;
	d.coll.func = "ReduceScatter";
	d.coll.send = &parent;
	d.coll.recv = &group;
	d.coll.count = 1000;
	d.coll.root = 2;
	d.coll.type = "ncclBfloat16";
	d.coll.nchannels = 5;
	d.coll.nwarps = 16;
	d.coll.algo = algo;
	d.coll.proto = "LL128";
	d.coll.group = &group;
	d.coll.tag = 77;
	return d;
}

START_TEST(a_collective_has_the_fields_of_each_version)
{
	const struct profiler_descr d = coll("PAT");

	ck_assert(start(1, &d));
	ck_assert_ptr_eq(got.v1.parent, &group);
	ck_assert_int_eq(got.v1.rank, 3);
	ck_assert_str_eq(got.v1.coll.name, "name");
	ck_assert_uint_eq(got.v1.coll.comm, 0xabc);
	ck_assert_uint_eq(got.v1.coll.func, 3);
	ck_assert_uint_eq(got.v1.coll.type, ncclBfloat16);
	ck_assert_uint_eq(got.v1.coll.algo, 6);
	ck_assert_uint_eq(got.v1.coll.proto, 1);
	ck_assert_uint_eq(got.v1.coll.nwarps, 16);
	ck_assert_int_eq(got.v1.coll.root, 2);
	ck_assert(start(2, &d));
	ck_assert_str_eq(got.v2.coll.func, "ReduceScatter");
	ck_assert_uint_eq(got.v2.coll.traffic_bytes, 0);
	ck_assert_uint_eq(got.v2.coll.nchannels, 5);
	ck_assert(start(3, &d));
	ck_assert_ptr_eq(got.v3.parent, &group);
	ck_assert_uint_eq(got.v3.coll.comm, 0xabc);
	ck_assert_str_eq(got.v3.coll.proto, "LL128");
	ck_assert(start(4, &d));
	ck_assert_ptr_eq(got.v4.parent, &group);
	ck_assert_uint_eq(got.v4.coll.number, 11);
	ck_assert_str_eq(got.v4.coll.algo, "PAT");
	ck_assert(start(5, &d));
	ck_assert_ptr_eq(got.v5.parent, &parent);
	ck_assert_ptr_eq(got.v5.coll.group, &group);
	ck_assert(start(7, &d));
	ck_assert_uint_eq(got.v5.coll.tag, 77);
}
END_TEST

START_TEST(version_1_has_no_number_for_an_algorithm_that_is_not_of_nccl)
{
	const struct profiler_descr d = coll("ONE_SHOT");

	ck_assert(start(1, &d));
	ck_assert_uint_eq(got.v1.coll.algo, 255);
}
END_TEST

START_TEST(a_version_receives_the_events_that_it_knows)
{
	static const struct {
		uint64_t type;
		int from; /* version */
	} events[] = {
		{PROFILER_GROUP, 1},     {PROFILER_PROXY_CTRL, 1}, {PROFILER_PROXY_STEP, 1},
		{PROFILER_KERNEL_CH, 3}, {PROFILER_NET_PLUGIN, 3}, {PROFILER_GROUP_API, 5},
		{PROFILER_COLL_API, 5},  {PROFILER_P2P_API, 5},    {PROFILER_KERNEL_LAUNCH, 5}};

	for (size_t i = 0; i < ARRAY_LEN(events); i++)
		for (int v = 1; v <= 7; v++) {
			const struct profiler_descr d = {.type = events[i].type};

			ck_assert_int_eq(start(v, &d), v >= events[i].from);
		}
}
END_TEST

static bool record(int v, enum profiler_state s, const union profiler_args *args)
{
	const struct profiler of = {.table = &fake, .version = v};

	version = v;
	calls = 0;
	ck_assert_int_eq(profiler_call_record(&of, &got, s, args), ncclSuccess);
	return calls == 1;
}

START_TEST(states_have_the_arguments_of_the_version)
{
	const union profiler_args step = {.step = {4096}}, ctrl = {.ctrl = {5}};

	ck_assert(record(4, PROFILER_SEND_WAIT, &step));
	ck_assert_uint_eq(args_v4.step.bytes, 4096);
	ck_assert_int_eq(state, 9);
	ck_assert(record(3, PROFILER_SEND_WAIT, &step));
	ck_assert_uint_eq(args_v3.op.bytes, 0);
	ck_assert(record(3, PROFILER_CTRL_APPEND_END, &ctrl));
	ck_assert_int_eq(args_v3.ctrl.appended, 5);
	ck_assert(!record(3, PROFILER_OP_IN_PROGRESS, NULL));
	ck_assert(!record(3, PROFILER_SEND_PEER_WAIT, &step));
	ck_assert(!record(4, PROFILER_GROUP_END_START, NULL));
	ck_assert(record(5, PROFILER_GROUP_END_START, NULL));
	ck_assert(no_args);
}
END_TEST

START_TEST(a_list_of_plugins_has_its_elements_in_order)
{
	char out[PLUGIN_SETTING];
	const char *list = " a.so,, lib,x";

	list = plugin_element(list, out);
	ck_assert_str_eq(out, "a.so");
	list = plugin_element(list, out);
	ck_assert_str_eq(out, "lib");
	list = plugin_element(list, out);
	ck_assert_str_eq(out, "x");
	ck_assert_ptr_null(plugin_element(list, out));
	ck_assert(plugin_is_none("NONE") && !plugin_is_none("nonesuch") && !plugin_is_none(NULL));
}
END_TEST

START_TEST(a_setting_names_files_in_nccls_order)
{
	struct plugin_library l = {.library = NULL};
	char why[256];

	ck_assert_int_eq(plugin_open(PLUGIN_TUNER, "nosuch", &l, why, sizeof why), ncclSystemError);
	ck_assert_str_eq(l.file, "libnccl-tuner-nosuch.so");
	ck_assert_ptr_null(l.library);
	ck_assert_int_eq(plugin_open(PLUGIN_NET, "libnosuch.so", &l, why, sizeof why),
			 ncclSystemError);
	ck_assert_str_eq(l.file, "libnosuch.so");
	ck_assert_int_eq(plugin_open(PLUGIN_PROFILER, "", &l, why, sizeof why), ncclSystemError);
	ck_assert_str_eq(l.file, "libnccl-profiler.so");
	ck_assert_int_eq(plugin_open(PLUGIN_PROFILER, "static_plugin", &l, why, sizeof why),
			 ncclSuccess);
	ck_assert_ptr_nonnull(os_library_word(l.library));
	plugin_close(&l);
	plugin_close(&l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("profiler_call");
	TCase *t = tcase_create("profiler_call");

	tcase_add_test(t, a_collective_has_the_fields_of_each_version);
	tcase_add_test(t, version_1_has_no_number_for_an_algorithm_that_is_not_of_nccl);
	tcase_add_test(t, a_version_receives_the_events_that_it_knows);
	tcase_add_test(t, states_have_the_arguments_of_the_version);
	tcase_add_test(t, a_list_of_plugins_has_its_elements_in_order);
	tcase_add_test(t, a_setting_names_files_in_nccls_order);
	suite_add_tcase(s, t);
	return suite_run(s);
}
