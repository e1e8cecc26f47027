/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/base_state.h"
#include "core/base/param.h"
#include "core/os/os_ops.h"

#define LOG_LINE_BYTES 1024

static const char *const log_level_names[] = {
	[LOG_LEVEL_NONE] = "NONE", [LOG_LEVEL_VERSION] = "VERSION", [LOG_LEVEL_WARN] = "WARN",
	[LOG_LEVEL_INFO] = "INFO", [LOG_LEVEL_ABORT] = "ABORT",     [LOG_LEVEL_TRACE] = "TRACE",
};

/* Subsystems that this version does not have. */
#define LOG_SILENT (LOG_NVLS | LOG_DESTROY | LOG_ALLOC_HOST)

static const struct {
	const char *name;
	uint32_t bit;
} log_subsys_names[] = {
	{"INIT", LOG_INIT},
	{"COLL", LOG_COLL},
	{"P2P", LOG_P2P},
	{"SHM", LOG_SHM},
	{"NET", LOG_NET},
	{"GRAPH", LOG_GRAPH},
	{"TUNING", LOG_TUNING},
	{"ENV", LOG_ENV},
	{"ALLOC", LOG_ALLOC},
	{"CALL", LOG_CALL},
	{"PROXY", LOG_PROXY},
	{"NVLS", LOG_NVLS},
	{"BOOTSTRAP", LOG_BOOTSTRAP},
	{"REG", LOG_REG},
	{"PROFILE", LOG_PROFILE},
	{"RAS", LOG_RAS},
	{"DESTROY", LOG_DESTROY},
	{"ALLOC_HOST", LOG_ALLOC_HOST},
	{"ALL", LOG_ALL},
};

bool log_wanted(enum log_level level, uint32_t subsys)
{
	const struct log_state *log = &os_base_state()->log;
	if (shared_quiet_load_u32(&log->level) < (uint32_t)level)
		return false;
	return level <= LOG_LEVEL_WARN || (shared_quiet_load_u32(&log->subsys) & subsys) != 0;
}

/* Keeps the text as the latest error. A slot is overwritten every LOG_LAST_KEPT errors. */
static const char *log_error_keep(struct log_state *log, const char *text)
{
	uint32_t number = shared_quiet_add_u32(&log->next, 1);
	snprintf(log->error[number % LOG_LAST_KEPT], LOG_TEXT_BYTES, "%s", text);
	log->error_task[number % LOG_LAST_KEPT] = os_self()->id;
	shared_quiet_store_u32(&log->last, number + 1);
	return log->error[number % LOG_LAST_KEPT];
}

const char *log_last_error(void)
{
	const struct log_state *log = &os_base_state()->log;
	uint32_t last = shared_quiet_load_u32(&log->last);
	return last ? log->error[(last - 1) % LOG_LAST_KEPT] : "";
}

const char *log_error_again(const char *text)
{
	const char *last = log_last_error();

	return strcmp(last, text) ? log_error_keep(&os_base_state()->log, text) : last;
}

const char *log_task_error(void)
{
	const struct log_state *log = &os_base_state()->log;
	const uint32_t last = shared_quiet_load_u32(&log->last), self = os_self()->id;

	for (uint32_t n = last; n && n + LOG_LAST_KEPT > last; n--)
		if (log->error_task[(n - 1) % LOG_LAST_KEPT] == self)
			return log->error[(n - 1) % LOG_LAST_KEPT];
	return "";
}

static const char *log_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

void log_write(enum log_level level, uint32_t subsys, const char *file, int line, const char *fmt,
	       ...)
{
	struct log_state *log = &os_base_state()->log;
	char text[LOG_TEXT_BYTES];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (level == LOG_LEVEL_WARN)
		(void)log_error_keep(log, text);
	if (!log_wanted(level, subsys))
		return;

	char host[64], where[96] = "", device[16] = "", out[LOG_LINE_BYTES];
	os_host_name(host, sizeof host);
	const struct os_self *self = os_self();
	intptr_t dev = (intptr_t)self->slot[OS_SLOT_LOG];
	if (dev)
		snprintf(device, sizeof device, " [%d]", (int)dev - 1);
	if (level == LOG_LEVEL_WARN)
		snprintf(where, sizeof where, " %s:%d", log_file_name(file), line);
	/* the version line has no level: "NCCL version 2.32.3" */
	const char *name = level == LOG_LEVEL_VERSION ? "" : log_level_names[level];
	snprintf(out, sizeof out, "%s:%d:%u%s%s NCCL %s%s%s", host, self->proc->pid, self->id,
		 device, where, name, *name ? " " : "", text);
	os_log_line(out);
}

void log_report_silent(void)
{
	struct log_state *log = &os_base_state()->log;
	char names[64] = "";

	if (!log->named_silent || shared_quiet_load_u32(&log->level) < LOG_LEVEL_INFO ||
	    shared_quiet_exchange_u32(&log->silent_shown, 1) != 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(log_subsys_names); i++)
		if (log_subsys_names[i].bit & log->named_silent &&
		    log_subsys_names[i].bit != LOG_ALL)
			snprintf(names + strlen(names), sizeof names - strlen(names), " %s",
				 log_subsys_names[i].name);
	INFO(LOG_ALL, "NCCL_DEBUG_SUBSYS: no messages of%s: not built", names);
}

void log_set_device(int32_t device)
{
	os_self()->slot[OS_SLOT_LOG] = (void *)(intptr_t)(device + 1);
}

static bool log_name_is(const char *name, const char *text, size_t n)
{
	return strlen(name) == n && strncasecmp(name, text, n) == 0;
}

/* Parses "NET,INIT" or "^NET,INIT". Ignores unknown names, as NCCL does. */
static uint32_t log_subsys_parse(const char *text)
{
	bool invert = text[0] == '^';
	uint32_t bits = 0;
	for (const char *p = text + invert; *p;) {
		size_t n = strcspn(p, ",");
		for (size_t i = 0; i < ARRAY_LEN(log_subsys_names); i++)
			if (log_name_is(log_subsys_names[i].name, p, n))
				bits |= log_subsys_names[i].bit;
		p += n + (p[n] == ',');
	}
	return invert ? ~bits : bits;
}

void log_state_init(struct log_state *log, const char *level, const char *subsys)
{
	uint32_t number = LOG_LEVEL_NONE;
	uint32_t bits = log_subsys_parse(subsys ? subsys : "INIT,BOOTSTRAP,ENV");

	for (uint32_t i = 0; level && i < ARRAY_LEN(log_level_names); i++)
		if (strcasecmp(level, log_level_names[i]) == 0)
			number = i;
	/* NCCL's level of notices, which this version does not log. */
	if (level && strcasecmp(level, "ATTN") == 0)
		number = LOG_LEVEL_WARN;
	shared_quiet_store_u32(&log->level, number);
	shared_quiet_store_u32(&log->subsys, bits);
	log->named_silent = subsys && subsys[0] != '^' && bits != LOG_ALL ? bits & LOG_SILENT : 0;
}

void log_reset(void)
{
	log_state_init(&os_base_state()->log, os_env(param_name(PARAM_DEBUG)),
		       os_env(param_name(PARAM_DEBUG_SUBSYS)));
}
