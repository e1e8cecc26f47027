/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unique ids, and the bootstrap roots that this process runs for them.
 */
#include "core/api/api.h"
#include "core/base/log.h"

/* A root that this process started for ncclGetUniqueId. Its task frees it at its end, unless a task
 * of this process removes it from the registry first and closes it. */
struct api_root {
	struct registry_node node;
	struct bootstrap_root *root;
	uint64_t id_hash;
	/* Ended before it was added to the registry, or after it was removed; under the lock. */
	bool ended;
};
DOPPEL_STATIC_CHECK(offsetof(struct api_root, node) == 0, "a node of this kind is a root");

/* Called at the end of the root's task. True if the root was in the registry and is now freed;
 * otherwise the task that has it closes it. */
static bool api_root_ended(void *arg)
{
	struct api_root *r = arg;
	struct registry_node *first = registry_lock(), **at = &first;

	ASSERT(!r->ended);
	while (*at && *at != &r->node)
		at = &(*at)->next;
	bool found = *at != NULL;
	if (found)
		*at = r->node.next;
	r->ended = !found;
	registry_unlock(first);
	if (found)
		os_free(r);
	return found;
}

static struct api_root *api_root_take(uint64_t id_hash)
{
	struct registry_node *first = registry_lock(), **at = &first;
	struct api_root *found = NULL;

	for (; *at && !found; at = &(*at)->next) {
		struct api_root *r = (struct api_root *)*at;

		if (r->node.kind != REGISTRY_ROOT || r->id_hash != id_hash)
			continue;
		ASSERT(!r->ended); /* the end of its task removes it */
		found = r;
		*at = r->node.next;
		break;
	}
	registry_unlock(first);
	return found;
}

bool api_root_close(uint64_t id_hash)
{
	struct api_root *r = api_root_take(id_hash);

	if (!r)
		return false;
	bootstrap_root_close(r->root);
	os_free(r);
	return true;
}

/* Adds a root to the registry: from now on its own task frees it, or the task that removes it. If
 * its task has already ended, closes it here. */
static void api_root_publish(struct api_root *r, uint64_t id_hash)
{
	struct registry_node *first = registry_lock();
	bool ended = r->ended;

	ASSERT(r->root && r->node.kind == REGISTRY_ROOT);
	r->id_hash = id_hash;
	r->node.next = first;
	registry_unlock(ended ? first : &r->node);
	if (!ended)
		return;
	bootstrap_root_close(r->root);
	os_free(r);
}

/* Makes an id by one of the functions of the bootstrap. `call` is the public function. */
static ncclResult_t api_id_make(const char *call, ncclUniqueId *out,
				ncclResult_t (*make)(ncclUniqueId *id, struct bootstrap_owner owner,
						     struct bootstrap_root **root))
{
	struct api_root *r = os_alloc(sizeof *r, "unique id's root");
	ncclUniqueId id;
	ncclResult_t rc;

	if (!r) {
		WARN("%s: no memory", call);
		return ncclSystemError;
	}
	r->node.kind = REGISTRY_ROOT;
	rc = make(&id, (struct bootstrap_owner){api_root_ended, r}, &r->root);
	if (rc || !r->root)
		os_free(r);
	else
		api_root_publish(r, bootstrap_id_hash(&id));
	if (!rc)
		*out = id;
	return rc;
}

ncclResult_t api_own_id(const char *call, ncclUniqueId *id)
{
	return api_id_make(call, id, bootstrap_own_id);
}

API_TWIN(ncclGetUniqueId);
API_WEAK ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId)
{
	INFO(LOG_CALL, "ncclGetUniqueId");
	if (!uniqueId) {
		WARN("ncclGetUniqueId: uniqueId is NULL");
		return api_return(ncclInvalidArgument);
	}
	return api_return(api_id_make("ncclGetUniqueId", uniqueId, bootstrap_unique_id));
}
