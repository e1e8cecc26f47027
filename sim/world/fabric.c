/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric: every port reaches every other through one switch that never blocks. A message books
 * its sender's egress and its receiver's ingress, both at the port's speed, and arrives one latency
 * after its last byte. A port is up or down; down loses what is sent from then on, both ways.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/world/world_internal.h"

#define FABRIC_LOOPBACK_NS 500

struct world_fabric_port {
	struct world_port pub; /* first */
	struct sim_resource egress, ingress;
	char egress_name[56], ingress_name[56];
};

/* Hooks are hung once, at load, and outlive worlds. */
static void (*fabric_hook[WORLD_HOOKS])(struct world_port *port);
static uint32_t fabric_hooks;

static struct world_fabric_port *fabric_port(const struct world_port *p)
{
	ASSERT(p->index < world->port_count);
	struct world_fabric_port *f = &world->port[p->index];
	ASSERT(&f->pub == p);
	return f;
}

static void fabric_port_init(struct world_fabric_port *f, uint32_t index, uint32_t host,
			     const struct world_nic *nic)
{
	f->pub = (struct world_port){.index = index, .host = host, .nic = nic, .up = true};
	f->pub.ipv4[0] = 172;
	f->pub.ipv4[1] = (uint8_t)(16 + (host >> 8));
	f->pub.ipv4[2] = (uint8_t)host;
	f->pub.ipv4[3] = (uint8_t)(1 + index - world->host[host].first_port);
	snprintf(f->egress_name, sizeof f->egress_name, "host%u %s out", host, nic->name);
	snprintf(f->ingress_name, sizeof f->ingress_name, "host%u %s in", host, nic->name);
	f->egress = (struct sim_resource){.name = f->egress_name, .mbps = nic->mbps};
	f->ingress = (struct sim_resource){.name = f->ingress_name, .mbps = nic->mbps};
	/* fault plans address ports: `peer` is the host, `number` the index */
	const struct os_label label = {"port", -1, (int32_t)host, -1, index};
	os_label(&f->pub, &label);
}

int world_fabric_start(void)
{
	uint32_t n = 0;
	for (uint32_t h = 0; h < world->config.hosts; h++)
		n += (uint32_t)world->host[h].machine->nic_count;
	world->port = calloc(n ? n : 1, sizeof *world->port);
	if (!world->port)
		return ENOMEM;
	for (uint32_t h = 0; h < world->config.hosts; h++) {
		const struct world_machine *m = world->host[h].machine;
		world->host[h].first_port = world->port_count;
		for (int32_t i = 0; i < m->nic_count; i++) {
			uint32_t index = world->port_count++;
			fabric_port_init(&world->port[index], index, h, &m->nic[i]);
		}
	}
	return 0;
}

void world_fabric_free(void)
{
	for (uint32_t i = 0; i < world->port_count; i++) {
		os_unlabel(&world->port[i].pub);
		sim_events_cancel_object(&world->port[i]);
	}
	free(world->port);
	world->port = NULL;
	world->port_count = 0;
}

uint32_t world_port_count(void)
{
	return world->port_count;
}

struct world_port *world_port(uint32_t index)
{
	return index < world->port_count ? &world->port[index].pub : NULL;
}

struct world_port *world_port_of(uint32_t host, int32_t nic_index)
{
	ASSERT(host < world->config.hosts);
	const struct world_host *h = &world->host[host];
	if (nic_index < 0 || nic_index >= h->machine->nic_count)
		return NULL;
	return world_port(h->first_port + (uint32_t)nic_index);
}

/* ---- state of a link ------------------------------------------------------------------------ */

void world_on_port_change(void (*hook)(struct world_port *port))
{
	ASSERT(fabric_hooks < WORLD_HOOKS);
	fabric_hook[fabric_hooks++] = hook;
}

