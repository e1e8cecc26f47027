/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/cli/report/report_json.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"

struct json_cursor {
	struct json *j;
	char *at;
	int depth;
	int rc;
};

static int32_t json_value(struct json_cursor *c);

/* ---- errors and space ----------------------------------------------------------------------- */

static int32_t json_fail(struct json_cursor *c, const char *expected)
{
	if (!c->rc) {
		c->rc = EINVAL;
		c->j->wrong = expected;
		c->j->at = c->at;
	}
	return -1;
}

static int32_t json_add(struct json_cursor *c, enum json_kind kind)
{
	struct json *j = c->j;

	if (j->n == j->room) {
		int32_t room = j->room ? 2 * j->room : 64;
		struct json_node *more = realloc(j->node, (size_t)room * sizeof *more);

		if (!more) {
			c->rc = ENOMEM;
			return -1;
		}
		j->node = more;
		j->room = room;
	}
	j->node[j->n] = (struct json_node){kind, NULL, "", -1, -1};
	return j->n++;
}

static void json_space(struct json_cursor *c)
{
	while (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')
		c->at++;
}

static bool json_take(struct json_cursor *c, char what)
{
	json_space(c);
	if (*c->at != what)
		return false;
	c->at++;
	return true;
}

/* ---- strings and numbers -------------------------------------------------------------------- */

static int json_hex(const char *at)
{
	int value = 0;

	for (int i = 0; i < 4; i++) {
		if (!isxdigit((unsigned char)at[i]))
			return -1;
		int digit = isdigit((unsigned char)at[i]) ? at[i] - '0' : (at[i] | 32) - 'a' + 10;
		value = value * 16 + digit;
	}
	return value;
}

/* Writes a character as UTF-8. Halves of a surrogate pair become '?': no run writes any. */
static char *json_put(char *to, int value)
{
	if (value < 0x80) {
		*to++ = value ? (char)value : '?';
	} else if (value < 0x800) {
		*to++ = (char)(0xc0 | value >> 6);
		*to++ = (char)(0x80 | (value & 0x3f));
	} else if (value >= 0xd800 && value < 0xe000) {
		*to++ = '?';
	} else {
		*to++ = (char)(0xe0 | value >> 12);
		*to++ = (char)(0x80 | (value >> 6 & 0x3f));
		*to++ = (char)(0x80 | (value & 0x3f));
	}
	return to;
}

/* Reads what follows a backslash. NULL: no escape. */
static char *json_escape(struct json_cursor *c, char *to)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	const char *known = *c->at ? strchr(from, *c->at) : NULL;
	int value;

	if (known) {
		*to++ = into[known - from];
		c->at++;
		return to;
	}
	if (*c->at != 'u' || (value = json_hex(c->at + 1)) < 0)
		return NULL;
	c->at += 5;
	return json_put(to, value);
}

/* Reads a string after its quote; NULL: it has failed. */
static const char *json_string(struct json_cursor *c)
{
	char *begin = c->at, *to = c->at;

	while (*c->at != '"') {
		if (!*c->at) {
			json_fail(c, "the end of a string");
			return NULL;
		}
		if (*c->at != '\\') {
			*to++ = *c->at++;
			continue;
		}
		c->at++;
		to = json_escape(c, to);
		if (!to) {
			json_fail(c, "an escape of JSON");
			return NULL;
		}
	}
	c->at++;
	*to = '\0';
	return begin;
}

/* The character after a number is a delimiter, which the caller still needs. The number is
 * therefore cut off by its own reader (strtoll), not by a NUL. */
static int32_t json_digits(struct json_cursor *c)
{
	int32_t node = json_add(c, JSON_NUMBER);
	size_t n = strspn(c->at, "+-.0123456789eE");

	if (node < 0)
		return -1;
	if (!n)
		return json_fail(c, "a value");
	c->j->node[node].text = c->at;
	c->at += n;
	return node;
}

static int32_t json_word(struct json_cursor *c, const char *word, enum json_kind kind)
{
	if (strncmp(c->at, word, strlen(word)) != 0)
		return json_fail(c, "a value");
	c->at += strlen(word);
	return json_add(c, kind);
}

