/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files in which Linux shows HCAs: /dev/infiniband, and below /sys a device under its PCI
 * function (verbs_pci.c) with links to it in class/infiniband and class/infiniband_verbs. They show
 * the HCAs of one host of a world. All values are queried through verbs: files and calls agree.
 * Counters are 0 here; programs on the HCAs raise them (backends/fakeverbs/fabric/counters_sys.h).
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "backends/fakeverbs/fabric/counters_sys.h"
#include "dropin/ibverbs/dropin.h"
#include "backends/hca_counters.h"
#include "dropin/cli/verbs_sys.h"

#define SYS_HCAS  "/sys/class/infiniband"
#define SYS_VERBS "/sys/class/infiniband_verbs"
#define SYS_NODES "/dev/infiniband"

void sys_path(char out[SYS_PATH], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(out, SYS_PATH, fmt, ap);
	va_end(ap);
	ASSERT(n < SYS_PATH);
}

/* Ranks an interface as the network device of a port. Programs read an address from it (pyverbs,
 * UCX), which the connection manager uses as the HCA's. */
static int sys_netdev_rank(const struct ifaddrs *i)
{
	int rank = 1;

	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
		return 0;
	if (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6)
		return 0;
	rank += i->ifa_flags & IFF_LOOPBACK ? 0 : 2;
	return rank + (i->ifa_addr->sa_family == AF_INET ? 1 : 0);
}

/* Chooses a network device that the program can see: the first one that is up and has an address.
 * The loopback is the last choice. */
static void sys_netdev(struct sys_fill *f)
{
	struct ifaddrs *all = NULL;
	int best = 0;

	snprintf(f->netdev, sizeof f->netdev, "lo");
	if (getifaddrs(&all))
		return;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		int rank = sys_netdev_rank(i);

		if (rank <= best)
			continue;
		best = rank;
		snprintf(f->netdev, sizeof f->netdev, "%s", i->ifa_name);
	}
	freeifaddrs(all);
}

void sys_failed(struct sys_fill *f, const char *path)
{
	if (!f->rc) {
		f->rc = errno;
		fprintf(stderr, "doppel verbs-run: %s: %s\n", path, strerror(errno));
	}
}

void sys_folder(struct sys_fill *f, const char *dir, const char *name)
{
	char path[SYS_PATH];

	sys_path(path, "%s/%s", dir, name);
	if (mkdir(path, 0755) && errno != EEXIST)
		sys_failed(f, path);
}

void sys_file(struct sys_fill *f, const char *dir, const char *name, const char *fmt, ...)
{
	char path[SYS_PATH];
	va_list ap;

	sys_path(path, "%s/%s", dir, name);
	FILE *out = fopen(path, "we");

	if (!out) {
		sys_failed(f, path);
		return;
	}
	va_start(ap, fmt);
	vfprintf(out, fmt, ap);
	va_end(ap);
	fputc('\n', out);
	if (fclose(out))
		sys_failed(f, path);
}

static void sys_empty(struct sys_fill *f, const char *dir, const char *name)
{
	char path[SYS_PATH];

	sys_path(path, "%s/%s", dir, name);
	if (mknod(path, S_IFREG | 0644, 0))
		sys_failed(f, path);
}

/* Makes a link. Replaces an existing one, which is the real machine's. */
void sys_link(struct sys_fill *f, const char *dir, const char *name, const char *target)
{
	char path[SYS_PATH];

	sys_path(path, "%s/%s", dir, name);
	if (symlink(target, path) && (errno != EEXIST || unlink(path) || symlink(target, path)))
		sys_failed(f, path);
}

static void sys_guid_file(struct sys_fill *f, const char *dir, const char *name, uint64_t guid)
{
	guid = be64toh(guid);
	sys_file(f, dir, name, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48),
		 (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
		 (unsigned)guid & 0xffff);
}

/* ---- a port --------------------------------------------------------------------------------- */

static void sys_gids(struct sys_fill *f, struct ibv_context *ctx, uint8_t port, int count,
		     const char *dir)
{
	char gids[SYS_PATH], types[SYS_PATH], ndevs[SYS_PATH], name[16];

	sys_folder(f, dir, "gids");
	sys_folder(f, dir, "gid_attrs");
	sys_folder(f, dir, "gid_attrs/types");
	sys_folder(f, dir, "gid_attrs/ndevs");
	sys_path(gids, "%s/gids", dir);
	sys_path(types, "%s/gid_attrs/types", dir);
	sys_path(ndevs, "%s/gid_attrs/ndevs", dir);
	for (int i = 0; i < count; i++) {
		struct ibv_gid_entry e = {0};
		bool used = ibv_query_gid_ex(ctx, port, (uint32_t)i, &e, 0) == 0;
		const uint8_t *g = e.gid.raw;

		snprintf(name, sizeof name, "%d", i);
		sys_file(f, gids, name,
			 "%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x",
			 g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8], g[9], g[10], g[11],
			 g[12], g[13], g[14], g[15]);
		if (!used) /* in sysfs, reading the type of an unused entry is an error, too */
			continue;
		sys_file(f, types, name, "%s",
			 e.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
		if (e.gid_type != IBV_GID_TYPE_IB)
			sys_file(f, ndevs, name, "%s", f->netdev);
	}
}

