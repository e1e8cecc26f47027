/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that memory is a fabric's, complete, and of this build. It checks every offset and index
 * (tables, their chunks, lists of free memory) before it follows one. Other processes change the
 * memory meanwhile, so a size is read after the offsets that it bounds.
 */
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/fakeverbs/fabric/fabric.h"
#include "backends/fakeverbs/objects/objects.h"
#include "backends/fakeverbs/objects/packet.h"

#define FABRIC_SHIFT_MAX 16u
#define FABRIC_PORTS_MAX 4096u

/* Range of offsets that are valid. */
struct fabric_view {
	uint64_t first, used;
};

static uint64_t fabric_load(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static bool fabric_inside(const struct fabric_view *v, uint64_t at, uint64_t bytes)
{
	return at >= v->first && at % 64 == 0 && bytes <= v->used && at <= v->used - bytes;
}

static bool fabric_slab_fits(const struct fabric_segment *seg, const struct hca_slab *s,
			     size_t item_bytes)
{
	uint32_t free_first = __atomic_load_n(&s->free_first, __ATOMIC_ACQUIRE);
	uint32_t free_last = __atomic_load_n(&s->free_last, __ATOMIC_ACQUIRE);
	uint32_t count = __atomic_load_n(&s->count, __ATOMIC_ACQUIRE);
	uint32_t shift = s->chunk_shift;

	if (s->item_bytes != ALIGN_UP(item_bytes, 64) || shift > FABRIC_SHIFT_MAX ||
	    count > (uint64_t)HCA_CHUNKS << shift || free_first > count || free_last > count)
		return false;
	for (uint32_t i = 0; (uint64_t)i << shift < count; i++) {
		uint64_t at = fabric_load(&s->chunk[i]);
		const struct fabric_view v = {.first = ALIGN_UP(sizeof *seg, (uint64_t)4096),
					      .used = fabric_load(&seg->arena.used)};

		if (!fabric_inside(&v, at, (uint64_t)s->item_bytes << shift))
			return false;
	}
	return true;
}

static bool fabric_slabs_fit(const struct fabric_segment *seg, const struct hca_world *w)
{
	const struct {
		const struct hca_slab *slab;
		size_t item_bytes;
	} all[] = {
		{&w->qp, sizeof(struct hca_qp)},
		{&w->cq, sizeof(struct hca_cq)},
		{&w->srq, sizeof(struct hca_srq)},
		{&w->ah, sizeof(struct hca_ah)},
		{&w->member, sizeof(struct hca_member)},
		{&w->mr, sizeof(struct hca_mr)},
		{&w->mw, sizeof(struct hca_mw)},
		{&w->pd, sizeof(struct hca_pd)},
		{&w->context, sizeof(struct hca_context)},
		{&w->channel, sizeof(struct hca_channel)},
		{&w->event, sizeof(struct hca_event)},
		{&w->packet, sizeof(struct hca_packet)},
		{&w->small, sizeof(struct hca_buffer_small)},
		{&w->large, sizeof(struct hca_buffer_large)},
		{&w->xrcd, sizeof(struct hca_xrcd)},
		{&w->xrcd_open, sizeof(struct hca_xrcd_open)},
		{&w->qp_open, sizeof(struct hca_qp_open)},
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (!fabric_slab_fits(seg, all[i].slab, all[i].item_bytes))
			return false;
	return true;
}

static bool fabric_rings_fit(const struct fabric_segment *seg, const struct hca_rings *r)
{
	const struct fabric_view all = {.first = ALIGN_UP(sizeof *seg, (uint64_t)4096),
					.used = fabric_load(&seg->arena.used)};
	const struct fabric_view range = {.first = r->first, .used = r->first + r->bytes};

	if (r->bytes != HCA_RINGS_BYTES ||
	    !fabric_inside(&all, r->first, r->bytes + HCA_RINGS_HEADS(HCA_RINGS_BYTES)))
		return false;
	for (uint32_t i = 0; i < ARRAY_LEN(r->free); i++) {
		uint64_t at = fabric_load(&r->free[i]);

		if (at && (i >= 32 || !fabric_inside(&range, at, 1ull << i)))
			return false;
	}
	return true;
}

/* Checks the hash buckets of queue pairs, the memory of rings, and the slabs. */
static bool fabric_world_fits(const struct fabric_segment *seg, const struct hca_world *w)
{
	for (uint32_t i = 0; i < w->ports; i++)
		for (uint32_t k = 0; k < HCA_BUCKETS; k++) {
			uint32_t at = __atomic_load_n(&w->port[i].bucket[k], __ATOMIC_ACQUIRE);

			if (at > __atomic_load_n(&w->qp.count, __ATOMIC_ACQUIRE))
				return false;
		}
	return fabric_rings_fit(seg, &w->rings) && fabric_slabs_fit(seg, w);
}

static bool fabric_contents_fit(const struct fabric_segment *s)
{
	uint64_t world = fabric_load(&s->world), used = fabric_load(&s->arena.used);
	const struct fabric_view v = {.first = ALIGN_UP(sizeof *s, (uint64_t)4096), .used = used};

	if (used < v.first || used > WORLD_ARENA_BYTES)
		return false;
	uint64_t segments = fabric_load(&s->arena.segments);

	if (segments && !fabric_inside(&v, segments, WORLD_SEGMENTS_BYTES))
		return false;
	for (uint32_t i = 0; i < FABRIC_MEMBERS; i++) {
		uint32_t id = __atomic_load_n(&s->member[i].id, __ATOMIC_ACQUIRE);

		if (id && id % FABRIC_MEMBERS != i)
			return false;
	}
	if (!world)
		return true;
	if (!fabric_inside(&v, world, sizeof(struct hca_world)))
		return false;
	const struct hca_world *w = (const struct hca_world *)((const uint8_t *)s + world);

	return w->ports <= FABRIC_PORTS_MAX &&
	       fabric_inside(&v, world, sizeof *w + w->ports * sizeof w->port[0]) &&
	       fabric_world_fits(s, w);
}

const char *fabric_check(const struct fabric_segment *s, uint64_t layout)
{
	if (__atomic_load_n(&s->magic, __ATOMIC_ACQUIRE) != FABRIC_MAGIC)
		return "it is not the memory of a fabric";
	if (s->version != FABRIC_VERSION || s->members != FABRIC_MEMBERS || s->layout != layout)
		return "another version of Doppel made it";
	return fabric_contents_fit(s) ? NULL : "it is inconsistent";
}

const char *fabric_check_file(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || seals < 0)
		return "it is not the memory of a fabric";
	if (st.st_uid != geteuid())
		return "another user owns it";
	if (st.st_size != (off_t)WORLD_ARENA_BYTES || (seals & FABRIC_SEALS) != FABRIC_SEALS)
		return "its size or seals are not a fabric's";
	return NULL;
}
