/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric: one switch that never blocks connects all ports. A message reserves the egress of its
 * sender and the ingress of its receiver, both at the port's speed. It arrives one latency after
 * its last byte. A port that is down loses all later messages in both directions.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/world/world_internal.h"

#define FABRIC_LOOPBACK_NS 500
#define FABRIC_SHORT_BYTES 256
#define FABRIC_FLAP_NS     100000 /* time down, and time up, if the plan has no time */

/* A message that a clog delays. */
struct world_held {
	struct world_held *next;
	uint64_t until_ns; /* UINT64_MAX: until faults heal */
	uint64_t slower, extra_ns;
	struct world_message m;
};

struct world_fabric_port {
	struct world_port pub; /* must be first */
	struct sim_resource egress, ingress;
	char egress_name[56], ingress_name[56];
	struct sim_track track;
	bool down_by_fault;
	uint64_t flaps, flap_ns; /* remaining changes of state; ns between two */
};

/* Hooks are registered once, at load, and outlive worlds. */
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
	world->held = NULL;
	world->held_end = &world->held;
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
	while (world->held) {
		struct world_held *h = world->held;
		world->held = h->next;
		free(h);
	}
	sim_events_cancel_object(world);
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

void world_port_place(const struct world_port *port, struct sim_fault_place *at)
{
	at->host = (int32_t)port->host;
	at->port = (int32_t)(port->index - world->host[port->host].first_port);
	at->nic = port->nic->name;
}

/* ---- state of a link ------------------------------------------------------------------------ */

void world_on_port_change(void (*hook)(struct world_port *port))
{
	ASSERT(fabric_hooks < WORLD_HOOKS);
	fabric_hook[fabric_hooks++] = hook;
}

/* Calls the hooks of HCAs in a separate event: the caller of fabric_port_set may hold an HCA's
 * lock. */
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
	if (changed)
		f->pub.changed_ns = sim_now_ns();
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

void world_port_move(struct world_port *port)
{
	ASSERT(sim_engine_kind() == SIM_ENGINE_SIM);
	port->ipv4[1]++; /* hosts and ports have the last two */
	port->moves++;
}

static void fabric_step_heal(void *object, uint64_t arg)
{
	struct world_fabric_port *f = object;
	f->down_by_fault = false;
	fabric_port_set(f, true);
}

static void fabric_post_step(struct world_fabric_port *f, const char *name, uint64_t delay_ns,
			     void (*step)(void *object, uint64_t arg))
{
	const struct sim_event_attr attr = {
		.name = name, .kind = SIM_EVENT_TIMER, .delay_ns = delay_ns};
	sim_event_post(&attr, step, f, 0, NULL);
}

/* Brings a link down by a fault. It comes up after heal_ns or, if 0, when faults heal. */
static void fabric_port_fail(struct world_fabric_port *f, uint64_t heal_ns)
{
	f->down_by_fault = true;
	fabric_port_set(f, false);
	if (heal_ns)
		fabric_post_step(f, "fabric.heal", heal_ns, fabric_step_heal);
}

static void fabric_step_flap(void *object, uint64_t arg)
{
	struct world_fabric_port *f = object;
	if (sim_faults_healed() || !f->flaps)
		return;
	f->flaps--;
	f->down_by_fault = f->flaps % 2;
	fabric_port_set(f, !f->down_by_fault);
	if (f->flaps)
		fabric_post_step(f, "fabric.flap", f->flap_ns, fabric_step_flap);
}

/* Brings a link down now, then up and down in alternation. The link is up in the end. */
static void fabric_port_flap(struct world_fabric_port *f, uint64_t times, uint64_t ns)
{
	if (f->flaps || !times)
		return;
	f->flaps = 2 * times - 1;
	f->flap_ns = ns ? ns : FABRIC_FLAP_NS;
	f->down_by_fault = true;
	fabric_port_set(f, false);
	fabric_post_step(f, "fabric.flap", f->flap_ns, fabric_step_flap);
}

static bool fabric_port_up(const struct world_fabric_port *f)
{
	world_lock(&world->lock);
	bool up = f->pub.up;
	world_unlock(&world->lock);
	return up;
}

/* ---- faults --------------------------------------------------------------------------------- */

/* Effect of the faults on one message. */
struct fabric_fate {
	bool lost, unordered, copied;
	uint64_t slower;  /* factor of the time on the wire */
	uint64_t held_ns; /* 0: not delayed; UINT64_MAX: until faults heal */
	uint64_t extra_ns, copy_ns;
};

