/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads configuration files: os_conf.h. */
#include "core/os/os_conf.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/macros.h"
#include "core/os/os.h"

/* ---- bad lines ------------------------------------------------------------------------------ */

static void conf_bad(struct conf *conf, const char *path, uint32_t number, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void conf_bad(struct conf *conf, const char *path, uint32_t number, const char *fmt, ...)
{
	va_list args;

	if (conf->bad_count++ >= CONF_BAD_MOST)
		return;
	struct conf_bad *bad = &conf->bad[conf->bad_count - 1];

	bad->path = path;
	bad->number = number;
	va_start(args, fmt);
	vsnprintf(bad->text, sizeof bad->text, fmt, args);
	va_end(args);
}

/* Copies the beginning of a line, with ? for each byte that is not printable ASCII. */
static const char *conf_quote(const char *line, size_t bytes, char out[48])
{
	const size_t n = MIN_OF(bytes, (size_t)40);

	for (size_t i = 0; i < n; i++)
		out[i] = isascii((unsigned char)line[i]) && isprint((unsigned char)line[i])
				 ? line[i]
				 : '?';
	strcpy(out + n, n < bytes ? "..." : "");
	return out;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static const struct conf_line *conf_lookup(const struct conf *conf, const char *name, size_t bytes)
{
	for (const struct conf_line *l = conf->first; l; l = l->next)
		if (strncmp(l->name, name, bytes) == 0 && !l->name[bytes])
			return l;
	return NULL;
}

const struct conf_line *conf_find(const struct conf *conf, const char *name, size_t bytes)
{
	const struct conf_line *l = conf ? conf_lookup(conf, name, bytes) : NULL;

	return l && l->use == CONF_USED ? l : NULL;
}

static bool conf_is_name(const char *name, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (!isascii((unsigned char)name[i]) ||
		    !(isalnum((unsigned char)name[i]) || name[i] == '_'))
			return false;
	return bytes > 0 && !isdigit((unsigned char)name[0]);
}

/* Checks a line that is neither empty nor a comment. */
static bool conf_line_fits(struct conf *conf, const char *path, uint32_t number, const char *line,
			   size_t bytes)
{
	const char *equals = memchr(line, '=', bytes);
	const size_t name = equals ? (size_t)(equals - line) : 0;
	char quoted[48];

	conf_quote(line, bytes, quoted);
	if (memchr(line, '\0', bytes))
		conf_bad(conf, path, number, "'%s' has a NUL byte, expected text", quoted);
	else if (!equals)
		conf_bad(conf, path, number, "'%s', expected NAME=VALUE or # COMMENT", quoted);
	else if (!conf_is_name(line, name))
		conf_bad(conf, path, number,
			 "'%s', expected letters, digits and _ before =, and no space", quoted);
	else if (name > CONF_TEXT_BYTES || bytes - name - 1 > CONF_TEXT_BYTES)
		conf_bad(conf, path, number,
			 "'%s' has %zu bytes, expected at most %d before and "
			 "after =",
			 quoted, bytes, CONF_TEXT_BYTES);
	else if (strncmp(line, "DOPPEL_", 7) == 0)
		conf_bad(
			conf, path, number,
			"'%s', expected a variable that is not Doppel's: set it in the environment",
			quoted);
	else
		return true;
	return false;
}

static struct conf_line *conf_line_new(const char *path, uint32_t number, const char *line,
				       size_t bytes)
{
	struct conf_line *l = malloc(sizeof *l + bytes + 1);
	const size_t name = (size_t)((const char *)memchr(line, '=', bytes) - line);

	if (!l)
		return NULL;
	memcpy(l->name, line, bytes);
	l->name[name] = l->name[bytes] = '\0';
	l->value = l->name + name + 1;
	l->path = path;
	l->number = number;
	l->use = CONF_USED;
	l->next = NULL;
	return l;
}

static void conf_append(struct conf *conf, struct conf_line *l)
{
	if (conf->last)
		conf->last->next = l;
	else
		conf->first = l;
	conf->last = l;
	conf->count++;
}

/* Adds the variable of a line that fits. */
static int conf_line_add(struct conf *conf, const struct conf_process *process, const char *path,
			 uint32_t number, const char *line, size_t bytes)
{
	struct conf_line *l;
	int rc = 0;

	if (conf->count == CONF_LINES_MOST) {
		conf_bad(conf, path, number, "expected at most %d variables", CONF_LINES_MOST);
		return 0;
	}
	l = conf_line_new(path, number, line, bytes);
	if (!l)
		return ENOMEM;
	const struct conf_line *before = conf_lookup(conf, l->name, strlen(l->name));
	if (before && before->path == path) {
		conf_bad(conf, path, number, "%.60s again, expected each name once: line %u counts",
			 l->name, before->number);
		free(l);
		return 0;
	}
	if (before && before->use == CONF_USED)
		l->use = CONF_IN_EARLIER_FILE;
	else if (process->env(process->ctx, l->name))
		l->use = CONF_IN_ENVIRONMENT;
	else
		rc = process->add(process->ctx, l->name, l->value);
	conf_append(conf, l);
	return rc;
}

static bool conf_is_nothing(const char *line, size_t bytes)
{
	size_t at = 0;

	while (at < bytes && (line[at] == ' ' || line[at] == '\t'))
		at++;
	return at == bytes || line[at] == '#';
}

int conf_parse(struct conf *conf, const struct conf_process *process, const char *path,
	       const char *text, size_t bytes)
{
	uint32_t number = 1;
	int rc = 0;

	for (size_t at = 0, n; at < bytes && !rc; at += n + 1, number++) {
		const char *line = text + at, *end = memchr(line, '\n', bytes - at);

		n = end ? (size_t)(end - line) : bytes - at;
		size_t own = n;

		while (own && line[own - 1] == '\r')
			own--;
		if (!conf_is_nothing(line, own) && conf_line_fits(conf, path, number, line, own))
			rc = conf_line_add(conf, process, path, number, line, own);
	}
	return rc;
}

/* ---- files ---------------------------------------------------------------------------------- */

static int conf_file(struct conf *conf, const struct conf_process *process, const char *path,
		     bool named)
{
	char *text = NULL;
	size_t bytes = 0;
	int rc = path ? process->read(process->ctx, path, &text, &bytes) : 0;

	if (rc == ENOMEM || !path)
		return rc;
	if (rc == ENOENT && !named)
		return 0;
	if (rc) {
		conf_bad(conf, path, 0, "cannot be read: %s; expected a file of lines NAME=VALUE",
			 strerror(rc));
		return 0;
	}
	rc = conf_parse(conf, process, path, text, bytes);
	process->free(text);
	return rc;
}

/* Sets *path to the value of the variable, or to directory and name if it is unset or empty. NULL
 * as a directory: no such file. */
static int conf_path(const struct conf_process *process, const char *variable,
		     const char *directory, const char *name, char **path, bool *named)
{
	const char *value = process->env(process->ctx, variable);

	*named = value && *value;
	if (!*named && !directory)
		return 0;
	size_t bytes = *named ? strlen(value) + 1 : strlen(directory) + strlen(name) + 1;
	*path = malloc(bytes);
	if (!*path)
		return ENOMEM;
	snprintf(*path, bytes, "%s%s", *named ? value : directory, *named ? "" : name);
	return 0;
}

static int conf_paths(struct conf *conf, const struct conf_process *process)
{
	const char *home = process->home && *process->home ? process->home : NULL;
	int rc = conf_path(process, "NCCL_CONF_FILE", home, CONF_USER_NAME, &conf->user,
			   &conf->user_named);

	return rc ? rc
		  : conf_path(process, "DOPPEL_ETC_CONF", process->home ? "" : NULL, CONF_ETC_PATH,
			      &conf->etc, &conf->etc_named);
}

int conf_load(const struct conf_process *process, struct conf **conf)
{
	struct conf *c = calloc(1, sizeof *c);
	int rc = c ? conf_paths(c, process) : ENOMEM;

	*conf = NULL;
	if (!rc)
		rc = conf_file(c, process, c->user, c->user_named);
	/* NCCL_CONF_FILE may name the host's file */
	if (!rc && !(c->user && c->etc && strcmp(c->user, c->etc) == 0))
		rc = conf_file(c, process, c->etc, c->etc_named);
	if (c && (c->first || c->bad_count))
		*conf = c;
	else
		conf_free(c);
	return rc;
}

void conf_free(struct conf *conf)
{
	if (!conf)
		return;
	for (struct conf_line *next, *l = conf->first; l; l = next) {
		next = l->next;
		free(l);
	}
	free(conf->user);
	free(conf->etc);
	free(conf);
}

/* ---- reports -------------------------------------------------------------------------------- */

static void conf_warn(const char *line)
{
	WARN("%s", line);
	if (!log_wanted(LOG_LEVEL_WARN, 0))
		os_log_line(line);
}

static void conf_report_one(const struct conf_bad *bad)
{
	char line[sizeof bad->text + 256], where[16] = "";

	if (bad->number)
		snprintf(where, sizeof where, ":%u", bad->number);
	snprintf(line, sizeof line, "%.200s%s: %s%s", bad->path, where, bad->text,
		 bad->number ? "; the line has no effect" : "");
	conf_warn(line);
}

void conf_report_bad(struct conf *conf)
{
	char line[128];

	if (!conf || !conf->bad_count || shared_quiet_exchange_u32(&conf->bad_shown, 1) != 0)
		return;
	for (uint32_t i = 0; i < MIN_OF(conf->bad_count, (uint32_t)CONF_BAD_MOST); i++)
		conf_report_one(&conf->bad[i]);
	if (conf->bad_count <= CONF_BAD_MOST)
		return;
	snprintf(line, sizeof line, "%u more lines of configuration files have no effect",
		 conf->bad_count - CONF_BAD_MOST);
	conf_warn(line);
}

void conf_report_unused(struct conf *conf)
{
	if (!conf || !log_wanted(LOG_LEVEL_INFO, LOG_ENV) ||
	    shared_quiet_exchange_u32(&conf->use_shown, 1) != 0)
		return;
	for (const struct conf_line *l = conf->first; l; l = l->next)
		if (l->use != CONF_USED)
			INFO(LOG_ENV, "%.200s:%u: %.60s has no effect: %s sets it", l->path,
			     l->number, l->name,
			     l->use == CONF_IN_ENVIRONMENT ? "the environment" : conf->user);
}