static void sys_pkeys(struct sys_fill *f, struct ibv_context *ctx, uint8_t port, int count,
		      const char *dir)
{
	char pkeys[SYS_PATH], name[16];

	sys_folder(f, dir, "pkeys");
	sys_path(pkeys, "%s/pkeys", dir);
	for (int i = 0; i < count; i++) {
		__be16 pkey = 0;

		if (ibv_query_pkey(ctx, port, i, &pkey))
			break;
		snprintf(name, sizeof name, "%d", i);
		sys_file(f, pkeys, name, "0x%04x", be16toh(pkey));
	}
}

static void sys_counters(struct sys_fill *f, const char *dir, uint32_t port)
{
	const struct hca_counter_file *file = hca_counter_files(port);

	for (; file->path; file++) {
		char folder[32];

		snprintf(folder, sizeof folder, "%.*s", (int)(strchr(file->path, '/') - file->path),
			 file->path);
		sys_folder(f, dir, folder);
		sys_file(f, dir, file->path, "0");
	}
	sys_file(f, dir, "hw_counters/lifespan", "%d", COUNTERS_LIFESPAN_MS);
	sys_empty(f, dir, COUNTERS_RECORD);
}

static void sys_rate(struct sys_fill *f, const char *dir, const struct ibv_port_attr *a)
{
	static const struct {
		int speed;
		double gbps;
		const char *name;
	} speeds[] = {{1, 2.5, "SDR"}, {2, 5, "DDR"},   {4, 10, "QDR"},  {8, 10, "FDR10"},
		      {16, 14, "FDR"}, {32, 25, "EDR"}, {64, 50, "HDR"}, {128, 100, "NDR"}};
	int lanes = a->active_width == 2   ? 4
		    : a->active_width == 4 ? 8
		    : a->active_width == 8 ? 12
					   : 1;

	for (size_t i = 0; i < sizeof speeds / sizeof speeds[0]; i++)
		if (speeds[i].speed == a->active_speed)
			sys_file(f, dir, "rate", "%g Gb/sec (%dX %s)", lanes * speeds[i].gbps,
				 lanes, speeds[i].name);
}

