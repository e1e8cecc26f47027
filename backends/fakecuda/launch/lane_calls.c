/* SPDX-License-Identifier: BSD-3-Clause */
/* Lanes of kernels from PTX (ptx/lane.h): their start and end, time, printf, traps. */
#include "backends/fakecuda/launch/lane_run.h"

#include <stdlib.h>

#define LANE_SPINS      64   /* backward branches between two pauses */
#define LANE_PAUSE_NS   1000 /* about what they take on a GPU */
#define LANE_FRAMES_MIN 16384u

/* ---- start ---------------------------------------------------------------------------------- */

static void lane_place(uint32_t at[3], uint32_t linear, dim3 size)
{
	at[0] = linear % size.x;
	at[1] = linear / size.x % size.y;
	at[2] = linear / size.x / size.y;
}

static void lane_size(uint32_t at[3], dim3 size)
{
	at[0] = size.x;
	at[1] = size.y;
	at[2] = size.z;
}

/* Room for the frames of each function once, and for some recursion. */
static uint32_t lane_frame_bytes(const struct fc_unit *u)
{
	uint64_t bytes = LANE_FRAMES_MIN;

	for (uint32_t i = 0; i < u->image->module.funcs; i++)
		bytes += u->image->module.func[i].frame_bytes + LANE_FRAME_ALIGN;
	return (uint32_t)MIN_OF(bytes, (uint64_t)PTX_FRAME_MOST);
}

void fc_lane_run(struct dev *d, const void *args)
{
	const struct fc_kernel *k = d->blk->kernel;
	const struct fc_unit *u = k->func->unit;
	struct run_thread *t = run_self(d);
	struct ptx_lane l = {.laneid = d->thread % 32,
			     .warpid = d->thread / 32,
			     .nwarpid = DIV_UP(d->nthreads, 32u),
			     .smid = d->block % (uint32_t)k->ctx->dev->sms,
			     .shared_bytes = (uint32_t)k->shared_bytes,
			     .dynamic_bytes = (uint32_t)k->shared_bytes - u->code.static_shared,
			     .args = args,
			     .global = k->globals,
			     .file = "",
			     .dev = d};

	lane_place(l.tid, d->thread, k->block_dim);
	lane_size(l.ntid, k->block_dim);
	lane_place(l.ctaid, d->block, k->grid);
	lane_size(l.nctaid, k->grid);
	l.frame_bytes = lane_frame_bytes(u);
	t->frames = malloc(l.frame_bytes + LANE_FRAME_ALIGN);
	ASSERT(t->frames);
	l.frames = (void *)ALIGN_UP((uintptr_t)t->frames, (uintptr_t)LANE_FRAME_ALIGN);
	l.frame = l.frames;
	t->lane = &l;
	u->code.entry(&l);
	t->lane = NULL;
}

uint8_t *ptx_frame(struct ptx_lane *l, uint32_t bytes)
{
	uint8_t *frame = l->frame;
	uint32_t room = l->frame_bytes - (uint32_t)(frame - l->frames);

	bytes = ALIGN_UP(bytes, (uint32_t)LANE_FRAME_ALIGN);
	if (bytes > room)
		lane_trap(l, cudaErrorLaunchFailure,
			  "a frame of %u bytes: %u of the thread's %u bytes of local memory are "
			  "free",
			  bytes, room, l->frame_bytes);
	l->frame += bytes;
	return frame;
}

/* ---- end ------------------------------------------------------------------------------------ */

void ptx_exit(struct ptx_lane *l)
{
	run_exit(lane_dev(l));
}

void ptx_trap(struct ptx_lane *l, const char *why)
{
	lane_trap(l, cudaErrorLaunchFailure, "%s", why);
}

/* ---- time ----------------------------------------------------------------------------------- */

void ptx_pause(struct ptx_lane *l)
{
	lane_lines_settle(lane_dev(l));
	if (++l->spins < LANE_SPINS)
		return;
	l->spins = 0;
	ptx_sleep(l, LANE_PAUSE_NS);
}

void ptx_sleep(struct ptx_lane *l, uint32_t ns)
{
	struct dev *d = lane_dev(l);

	run_enter(d, "dev.pause");
	run_lines_done(d);
	lane_lines_settle(d);
	lane_lines_paused(d);
	os_sleep_ns(ns);
	if (run_dead(d))
		run_exit(d);
}

