/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports of races, and the data kept for them: a ring of the latest accesses, each with the frames
 * that led to it, and the names of all agents. The frames are read from the chain of frame
 * pointers, which fake builds keep.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/memory/happens.h"
#include "sim/engine/base/symbol.h"

enum { REPORT_RECORDS = 1 << 16, REPORT_DESCRIBERS = 4, REPORT_NAME = 64 };

struct report_record {
	uint64_t number; /* the index in the ring has only its low bits */
	uint64_t step, vtime_ns;
	uintptr_t addr;
	uint64_t bytes;
	uint32_t actor;
	uint8_t op, order, scope;
	const void *frame[HAPPENS_FRAMES];
};

struct report_actor {
	char name[REPORT_NAME];
};

/* Kept between runs: its pages are nine megabytes. Numbers continue, so a record of an earlier run
 * is never taken for one of this run. */
static struct {
	struct report_record *record;
	uint64_t records;
} report_ring;

static struct {
	struct report_actor *actor;
	uint32_t actors, actor_room;
	uintptr_t stack_top; /* stack of the thread that runs the engine */
	bool cap_said, over;
} report;

/* Never removed: a double that can describe addresses can do so in every run. */
static bool (*report_describer[REPORT_DESCRIBERS])(const void *addr, char *out, size_t bytes);

void mem_on_describe(bool (*describe)(const void *addr, char *out, size_t bytes))
{
	for (int i = 0; i < REPORT_DESCRIBERS; i++) {
		if (report_describer[i] == describe)
			return;
		if (report_describer[i])
			continue;
		report_describer[i] = describe;
		return;
	}
	ASSERT(!"room for another describer of addresses");
}

/* ---- keeping -------------------------------------------------------------------------------- */

static void actor_name(const struct mem_agent *me, char out[REPORT_NAME])
{
	struct os_label l;

	if (me->task) {
		snprintf(out, REPORT_NAME, "%s", me->task->pub.name);
		return;
	}
	if (!me->object) {
		snprintf(out, REPORT_NAME, "a device");
		return;
	}
	if (!label_get(me->object, &l)) {
		snprintf(out, REPORT_NAME, "device object #%u", me->id);
		return;
	}
	int n = snprintf(out, REPORT_NAME, "%s", l.what);
	if (l.number >= 0)
		n += snprintf(out + n, (size_t)(REPORT_NAME - n), " %" PRId64, l.number);
	if (l.rank >= 0)
		n += snprintf(out + n, (size_t)(REPORT_NAME - n), " of rank %d", l.rank);
	if (l.peer >= 0)
		snprintf(out + n, (size_t)(REPORT_NAME - n), " peer %d channel %d", l.peer,
			 l.channel);
}

uint32_t report_actor(const struct mem_agent *me)
{
	if (report.actors == report.actor_room) {
		report.actor_room = report.actor_room ? 2 * report.actor_room : 256;
		report.actor = realloc(report.actor, report.actor_room * sizeof report.actor[0]);
		ASSERT(report.actor);
	}
	actor_name(me, report.actor[report.actors].name);
	return report.actors++;
}

/* Stores return addresses, innermost first, up to the end of the running stack. */
static void report_frames(const void *frame[HAPPENS_FRAMES])
{
	uintptr_t top = report.stack_top;

	if (eng.current && eng.current->fiber.stack)
		top = (uintptr_t)eng.current->fiber.low + eng.current->fiber.bytes;
	int n = symbol_frames(top, frame, HAPPENS_FRAMES);
	if (n < HAPPENS_FRAMES)
		frame[n] = NULL;
}

uint64_t report_record(const struct happens_part *p, const struct mem_access *a)
{
	uint64_t number = ++report_ring.records;
	struct report_record *r = &report_ring.record[number % REPORT_RECORDS];

	r->number = number;
	r->step = eng.steps;
	r->vtime_ns = eng.now_ns;
	r->addr = (uintptr_t)a->addr;
	r->bytes = a->bytes;
	r->actor = p->actor;
	r->op = (uint8_t)a->op;
	r->order = (uint8_t)a->order;
	r->scope = (uint8_t)a->scope;
	report_frames(r->frame);
	return number;
}

bool report_is_young(uint64_t record)
{
	return report_ring.records - record < REPORT_RECORDS / 2;
}

/* ---- words ---------------------------------------------------------------------------------- */

static void text_address(uintptr_t addr, char *out, size_t bytes)
{
	for (int i = 0; i < REPORT_DESCRIBERS && report_describer[i]; i++)
		if (report_describer[i]((const void *)addr, out, bytes))
			return;
	snprintf(out, bytes, "memory of the program at 0x%" PRIxPTR, addr);
}

