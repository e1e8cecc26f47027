/* SPDX-License-Identifier: BSD-3-Clause */
/* The HCAs of a world: the first use creates their tables in the arena. */
#include <string.h>

#include "backends/fakeverbs/arena/report.h"
#include "backends/fakeverbs/objects/objects.h"
#include "backends/fakeverbs/objects/packet.h"
#include "backends/fakeverbs/objects/port.h"
#include "sim/world/program/world_guest.h"

struct fakeverbs_view fakeverbs;
static uint32_t hca_world_lock;

DOPPEL_STATIC_CHECK(sizeof(struct hca_cqe) % 8 == 0, "rings of cqes stay aligned");
DOPPEL_STATIC_CHECK(sizeof(struct hca_wqe) % 8 == 0, "scatter lists stay aligned");

static struct hca_world *hca_world_make(void)
{
	uint32_t ports = world_port_count();
	struct hca_world *w = world_arena_alloc(sizeof *w + ports * sizeof w->port[0], "hca world");
	void *rings =
		world_arena_alloc(HCA_RINGS_BYTES + HCA_RINGS_HEADS(HCA_RINGS_BYTES), "hca rings");

	ASSERT(w && rings);
	w->ports = ports;
	hca_partial_configure(w);
	hca_routing_configure(w);
	for (uint32_t i = 0; i < ports; i++) {
		hca_port_init(&w->port[i], i);
		hca_port_configure(&w->port[i], i);
	}
	hca_slab_init(&w->qp, sizeof(struct hca_qp), 7, 16);
	hca_slab_init(&w->cq, sizeof(struct hca_cq), 8, 16);
	hca_slab_init(&w->srq, sizeof(struct hca_srq), 5, 16);
	hca_slab_init(&w->ah, sizeof(struct hca_ah), 5, 16);
	hca_slab_init(&w->member, sizeof(struct hca_member), 5, 0);
	hca_slab_init(&w->xrcd, sizeof(struct hca_xrcd), 4, 4);
	hca_slab_init(&w->xrcd_open, sizeof(struct hca_xrcd_open), 4, 4);
	hca_slab_init(&w->qp_open, sizeof(struct hca_qp_open), 4, 4);
	hca_slab_init(&w->mr, sizeof(struct hca_mr), 9, 64);
	hca_slab_init(&w->mw, sizeof(struct hca_mw), 6, 64);
	hca_slab_init(&w->pd, sizeof(struct hca_pd), 5, 16);
	hca_slab_init(&w->context, sizeof(struct hca_context), 5, 4);
	hca_slab_init(&w->channel, sizeof(struct hca_channel), 4, 4);
	hca_slab_init(&w->event, sizeof(struct hca_event), 6, 0);
	hca_slab_init(&w->packet, sizeof(struct hca_packet), 7, 0);
	hca_slab_init(&w->small, sizeof(struct hca_buffer_small), 4, 0);
	hca_slab_init(&w->large, sizeof(struct hca_buffer_large), 2, 0);
	hca_rings_init(&w->rings, rings, HCA_RINGS_BYTES);
	return w;
}

struct hca_world *hca_world_first(void)
{
	world_guest_stop_late();
	hca_lock(&hca_world_lock);
	if (!fakeverbs.world) {
		struct hca_world *w =
			hca_members ? hca_members->world(hca_world_make) : hca_world_make();
		if (sim_engine_kind() == SIM_ENGINE_SIM)
			hca_alone = true;
		hca_check_load();
		hca_gids_start(w);
		__atomic_store_n(&fakeverbs.world, w, __ATOMIC_RELEASE);
	}
	hca_unlock(&hca_world_lock);
	return fakeverbs.world;
}

void hca_world_gone(void)
{
	hca_gids_stop();
	memset(&fakeverbs, 0, sizeof fakeverbs);
	hca_world_lock = 0;
}
