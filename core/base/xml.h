/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XML text to a tree with line numbers, for topology files. Called by core/topo and sim/world. What
 * it takes is what a topology dump may contain (no declaration, comments anywhere); what it
 * refuses, with an error and nothing left behind: malformed text, a document type (so no entities
 * to expand), and more than the limits below. Text between elements is skipped. The tree owns its
 * strings; it comes from malloc and goes with xml_free.
 *
 * Errors: 0, EINVAL (the input; explained), E2BIG (a limit; explained), ENOMEM. An explanation
 * reads "FILE:LINE:COLUMN: what, expected what"; the code that decides what to do with it prints
 * it.
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

/* `source` names the input in messages. *doc is set on success only. */
int xml_parse(const char *text, size_t bytes, const char *source, struct xml_doc **doc,
	      struct xml_error *error);
void xml_free(struct xml_doc *doc); /* NULL is fine */

struct xml_node *xml_root(const struct xml_doc *doc);
const char *xml_source(const struct xml_doc *doc);

/* First child of this name (NULL: any), and the next one behind `n`; NULL: none. */
struct xml_node *xml_child(const struct xml_node *n, const char *name);
struct xml_node *xml_next(const struct xml_node *n, const char *name);

/* The value as it stands, or NULL. */
const char *xml_attr(const struct xml_node *n, const char *name);
/* Typed: an absent or empty attribute gives `initial`; anything but a number is EINVAL, with *out
 * unset. Decimal, or hexadecimal behind 0x. */
int xml_attr_i64(const struct xml_node *n, const char *name, int64_t initial, int64_t *out,
		 struct xml_error *error);
int xml_attr_u64(const struct xml_node *n, const char *name, uint64_t initial, uint64_t *out,
		 struct xml_error *error);
/* A decimal fraction in thousandths: "20.6" is 20600, "0.000000" is 0; "32.0 GT/s PCIe" is 32000
 * when `unit` is "GT/s" (text behind the number must begin with it; NULL: no text allowed). */
int xml_attr_milli(const struct xml_node *n, const char *name, const char *unit, int64_t initial,
		   int64_t *out, struct xml_error *error);
/* Fills *error with "FILE:LINE: <name> ..." and returns EINVAL. */
int xml_error_at(const struct xml_node *n, struct xml_error *error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
