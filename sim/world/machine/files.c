/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/world/machine/files.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/os/check.h"
#include "core/os/os.h"

#define FILES_MAX_LINKS 40

/* A node without text and target is a directory. */
struct files_node {
	char *name, *text, *target;
	struct files_node *parent, *child, *next; /* children are sorted by name */
};

struct files {
	struct files_node root;
	bool failed;
};

/* ---- creation and end ------------------------------------------------------------------------ */

struct files *files_new(void)
{
	struct files *f = calloc(1, sizeof *f);
	if (f)
		f->root.parent = &f->root;
	return f;
}

static void files_free_children(struct files_node *n)
{
	while (n->child) {
		struct files_node *c = n->child;
		n->child = c->next;
		files_free_children(c);
		free(c->name);
		free(c->text);
		free(c->target);
		free(c);
	}
}

void files_free(struct files *f)
{
	if (!f)
		return;
	files_free_children(&f->root);
	free(f);
}

bool files_ok(const struct files *f)
{
	return !f->failed;
}

/* ---- building -------------------------------------------------------------------------------- */

static bool files_is_dir(const struct files_node *n)
{
	return !n->text && !n->target;
}

/* Returns the link to the child of that name, or the link at which to insert it. */
static struct files_node **files_at(struct files_node *dir, const char *name, size_t bytes)
{
	struct files_node **at = &dir->child;
	while (*at && strncmp((*at)->name, name, bytes) < 0)
		at = &(*at)->next;
	return at; /* a longer name with this prefix sorts after it */
}

static bool files_is_named(const struct files_node *n, const char *name, size_t bytes)
{
	return n && strlen(n->name) == bytes && memcmp(n->name, name, bytes) == 0;
}

static struct files_node *files_child(struct files *f, struct files_node *dir, const char *name,
				      size_t bytes)
{
	struct files_node **at = files_at(dir, name, bytes);
	if (files_is_named(*at, name, bytes))
		return *at;
	struct files_node *n = calloc(1, sizeof *n);
	char *copy = strndup(name, bytes);
	if (!n || !copy) {
		free(n);
		free(copy);
		f->failed = true;
		return NULL;
	}
	n->name = copy;
	n->parent = dir;
	n->next = *at;
	*at = n;
	return n;
}

/* Returns the node at `path` and creates it and the nodes above it. NULL: a file or a link is in
 * the way, or no memory. */
static struct files_node *files_make(struct files *f, const char *path)
{
	struct files_node *n = &f->root;
	ASSERT(path[0] == '/');
	for (path += strspn(path, "/"); n && *path; path += strspn(path, "/")) {
		size_t bytes = strcspn(path, "/");
		n = files_is_dir(n) ? files_child(f, n, path, bytes) : NULL;
		path += bytes;
	}
	return n;
}

void files_dir(struct files *f, const char *path)
{
	(void)files_make(f, path);
}

/* Stores `owned`, which the tree then owns. NULL: its allocation failed. */
static void files_set(struct files *f, const char *path, char *owned, bool link)
{
	struct files_node *n = owned ? files_make(f, path) : NULL;
	if (!owned)
		f->failed = true;
	if (!n || !files_is_dir(n) || n->child || n == &f->root)
		free(owned);
	else if (link)
		n->target = owned;
	else
		n->text = owned;
}

void files_add(struct files *f, const char *path, const char *text)
{
	files_set(f, path, strdup(text), false);
}

void files_link(struct files *f, const char *dir, const char *name, const char *target)
{
	char path[OS_PATH_BYTES];
	if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) < sizeof path)
		files_set(f, path, strdup(target), true);
}

void files_put(struct files *f, const char *dir, const char *name, const char *fmt, ...)
{
	char path[OS_PATH_BYTES], text[256];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) < sizeof path)
		files_add(f, path, text);
}

/* ---- walking -------------------------------------------------------------------------------- */

/* State of a walk. `rest` is the rest of the path; following a link prepends the link's target. */
struct files_walk {
	const struct files_node *at;
	char rest[2 * OS_PATH_BYTES];
	int links;
};

static int files_follow(const struct files *f, struct files_walk *w, const struct files_node *link,
			const char *behind)
{
	char rest[sizeof w->rest];
	if (++w->links > FILES_MAX_LINKS)
		return ELOOP;
	if ((size_t)snprintf(rest, sizeof rest, "%s%s", link->target, behind) >= sizeof rest)
		return ENAMETOOLONG;
	memcpy(w->rest, rest, sizeof rest);
	if (w->rest[0] == '/')
		w->at = &f->root;
	return 0;
}

/* Resolves the next name of w->rest. */
static int files_step(const struct files *f, struct files_walk *w)
{
	const char *name = w->rest + strspn(w->rest, "/");
	size_t bytes = strcspn(name, "/");
	const struct files_node *n = w->at;
	if (!files_is_dir(w->at))
		return ENOTDIR;
	if (bytes == 2 && memcmp(name, "..", 2) == 0) {
		n = w->at->parent;
	} else if (bytes != 1 || name[0] != '.') {
		n = *files_at((struct files_node *)w->at, name, bytes);
		if (!files_is_named(n, name, bytes))
			return ENOENT;
		if (n->target)
			return files_follow(f, w, n, name + bytes);
	}
	w->at = n;
	memmove(w->rest, name + bytes, strlen(name + bytes) + 1);
	return 0;
}

static int files_find(const struct files *f, const char *path, const struct files_node **found)
{
	struct files_walk w = {.at = &f->root};
	int rc = path[0] == '/' ? 0 : ENOENT;
	if (strlen(path) >= OS_PATH_BYTES)
		return ENAMETOOLONG;
	snprintf(w.rest, sizeof w.rest, "%s", path);
	while (!rc && w.rest[strspn(w.rest, "/")])
		rc = files_step(f, &w);
	if (!rc && w.rest[0] && !files_is_dir(w.at))
		rc = ENOTDIR; /* a file, followed by a slash */
	if (!rc)
		*found = w.at;
	return rc;
}

int files_real_path(const struct files *f, const char *path, char *out)
{
	const struct files_node *n;
	char text[OS_PATH_BYTES];
	size_t at = sizeof text - 1;
	int rc = files_find(f, path, &n);
	if (rc)
		return rc;
	text[at] = '\0';
	for (; n != &f->root; n = n->parent) {
		size_t bytes = strlen(n->name);
		if (bytes + 1 > at)
			return ENAMETOOLONG;
		at -= bytes;
		memcpy(text + at, n->name, bytes);
		text[--at] = '/';
	}
	if (!text[at])
		text[--at] = '/';
	memcpy(out, text + at, sizeof text - at);
	return 0;
}

int files_text(const struct files *f, const char *path, const char **text)
{
	const struct files_node *n;
	int rc = files_find(f, path, &n);
	if (rc)
		return rc == ENOENT || rc == ENOTDIR ? ENOENT : EIO;
	if (!n->text)
		return EIO; /* a directory */
	*text = n->text;
	return 0;
}

int files_names(const struct files *f, const char *path, char **names, size_t *bytes, int *count)
{
	const struct files_node *n;
	size_t all = 0;
	int k = 0, rc = files_find(f, path, &n);
	if (rc)
		return rc;
	if (!files_is_dir(n))
		return ENOTDIR;
	for (const struct files_node *c = n->child; c; c = c->next, k++)
		all += strlen(c->name) + 1;
	char *out = malloc(all + 1);
	if (!out)
		return ENOMEM;
	*names = out;
	*bytes = all;
	*count = k;
	for (const struct files_node *c = n->child; c; c = c->next)
		out = stpcpy(out, c->name) + 1;
	return 0;
}
