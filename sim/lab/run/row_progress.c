/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A line on the terminal about the row under way, every second of real time. Engine sim calls
 * between steps, so that the run is the same as without; in `threads` it is a timer.
 */
#include <inttypes.h>
#include <time.h>

#include "sim/lab/run/runner_internal.h"

#define PROGRESS_EVERY_NS 1000000000ull

static uint64_t progress_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void progress_show(const struct lab_run *run, uint64_t now_ns)
{
	const struct lab_progress *p = &run->progress;
	char time[32], what[LAB_ROW_TEXT];

	lab_row_text(&p->row, what);
	fprintf(stderr, "\r%s: %" PRIu64 " s", what, (now_ns - p->start_ns) / 1000000000);
	if (sim_engine_kind() == SIM_ENGINE_SIM) {
		sim_format_ns(time, sim_now_ns());
		fprintf(stderr, ", step %" PRIu64 ", virtual time %s", sim_steps(), time);
	}
	fputs("\033[K\r", stderr);
}

void lab_progress_tick(void *arg)
{
	struct lab_run *run = arg;
	struct lab_progress *p = &run->progress;
	uint64_t now_ns = progress_now_ns();

	if (!p->on || now_ns - p->shown_ns < PROGRESS_EVERY_NS)
		return;
	p->shown_ns = now_ns;
	progress_show(run, now_ns);
}

static void progress_step(void *object, uint64_t arg)
{
	const struct sim_event_attr attr = {.name = "lab.progress",
					    .kind = SIM_EVENT_TIMER,
					    .delay_ns = PROGRESS_EVERY_NS,
					    .background = true};

	(void)arg;
	lab_progress_tick(object);
	sim_event_post(&attr, progress_step, object, 0, NULL);
}

void lab_progress_start(struct lab_run *run)
{
	if (run->config->progress && sim_engine_kind() == SIM_ENGINE_THREADS)
		progress_step(run, 0);
}

void lab_progress_row(struct lab_run *run, const struct lab_row *row)
{
	if (!run->config->progress)
		return;
	run->progress = (struct lab_progress){.on = true, .row = *row};
	run->progress.start_ns = run->progress.shown_ns = progress_now_ns();
}

void lab_progress_clear(struct lab_run *run)
{
	if (!run->progress.on)
		return;
	run->progress.on = false;
	fputs("\033[K", stderr);
}
