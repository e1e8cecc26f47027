/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/xml.h"

#include <errno.h>
#include <expat.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"

#define XML_CHUNK_BYTES 16384

/* A chunk of memory. Nodes, attributes and strings of one document are allocated from a list of
 * chunks. */
struct xml_chunk {
	struct xml_chunk *next;
	size_t used, size;
	_Alignas(16) char data[];
};

struct xml_doc {
	char *source;
	struct xml_node *root;
	struct xml_chunk *chunk;
};

struct xml_parser {
	XML_Parser expat;
	struct xml_doc *doc;
	struct xml_node *open;                     /* innermost element */
	struct xml_node **last[XML_MAX_DEPTH + 1]; /* links for the next child, by depth */
	int depth, nodes;
	int rc;
	struct xml_error *error;
};

static void *xml_take(struct xml_doc *doc, size_t bytes)
{
	bytes = ALIGN_UP(bytes, 16);
	struct xml_chunk *c = doc->chunk;
	if (!c || c->size - c->used < bytes) {
		size_t size = MAX_OF(bytes, (size_t)XML_CHUNK_BYTES);
		c = malloc(sizeof *c + size);
		if (!c)
			return NULL;
		c->used = 0;
		c->size = size;
		c->next = doc->chunk;
		doc->chunk = c;
	}
	void *p = c->data + c->used;
	c->used += bytes;
	return p;
}

static const char *xml_take_string(struct xml_doc *doc, const char *text)
{
	size_t n = strlen(text) + 1;
	char *copy = xml_take(doc, n);
	return copy ? memcpy(copy, text, n) : NULL;
}

