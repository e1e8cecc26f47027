/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices and contexts: the HCAs of the caller's host, as its machine file lists them, with one
 * port each. Their personality determines the values that they report. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/fakeverbs/context/context.h"
#include "backends/fakeverbs/context/process.h"
#include "core/base/text.h"

/* The devices of one process, in OS_SLOT_VERBS; freed with the last list and context. */
struct hca_proc {
	struct hca_head head;
	uint32_t users;
	uint32_t count;
	struct hca_device_handle device[];
};
static uint32_t hca_proc_lock;

/* ---- the list ------------------------------------------------------------------------------- */

static void hca_path(char path[IBV_SYSFS_PATH_MAX], const char *folder, const char *name)
{
	size_t n = strlen(folder);

	ASSERT(n < IBV_SYSFS_PATH_MAX); /* the name follows */
	memcpy(path, folder, n);
	text_set(path + n, IBV_SYSFS_PATH_MAX - n, name);
}

static struct hca_proc *hca_proc_make(uint32_t host)
{
	const struct world_machine *m = world_host_machine(host);
	uint32_t count = 0;

	for (int32_t i = 0; i < m->nic_count; i++)
		count += m->nic[i].is_rdma;
	struct hca_proc *p = hca_handle_alloc(
		HCA_KIND_DEVICES, sizeof *p + count * sizeof p->device[0], "ibv_device");

	if (!p)
		return NULL;
	for (int32_t i = 0; i < m->nic_count; i++) {
		if (!m->nic[i].is_rdma)
			continue;
		struct hca_device_handle *d = &p->device[p->count];

		d->ibv.node_type = IBV_NODE_CA;
		d->ibv.transport_type = IBV_TRANSPORT_IB;
		text_set(d->ibv.name, sizeof d->ibv.name, m->nic[i].name);
		snprintf(d->ibv.dev_name, sizeof d->ibv.dev_name, "uverbs%u", p->count);
		hca_path(d->ibv.dev_path, "/sys/class/infiniband_verbs/", d->ibv.dev_name);
		hca_path(d->ibv.ibdev_path, "/sys/class/infiniband/", d->ibv.name);
		d->port = world_port_of(host, i)->index;
		d->provider = hca_personality(d->port)->vendor_id == HCA_VENDOR_MLX5
				      ? HCA_PROVIDER_MLX5
				      : HCA_PROVIDER_OTHER;
		d->host = host;
		d->alive = HCA_ALIVE(HCA_KIND_DEVICES);
		p->count++;
	}
	ASSERT(p->count == count);
	return p;
}

static struct hca_proc *hca_proc_get(void)
{
	struct os_proc *proc = os_proc();

	hca_lock(&hca_proc_lock);
	struct hca_proc *p = proc->slot[OS_SLOT_VERBS];

	if (!p)
		p = proc->slot[OS_SLOT_VERBS] = hca_proc_make(proc->host);
	if (p)
		p->users++;
	hca_unlock(&hca_proc_lock);
	return p;
}

static void hca_proc_forget(struct hca_proc *p)
{
	for (uint32_t i = 0; i < p->count; i++)
		__atomic_store_n(&p->device[i].alive, 0, __ATOMIC_RELAXED);
}

static void hca_proc_put(uint64_t caller)
{
	struct os_proc *proc = os_proc();

	hca_lock(&hca_proc_lock);
	struct hca_proc *p = proc->slot[OS_SLOT_VERBS];

	ASSERT(!p || p->users > 0);
	bool last = p && --p->users == 0;

	if (last)
		proc->slot[OS_SLOT_VERBS] = NULL;
	hca_unlock(&hca_proc_lock);
	if (last) {
		hca_proc_forget(p);
		hca_handle_end(p, caller);
	}
}

/* Open contexts are reported as leaks themselves, so the devices that they keep are not another
 * leak. A list that was not freed is a leak. */
void hca_devices_end(struct os_proc *proc, bool killed)
{
	struct hca_proc *p = proc->slot[OS_SLOT_VERBS];

	if (p) {
		hca_proc_forget(p);
		hca_handle_sweep(p, killed);
	}
	proc->slot[OS_SLOT_VERBS] = NULL;
}

static int (*hca_first_call)(void);

