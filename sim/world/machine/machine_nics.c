/* SPDX-License-Identifier: BSD-3-Clause */
/* The NICs of a machine, as <net> and bare PCI functions describe them. */
#include <errno.h>
#include <string.h>

#include "core/base/param.h"
#include "core/base/xml.h"
#include "core/os/os_ops.h"
#include "sim/world/machine/machine_internal.h"

/* ---- NICs ----------------------------------------------------------------------------------- */

static int machine_nic_room(struct machine_reader *r, const struct xml_node *here)
{
	if (r->m->nic_count < MACHINE_MAX_NICS)
		return 0;
	return xml_error_at(here, &r->error, "is one NIC too many, expected at most %d",
			    MACHINE_MAX_NICS);
}

/* True if a port of an HCA was already read: it may be below two CPUs, one for each rank that saw
 * it. */
static bool machine_net_is_seen(const struct machine_reader *r, const struct world_nic *n)
{
	for (int32_t i = 0; i < r->m->nic_count; i++)
		if (r->m->nic[i].host == n->host && r->m->nic[i].dev == n->dev &&
		    r->m->nic[i].port == n->port && strcmp(r->m->nic[i].name, n->name) == 0)
			return true;
	return false;
}

/* Refuses a name and port that an earlier HCA has. Only different ports of one HCA may share a
 * name. */
static int machine_net_is_new(struct machine_reader *r, const struct xml_node *net,
			      const struct world_nic *n)
{
	for (int32_t i = 0; i < r->m->nic_count; i++) {
		const struct world_nic *other = &r->m->nic[i];
		if (n->host == other->host && n->is_rdma && other->is_rdma &&
		    !strcmp(n->name, other->name) && n->port == other->port)
			return xml_error_at(net, &r->error,
					    "has name '%s' and port %u, which an earlier <net> "
					    "has; expected another name or port",
					    n->name, n->port);
	}
	return 0;
}

/* Copies an attribute that the double of the HCA reads. */
static int machine_net_text(const struct xml_node *net, const char *attr, char *out, size_t bytes,
			    struct xml_error *error)
{
	const char *text = xml_attr(net, attr);

	if (text && strlen(text) >= bytes)
		return xml_error_at(net, error,
				    "attribute '%s' is '%.64s', expected at most %zu characters",
				    attr, text, bytes - 1);
	snprintf(out, bytes, "%s", text ? text : "");
	return 0;
}

/* Checks that the attribute has a value that the variable p may have. */
static int machine_net_value(const struct xml_node *net, const char *attr, int p, const char *value,
			     struct xml_error *error)
{
	char expected[PARAM_EXPECTED_BYTES];

	if (param_allows(p, value, expected, sizeof expected))
		return 0;
	return xml_error_at(net, error, "attribute '%s' is '%.64s', expected %s", attr, value,
			    expected);
}

/* Checks the name of a device or of a merged NIC: the names of its devices, joined by '+'. */
static int machine_net_name(const struct xml_node *net, struct xml_error *error)
{
	const char *name = xml_attr(net, "name");
	size_t most = sizeof((struct world_nic *)0)->name - 1;

	if (!name)
		return 0;
	for (const char *at = name;; at++) {
		size_t n = strcspn(at, "+");

		if (!n || n > most || memchr(at, '/', n))
			return xml_error_at(net, error,
					    "attribute 'name' is '%.64s', expected 1 to %zu "
					    "characters, no slash",
					    name, most);
		at += n;
		if (!*at)
			return 0;
	}
}

static bool machine_net_has(const struct machine_reader *r, int32_t host, const char *name)
{
	for (int32_t i = 0; i < r->m->nic_count; i++)
		if (r->m->nic[i].host == host && strcmp(r->m->nic[i].name, name) == 0)
			return true;
	return false;
}

/* Adds the devices of a merged NIC that the machine lacks: a dump can have the merged NIC alone.
 * `merged` is in the next free slot of m->nic and is not counted yet. */
static int machine_net_split(struct machine_reader *r, const struct xml_node *net,
			     struct world_nic merged)
{
	const char *at = xml_attr(net, "name");
	uint64_t parts = 1;

