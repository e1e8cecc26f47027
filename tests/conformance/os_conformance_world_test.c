/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory, identity, files, agreement and shared memory as os.h defines them, on every pair of
 * halves. */

#include <sys/resource.h>

#include "core/base/hash.h"
#include "core/os/mailbox.h"
#include "tests/bytes.h"
#include "tests/conformance/os_pairs.h"

/* ---- memory --------------------------------------------------------------------------------- */

static void alloc_gives_zeroed_memory(void)
{
	for (size_t bytes = 1; bytes < 100000; bytes = bytes * 3 + 1) {
		uint8_t *p = os_alloc(bytes, "test block");
		ck_assert_ptr_nonnull(p);
		ck_assert_uint_eq((uintptr_t)p % 16, 0);
		ck_assert_uint_eq(bytes_until_not(p, 0, bytes), bytes);
		memset(p, 0xff, bytes);
		os_free(p);
	}
	os_free(NULL);
	ck_assert_ptr_null(os_alloc(SIZE_MAX - 8, "too much"));
}

static int memo_made;

static void *memo_make(const void *key, size_t bytes, void *arg)
{
	memo_made++;
	if (arg)
		return NULL;
	uint64_t *v = malloc(sizeof *v);
	*v = hash64(key, bytes);
	return v;
}

static void memo_makes_a_value_once(void)
{
	memo_made = 0;
	const uint64_t *a = os_memo("test", "alpha", 5, memo_make, NULL);
	const uint64_t *b = os_memo("test", "beta", 4, memo_make, NULL);
	ck_assert_ptr_nonnull(a);
	ck_assert_ptr_ne(a, b);
	ck_assert_ptr_eq(os_memo("test", "alpha", 5, memo_make, NULL), a);
	ck_assert_ptr_ne(os_memo("other", "alpha", 5, memo_make, NULL), a);
	ck_assert_int_eq(memo_made, 3);
	int fail = 1;
	ck_assert_ptr_null(os_memo("test", "gamma", 5, memo_make, &fail));
	ck_assert_ptr_nonnull(os_memo("test", "gamma", 5, memo_make, NULL));
	ck_assert_int_eq(memo_made, 5);
}

/* ---- identity and files --------------------------------------------------------------------- */

static void host_has_a_name_and_an_environment(void)
{
	char name[64], again[64], small[3];
	os_host_name(name, sizeof name);
	ck_assert_uint_gt(strlen(name), 0);
	os_host_name(small, sizeof small);
	ck_assert_uint_le(strlen(small), 2);
	os_boot_id(name, sizeof name);
	os_boot_id(again, sizeof again);
	ck_assert_str_eq(name, again);
	ck_assert_uint_ge(strlen(name), 8);
	ck_assert_str_eq(os_env("OS_TEST"), "value");
	ck_assert_ptr_null(os_env("OS_TEST_NOT_SET"));
	uint8_t a[16] = {0}, b[16] = {0};
	os_random(a, sizeof a);
	os_random(b, sizeof b);
	ck_assert_int_ne(memcmp(a, b, sizeof a), 0);
}

static void files_are_read_whole(void)
{
	char *data = NULL, id[64];
	size_t bytes = 0;
	ck_assert_int_eq(os_file_read("/no/such/file", &data, &bytes), ENOENT);
	ck_assert_ptr_null(data);
	ck_assert_int_eq(os_file_read("/proc/sys/kernel/random/boot_id", &data, &bytes), 0);
	ck_assert_uint_eq(strlen(data), bytes);
	os_boot_id(id, sizeof id);
	ck_assert_int_eq(strncmp(data, id, strlen(id)), 0);
	os_free(data);
}

static void files_are_written_whole(void)
{
	char path[] = "/tmp/doppel-os-written-XXXXXX", *data = NULL;
	size_t bytes = 0;
	int fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(os_file_write(path, "longer than what follows", 24), 0);
	ck_assert_int_eq(os_file_write(path, "two\nlines", 9), 0);
	/* a file of the real machine, whatever the process' view is */
	ck_assert_int_eq(os_real_ops.file_read(path, &data, &bytes), 0);
	ck_assert_uint_eq(bytes, 9);
	ck_assert_int_eq(memcmp(data, "two\nlines", 9), 0);
	os_free(data);
	close(fd);
	unlink(path);
	ck_assert_int_eq(os_file_write("/no/such/folder/file", "x", 1), ENOENT);
	ck_assert_int_eq(os_file_write("/dev/full", "x", 1), ENOSPC);
	ck_assert_int_eq(os_file_write("/", "x", 1), EIO);
}