void hca_on_first_call(int (*start)(void))
{
	hca_first_call = start;
}

/* A list that the program holds. Its array comes from malloc(3), because some programs pass it to
 * free(3). A list that is never freed stays in hca_lists. The child of a fork keeps the parent's
 * lists there, too. */
struct hca_list {
	struct hca_list *older;
	struct ibv_device **device;
	void *token;   /* block of the process' memory that represents the list */
	uint64_t life; /* value of hca_life at its creation */
};
enum { HCA_LIST_BUCKETS = 1024 };
DOPPEL_STATIC_CHECK(HCA_LIST_BUCKETS == 1 << (64 - 54), "hca_list_bucket uses the top ten bits");
static struct hca_list *hca_lists[HCA_LIST_BUCKETS]; /* by address; under hca_proc_lock */
static uint64_t hca_life;

static struct hca_list **hca_list_bucket(struct ibv_device **device)
{
	return &hca_lists[((uintptr_t)device * 0x9e3779b97f4a7c15ull) >> 54];
}

void hca_devices_forget(void)
{
	hca_life++;
	hca_proc_lock = 0;
}

/* True if a world exists and is ready. A program that created no world gets one at its first call,
 * and the child of a fork at its first call. Several threads may make the first call: only the hook
 * knows whether an existing world is ready. */
static bool hca_started(void)
{
	return hca_first_call ? !hca_first_call() : world_config() != NULL;
}

static struct hca_list *hca_list_make(const struct hca_proc *p)
{
	struct hca_list *l = calloc(1, sizeof *l);
	struct ibv_device **device = calloc(p->count + 1, sizeof *device);
	void *token = os_alloc(sizeof(uint64_t), "ibv_device list");

	if (!l || !device || !token) {
		free(l);
		free(device);
		os_free(token);
		return NULL;
	}
	for (uint32_t i = 0; i < p->count; i++)
		device[i] = (struct ibv_device *)(uintptr_t)&p->device[i].ibv;
	*l = (struct hca_list){.device = device, .token = token, .life = hca_life};
	hca_lock(&hca_proc_lock);
	l->older = *hca_list_bucket(device);
	*hca_list_bucket(device) = l;
	hca_unlock(&hca_proc_lock);
	return l;
}

/* Removes this process' list with these devices from hca_lists and returns it; NULL: not found. */
static struct hca_list *hca_list_take(struct ibv_device **device)
{
	hca_lock(&hca_proc_lock);
	struct hca_list **at = hca_list_bucket(device);

	while (*at && ((*at)->device != device || (*at)->life != hca_life))
		at = &(*at)->older;
	struct hca_list *l = *at;

	if (l)
		*at = l->older;
	hca_unlock(&hca_proc_lock);
	return l;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	if (num_devices)
		*num_devices = 0;
	if (!hca_started()) {
		errno = ENOSYS;
		return NULL;
	}
	sim_point("ibv_get_device_list");
	if (world_port_count() == 0) {
		errno = ENOSYS; /* like rdma-core on a kernel without RDMA */
		return NULL;
	}
	(void)hca_world();
	int fault = hca_call_fault("verbs.get_device_list", NULL, HCA_NO_PORT, -1);

	if (fault) {
		errno = fault;
		return NULL;
	}
	struct hca_proc *p = hca_proc_get();
	const struct hca_list *list = p ? hca_list_make(p) : NULL;

	if (!list) {
		if (p)
			hca_proc_put(0);
		errno = ENOMEM;
		return NULL;
	}
	if (num_devices)
		*num_devices = (int)p->count;
	return list->device;
}

void ibv_free_device_list(struct ibv_device **devices)
{
	struct hca_list *list = devices ? hca_list_take(devices) : NULL;

	if (!list)
		return;
	sim_point("ibv_free_device_list");
	os_free(list->token);
	free(list->device);
	free(list);
	hca_proc_put(HCA_CALLER());
}

static const struct hca_device_handle *hca_device_of(const struct ibv_device *d)
{
	return CONTAINER_OF(d, const struct hca_device_handle, ibv);
}

