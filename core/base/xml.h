/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses XML text into a tree with line numbers, for topology files. core/topo and sim/world use
 * it. The parser accepts everything that a topology dump may contain: no declaration, comments
 * anywhere. It rejects malformed text, a document type (so no entities to expand), and input beyond
 * the limits below; it then frees all memory. Text between elements is skipped. The tree owns its
 * strings. It is allocated by malloc and freed by xml_free.
 *
 * Return values: 0, EINVAL (the input; explained), E2BIG (a limit; explained), ENOMEM. An
 * explanation has the form "FILE:LINE:COLUMN: problem, expected value". The code that handles the
 * error prints it.
 */
#ifndef CORE_BASE_XML_H
#define CORE_BASE_XML_H

#include <stddef.h>
#include <stdint.h>

#define XML_MAX_BYTES (4u << 20)
#define XML_MAX_NODES 4096
#define XML_MAX_DEPTH 32
#define XML_MAX_ATTRS 64

struct xml_attr {
	const char *name, *value;
};

struct xml_node {
	const char *name;
	const struct xml_attr *attr;
	int attr_count;
	int line, column;
	struct xml_node *parent, *child, *next; /* first child; next sibling */
	const struct xml_doc *doc;
};

struct xml_error {
	char text[512];
};

struct xml_doc;

/* Parses `text`. `source` names the input in messages. *doc is set on success only. */
int xml_parse(const char *text, size_t bytes, const char *source, struct xml_doc **doc,
	      struct xml_error *error);
void xml_free(struct xml_doc *doc); /* accepts NULL */

struct xml_node *xml_root(const struct xml_doc *doc);

/* Return the first child of that name, and the next sibling after `n`; NULL if there is no such
 * node. `name` NULL: any name. */
struct xml_node *xml_child(const struct xml_node *n, const char *name);
struct xml_node *xml_next(const struct xml_node *n, const char *name);

/* Returns the unparsed value, or NULL if the attribute is absent. */
const char *xml_attr(const struct xml_node *n, const char *name);
/* Parse a number, decimal or hexadecimal with prefix 0x. An absent or empty attribute yields
 * `initial`. Any other text is EINVAL, with *out unset. */
int xml_attr_i64(const struct xml_node *n, const char *name, int64_t initial, int64_t *out,
		 struct xml_error *error);
int xml_attr_u64(const struct xml_node *n, const char *name, uint64_t initial, uint64_t *out,
		 struct xml_error *error);
/* Parses a decimal fraction in thousandths: "20.6" is 20600, "0.000000" is 0. "32.0 GT/s PCIe" is
 * 32000 if `unit` is "GT/s": text after the number must begin with `unit`. NULL: no text is
 * allowed. */
int xml_attr_milli(const struct xml_node *n, const char *name, const char *unit, int64_t initial,
		   int64_t *out, struct xml_error *error);
/* Writes "FILE:LINE: <name> ..." to *error and returns EINVAL. */
int xml_error_at(const struct xml_node *n, struct xml_error *error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
