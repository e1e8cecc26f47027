/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the parent (kill_peers.c) and the peers (kill_peer.c) share. Times are
 * CLOCK_MONOTONIC in ns. */
#ifndef DROPIN_TESTS_KILL_PEERS_H
#define DROPIN_TESTS_KILL_PEERS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define DEPTH_MAX 16 /* most outstanding sends */

/* Properties of a pair; drawn by the parent, the same for both peers. */
struct style {
	uint32_t timeout, retry_cnt, depth;
	bool events;      /* sleeps at a completion channel; otherwise polls */
	bool srq;         /* receives are in a shared receive queue */
	bool two_entries; /* scatter lists, which use the HCA's packet path */
	bool two_hosts;   /* over the wire; otherwise inside one HCA */
	bool unaligned;   /* memory that peers cannot map */
	bool stops;       /* SIGSTOP before the kill, and for half of them SIGCONT */
};

struct address {
	uint32_t qpn, rkey;
	uint64_t remote;
	union ibv_gid gid;
};

/* The parent and both peers have it mapped. */
struct shared {
	struct style style;
	struct address address[2];
	uint32_t known[2]; /* 1 when its address is stored */
	uint32_t posting[2];
	/* times before and after the kill; not 0: one of them is dead */
	uint64_t kill_ns, killed_ns;
	struct result {
		uint32_t status;
		/* time of the failure; time of the failed request's post */
		uint64_t failed_ns, post_ns;
		uint64_t clear_ns; /* a time before the last answer */
		uint64_t sends, receives;
		char wrong[200]; /* empty: no error */
	} result[2];
	uint64_t resident_ready;
	uint64_t turns[2]; /* steps of each peer, which show that it is not stuck */
};

extern struct shared *shared;

/* Runs a peer in its own process. Returns the exit status. */
int peer_run(int me, uint64_t seed);
/* Opens an HCA and stays on the fabric until it is killed. */
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
