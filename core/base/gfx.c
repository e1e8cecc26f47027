/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/gfx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gfx_parse(const char *text, int32_t *core)
{
	const char *number = strncmp(text, "gfx", 3) == 0 ? text + 3 : text;
	size_t digits = strspn(number, "0123456789abcdef");

	if (!digits || digits > 4 || (number[digits] && number[digits] != ':'))
		return false;
	*core = (int32_t)strtoul(number, NULL, 16);
	if (*core == 0x910)
		*core = 0x90a;
	return true;
}

/* The last two digits are minor number and step, in hexadecimal. The major number is decimal:
 * gfx1100 is 11, 0, 0. */
uint32_t gfx_version(int32_t core)
{
	uint32_t n = (uint32_t)core, major = 10 * (n >> 12 & 15) + (n >> 8 & 15);

	return major * 10000 + (n >> 4 & 15) * 100 + (n & 15);
}

int32_t gfx_of_version(uint64_t version)
{
	uint64_t major = version / 10000, minor = version / 100 % 100, step = version % 100;

	if (!major || major > 99 || minor > 15 || step > 15)
		return 0;
	return (int32_t)((major / 10) << 12 | (major % 10) << 8 | minor << 4 | step);
}
