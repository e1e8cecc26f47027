/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of a plugin in a library are variables of the environment. */
#include <stdarg.h>
#include <stdio.h>

#include "sim/lab/plugin/plugin_host.h"

const char *plug_setting(const char *name)
{
	return getenv(name);
}

const char *plug_pci_path(int dev)
{
	(void)dev;
	return getenv("PLUG_PCI");
}

bool plug_fails(const char *name, const char *what)
{
	return plug_setting_is(name, what);
}

void plug_wrong(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}
