/* SPDX-License-Identifier: BSD-3-Clause */
/* Effects of a fault plan on the HCA: calls that fail, devices and queue pairs that die.
 * backends/sites/sites_verbs.c lists the sites and their effects. */
#include <errno.h>

#include "backends/fakeverbs/queues/queues.h"
#include "backends/peermem.h"

bool hca_fault_visit(const char *site, const void *object, uint32_t port, int64_t step,
		     struct os_fault *f)
{
	struct sim_fault_place at = SIM_FAULT_NOWHERE;

	if (port != HCA_NO_PORT)
		world_port_place(world_port(port), &at);
	at.step = step;
	return sim_fault(site, object, &at, f);
}

/* ---- a device dies -------------------------------------------------------------------------- */

/* Posts an event to every context and moves every queue pair to ERR. Its writes to GPUs land, since
 * no read by the device can follow. Runs as an engine event, because the task that
 * noticed may hold a lock. */
static void hca_device_died(void *object, uint64_t port)
{
	const struct peermem_ops *gpu = peermem();
	struct hca_world *w = object;
	struct hca_context *c;
	struct hca_qp *qp;
	uint32_t at = 0;

	if (gpu && gpu->landed)
		gpu->landed((uint32_t)port);
	while ((c = hca_slab_next(&w->context, UINT32_MAX, &at))) {
		hca_lock(&c->item.lock);
		bool mine = c->port == port;

		hca_unlock(&c->item.lock);
		if (mine)
			hca_event_post(c->item.index, IBV_EVENT_DEVICE_FATAL, 1, 0);
	}
	for (at = 0; (qp = hca_slab_next(&w->qp, UINT32_MAX, &at));) {
		hca_qp_lock(qp);
		if (qp->sq.ring && qp->port == port)
			hca_qp_to_error(qp);
		hca_unlock(&qp->item.lock);
	}
}

static void hca_device_fault(uint32_t port)
{
	const struct sim_event_attr attr = {.name = "hca.fatal", .kind = SIM_EVENT_WORK};
	struct hca_world *w = hca_world();
	struct os_fault f;

	if (!hca_fault("verbs.device", NULL, port, -1, &f) ||
	    __atomic_exchange_n(&w->port[port].fatal, 1, __ATOMIC_ACQ_REL))
		return;
	sim_fault_hits_all();
	hca_log("h%u %s: fatal error of the device", world_port(port)->host,
		world_port(port)->nic->name);
	sim_event_post(&attr, hca_device_died, w, port, NULL);
}

/* Resets the devices when the faults end: later calls and objects work. */
static void hca_heal(void)
{
	struct hca_world *w = fakeverbs.world;

	for (uint32_t i = 0; w && i < w->ports; i++)
		__atomic_store_n(&w->port[i].fatal, 0, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void hca_faults_load(void)
{
	sim_on_heal(hca_heal);
}

/* ---- calls ---------------------------------------------------------------------------------- */

int hca_call_fault_visit(const char *site, const void *object, uint32_t port, int state)
{
	struct sim_fault_place at = SIM_FAULT_NOWHERE;
	struct os_fault f;

	if (port != HCA_NO_PORT)
		world_port_place(world_port(port), &at);
	at.state = state;
	if (!sim_fault(site, object, &at, &f) || f.kind != OS_FAULT_FAIL)
		return 0;
	return f.arg ? (int)f.arg : EIO;
}

int hca_command_fault(const char *site, const void *object, uint32_t port, int state)
{
	ASSERT(port < hca_world()->ports); /* a command is one of a device: not HCA_NO_PORT */
	hca_device_fault(port);
	if (__atomic_load_n(&hca_world()->port[port].fatal, __ATOMIC_ACQUIRE))
		return EIO;
	return hca_call_fault(site, object, port, state);
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

int hca_post_fault_visit(struct hca_qp *qp, const char *site, const struct ibv_qp *ibv)
{
	struct os_fault f;

	hca_device_fault(qp->port);
	if (hca_fault("verbs.qp", ibv, qp->port, -1, &f)) {
		hca_qp_lock(qp);
		if (f.kind == OS_FAULT_FATAL)
			hca_event_post(qp->context, IBV_EVENT_QP_FATAL, qp->item.index,
				       qp->item.generation);
		hca_qp_to_error(qp);
		hca_unlock(&qp->item.lock);
	}
	return hca_call_fault(site, ibv, qp->port, -1);
}
