/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock of os.h, made of shared words and waits: the same in each implementation of the seam. */

#include "core/os/os.h"
#include "core/os/mailbox.h"
#include "core/os/os_ops.h"

void os_mutex_lock(struct os_mutex *m)
{
	for (;;) {
		uint32_t expect = 0;
		if (shared_cas_weak_u32(&m->word, &expect, 1, SHARED_ACQUIRE))
			return;
		if (expect == 0)
			continue; /* spurious failure: the mutex was free */
		const struct wait w = wait_word(&m->word, 4, WAIT_EQ, 0, "mutex",
						wait_by(-1, -1, "owner of the mutex"));
		os_wait_one(&w, NULL);
	}
}

bool os_mutex_try_lock(struct os_mutex *m)
{
	uint32_t expect = 0;

	while (!shared_cas_weak_u32(&m->word, &expect, 1, SHARED_ACQUIRE))
		if (expect)
			return false;
	return true;
}

void os_mutex_unlock(struct os_mutex *m)
{
	DASSERT(shared_quiet_load_u32(&m->word) == 1);
	shared_store_u32(&m->word, 0, SHARED_RELEASE);
}
