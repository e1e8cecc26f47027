/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lines that a RAS client sends. The commands are NCCL's, so that its client works unchanged,
 * and DUMP. Upper and lower case are equal. A line ends with a newline; a carriage return before it
 * is ignored.
 *
 *	CLIENT PROTOCOL n          -> SERVER PROTOCOL 2
 *	TIMEOUT seconds            -> OK
 *	SET FORMAT text|json       -> OK
 *	STATUS, VERBOSE STATUS     -> the report; then the connection closes
 *	DUMP                       -> the report and all pending operations; then it closes
 *	MONITOR [groups]           -> OK, then a line for each event; groups: lifecycle,trace,all
 *	anything else              -> ERROR: reason
 */
#ifndef CORE_RAS_RAS_COMMAND_H
#define CORE_RAS_RAS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RAS_PROTOCOL      2     /* number of the text protocol that this side has */
#define RAS_LINE_BYTES    1024  /* maximum length of a line, its newline included */
#define RAS_TIMEOUT_MAX_S 86400 /* largest TIMEOUT */

enum ras_verb {
	RAS_VERB_PROTOCOL,
	RAS_VERB_TIMEOUT,
	RAS_VERB_FORMAT,
	RAS_VERB_STATUS,
	RAS_VERB_DUMP,
	RAS_VERB_MONITOR,
	RAS_VERB_BAD,
};

/* Groups of events, as bits. */
enum { RAS_EVENT_LIFECYCLE = 1, RAS_EVENT_TRACE = 2 };

struct ras_command {
	enum ras_verb verb;
	uint32_t timeout_s; /* TIMEOUT; 0: no timeout */
	bool json;          /* SET FORMAT */
	bool verbose;       /* STATUS */
	uint8_t groups;     /* MONITOR */
	char error[160];    /* BAD: the answer, without its newline */
};

/* Parses a line of n bytes without its newline. Sets every field of *c. */
void ras_command_parse(const char *line, size_t n, struct ras_command *c);

#endif
