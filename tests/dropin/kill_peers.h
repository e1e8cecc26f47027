/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parent (kill_peers.c) and the peers (kill_peer.c) know of each other: memory that all
 * have mapped. Times are CLOCK_MONOTONIC in ns. */
#ifndef TESTS_DROPIN_KILL_PEERS_H
#define TESTS_DROPIN_KILL_PEERS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define DEPTH_MAX 16 /* sends under way, at most */

/* What a pair is like; drawn by the parent, the same for both. */
struct style {
	uint32_t timeout, retry_cnt, depth;
	bool events;      /* sleeps at a completion channel, else polls */
	bool srq;         /* receives are in a shared queue */
	bool two_entries; /* scatter lists: the HCA's long way */
	bool two_hosts;   /* over the wire, else inside one HCA */
	bool unaligned;   /* memory that peers cannot map */
	bool stops;       /* before the kill: SIGSTOP, and for half of them SIGCONT */
};

struct address {
	uint32_t qpn, rkey;
	uint64_t remote;
	union ibv_gid gid;
};

/* Parent and both peers have it mapped. */
struct shared {
	struct style style;
	struct address address[2];
	uint32_t known[2]; /* its address is there */
	uint32_t posting[2];
	uint64_t kill_ns, killed_ns; /* before and after it; not 0: one of them is dead */
	struct result {
		uint32_t status;
		uint64_t failed_ns, post_ns; /* when it failed; when that request was posted */
		uint64_t clear_ns;           /* the last answer came after this */
		uint64_t sends, receives;
		char wrong[200]; /* empty: nothing */
	} result[2];
	uint64_t resident_ready;
	uint64_t turns[2]; /* that each took: it is not stuck */
};

extern struct shared *shared;

/* In a process of its own: the exit status. */
int peer_run(int me, uint64_t seed);
/* Opens an HCA, and stays on the fabric until it is killed. */
void peer_stay(void) __attribute__((noreturn));

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline uint64_t draw(uint64_t *state, uint64_t n)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (*state >> 33) % n;
}

#endif