static void directories_are_listed_in_order(void)
{
	char *names = NULL;
	int count = 0;
	bool found = false;
	ck_assert_int_eq(os_dir_list("/no/such/folder", &names, &count), ENOENT);
	ck_assert_int_eq(os_dir_list("/proc/sys/kernel/hostname", &names, &count), ENOTDIR);
	ck_assert_ptr_null(names);
	ck_assert_int_eq(os_dir_list("/proc/sys/kernel/random", &names, &count), 0);
	ck_assert_int_ge(count, 1);
	const char *name = names, *before = "";
	for (int i = 0; i < count; i++, name += strlen(name) + 1) {
		ck_assert_int_gt(strcmp(name, before), 0);
		ck_assert_str_ne(name, ".");
		ck_assert_str_ne(name, "..");
		found |= strcmp(name, "boot_id") == 0;
		before = name;
	}
	ck_assert(found);
	os_free(names);
}

static void real_paths_have_no_links_and_dots(void)
{
	char path[OS_PATH_BYTES] = "", deep[OS_PATH_BYTES + 16] = "";
	ck_assert_int_eq(os_real_path("/proc/sys/./../sys//kernel/hostname", path), 0);
	ck_assert_str_eq(path, "/proc/sys/kernel/hostname");
	ck_assert_int_eq(os_real_path("/../..", path), 0);
	ck_assert_str_eq(path, "/");
	ck_assert_int_eq(os_real_path("/no/such/file", path), ENOENT);
	ck_assert_int_eq(os_real_path("/proc/sys/kernel/hostname/x", path), ENOTDIR);
	ck_assert_str_eq(path, "/");
	while (strlen(deep) < OS_PATH_BYTES)
		strcat(deep, "/proc/..");
	/* too long for one of them, or the root */
	int rc = os_real_path(deep, path);
	ck_assert(rc == ENAMETOOLONG || rc == 0);
	ck_assert_str_eq(path, "/");
}

static void agreement_is_by_key_and_sequence(void)
{
	struct os_agree_other other = {.rank = -5};
	ck_assert_int_eq(os_agree(1, 0, 0, "count 4", NULL, &other), 0);
	ck_assert_int_eq(os_agree(1, 0, 1, "count 4", NULL, &other), 0);
	ck_assert_int_eq(os_agree(2, 0, 1, "count 5", NULL, &other), 0);
	ck_assert_int_eq(os_agree(1, 1, 1, "count 5", NULL, &other), 0);
	ck_assert_int_eq(other.rank, -5);
	int rc = os_agree(1, 0, 2, "count 8", NULL, &other);
	if (strcmp(os_world_in_force()->name, "real") == 0) {
		ck_assert_int_eq(rc, 0);
		return;
	}
	ck_assert_int_eq(rc, EINVAL);
	ck_assert_int_eq(other.rank, 0);
	ck_assert_str_eq(other.text, "count 4");
	for (uint64_t seq = 2; seq < 300; seq++)
		ck_assert_int_eq(os_agree(1, seq, 0, "count 4", NULL, NULL), 0);
	/* long ago: no longer compared */
	ck_assert_int_eq(os_agree(1, 0, 2, "count 8", NULL, NULL), 0);
}

