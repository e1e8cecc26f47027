/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/pci_address.h"
#include "core/base/xml.h"
#include "core/topo/detect/detect_internal.h"

#define DETECT_BLOCK_BYTES 16384

/* A block of a tree's memory. It is allocated from its start; all blocks are freed together. */
struct detect_block {
	struct detect_block *next;
	size_t used;
	char data[DETECT_BLOCK_BYTES];
};

static void *detect_alloc(struct detect_tree *t, size_t bytes)
{
	struct detect_block *b = t->blocks;
	bytes = ALIGN_UP(bytes, sizeof(void *));
	ASSERT(bytes <= DETECT_BLOCK_BYTES);
	if (!b || b->used + bytes > DETECT_BLOCK_BYTES) {
		b = t->failed ? NULL : os_alloc(sizeof *b, "detected topology");
		if (!b) {
			t->failed = true;
			return NULL;
		}
		b->next = t->blocks;
		t->blocks = b;
	}
	void *p = b->data + b->used;
	b->used += bytes;
	return p;
}

/* Copies a text for XML: cut, with unprintable characters replaced. */
static const char *detect_copy(struct detect_tree *t, const char *text)
{
	size_t n = strnlen(text, DETECT_TEXT_BYTES - 1);
	char *copy = detect_alloc(t, n + 1);
	if (!copy)
		return NULL;
	for (size_t i = 0; i < n; i++)
		copy[i] = text[i] >= ' ' && text[i] < 0x7f ? text[i] : '?';
	copy[n] = '\0';
	return copy;
}

/* ---- life ----------------------------------------------------------------------------------- */

void detect_tree_start(struct detect_tree *t)
{
	memset(t, 0, sizeof *t);
	t->sink.name = "";
	t->root = detect_node_new(t, "system");
	detect_set(t, t->root, "version", "1");
}

