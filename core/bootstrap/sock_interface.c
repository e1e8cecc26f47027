/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selects the host's interfaces that the stack uses: NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/bootstrap/sock.h"

bool sock_ifname_matches(const char *list, const char *name)
{
	if (!list || !*list)
		return true;
	bool others = *list == '^';
	list += others;
	bool exact = *list == '=';
	list += exact;
	bool found = false, any = false;
	while (*list && !found) {
		size_t n = strcspn(list, ","), k = MIN_OF(n, strcspn(list, ":"));
		any |= k > 0;
		found = k && strncmp(list, name, k) == 0 && (!exact || name[k] == '\0');
		list += n;
		list += *list == ',';
	}
	return (found || !any) != others;
}

static bool sock_addr_is_loopback(const struct os_addr *a)
{
	static const uint8_t six[16] = {[15] = 1};
	return a->family == 4 ? a->ip[0] == 127 : memcmp(a->ip, six, sizeof six) == 0;
}

/* Kinds of interfaces in NCCL's order of preference. Bridges of containers and VMs have the same
 * address on every host, so a peer that connects to one reaches itself. */
enum sock_ifname_kind { SOCK_IB, SOCK_ANY, SOCK_DOCKER, SOCK_LOOPBACK, SOCK_VIRBR, SOCK_NONE };

static bool sock_ifname_begins(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Returns the kind of an interface. The list alone selects among its interfaces, except for
 * loopback. */
static enum sock_ifname_kind sock_ifname_kind(const char *list, const char *name,
					      const struct os_addr *a)
{
	if (!sock_ifname_matches(list, name))
		return SOCK_NONE;
	if (sock_addr_is_loopback(a))
		return SOCK_LOOPBACK;
	if (list)
		return SOCK_ANY;
	if (sock_ifname_begins(name, "docker"))
		return SOCK_DOCKER;
	if (sock_ifname_begins(name, "virbr"))
		return SOCK_VIRBR;
	return sock_ifname_begins(name, "ib") ? SOCK_IB : SOCK_ANY;
}

/* Adds an interface with one address: the first that the system lists. */
static void sock_interface_add(struct sock_interface out[SOCK_INTERFACES], int *count,
			       const char *name, const struct os_addr *addr)
{
	if (*count == SOCK_INTERFACES)
		return;
	for (int i = 0; i < *count; i++)
		if (strcmp(out[i].name, name) == 0)
			return;
	struct sock_interface *i = &out[(*count)++];
	/* Sent to other ranks: all bytes are defined. */
	*i = (struct sock_interface){.addr = *addr};
	i->addr.port = 0;
	snprintf(i->name, sizeof i->name, "%.31s", name);
}

ncclResult_t sock_interfaces(struct sock_interface out[SOCK_INTERFACES], int *count)
{
	const char *set = param_str(PARAM_SOCKET_IFNAME);
	/* A single character counts as unset, as in NCCL. */
	const char *list = set && set[0] && set[1] ? set : NULL;
	const uint16_t family = sock_family_wanted();
	enum sock_ifname_kind best = SOCK_NONE;
	struct os_addr a;
	char name[64];

	*count = 0;
	for (int i = 0; os_interface(i, name, sizeof name, &a) == 0; i++) {
		enum sock_ifname_kind kind = sock_ifname_kind(list, name, &a);

		if (kind > best || kind == SOCK_NONE || (family && a.family != family))
			continue;
		if (kind < best)
			*count = 0;
		best = kind;
		sock_interface_add(out, count, name, &a);
	}
	if (*count)
		return ncclSuccess;
	WARN("no network interface%s%s%s%s", list ? " matches NCCL_SOCKET_IFNAME=" : "",
	     list ? list : "", family ? " with an address of NCCL_SOCKET_FAMILY=" : "",
	     family ? param_str(PARAM_SOCKET_FAMILY) : "");
	return ncclInvalidUsage;
}

ncclResult_t sock_addr_own(struct os_addr *addr)
{
	struct sock_interface found[SOCK_INTERFACES];
	int count;
	ncclResult_t rc = sock_interfaces(found, &count);

	if (!rc)
		*addr = found[0].addr;
	return rc;
}
