/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NICs: their place in /sys, and their attributes. Like in NCCL, two kinds of devices are put below
 * the first CPU: devices that are not PCI functions (virtual, or on another bus), and devices that
 * /sys lacks.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/topo/detect/detect_internal.h"

#define DETECT_HCAS       "/sys/class/infiniband"
#define DETECT_INTERFACES "/sys/class/net"

/* NCCL's limits of connections for an HCA and for a socket. */
#define DETECT_RDMA_CONNS   131072
#define DETECT_SOCKET_CONNS 65536
#define DETECT_SPEED        10000u /* Mb/s of an interface without a known speed */

/* ---- place ---------------------------------------------------------------------------------- */

static bool detect_name_is_plain(const char *name)
{
	return name[0] && name[0] != '.' && !strchr(name, '/');
}

/* Finds the address of the PCI function that the link DIR/NAME leads to. */
static bool detect_link(struct detect_tree *t, const char *dir, const char *name, char bus_id[24])
{
	char path[OS_PATH_BYTES], real[OS_PATH_BYTES];
	if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
		return false;
	int e = os_real_path(path, real);
	t->failed |= e == ENOMEM;
	const char *last = e ? NULL : strrchr(real, '/');
	if (!last || !detect_is_bus_id(last + 1))
		return false;
	snprintf(bus_id, 24, "%.23s", last + 1);
	return true;
}

/* Replaces a function by its card: the physical function of a virtual one, and function 0 of that.
 * They share its PCI link. */
static void detect_card(struct detect_tree *t, const char *device, char bus_id[24])
{
	char path[OS_PATH_BYTES], card[24];
	(void)detect_link(t, device, "physfn", bus_id);
	memcpy(card, bus_id, sizeof card);
	size_t n = strlen(card);
	if (card[n - 1] == '0')
		return;
	card[n - 1] = '0';
	if (detect_pci_path(t, card, path))
		memcpy(bus_id, card, sizeof card);
}

static bool detect_nic_place(struct detect_tree *t, const struct topo_detect_nic *nic,
			     char bus_id[24])
{
	char dir[96], path[OS_PATH_BYTES];
	if (detect_is_bus_id(nic->bus_id) && detect_pci_path(t, nic->bus_id, path)) {
		memcpy(bus_id, nic->bus_id, sizeof nic->bus_id);
		return true;
	}
	if (!detect_name_is_plain(nic->name))
		return false;
	snprintf(dir, sizeof dir, "%s/%s", nic->rdma ? DETECT_HCAS : DETECT_INTERFACES, nic->name);
	if (!detect_link(t, dir, "device", bus_id))
		return false;
	if (nic->rdma) {
		snprintf(dir, sizeof dir, DETECT_HCAS "/%s/device", nic->name);
		detect_card(t, dir, bus_id);
	}
	return true;
}

/* ---- element -------------------------------------------------------------------------------- */

/* Returns the port's element if a file has it already, or NULL. */
static struct detect_node *detect_net_known(struct detect_tree *t,
					    const struct topo_detect_nic *nic)
{
	char port[16];
	snprintf(port, sizeof port, "%d", nic->port);
	struct detect_node *net = detect_find(t->root, "net", "name", nic->name);
	const char *has = net ? detect_get(net, "port") : NULL;
	return net && (!has || strcmp(has, port) == 0) ? net : NULL;
}

/* Returns the NIC's PCI function. NULL: no such function, or a bridge, which is not a NIC. */
static struct detect_node *detect_nic_function(struct detect_tree *t, uint64_t host_hash,
					       const struct topo_detect_nic *nic)
{
	char bus_id[24], path[OS_PATH_BYTES], class[DETECT_TEXT_BYTES];
	if (!detect_nic_place(t, nic, bus_id))
		return NULL;
	if (detect_pci_path(t, bus_id, path) && detect_read(t, path, "class", class) &&
	    strncmp(class, "0x06", 4) == 0)
		return NULL;
	struct detect_node *n = detect_pci(t, host_hash, bus_id);
	detect_set(t, n, "class", "0x020000");
	return n;
}

static struct detect_node *detect_net_new(struct detect_tree *t, uint64_t host_hash,
					  const struct topo_detect_nic *nic)
{
	struct detect_node *above = detect_nic_function(t, host_hash, nic), *card;
	if (!above)
		above = detect_child(t->root, "cpu");
	if (!above)
		above = detect_cpu(t, host_hash, -1);
	card = detect_child(above, "nic");
	if (!card)
		card = detect_node_add(t, above, "nic");
	struct detect_node *net = detect_node_add(t, card, "net");
	detect_set(t, net, "name", nic->name);
	return net;
}

void detect_nic(struct detect_tree *t, uint64_t host_hash, const struct topo_detect_nic *nic)
{
	struct detect_node *net = detect_net_known(t, nic);
	if (!net)
		net = detect_net_new(t, host_hash, nic);
	detect_setf(t, net, "dev", "%d", nic->dev);
	detect_set(t, net, "latency", "0");
	detect_setf(t, net, "speed", "%u", nic->mbit);
	detect_setf(t, net, "port", "%d", nic->port);
	if (nic->guid || !nic->rdma) /* HCAs with the same number would count as one card. */
		detect_setf(t, net, "guid", "0x%" PRIx64, nic->guid);
	detect_setf(t, net, "maxconn", "%d", nic->rdma ? DETECT_RDMA_CONNS : DETECT_SOCKET_CONNS);
	detect_set(t, net, "gdr", nic->gdr ? "1" : "0");
	if (nic->coll)
		detect_set(t, net, "coll", "1");
	detect_set(t, net, "keep", "1");
}

