/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends the program by a signal; alternate signal stacks; finds an attached debugger. */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "sim/engine/base/engine_internal.h"

void __gcov_dump(void) __attribute__((weak));

enum { CRASH_STACK_BYTES = 256 << 10 };

bool sim_under_debugger(void)
{
	char line[128];
	int pid = 0;
	FILE *f = fopen("/proc/self/status", "r");

	if (!f)
		return false;
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "TracerPid: %d", &pid) == 1)
			break;
	fclose(f);
	return pid != 0;
}

/* Ends the program by the signal. The first process of a PID namespace survives its own signals; it
 * exits with the code that a shell shows for the signal. */
void crash_raise(int sig)
{
	sigset_t set;

	if (__gcov_dump)
		__gcov_dump();
	sigemptyset(&set);
	sigaddset(&set, sig);
	signal(sig, SIG_DFL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	raise(sig);
	_exit(SIM_BY_SIGNAL + sig);
}

void crash_end_by(int sig)
{
	prctl(PR_SET_DUMPABLE, 0);
	crash_raise(sig);
}

void crash_alt_stack(void **keep)
{
	stack_t s = {.ss_size = CRASH_STACK_BYTES};

	s.ss_sp = mmap(NULL, CRASH_STACK_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	*keep = NULL;
	if (s.ss_sp == MAP_FAILED)
		return;
	*keep = s.ss_sp;
	sigaltstack(&s, NULL);
}

/* Frees the stack of a thread that has ended, or the caller's own. */
void crash_alt_stack_free(void *keep)
{
#ifdef __SANITIZE_ADDRESS__
	/* AddressSanitizer unmaps the alternate stack at the end of its thread */
	(void)keep;
#else
	if (keep)
		munmap(keep, CRASH_STACK_BYTES);
#endif
}