/* Ends the parse with an error at the current position. */
static void xml_stop(struct xml_parser *p, int rc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void xml_stop(struct xml_parser *p, int rc, const char *fmt, ...)
{
	if (p->rc)
		return;
	p->rc = rc;
	int n = snprintf(p->error->text, sizeof p->error->text, "%s:%lu:%lu: ", p->doc->source,
			 (unsigned long)XML_GetCurrentLineNumber(p->expat),
			 (unsigned long)XML_GetCurrentColumnNumber(p->expat) + 1);
	va_list args;
	va_start(args, fmt);
	if ((size_t)n < sizeof p->error->text)
		vsnprintf(p->error->text + n, sizeof p->error->text - (size_t)n, fmt, args);
	va_end(args);
	XML_StopParser(p->expat, XML_FALSE);
}

static int xml_attrs_copy(struct xml_doc *doc, struct xml_node *node, const XML_Char **attrs, int n)
{
	struct xml_attr *copy = xml_take(doc, (size_t)n * sizeof *copy + 1);
	if (!copy)
		return ENOMEM;
	for (int i = 0; i < n; i++) {
		copy[i].name = xml_take_string(doc, attrs[2 * (size_t)i]);
		copy[i].value = xml_take_string(doc, attrs[2 * (size_t)i + 1]);
		if (!copy[i].name || !copy[i].value)
			return ENOMEM;
	}
	node->attr = copy;
	node->attr_count = n;
	return 0;
}

static struct xml_node *xml_node_make(struct xml_parser *p, const char *name,
				      const XML_Char **attrs, int attr_count)
{
	struct xml_node *node = xml_take(p->doc, sizeof *node);
	if (!node)
		return NULL;
	memset(node, 0, sizeof *node);
	node->doc = p->doc;
	node->line = (int)XML_GetCurrentLineNumber(p->expat);
	node->column = (int)XML_GetCurrentColumnNumber(p->expat) + 1;
	node->parent = p->open;
	node->name = xml_take_string(p->doc, name);
	if (!node->name || xml_attrs_copy(p->doc, node, attrs, attr_count))
		return NULL;
	return node;
}

static void xml_on_start(void *user, const XML_Char *name, const XML_Char **attrs)
{
	struct xml_parser *p = user;
	int attr_count = 0;
	while (attrs[2 * (size_t)attr_count])
		attr_count++;
	if (p->rc)
		return;
	if (p->depth >= XML_MAX_DEPTH) {
		xml_stop(p, E2BIG, "<%.64s> is nested deeper than %d elements", name,
			 XML_MAX_DEPTH);
		return;
	}
	if (p->nodes >= XML_MAX_NODES) {
		xml_stop(p, E2BIG, "more than %d elements", XML_MAX_NODES);
		return;
	}
	if (attr_count > XML_MAX_ATTRS) {
		xml_stop(p, E2BIG, "<%.64s> has %d attributes, expected at most %d", name,
			 attr_count, XML_MAX_ATTRS);
		return;
	}
	struct xml_node *node = xml_node_make(p, name, attrs, attr_count);
	if (!node) {
		xml_stop(p, ENOMEM, "out of memory");
		return;
	}
	*p->last[p->depth] = node;
	p->last[p->depth] = &node->next;
	p->depth++;
	p->last[p->depth] = &node->child;
	p->nodes++;
	p->open = node;
}

static void xml_on_end(void *user, const XML_Char *name)
{
	struct xml_parser *p = user;
	if (p->rc)
		return;
	ASSERT(p->depth > 0 && p->open);
	p->depth--;
	p->open = p->open->parent;
}

static void xml_on_doctype(void *user, const XML_Char *name, const XML_Char *system,
			   const XML_Char *public, int internal)
{
	xml_stop(user, EINVAL, "a document type (<!DOCTYPE %.64s>) is not supported", name);
}

static int xml_run(struct xml_parser *p, const char *text, size_t bytes)
{
	p->last[0] = &p->doc->root;
	XML_SetUserData(p->expat, p);
	XML_SetElementHandler(p->expat, xml_on_start, xml_on_end);
	XML_SetStartDoctypeDeclHandler(p->expat, xml_on_doctype);
	/* A fixed salt; otherwise expat would draw one from the system. */
	XML_SetHashSalt(p->expat, 0x5eed);
	enum XML_Status status = XML_Parse(p->expat, text, (int)bytes, XML_TRUE);
	if (status != XML_STATUS_OK && !p->rc) {
		enum XML_Error code = XML_GetErrorCode(p->expat);
		int rc = code == XML_ERROR_NO_MEMORY ? ENOMEM : EINVAL;

		if (p->open && rc == EINVAL)
			xml_stop(p, rc, "%s; <%.64s> of line %d is open", XML_ErrorString(code),
				 p->open->name, p->open->line);
		else
			xml_stop(p, rc, "%s", XML_ErrorString(code));
	}
	ASSERT(p->rc || p->doc->root);
	return p->rc;
}

int xml_parse(const char *text, size_t bytes, const char *source, struct xml_doc **doc,
	      struct xml_error *error)
{
	error->text[0] = '\0';
	if (bytes > XML_MAX_BYTES) {
		snprintf(error->text, sizeof error->text, "%s: %zu bytes, expected at most %u",
			 source, bytes, XML_MAX_BYTES);
		return E2BIG;
	}
	int rc = ENOMEM;
	struct xml_parser p = {.error = error};
	p.doc = calloc(1, sizeof *p.doc);
	if (!p.doc)
		goto err_text;
	p.doc->source = strdup(source);
	if (!p.doc->source)
		goto err_doc;
	p.expat = XML_ParserCreate("UTF-8");
	if (!p.expat)
		goto err_doc;
	rc = xml_run(&p, text, bytes);
	XML_ParserFree(p.expat);
	if (rc)
		goto err_doc;
	*doc = p.doc;
	return 0;
err_doc:
	xml_free(p.doc);
err_text:
	if (rc == ENOMEM)
		snprintf(error->text, sizeof error->text, "%s: out of memory", source);
	return rc;
}

void xml_free(struct xml_doc *doc)
{
	if (!doc)
		return;
	for (struct xml_chunk *next, *c = doc->chunk; c; c = next) {
		next = c->next;
		free(c);
	}
	free(doc->source);
	free(doc);
}

struct xml_node *xml_root(const struct xml_doc *doc)
{
	return doc->root;
}

static struct xml_node *xml_named(struct xml_node *n, const char *name)
{
	while (n && name && strcmp(n->name, name) != 0)
		n = n->next;
	return n;
}

struct xml_node *xml_child(const struct xml_node *n, const char *name)
{
	return xml_named(n->child, name);
}

struct xml_node *xml_next(const struct xml_node *n, const char *name)
{
	return xml_named(n->next, name);
}

const char *xml_attr(const struct xml_node *n, const char *name)
{
	for (int i = 0; i < n->attr_count; i++)
		if (strcmp(n->attr[i].name, name) == 0)
			return n->attr[i].value;
	return NULL;
}

int xml_error_at(const struct xml_node *n, struct xml_error *error, const char *fmt, ...)
{
	int k = snprintf(error->text, sizeof error->text, "%s:%d:%d: <%.64s> ", n->doc->source,
			 n->line, n->column, n->name);
	va_list args;
	va_start(args, fmt);
	if (k > 0 && (size_t)k < sizeof error->text)
		vsnprintf(error->text + k, sizeof error->text - (size_t)k, fmt, args);
	va_end(args);
	return EINVAL;
}

static int xml_base_of(const char *text)
{
	const char *p = text + (*text == '-' || *text == '+');
	return p[0] == '0' && (p[1] == 'x' || p[1] == 'X') ? 16 : 10;
}

int xml_attr_i64(const struct xml_node *n, const char *name, int64_t initial, int64_t *out,
		 struct xml_error *error)
{
	const char *text = xml_attr(n, name);
	if (!text || !*text) {
		*out = initial;
		return 0;
	}
	char *end;
	errno = 0;
	long long v = strtoll(text, &end, xml_base_of(text));
	if (errno || end == text || *end)
		return xml_error_at(n, error, "attribute '%s' is '%.64s', expected an integer",
				    name, text);
	*out = v;
	return 0;
}

int xml_attr_u64(const struct xml_node *n, const char *name, uint64_t initial, uint64_t *out,
		 struct xml_error *error)
{
	const char *text = xml_attr(n, name);
	if (!text || !*text) {
		*out = initial;
		return 0;
	}
	char *end;
	errno = 0;
	unsigned long long v = strtoull(text, &end, xml_base_of(text));
	if (errno || end == text || *end || strchr(text, '-'))
		return xml_error_at(n, error,
				    "attribute '%s' is '%.64s', expected an unsigned integer", name,
				    text);
	*out = v;
	return 0;
}

/* Parses "12.3456" at *p in thousandths; drops digits after the third. Returns 0 if there is no
 * number. */
static int xml_milli_parse(const char **p, int64_t *out)
{
	const char *s = *p;
	int64_t v = 0, digits = 0;
	int sign = *s == '-' ? -1 : 1;
	s += sign < 0;
	for (; *s >= '0' && *s <= '9'; s++, digits++) {
		if (v > INT64_MAX / 20000)
			return 0;
		v = v * 10 + (*s - '0');
	}
	v *= 1000;
	if (*s == '.') {
		s++;
		for (int64_t unit = 100; *s >= '0' && *s <= '9'; s++, digits++, unit /= 10)
			v += unit * (*s - '0');
	}
	*out = sign * v;
	*p = s;
	return digits > 0;
}

int xml_attr_milli(const struct xml_node *n, const char *name, const char *unit, int64_t initial,
		   int64_t *out, struct xml_error *error)
{
	const char *text = xml_attr(n, name);
	if (!text || !*text) {
		*out = initial;
		return 0;
	}
	int64_t v;
	const char *p = text;
	int ok = xml_milli_parse(&p, &v);
	p += strspn(p, " ");
	if (!ok || (*p && (!unit || strncmp(p, unit, strlen(unit)) != 0)))
		return xml_error_at(n, error, "attribute '%s' is '%.64s', expected a number%s%s",
				    name, text, unit ? " of " : "", unit ? unit : "");
	*out = v;
	return 0;
}
