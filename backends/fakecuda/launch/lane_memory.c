/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory as lanes of kernels from PTX see it (ptx/lane.h). Memory near to the lane is its block's
 * shared memory, its frames and its parameters: plain memory of the host, with bounds. All other
 * addresses are global and go through the functions of device_access.c, which check them.
 */
#include "backends/fakecuda/launch/lane_run.h"

static const enum shared_order lane_orders[] = {
	[PTX_WEAK] = SHARED_RELAXED,    [PTX_RELAXED] = SHARED_RELAXED,
	[PTX_ACQUIRE] = SHARED_ACQUIRE, [PTX_RELEASE] = SHARED_RELEASE,
	[PTX_ACQ_REL] = SHARED_ACQ_REL, [PTX_SC] = SHARED_SEQ_CST,
};
static const enum shared_scope lane_scopes[] = {
	[PTX_CTA] = SHARED_BLOCK,
	[PTX_GPU] = SHARED_GPU,
	[PTX_SYS] = SHARED_SYSTEM,
};

/* ---- spaces --------------------------------------------------------------------------------- */

struct lane_area {
	uint64_t base, bytes;
};

static struct lane_area lane_area(const struct ptx_lane *l, enum ptx_space space)
{
	const struct dev *d = l->dev;
	const struct fc_kernel *k = d->blk->kernel;

	switch (space) {
	case PTX_SHARED:
		return (struct lane_area){(uintptr_t)d->shared, l->shared_bytes};
	case PTX_LOCAL:
		return (struct lane_area){(uintptr_t)l->frames, l->frame_bytes};
	case PTX_PARAM:
		return (struct lane_area){(uintptr_t)l->args, k->func->kernel->arg_bytes};
	default:
		return (struct lane_area){0, 0};
	}
}

static bool lane_in(const struct ptx_lane *l, enum ptx_space space, uint64_t address,
		    uint64_t bytes)
{
	struct lane_area a = lane_area(l, space);

	return address - a.base < a.bytes && bytes <= a.bytes - (address - a.base);
}

static bool lane_in_any(const struct ptx_lane *l, uint64_t address, uint64_t bytes)
{
	return lane_in(l, PTX_LOCAL, address, bytes) || lane_in(l, PTX_SHARED, address, bytes) ||
	       lane_in(l, PTX_PARAM, address, bytes);
}

/* Returns the memory near to the lane; NULL: the address is global. An address of shared memory is
 * an offset if the instruction names the space. Parameters of functions lie in frames. */
static void *lane_near(struct ptx_lane *l, const char *what, enum ptx_space space, uint64_t address,
		       uint64_t bytes)
{
	bool in = true;

	if (space == PTX_GLOBAL || space == PTX_CONST)
		return NULL;
	if (space == PTX_SHARED) {
		in = address < l->shared_bytes && bytes <= l->shared_bytes - address;
		if (!in)
			lane_trap(l, cudaErrorIllegalAddress,
				  "illegal address: %s of %llu bytes at offset %llu of the "
				  "block's %u bytes of shared memory",
				  what, (unsigned long long)bytes, (unsigned long long)address,
				  l->shared_bytes);
		address += (uintptr_t)lane_dev(l)->shared;
	} else {
		in = lane_in_any(l, address, bytes);
	}
	if (!in && space != PTX_GENERIC)
		lane_trap(l, cudaErrorIllegalAddress,
			  "illegal address: %s of %llu bytes at 0x%llx, outside of local memory "
			  "and parameters",
			  what, (unsigned long long)bytes, (unsigned long long)address);
	return in ? (void *)(uintptr_t)address : NULL;
}

uint64_t ptx_to_generic(struct ptx_lane *l, enum ptx_space space, uint64_t address)
{
	return space == PTX_SHARED ? address + (uintptr_t)lane_dev(l)->shared : address;
}

uint64_t ptx_from_generic(struct ptx_lane *l, enum ptx_space space, uint64_t address)
{
	return space == PTX_SHARED ? address - (uintptr_t)lane_dev(l)->shared : address;
}

bool ptx_is_space(struct ptx_lane *l, enum ptx_space space, uint64_t address)
{
	if (space == PTX_GLOBAL)
		return !lane_in_any(l, address, 1);
	return space != PTX_CONST && lane_in(l, space, address, 1);
}

/* ---- loads and stores ----------------------------------------------------------------------- */

static void lane_check_align(struct ptx_lane *l, const char *what, uint64_t address, uint32_t bytes)
{
	if (UNLIKELY(address % bytes))
		lane_trap(l, cudaErrorMisalignedAddress,
			  "misaligned address: %s of %u bytes at 0x%llx", what, bytes,
			  (unsigned long long)address);
}

/* A strong access of memory near to the lane may be that of a loop that waits. */
static void lane_near_point(struct ptx_lane *l, struct ptx_how how)
{
	if (how.order == PTX_WEAK)
		return;
	run_enter(lane_dev(l), "dev.shared");
	l->spins += l->spins < UINT32_MAX;
}

