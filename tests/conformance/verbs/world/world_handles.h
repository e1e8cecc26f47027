/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of libibverbs that take a handle, as a table, for world_handles.c. */
#ifndef TESTS_CONFORMANCE_VERBS_WORLD_WORLD_HANDLES_H
#define TESTS_CONFORMANCE_VERBS_WORLD_WORLD_HANDLES_H

#include "tests/conformance/verbs/harness/world.h"

enum handle_kind { CONTEXT, PD, TD, MR, MW, AH, CHANNEL, CQ, SRQ, QP, XRCD, KINDS };

/* One object of each kind. */
struct handle_set {
	void *object[KINDS];
};

void handle_set_make(struct handle_set *s);
void handle_set_free(struct handle_set *s);

extern struct handle_set handle_mine; /* live objects of the calling process */
extern uint8_t handle_memory[8192];

/* How the call reaches the HCA. */
enum handle_way {
	PLAIN,
	OPS,  /* an inline function, through object->context->ops: readable memory at least */
	SELF, /* through pointers in the object or in the context: a former object */
	PART, /* an attribute of a new object; NULL: without that attribute */
};

struct handle_call_row {
	enum handle_kind kind;
	enum handle_way way;
	const char *name; /* in the report */
};
extern const struct handle_call_row handle_calls[];
extern const int handle_call_count;

/* Makes call `which` with the object. Returns whether the call refused it as it should. */
int handle_call(int which, void *o);

#define HANDLE_NONE(p)            (!(p) && errno == EINVAL)
#define HANDLE_MINUS(handle_call) ((handle_call) == -1 && errno == EINVAL)

/* Is the new object refused because of its parts? */
int handle_parent_of(void *pd, void *td);
int handle_qp_of(void *send, void *recv, void *srq);
int handle_srq_ex_of(void *context, void *pd, void *xrcd, void *cq);

#endif
