/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The records of the trace file. A track is a row. Each host task has one, under its rank; doubles
 * have their own (a stream under its rank, a port under its host). Opening a track writes its name.
 * Warps have tracks only with config.trace_detail: there are thousands of them.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/base/text.h"
#include "sim/engine/trace/timeline.h"

/* All tracks that have a name in the file; the tid is the index in this array plus 1. The pid of a
 * group is the tid of its first track: a viewer treats a thread whose tid equals its pid as the
 * main thread of that process. */
static struct timeline_track {
	enum sim_track_group group;
	int32_t number;
	uint32_t pid;
	char name[64];
} * timeline_track;
static uint32_t timeline_tracks, timeline_track_room;
static struct sim_track timeline_events; /* records of devices and warps */

/* ---- parts of a record ---------------------------------------------------------------------- */

/* Writes a quoted string of at most TRACE_STRING_MAX bytes; cuts a longer one. */
static char *timeline_string(char *to, const char *s)
{
	const char *end = to + TRACE_STRING_MAX - 3;

	*to++ = '"';
	for (; *s && to < end; s++) {
		if (*s == '"' || *s == '\\')
			*to++ = '\\';
		*to++ = (uint8_t)*s < ' ' ? ' ' : *s;
	}
	*to++ = '"';
	return to;
}

/* Begins a record; the caller adds members and ends it. */
static char *timeline_head(uint32_t pid, uint32_t tid, char phase, uint64_t at_ns, const char *name)
{
	char *to = trace_room(TRACE_RECORD_MAX);

	to = text_put(to, "{\"ph\":\"");
	*to++ = phase;
	to = text_put_u64(text_put(to, "\",\"pid\":"), pid);
	to = text_put_u64(text_put(to, ",\"tid\":"), tid);
	to = text_put_us(text_put(to, ",\"ts\":"), at_ns);
	return timeline_string(text_put(to, ",\"name\":"), name);
}

static void timeline_end(char *to)
{
	trace_end(text_put(to, "},\n"));
}

static char *timeline_args(char *to, const struct os_trace_slice *s)
{
	if (!s->arg[0].name)
		return to;
	to = text_put(to, ",\"args\":{");
	for (int i = 0; i < OS_TRACE_ARGS && s->arg[i].name; i++) {
		if (i)
			*to++ = ',';
		to = timeline_string(to, s->arg[i].name);
		*to++ = ':';
		to = s->arg[i].text ? timeline_string(to, s->arg[i].text)
				    : text_put_u64(to, s->arg[i].number);
	}
	*to++ = '}';
	return to;
}

static char *timeline_flow(char *to, const struct os_trace_slice *s)
{
	if (!s->flow)
		return to;
	to = text_put_u64(text_put(to, ",\"bind_id\":"), s->flow);
	if (s->flow_in)
		to = text_put(to, ",\"flow_in\":true");
	return s->flow_out ? text_put(to, ",\"flow_out\":true") : to;
}

/* ---- tracks --------------------------------------------------------------------------------- */

static void timeline_meta(uint32_t pid, uint32_t tid, const char *what, const char *name)
{
	char *to = text_put(timeline_head(pid, tid, 'M', 0, what), ",\"args\":{\"name\":");

	timeline_end(text_put(timeline_string(to, name), "}"));
}

static void timeline_name_track(uint32_t tid)
{
	ASSERT(tid >= 1 && tid <= timeline_tracks);
	const struct timeline_track *t = &timeline_track[tid - 1];
	char group[32] = "run";

	if (t->group != SIM_TRACK_RUN)
		snprintf(group, sizeof group, "%s %d", t->group == SIM_TRACK_RANK ? "rank" : "host",
			 t->number);
	timeline_meta(t->pid, tid, "process_name", group);
	timeline_meta(t->pid, tid, "thread_name", t->name);
}

void timeline_tracks_again(void)
{
	for (uint32_t tid = 1; tid <= timeline_tracks; tid++)
		timeline_name_track(tid);
}

static uint32_t timeline_pid(enum sim_track_group group, int32_t number)
{
	for (uint32_t i = 0; i < timeline_tracks; i++)
		if (timeline_track[i].group == group && timeline_track[i].number == number)
			return timeline_track[i].pid;
	return timeline_tracks + 1;
}

static struct sim_track timeline_track_new(enum sim_track_group group, int32_t number,
					   const char *name)
{
	struct timeline_track t = {group, number, timeline_pid(group, number), ""};

	if (timeline_tracks == timeline_track_room) {
		timeline_track_room = MAX_OF(64u, 2 * timeline_track_room);
		timeline_track =
			realloc(timeline_track, timeline_track_room * sizeof *timeline_track);
		ASSERT(timeline_track);
	}
	snprintf(t.name, sizeof t.name, "%s", name);
	timeline_track[timeline_tracks++] = t;
	timeline_name_track(timeline_tracks);
	return (struct sim_track){.pid = t.pid, .tid = timeline_tracks};
}

void sim_track_open(struct sim_track *t, enum sim_track_group group, int32_t number,
		    const char *name)
{
	trace_lock();
	if (!t->tid)
		*t = number < 0 ? timeline_track_new(SIM_TRACK_RUN, 0, name)
				: timeline_track_new(group, number, name);
	trace_unlock();
}

void timeline_stop(void)
{
	free(timeline_track);
	timeline_track = NULL;
	timeline_tracks = timeline_track_room = 0;
	timeline_events = (struct sim_track){0};
}

bool sim_trace_detailed(void)
{
	return trace_is_on() && eng.config.trace_detail;
}

