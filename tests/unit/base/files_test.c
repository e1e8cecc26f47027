/* SPDX-License-Identifier: BSD-3-Clause */
/* The tree of files that a world's hosts show: walking as a kernel walks. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/os/os.h"
#include "sim/world/machine/files.h"
#include "tests/suite.h"

static struct files *files_sample(void)
{
	struct files *f = files_new();
	ck_assert_ptr_nonnull(f);
	files_add(f, "/devices/root/port/card/class", "0x030200\n");
	files_dir(f, "/devices/root/port/pci_bus/13");
	files_link(f, "/class/pci_bus", "13", "/devices/root/port/pci_bus/13");
	files_link(f, "/devices/root/port/card", "driver", "../../../../drivers/gpu");
	files_put(f, "/drivers/gpu", "version", "%d.%d\n", 1, 2);
	ck_assert(files_ok(f));
	return f;
}

START_TEST(a_path_leads_through_links_and_up_from_their_targets)
{
	struct files *f = files_sample();
	char path[OS_PATH_BYTES];
	const char *text;
	ck_assert_int_eq(files_real_path(f, "/class/pci_bus/13/../../card", path), 0);
	ck_assert_str_eq(path, "/devices/root/port/card");
	ck_assert_int_eq(files_text(f, "/class/pci_bus/13/../../card/class", &text), 0);
	ck_assert_str_eq(text, "0x030200\n");
	ck_assert_int_eq(files_text(f, "/devices/root/port/card/driver/version", &text), 0);
	ck_assert_str_eq(text, "1.2\n");
	ck_assert_int_eq(files_real_path(f, "/../class/./pci_bus/", path), 0);
	ck_assert_str_eq(path, "/class/pci_bus");
	files_free(f);
}
END_TEST

START_TEST(what_is_not_there_has_the_kernels_error)
{
	struct files *f = files_sample();
	char path[OS_PATH_BYTES] = "", *names = NULL;
	const char *text = NULL;
	size_t bytes;
	int count;
	ck_assert_int_eq(files_real_path(f, "/class/none", path), ENOENT);
	ck_assert_int_eq(files_real_path(f, "relative", path), ENOENT);
	ck_assert_int_eq(files_real_path(f, "/drivers/gpu/version/x", path), ENOTDIR);
	ck_assert_int_eq(files_real_path(f, "/drivers/gpu/version/", path), ENOTDIR);
	ck_assert_int_eq(files_text(f, "/drivers/gpu", &text), EIO);
	ck_assert_int_eq(files_text(f, "/drivers/gpu/version/x", &text), ENOENT);
	ck_assert_int_eq(files_names(f, "/drivers/gpu/version", &names, &bytes, &count), ENOTDIR);
	ck_assert_str_eq(path, "");
	ck_assert_ptr_null(text);
	ck_assert_ptr_null(names);
	files_free(f);
}
END_TEST

START_TEST(links_in_a_circle_end)
{
	struct files *f = files_new();
	char path[OS_PATH_BYTES], name[16];
	files_link(f, "/", "a", "/b");
	files_link(f, "/", "b", "a");
	files_link(f, "/", "self", "self/self");
	ck_assert_int_eq(files_real_path(f, "/a", path), ELOOP);
	ck_assert_int_eq(files_real_path(f, "/self", path), ELOOP);
	/* forty in a row are as many as a kernel follows */
	files_add(f, "/chain/40", "end");
	for (int i = 0; i < 40; i++) {
		char to[16];
		snprintf(name, sizeof name, "%d", i);
		snprintf(to, sizeof to, "%d", i + 1);
		files_link(f, "/chain", name, to);
	}
	ck_assert_int_eq(files_real_path(f, "/chain/0", path), 0);
	ck_assert_str_eq(path, "/chain/40");
	files_link(f, "/", "more", "chain/0");
	ck_assert_int_eq(files_real_path(f, "/more", path), ELOOP);
	files_free(f);
}
END_TEST

START_TEST(names_are_sorted_and_the_first_of_two_stays)
{
	struct files *f = files_new();
	char *names;
	size_t bytes;
	int count;
	const char *text;
	files_add(f, "/d/b", "first");
	files_add(f, "/d/ba", "");
	files_add(f, "/d/a", "");
	files_add(f, "/d/b", "second");
	files_add(f, "/d/b/below", "a file is in the way");
	files_link(f, "/d", "b", "a");
	ck_assert(files_ok(f));
	ck_assert_int_eq(files_names(f, "/d", &names, &bytes, &count), 0);
	ck_assert_int_eq(count, 3);
	ck_assert_uint_eq(bytes, 7);
	ck_assert_int_eq(memcmp(names, "a\0b\0ba", 7), 0);
	free(names);
	ck_assert_int_eq(files_text(f, "/d/b", &text), 0);
	ck_assert_str_eq(text, "first");
	files_free(f);
}
END_TEST

START_TEST(a_path_that_is_too_long_is_refused)
{
	struct files *f = files_new();
	char path[OS_PATH_BYTES + 64] = "", out[OS_PATH_BYTES];
	while (strlen(path) + 8 < OS_PATH_BYTES)
		strcat(path, "/eight88");
	files_dir(f, path);
	ck_assert_int_eq(files_real_path(f, path, out), 0);
	strcat(path, "/eight88/eight88");
	ck_assert_int_eq(files_real_path(f, path, out), ENAMETOOLONG);
	files_free(f);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("files");
	TCase *t = tcase_create("files");
	suite_add_tcase(suite, t);
	tcase_add_test(t, a_path_leads_through_links_and_up_from_their_targets);
	tcase_add_test(t, what_is_not_there_has_the_kernels_error);
	tcase_add_test(t, links_in_a_circle_end);
	tcase_add_test(t, names_are_sorted_and_the_first_of_two_stays);
	tcase_add_test(t, a_path_that_is_too_long_is_refused);
	return suite_run(suite);
}
