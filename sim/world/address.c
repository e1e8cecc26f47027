/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of the world's sockets. A host has the interfaces that DOPPEL_INTERFACES lists
 * (default: eth0), and lo at 127.0.0.1 and ::1. The first interface has the address 10.x.y.1: x and
 * y are the host's index. The other interfaces have 2, 3... instead of 1. IPv6 addresses begin with
 * fd00:: and end with the same three bytes. A bridge (docker0, virbr0) has the same IPv4 address on
 * every host, and the address leads to the host itself.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/world/params.h"
#include "sim/world/world_stream.h"

/* Returns the two bytes of an address that hold the host's index: the two before the last byte. */
static uint8_t *addr_index(struct os_addr *a)
{
	return a->family == 6 ? a->ip + 13 : a->ip + 1;
}

static size_t addr_bytes(const struct os_addr *a)
{
	return a->family == 6 ? 16 : 4;
}

void addr_of_host(uint32_t host, uint16_t family, struct os_addr *a)
{
	memset(a, 0, sizeof *a);
	a->family = family;
	a->ip[0] = family == 6 ? 0xfd : 10;
	addr_index(a)[0] = (uint8_t)(host >> 8);
	addr_index(a)[1] = (uint8_t)host;
	addr_index(a)[2] = 1;
}

static void addr_of_loopback(uint16_t family, struct os_addr *a)
{
	memset(a, 0, sizeof *a);
	a->family = family;
	a->ip[0] = family == 6 ? 0 : 127;
	a->ip[addr_bytes(a) - 1] = 1;
}

bool addr_is_any(const struct os_addr *a)
{
	static const uint8_t any[16];

	return memcmp(a->ip, any, addr_bytes(a)) == 0;
}

bool addr_is_same(const struct os_addr *a, const struct os_addr *b)
{
	return a->family == b->family && memcmp(a->ip, b->ip, addr_bytes(a)) == 0;
}

static bool addr_is_loopback(const struct os_addr *a)
{
	struct os_addr lo;

	addr_of_loopback(a->family, &lo);
	return a->family == 4 ? a->ip[0] == 127 : addr_is_same(a, &lo);
}

struct addr_bridge {
	const char *name;
	uint8_t ip[4];
};

static const struct addr_bridge addr_bridges[] = {
	{"docker0", {172, 17, 0, 1}},
	{"virbr0", {192, 168, 122, 1}},
};

static const struct addr_bridge *addr_bridge_named(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(addr_bridges); i++)
		if (strcmp(addr_bridges[i].name, name) == 0)
			return &addr_bridges[i];
	return NULL;
}

static bool addr_is_bridge(const struct os_addr *a)
{
	for (size_t i = 0; a->family == 4 && i < ARRAY_LEN(addr_bridges); i++)
		if (memcmp(addr_bridges[i].ip, a->ip, 4) == 0)
			return true;
	return false;
}

static uint32_t addr_interfaces(void)
{
	uint32_t n = 1;

	for (const char *at = param_str(PARAM_DOPPEL_INTERFACES); *at; at++)
		n += *at == ',';
	return n;
}

uint32_t addr_host(uint32_t self, const struct os_addr *a)
{
	struct os_addr copy = *a, own;
	uint32_t host = (uint32_t)addr_index(&copy)[0] << 8 | addr_index(&copy)[1];

	if (addr_is_any(a) || addr_is_loopback(a) || addr_is_bridge(a))
		return self;
	addr_of_host(host, a->family, &own);
	if (addr_index(&copy)[2] - 1u < addr_interfaces())
		addr_index(&own)[2] = addr_index(&copy)[2];
	return addr_is_same(a, &own) && host < world->config.hosts ? host : ADDR_NO_HOST;
}

static void addr_of_interface(uint32_t nth, const char *name, uint16_t family, struct os_addr *a)
{
	const struct addr_bridge *bridge = addr_bridge_named(name);

	addr_of_host(world_self()->proc->host, family, a);
	addr_index(a)[2] = (uint8_t)(1 + nth);
	if (bridge)
		memcpy(a->ip, bridge->ip, 4);
}

/* Lists interfaces in the same order as a real host: IPv4 before IPv6, loopback last. */
int world_interface(int index, char *name, size_t name_bytes, struct os_addr *addr)
{
	const char *list = param_str(PARAM_DOPPEL_INTERFACES);

	for (uint16_t family = 4; family <= 6; family += 2) {
		uint32_t nth = 0;

		for (const char *at = list; *at; nth++) {
			size_t n = strcspn(at, ",");

			snprintf(name, name_bytes, "%.*s", (int)n, at);
			at += n + (at[n] == ',');
			if ((family == 6 && addr_bridge_named(name)) || index--)
				continue;
			addr_of_interface(nth, name, family, addr);
			return 0;
		}
	}
	if (index != 0 && index != 1)
		return ENOENT;
	snprintf(name, name_bytes, "lo");
	addr_of_loopback(index ? 6 : 4, addr);
	return 0;
}

/* Resolves a numeric address, "localhost", or a host's name: host0, host1... */
int world_resolve(const char *name, uint16_t family, struct os_addr *addr)
{
	uint16_t wanted = family ? family : strchr(name, ':') ? 6 : 4;
	unsigned host;
	char rest;

	memset(addr, 0, sizeof *addr);
	addr->family = wanted;
	if (inet_pton(wanted == 6 ? AF_INET6 : AF_INET, name, addr->ip) == 1)
		return 0;
	if (strcmp(name, "localhost") == 0) {
		addr_of_loopback(wanted, addr);
		return 0;
	}
	if (sscanf(name, "host%u%c", &host, &rest) != 1 || host >= world->config.hosts)
		return ENOENT;
	addr_of_host(host, wanted, addr);
	return 0;
}

void addr_print(const struct os_addr *a, char out[ADDR_TEXT])
{
	char ip[INET6_ADDRSTRLEN] = "?";

	inet_ntop(a->family == 6 ? AF_INET6 : AF_INET, a->ip, ip, sizeof ip);
	snprintf(out, ADDR_TEXT, a->family == 6 ? "[%s]:%u" : "%s:%u", ip, a->port);
}