/* ---- slices --------------------------------------------------------------------------------- */

static char *timeline_duration(char *to, uint64_t ns)
{
	to = text_put(to, ",\"dur\":");
	return ns ? text_put_us(to, ns) : text_put(to, "0");
}

/* Writes one slice; `ns` is the length of a slice of phase 'X'. */
static void timeline_slice(const struct sim_track *t, char phase, const struct os_trace_slice *s,
			   uint64_t at_ns, uint64_t ns)
{
	ASSERT(t->tid > 0 && t->pid > 0); /* sim_track_open was called */
	trace_lock();
	char *to = timeline_head(t->pid, t->tid, phase, at_ns, s->name);
	if (phase == 'X')
		to = timeline_duration(to, ns);
	timeline_end(timeline_args(timeline_flow(to, s), s));
	trace_unlock();
}

void sim_trace_begin(const struct sim_track *t, const struct os_trace_slice *s)
{
	timeline_slice(t, 'B', s, sim_now_ns(), 0);
}

void sim_trace_end(const struct sim_track *t, const struct os_trace_slice *s)
{
	timeline_slice(t, 'E', s, sim_now_ns(), 0);
}

void sim_trace_span(const struct sim_track *t, const struct os_trace_slice *s, uint64_t from_ns,
		    uint64_t ns)
{
	timeline_slice(t, 'X', s, from_ns, ns);
}

void sim_trace_counter(const struct sim_track *t, const char *name, const char *unit,
		       uint64_t at_ns, uint64_t milli)
{
	trace_lock();
	char *to = timeline_head(t->pid, t->tid, 'C', at_ns, name);

	to = timeline_string(text_put(to, ",\"args\":{"), unit);
	*to++ = ':';
	timeline_end(text_put(text_put_us(to, milli), "}"));
	trace_unlock();
}

/* ---- tasks ---------------------------------------------------------------------------------- */

/* Returns the track of the task, or the shared track of devices and warps. */
static const struct sim_track *timeline_track_of(struct task *t)
{
	if (t && (t->pub.kind == SIM_TASK_HOST || eng.config.trace_detail)) {
		sim_track_open(&t->track, SIM_TRACK_RANK, t->pub.self.rank, t->pub.name);
		return &t->track;
	}
	sim_track_open(&timeline_events, SIM_TRACK_RUN, 0, "devices");
	return &timeline_events;
}

static struct task *timeline_self(void)
{
	return eng.sched->self();
}

void timeline_of_task(char phase, const struct os_trace_slice *s, uint64_t from_ns)
{
	if (!trace_is_on())
		return;
	const struct sim_track *t = timeline_track_of(timeline_self());
	uint64_t now = sim_now_ns();
	uint64_t at = phase == 'X' ? from_ns : now;

	timeline_slice(t, phase, s, at, now - at);
}

void timeline_wait(struct task *t, const char *why, uint64_t from_ns)
{
	if (!trace_is_on() || eng.now_ns == from_ns)
		return;
	if (t->pub.kind != SIM_TASK_HOST && !eng.config.trace_detail)
		return;
	timeline_slice(timeline_track_of(t), 'X',
		       &(struct os_trace_slice){.name = why ? why : "wait"}, from_ns,
		       eng.now_ns - from_ns);
}

/* ---- instants ------------------------------------------------------------------------------- */

static void timeline_instant_of(const struct os_trace_slice *s)
{
	const struct sim_track *t = timeline_track_of(timeline_self());
	uint64_t now = sim_now_ns();

	trace_lock();
	char *to = timeline_head(t->pid, t->tid, 'i', now, s->name);
	timeline_end(timeline_args(text_put(to, ",\"s\":\"t\""), s));
	trace_unlock();
}

void timeline_instant(const char *name, const char *detail)
{
	if (trace_is_on())
		timeline_instant_of(
			&(struct os_trace_slice){.name = name, .arg = {{"detail", 0, detail}}});
}

struct timeline_fields {
	struct os_trace_slice slice;
	char name[3][24]; /* names of upper halves */
	int n;
};

static void timeline_field_add(struct timeline_fields *f, const char *name, uint64_t value)
{
	f->slice.arg[f->n].name = name;
	f->slice.arg[f->n++].number = value;
}

/* Adds one number, or two if `field` is "upper<<bits lower". */
static void timeline_field(struct timeline_fields *f, int i, const char *field, uint64_t value)
{
	const char *shift = strstr(field, "<<");

	if (!shift) {
		timeline_field_add(f, field, value);
		return;
	}
	uint64_t bits = strtoull(shift + 2, NULL, 10);
	snprintf(f->name[i], sizeof f->name[i], "%.*s", (int)(shift - field), field);
	timeline_field_add(f, f->name[i], value >> bits);
	timeline_field_add(f, strchr(shift, ' ') + 1, value & ((1ull << bits) - 1));
}

void timeline_record(const char *kind, uint64_t a, uint64_t b, uint64_t c)
{
	static const struct timeline_kind unknown = {"", false, {"a", "b", "c"}};
	const struct timeline_kind *k = timeline_kind_find(kind);
	const uint64_t value[3] = {a, b, c};
	struct timeline_fields f = {.slice.name = kind};

	if (!k)
		k = &unknown;
	if (k->often && !eng.config.trace_detail)
		return;
	for (int i = 0; i < 3; i++)
		if (k->field[i][0])
			timeline_field(&f, i, k->field[i], value[i]);
	timeline_instant_of(&f.slice);
}