/* ---- lists and objects ---------------------------------------------------------------------- */

static int32_t json_child(struct json_cursor *c, enum json_kind kind)
{
	const char *name = NULL;

	if (kind == JSON_OBJECT) {
		if (!json_take(c, '"'))
			return json_fail(c, "the name of a member");
		name = json_string(c);
		if (!name || !json_take(c, ':'))
			return json_fail(c, "':'");
	}
	int32_t child = json_value(c);
	if (child >= 0)
		c->j->node[child].name = name;
	return child;
}

static int32_t json_group(struct json_cursor *c, enum json_kind kind)
{
	char close = kind == JSON_LIST ? ']' : '}';
	int32_t group = json_add(c, kind), last = -1;

	if (group < 0 || json_take(c, close))
		return group;
	do {
		int32_t child = json_child(c, kind);

		if (child < 0)
			return -1;
		if (last < 0)
			c->j->node[group].first = child;
		else
			c->j->node[last].next = child;
		last = child;
	} while (json_take(c, ','));
	return json_take(c, close) ? group
				   : json_fail(c, close == ']' ? "',' or ']'" : "',' or '}'");
}

static int32_t json_nested(struct json_cursor *c, enum json_kind kind)
{
	if (c->depth == JSON_DEPTH_MOST)
		return json_fail(c, "fewer lists and objects in each other");
	c->at++;
	c->depth++;
	int32_t group = json_group(c, kind);
	c->depth--;
	return group;
}

static int32_t json_quoted(struct json_cursor *c)
{
	int32_t node = json_add(c, JSON_TEXT);

	c->at++;
	const char *text = node < 0 ? NULL : json_string(c);
	if (!text)
		return -1;
	c->j->node[node].text = text;
	return node;
}

static int32_t json_value(struct json_cursor *c)
{
	json_space(c);
	switch (*c->at) {
	case '{':
		return json_nested(c, JSON_OBJECT);
	case '[':
		return json_nested(c, JSON_LIST);
	case '"':
		return json_quoted(c);
	case 't':
		return json_word(c, "true", JSON_TRUE);
	case 'f':
		return json_word(c, "false", JSON_FALSE);
	case 'n':
		return json_word(c, "null", JSON_NULL);
	default:
		return json_digits(c);
	}
}

int json_read(struct json *j, char *text)
{
	struct json_cursor c = {.j = j, .at = text};

	j->n = 0;
	j->wrong = j->at = NULL;
	if (json_value(&c) >= 0) {
		json_space(&c);
		if (*c.at)
			json_fail(&c, "the end");
	}
	ASSERT(c.rc || j->n > 0);
	return c.rc;
}

void json_free(struct json *j)
{
	free(j->node);
	*j = (struct json){0};
}

/* ---- reading -------------------------------------------------------------------------------- */

const struct json_node *json_first(const struct json *j, const struct json_node *node)
{
	return node && node->first >= 0 ? &j->node[node->first] : NULL;
}

const struct json_node *json_next(const struct json *j, const struct json_node *node)
{
	return node->next >= 0 ? &j->node[node->next] : NULL;
}

const struct json_node *json_member(const struct json *j, const struct json_node *node,
				    const char *name)
{
	if (!node || node->kind != JSON_OBJECT)
		return NULL;
	for (const struct json_node *m = json_first(j, node); m; m = json_next(j, m))
		if (!strcmp(m->name, name))
			return m;
	return NULL;
}

const char *json_text(const struct json *j, const struct json_node *node, const char *name,
		      const char *otherwise)
{
	const struct json_node *m = json_member(j, node, name);

	return m && m->kind == JSON_TEXT ? m->text : otherwise;
}

int64_t json_number(const struct json *j, const struct json_node *node, const char *name,
		    int64_t otherwise)
{
	const struct json_node *m = json_member(j, node, name);

	if (!m || m->kind != JSON_NUMBER)
		return otherwise;
	errno = 0;
	long long value = strtoll(m->text, NULL, 10);
	return errno ? otherwise : value;
}

bool json_true(const struct json *j, const struct json_node *node, const char *name)
{
	const struct json_node *m = json_member(j, node, name);

	return m && m->kind == JSON_TRUE;
}
