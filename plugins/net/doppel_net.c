/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libnccl-net-doppel.so: Doppel's networks (core/transport/base/net.h) as a net plugin, versions 8
 * to 12 of the interface, for NCCL or any other library that loads such plugins. It offers verbs if
 * the host has an HCA, else sockets. NCCL_IB_... and NCCL_SOCKET_... variables mean what they mean
 * to the stack. Failures are logged in NCCL's format; NCCL_DEBUG selects the lines.
 *
 *	NCCL_NET_PLUGIN=doppel
 *
 * State: one per process, found in the process' slot. `init` makes it, and the last `finalize`
 * closes it (version 11 on; in earlier versions it stays). The caller serializes both. Calls that
 * make and end connections and registrations may come from several threads; a mutex serializes
 * them. Calls that move data use only their connection, and the interface gives a connection to one
 * thread at a time.
 *
 * The networks' waits are not needed: a caller polls. This file has the state, the devices and the
 * tables; doppel_net_data.c has connections, memory and data.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/text.h"
#include "plugins/net/doppel_net.h"

/* ---- the state ------------------------------------------------------------------------------- */

struct doppel_net *doppel_state(void)
{
	struct doppel_net *s = os_proc()->slot[OS_SLOT_PLUGIN];

	ASSERT(s); /* init precedes */
	return s;
}

static ncclResult_t doppel_open_devices(struct doppel_net *s)
{
	ncclResult_t rc;

	s->ops = &net_verbs;
	rc = s->ops->devices(s->comm, &s->ndevs);
	if (!rc && s->ndevs)
		return ncclSuccess;
	if (!rc)
		s->ops->fini(s->comm);
	s->ops = &net_socket;
	s->ndevs = 0;
	return rc ? rc : s->ops->devices(s->comm, &s->ndevs);
}

static void doppel_free(struct doppel_net *s)
{
	if (s->comm)
		s->ops->fini(s->comm);
	os_free(s->comm);
	os_free(s);
}

static ncclResult_t doppel_make(struct doppel_net **out)
{
	struct doppel_net *s = os_alloc(sizeof *s, "state of the net plugin");

	*out = NULL;
	if (!s) {
		WARN("NET/Doppel: no memory for its state");
		return ncclSystemError;
	}
	s->ops = &net_verbs;
	s->comm = os_alloc(sizeof *s->comm, "communicator of the net plugin");
	ncclResult_t rc = s->comm ? doppel_open_devices(s) : ncclSystemError;

	if (rc) {
		WARN("NET/Doppel: its devices cannot be opened");
		doppel_free(s);
		return rc;
	}
	*out = s;
	return ncclSuccess;
}

static ncclResult_t doppel_init(void)
{
	void **slot = &os_proc()->slot[OS_SLOT_PLUGIN];
	struct doppel_net *s = *slot;
	ncclResult_t rc = ncclSuccess;

	if (!s)
		rc = doppel_make(&s);
	if (rc)
		return rc;
	*slot = s;
	s->users++;
	INFO(LOG_INIT | LOG_NET, "NET/Doppel: %s, %d devices", s->ops->name, s->ndevs);
	return ncclSuccess;
}

static ncclResult_t doppel_init_v8(net_abi_log log)
{
	(void)log;
	return doppel_init();
}

static ncclResult_t doppel_init_v10(net_abi_log log, net_abi_profile profile)
{
	(void)log;
	(void)profile;
	return doppel_init();
}

static ncclResult_t doppel_init_v11(void **context, uint64_t comm_id, struct net_abi_config *config,
				    net_abi_log log, net_abi_profile profile)
{
	ncclResult_t rc = doppel_init();

	(void)comm_id;
	(void)config;
	(void)log;
	(void)profile;
	*context = rc ? NULL : doppel_state();
	return rc;
}

static ncclResult_t doppel_finalize(void *context)
{
	struct doppel_net *s = context;

	if (!s || s != doppel_state()) {
		WARN("NET/Doppel: finalize of %p, expected the context of an init", context);
		return ncclInvalidArgument;
	}
	if (--s->users)
		return ncclSuccess;
	os_proc()->slot[OS_SLOT_PLUGIN] = NULL;
	doppel_free(s);
	return ncclSuccess;
}

/* ---- devices --------------------------------------------------------------------------------- */

static ncclResult_t doppel_devices(int *count)
{
	*count = doppel_state()->ndevs;
	return ncclSuccess;
}