/* HCAs hear of it in an event of its own: a caller may hold an HCA's lock. */
static void fabric_step_changed(void *object, uint64_t arg)
{
	struct world_fabric_port *f = object;
	for (uint32_t i = 0; i < fabric_hooks; i++)
		fabric_hook[i](&f->pub);
}

static void fabric_port_set(struct world_fabric_port *f, bool up)
{
	world_lock(&world->lock);
	bool changed = f->pub.up != up;
	f->pub.up = up;
	world_unlock(&world->lock);
	if (!changed)
		return;
	os_trace(up ? "port.up" : "port.down", f->pub.index, 0, 0);
	const struct sim_event_attr attr = {
		.name = "fabric.port", .kind = SIM_EVENT_WORK, .order = f};
	sim_event_post(&attr, fabric_step_changed, f, 0, NULL);
}

void world_port_set(struct world_port *port, bool up)
{
	fabric_port_set(fabric_port(port), up);
}

static void fabric_step_heal(void *object, uint64_t arg)
{
	fabric_port_set(object, true);
}

/* A link that goes down by fault comes up again after a time, or never. */
static void fabric_port_fail(struct world_fabric_port *f, uint64_t heal_ns)
{
	fabric_port_set(f, false);
	if (!heal_ns)
		return;
	const struct sim_event_attr attr = {
		.name = "fabric.heal", .kind = SIM_EVENT_TIMER, .delay_ns = heal_ns};
	sim_event_post(&attr, fabric_step_heal, f, 0, NULL);
}

static bool fabric_port_up(const struct world_fabric_port *f)
{
	world_lock(&world->lock);
	bool up = f->pub.up;
	world_unlock(&world->lock);
	return up;
}

/* ---- sending ----------------------------------------------------------------------------------
 */

/* False: a fault ate the message. *extra_ns: what a fault adds. */
static bool fabric_faults(struct world_fabric_port *from, const struct world_fabric_port *to,
			  uint64_t *extra_ns)
{
	struct sim_fault_place at = SIM_FAULT_NOWHERE;
	struct os_fault f;
	at.host = (int32_t)from->pub.host;
	at.port = (int32_t)from->pub.index;
	at.peer_host = (int32_t)to->pub.host;
	at.peer_port = (int32_t)to->pub.index;
	*extra_ns = 0;
	if (sim_fault("fabric.link", NULL, &at, &f) && f.kind == OS_FAULT_DOWN) {
		fabric_port_fail(from, f.arg);
		return false;
	}
	if (!sim_fault("fabric.packet", NULL, &at, &f))
		return true;
	if (f.kind == OS_FAULT_DELAY)
		*extra_ns = f.arg;
	return f.kind != OS_FAULT_DROP;
}

static uint64_t fabric_delay(struct world_fabric_port *from, struct world_fabric_port *to,
			     uint64_t bytes)
{
	uint64_t out = sim_resource_use(&from->egress, bytes);
	if (from == to)
		return out + sim_latency(FABRIC_LOOPBACK_NS);
	/* the switch cuts through: the first byte enters the far link while the last is still here
	 */
	uint64_t in = sim_resource_use(&to->ingress, bytes);
	uint64_t wire = sim_latency(world->config.fabric_latency_ns);
	return MAX_OF(out, in) + wire;
}

bool world_fabric_send(const struct world_port *from, const struct world_port *to, uint64_t bytes,
		       const void *order, void (*arrive)(void *object, uint64_t arg), void *object,
		       uint64_t arg)
{
	ASSERT(from && to && arrive);
	struct world_fabric_port *f = fabric_port(from), *t = fabric_port(to);
	uint64_t extra_ns;
	if (!fabric_port_up(f) || !fabric_port_up(t) || !fabric_faults(f, t, &extra_ns))
		return false;
	const struct sim_event_attr attr = {
		.name = "fabric.arrive",
		.kind = SIM_EVENT_WORK,
		.delay_ns = fabric_delay(f, t, bytes) + extra_ns,
		.order = order,
	};
	sim_event_post(&attr, arrive, object, arg, NULL);
	return true;
}
