/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of handles, and the reports of pointers that are not handles (alive.h). */
#include "backends/fakeverbs/objects/alive.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fakeverbs/arena/point.h"
#include "backends/fakeverbs/arena/report.h"
#include "backends/fakeverbs/objects/handles.h"

#define ALIVE_CLASSES 7
/* Size of the first class, in which the head of every kind fits; each class has twice the size of
 * the previous one. */
#define ALIVE_CLASS_BYTES 512u
#define ALIVE_PROCS       64
#define ALIVE_WIPE        0xdb /* a pointer of these bytes is not a valid address */

enum alive_end { ALIVE_LIVES, ALIVE_DESTROYED, ALIVE_SWEPT, ALIVE_FORKED };

/* Precedes each handle in memory. */
struct alive_block {
	struct alive_block *older; /* list of all blocks, living or not */
	struct alive_block *next;  /* next block in the list of resting ones */
	/* block of the process' memory that represents the handle, or NULL */
	void *token;
	size_t bytes;   /* size of the handle */
	uint64_t ended; /* call site */
	uint32_t kind, end, proc;
	uint32_t pad;
};
DOPPEL_STATIC_CHECK(sizeof(struct alive_block) % 8 == 0, "handles stay aligned");
DOPPEL_STATIC_CHECK(offsetof(struct hca_qp_handle, hca) <= ALIVE_CLASS_BYTES, "the farthest head");

static struct {
	uint32_t lock; /* a leaf lock */
	struct alive_block *newest;
	uint32_t living[ALIVE_PROCS]; /* living handles, by process % ALIVE_PROCS */
	struct alive_rest {
		struct alive_block *first, *last;
		uint32_t count;
	} rest[HCA_KINDS][ALIVE_CLASSES];
} alive;

static void *alive_memory(struct alive_block *b)
{
	return b + 1;
}

/* Returns the pointer that the program holds. */
static void *alive_object(struct alive_block *b)
{
	return b->kind == HCA_KIND_CONTEXT
		       ? (char *)alive_memory(b) +
				 offsetof(struct hca_context_handle, verbs.context)
		       : alive_memory(b);
}

static struct hca_head *alive_head(struct alive_block *b)
{
	return (struct hca_head *)((char *)alive_object(b) +
				   hca_head_offset((enum hca_kind)b->kind));
}

/* ---- memory --------------------------------------------------------------------------------- */

static uint32_t alive_class(size_t bytes)
{
	uint32_t i = 0;

	while (i + 1 < ALIVE_CLASSES && (size_t)ALIVE_CLASS_BYTES << i < bytes)
		i++;
	return i;
}

/* Returns the oldest resting block, if enough blocks rest. Under the lock. */
static struct alive_block *alive_reuse(struct alive_rest *r, size_t bytes)
{
	struct alive_block *b = r->count > HCA_REST && r->first->bytes >= bytes ? r->first : NULL;

	if (!b)
		return NULL;
	ASSERT(b->end != ALIVE_LIVES && !b->token);
	r->first = b->next;
	r->count--;
	return b;
}

static struct alive_block *alive_new(enum hca_kind kind, size_t bytes)
{
	struct alive_block *b = malloc(sizeof *b + bytes);

	if (!b)
		return NULL;
	*b = (struct alive_block){.bytes = bytes, .kind = kind, .older = alive.newest};
	alive.newest = b;
	return b;
}