uint64_t ptx_now_ns(struct ptx_lane *l)
{
	return fakedev_now_ns(lane_dev(l));
}

/* ---- printf and assert ---------------------------------------------------------------------- */

/* Reads a string of the device, or of the host: up to `room` - 1 bytes. */
static void lane_string(struct ptx_lane *l, uint64_t address, char *out, uint32_t room)
{
	const struct ptx_how how = {PTX_GENERIC, PTX_WEAK, PTX_GPU};
	uint32_t n = 0;

	while (address && n < room - 1) {
		ptx_load(l, how, address + n, &out[n], 1, 1);
		if (!out[n])
			break;
		n++;
	}
	out[n] = '\0';
}

struct lane_printer {
	struct ptx_lane *lane;
	uint64_t values; /* address of the next value */
	char text[1024];
	size_t used;
	int32_t count;
};

static uint64_t printer_value(struct lane_printer *p, uint32_t bytes)
{
	const struct ptx_how how = {PTX_GENERIC, PTX_WEAK, PTX_GPU};
	uint64_t v = 0;

	p->values = ALIGN_UP(p->values, (uint64_t)bytes);
	ptx_load(p->lane, how, p->values, &v, bytes, 1);
	p->values += bytes;
	p->count++;
	return v;
}

#define PRINTER_ADD(p, ...)                                                                        \
	printer_added(p, snprintf((p)->text + (p)->used, sizeof(p)->text - (p)->used, __VA_ARGS__))

static void printer_added(struct lane_printer *p, int n)
{
	if (n > 0)
		p->used = MIN_OF(p->used + (size_t)n, sizeof p->text - 1);
}

/* Writes one conversion. `spec` is the text from % to the letter. */
static void printer_convert(struct lane_printer *p, const char *spec, char letter, bool wide)
{
	char string[256];

	if (letter == 's') {
		lane_string(p->lane, printer_value(p, 8), string, sizeof string);
		PRINTER_ADD(p, spec, string);
	} else if (letter == 'p') {
		PRINTER_ADD(p, spec, (void *)(uintptr_t)printer_value(p, 8));
	} else if (strchr("aAeEfFgG", letter)) {
		PRINTER_ADD(p, spec, ptx_f64(printer_value(p, 8)));
	} else if (wide) {
		PRINTER_ADD(p, spec, (unsigned long)printer_value(p, 8));
	} else {
		PRINTER_ADD(p, spec, (unsigned int)printer_value(p, 4));
	}
}

/* Copies flags, width, precision and length; stops at the letter. Returns the text after it. */
static const char *printer_conversion(struct lane_printer *p, const char *at)
{
	char spec[32];
	size_t n = 0;
	bool wide = false;

	do {
		wide |= *at == 'l' || *at == 'z' || *at == 'j' || *at == 't';
		spec[n++] = *at++;
	} while (n < sizeof spec - 1 && *at && !strchr("diouxXcspaAeEfFgG%", *at));
	char letter = *at;
	spec[n] = letter;
	spec[n + (letter != '\0')] = '\0';
	if (letter == '%')
		PRINTER_ADD(p, "%%");
	else if (letter && n < sizeof spec - 1 && !strchr(spec, '*') && !strchr(spec, 'L'))
		printer_convert(p, spec, letter, wide);
	else
		lane_trap(p->lane, cudaErrorLaunchFailure, "printf: conversion %s", spec);
	return at + 1;
}

/* The values lie one after another, each aligned to its size. A line is written whole. */
int32_t ptx_vprintf(struct ptx_lane *l, uint64_t format, uint64_t values)
{
	struct lane_printer p = {.lane = l, .values = values};
	char text[512];

	lane_string(l, format, text, sizeof text);
	for (const char *at = text; *at;) {
		if (*at == '%') {
			at = printer_conversion(&p, at);
		} else {
			PRINTER_ADD(&p, "%c", *at);
			at++;
		}
	}
	fwrite(p.text, 1, p.used, stdout);
	return p.count;
}

void ptx_assert_fail(struct ptx_lane *l, uint64_t text, uint64_t file, uint32_t line,
		     uint64_t function)
{
	char what[160], where[160], in[160];

	lane_string(l, text, what, sizeof what);
	lane_string(l, file, where, sizeof where);
	lane_string(l, function, in, sizeof in);
	lane_trap(l, cudaErrorAssert, "assertion %s failed at %s:%u in %s", what, where, line, in);
}