/* Checks a device. It is valid while its process has a list or a context. */
static int hca_bad_device(const struct ibv_device *device, const char *call, uint64_t caller)
{
	return device && __atomic_load_n(&hca_device_of(device)->alive, __ATOMIC_RELAXED) ==
				       HCA_ALIVE(HCA_KIND_DEVICES)
		       ? 0
		       : hca_bad_handle(device, HCA_KIND_DEVICES, call, caller);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return hca_bad_device(device, "ibv_get_device_name", HCA_CALLER()) ? NULL : device->name;
}

int ibv_get_device_index(struct ibv_device *device)
{
	return hca_bad_device(device, "ibv_get_device_index", HCA_CALLER())
		       ? -1
		       : (int)hca_device_of(device)->port;
}

static __be64 hca_guid(uint32_t port)
{
	return htobe64(world_port(port)->nic->guid);
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return !hca_started() || hca_bad_device(device, "ibv_get_device_guid", HCA_CALLER())
		       ? 0
		       : hca_guid(hca_device_of(device)->port);
}

/* ---- contexts ------------------------------------------------------------------------------- */

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	if (!hca_started()) {
		errno = ENOSYS;
		return NULL;
	}
	sim_point("ibv_open_device");
	sim_charge_ns(HCA_CONTROL_NS);
	if (hca_bad_device(device, "ibv_open_device", HCA_CALLER()))
		return NULL;
	const struct hca_device_handle *d = hca_device_of(device);

	if (d->host != os_proc()->host) {
		hca_log("ibv_open_device: %s belongs to host %u, the caller runs on host %u",
			device->name, d->host, os_proc()->host);
		errno = ENODEV;
		return NULL;
	}
	int fault = hca_command_fault("verbs.open_device", NULL, d->port, -1);

	if (fault) {
		errno = fault;
		return NULL;
	}
	struct hca_context_handle *h = hca_handle_alloc(HCA_KIND_CONTEXT, sizeof *h, "ibv_context");
	struct hca_context *c =
		h ? hca_slab_alloc_owned(&hca_world()->context, &h->verbs.context) : NULL;

	fault = c ? hca_ready_make(&c->ready) : ENOMEM;
	if (!fault) {
		fault = hca_ready_make(&c->command);
		if (fault)
			hca_ready_close(&c->ready);
	}
	if (fault) {
		if (c)
			hca_slab_free(&hca_world()->context, c);
		hca_handle_end(h, 0);
		errno = fault;
		return NULL;
	}
	struct ibv_context *ctx = &h->verbs.context;

	(void)hca_proc_get();
	h->hca = c;
	hca_lock(&c->item.lock);
	c->item.made = HCA_CALLER();
	c->port = d->port;
	c->closed = c->first = c->last = 0;
	hca_unlock(&c->item.lock);
	h->verbs.sz = sizeof h->verbs;
	h->verbs.query_port = hca_query_port;
	hca_extended_ops(&h->verbs);
	ctx->device = device;
	ctx->ops.poll_cq = hca_poll_cq;
	ctx->ops.req_notify_cq = hca_req_notify_cq;
	ctx->ops.post_send = hca_post_send;
	ctx->ops.post_recv = hca_post_recv;
	ctx->ops.post_srq_recv = hca_post_srq_recv;
	hca_window_ops(&ctx->ops);
	ctx->cmd_fd = c->command.fd;
	ctx->async_fd = c->ready.fd;
	ctx->num_comp_vectors = HCA_COMP_VECTORS;
	pthread_mutex_init(&ctx->mutex, NULL);
	ctx->abi_compat = __VERBS_ABI_IS_EXTENDED;
	return ctx;
}

/* Returns the number of objects that are still open under a context. The kernel frees them when the
 * descriptor closes, and so does this code, but the program forgot them. */
static uint64_t hca_context_left(const struct hca_context *c)
{
	struct hca_world *w = hca_world();
	uint32_t at, proc = c->item.proc;
	uint64_t n = 0;
	struct hca_qp *qp;
	struct hca_cq *cq;
	struct hca_srq *srq;

	/* each is locked, because other threads create and destroy objects of other contexts
	 * meanwhile; an unfinished object has no ring */
	for (at = 0; (qp = hca_slab_next(&w->qp, proc, &at));) {
		hca_qp_lock(qp);
		n += qp->sq.ring && qp->context == c->item.index;
		hca_unlock(&qp->item.lock);
	}
	for (at = 0; (cq = hca_slab_next(&w->cq, proc, &at));) {
		hca_cq_lock(cq);
		n += cq->ring && cq->context == c->item.index;
		hca_unlock(&cq->item.lock);
	}
	for (at = 0; (srq = hca_slab_next(&w->srq, proc, &at));) {
		hca_srq_lock(srq);
		n += srq->rq.ring && srq->context == c->item.index;
		hca_unlock(&srq->item.lock);
	}
	return n;
}