static const char *text_order(uint8_t order)
{
	switch (order) {
	case SHARED_RELAXED:
		return "relaxed";
	case SHARED_ACQUIRE:
		return "acquire";
	case SHARED_RELEASE:
		return "release";
	case SHARED_ACQ_REL:
		return "acq_rel";
	default:
		return "seq_cst";
	}
}

static const char *text_scope(uint8_t scope)
{
	static const char *const name[] = {"block", "gpu", "system"};

	return name[scope];
}

/* Formats "loaded word (relaxed, gpu)", "wrote range". */
static void text_operation(const struct report_record *r, char *out, size_t bytes)
{
	static const char *const verb[] = {
		[SHARED_LOAD] = "loaded the word of", [SHARED_STORE] = "stored the word of",
		[SHARED_RMW] = "updated the word of", [SHARED_FENCE] = "fenced",
		[SHARED_RANGE_READ] = "read",         [SHARED_RANGE_WRITE] = "wrote",
	};

	if (r->op == SHARED_RANGE_READ || r->op == SHARED_RANGE_WRITE)
		snprintf(out, bytes, "%s %" PRIu64 " bytes", verb[r->op], r->bytes);
	else
		snprintf(out, bytes, "%s %" PRIu64 " bytes (%s, %s scope)", verb[r->op], r->bytes,
			 text_order(r->order), text_scope(r->scope));
}

/* True for a hook of the engine or the doubles: its frames do not show the code that made the
 * access. */
static bool frame_is_hook(const char *name)
{
	static const char *const prefix[] = {"happens_",    "mem_",     "shared_", "accessor_",
					     "sched_sim_",  "fakedev_", "report_", "run_",
					     "os_wait",     "shadow_",  "seg_",    "page_",
					     "range_check_"};

	for (size_t i = 0; i < ARRAY_LEN(prefix); i++)
		if (strncmp(name, prefix[i], strlen(prefix[i])) == 0)
			return true;
	return false;
}

static void print_frames(const struct report_record *r)
{
	bool inside = false;

	for (int i = 0; i < HAPPENS_FRAMES && r->frame[i]; i++) {
		char name[128];
		size_t offset;
		bool known = symbol_find((const char *)r->frame[i] - 1, name, sizeof name, &offset);

		if (!inside && known && frame_is_hook(name))
			continue;
		inside = true;
		fprintf(stderr, "        %s+0x%zx\n", name, offset + 1);
		if (strcmp(name, "task_entry") == 0 || strcmp(name, "event_run_top") == 0)
			break;
	}
}

static const struct report_record *record_find(uint64_t number)
{
	const struct report_record *r = &report_ring.record[number % REPORT_RECORDS];

	return number && r->number == number ? r : NULL;
}

static void print_side(const char *when, const struct report_record *r, uint32_t actor_or_none)
{
	char operation[96], where[256], time[32];

	if (!r) {
		fprintf(stderr, "  %s: an access that is no longer recorded%s%s\n", when,
			actor_or_none == HAPPENS_NONE ? "" : " by ",
			actor_or_none == HAPPENS_NONE ? "" : report.actor[actor_or_none].name);
		return;
	}
	text_operation(r, operation, sizeof operation);
	text_address(r->addr, where, sizeof where);
	sim_format_ns(time, r->vtime_ns);
	fprintf(stderr, "  %s: %s %s at step %" PRIu64 ", time %s\n      %s\n", when,
		report.actor[r->actor].name, operation, r->step, time, where);
	print_frames(r);
}

static const char *record_agent(const struct report_record *r)
{
	return r ? report.actor[r->actor].name : "an agent";
}

/* Finds a word that would have carried the order to `by`, had it been read or written otherwise.
 * `by` is p, or an agent whose later actions p knows. */
