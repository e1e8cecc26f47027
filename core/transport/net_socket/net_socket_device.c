/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices: the host's interfaces. Their speed and the vendor of their card come from the kernel's
 * /sys. NCCL uses the vendor to recognise clouds whose networks limit a single stream.
 */
#include <stdlib.h>

#include "core/transport/net_socket/net_socket_internal.h"

#define NET_SOCKET_SPEED_MBPS 10000u /* of an interface that reports none, as in NCCL */
#define NET_SOCKET_VENDOR_AWS 0x1d0fu
#define NET_SOCKET_VENDOR_GCP 0x1ae0u

/* Returns the number in a file of the interface; `unknown`: it has no number. */
static long net_socket_number(const char *name, const char *file, int base, long unknown)
{
	char path[96], *text, *end;
	size_t bytes;
	long n;

	snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, file);
	if (os_file_read(path, &text, &bytes))
		return unknown;
	n = strtol(text, &end, base);
	if (end == text || n <= 0)
		n = unknown;
	os_free(text);
	return n;
}

ncclResult_t net_socket_devices(struct ncclComm *comm, int *count)
{
	struct sock_interface found[SOCK_INTERFACES];
	struct net_socket_state *st = comm->net.state;
	ncclResult_t rc = ncclSuccess;

	if (!st) {
		rc = sock_interfaces(found, count);
		st = rc ? NULL : os_alloc(sizeof *st, "net_socket state");
		if (!rc && !st)
			WARN("NET/Socket: no memory for the list of interfaces");
		if (!st)
			return rc ? rc : ncclSystemError;
		for (int i = 0; i < *count; i++) {
			struct net_socket_dev *d = &st->dev[st->ndevs++];

			memcpy(d->name, found[i].name, sizeof d->name);
			d->addr = found[i].addr;
			d->state = st;
			d->speed_mbps = (uint32_t)net_socket_number(d->name, "speed", 10,
								    NET_SOCKET_SPEED_MBPS);
		}
		comm->net.state = st;
		INFO(LOG_INIT | LOG_NET, "NET/Socket: rank %d uses %s and %d more interfaces",
		     comm->rank, st->dev[0].name, st->ndevs - 1);
	}
	*count = st->ndevs;
	return ncclSuccess;
}

ncclResult_t net_socket_props(struct ncclComm *comm, int dev, struct net_props *p)
{
	const struct net_socket_dev *d = net_socket_dev(comm, dev);

	memset(p, 0, sizeof *p);
	snprintf(p->name, sizeof p->name, "%s", d->name);
	p->guid = (uint64_t)dev;
	p->speed_mbps = d->speed_mbps;
	return ncclSuccess;
}

/* Values that the variables leave open depend on the vendor of the interface's card. */
void net_socket_shape(const struct net_socket_dev *d, uint32_t *lanes, uint32_t *tasks)
{
	int64_t threads = param_i64(PARAM_SOCKET_NTHREADS);
	int64_t sockets = param_i64(PARAM_NSOCKS_PERTHREAD);
	long vendor = 0;

	if (threads < 0 || sockets < 0)
		vendor = net_socket_number(d->name, "device/vendor", 16, 0);
	if (threads < 0)
		threads = vendor == NET_SOCKET_VENDOR_AWS   ? 2
			  : vendor == NET_SOCKET_VENDOR_GCP ? 4
							    : 0;
	if (sockets <= 0)
		sockets = vendor == NET_SOCKET_VENDOR_AWS ? 8 : 1;
	*tasks = threads > 1 ? (uint32_t)threads : 0;
	*lanes = (uint32_t)(MAX_OF(threads, 1) * sockets);
	while (*lanes > NET_SOCKET_LANES)
		*lanes = (uint32_t)(MAX_OF(threads, 1) * --sockets);
	if (*lanes == 1)
		*lanes = 0;
}

void net_socket_fini(struct ncclComm *comm)
{
	os_free(comm->net.state);
	comm->net.state = NULL;
}
