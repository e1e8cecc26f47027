/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that are made from others. The ranks of a parent agree by messages of its bootstrap
 * which of them form a child, and rank 0 of the child passes its unique id to the others. The child
 * then joins like any other communicator (comm_init). core/api calls these functions, in the task
 * that makes the child; the parent is entered. Ranks are those of the parent, except where a
 * comment names the child.
 *
 * An error of the parent's bootstrap or memory becomes the parent's asynchronous error, so that its
 * other ranks do not wait for this one.
 */
#ifndef CORE_COMM_COMM_CHILD_H
#define CORE_COMM_COMM_CHILD_H

#include "core/rank/rank.h"

/* Ranks that form a child. */
struct comm_child {
	int32_t *members; /* [n]: in the order of their ranks in the child; owned */
	int32_t n, rank;  /* rank: this rank's rank in the child; -1: it is no member */
	int32_t nranks;   /* ranks of the child: n, and more if ranks join that are new */
	int32_t maker;    /* rank in the child of the member that has or makes the id */
	const char *call; /* the public function */
	bool met;         /* all ranks of the parent have met in this call */
};

/* Color or size of a rank whose call failed: every other rank gets ncclRemoteError, and the parent
 * stays as it was. */
#define COMM_CHILD_FAILED INT32_MIN
/* Every rank of the parent calls it. Ranks of the same color form a child, in the order of their
 * keys, and of their ranks if the keys are equal. NCCL_SPLIT_NOCOLOR: this rank is no member. */
ncclResult_t comm_child_split(struct ncclComm *parent, int color, int key, struct comm_child *out);
/* Checks the list of ranks that ncclCommShrink excludes. Sends no message. `call` is the public
 * function, for errors. */
ncclResult_t comm_child_list_check(const struct ncclComm *parent, const char *call,
				   const int *excluded, int n);
/* The ranks that are not in the list, which was checked, in their order. Sends no message. */
ncclResult_t comm_child_without(const struct ncclComm *parent, const char *call,
				const int *excluded, int n, struct comm_child *out);
/* Every rank of the parent calls it; all are members, with their ranks, and `nranks` is the size of
 * the child. Exactly one has the id. nranks COMM_CHILD_FAILED: this rank's call failed. */
ncclResult_t comm_child_grow(struct ncclComm *parent, int nranks, bool has_id,
			     struct comm_child *out);
/* Passes the id from its maker to the other members. `made` is the maker's result of making it; an
 * error there is an error on all members. */
ncclResult_t comm_child_share_id(struct ncclComm *parent, const struct comm_child *child,
				 ncclResult_t made, ncclUniqueId *id);
void comm_child_free(struct comm_child *child);
/* Remembers the parent of a child that begins its init. An abort of the parent ends that init, and
 * a failure does too. A failure does not if the child is made of the ranks that remain: the parent
 * was revoked, or had failed before a call in which not all its ranks have met (`met`). The init
 * then ends if the rank that it awaits has left the parent. Takes the members from `ranks`. */
void comm_child_of(struct ncclComm *child, struct ncclComm *parent, struct comm_child *ranks);
/* For a child in its init that has a parent. Returns an error if the parent has failed since, or
 * the awaited rank has left it: a rank of the child may never come. ncclInternalError: the parent
 * was aborted, or is gone. */
ncclResult_t comm_child_hopeless(struct ncclComm *child);
/* The same for a non-blocking child, whose parent may end first: the error becomes the child's, and
 * ends its init. Looks for no awaited rank; comm_child_is_watched has such children watched. */
void comm_child_look(struct ncclComm *child);
/* True if no ring of the parent shows that the init awaits a rank without end: a task must call
 * comm_child_hopeless during the init, also of a non-blocking child. */
bool comm_child_is_watched(const struct ncclComm *child);

#endif
