/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses the GID that is a port's address: NCCL_IB_GID_INDEX, or the one that fits
 * NCCL_IB_ADDR_FAMILY, NCCL_IB_ADDR_RANGE and NCCL_IB_ROCE_VERSION_NUM best. Without these
 * variables, an IPv4 address for RoCE v2 fits best.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/transport/net_verbs/net_verbs_internal.h"

/* The properties of the best entry. */
struct net_verbs_gid_wish {
	bool ipv6;
	enum ibv_gid_type type;
	uint8_t prefix[16];
	int prefix_bits; /* of 128 bits of a GID; 0: any GID */
};

static const uint8_t net_verbs_mapped[12] = {[10] = 0xff, [11] = 0xff};

static bool net_verbs_gid_is_ipv4(const union ibv_gid *gid)
{
	return !memcmp(gid->raw, net_verbs_mapped, sizeof net_verbs_mapped);
}

static bool net_verbs_gid_is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

static bool net_verbs_gid_in(const union ibv_gid *gid, const uint8_t *prefix, int bits)
{
	int bytes = bits / 8, rest = bits % 8;

	return !memcmp(gid->raw, prefix, (size_t)bytes) &&
	       (!rest || !((gid->raw[bytes] ^ prefix[bytes]) >> (8 - rest)));
}

/* Parses "10.0.0.0/8" or "fd00::/16". False: it is not a subnet of the family. */
static bool net_verbs_range_parse(const char *text, struct net_verbs_gid_wish *wish)
{
	char address[64], *end;
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : strlen(text);
	int most = wish->ipv6 ? 128 : 32, offset = 128 - most;

	if (n >= sizeof address)
		return false;
	memcpy(address, text, n);
	address[n] = '\0';
	memcpy(wish->prefix, net_verbs_mapped, sizeof net_verbs_mapped);
	if (inet_pton(wish->ipv6 ? AF_INET6 : AF_INET, address, wish->prefix + offset / 8) != 1)
		return false;
	long bits = slash ? strtol(slash + 1, &end, 10) : most;
	if (slash && (end == slash + 1 || *end))
		return false;
	if (bits < 0 || bits > most)
		return false;
	wish->prefix_bits = (int)bits + offset;
	return true;
}

static void net_verbs_gid_wish_read(struct net_verbs_gid_wish *wish)
{
	const char *family = param_str(PARAM_IB_ADDR_FAMILY);
	const char *range = param_str(PARAM_IB_ADDR_RANGE);

	memset(wish, 0, sizeof *wish);
	wish->type = param_i64(PARAM_IB_ROCE_VERSION_NUM) == 1 ? IBV_GID_TYPE_ROCE_V1
							       : IBV_GID_TYPE_ROCE_V2;
	wish->ipv6 = !strcmp(family, "AF_INET6");
	if (!range || net_verbs_range_parse(range, wish))
		return;
	WARN("NCCL_IB_ADDR_RANGE is '%s', expected an %s subnet such as %s; it is not used", range,
	     wish->ipv6 ? "IPv6" : "IPv4", wish->ipv6 ? "fd00::/16" : "10.0.0.0/8");
	wish->prefix_bits = 0;
}

/* Family and subnet count more than the version, and the version more than an address that is not
 * link-local. This is NCCL's order. Among equal entries the first one is taken. */
static int net_verbs_gid_rank(const struct ibv_gid_entry *e, const struct net_verbs_gid_wish *wish)
{
	bool family = net_verbs_gid_is_ipv4(&e->gid) != wish->ipv6;
	bool fits = family && net_verbs_gid_in(&e->gid, wish->prefix, wish->prefix_bits);

	return 4 * fits + 2 * (e->gid_type == (uint32_t)wish->type) +
	       !net_verbs_gid_is_link_local(&e->gid);
}

static void net_verbs_gid_choose(struct net_verbs_dev *d)
{
	struct net_verbs_gid_wish wish;
	int best = -1;

	net_verbs_gid_wish_read(&wish);
	for (int i = 0; i < d->attr.gid_tbl_len; i++) {
		struct ibv_gid_entry e;
		int rank;

		if (ibv_query_gid_ex(d->ctx, d->port, (uint32_t)i, &e, 0))
			continue; /* an empty entry */
		rank = net_verbs_gid_rank(&e, &wish);
		if (rank > best) {
			best = rank;
			d->gid = e.gid;
			d->gid_index = i;
			d->has_gid = true;
		}
	}
	if (d->has_gid && best < 4)
		INFO(LOG_NET, "NET/IB: %s port %u has no GID of the configured family and subnet",
		     d->name, d->port);
}

static bool net_verbs_gid_is_zero(const union ibv_gid *gid)
{
	static const union ibv_gid zero;

	return memcmp(gid, &zero, sizeof zero) == 0;
}

bool net_verbs_gid_renew(struct net_verbs_conn *c, uint32_t leg)
{
	struct net_verbs_leg *l = &c->leg[leg];
	struct net_verbs_dev now = *l->dev; /* other connections keep the device's */

	if (ibv_query_port(now.ctx, now.port, &now.attr) || now.attr.state != IBV_PORT_ACTIVE)
		return false;
	now.has_gid = false;
	if (net_verbs_gid_get(&now))
		return false;
	l->gid = now.gid;
	l->gid_index = now.gid_index;
	memcpy(c->mine.dev[leg].gid, now.gid.raw, sizeof now.gid);
	c->mine.dev[leg].lid = now.attr.lid;
	return true;
}

ncclResult_t net_verbs_gid_get(struct net_verbs_dev *d)
{
	int64_t wanted = param_i64(PARAM_IB_GID_INDEX);
	bool roce = d->attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	char text[INET6_ADDRSTRLEN] = "?";

	if (d->has_gid)
		return ncclSuccess;
	if (wanted < 0 && roce) {
		net_verbs_gid_choose(d);
	} else {
		d->gid_index = wanted < 0 ? 0 : (int)wanted;
		d->has_gid = d->gid_index < d->attr.gid_tbl_len &&
			     !ibv_query_gid(d->ctx, d->port, d->gid_index, &d->gid) &&
			     !net_verbs_gid_is_zero(&d->gid);
	}
	if (d->has_gid) {
		inet_ntop(AF_INET6, d->gid.raw, text, sizeof text);
		INFO(LOG_NET, "NET/IB: %s port %u uses GID %d: %s", d->name, d->port, d->gid_index,
		     text);
		return ncclSuccess;
	}
	if (wanted < 0)
		WARN("NET/IB: device %s port %u has no usable GID", d->name, d->port);
	else
		WARN("NET/IB: NCCL_IB_GID_INDEX is %d: device %s port %u has no GID there; its "
		     "table has %d entries",
		     (int)wanted, d->name, d->port, d->attr.gid_tbl_len);
	return ncclSystemError;
}
