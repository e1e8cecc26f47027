/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proxy of one GPU in one process. The first communicator with a network connection on the GPU
 * creates it, later ones share it, and the last one ends it.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/proxy/relay/relay.h"

#define PROXY_WAITS_FIRST 16

bool proxy_waits_reserve(struct proxy_waits *waits, uint32_t n)
{
	uint32_t room = MAX_OF(2 * waits->room, MAX_OF(n, PROXY_WAITS_FIRST));
	const struct wait **bigger;

	if (n <= waits->room)
		return true;
	bigger = os_alloc(room * (sizeof *bigger + sizeof *waits->rank), "proxy waits");
	if (!bigger)
		return false;
	proxy_waits_free(waits);
	*waits = (struct proxy_waits){
		.wait = bigger, .rank = (int32_t *)(bigger + room), .room = room};
	return true;
}

void proxy_waits_free(struct proxy_waits *waits)
{
	os_free(waits->wait);
	*waits = (struct proxy_waits){.room = 0};
}

static ncclResult_t proxy_task_start(struct proxy_gpu *p, const char *what, void (*fn)(void *),
				     struct os_thread **t)
{
	char name[32];
	int rc;

	snprintf(name, sizeof name, "proxy %s", what);
	rc = os_task_start(t, p->rank, name, fn, p);
	if (!rc)
		return ncclSuccess;
	WARN("rank %d: cannot start the proxy's %s task: %s", p->rank, what, strerror(rc));
	return ncclSystemError;
}

/* Ends a proxy; also one that proxy_gpu_make left incomplete. */
static void proxy_gpu_end(struct proxy_gpu *p)
{
	shared_store_u32(&p->stop, 1, SHARED_RELEASE);
	if (p->progress)
		os_thread_join(p->progress);
	if (p->service)
		os_thread_join(p->service);
	proxy_waits_free(&p->progress_waits);
	proxy_waits_free(&p->service_waits);
	os_free(p->conn);
	os_free(p);
}

static struct proxy_gpu *proxy_gpu_make(const struct ncclComm *comm)
{
	struct proxy_gpu *p = os_alloc(sizeof *p, "proxy of a GPU");
	ncclResult_t rc;

	if (!p) {
		WARN("rank %d: no memory for the proxy", comm->rank);
		return NULL;
	}
	p->node.kind = REGISTRY_PROXY;
	p->cuda_dev = comm->cuda_dev;
	p->rank = comm->rank;
	p->refs = 1;
	if (!proxy_waits_reserve(&p->service_waits, PROXY_TASK_WAITS) ||
	    !proxy_waits_reserve(&p->progress_waits, PROXY_TASK_WAITS)) {
		WARN("rank %d: no memory for the proxy's waits", comm->rank);
		proxy_gpu_end(p);
		return NULL;
	}
	rc = proxy_task_start(p, "service", proxy_service_main, &p->service);
	if (!rc)
		rc = proxy_task_start(p, "progress", proxy_progress_main, &p->progress);
	if (!rc)
		return p;
	proxy_gpu_end(p);
	return NULL;
}

/* Adds a reference to the process's proxy of this GPU and returns it; NULL if the GPU has no proxy.
 * The registry is locked. */
static struct proxy_gpu *proxy_gpu_join(struct registry_node *first, int32_t cuda_dev)
{
	for (struct registry_node *n = first; n; n = n->next) {
		struct proxy_gpu *p = (struct proxy_gpu *)n;

		if (n->kind != REGISTRY_PROXY || p->cuda_dev != cuda_dev || !p->refs)
			continue;
		p->refs++;
		return p;
	}
	return NULL;
}

/* Adds `own` to the registry and returns it. If another task was faster, ends `own` and returns the
 * proxy of that task. */
static struct proxy_gpu *proxy_gpu_publish(struct proxy_gpu *own)
{
	struct registry_node *first = registry_lock();
	struct proxy_gpu *other = proxy_gpu_join(first, own->cuda_dev);

	if (!other) {
		own->node.next = first;
		first = &own->node;
		shared_note_write(&own->node.next, sizeof own->node.next);
	}
	registry_unlock(first);
	if (!other)
		return own;
	proxy_gpu_end(own);
	return other;
}

struct proxy_gpu *proxy_gpu_get(const struct ncclComm *comm)
{
	struct registry_node *first = registry_lock();
	struct proxy_gpu *p = proxy_gpu_join(first, comm->cuda_dev);

	registry_unlock(first);
	OS_PROBE("proxy.shared", "a communicator uses the proxy that another one made", p != NULL);
	if (p)
		return p;
	p = proxy_gpu_make(comm);
	return p ? proxy_gpu_publish(p) : NULL;
}

void proxy_gpu_put(struct proxy_gpu *p)
{
	struct registry_node *first = registry_lock();
	bool last = --p->refs == 0; /* after this no communicator joins it */

	registry_unlock(first);
	if (!last)
		return;
	registry_remove(&p->node);
	ASSERT(!p->conns);
	ASSERT(!p->store); /* each communicator has put its reference */
	proxy_gpu_end(p);
}