/* A strong access of a vector is made in pieces of up to 8 bytes. Flags and data that lie in 8
 * bytes are written and seen together, as on a GPU. The specification promises this for a single
 * value only, and programs such as NCCL rely on it. */
static uint32_t lane_piece(uint32_t unit, uint32_t n)
{
	return unit == 4 && n > 1 ? 8 : unit;
}

/* The warp's own accesses see lines that are not in memory yet. */
static inline void lane_show(struct dev *d, const void *near, uint64_t address, uint32_t bytes)
{
	struct run_warp *w = &d->blk->warp[d->thread / 32];

	if (!near && UNLIKELY(w->lines != NULL))
		lane_lines_show(w, address, bytes);
}

void ptx_load(struct ptx_lane *l, struct ptx_how how, uint64_t address, void *to, uint32_t unit,
	      uint32_t n)
{
	struct dev *d = lane_dev(l);
	const void *p = (const void *)(uintptr_t)address;

	lane_check_align(l, "read", address, unit * n);
	const void *near = lane_near(l, "read", how.space, address, unit * n);
	lane_show(d, near, address, unit * n);
	if (near) {
		lane_near_point(l, how);
		memcpy(to, near, unit * n);
	} else if (how.order == PTX_WEAK || unit < 4) {
		memcpy(to, fakedev_read(d, p, unit * n), unit * n);
	} else {
		uint32_t piece = lane_piece(unit, n);
		for (uint32_t at = 0; at < unit * n; at += piece) {
			uint64_t v = fakedev_load(d, (const uint8_t *)p + at, (int)piece,
						  lane_orders[how.order], lane_scopes[how.scope]);
			memcpy((uint8_t *)to + at, &v, piece);
		}
	}
}

void ptx_store(struct ptx_lane *l, struct ptx_how how, uint64_t address, const void *from,
	       uint32_t unit, uint32_t n)
{
	struct dev *d = lane_dev(l);
	void *p = (void *)(uintptr_t)address;

	lane_check_align(l, "write", address, unit * n);
	void *near = lane_near(l, "write", how.space, address, unit * n);
	if (!near && unit * n == DEV_LINE_BYTES && how.order == PTX_RELAXED &&
	    lane_lines_store(d, p, from))
		return;
	lane_show(d, near, address, unit * n);
	if (near) {
		lane_near_point(l, how);
		memcpy(near, from, unit * n);
	} else if (how.order == PTX_WEAK || unit < 4) {
		memcpy(fakedev_write(d, p, unit * n), from, unit * n);
		fakedev_wrote(d, p, unit * n);
	} else {
		uint32_t piece = lane_piece(unit, n);
		for (uint32_t at = 0; at < unit * n; at += piece) {
			uint64_t v = 0;
			memcpy(&v, (const uint8_t *)from + at, piece);
			fakedev_store(d, (uint8_t *)p + at, (int)piece, v, lane_orders[how.order],
				      lane_scopes[how.scope]);
		}
	}
}

/* ---- atomics and fences --------------------------------------------------------------------- */

/* Other workers may change a global word meanwhile. */
static uint64_t lane_change_32(uint32_t *at, ptx_change *f, uint64_t a, uint64_t b)
{
	uint32_t old = __atomic_load_n(at, __ATOMIC_RELAXED);

	while (!__atomic_compare_exchange_n(at, &old, (uint32_t)f(old, a, b), false,
					    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		continue;
	return old;
}

static uint64_t lane_change_64(uint64_t *at, ptx_change *f, uint64_t a, uint64_t b)
{
	uint64_t old = __atomic_load_n(at, __ATOMIC_RELAXED);

	while (!__atomic_compare_exchange_n(at, &old, f(old, a, b), false, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		continue;
	return old;
}

uint64_t ptx_atom(struct ptx_lane *l, struct ptx_how how, uint64_t address, uint32_t bytes,
		  ptx_change *f, uint64_t a, uint64_t b)
{
	struct dev *d = lane_dev(l);

	lane_check_align(l, "atomic", address, bytes);
	void *at = lane_near(l, "atomic", how.space, address, bytes);
	bool near = at != NULL;
	run_enter(d, "dev.atom");
	if (!near) {
		run_lines_done(d);
		lane_lines_settle(d);
		lane_show(d, NULL, address, bytes);
		at = fakedev_word(d, (void *)(uintptr_t)address, (int)bytes, lane_orders[how.order],
				  lane_scopes[how.scope]);
	}
	uint64_t old = bytes == 4 ? lane_change_32(at, f, a, b) : lane_change_64(at, f, a, b);
	if (!near)
		fc_wrote((void *)(uintptr_t)address, bytes);
	return old;
}

void ptx_fence(struct ptx_lane *l, enum ptx_order order, enum ptx_scope scope)
{
	lane_lines_settle(lane_dev(l));
	fakedev_fence(lane_dev(l), lane_orders[order], lane_scopes[scope]);
}