static void sys_port(struct sys_fill *f, struct ibv_context *ctx, uint8_t port, const char *device,
		     const struct world_port *at)
{
	static const char *const states[] = {"NOP",   "DOWN",   "INIT",
					     "ARMED", "ACTIVE", "ACTIVE_DEFER"};
	struct ibv_port_attr a;
	char dir[SYS_PATH];

	if (ibv_query_port(ctx, port, &a)) {
		sys_failed(f, device);
		return;
	}
	sys_path(dir, "%s/ports/%u", device, port);
	sys_folder(f, dir, "");
	sys_file(f, dir, "state", "%d: %s", a.state, states[a.state <= 5 ? a.state : 0]);
	sys_file(f, dir, "phys_state", "%d: %s", a.phys_state,
		 a.phys_state == 5 ? "LinkUp" : "Disabled");
	sys_file(f, dir, "link_layer", "%s",
		 a.link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet");
	sys_file(f, dir, "lid", "0x%x", a.lid);
	sys_file(f, dir, "sm_lid", "0x%x", a.sm_lid);
	sys_file(f, dir, "sm_sl", "%u", a.sm_sl);
	sys_file(f, dir, "lid_mask_count", "%u", a.lmc);
	sys_file(f, dir, "cap_mask", "0x%08x", a.port_cap_flags);
	sys_rate(f, dir, &a);
	sys_gids(f, ctx, port, a.gid_tbl_len, dir);
	sys_pkeys(f, ctx, port, a.pkey_tbl_len, dir);
	sys_counters(f, dir, at->index);
}

/* ---- a device ------------------------------------------------------------------------------- */

/* Makes /dev/infiniband/NAME, which can be opened and is a character device. Programs check nothing
 * else. */
static void sys_node(struct sys_fill *f, const char *name)
{
	char path[SYS_PATH];

	sys_path(path, SYS_NODES "/%s", name);
	if (mknod(path, S_IFCHR | 0666, makedev(1, 3)) == 0) {
		if (access(path, R_OK | W_OK) == 0 && chmod(path, 0666) == 0) {
			int fd = open(path, O_RDWR | O_CLOEXEC);

			if (fd >= 0) {
				close(fd);
				return;
			}
		}
		unlink(path); /* nodes may not be opened here */
	}
	if (mknod(path, S_IFREG | 0666, 0) || mount("/dev/null", path, NULL, MS_BIND, NULL))
		sys_failed(f, path);
}

/* Makes the folder of a class device below its PCI function, and the class's link to it. */
static void sys_class_device(struct sys_fill *f, const char *function, const char *class,
			     const char *name, char dir[SYS_PATH])
{
	char link[SYS_PATH], to[SYS_PATH];

	sys_folder(f, function, class);
	sys_path(dir, "%s/%s", function, class);
	sys_folder(f, dir, name);
	sys_path(dir, "%s/%s/%s", function, class, name);
	sys_path(link, "/sys/class/%s", class);
	sys_path(to, "../../%s", dir + strlen("/sys/"));
	sys_link(f, link, name, to);
	sys_path(to, "/sys/class/%s", class);
	sys_link(f, dir, "subsystem", to);
	if (!strcmp(function, SYS_VIRTUAL))
		return;
	sys_path(to, "../../../%s", strrchr(function, '/') + 1);
	sys_link(f, dir, "device", to);
}

static void sys_verbs_class(struct sys_fill *f, const struct ibv_device *d, const char *function,
			    const char *ibdev)
{
	char dir[SYS_PATH];

	sys_class_device(f, function, "infiniband_verbs", d->dev_name, dir);
	sys_file(f, dir, "ibdev", "%s", ibdev);
	sys_file(f, dir, "dev", "1:3");
	sys_file(f, dir, "uevent", "MAJOR=1\nMINOR=3\nDEVNAME=infiniband/%s\nDEVMODE=0666",
		 d->dev_name);
	sys_file(f, dir, "abi_version", "1");
}

static void sys_hca(struct sys_fill *f, struct ibv_device *d, struct ibv_context *ctx,
		    const struct ibv_device_attr *a, const struct world_port *at)
{
	const char *name = ibv_get_device_name(d);
	char function[SYS_PATH], dir[SYS_PATH];

	verbs_pci_fill(f, at->nic, a, function);
	sys_class_device(f, function, "infiniband", name, dir);
	sys_file(f, dir, "uevent", "NAME=%s", name);
	sys_file(f, dir, "node_type", "1: CA");
	sys_file(f, dir, "node_desc", "%s", name);
	sys_file(f, dir, "fw_ver", "%s", a->fw_ver);
	sys_file(f, dir, "hca_type", "MT%u", a->vendor_part_id);
	sys_file(f, dir, "hw_rev", "%u", a->hw_ver);
	sys_file(f, dir, "board_id", "DOPPEL0000001");
	sys_guid_file(f, dir, "node_guid", a->node_guid);
	sys_guid_file(f, dir, "sys_image_guid", a->sys_image_guid);
	sys_folder(f, dir, "ports");
	for (uint8_t port = 1; port <= a->phys_port_cnt; port++)
		sys_port(f, ctx, port, dir, at);
	sys_verbs_class(f, d, function, name);
	sys_node(f, d->dev_name);
}

static const struct world_port *sys_world_port(const char *name)
{
	uint32_t host = os_proc()->host;
	const struct world_machine *m = world_host_machine(host);

	for (int32_t i = 0; i < m->nic_count; i++)
		if (!strcmp(m->nic[i].name, name))
			return world_port_of(host, i);
	return NULL;
}

static void sys_device(struct sys_fill *f, struct ibv_device *d)
{
	struct ibv_context *ctx = ibv_open_device(d);
	const struct world_port *at = sys_world_port(ibv_get_device_name(d));
	struct ibv_device_attr a;

	if (!ctx || !at || ibv_query_device(ctx, &a))
		sys_failed(f, ibv_get_device_name(d));
	else
		sys_hca(f, d, ctx, &a, at);
	if (ctx)
		ibv_close_device(ctx);
}

static void sys_main(void *arg)
{
	struct sys_fill *f = arg;
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	sys_file(f, SYS_VERBS, "abi_version", "6");
	for (int i = 0; i < count; i++)
		sys_device(f, list[i]);
	if (list)
		ibv_free_device_list(list);
}

int verbs_sys_fill(void)
{
	const char *machine = getenv("DOPPEL_MACHINE"), *host = getenv("DOPPEL_HOST");
	struct sys_fill f = {.rc = 0};
	const struct world_config c = {.hosts = DROPIN_HOSTS,
				       .machine = machine && *machine ? machine : DROPIN_MACHINE};
	const struct sim_config e = {.engine = SIM_ENGINE_SIM, .strategy = SIM_FIFO};
	unsigned long on = host ? strtoul(host, NULL, 10) : 0;

	umask(0);
	sys_netdev(&f);
	if (on >= DROPIN_HOSTS || sim_start(&e))
		return EINVAL;
	if (world_create(&c))
		return EINVAL;
	sim_main_proc()->host = (uint32_t)on;
	if (sim_run(sys_main, &f) != SIM_PASS)
		return EIO;
	return f.rc;
}