bool doppel_nic(const struct doppel_net *s, int dev, struct net_nic *nic)
{
	*nic = (struct net_nic){.count = 1, .dev = {dev}};
	if (dev >= s->ndevs && dev < s->ndevs + s->nmerged)
		*nic = s->merged[dev - s->ndevs];
	if (dev >= 0 && dev < s->ndevs + s->nmerged)
		return true;
	WARN("NET/Doppel: device %d, expected 0 to %d", dev, s->ndevs + s->nmerged - 1);
	return false;
}

/* The device's place in /sys, in memory that lasts as long as the state; NULL: unknown. */
static char *doppel_place(struct doppel_net *s, int dev, const char *name)
{
	char *out = s->place[dev], path[OS_PATH_BYTES];
	const bool verbs = s->ops == &net_verbs;

	snprintf(path, sizeof path, "/sys/class/%s/%s/device", verbs ? "infiniband" : "net", name);
	return os_real_path(path, out) ? NULL : out;
}

/* Sets what all versions have. A merged device has the place, the guid and the port of its first,
 * and the speed of all. */
static ncclResult_t doppel_describe(int dev, struct doppel_device *d)
{
	struct doppel_net *s = doppel_state();
	struct net_nic nic;
	ncclResult_t rc = ncclSuccess;
	uint32_t speed = 0;

	memset(d, 0, sizeof *d);
	if (!doppel_nic(s, dev, &nic))
		return ncclInvalidArgument;
	os_mutex_lock(&s->lock);
	for (int i = nic.count - 1; i >= 0 && !rc; i--) {
		rc = s->ops->props(s->comm, nic.dev[i], &d->props);
		speed += d->props.speed_mbps;
	}
	if (!rc)
		d->path = doppel_place(s, nic.dev[0], d->props.name);
	text_set(s->name[dev], sizeof s->name[dev], d->props.name);
	for (int i = 1; i < nic.count; i++) {
		size_t n = strlen(s->name[dev]);

		snprintf(s->name[dev] + n, sizeof s->name[dev] - n, "+%d", nic.dev[i]);
	}
	os_mutex_unlock(&s->lock);
	d->props.speed_mbps = speed;
	d->name = s->name[dev];
	d->nic = nic;
	d->pointers = NET_ABI_HOST | (d->props.gpu_memory ? NET_ABI_CUDA : 0);
	d->max_recvs = d->props.tags ? NET_MAX_RECVS : 1;
	return rc;
}

#define DOPPEL_COMMS      65536             /* more than a process has descriptors */
#define DOPPEL_MOST_BYTES ((size_t)1 << 30) /* the networks' limit is higher */
#define DOPPEL_FILL(p, d)                                                                          \
	do {                                                                                       \
		(p)->name = (d)->name;                                                             \
		(p)->pci_path = (d)->path;                                                         \
		(p)->guid = (d)->props.guid;                                                       \
		(p)->ptr_support = (d)->pointers;                                                  \
		(p)->speed = (int)(d)->props.speed_mbps;                                           \
		(p)->port = (int)(d)->props.port;                                                  \
		(p)->max_comms = DOPPEL_COMMS;                                                     \
		(p)->max_recvs = (d)->max_recvs;                                                   \
		(p)->device_type = NET_ABI_BY_HOST;                                                \
	} while (0)

static ncclResult_t doppel_props_v8(int dev, void *props)
{
	struct net_abi_props_v8 *p = props;
	struct doppel_device d;
	ncclResult_t rc = doppel_describe(dev, &d);

	memset(p, 0, sizeof *p);
	DOPPEL_FILL(p, &d);
	return rc;
}

static ncclResult_t doppel_props_v9(int dev, void *props)
{
	struct net_abi_props_v9 *p = props;
	struct doppel_device d;
	ncclResult_t rc = doppel_describe(dev, &d);

	memset(p, 0, sizeof *p);
	DOPPEL_FILL(p, &d);
	p->force_flush = d.props.always_flush;
	p->devices.count = d.nic.count;
	memcpy(p->devices.dev, d.nic.dev, sizeof p->devices.dev);
	p->max_p2p_bytes = p->max_coll_bytes = DOPPEL_MOST_BYTES;
	return rc;
}

static ncclResult_t doppel_props_v11(int dev, void *props)
{
	struct net_abi_props_v11 *p = props;

	memset(p, 0, sizeof *p);
	p->max_multi_request = 1;
	return doppel_props_v9(dev, &p->v9);
}

