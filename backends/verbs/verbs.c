/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs calls of backends/INTERFACE.md as hidden thunks over rdma-core: libdoppel does not link
 * libibverbs.so.1, so it loads without that library. Each thunk resolves the function at each call,
 * in the version that the header means. The calls are rare. The data path (poll, post) is inline in
 * the header and calls through the context without a thunk.
 *
 * Without rdma-core, or with one that lacks the function, a thunk fails like the call: NULL, -1 or
 * a positive errno, with errno ENOSYS. Callers call ibv_get_device_list first, so they find no
 * devices.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* Hides only the definitions of this file, not those of the C library. */
#pragma GCC visibility push(hidden)
#include <infiniband/verbs.h>

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static void *verbs_library;

/* Opens the library at first use and never closes it: rdma-core's providers do not survive
 * dlclose(). */
static void *verbs_function(const char *name, const char *version)
{
	void *library = __atomic_load_n(&verbs_library, __ATOMIC_ACQUIRE);

	if (!library) {
		library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
		__atomic_store_n(&verbs_library, library, __ATOMIC_RELEASE);
	}
	void *fn = library ? dlvsym(library, name, version) : NULL;

	if (!fn)
		errno = ENOSYS;
	return fn;
}

/* ---- devices -------------------------------------------------------------------------------- */

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **(*fn)(int *);

	*(void **)&fn = verbs_function("ibv_get_device_list", "IBVERBS_1.1");
	if (!fn && num_devices)
		*num_devices = 0;
	return fn ? fn(num_devices) : NULL;
}

