/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of the functions that the double exports (entries.def). Called by the lookups of
 * entry_lookup.c and by the fault sites. The table is constant, and no function of it waits.
 */
#ifndef BACKENDS_FAKECUDA_ENTRY_ENTRIES_H
#define BACKENDS_FAKECUDA_ENTRY_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fc_entry_api { FC_ENTRY_RUNTIME, FC_ENTRY_DRIVER, FC_ENTRY_NVML };

struct fc_entry {
	const char *name; /* the exported symbol */
	const char *base; /* without a version; equal to `name` outside the driver */
	const char *site; /* NULL: it cannot fail */
	enum fc_entry_api api;
	uint32_t version; /* CUDA version from which `base` means it; 0 outside the driver */
	bool body;        /* false: a call aborts with the name */
	void (*fn)(void);
};
extern const struct fc_entry fc_entries[];
extern const size_t fc_entry_count;

/* Returns a row with that base; NULL: none has it. */
const struct fc_entry *fc_entry_find(const char *call);

#endif