static void agents_keep_one_order_between_keys(void)
{
	enum { A = 100, B, ONE = 1, TWO };
	struct os_agree_other other = {.rank = -5};
	for (uint64_t agent = ONE; agent <= TWO; agent++) {
		os_agree_member(A, agent, true);
		os_agree_member(B, agent, true);
	}
	ck_assert_int_eq(os_agree_order(A, ONE, 0, 0, "A 0", NULL, &other), 0);
	ck_assert_int_eq(os_agree_order(B, ONE, 0, 0, "B 0", NULL, &other), 0);
	ck_assert_int_eq(os_agree_order(A, TWO, 0, 1, "A 0", NULL, &other), 0);
	ck_assert_int_eq(os_agree_order(A, 3, 1, 0, "no member", NULL, &other), 0);
	ck_assert_int_eq(other.rank, -5);
	int rc = os_agree_order(A, TWO, 1, 1, "A 1", NULL, &other);
	if (strcmp(os_world_in_force()->name, "real") == 0) {
		ck_assert_int_eq(rc, 0);
		return;
	}
	ck_assert_int_eq(rc, EINVAL);
	ck_assert_int_eq(other.rank, 0);
	ck_assert_str_eq(other.text, "B 0");
	/* it has no effect on the position of the next one */
	ck_assert_int_eq(os_agree_order(B, TWO, 0, 1, "B 1", NULL, &other), EINVAL);
	ck_assert_int_eq(os_agree_order(B, TWO, 0, 1, "B 0", NULL, &other), 0);
	/* a process that has left is no longer compared */
	os_agree_member(B, TWO, false);
	ck_assert_int_eq(os_agree_order(A, TWO, 2, 1, "A 2", NULL, &other), 0);
	os_agree_member(A, ONE, false);
	os_agree_member(A, TWO, false);
	os_agree_member(B, ONE, false);
}

/* ---- shared memory -------------------------------------------------------------------------- */

static void shm_is_made_opened_and_unlinked(void)
{
	char name[64];
	snprintf(name, sizeof name, "doppel-os-test-%d", (int)getpid());
	uint8_t *a = NULL, *b = NULL;
	void *none = NULL;
	size_t found = 1;
	ck_assert_int_eq(os_shm_open(name, 4096, &none, &found), ENOENT);
	ck_assert_uint_eq(found, 0);
	ck_assert_int_eq(os_shm_create("with/slash", 4096, &none), EINVAL);
	ck_assert_int_eq(os_shm_create(name, 8192, (void **)&a), 0);
	ck_assert_int_eq(os_shm_create(name, 8192, &none), EEXIST);
	ck_assert_ptr_null(none);
	ck_assert_uint_eq(bytes_until_not(a, 0, 8192), 8192);
	ck_assert_int_eq(os_shm_open(name, 1 << 20, &none, &found), EINVAL);
	ck_assert_uint_eq(found, 8192);
	ck_assert_int_eq(os_shm_open(name, 4096, &none, &found), EINVAL);
	ck_assert_ptr_null(none);
	ck_assert_int_eq(os_shm_open(name, 8192, (void **)&b, NULL), 0);
	a[4097] = 42;
	ck_assert_uint_eq(b[4097], 42);
	ck_assert_int_eq(os_shm_unlink(name), 0);
	ck_assert_int_eq(os_shm_unlink(name), ENOENT);
	ck_assert_int_eq(os_shm_open(name, 4096, &none, NULL), ENOENT);
	b[1] = 7;
	ck_assert_uint_eq(a[1], 7);
	ck_assert_int_eq(os_shm_unmap(a, 8192), 0);
	ck_assert_int_eq(os_shm_unmap(b, 8192), 0);
}

/* 3 bytes after the start, so that the range has parts of pages at both ends. */
static void zero_leaves_the_bytes_around(uint8_t *mem, size_t bytes)
{
	memset(mem, 0x5a, bytes);
	os_zero(mem + 3, bytes - 7);
	for (size_t i = 0; i < bytes; i++)
		ck_assert_uint_eq(mem[i], i < 3 || i >= bytes - 4 ? 0x5a : 0);
}

static void memory_is_zeroed_in_private_and_shared_pages(void)
{
	const size_t bytes = 300 << 10;
	char name[64];
	uint8_t *own = os_alloc(bytes, "own pages"), *shared;

	snprintf(name, sizeof name, "doppel-zero-%d", os_proc()->pid);
	ck_assert_int_eq(os_shm_create(name, bytes, (void **)&shared), 0);
	zero_leaves_the_bytes_around(own, 100);
	zero_leaves_the_bytes_around(own, bytes);
	zero_leaves_the_bytes_around(shared, bytes);
	ck_assert_int_eq(os_shm_unlink(name), 0);
	ck_assert_int_eq(os_shm_unmap(shared, bytes), 0);
	os_free(own);
}

static void shm_is_on_a_device(void)
{
	uint64_t one = 0, two = 0;
	ck_assert_int_eq(os_shm_device(&one), 0);
	ck_assert_uint_ne(one, 0);
	ck_assert_int_eq(os_shm_device(&two), 0);
	ck_assert_uint_eq(one, two);
}