void ibv_free_device_list(struct ibv_device **list)
{
	void (*fn)(struct ibv_device **);

	*(void **)&fn = verbs_function("ibv_free_device_list", "IBVERBS_1.1");
	if (fn)
		fn(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	const char *(*fn)(struct ibv_device *);

	*(void **)&fn = verbs_function("ibv_get_device_name", "IBVERBS_1.1");
	return fn ? fn(device) : NULL;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	__be64 (*fn)(struct ibv_device *);

	*(void **)&fn = verbs_function("ibv_get_device_guid", "IBVERBS_1.1");
	return fn ? fn(device) : 0;
}

/* Open contexts, each with the number of threads that wait for its events. rdma-core waits in
 * read(), which a close does not end, and a thread may be waiting when the context closes. */
struct verbs_context_entry {
	struct verbs_context_entry *next;
	struct ibv_context *context;
	int waiting;
	int closing;
};

static struct verbs_context_entry *verbs_contexts;
static pthread_mutex_t verbs_contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t verbs_contexts_idle = PTHREAD_COND_INITIALIZER;

static struct verbs_context_entry **verbs_context_find(const struct ibv_context *context)
{
	struct verbs_context_entry **at = &verbs_contexts;

	while (*at && (*at)->context != context)
		at = &(*at)->next;
	return at;
}

/* Ends the waits for the context's events, and returns when no thread waits. */
static void verbs_context_close(const struct ibv_context *context)
{
	pthread_mutex_lock(&verbs_contexts_lock);
	struct verbs_context_entry *e = *verbs_context_find(context);

	if (e) {
		e->closing = 1;
		while (e->waiting)
			pthread_cond_wait(&verbs_contexts_idle, &verbs_contexts_lock);
		*verbs_context_find(context) = e->next;
	}
	pthread_mutex_unlock(&verbs_contexts_lock);
	free(e);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *(*fn)(struct ibv_device *);

	*(void **)&fn = verbs_function("ibv_open_device", "IBVERBS_1.1");
	struct verbs_context_entry *e = calloc(1, sizeof *e);
	struct ibv_context *context = fn && e ? fn(device) : NULL;

	if (!context) {
		free(e);
		return NULL;
	}
	e->context = context;
	pthread_mutex_lock(&verbs_contexts_lock);
	e->next = verbs_contexts;
	verbs_contexts = e;
	pthread_mutex_unlock(&verbs_contexts_lock);
	return context;
}

int ibv_close_device(struct ibv_context *context)
{
	int (*fn)(struct ibv_context *);

	*(void **)&fn = verbs_function("ibv_close_device", "IBVERBS_1.1");
	verbs_context_close(context);
	return fn ? fn(context) : -1;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	int (*fn)(struct ibv_context *, struct ibv_device_attr *);

	*(void **)&fn = verbs_function("ibv_query_device", "IBVERBS_1.1");
	return fn ? fn(context, attr) : ENOSYS;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	int (*fn)(struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *);

	*(void **)&fn = verbs_function("ibv_query_port", "IBVERBS_1.1");
	return fn ? fn(context, port, attr) : ENOSYS;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	int (*fn)(struct ibv_context *, uint8_t, int, union ibv_gid *);

	*(void **)&fn = verbs_function("ibv_query_gid", "IBVERBS_1.1");
	return fn ? fn(context, port, index, gid) : -1;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_bytes)
{
	int (*fn)(struct ibv_context *, uint32_t, uint32_t, struct ibv_gid_entry *, uint32_t,
		  size_t);

	*(void **)&fn = verbs_function("_ibv_query_gid_ex", "IBVERBS_1.11");
	return fn ? fn(context, port, index, entry, flags, entry_bytes) : ENOSYS;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	int (*fn)(struct ibv_context *, uint8_t, int, __be16 *);

	*(void **)&fn = verbs_function("ibv_query_pkey", "IBVERBS_1.1");
	return fn ? fn(context, port, index, pkey) : -1;
}

/* ---- events and names ----------------------------------------------------------------------- */

/* Longest time until a waiting thread notices that the context closes. */
#define VERBS_EVENT_LOOK_MS 50

static struct verbs_context_entry *verbs_context_enter(const struct ibv_context *context)
{
	pthread_mutex_lock(&verbs_contexts_lock);
	struct verbs_context_entry *e = *verbs_context_find(context);

	if (e && e->closing)
		e = NULL;
	if (e)
		e->waiting++;
	pthread_mutex_unlock(&verbs_contexts_lock);
	return e;
}

static void verbs_context_leave(struct verbs_context_entry *e)
{
	pthread_mutex_lock(&verbs_contexts_lock);
	if (!--e->waiting)
		pthread_cond_broadcast(&verbs_contexts_idle);
	pthread_mutex_unlock(&verbs_contexts_lock);
}

static int verbs_context_closing(struct verbs_context_entry *e)
{
	pthread_mutex_lock(&verbs_contexts_lock);
	int closing = e->closing;
	pthread_mutex_unlock(&verbs_contexts_lock);
	return closing;
}

/* Returns -1 with ENODEV when the context closes. */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	int (*fn)(struct ibv_context *, struct ibv_async_event *);
	int rc = -1, error = ENODEV;

	*(void **)&fn = verbs_function("ibv_get_async_event", "IBVERBS_1.1");
	struct verbs_context_entry *e = fn ? verbs_context_enter(context) : NULL;

	while (e && !verbs_context_closing(e)) {
		struct pollfd p = {.fd = context->async_fd, .events = POLLIN};

		if (poll(&p, 1, VERBS_EVENT_LOOK_MS) <= 0)
			continue;
		rc = fn(context, event);
		error = errno;
		break;
	}
	if (e)
		verbs_context_leave(e);
	errno = error;
	return rc;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	void (*fn)(struct ibv_async_event *);

	*(void **)&fn = verbs_function("ibv_ack_async_event", "IBVERBS_1.1");
	if (fn)
		fn(event);
}

int ibv_fork_init(void)
{
	int (*fn)(void);

	*(void **)&fn = verbs_function("ibv_fork_init", "IBVERBS_1.1");
	return fn ? fn() : ENOSYS;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	const char *(*fn)(enum ibv_wc_status);

	*(void **)&fn = verbs_function("ibv_wc_status_str", "IBVERBS_1.1");
	return fn ? fn(status) : "unknown";
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
	const char *(*fn)(enum ibv_event_type);

	*(void **)&fn = verbs_function("ibv_event_type_str", "IBVERBS_1.1");
	return fn ? fn(event) : "unknown";
}

const char *ibv_port_state_str(enum ibv_port_state state)
{
	const char *(*fn)(enum ibv_port_state);

	*(void **)&fn = verbs_function("ibv_port_state_str", "IBVERBS_1.1");
	return fn ? fn(state) : "unknown";
}

const char *ibv_node_type_str(enum ibv_node_type type)
{
	const char *(*fn)(enum ibv_node_type);

	*(void **)&fn = verbs_function("ibv_node_type_str", "IBVERBS_1.1");
	return fn ? fn(type) : "unknown";
}