int ibv_close_device(struct ibv_context *context)
{
	int bad = hca_enter_control(context, HCA_KIND_CONTEXT, "ibv_close_device", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_context_handle *h = hca_context_of(context);
	uint64_t left = hca_context_left(h->hca);
	struct hca_site at;

	if (left && hca_members) {
		/* the drop-in frees them like the kernel, because it does not judge programs */
		hca_context_close_objects(h->hca, HCA_CALLER());
	} else if (left) {
		hca_check(HCA_RULE_CLOSE_LEAK, HCA_CALLER(),
			  "ibv_close_device at %s: %s: %llu queue pairs, completion queues and "
			  "shared receive queues are not destroyed",
			  hca_site(h->hca->item.proc, HCA_CALLER(), &at), context->device->name,
			  (unsigned long long)left);
		return hca_result(EBUSY);
	}
	int rc = hca_call_fault("verbs.close_device", NULL, h->hca->port, -1);

	hca_context_destroy(h->hca);
	hca_handle_end(h, HCA_CALLER());
	hca_proc_put(HCA_CALLER());
	return hca_result(rc);
}

/* ---- queries -------------------------------------------------------------------------------- */

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *a)
{
	int bad = hca_enter_control(context, HCA_KIND_CONTEXT, "ibv_query_device", HCA_CALLER());

	if (bad)
		return bad;
	uint32_t port = hca_context_of(context)->hca->port;
	int rc = hca_command_fault("verbs.query_device", NULL, port, -1);

	if (rc)
		return hca_result(rc);
	const struct hca_personality *p = hca_personality(port);
	const struct hca_world *w = hca_world();
	uint32_t members = MIN_OF(p->max_mcast_members, hca_slab_room(&w->member));

	*a = (struct ibv_device_attr){
		.node_guid = hca_guid(port),
		.sys_image_guid = hca_guid(port),
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffffffffffff000,
		.vendor_id = p->vendor_id,
		.vendor_part_id = p->vendor_part_id,
		.max_qp = (int)MIN_OF(p->max_qp, hca_slab_room(&w->qp)),
		.max_qp_wr = (int)p->max_wr,
		.device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
				    IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
				    IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC |
				    IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_MEM_WINDOW |
				    IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS,
		.max_sge = (int)p->max_sge,
		.max_sge_rd = (int)p->max_sge,
		.max_cq = (int)MIN_OF(p->max_cq, hca_slab_room(&w->cq)),
		.max_cqe = (int)p->max_cqe,
		.max_mr = (int)MIN_OF(p->max_mr, hca_slab_room(&w->mr)),
		.max_mw = (int)hca_slab_room(&w->mw),
		.max_pd = (int)hca_slab_room(&w->pd),
		.max_qp_rd_atom = (int)p->max_rd_atomic,
		.max_res_rd_atom = (int)(p->max_rd_atomic * 131072),
		.max_qp_init_rd_atom = (int)p->max_rd_atomic,
		.atomic_cap = (enum ibv_atomic_cap)w->port[port].atomic_cap,
		.max_srq = (int)hca_slab_room(&w->srq),
		.max_srq_wr = (int)p->max_wr,
		.max_srq_sge = (int)p->max_sge,
		.max_ah = (int)MIN_OF(p->max_ah, hca_slab_room(&w->ah)),
		.max_mcast_grp = (int)members,
		.max_mcast_qp_attach = (int)p->max_mcast_attach,
		.max_total_mcast_qp_attach = (int)members,
		.max_pkeys = (uint16_t)p->pkey_count,
		.local_ca_ack_delay = 16,
		.phys_port_cnt = 1,
	};
	text_set(a->fw_ver, sizeof a->fw_ver, p->firmware);
	return 0;
}
