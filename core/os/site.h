/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * site.h: named places in the code of the stack and of the doubles, one line each, where they
 * stand. A rare path (OS_BUGGIFY) is one that the engine may choose; a probe (OS_PROBE) is a state
 * that a campaign should reach. Each has a name ("module.path") and a sentence.
 *
 * The macros put a record into a section of the library. core/os/site_object.c, which is linked
 * into each library that has sites, hands the section to the engine when the library is loaded
 * (sim/engine/site.c); `doppel faults` and the counts of a sweep list all records by name. Without
 * a double behind the stack a rare path is `false`, and nothing else is compiled.
 *
 * Included through os.h. The strings are constants; nothing is owned.
 */
#ifndef CORE_OS_SITE_H
#define CORE_OS_SITE_H

#include <stdbool.h>

enum os_site_kind { OS_SITE_RARE, OS_SITE_PROBE };

struct os_site {
	enum os_site_kind kind;
	const char *name;
	const char *what; /* for people: what happens there, or what is so there */
	const char *idle; /* why no run of the lab comes to it; NULL: some do */
};

#ifdef DOPPEL_FAKE
/* The section holds pointers: a compiler may put large records further apart than their size. */
#define OS_SITE_STATICS(attribute, ...)                                                            \
	static const struct os_site site_record_ attribute = {__VA_ARGS__};                        \
	static const struct os_site *const site_listed_ attribute                                  \
		__attribute__((used, section("os_sites"))) = &site_record_

/* A record's address. Its variables are none of the function where it stands, for gdb's `info
 * locals`: gcc has them in a function of their own, which is inlined always; clang, which has no
 * functions in functions, leaves them out of the debug information. */
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

/* May the code take its rare path here (one slot instead of eight, an early timeout)? True
 * sometimes in exploring runs of engine sim, never in the real world. */
#define OS_BUGGIFY(name, what) os_buggify(OS_SITE_RECORD(OS_SITE_RARE, name, what, NULL))
bool os_buggify(const struct os_site *site);

/* "Sometimes the condition is true": counted in engine sim, of no influence on the run. The
 * condition must not touch shared words: those are scheduling points. */
#define OS_PROBE(name, what, condition) OS_PROBE_IDLE(name, what, NULL, condition)
/* The same for what no run of the lab comes to, and why; a test of the module does. */
#define OS_PROBE_IDLE(name, what, why, condition)                                                  \
	do {                                                                                       \
		if (condition)                                                                     \
			os_probe(OS_SITE_RECORD(OS_SITE_PROBE, name, what, why));                  \
	} while (0)
void os_probe(const struct os_site *site);

/* A library's section, when the library is loaded and unloaded. Called by site_object.c alone. */
void os_sites_join(const struct os_site *const *first, const struct os_site *const *end);
void os_sites_leave(const struct os_site *const *first);
#else
#define OS_BUGGIFY(name, what)                    false
#define OS_PROBE(name, what, condition)           ((void)sizeof(!(condition)))
#define OS_PROBE_IDLE(name, what, why, condition) ((void)sizeof(!(condition)))
#endif

#endif
