/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * site.h: named sites in the code of the stack and of the doubles, one line each. A rare path
 * (OS_BUGGIFY) is code that the engine may choose to run. A probe (OS_PROBE) is a state that a
 * campaign should reach. Each has a name ("module.path") and a sentence.
 *
 * The macros put a record into a section of the library. Each library that has sites links
 * core/os/site_object.c, which registers the section with the engine when the library is loaded
 * (sim/engine/order/site.c). `doppel faults` and the counts of a sweep list all records by name. In
 * builds without doubles a rare path is `false`, and a probe compiles to no code.
 *
 * Included through os.h. The strings are constants, owned by the code that names the site.
 */
#ifndef CORE_OS_SITE_H
#define CORE_OS_SITE_H

#include <stdbool.h>

enum os_site_kind { OS_SITE_RARE, OS_SITE_PROBE };

struct os_site {
	enum os_site_kind kind;
	const char *name;
	/* For people: what the rare path does, or the state that the probe detects. */
	const char *what;
	const char *idle; /* reason why no run of the lab reaches it; NULL: some runs do */
};

#ifdef DOPPEL_FAKE
/* The section holds pointers, because a compiler may put large records further apart than their
 * size. */
#define OS_SITE_STATICS(attribute, ...)                                                            \
	static const struct os_site site_record_ attribute = {__VA_ARGS__};                        \
	static const struct os_site *const site_listed_ attribute                                  \
		__attribute__((used, section("os_sites"))) = &site_record_

/* Evaluates to the address of a record. Its variables must not appear in gdb's `info locals` of the
 * enclosing function. With gcc they are in a nested function that is always inlined. clang has no
 * nested functions, so nodebug removes them from the debug information. */
#ifdef __clang__
#define OS_SITE_RECORD(...)                                                                        \
	({                                                                                         \
		OS_SITE_STATICS(__attribute__((nodebug)), __VA_ARGS__);                            \
		&site_record_;                                                                     \
	})
#else
#define OS_SITE_RECORD(...)                                                                        \
	({                                                                                         \
		__attribute__((always_inline, artificial)) inline const struct os_site *site_(     \
			void)                                                                      \
		{                                                                                  \
			OS_SITE_STATICS(, __VA_ARGS__);                                            \
			return &site_record_;                                                      \
		}                                                                                  \
		site_();                                                                           \
	})
#endif

/* True if the code takes its rare path here (one slot instead of eight, an early timeout). The
 * engine decides: sometimes true in exploring runs of engine sim, never in the real world. */
#define OS_BUGGIFY(name, what) os_buggify(OS_SITE_RECORD(OS_SITE_RARE, name, what, NULL))
bool os_buggify(const struct os_site *site);

/* Counts in engine sim how often the condition is true; the run itself is not affected. The
 * condition must not touch shared words, because these are scheduling points. */
#define OS_PROBE(name, what, condition) OS_PROBE_IDLE(name, what, NULL, condition)
/* Like OS_PROBE, for a state that no run of the lab reaches; `why` is the reason. A test of the
 * module reaches it. */
#define OS_PROBE_IDLE(name, what, why, condition)                                                  \
	do {                                                                                       \
		if (condition)                                                                     \
			os_probe(OS_SITE_RECORD(OS_SITE_PROBE, name, what, why));                  \
	} while (0)
void os_probe(const struct os_site *site);

/* Register and unregister a library's section when the library is loaded and unloaded. Only
 * site_object.c calls them. */
void os_sites_join(const struct os_site *const *first, const struct os_site *const *end);
void os_sites_leave(const struct os_site *const *first);
#else
#define OS_BUGGIFY(name, what)                    false
#define OS_PROBE(name, what, condition)           ((void)sizeof(!(condition)))
#define OS_PROBE_IDLE(name, what, why, condition) ((void)sizeof(!(condition)))
#endif

#endif
