/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles signals that end the program (a failed ASSERT, a bad memory access), in both engines.
 * Prints the task, its stack and the place, dumps as a failing run does, and raises the signal
 * again with its default action. The handler runs on an alternate stack, because the task's stack
 * may have overflowed.
 */
#include <execinfo.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#include "sim/engine/report/report_internal.h"

enum { CRASH_HOOKS = 4, CRASH_FRAMES = 48 };

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static struct sigaction crash_before[ARRAY_LEN(crash_signals)];
static bool (*crash_hook[CRASH_HOOKS])(int signal, const void *addr);
static int crash_hooks;
static void *crash_main_stack;
static volatile sig_atomic_t crash_entered;
static const ucontext_t *crash_context; /* set while a crash is being reported */

void sim_on_crash(bool (*explain)(int signal, const void *addr))
{
	for (int i = 0; i < crash_hooks; i++)
		if (crash_hook[i] == explain)
			return;
	ASSERT(crash_hooks < CRASH_HOOKS);
	crash_hook[crash_hooks++] = explain;
}

void crash_registers(void *regs, const ucontext_t *otherwise)
{
	const ucontext_t *context = crash_context ? crash_context : otherwise;
	uint64_t *r = regs;

#if defined(__x86_64__)
	static const uint8_t order[] = {
		REG_R15, REG_R14, REG_R13, REG_R12, REG_RBP, REG_RBX, REG_R11, REG_R10, REG_R9,
		REG_R8,  REG_RAX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RAX, REG_RIP,
	};
	const greg_t *from = context->uc_mcontext.gregs;

	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		r[i] = (uint64_t)from[order[i]];
	r[17] = 0x33;
	r[18] = (uint64_t)from[REG_EFL];
	r[19] = (uint64_t)from[REG_RSP];
	r[20] = 0x2b;
#elif defined(__aarch64__)
	memcpy(r, context->uc_mcontext.regs, 31 * 8);
	r[31] = context->uc_mcontext.sp;
	r[32] = context->uc_mcontext.pc;
#endif
}

static bool crash_has_address(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS;
}

static const void *crash_stack_pointer(void)
{
#if defined(__x86_64__)
	return (const void *)crash_context->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
	return (const void *)crash_context->uc_mcontext.sp;
#endif
}

static void crash_explain(int signal, const void *addr, const struct task *t)
{
	for (int i = 0; i < crash_hooks; i++)
		if (crash_has_address(signal) && crash_hook[i](signal, addr))
			return;
	if (t && t->fiber.stack &&
	    (fiber_guard_hit(&t->fiber, addr) ||
	     (const char *)crash_stack_pointer() < t->fiber.low))
		fprintf(stderr, "stack: task %u \"%s\" overflowed its stack of %zu bytes\n",
			t->pub.self.id, t->pub.name, t->fiber.bytes);
}

/* Prints the frames. The full symbol tables name static functions too. Reading them needs no memory
 * except maps of files, and no lock except the loader's, which the unwinder also needs. */
static void crash_backtrace(void)
{
	void *frame[CRASH_FRAMES];
	char name[96];
	int n = backtrace(frame, CRASH_FRAMES);

	fflush(stderr);
	for (int i = 0; i < n; i++) {
		sim_call_site(frame[i], name, sizeof name);
		dprintf(STDERR_FILENO, "#%-2d %-36s ", i, name);
		backtrace_symbols_fd(&frame[i], 1, STDERR_FILENO);
	}
}

static void crash_restore_all(void)
{
	for (size_t i = 0; i < ARRAY_LEN(crash_signals); i++)
		signal(crash_signals[i], SIG_DFL);
}

static void crash_describe(char *out, size_t bytes, int sig, const void *address,
			   const struct sim_task *task)
{
	char at[40] = "", in[96] = "outside any task";

	if (crash_has_address(sig))
		snprintf(at, sizeof at, " at address %p", address);
	if (task)
		snprintf(in, sizeof in, "in task %u \"%s\"", task->self.id, task->name);
	snprintf(out, bytes, "%s%s %s", strsignal(sig), at, in);
}

static void crash_handler(int sig, siginfo_t *info, void *context)
{
	const struct sim_task *p = sim_task_known();
	char message[160];

	if (crash_entered) {
		fprintf(stderr, "crash: %s during the report of a crash\n", strsignal(sig));
		crash_raise(sig);
	}
	crash_entered = 1;
	crash_context = context;
	fflush(stdout);
	crash_explain(sig, info->si_addr, p ? CONTAINER_OF(p, const struct task, pub) : NULL);
	crash_describe(message, sizeof message, sig, info->si_addr, p);
	crash_backtrace();
	engine_report(SIM_CRASH, "crash", message);
	crash_restore_all();
	if (eng.config.last_words)
		eng.config.last_words(eng.config.last_words_arg);
	crash_raise(sig);
}

void crash_install(void)
{
	struct sigaction act = {.sa_sigaction = crash_handler,
				.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

	crash_entered = 0;
	sigemptyset(&act.sa_mask);
	if (!crash_main_stack) /* kept between runs, because starting an engine must be cheap */
		crash_alt_stack(&crash_main_stack);
	for (size_t i = 0; i < ARRAY_LEN(crash_signals); i++)
		sigaction(crash_signals[i], &act, &crash_before[i]);
}

void crash_restore(void)
{
	for (size_t i = 0; i < ARRAY_LEN(crash_signals); i++)
		sigaction(crash_signals[i], &crash_before[i], NULL);
	crash_hooks = 0;
}
