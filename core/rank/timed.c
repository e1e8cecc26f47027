/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/rank/timed.h"

#include "core/os/os.h"
#include "core/rank/cuda_result.h"
#include "core/rank/registry.h"

#define TIMED_FIRST 64 /* slots whose events are made with the communicator */

static ncclResult_t timed_event(cudaEvent_t *e)
{
	return *e ? ncclSuccess
		  : cuda_result(cudaEventCreateWithFlags(e, cudaEventDisableTiming),
				"cudaEventCreateWithFlags for a deadline");
}

static ncclResult_t timed_slot_make(struct rank_timed_slot *s)
{
	ncclResult_t rc = timed_event(&s->begins);

	return rc ? rc : timed_event(&s->ends);
}

static ncclResult_t timed_slots_make(struct rank_timed *t)
{
	if (!t->slot)
		t->slot = os_alloc(RANK_TIMED * sizeof *t->slot, "launches with a deadline");
	if (t->slot)
		return ncclSuccess;
	WARN("no memory for the deadlines of %d launches", RANK_TIMED);
	return ncclSystemError;
}

ncclResult_t rank_timed_make(struct rank_timed *t)
{
	ncclResult_t rc = timed_slots_make(t);

	for (int i = 0; i < TIMED_FIRST && !rc; i++)
		rc = timed_slot_make(&t->slot[i]);
	return rc;
}

static struct rank_timed_slot *timed_next(const struct rank_timed *t)
{
	return &t->slot[shared_load_u64(&t->made, SHARED_RELAXED) % RANK_TIMED];
}

static bool timed_has_room(const struct rank_timed *t)
{
	return shared_load_u64(&t->made, SHARED_RELAXED) -
		       shared_load_u64(&t->ended, SHARED_ACQUIRE) <
	       RANK_TIMED;
}

ncclResult_t rank_timed_begin(struct rank_timed *t, const struct rank_launch *l,
			      cudaStream_t stream)
{
	ncclResult_t rc = l->timeout_ns ? timed_slots_make(t) : ncclSuccess;

	t->begun = l->timeout_ns && !rc && timed_has_room(t);
	if (!t->begun)
		return rc;
	rc = timed_slot_make(timed_next(t));
	return rc ? rc
		  : cuda_result(cudaEventRecord(timed_next(t)->begins, stream),
				"cudaEventRecord for a deadline");
}

ncclResult_t rank_timed_end(struct rank_timed *t, const struct rank_launch *l, cudaStream_t stream)
{
	struct rank_timed_slot *s;
	ncclResult_t rc;

	if (!l->timeout_ns || !t->begun)
		return ncclSuccess;
	s = timed_next(t);
	rc = cuda_result(cudaEventRecord(s->ends, stream), "cudaEventRecord for a deadline");
	if (rc)
		return rc;
	s->launch = *l;
	shared_note_write(&s->launch, sizeof s->launch);
	shared_store_u64(&t->made, shared_load_u64(&t->made, SHARED_RELAXED) + 1, SHARED_RELEASE);
	return ncclSuccess;
}

void rank_timed_call(struct rank_timed *t, const struct rank_launch *l, const char *name)
{
	struct registry_node *first;

	if (!l && !t->call_since_ns)
		return;
	first = registry_lock();
	if (l) {
		t->call = *l;
		t->call_name = name;
	}
	t->call_since_ns = l ? os_now_ns() : 0;
	registry_unlock(first);
}

void rank_timed_form(struct rank_timed *t, uint64_t timeout_ns, const char *name, bool counts,
		     int32_t peer)
{
	struct rank_launch l = {.timeout_ns = timeout_ns, .forms = true, .peer = peer};

	if (name) {
		l.number = shared_load_u64(&t->formed, SHARED_RELAXED) + counts;
		shared_store_u64(&t->formed, l.number, SHARED_RELEASE);
	}
	rank_timed_call(t, name ? &l : NULL, name);
}

const char *rank_timed_waits(const struct rank_timed *t, uint64_t *since_ns, int32_t *peer)
{
	*since_ns = t->call_since_ns;
	*peer = *since_ns ? t->call.peer : -1;
	return *since_ns ? t->call_name : NULL;
}

/* ---- the task that looks -------------------------------------------------------------------- */

/* True if the launch runs: the stream has reached it, and it has not ended. *ended: it has. */
static bool timed_runs(const struct rank_timed_slot *s, bool *ended)
{
	bool begun = cudaEventQuery(s->begins) == cudaSuccess;

	*ended = begun && cudaEventQuery(s->ends) != cudaErrorNotReady;
	os_poll_hit(); /* these looks have their own period */
	return begun && !*ended;
}

/* Returns the time since *since_ns, which is set if it is 0. */
static uint64_t timed_since(uint64_t *since_ns)
{
	uint64_t now_ns = os_now_ns();

	*since_ns = *since_ns ? *since_ns : now_ns;
	return now_ns - *since_ns;
}

static uint64_t timed_look_call(const struct rank_timed *t, struct rank_launch *l)
{
	struct registry_node *first = registry_lock();
	uint64_t since_ns = t->call_since_ns, ns;

	*l = t->call;
	registry_unlock(first);
	ns = since_ns ? os_now_ns() - since_ns : 0;
	return l->timeout_ns && ns >= l->timeout_ns ? ns : 0;
}

uint64_t rank_timed_look(struct rank_timed *t, struct rank_launch *l)
{
	uint64_t made = shared_load_u64(&t->made, SHARED_ACQUIRE), ns;
	uint64_t ended = shared_load_u64(&t->ended, SHARED_RELAXED);
	bool over = true;

	*l = (struct rank_launch){.timeout_ns = 0};
	for (; ended < made; ended++) {
		const struct rank_timed_slot *s = &t->slot[ended % RANK_TIMED];
		bool runs = timed_runs(s, &over);

		if (!over && !runs)
			return 0; /* the stream has not reached it */
		if (!over) {
			shared_note_read(&s->launch, sizeof s->launch);
			*l = s->launch;
			ns = timed_since(&t->since_ns);
			return ns >= l->timeout_ns ? ns : 0;
		}
		t->since_ns = 0;
		shared_store_u64(&t->ended, ended + 1, SHARED_RELEASE);
	}
	return timed_look_call(t, l);
}

uint64_t rank_timed_reached(const struct rank_timed *t, uint64_t calls)
{
	uint64_t ended = shared_load_u64(&t->ended, SHARED_RELAXED);
	const struct rank_timed_slot *s;

	if (t->since_ns || shared_load_u64(&t->made, SHARED_ACQUIRE) == ended)
		return calls;
	s = &t->slot[ended % RANK_TIMED];
	shared_note_read(&s->launch, sizeof s->launch);
	return s->launch.calls ? MIN_OF(s->launch.first, calls) : calls;
}

void rank_timed_free(struct rank_timed *t)
{
	for (int i = 0; i < RANK_TIMED && t->slot; i++) {
		cudaEvent_t event[] = {t->slot[i].begins, t->slot[i].ends};

		for (int k = 0; k < 2; k++)
			if (event[k])
				(void)cuda_result(cudaEventDestroy(event[k]), "cudaEventDestroy");
	}
	os_free(t->slot);
	t->slot = NULL;
}
