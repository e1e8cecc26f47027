/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log in NCCL's format. NCCL_DEBUG selects the level, NCCL_DEBUG_SUBSYS the subsystems. The
 * default is INIT,BOOTSTRAP,ENV; "^NET" selects all except NET. A line has this form:
 *
 *	host:pid:tid [cudaDev] NCCL INFO text
 *	host:pid:tid [cudaDev] file.c:123 NCCL WARN text
 *
 * The function that detects an error writes one WARN; callers only propagate the error. Text is
 * formatted only if it is printed. The exception is a WARN: its text is always kept as the
 * process's last error. os_log_line alone writes lines. A log call neither waits nor is a
 * scheduling point, so the level never changes a run. The state (level, subsystems, last errors)
 * belongs to the process: base_state.h.
 */
#ifndef CORE_BASE_LOG_H
#define CORE_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level {
	LOG_LEVEL_NONE,
	LOG_LEVEL_VERSION,
	LOG_LEVEL_WARN,
	LOG_LEVEL_INFO,
	LOG_LEVEL_ABORT,
	LOG_LEVEL_TRACE,
};

/* Subsystems; bits and names are NCCL's. */
enum log_subsys {
	LOG_INIT = 0x1,
	LOG_COLL = 0x2,
	LOG_P2P = 0x4,
	LOG_SHM = 0x8,
	LOG_NET = 0x10,
	LOG_GRAPH = 0x20,
	LOG_TUNING = 0x40,
	LOG_ENV = 0x80,
	LOG_ALLOC = 0x100,
	LOG_CALL = 0x200,
	LOG_PROXY = 0x400,
	LOG_NVLS = 0x800,
	LOG_BOOTSTRAP = 0x1000,
	LOG_REG = 0x2000,
	LOG_PROFILE = 0x4000,
	LOG_RAS = 0x8000,
	LOG_DESTROY = 0x10000,
	LOG_ALLOC_HOST = 0x20000,
	LOG_ALL = 0xffffffffu,
};

bool log_wanted(enum log_level level, uint32_t subsys);
/* Formats and writes a line. The macros below call it. */
void log_write(enum log_level level, uint32_t subsys, const char *file, int line, const char *fmt,
	       ...) __attribute__((format(printf, 5, 6)));

/* Returns the text of the process's latest WARN, "" if there was no WARN. It stays valid until
 * LOG_LAST_KEPT more errors are logged. */
const char *log_last_error(void);
/* Returns the text of the calling task's latest WARN. Another task's WARN may concern another
 * communicator. */
const char *log_task_error(void);
#define LOG_LAST_KEPT 16
/* Makes the text of an earlier error the process's latest one again, without a line, and returns
 * it. Errors that followed from it may have been logged since. Valid as long as log_last_error. */
const char *log_error_again(const char *text);

/* Reads level and subsystems from the environment again. The file of the log stays. */
void log_reset(void);

/* Logs one INFO line per process that names the subsystems that the user selected but that log
 * nothing. */
void log_report_silent(void);

/* Sets the CUDA device shown in brackets for the calling task; -1, the initial value: no device. */
void log_set_device(int32_t device);

#define WARN(...) log_write(LOG_LEVEL_WARN, LOG_ALL, __FILE__, __LINE__, __VA_ARGS__)
#define LOG_AT(level, subsys, ...)                                                                 \
	(log_wanted(level, subsys) ? log_write(level, subsys, __FILE__, __LINE__, __VA_ARGS__)     \
				   : (void)0)
#define INFO(subsys, ...)     LOG_AT(LOG_LEVEL_INFO, subsys, __VA_ARGS__)
#define TRACE(subsys, ...)    LOG_AT(LOG_LEVEL_TRACE, subsys, __VA_ARGS__)
#define LOG_VERSION_LINE(...) LOG_AT(LOG_LEVEL_VERSION, LOG_ALL, __VA_ARGS__)

#endif