/* ---- descriptors ---------------------------------------------------------------------------- */

static void the_limit_of_descriptors_is_raised(void)
{
	struct rlimit before, after;
	uint64_t most = 0;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	before.rlim_cur = MIN_OF(before.rlim_max, 256);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(os_descriptors_raise(&most), 0);
		ck_assert_uint_ge(most, 256);
	}
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &after), 0);
	if (strcmp(os_world_in_force()->name, "real") == 0)
		ck_assert(after.rlim_cur == after.rlim_max && most == after.rlim_max);
}

/* ---- mailboxes ------------------------------------------------------------------------------ */

static void box_name(char name[OS_MAILBOX_NAME_BYTES])
{
	snprintf(name, OS_MAILBOX_NAME_BYTES, "doppel-os-test-%d", (int)getpid());
}

static void a_descriptor_goes_through_a_mailbox(void)
{
	char name[OS_MAILBOX_NAME_BYTES], got = 0;
	int box = -1, again = -1, ends[2], fd = -1;
	uint64_t what = 0;

	box_name(name);
	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(os_mailbox_post(name, 1, ends[1]), ECONNREFUSED);
	ck_assert_int_eq(os_mailbox_open(name, &box), 0);
	ck_assert_int_eq(os_mailbox_open(name, &again), EADDRINUSE);
	ck_assert_int_eq(os_mailbox_take(box, &what, &fd), EAGAIN);
	ck_assert_ptr_nonnull(os_mailbox_object(box));
	for (uint64_t i = 5; i < 7; i++)
		ck_assert_int_eq(os_mailbox_post(name, i, ends[1]), 0);
	os_descriptor_close(ends[1]); /* each letter has its own */
	for (uint64_t i = 5; i < 7; i++) {
		ck_assert_int_eq(os_mailbox_take(box, &what, &fd), 0);
		ck_assert_uint_eq(what, i);
		ck_assert_int_eq(write(fd, "x", 1), 1);
		ck_assert_int_eq(read(ends[0], &got, 1), 1);
		os_descriptor_close(fd);
	}
	ck_assert_int_eq(os_mailbox_take(box, &what, &fd), EAGAIN);
	ck_assert_int_eq(read(ends[0], &got, 1), 0); /* the last copy is closed */
	os_descriptor_close(ends[0]);
	os_mailbox_close(box);
	ck_assert_int_eq(os_mailbox_post(name, 1, 2), ECONNREFUSED);
}

static void letters_go_with_their_mailbox(void)
{
	char name[OS_MAILBOX_NAME_BYTES], got;
	int box = -1, ends[2];

	box_name(name);
	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(os_mailbox_open(name, &box), 0);
	ck_assert_int_eq(os_mailbox_post(name, 1, ends[1]), 0);
	os_descriptor_close(ends[1]);
	os_mailbox_close(box);
	ck_assert_int_eq(read(ends[0], &got, 1), 0);
	os_descriptor_close(ends[0]);
}

/* ---- the table of cases --------------------------------------------------------------------- */

#define CASES(X)                                                                                   \
	X(alloc_gives_zeroed_memory)                                                               \
	X(memo_makes_a_value_once)                                                                 \
	X(host_has_a_name_and_an_environment)                                                      \
	X(files_are_read_whole)                                                                    \
	X(files_are_written_whole)                                                                 \
	X(directories_are_listed_in_order)                                                         \
	X(real_paths_have_no_links_and_dots)                                                       \
	X(agreement_is_by_key_and_sequence)                                                        \
	X(agents_keep_one_order_between_keys)                                                      \
	X(shm_is_made_opened_and_unlinked)                                                         \
	X(memory_is_zeroed_in_private_and_shared_pages)                                            \
	X(shm_is_on_a_device)                                                                      \
	X(the_limit_of_descriptors_is_raised)                                                      \
	X(a_descriptor_goes_through_a_mailbox)                                                     \
	X(letters_go_with_their_mailbox)

static const struct os_case cases[] = {CASES(OS_CASE)};

int main(void)
{
	return os_suite_run("os world", cases, (int)(sizeof cases / sizeof cases[0]));
}
