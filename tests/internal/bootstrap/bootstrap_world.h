/* SPDX-License-Identifier: BSD-3-Clause */
/* The root and the id of a bootstrap test. For the tests of core/bootstrap. */
#ifndef TESTS_INTERNAL_BOOTSTRAP_WORLD_H
#define TESTS_INTERNAL_BOOTSTRAP_WORLD_H

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/bootstrap/bootstrap_internal.h"
#include "core/os/os_ops.h"
#include "tests/ranks.h"
#include "tests/suite.h"

/* Rank 0 makes the id and closes the root in the end. */
struct boot_world {
	ncclUniqueId id;
	struct bootstrap_root *root;
	int32_t special;
	uint64_t seed, late_ns;
	shared_u32 told;
};

static const struct bootstrap_owner nobody; /* the test closes each root */

static inline void boot_begin(int32_t rank, struct boot_world *w)
{
	if (rank == 0)
		EXPECT_NCCL(ncclSuccess, bootstrap_unique_id(&w->id, nobody, &w->root));
	ranks_barrier();
}

static inline void boot_end(int32_t rank, struct boot_world *w)
{
	if (rank == 0) {
		bootstrap_root_close(w->root);
		w->root = NULL;
	}
}

static inline void gather_check(struct bootstrap *b, int32_t rank, int32_t nranks, size_t bytes,
				uint8_t salt)
{
	uint8_t *all = os_alloc(bytes * (size_t)nranks, "test gather");
	for (size_t i = 0; i < bytes; i++)
		all[(size_t)rank * bytes + i] = (uint8_t)(rank * 7 + i + salt);
	EXPECT_NCCL(ncclSuccess, bootstrap_all_gather(b, all, bytes));
	for (int32_t r = 0; r < nranks; r++)
		for (size_t i = 0; i < bytes; i++)
			EXPECT(all[(size_t)r * bytes + i] == (uint8_t)(r * 7 + i + salt));
	os_free(all);
}

#endif