static void fabric_fate_lasting(const struct os_fault *f, const struct world_message *m,
				struct fabric_fate *fate)
{
	switch (f->kind) {
	case OS_FAULT_PARTITION:
		fate->lost = true;
		break;
	case OS_FAULT_CLOG:
		fate->held_ns = f->left_ns;
		break;
	case OS_FAULT_SLOW:
		fate->slower = MAX_OF(f->arg, 1ull);
		break;
	case OS_FAULT_LIMIT:
		fate->lost |= m->packet_bytes > f->arg;
		break;
	default:
		ASSERT(!"a fault that a link does not know");
	}
}

static void fabric_fate_link(const struct sim_fault_place *at, const struct world_message *m,
			     struct fabric_fate *fate)
{
	struct world_fabric_port *from = fabric_port(m->from);
	struct os_fault f;
	if (!sim_fault("fabric.link", m->label, at, &f))
		return;
	if (f.kind == OS_FAULT_DOWN) {
		fabric_port_fail(from, f.arg);
		if (f.more && sim_engine_kind() == SIM_ENGINE_SIM)
			world_port_move(&from->pub);
		fate->lost = true;
	} else if (f.kind == OS_FAULT_FLAP) {
		fabric_port_flap(from, f.arg, f.more);
		fate->lost = true;
	} else {
		fabric_fate_lasting(&f, m, fate);
	}
}

static void fabric_fate_packet(const struct sim_fault_place *at, const struct world_message *m,
			       struct fabric_fate *fate)
{
	struct os_fault f;
	if (!sim_fault("fabric.packet", m->label, at, &f))
		return;
	switch (f.kind) {
	case OS_FAULT_DROP:
		fate->lost = true;
		break;
	case OS_FAULT_REORDER:
		fate->unordered = true;
		fate->extra_ns = f.arg;
		break;
	case OS_FAULT_DELAY:
		fate->extra_ns = f.arg;
		break;
	case OS_FAULT_DUPLICATE:
		fate->copied = m->copy != NULL;
		fate->copy_ns = f.arg;
		break;
	case OS_FAULT_CORRUPT: /* the packet's checksum detects it, unless f.arg is set */
		fate->lost = !f.arg;
		if (f.arg && m->corrupt)
			m->corrupt(m->object, sim_choose("fabric.corrupt", 1u << 16));
		break;
	default:
		ASSERT(!"a fault that a message does not know");
	}
}

static struct fabric_fate fabric_fate(const struct world_message *m)
{
	struct fabric_fate fate = {.slower = 1};
	struct sim_fault_place at = SIM_FAULT_NOWHERE, to = SIM_FAULT_NOWHERE;
	struct os_fault f;

	world_port_place(m->from, &at);
	world_port_place(m->to, &to);
	at.peer_host = to.host;
	at.peer_port = to.port;
	at.peer_nic = to.nic;
	fabric_fate_link(&at, m, &fate);
	if (!fate.lost && sim_fault("fabric.path", m->label, &at, &f))
		fabric_fate_lasting(&f, m, &fate);
	if (!fate.lost)
		fabric_fate_packet(&at, m, &fate);
	return fate;
}

/* ---- sending --------------------------------------------------------------------------------- */

static uint64_t fabric_delay(struct world_fabric_port *from, struct world_fabric_port *to,
			     uint64_t bytes)
{
	uint64_t out = sim_resource_use(&from->egress, bytes);
	if (from == to)
		return out + sim_latency(FABRIC_LOOPBACK_NS);
	/* the switch cuts through: the first byte enters the receiver's link while the sender's
	 * link still carries the last */
	uint64_t in = sim_resource_use(&to->ingress, bytes);
	uint64_t wire = sim_latency(world->config.fabric_latency_ns);
	return MAX_OF(out, in) + wire;
}

/* Skips short messages, which are half of all messages and only keep protocols running. */
static bool fabric_traced(const struct world_message *m)
{
	return m->what && os_tracing() &&
	       (m->flow || m->bytes > FABRIC_SHORT_BYTES || sim_trace_detailed());
}

/* Traces the time during which the sender's link carries the message: one message at a time. The
 * link is free at `before_ns`. */
static void fabric_trace(struct world_fabric_port *f, const struct world_message *m,
			 uint64_t before_ns)
{
	uint64_t from_ns = MAX_OF(before_ns, sim_now_ns());
	uint64_t to_ns = MAX_OF(from_ns, f->egress.free_at_ns);
	/* a flow already leads to the message's destination */
	const struct os_trace_slice slice = {
		.name = m->what,
		.arg = {{"bytes", m->bytes, NULL},
			{m->flow ? NULL : "to port", m->to->index, NULL}},
		.flow = m->flow,
		.flow_in = true,
		.flow_out = true,
	};

	sim_track_open(&f->track, SIM_TRACK_HOST, (int32_t)f->pub.host, f->egress_name);
	sim_trace_span(&f->track, &slice, from_ns, to_ns - from_ns);
}

