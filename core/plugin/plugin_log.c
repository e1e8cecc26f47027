/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/os/os.h"
#include "core/plugin/plugin.h"

/* A plugin may call it from a thread of its own. Engine sim has one thread; lines of others cannot
 * be written there, because no process of the world is theirs. */
void plugin_log(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	enum log_level at = LOG_LEVEL_INFO;
	char text[512];
	va_list args;

	if (!os_thread_is_known())
		return;
	if (level > LOG_LEVEL_NONE && level <= LOG_LEVEL_TRACE)
		at = (enum log_level)level;
	if (at != LOG_LEVEL_WARN && !log_wanted(at, (uint32_t)flags))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	log_write(at, (uint32_t)flags, file ? file : "plugin", line, "%s", text);
}