static bool missing_by_word(const struct happens_part *p, const struct happens_part *by,
			    const struct happens_seen *before, char *out, size_t bytes)
{
	const char *now_name = report.actor[by->actor].name;

	/* a release that was not acquired explains more than a missing release */
	for (int i = 0; i < 2 * HAPPENS_PENDING; i++) {
		const struct happens_pending *d = &by->pending[i % HAPPENS_PENDING];
		const struct report_record *load = record_find(d->load);
		const struct report_record *store = record_find(d->store);
		char where[256], step[48] = "";
		const struct happens_seen look = {.slot = by->slot, .epoch = d->epoch};

		if ((d->why == HAPPENS_RELAXED_STORE) != (i >= HAPPENS_PENDING) ||
		    !happens_stamp_covers(&d->stamp, before) || !happens_ordered(p, &look))
			continue;
		text_address(d->word, where, sizeof where);
		if (load)
			snprintf(step, sizeof step, " at step %" PRIu64, load->step);
		switch (d->why) {
		case HAPPENS_RELAXED_LOAD:
			snprintf(out, bytes,
				 "an acquire: %s saw the word that carries the order%s, but with a "
				 "relaxed load and no acquire fence after it: %s",
				 now_name, step, where);
			return true;
		case HAPPENS_SCOPE:
			snprintf(out, bytes,
				 "a wider scope: %s acquired the word that carries the order%s, "
				 "but the scopes of that release (%s) and that acquire do not "
				 "contain each other: %s",
				 now_name, step, text_scope((uint8_t)d->stamp.scope), where);
			return true;
		case HAPPENS_RELAXED_STORE:
			snprintf(out, bytes,
				 "a release: %s saw a word%s that %s stored relaxed%s, with no "
				 "release fence between the access before and that store: %s",
				 now_name, step, record_agent(store), store ? "" : " long ago",
				 where);
			return true;
		}
	}
	return false;
}

/* Finds the missing order: at p itself, or at an agent between the earlier access and p. */
static bool missing_anywhere(const struct happens_part *p, const struct happens_seen *before,
			     char *out, size_t bytes)
{
	if (missing_by_word(p, p, before, out, bytes))
		return true;
	for (uint32_t slot = 0; slot < happens_slots(); slot++) {
		const struct happens_part *by = happens_part_at(slot);

		if (by && missing_by_word(p, by, before, out, bytes))
			return true;
	}
	return false;
}

void report_race(struct happens_part *p, const struct mem_access *a,
		 const struct happens_seen *before, bool before_write)
{
	if (report.over)
		return;
	report.over = true;
	struct report_record now = *record_find(report_ring.records); /* made for this access */
	const struct report_record *then = record_find(before->record);
	char why[768], now_name[REPORT_NAME];

	snprintf(now_name, sizeof now_name, "%s", report.actor[p->actor].name);
	fprintf(stderr, "data race: two accesses to the same bytes, %s, that nothing orders\n",
		before_write && a->op != SHARED_RANGE_READ && a->op != SHARED_LOAD
			? "both of them writes"
			: "one of them a write");
	print_side("now   ", &now, p->actor);
	print_side("before", then, HAPPENS_NONE);
	if (!missing_anywhere(p, before, why, sizeof why))
		snprintf(why, sizeof why,
			 "no chain of release and acquire leads from %s after its access to %s "
			 "before this one",
			 then ? record_agent(then) : "there", now_name);
	fprintf(stderr, "  missing: %s\n", why);
	char operation[96], earlier[96] = "touched them";
	text_operation(&now, operation, sizeof operation);
	if (then)
		text_operation(then, earlier, sizeof earlier);
	snprintf(why, sizeof why,
		 "%s %s, and nothing orders that after step %" PRIu64 ", when %s %s", now_name,
		 operation, then ? then->step : 0, then ? record_agent(then) : "an agent", earlier);
	if (eng.current)
		engine_fail(SIM_WRONG_RESULT, "data-race", "%s", why);
	engine_report(SIM_WRONG_RESULT, "data-race", why);
	eng.verdict = SIM_WRONG_RESULT;
	eng.stop = true;
}

bool report_over(void)
{
	return report.over;
}

void report_cap(size_t bytes)
{
	if (report.cap_said)
		return;
	report.cap_said = true;
	fprintf(stderr,
		"races: the shadow reached its limit at %zu MiB; accesses to ranges up to now are "
		"forgotten, and races with them are not found\n",
		bytes >> 20);
}

/* ---- life ----------------------------------------------------------------------------------- */

/* Returns the end of the thread's stack. glibc reads /proc/self/maps for it: once per thread. */
static uintptr_t report_find_stack_top(void)
{
	static pthread_t of;
	static uintptr_t top;
	pthread_attr_t attr;
	void *low = NULL;
	size_t bytes = 0;

	if (top && pthread_equal(of, pthread_self()))
		return top;
	if (pthread_getattr_np(pthread_self(), &attr) == 0) {
		pthread_attr_getstack(&attr, &low, &bytes);
		pthread_attr_destroy(&attr);
	}
	of = pthread_self();
	return top = (uintptr_t)low + bytes;
}

int report_start(void)
{
	if (!report_ring.record)
		report_ring.record = calloc(REPORT_RECORDS, sizeof report_ring.record[0]);
	if (!report_ring.record)
		return ENOMEM;
	report.stack_top = report_find_stack_top();
	return 0;
}

void report_stop(void)
{
	free(report.actor);
	memset(&report, 0, sizeof report);
}