	for (const char *c = at; *c; c++)
		parts += *c == '+';
	merged.mbps = MAX_OF(merged.mbps / parts, 1u);
	for (uint64_t i = 0; i < parts; i++) {
		size_t n = strcspn(at, "+");

		snprintf(merged.name, sizeof merged.name, "%.*s", (int)n, at);
		at += n + (at[n] == '+');
		if (machine_net_has(r, merged.host, merged.name))
			continue;
		if (machine_nic_room(r, net))
			return EINVAL;
		merged.dev = r->m->nic_count;
		r->m->nic[r->m->nic_count++] = merged;
	}
	return 0;
}

int machine_net_add(struct machine_reader *r, const struct xml_node *net,
		    const struct machine_place *at)
{
	int rc = machine_nic_room(r, net);
	if (rc)
		return rc;
	struct world_nic *n = &r->m->nic[r->m->nic_count];
	int32_t speed = 0, port = 1, gdr = 0;
	*n = (struct world_nic){.dev = r->m->nic_count, .host = at->host, .numa = at->numa};
	const char *name = xml_attr(net, "name");
	rc = machine_net_name(net, &r->error);
	if (rc == 0)
		rc = machine_small_int(net, "dev", n->dev, 0, INT32_MAX, &n->dev, &r->error);
	if (rc == 0)
		rc = machine_small_int(net, "speed", 10000, -1, INT32_MAX, &speed, &r->error);
	if (rc == 0)
		rc = machine_small_int(net, "port", 1, 0, 255, &port, &r->error);
	if (rc == 0)
		rc = machine_small_int(net, "gdr", 0, 0, 1, &gdr, &r->error);
	if (rc == 0)
		rc = xml_attr_u64(net, "guid", 0, &n->guid, &r->error);
	if (rc == 0)
		rc = machine_bus_id(at->pci, n->bus_id, &r->error);
	if (rc == 0)
		rc = machine_net_text(net, "personality", n->personality, sizeof n->personality,
				      &r->error);
	if (rc == 0)
		rc = machine_net_value(net, "personality", PARAM_DOPPEL_HCA_PERSONALITY,
				       n->personality, &r->error);
	if (rc == 0)
		rc = machine_net_text(net, "pkeys", n->pkeys, sizeof n->pkeys, &r->error);
	if (rc == 0)
		rc = machine_net_value(net, "pkeys", PARAM_DOPPEL_HCA_PKEYS, n->pkeys, &r->error);
	if (rc)
		return rc;
	if (name)
		snprintf(n->name, sizeof n->name, "%.*s", (int)sizeof n->name - 1, name);
	else
		snprintf(n->name, sizeof n->name, "net%d", n->dev);
	n->port = port ? (uint32_t)port : 1;
	n->mbps = speed > 0 ? MAX_OF((uint64_t)speed / 8, 1u) : 1250; /* 0 would mean no limit */
	n->gdr = gdr != 0;
	n->is_rdma = strncmp(n->name, "eth", 3) != 0 && (gdr || n->guid);
	if (name && strchr(name, '+'))
		return machine_net_split(r, net, *n);
	if (n->is_rdma && machine_net_is_seen(r, n))
		return 0;
	rc = machine_net_is_new(r, net, n);
	if (rc == 0)
		r->m->nic_count++;
	return rc;
}

/* Adds a bare PCI function that is an HCA: mlx5_0, mlx5_1... at 200 Gb/s. */
int machine_hca_add(struct machine_reader *r, const struct machine_place *at)
{
	int rc = machine_nic_room(r, at->pci);
	if (rc)
		return rc;
	struct world_nic *n = &r->m->nic[r->m->nic_count];
	*n = (struct world_nic){.dev = r->m->nic_count,
				.host = at->host,
				.numa = at->numa,
				.port = 1,
				.mbps = 25000,
				.gdr = true,
				.is_rdma = true};
	rc = machine_bus_id(at->pci, n->bus_id, &r->error);
	if (rc)
		return rc;
	snprintf(n->name, sizeof n->name, "mlx5_%d", r->hcas++);
	r->m->nic_count++;
	return 0;
}
