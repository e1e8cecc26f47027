/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that may be found in place of a fabric's: too short, not sealed, another user's, of
 * another version, garbage, or with one offset that is out of range. */
#include <check.h>

#include "backends/fakeverbs/fabric/fabric_find.c"
#include "tests/fuzz/segment_image.h"
#include "tests/suite.h"

static struct fabric_segment *s;

static void setup(void)
{
	s = segment_map();
	ck_assert_ptr_nonnull(s);
	segment_fill(s);
}

/* ---- the file ------------------------------------------------------------------------------- */

static const char *file_wrong(off_t bytes, int seals)
{
	struct fabric_segment *found;
	int fd = memfd_create("segment_test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, bytes), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	const char *wrong = fabric_try(fd, SEGMENT_LAYOUT, &found);

	close(fd);
	return wrong;
}

START_TEST(a_file_that_is_no_segment_is_refused)
{
	const off_t whole = (off_t)WORLD_ARENA_BYTES;
	struct fabric_segment *found;
	int fd, null = open("/dev/null", O_RDWR), disk = fileno(tmpfile());

	ck_assert_str_eq(file_wrong(0, FABRIC_SEALS), "its size or seals are not a fabric's");
	ck_assert_str_eq(file_wrong(64, FABRIC_SEALS), "its size or seals are not a fabric's");
	ck_assert_str_eq(file_wrong(whole - 4096, FABRIC_SEALS),
			 "its size or seals are not a fabric's");
	ck_assert_str_eq(file_wrong(whole + 4096, FABRIC_SEALS),
			 "its size or seals are not a fabric's");
	ck_assert_str_eq(file_wrong(whole, F_SEAL_GROW), "its size or seals are not a fabric's");
	ck_assert_str_eq(file_wrong(whole, FABRIC_SEALS), "it is not the memory of a fabric");
	ck_assert_str_eq(fabric_try(null, SEGMENT_LAYOUT, &found),
			 "it is not the memory of a fabric");
	ck_assert_str_eq(fabric_try(disk, SEGMENT_LAYOUT, &found),
			 "it is not the memory of a fabric");
	ck_assert_str_eq(fabric_try(-1, SEGMENT_LAYOUT, &found),
			 "it is not the memory of a fabric");
	close(null);

	ck_assert_ptr_nonnull(fabric_make(SEGMENT_LAYOUT, &fd));
	ck_assert_ptr_null(fabric_try(fd, SEGMENT_LAYOUT, &found));
	ck_assert_str_eq(fabric_try(fd, SEGMENT_LAYOUT + 1, &found),
			 "another version of Doppel made it");
	if (geteuid() == 0 && fchown(fd, 4711, 4711) == 0)
		ck_assert_str_eq(fabric_try(fd, SEGMENT_LAYOUT, &found), "another user owns it");
	close(fd);
}
END_TEST

/* ---- contents ------------------------------------------------------------------------------- */

#define REFUSED(how, why)                                                                          \
	do {                                                                                       \
		memset(s, 0, SEGMENT_HEAD);                                                        \
		segment_fill(s);                                                                   \
		how;                                                                               \
		const char *wrong = fabric_check(s, SEGMENT_LAYOUT);                               \
		ck_assert_msg(wrong &&strstr(wrong, why), #how ": %s", wrong ? wrong : "taken");   \
	} while (0)

START_TEST(a_number_that_leads_outside_is_refused)
{
	struct hca_world *w = segment_world(s);
	const char *bad = "is inconsistent";

	ck_assert_ptr_null(fabric_check(s, SEGMENT_LAYOUT));
	REFUSED(s->magic++, "not the memory of a fabric");
	REFUSED(memset(s, 0x5a, SEGMENT_HEAD), "not the memory of a fabric");
	REFUSED(s->version++, "another version");
	REFUSED(s->members--, "another version");
	REFUSED(s->layout++, "another version");
	REFUSED(memset(&s->world, 0x5a, SEGMENT_HEAD - 4096), bad);
	REFUSED(s->arena.used = 0, bad);
	REFUSED(s->arena.used = WORLD_ARENA_BYTES + 1, bad);
	REFUSED(s->world = 64, bad);
	REFUSED(s->world++, bad);
	REFUSED(s->world = s->arena.used, bad);
	REFUSED(s->world = UINT64_MAX - 63, bad);
	REFUSED(s->member[7].id = 8, bad);
	REFUSED(w->ports = 1u << 31, bad);
	REFUSED(w->ports = 4097, bad);
	REFUSED(w->port[0].bucket[63] = 6, bad);
	REFUSED(w->rings.free[12] = 4, bad);
	REFUSED(w->rings.free[12] = w->rings.first - 64, bad);
	REFUSED(w->rings.free[12] = w->rings.first + w->rings.bytes - 64, bad);
	REFUSED(w->rings.free[40] = w->rings.first, bad);
	REFUSED(w->rings.first += 64, bad);
	REFUSED(w->rings.first = UINT64_MAX & ~63ull, bad);
	REFUSED(w->rings.bytes += 64, bad);
	REFUSED(w->rings.bytes = 0, bad);
#define SLAB(name, type)                                                                           \
	REFUSED(w->name.item_bytes += 64, bad);                                                    \
	REFUSED(w->name.chunk_shift = 63, bad);                                                    \
	REFUSED(w->name.count = UINT32_MAX, bad);                                                  \
	REFUSED(w->name.count = 9, bad);                                                           \
	REFUSED(w->name.free_first = 6, bad);                                                      \
	REFUSED(w->name.free_last = 6, bad);                                                       \
	REFUSED(w->name.chunk[1] = 0, bad);                                                        \
	REFUSED(w->name.chunk[0] = s->arena.used - 64, bad);                                       \
	REFUSED(w->name.chunk[0] = UINT64_MAX & ~63ull, bad);
	SEGMENT_SLABS(SLAB)
#undef SLAB
	REFUSED((s->world = 0, s->arena.used = SEGMENT_WORLD - 1), bad);
	memset(s, 0, SEGMENT_HEAD);
	segment_fill(s);
	s->world = 0; /* not created yet */
	ck_assert_ptr_null(fabric_check(s, SEGMENT_LAYOUT));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("segment");
	TCase *t = tcase_create("segment");

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, a_file_that_is_no_segment_is_refused);
	tcase_add_test(t, a_number_that_leads_outside_is_refused);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