/* ---- the NICs of a host --------------------------------------------------------------------- */

struct detect_list {
	struct topo_detect_nic *nic;
	int32_t count, most;
	bool peer_memory;
};

/* Converts "400 Gb/sec (4X NDR)" or "2.5 Gb/sec" to Mb/s. */
static uint32_t detect_rate(const char *text)
{
	char *end;
	long whole = strtol(text, &end, 10), tenth = 0;
	if (end == text || whole < 0 || whole >= 100000)
		return DETECT_SPEED;
	if (end[0] == '.' && end[1] >= '0' && end[1] <= '9')
		tenth = end[1] - '0';
	return whole || tenth ? (uint32_t)(whole * 1000 + tenth * 100) : DETECT_SPEED;
}

/* Converts "b8ce:f603:00d2:1a4c" to a number. */
static uint64_t detect_guid(const char *text)
{
	uint64_t guid = 0;
	for (; *text; text++) {
		const char *digits = "0123456789abcdef", *at = strchr(digits, *text);
		if (at)
			guid = guid << 4 | (uint64_t)(at - digits);
	}
	return guid;
}

static struct topo_detect_nic *detect_list_add(struct detect_list *l, const char *name)
{
	struct topo_detect_nic *nic = &l->nic[l->count];
	if (l->count == l->most || strlen(name) >= sizeof nic->name || !detect_name_is_plain(name))
		return NULL;
	memset(nic, 0, sizeof *nic);
	snprintf(nic->name, sizeof nic->name, "%s", name);
	nic->dev = l->count++;
	return nic;
}

static void detect_port(struct detect_list *l, struct detect_tree *t, const char *hca,
			const char *port)
{
	char dir[160], text[DETECT_TEXT_BYTES], *end;
	long number = strtol(port, &end, 10);
	if (*end || number < 1 || number > 255)
		return;
	snprintf(dir, sizeof dir, DETECT_HCAS "/%.31s/ports/%ld", hca, number);
	if (!detect_read(t, dir, "state", text) || strncmp(text, "4", 1) != 0)
		return;
	struct topo_detect_nic *nic = detect_list_add(l, hca);
	if (!nic)
		return;
	nic->port = (int32_t)number;
	nic->rdma = true;
	nic->gdr = l->peer_memory;
	nic->mbit = detect_rate(detect_read(t, dir, "rate", text) ? text : "");
	snprintf(dir, sizeof dir, DETECT_HCAS "/%.31s", hca);
	nic->guid = detect_guid(detect_read(t, dir, "sys_image_guid", text) ? text : "");
}

static void detect_hca(struct detect_list *l, struct detect_tree *t, const char *hca)
{
	char dir[160], *names;
	int count;
	if (!detect_name_is_plain(hca) || strlen(hca) > 31)
		return;
	snprintf(dir, sizeof dir, DETECT_HCAS "/%s/ports", hca);
	if (os_dir_list(dir, &names, &count))
		return;
	const char *port = names;
	for (int i = 0; i < count; i++, port += strlen(port) + 1)
		detect_port(l, t, hca, port);
	os_free(names);
}

static void detect_interface(struct detect_list *l, struct detect_tree *t, const char *name)
{
	char dir[160], text[DETECT_TEXT_BYTES];
	if (strcmp(name, "lo") == 0 || strlen(name) > 31)
		return;
	snprintf(dir, sizeof dir, DETECT_INTERFACES "/%s", name);
	if (!detect_read(t, dir, "operstate", text) || strcmp(text, "up") != 0)
		return;
	struct topo_detect_nic *nic = detect_list_add(l, name);
	if (!nic)
		return;
	long mbit = detect_read(t, dir, "speed", text) ? strtol(text, NULL, 10) : 0;
	nic->mbit = mbit > 0 && mbit < 100000000 ? (uint32_t)mbit : DETECT_SPEED;
}

static void detect_each(struct detect_list *l, struct detect_tree *t, const char *dir,
			void (*each)(struct detect_list *, struct detect_tree *, const char *))
{
	char *names;
	int count;
	if (os_dir_list(dir, &names, &count))
		return;
	const char *name = names;
	for (int i = 0; i < count; i++, name += strlen(name) + 1)
		each(l, t, name);
	os_free(names);
}

int32_t topo_detect_nics(struct topo_detect_nic *nic, int32_t most)
{
	struct detect_list l = {.nic = nic, .most = most};
	struct detect_tree t = {0}; /* only for the read functions' error flags */
	char text[DETECT_TEXT_BYTES];
	l.peer_memory = detect_read(&t, "/sys/module/nvidia_peermem", "version", text) ||
			detect_read(&t, "/sys/kernel/mm/memory_peers/nv_mem", "version", text);
	detect_each(&l, &t, DETECT_HCAS, detect_hca);
	if (!l.count)
		detect_each(&l, &t, DETECT_INTERFACES, detect_interface);
	return l.count;
}