void detect_tree_free(struct detect_tree *t)
{
	while (t->blocks) {
		struct detect_block *b = t->blocks;
		t->blocks = b->next;
		os_free(b);
	}
	t->root = NULL;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

struct detect_node *detect_node_new(struct detect_tree *t, const char *name)
{
	struct detect_node *n = NULL;
	t->full |= t->nodes == XML_MAX_NODES;
	if (!t->full)
		n = detect_alloc(t, sizeof *n);
	if (!n)
		return &t->sink;
	t->nodes++;
	memset(n, 0, sizeof *n);
	n->name = name;
	return n;
}

static bool detect_comes_before(const struct detect_node *a, const struct detect_node *b)
{
	bool pci_a = strcmp(a->name, "pci") == 0, pci_b = strcmp(b->name, "pci") == 0;
	const char *bus_a = detect_get(a, "busid"), *bus_b = detect_get(b, "busid");
	if (!pci_a || !pci_b)
		return pci_a && !pci_b;
	return bus_a && bus_b && strcmp(bus_a, bus_b) < 0;
}

void detect_node_place(struct detect_node *parent, struct detect_node *n)
{
	struct detect_node **at = &parent->child;
	if (!parent->name[0] || !n->name[0]) /* one of them is the sink */
		return;
	ASSERT(!n->parent && n != parent);
	while (*at && !detect_comes_before(n, *at))
		at = &(*at)->next;
	n->parent = parent;
	n->next = *at;
	*at = n;
}

struct detect_node *detect_node_add(struct detect_tree *t, struct detect_node *parent,
				    const char *name)
{
	struct detect_node *n = detect_node_new(t, name);
	detect_node_place(parent, n);
	return n;
}

void detect_node_remove(struct detect_node *n)
{
	struct detect_node **at = &n->parent->child;
	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	n->parent = n->next = NULL;
}

struct detect_node *detect_child(struct detect_node *n, const char *name)
{
	struct detect_node *c = n->child;
	while (c && strcmp(c->name, name) != 0)
		c = c->next;
	return c;
}

/* Returns the node after `n` in document order, within `from`. */
static struct detect_node *detect_walk(const struct detect_node *from, struct detect_node *n)
{
	if (n->child)
		return n->child;
	while (n != from && !n->next)
		n = n->parent;
	return n == from ? NULL : n->next;
}

struct detect_node *detect_find(struct detect_node *from, const char *name, const char *attr,
				const char *value)
{
	for (struct detect_node *n = from; n; n = detect_walk(from, n)) {
		const char *text = attr ? detect_get(n, attr) : NULL;
		if (strcmp(n->name, name) == 0 && (!attr || (text && strcmp(text, value) == 0)))
			return n;
	}
	return NULL;
}

/* ---- attributes ----------------------------------------------------------------------------- */

const char *detect_get(const struct detect_node *n, const char *name)
{
	for (const struct detect_attr *a = n->attr; a; a = a->next)
		if (strcmp(a->name, name) == 0)
			return a->value;
	return NULL;
}

void detect_unset(struct detect_node *n, const char *name)
{
	struct detect_attr **at = &n->attr;
	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	if (*at)
		*at = (*at)->next;
}

void detect_set(struct detect_tree *t, struct detect_node *n, const char *name, const char *text)
{
	struct detect_attr **at = &n->attr;
	if (!n->name[0] || !text[0] || detect_get(n, name))
		return;
	struct detect_attr *a = detect_alloc(t, sizeof *a);
	const char *value = detect_copy(t, text);
	if (!a || !value)
		return;
	*a = (struct detect_attr){.name = name, .value = value};
	while (*at)
		at = &(*at)->next;
	*at = a;
}

void detect_setf(struct detect_tree *t, struct detect_node *n, const char *name, const char *fmt,
		 ...)
{
	char text[DETECT_TEXT_BYTES];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	detect_set(t, n, name, text);
}

void detect_replace(struct detect_tree *t, struct detect_node *n, const char *name,
		    const char *text)
{
	for (struct detect_attr *a = n->attr; a; a = a->next) {
		const char *value = strcmp(a->name, name) == 0 ? detect_copy(t, text) : NULL;
		if (value) {
			a->value = value;
			return;
		}
	}
	detect_set(t, n, name, text);
}

/* ---- merging -------------------------------------------------------------------------------- */

/* Returns the attribute that identifies elements of this name; NULL: each parent has only one. */
static const char *detect_key(const char *name)
{
	static const char key[][2][12] = {
		{"cpu", "numaid"},  {"pci", "busid"},      {"net", "name"},   {"nvlink", "target"},
		{"xgmi", "target"}, {"pcilink", "target"}, {"gpu", "mlopart"}};
	for (size_t i = 0; i < ARRAY_LEN(key); i++)
		if (strcmp(key[i][0], name) == 0)
			return key[i][1];
	return NULL;
}

/* Returns an attribute of an XML element; NULL: absent. PCI addresses are converted to the kernel's
 * form. */
static const char *detect_xml_attr(const struct xml_node *x, const char *name,
				   char address[PCI_ADDRESS_TEXT])
{
	const char *text = xml_attr(x, name);
	uint64_t bus;
	if (!text || (strcmp(name, "busid") != 0 && strcmp(name, "target") != 0) ||
	    !pci_address_parse(text, &bus))
		return text;
	pci_address_text(bus, address);
	return address;
}

static bool detect_same(const struct detect_node *n, const struct xml_node *x, const char *attr)
{
	char address[PCI_ADDRESS_TEXT];
	const char *a = detect_get(n, attr), *b = detect_xml_attr(x, attr, address);
	return a && b ? strcmp(a, b) == 0 : !a && (!b || !*b);
}

/* Returns the node that corresponds to `x`, or NULL. A PCI function keeps its place, whatever its
 * parent in `x`. A CPU is known by its number alone, because a file may come from another host with
 * another host_hash. */
static struct detect_node *detect_counterpart(struct detect_tree *t, struct detect_node *parent,
					      const struct xml_node *x)
{
	char address[PCI_ADDRESS_TEXT];
	const char *key = detect_key(x->name), *bus = detect_xml_attr(x, "busid", address);
	if (strcmp(x->name, "pci") == 0 && bus)
		return detect_find(t->root, "pci", "busid", bus);
	for (struct detect_node *c = parent->child; c; c = c->next)
		if (strcmp(c->name, x->name) == 0 &&
		    (!key || (detect_same(c, x, key) && detect_same(c, x, "port"))))
			return c;
	return NULL;
}

static void detect_merge_attrs(struct detect_tree *t, struct detect_node *n,
			       const struct xml_node *x)
{
	for (int i = 0; i < x->attr_count; i++) {
		char address[PCI_ADDRESS_TEXT];
		const char *name =
			detect_get(n, x->attr[i].name) ? NULL : detect_copy(t, x->attr[i].name);
		if (name)
			detect_set(t, n, name, detect_xml_attr(x, x->attr[i].name, address));
	}
}

static void detect_merge_children(struct detect_tree *t, struct detect_node *n,
				  const struct xml_node *x)
{
	for (const struct xml_node *c = x->child; c && !t->failed && !t->full; c = c->next) {
		struct detect_node *to = detect_counterpart(t, n, c);
		const char *name = to ? NULL : detect_copy(t, c->name);
		if (to) {
			detect_merge_attrs(t, to, c);
		} else if (name) {
			to = detect_node_new(t, name);
			/* Attributes are merged before the placement, which uses the bus id. */
			detect_merge_attrs(t, to, c);
			detect_node_place(n, to);
		}
		if (to)
			detect_merge_children(t, to, c);
	}
}

void detect_merge(struct detect_tree *t, const struct xml_node *root)
{
	detect_merge_children(t, t->root, root);
}

/* ---- text ----------------------------------------------------------------------------------- */

/* Output of a text; a NULL `text` only counts bytes. */
struct detect_out {
	char *text;
	size_t at;
};

static void detect_put(struct detect_out *out, const char *text)
{
	size_t n = strlen(text);
	if (out->text)
		memcpy(out->text + out->at, text, n);
	out->at += n;
}

static void detect_put_value(struct detect_out *out, const char *value)
{
	for (; *value; value++) {
		const char one[2] = {*value, '\0'};
		detect_put(out, *value == '<'   ? "&lt;"
				: *value == '&' ? "&amp;"
				: *value == '"' ? "&quot;"
						: one);
	}
}

static void detect_put_indent(struct detect_out *out, int depth)
{
	for (int i = 0; i < depth; i++)
		detect_put(out, "  ");
}

static void detect_put_node(struct detect_out *out, const struct detect_node *n, int depth)
{
	detect_put_indent(out, depth);
	detect_put(out, "<");
	detect_put(out, n->name);
	for (const struct detect_attr *a = n->attr; a; a = a->next) {
		detect_put(out, " ");
		detect_put(out, a->name);
		detect_put(out, "=\"");
		detect_put_value(out, a->value);
		detect_put(out, "\"");
	}
	detect_put(out, n->child ? ">\n" : "/>\n");
	for (const struct detect_node *c = n->child; c; c = c->next)
		detect_put_node(out, c, depth + 1);
	if (!n->child)
		return;
	detect_put_indent(out, depth);
	detect_put(out, "</");
	detect_put(out, n->name);
	detect_put(out, ">\n");
}

ncclResult_t detect_tree_text(struct detect_tree *t, char **xml, size_t *bytes)
{
	struct detect_out out = {0};
	ncclResult_t rc = t->failed || t->full ? ncclSystemError : ncclSuccess;
	if (t->full)
		WARN("the detected topology has more than %d elements", XML_MAX_NODES);
	if (!rc) {
		detect_put_node(&out, t->root, 0);
		*bytes = out.at;
		*xml = out.text = os_alloc(out.at + 1, "detected topology");
		out.at = 0;
		rc = *xml ? ncclSuccess : ncclSystemError;
	}
	if (!rc)
		detect_put_node(&out, t->root, 0);
	else if (!t->full)
		WARN("no memory for the detected topology");
	detect_tree_free(t);
	return rc;
}
