/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that monitor. While there is one, the task queries all processes periodically. Changes of
 * a process are events:
 *
 *	a process that was not known          PEER_NEW            lifecycle
 *	ANSWERED -> SILENT                    PEER_UNRESPONSIVE   trace
 *	SILENT -> ANSWERED                    PEER_RECOVERED      trace
 *	any -> DEAD, its address refuses      PEER_DISCONNECTED   trace, and PEER_DEAD  lifecycle
 *	SILENT for RAS_DEAD_S -> DEAD         PEER_TIMEOUT_DEAD   trace, and PEER_DEAD  lifecycle
 */
#include <string.h>

#include "core/os/os_grow.h"
#include "core/ras/ras_internal.h"

/* ---- events --------------------------------------------------------------------------------- */

struct monitor_event {
	const char *name;
	uint8_t group;
	const char *details;
};

/* Writes "[0,1]". */
static void monitor_devices(struct ras_text *out, uint64_t devices)
{
	char list[256];

	ras_text_add(out, "[%s]", ras_gpus_print(devices, devices, list, sizeof list));
}

static void monitor_write_json(struct ras_text *out, const struct monitor_event *e,
			       const struct ras_process *p)
{
	char date[RAS_DATE_BYTES], host[RAS_HOST_BYTES];

	ras_text_add(out,
		     "{\n  \"timestamp\": \"%s\",\n  \"group\": \"%s\",\n"
		     "  \"event\": \"%s\",\n  \"peer\": {\n    \"host\": \"%s\",\n"
		     "    \"pid\": %d,\n    \"cuda_devs\": ",
		     ras_date_print(date), e->group == RAS_EVENT_TRACE ? "TRACE" : "LIFECYCLE",
		     e->name, ras_host_print(&p->addr, host), p->pid);
	monitor_devices(out, p->gpus);
	ras_text_add(out, ",\n    \"nvml_devs\": ");
	monitor_devices(out, p->nvml);
	ras_text_add(out, "\n  },\n  \"details\": \"%s\"\n}\n", e->details);
}

static void monitor_write_text(struct ras_text *out, const struct monitor_event *e,
			       const struct ras_process *p)
{
	char date[RAS_DATE_BYTES], host[RAS_HOST_BYTES], gpus[256];

	ras_text_add(out, "[%s] %s: Process %d on node %s managing GPU%s %s%s%s\n",
		     ras_date_print(date), e->name, p->pid, ras_host_print(&p->addr, host),
		     p->gpus & (p->gpus - 1) ? "s" : "",
		     ras_gpus_print(p->gpus, p->nvml, gpus, sizeof gpus), *e->details ? " " : "",
		     e->details);
}

static void monitor_send(struct ras *r, const struct monitor_event *e, const struct ras_process *p)
{
	for (struct ras_conn *c = r->conns; c; c = c->next) {
		if (c->kind != RAS_CONN_CLIENT || !(c->groups & e->group) || c->query)
			continue;
		if (c->json)
			monitor_write_json(&c->out, e, p);
		else
			monitor_write_text(&c->out, e, p);
	}
}

/* ---- known processes ------------------------------------------------------------------------ */

struct ras_known *ras_known_find(struct ras *r, const struct os_addr *addr)
{
	for (uint32_t i = 0; i < r->knowns; i++) {
		const struct os_addr *a = &r->known[i].addr;

		if (a->port == addr->port && a->family == addr->family &&
		    !memcmp(a->ip, addr->ip, sizeof a->ip))
			return &r->known[i];
	}
	return NULL;
}

bool ras_known_is_dead(struct ras *r, const struct os_addr *addr)
{
	const struct ras_known *k = ras_known_find(r, addr);

	return k && k->state != RAS_ANSWERED &&
	       os_now_ns() - k->silent_since_ns >= ras_seconds(r, RAS_DEAD_S);
}

/* Returns NULL if there is no memory; the process is then new again next time. */
static struct ras_known *known_add(struct ras *r, const struct os_addr *addr)
{
	if (r->knowns == r->known_room &&
	    !OS_GROW(r->known, r->knowns, r->known_room, 16, "RAS processes"))
		return NULL;
	r->known[r->knowns] = (struct ras_known){.addr = *addr, .state = RAS_ANSWERED};
	return &r->known[r->knowns++];
}

static void monitor_change(struct ras *r, struct ras_known *k, const struct ras_process *p)
{
	static const struct monitor_event silent = {"PEER_UNRESPONSIVE", RAS_EVENT_TRACE,
						    "no answer to a query"},
					  recovered = {"PEER_RECOVERED", RAS_EVENT_TRACE,
						       "peer responding again"},
					  refused = {"PEER_DISCONNECTED", RAS_EVENT_TRACE,
						     "connection refused"},
					  timeout = {"PEER_TIMEOUT_DEAD", RAS_EVENT_TRACE,
						     "no answer for too long"},
					  dead = {"PEER_DEAD", RAS_EVENT_LIFECYCLE, ""};

	if (p->state == k->state)
		return;
	if (p->state == RAS_DEAD) {
		monitor_send(r, ras_known_is_dead(r, &k->addr) ? &timeout : &refused, p);
		monitor_send(r, &dead, p);
	} else {
		monitor_send(r, p->state == RAS_SILENT ? &silent : &recovered, p);
	}
	if (k->state == RAS_ANSWERED)
		k->silent_since_ns = os_now_ns();
	k->state = p->state;
}

void ras_monitor_learn(struct ras *r, const struct ras_query *q)
{
	static const struct monitor_event new = {"PEER_NEW", RAS_EVENT_LIFECYCLE, ""};

	for (uint32_t i = 0; i < q->job.processes; i++) {
		const struct ras_process *p = &q->job.process[i];
		struct ras_known *k = ras_known_find(r, &p->addr);

		if (p->state == RAS_NONE)
			continue;
		if (!k && r->watched)
			monitor_send(r, &new, p);
		if (!k)
			k = known_add(r, &p->addr);
		if (k)
			monitor_change(r, k, p);
	}
	r->watched = r->watched || (!q->client && !q->log && !q->judged);
}

/* ---- the periodic query --------------------------------------------------------------------- */

static bool monitor_is_on(const struct ras *r)
{
	for (const struct ras_conn *c = r->conns; c; c = c->next)
		if (c->kind == RAS_CONN_CLIENT && c->groups && !c->finished)
			return true;
	return false;
}

bool ras_monitor_step(struct ras *r)
{
	uint64_t now_ns = os_now_ns();

	if (!monitor_is_on(r)) {
		r->tick_ns = 0;
		r->watched = false;
		return false;
	}
	if (r->tick_ns && now_ns < r->tick_ns)
		return false;
	for (const struct ras_query *q = r->queries; q; q = q->next)
		if (!q->client)
			return false; /* the last one still runs; its end comes first */
	r->tick_ns = now_ns + ras_seconds(r, RAS_KEEPALIVE_S);
	return ras_query_begin(r, NULL, RAS_WIRE_REPORT, ras_seconds(r, RAS_ANSWER_S)) != NULL;
}