/* ---- memory --------------------------------------------------------------------------------- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *(*fn)(struct ibv_context *);

	*(void **)&fn = verbs_function("ibv_alloc_pd", "IBVERBS_1.1");
	return fn ? fn(context) : NULL;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	int (*fn)(struct ibv_pd *);

	*(void **)&fn = verbs_function("ibv_dealloc_pd", "IBVERBS_1.1");
	return fn ? fn(pd) : ENOSYS;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct ibv_mr *(*fn)(struct ibv_pd *, void *, size_t, int);

	*(void **)&fn = verbs_function("ibv_reg_mr", "IBVERBS_1.1");
	return fn ? fn(pd, addr, length, access) : NULL;
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	struct ibv_mr *(*fn)(struct ibv_pd *, void *, size_t, uint64_t, int);

	*(void **)&fn = verbs_function("ibv_reg_mr_iova", "IBVERBS_1.7");
	return fn ? fn(pd, addr, length, iova, access) : NULL;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	struct ibv_mr *(*fn)(struct ibv_pd *, void *, size_t, uint64_t, unsigned int);

	*(void **)&fn = verbs_function("ibv_reg_mr_iova2", "IBVERBS_1.8");
	return fn ? fn(pd, addr, length, iova, access) : NULL;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	struct ibv_mr *(*fn)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);

	*(void **)&fn = verbs_function("ibv_reg_dmabuf_mr", "IBVERBS_1.12");
	return fn ? fn(pd, offset, length, iova, fd, access) : NULL;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	int (*fn)(struct ibv_mr *);

	*(void **)&fn = verbs_function("ibv_dereg_mr", "IBVERBS_1.1");
	return fn ? fn(mr) : ENOSYS;
}

/* ---- queues --------------------------------------------------------------------------------- */

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq *(*fn)(struct ibv_context *, int, void *, struct ibv_comp_channel *, int);

	*(void **)&fn = verbs_function("ibv_create_cq", "IBVERBS_1.1");
	return fn ? fn(context, cqe, cq_context, channel, comp_vector) : NULL;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	int (*fn)(struct ibv_cq *);

	*(void **)&fn = verbs_function("ibv_destroy_cq", "IBVERBS_1.1");
	return fn ? fn(cq) : ENOSYS;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *(*fn)(struct ibv_context *);

	*(void **)&fn = verbs_function("ibv_create_comp_channel", "IBVERBS_1.0");
	return fn ? fn(context) : NULL;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	int (*fn)(struct ibv_comp_channel *);

	*(void **)&fn = verbs_function("ibv_destroy_comp_channel", "IBVERBS_1.0");
	return fn ? fn(channel) : ENOSYS;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	int (*fn)(struct ibv_comp_channel *, struct ibv_cq **, void **);

	*(void **)&fn = verbs_function("ibv_get_cq_event", "IBVERBS_1.1");
	return fn ? fn(channel, cq, cq_context) : -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	void (*fn)(struct ibv_cq *, unsigned int);

	*(void **)&fn = verbs_function("ibv_ack_cq_events", "IBVERBS_1.1");
	if (fn)
		fn(cq, n);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *(*fn)(struct ibv_pd *, struct ibv_qp_init_attr *);

	*(void **)&fn = verbs_function("ibv_create_qp", "IBVERBS_1.1");
	return fn ? fn(pd, attr) : NULL;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int (*fn)(struct ibv_qp *, struct ibv_qp_attr *, int);

	*(void **)&fn = verbs_function("ibv_modify_qp", "IBVERBS_1.1");
	return fn ? fn(qp, attr, mask) : ENOSYS;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	int (*fn)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);

	*(void **)&fn = verbs_function("ibv_query_qp", "IBVERBS_1.1");
	return fn ? fn(qp, attr, mask, init) : ENOSYS;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	int (*fn)(struct ibv_qp *);

	*(void **)&fn = verbs_function("ibv_destroy_qp", "IBVERBS_1.1");
	return fn ? fn(qp) : ENOSYS;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	int (*fn)(struct ibv_qp *, struct ibv_ece *);

	*(void **)&fn = verbs_function("ibv_query_ece", "IBVERBS_1.10");
	return fn ? fn(qp, ece) : EOPNOTSUPP;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	int (*fn)(struct ibv_qp *, struct ibv_ece *);

	*(void **)&fn = verbs_function("ibv_set_ece", "IBVERBS_1.10");
	return fn ? fn(qp, ece) : EOPNOTSUPP;
}
