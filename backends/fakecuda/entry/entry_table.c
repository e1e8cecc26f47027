/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table made of entries.def, and the functions without a body: each aborts with its name.
 * Functions are declared here without their arguments, so CUDA's headers are not included.
 */
#include "backends/fakecuda/entry/entries.h"

#include <stdlib.h>
#include <string.h>

_Noreturn void fc_unimplemented(const char *name);

/* ---- declarations; definitions of the absent ones ------------------------------------------- */

#define ENTRY_BODY(name) void name(void);
#define ENTRY_ABSENT(name)                                                                         \
	__attribute__((visibility("default"))) void name(void);                                    \
	void name(void)                                                                            \
	{                                                                                          \
		fc_unimplemented(#name);                                                           \
	}
#define RUNTIME(name, site, state)                 ENTRY_##state(name)
#define NVML(name, site, state)                    ENTRY_##state(name)
#define DRIVER(base, suffix, version, site, state) ENTRY_##state(base##suffix)
#include "backends/fakecuda/entry/entries.def"
#undef ENTRY_BODY
#undef ENTRY_ABSENT
#undef RUNTIME
#undef NVML
#undef DRIVER

/* ---- the table ------------------------------------------------------------------------------ */

#define ENTRY_BODY                 true
#define ENTRY_ABSENT               false
#define RUNTIME(name, site, state) {#name, #name, site, FC_ENTRY_RUNTIME, 0, ENTRY_##state, name},
#define NVML(name, site, state)    {#name, #name, site, FC_ENTRY_NVML, 0, ENTRY_##state, name},
#define DRIVER(base, suffix, version, site, state)                                                 \
	{#base #suffix, #base, site, FC_ENTRY_DRIVER, version, ENTRY_##state, base##suffix},
const struct fc_entry fc_entries[] = {
#include "backends/fakecuda/entry/entries.def"
};
const size_t fc_entry_count = sizeof fc_entries / sizeof fc_entries[0];

static int entry_compare(const void *call, const void *entry)
{
	return strcmp(call, ((const struct fc_entry *)entry)->base);
}

const struct fc_entry *fc_entry_find(const char *call)
{
	return bsearch(call, fc_entries, fc_entry_count, sizeof fc_entries[0], entry_compare);
}