void *hca_handle_alloc(enum hca_kind kind, size_t bytes, const char *what)
{
	uint32_t class = alive_class(bytes);
	void *token = os_alloc(sizeof(uint64_t), what);
	struct alive_block *b = NULL;

	if (!token)
		return NULL;
	hca_lock(&alive.lock);
	b = alive_reuse(&alive.rest[kind][class], bytes);
	if (!b)
		b = alive_new(kind, MAX_OF(bytes, (size_t)ALIVE_CLASS_BYTES << class));
	if (b) {
		b->end = ALIVE_LIVES;
		b->proc = hca_proc_id(os_proc());
		alive.living[b->proc % ALIVE_PROCS]++;
	}
	hca_unlock(&alive.lock);
	if (!b) {
		os_free(token);
		return NULL;
	}
	memset(alive_memory(b), 0, b->bytes);
	mem_fresh(alive_memory(b), b->bytes);
	b->token = token;
	b->ended = 0;
	*alive_head(b) = (struct hca_head){
		.alive = HCA_ALIVE(kind), .proc = b->proc, .self = alive_object(b)};
	return alive_memory(b);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Wipes a handle except its public struct. Devices consist only of public structs. */
static void alive_wipe(struct alive_block *b)
{
	struct hca_head *head = alive_head(b);
	char *from = (char *)(head + 1), *to = (char *)alive_memory(b) + b->bytes;

	__atomic_store_n(&head->alive, 0, __ATOMIC_RELAXED);
	if (b->kind != HCA_KIND_DEVICES)
		memset(from, ALIVE_WIPE, (size_t)(to - from));
	mem_fresh(alive_memory(b), b->bytes);
}

/* Appends a block to the list of resting ones. Under the lock. */
static void alive_rest(struct alive_block *b, enum alive_end end)
{
	struct alive_rest *r = &alive.rest[b->kind][alive_class(b->bytes)];

	ASSERT(b->end == ALIVE_LIVES);
	alive.living[b->proc % ALIVE_PROCS]--;
	b->end = end;
	b->token = NULL;
	b->next = NULL;
	if (r->count++)
		r->last->next = b;
	else
		r->first = b;
	r->last = b;
}

static void alive_finish(struct alive_block *b, enum alive_end end, uint64_t caller)
{
	alive_wipe(b);
	b->ended = caller;
	hca_lock(&alive.lock);
	alive_rest(b, end);
	hca_unlock(&alive.lock);
}

void hca_handle_end(void *handle, uint64_t caller)
{
	if (!handle)
		return;
	struct alive_block *b = (struct alive_block *)handle - 1;

	ASSERT(b->end == ALIVE_LIVES);
	os_free(b->token);
	alive_finish(b, ALIVE_DESTROYED, caller);
}

/* The world frees the memory of a killed process. */
void hca_handle_sweep(void *handle, bool killed)
{
	struct alive_block *b = (struct alive_block *)handle - 1;

	ASSERT(b->end == ALIVE_LIVES);
	if (!killed)
		os_free(b->token);
	alive_finish(b, ALIVE_SWEPT, 0);
}

/* Ends the living handles of a process, or all. The tokens stay allocated, so that leaks are
 * reported. */
static void alive_finish_all(uint32_t proc, bool any, enum alive_end end)
{
	if (!any && !alive.living[proc % ALIVE_PROCS])
		return;
	for (struct alive_block *b = alive.newest; b; b = b->older)
		if (b->end == ALIVE_LIVES && (any || b->proc == proc))
			alive_finish(b, end, 0);
}

void hca_handles_sweep(uint32_t proc)
{
	alive_finish_all(proc, false, ALIVE_SWEPT);
}

void hca_handles_end(bool forked)
{
	if (forked)
		alive.lock = 0;
	alive_finish_all(0, true, forked ? ALIVE_FORKED : ALIVE_SWEPT);
}

/* ---- reports ------------------------------------------------------------------------------- */

static const char *const alive_name[HCA_KINDS] = {
	[HCA_KIND_NONE] = "object",          [HCA_KIND_CONTEXT] = "context",
	[HCA_KIND_PD] = "protection domain", [HCA_KIND_TD] = "thread domain",
	[HCA_KIND_MR] = "memory region",     [HCA_KIND_MW] = "memory window",
	[HCA_KIND_AH] = "address handle",    [HCA_KIND_CHANNEL] = "completion channel",
	[HCA_KIND_CQ] = "completion queue",  [HCA_KIND_SRQ] = "shared receive queue",
	[HCA_KIND_QP] = "queue pair",        [HCA_KIND_XRCD] = "XRC domain",
	[HCA_KIND_DEVICES] = "device",
};

static struct alive_block *alive_find(const void *object)
{
	struct alive_block *b;

	hca_lock(&alive.lock);
	for (b = alive.newest; b; b = b->older) {
		uint64_t off = (uintptr_t)object - (uintptr_t)alive_memory(b);

		if (alive_object(b) == object || (b->kind == HCA_KIND_DEVICES && off < b->bytes))
			break;
	}
	hca_unlock(&alive.lock);
	return b;
}

bool hca_handle_was(const void *object, enum hca_kind kind)
{
	const struct alive_block *b = alive_find(object);

	return b && b->kind == (uint32_t)kind;
}

struct alive_words {
	char text[64];
};

/* Writes "queue pair 0x101". The public struct still has its values. */
static const char *alive_words(struct alive_block *b, struct alive_words *to)
{
	const void *object = alive_object(b);
	int64_t number = -1;

	switch ((enum hca_kind)b->kind) {
	case HCA_KIND_PD:
		number = ((const struct ibv_pd *)object)->handle;
		break;
	case HCA_KIND_MR:
		number = ((const struct ibv_mr *)object)->lkey;
		break;
	case HCA_KIND_MW:
		number = ((const struct ibv_mw *)object)->rkey;
		break;
	case HCA_KIND_AH:
		number = ((const struct ibv_ah *)object)->handle;
		break;
	case HCA_KIND_CQ:
		number = ((const struct ibv_cq *)object)->handle;
		break;
	case HCA_KIND_SRQ:
		number = ((const struct ibv_srq *)object)->handle;
		break;
	case HCA_KIND_QP:
		number = ((const struct ibv_qp *)object)->qp_num;
		break;
	default:
		break;
	}
	if (number < 0)
		snprintf(to->text, sizeof to->text, "%s", alive_name[b->kind]);
	else
		snprintf(to->text, sizeof to->text, "%s 0x%llx", alive_name[b->kind],
			 (unsigned long long)number);
	return to->text;
}

static const char *alive_fate(const struct alive_block *b, struct hca_site *to)
{
	struct hca_site at;

	switch ((enum alive_end)b->end) {
	case ALIVE_LIVES:
		return "is alive";
	case ALIVE_SWEPT:
		return "ended with its process";
	case ALIVE_FORKED:
		return "belongs to the parent of this forked process";
	default:
		break;
	}
	hca_site(hca_proc_id(os_proc()), b->ended, &at);
	if (b->kind == HCA_KIND_DEVICES)
		snprintf(to->text, sizeof to->text, "ended with the last list and context (%.40s)",
			 at.text);
	else
		snprintf(to->text, sizeof to->text, "was destroyed at %.60s", at.text);
	return to->text;
}

int hca_bad_handle(const void *object, enum hca_kind kind, const char *call, uint64_t caller)
{
	struct alive_block *b = object ? alive_find(object) : NULL;
	uint32_t me = hca_proc_id(os_proc());
	struct hca_site at, fate;
	struct alive_words words;

	hca_site(me, caller, &at);
	if (!object)
		hca_check(HCA_RULE_BAD_HANDLE, caller,
			  "%s at %s: handle is NULL; expected a valid %s", call, at.text,
			  alive_name[kind]);
	else if (!b)
		hca_check(HCA_RULE_BAD_HANDLE, caller,
			  "%s at %s: 0x%llx was never a handle; expected a valid %s", call, at.text,
			  (unsigned long long)(uintptr_t)object, alive_name[kind]);
	else if (b->kind != (uint32_t)kind)
		hca_check(HCA_RULE_BAD_HANDLE, caller,
			  "%s at %s: expected a valid %s; got %s, which %s", call, at.text,
			  alive_name[kind], alive_words(b, &words), alive_fate(b, &fate));
	else if (b->end == ALIVE_LIVES)
		hca_check(HCA_RULE_BAD_HANDLE, caller,
			  "%s at %s: %s belongs to process %u, not to the caller's process %u",
			  call, at.text, alive_words(b, &words), b->proc, me);
	else
		hca_check(HCA_RULE_BAD_HANDLE, caller, "%s at %s: %s %s", call, at.text,
			  alive_words(b, &words), alive_fate(b, &fate));
	return errno = EINVAL;
}

int hca_bad_context(const void *object, enum hca_kind kind, const struct ibv_context *context,
		    const char *call, uint64_t caller)
{
	const struct ibv_context *its = *(struct ibv_context *const *)object;
	struct alive_block *b = alive_find(object);
	struct alive_words words;
	struct hca_site at;

	hca_check(HCA_RULE_WRONG_DOMAIN, caller,
		  "%s at %s: %s belongs to another context (device %s; the call uses %s)", call,
		  hca_site(hca_proc_id(os_proc()), caller, &at),
		  b ? alive_words(b, &words) : alive_name[kind], its->device->name,
		  context->device->name);
	return errno = EINVAL;
}
