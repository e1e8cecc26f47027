/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registers the sites of a library (site.h). Each library that has sites links this file, because
 * the linker's symbols for the ends of a section are local to each library. The symbols are weak,
 * because a library without sites has no such section.
 */
#include "core/os/site.h"

#ifdef DOPPEL_FAKE
#define SITE_END __attribute__((weak, visibility("hidden")))
extern const struct os_site *const __start_os_sites[] SITE_END;
extern const struct os_site *const __stop_os_sites[] SITE_END;

__attribute__((constructor)) static void site_object_loaded(void)
{
	os_sites_join(__start_os_sites, __stop_os_sites);
}

__attribute__((destructor)) static void site_object_unloaded(void)
{
	os_sites_leave(__start_os_sites);
}
#endif
