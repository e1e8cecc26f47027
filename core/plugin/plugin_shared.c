/* SPDX-License-Identifier: BSD-3-Clause */
/* Plugins that the communicators of a process share, in the process' registry. */
#include <stdio.h>
#include <string.h>

#include "core/plugin/plugin.h"

static struct plugin_shared *plugin_shared_find(struct registry_node *first,
						enum registry_kind kind, const char *setting)
{
	for (struct registry_node *n = first; n; n = n->next) {
		struct plugin_shared *p = (struct plugin_shared *)n;

		if (n->kind == kind && p->refs && !strcmp(p->setting, setting))
			return p;
	}
	return NULL;
}

struct plugin_shared *plugin_shared_get(enum registry_kind kind, const char *setting, size_t bytes)
{
	struct plugin_shared *own = os_alloc(bytes, "plugin"), *p;
	struct registry_node *first;

	ASSERT(bytes >= sizeof *own);
	if (!own)
		return NULL;
	own->node.kind = kind;
	snprintf(own->setting, sizeof own->setting, "%s", setting);
	first = registry_lock();
	p = plugin_shared_find(first, kind, setting);
	if (!p) {
		p = own;
		p->node.next = first;
		first = &p->node;
		own = NULL;
	}
	p->refs++;
	registry_unlock(first);
	os_free(own);
	return p;
}

void plugin_shared_hold(struct plugin_shared *p)
{
	struct registry_node *first = registry_lock();

	ASSERT(p->refs > 0); /* of the caller */
	p->refs++;
	registry_unlock(first);
}

bool plugin_shared_put(struct plugin_shared *p)
{
	struct registry_node *first = registry_lock();
	bool last = --p->refs == 0; /* after this no call finds it */

	registry_unlock(first);
	if (last)
		registry_remove(&p->node);
	return last;
}