static ncclResult_t doppel_props_v12(int dev, void *props)
{
	struct net_abi_props_v12 *p = props;
	struct doppel_device d;
	ncclResult_t rc = doppel_describe(dev, &d);

	memset(p, 0, sizeof *p);
	DOPPEL_FILL(p, &d);
	p->force_flush = d.props.always_flush;
	p->devices.count = d.nic.count;
	memcpy(p->devices.dev, d.nic.dev, sizeof d.nic.dev);
	p->max_p2p_bytes = p->max_coll_bytes = DOPPEL_MOST_BYTES;
	p->max_multi_request = 1;
	p->rail = p->plane = NET_ABI_UNDEFINED;
	return rc;
}

static ncclResult_t doppel_merge(int *dev, const int *devices, int count)
{
	struct doppel_net *s = doppel_state();
	struct net_nic nic = {.count = count};
	ncclResult_t rc = ncclInvalidUsage;

	if (count < 1 || count > s->ops->merged) {
		WARN("NET/Doppel: %d devices to merge, expected 1 to %d", count, s->ops->merged);
		return ncclInvalidUsage;
	}
	for (int i = 0; i < count; i++) {
		nic.dev[i] = devices[i];
		if (devices[i] >= 0 && devices[i] < s->ndevs)
			continue;
		WARN("NET/Doppel: device %d to merge, expected 0 to %d", devices[i], s->ndevs - 1);
		return ncclInvalidArgument;
	}
	os_mutex_lock(&s->lock);
	if (s->ndevs + s->nmerged < DOPPEL_DEVICES) {
		*dev = s->ndevs + s->nmerged;
		s->merged[s->nmerged++] = nic;
		rc = ncclSuccess;
	}
	os_mutex_unlock(&s->lock);
	if (rc)
		WARN("NET/Doppel: more than %d devices", DOPPEL_DEVICES);
	return rc;
}

static ncclResult_t doppel_make_device_v9(int *dev, void *devices)
{
	const struct net_abi_devices *d = devices;

	return doppel_merge(dev, d->dev, d->count);
}

static ncclResult_t doppel_make_device_v12(int *dev, void *devices)
{
	const struct net_abi_devices_v12 *d = devices;

	return doppel_merge(dev, d->dev, d->count);
}

/* ---- the tables ------------------------------------------------------------------------------ */

#define DOPPEL_TABLE(number, ...)                                                                  \
	const struct net_abi ncclNetPlugin_v##number = {.name = "Doppel",                          \
							.devices = doppel_devices,                 \
							.accept = doppel_accept,                   \
							.reg_mr = doppel_reg_mr,                   \
							.dereg_mr = doppel_dereg_mr,               \
							.iflush = doppel_iflush,                   \
							.test = doppel_test,                       \
							.close_send = doppel_close_send,           \
							.close_recv = doppel_close_recv,           \
							.close_listen = doppel_close_listen,       \
							__VA_ARGS__}

extern const struct net_abi ncclNetPlugin_v8, ncclNetPlugin_v9, ncclNetPlugin_v10,
	ncclNetPlugin_v11, ncclNetPlugin_v12;

DOPPEL_TABLE(8, .init.v8 = doppel_init_v8, .props = doppel_props_v8, .listen.v8 = doppel_listen,
	     .connect.v8 = doppel_connect, .isend.v8 = doppel_isend_v8,
	     .irecv.v8 = doppel_irecv_v8);
DOPPEL_TABLE(9, .init.v8 = doppel_init_v8, .props = doppel_props_v9, .listen.v8 = doppel_listen,
	     .connect.v8 = doppel_connect, .isend.v9 = doppel_isend_v9, .irecv.v9 = doppel_irecv_v9,
	     .make_device = doppel_make_device_v9);
DOPPEL_TABLE(10, .init.v10 = doppel_init_v10, .props = doppel_props_v9, .listen.v8 = doppel_listen,
	     .connect.v10 = doppel_connect_v10, .isend.v10 = doppel_isend_v10,
	     .irecv.v10 = doppel_irecv_v10, .make_device = doppel_make_device_v9);
DOPPEL_TABLE(11, .init.v11 = doppel_init_v11, .props = doppel_props_v11,
	     .listen.v11 = doppel_listen_v11, .connect.v11 = doppel_connect_v11,
	     .isend.v10 = doppel_isend_v10, .irecv.v10 = doppel_irecv_v10,
	     .make_device = doppel_make_device_v9, .finalize = doppel_finalize);
DOPPEL_TABLE(12, .init.v11 = doppel_init_v11, .props = doppel_props_v12,
	     .listen.v11 = doppel_listen_v11, .connect.v11 = doppel_connect_v11,
	     .isend.v10 = doppel_isend_v10, .irecv.v10 = doppel_irecv_v10,
	     .make_device = doppel_make_device_v12, .finalize = doppel_finalize);
