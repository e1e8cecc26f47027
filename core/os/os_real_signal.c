/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts of signals. They belong to the real machine, in a world as well. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "core/os/os.h"

#define REAL_SIGNALS 65

static shared_u32 real_signal_count[REAL_SIGNALS];

static void real_signal_came(int number)
{
	__atomic_fetch_add(&real_signal_count[number].v_, 1, __ATOMIC_RELEASE);
}

int os_signal_count(int number, const shared_u32 **count)
{
	struct sigaction now, ours = {.sa_handler = real_signal_came, .sa_flags = SA_RESTART};

	if (number <= 0 || number >= REAL_SIGNALS)
		return EINVAL;
	if (sigaction(number, NULL, &now))
		return errno;
	*count = &real_signal_count[number];
	if (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == real_signal_came)
		return 0;
	if ((now.sa_flags & SA_SIGINFO) || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN))
		return EBUSY;
	return sigaction(number, &ours, NULL) ? errno : 0;
}
