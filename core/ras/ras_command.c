/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/ras/ras_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/macros.h"

#define COMMAND_SHOWN 48 /* bytes of a client's word in an answer */

/* Copies a client's word for an answer: printable characters only. */
static const char *command_show(const char *word, char out[COMMAND_SHOWN + 4])
{
	size_t n = strlen(word), shown = MIN_OF(n, (size_t)COMMAND_SHOWN);

	for (size_t i = 0; i < shown; i++)
		out[i] = word[i] >= 0x20 && word[i] < 0x7f ? word[i] : '?';
	memcpy(out + shown, n > shown ? "..." : "", n > shown ? 4 : 1);
	return out;
}

/* True if the line begins with the word. *rest: the text after the word. */
static bool command_begins(const char *line, const char *word, const char **rest)
{
	size_t n = strlen(word);

	if (strncasecmp(line, word, n) != 0)
		return false;
	*rest = line + n;
	return true;
}

static void command_timeout(const char *word, struct ras_command *c)
{
	char shown[COMMAND_SHOWN + 4], *end;
	unsigned long s = strtoul(word, &end, 10);

	c->verb = RAS_VERB_TIMEOUT;
	c->timeout_s = (uint32_t)MIN_OF(s, (unsigned long)RAS_TIMEOUT_MAX_S);
	if (*word >= '0' && *word <= '9' && !*end && s <= RAS_TIMEOUT_MAX_S)
		return;
	c->verb = RAS_VERB_BAD;
	snprintf(c->error, sizeof c->error,
		 "ERROR: Invalid timeout value %s; expected 0 to %d seconds",
		 command_show(word, shown), RAS_TIMEOUT_MAX_S);
}

static void command_format(const char *word, struct ras_command *c)
{
	char shown[COMMAND_SHOWN + 4];

	c->verb = RAS_VERB_FORMAT;
	c->json = strcasecmp(word, "json") == 0;
	if (c->json || strcasecmp(word, "text") == 0)
		return;
	c->verb = RAS_VERB_BAD;
	snprintf(c->error, sizeof c->error, "ERROR: Invalid format %s; expected text or json",
		 command_show(word, shown));
}

/* Returns the group's bits; 0: no such group. */
static uint8_t command_group(const char *word, size_t n)
{
	static const struct {
		const char *name;
		uint8_t bits;
	} groups[] = {
		{"lifecycle", RAS_EVENT_LIFECYCLE},
		{"trace", RAS_EVENT_TRACE},
		{"all", RAS_EVENT_LIFECYCLE | RAS_EVENT_TRACE},
	};

	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		if (strlen(groups[i].name) == n && !strncasecmp(groups[i].name, word, n))
			return groups[i].bits;
	return 0;
}

static void command_monitor(const char *list, struct ras_command *c)
{
	char shown[COMMAND_SHOWN + 4];

	c->verb = RAS_VERB_MONITOR;
	while (*list == ' ')
		list++;
	c->groups = *list ? 0 : RAS_EVENT_LIFECYCLE;
	while (*list && c->verb == RAS_VERB_MONITOR) {
		size_t n = strcspn(list, ",");
		uint8_t bits = command_group(list, n);

		c->groups |= bits;
		if (!bits) {
			c->verb = RAS_VERB_BAD;
			snprintf(
				c->error, sizeof c->error,
				"ERROR: Invalid event group '%s'; expected lifecycle, trace or all",
				command_show(list, shown));
		}
		list += n + (list[n] == ',');
	}
}

static void command_words(const char *line, struct ras_command *c)
{
	char shown[COMMAND_SHOWN + 4];
	const char *rest = "";

	if (command_begins(line, "client protocol ", &rest)) {
		c->verb = RAS_VERB_PROTOCOL;
	} else if (command_begins(line, "timeout ", &rest)) {
		command_timeout(rest, c);
	} else if (command_begins(line, "set format ", &rest)) {
		command_format(rest, c);
	} else if (strcasecmp(line, "monitor") == 0 || command_begins(line, "monitor ", &rest)) {
		command_monitor(rest, c);
	} else if (strcasecmp(line, "status") == 0 || strcasecmp(line, "verbose status") == 0) {
		c->verb = RAS_VERB_STATUS;
		c->verbose = strcasecmp(line, "status") != 0;
	} else if (strcasecmp(line, "dump") == 0) {
		c->verb = RAS_VERB_DUMP;
	} else {
		snprintf(c->error, sizeof c->error,
			 "ERROR: Unknown command %s; expected STATUS, VERBOSE STATUS, DUMP, "
			 "MONITOR, SET FORMAT or TIMEOUT",
			 command_show(line, shown));
	}
}

void ras_command_parse(const char *line, size_t n, struct ras_command *c)
{
	char text[RAS_LINE_BYTES];

	*c = (struct ras_command){.verb = RAS_VERB_BAD};
	n -= n && line[n - 1] == '\r';
	if (n >= sizeof text || memchr(line, '\0', n)) {
		snprintf(c->error, sizeof c->error, "ERROR: %s; expected a line of up to %d bytes",
			 n >= sizeof text ? "The line is too long" : "The line has a NUL",
			 RAS_LINE_BYTES);
		return;
	}
	memcpy(text, line, n);
	text[n] = '\0';
	command_words(text, c);
}
