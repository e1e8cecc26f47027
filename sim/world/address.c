/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of the world's sockets. A host has eth0 at 10.x.y.1, and at an address that begins with fd00:: and
 * ends with the same three bytes, with its index in x and y; and lo at 127.0.0.1 and ::1.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "sim/world/stream.h"

/* Where an address of a host has the host's index: the two bytes before the last. */
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

uint32_t addr_host(uint32_t self, const struct os_addr *a)
{
	struct os_addr copy = *a, own;
	uint32_t host = (uint32_t)addr_index(&copy)[0] << 8 | addr_index(&copy)[1];

	if (addr_is_any(a) || addr_is_loopback(a))
		return self;
	addr_of_host(host, a->family, &own);
	return addr_is_same(a, &own) && host < world->config.hosts ? host : ADDR_NO_HOST;
}

/* In the order of the real world's: IPv4 before IPv6, loopback last. */
int world_interface(int index, char *name, size_t name_bytes, struct os_addr *addr)
{
	const uint16_t family = index % 2 ? 6 : 4;

	if (index < 0 || index > 3)
		return ENOENT;
	text_set(name, name_bytes, index < 2 ? "eth0" : "lo");
	if (index < 2)
		addr_of_host(world_self()->proc->host, family, addr);
	else
		addr_of_loopback(family, addr);
	return 0;
}

/* A numeric address, "localhost", or a host's name: host0, host1... */
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
