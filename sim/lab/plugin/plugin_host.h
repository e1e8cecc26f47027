/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions that a plugin of this folder needs from the program or library that it is in. In the
 * program doppel they are in lab_plugins.c: settings are drawn from the run's seed. In the
 * libraries of tests/sim/plugin they are in plugin_env.c: settings are variables of the
 * environment. Called by any task; nothing is owned.
 */
#ifndef SIM_LAB_PLUGIN_HOST_H
#define SIM_LAB_PLUGIN_HOST_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The value of a setting of the plugin; NULL: it is not set. */
const char *plug_setting(const char *name);
/* The path of a device in /sys; NULL: it is not a PCI device. */
const char *plug_pci_path(int dev);
/* Does the call fail for which a setting, such as PLUG_FAULT, has the value `what`? In a library
 * each such call does, in the program one call. */
bool plug_fails(const char *name, const char *what);
/* Reports that the stack has called a plugin wrongly. */
void plug_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline bool plug_setting_is(const char *name, const char *value)
{
	const char *text = plug_setting(name);

	return text && !strcmp(text, value);
}

static inline int plug_number(const char *name, int otherwise)
{
	const char *text = plug_setting(name);

	return text ? (int)strtol(text, NULL, 0) : otherwise;
}

#endif