static void fabric_deliver(const struct world_message *m, uint64_t slower, uint64_t extra_ns)
{
	struct world_fabric_port *f = fabric_port(m->from), *t = fabric_port(m->to);
	uint64_t before_ns = f->egress.free_at_ns;
	const struct sim_event_attr attr = {
		.name = "fabric.arrive",
		.kind = SIM_EVENT_WORK,
		.delay_ns = fabric_delay(f, t, m->bytes * slower) + extra_ns + m->later_ns,
		.order = m->order,
	};
	if (fabric_traced(m))
		fabric_trace(f, m, before_ns);
	sim_event_post(&attr, m->arrive, m->object, m->arg, NULL);
}

/* Delivers the messages of all clogs that end by `now_ns`, in the order in which they were sent. */
static void fabric_release(uint64_t now_ns)
{
	for (;;) {
		world_lock(&world->lock);
		struct world_held **at = &world->held;
		while (*at && (*at)->until_ns > now_ns)
			at = &(*at)->next;
		struct world_held *h = *at;
		if (h) {
			*at = h->next;
			if (!*at)
				world->held_end = at;
		}
		world_unlock(&world->lock);
		if (!h)
			return;
		fabric_deliver(&h->m, h->slower, h->extra_ns);
		free(h);
	}
}

static void fabric_step_release(void *object, uint64_t arg)
{
	fabric_release(sim_now_ns());
}

static void fabric_hold(const struct world_message *m, const struct fabric_fate *fate)
{
	const struct sim_event_attr attr = {
		.name = "fabric.clog", .kind = SIM_EVENT_TIMER, .delay_ns = fate->held_ns};
	struct world_held *h = calloc(1, sizeof *h);
	ASSERT(h);
	*h = (struct world_held){.m = *m, .slower = fate->slower, .extra_ns = fate->extra_ns};
	h->until_ns = fate->held_ns == UINT64_MAX ? UINT64_MAX : sim_now_ns() + fate->held_ns;
	world_lock(&world->lock);
	*world->held_end = h;
	world->held_end = &h->next;
	world_unlock(&world->lock);
	if (fate->held_ns != UINT64_MAX)
		sim_event_post(&attr, fabric_step_release, world, 0, NULL);
}

/* Ends all faults: delivers delayed messages and brings up links that a fault brought down. */
static void fabric_heal(void)
{
	if (!world)
		return;
	fabric_release(UINT64_MAX);
	for (uint32_t i = 0; i < world->port_count; i++)
		if (world->port[i].down_by_fault)
			fabric_step_heal(&world->port[i], 0);
}

__attribute__((constructor)) static void fabric_load(void)
{
	sim_on_heal(fabric_heal);
}

static bool fabric_send_with_fate(const struct world_message *m)
{
	struct world_message sent = *m;
	struct fabric_fate fate = fabric_fate(&sent);
	if (fate.lost)
		return false;
	fabric_release(sim_now_ns()); /* first the messages of clogs that have just ended */
	if (fate.unordered)
		sent.order = NULL;
	if (fate.copied) {
		struct world_message copy = sent;
		ASSERT(m->copy);
		copy.object = m->copy(m->object);
		if (copy.object)
			fabric_deliver(&copy, fate.slower, fate.copy_ns);
	}
	if (fate.held_ns)
		fabric_hold(&sent, &fate);
	else
		fabric_deliver(&sent, fate.slower, fate.extra_ns);
	return true;
}

bool world_fabric_send_message(const struct world_message *m)
{
	ASSERT(m->from && m->to && m->arrive);
	if (!fabric_port_up(fabric_port(m->from)) || !fabric_port_up(fabric_port(m->to)))
		return false;
	if (UNLIKELY(sim_mode.faults))
		return fabric_send_with_fate(m);
	fabric_deliver(m, 1, 0);
	return true;
}

bool world_fabric_send(const struct world_port *from, const struct world_port *to, uint64_t bytes,
		       const void *order, void (*arrive)(void *object, uint64_t arg), void *object,
		       uint64_t arg)
{
	const struct world_message m = {.from = from,
					.to = to,
					.bytes = bytes,
					.order = order,
					.arrive = arrive,
					.object = object,
					.arg = arg};
	return world_fabric_send_message(&m);
}
