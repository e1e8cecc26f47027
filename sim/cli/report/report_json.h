/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads JSON that a run left: waits.json as a whole, trace.json line by line. The text is
 * untrusted. Each error has a position, and the depth is limited. Strings are unescaped in place,
 * so the nodes point into the text, which must outlive them. Errors: 0, EINVAL or ENOMEM.
 */
#ifndef SIM_CLI_REPORT_JSON_H
#define SIM_CLI_REPORT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_DEPTH_MOST = 32 };

enum json_kind { JSON_NULL, JSON_TRUE, JSON_FALSE, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT };

struct json_node {
	enum json_kind kind;
	const char *name; /* in an object; NULL elsewhere */
	const char *text; /* of a text or a number; "" elsewhere */
	int32_t first;    /* first child; -1: none */
	int32_t next;     /* next sibling; -1: none */
};

struct json {
	struct json_node *node; /* node 0 is the whole text */
	int32_t n, room;
	const char *wrong; /* after EINVAL: what was expected */
	const char *at;    /* after EINVAL: position in the text */
};

/* Replaces what `j` held; zeroed memory is an empty one. `text` ends with NUL and is changed. */
int json_read(struct json *j, char *text);
void json_free(struct json *j);

/* Children of a node, and siblings; NULL: none. */
const struct json_node *json_first(const struct json *j, const struct json_node *node);
const struct json_node *json_next(const struct json *j, const struct json_node *node);
/* Member of an object. NULL: not there, or `node` is NULL or no object. */
const struct json_node *json_member(const struct json *j, const struct json_node *node,
				    const char *name);
/* The member's text, or `otherwise` if the object has no such member. */
const char *json_text(const struct json *j, const struct json_node *node, const char *name,
		      const char *otherwise);
/* The member's integer, or `otherwise` if the object has no such number. */
int64_t json_number(const struct json *j, const struct json_node *node, const char *name,
		    int64_t otherwise);
bool json_true(const struct json *j, const struct json_node *node, const char *name);

#endif
