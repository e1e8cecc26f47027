/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sends and receives of one rank: declarations that these files share.
 *
 *	messages.c          the queue, numbers, agreement with the other ranks
 *	messages_self.c     messages from a rank to itself
 *	messages_rounds.c   the choice of messages that move together: rounds, channels, works
 *	messages_launch.c   connections, launches
 *	staged.c            copies for sends from a buffer that the same call receives into
 */
#ifndef CORE_PLAN_MESSAGES_H
#define CORE_PLAN_MESSAGES_H

#include "core/plan/plan_internal.h"
#include "core/transport/registered.h"

/* In bytes. The part of each channel is a multiple of it, except the last part. */
#define PLAN_PART_GRAIN 4096u
/* In bytes. A message is split into more than two parts only if each has this many: a further
 * channel costs time to begin. */
#define PLAN_PART_LEAST 8192u
/* In bytes. A message from a rank to itself has one part for each so many bytes. */
#define PLAN_SELF_PART_LEAST (64ull << 10)
/* If no part of a launch has more bytes than this, its blocks have this many warps: faster than 16,
 * because fewer warps have to begin. */
#define PLAN_SHORT_PART       2048u
#define PLAN_SHORT_PART_WARPS 8u

/* One message of the queue. */
struct plan_queued_message {
	struct plan_message call;
	size_t bytes;
	uint64_t number; /* counts the messages between the two ranks in this direction, from 0 */
	uint32_t nth;    /* counts those of the group, from 0 */
	uint64_t staged_at; /* of a staged send: offset of its copy in the staging memory */
};

/* Device memory for copies of sends in place. */
struct plan_staging {
	uint8_t *mem; /* NULL: none */
	uint64_t bytes;
	struct plan_staging *older; /* earlier memory that became too small */
};

/* Directions of the messages between this rank and another one; bits. */
enum { PLAN_RECEIVES = 1, PLAN_SENDS = 2 };

/* A message to one rank and a message from another one, which move at the same time. Or a message
 * from this rank to itself. */
struct plan_round {
	uint64_t key;       /* nth << 32 | round: see messages_rounds.c */
	int32_t send, recv; /* index in the queue; -1: none */
};

struct plan_messages {
	struct plan_queued_message *queue;
	int32_t queued, room;
	int32_t agreed; /* this many, from the first one, are announced to the other ranks */
	/* [nranks] each: messages launched by earlier groups, then messages of this group. */
	uint64_t *sent, *received;
	uint32_t *sends, *receives;
	uint32_t *round_of; /* [nranks]: the round for each distance between ranks */
	uint8_t *connected; /* [nranks]: directions whose connections all exist */
	uint8_t *channels;  /* [nranks]: result of plan_pair_channels; 0: not known yet */

	struct plan_round *rounds; /* in the order of their launch */
	int32_t nrounds, rounds_room;
	int32_t next; /* index of the first round of the next launch */
	bool begun; /* streams are ready, and the copies of a communicator of one rank are queued */

	uint64_t staged_bytes;       /* bytes that the queue needs */
	struct plan_staging staging; /* memory that the communicator has */

	struct conn_job *job; /* connections that are being made; NULL: none */
	bool connecting;      /* other ranks may wait for this rank to connect */
};

/* ---- messages.c ----------------------------------------------------------------------------- */

/* Positions of messages are above those of all collectives. */
#define PLAN_AFTER_COLLECTIVES (1ull << 62)

static inline bool plan_messages_pending(const struct plan_messages *ms)
{
	return ms && ms->queued > 0;
}

/* Returns the number of rounds of an announced queue. Accepts NULL. */
static inline int32_t plan_messages_rounds(const struct plan_messages *ms)
{
	return ms ? ms->nrounds : 0;
}

/* Returns the key of the round that is launched next. */
static inline uint64_t plan_messages_position(const struct plan_messages *ms)
{
	return ms->next < ms->nrounds ? ms->rounds[ms->next].key : 0;
}

bool plan_message_is_to_self(const struct ncclComm *comm, const struct plan_queued_message *m);
/* Numbers the queue, compares it with the launches of the other ranks, and sorts it into rounds. */
ncclResult_t plan_messages_announce(struct ncclComm *comm, struct plan_messages *ms);
/* Withdraws the announcement of messages that are not launched. */
void plan_messages_renounce(const struct ncclComm *comm, struct plan_messages *ms);
/* Makes the numbers permanent. Called when all messages of the queue are launched. */
void plan_messages_commit(struct ncclComm *comm, struct plan_messages *ms);
/* Empties the queue. */
void plan_messages_reset(struct ncclComm *comm, struct plan_messages *ms);
/* Called at the end of the communicator. Accepts NULL. */
void plan_messages_free(struct plan_messages *ms, int32_t nranks);

/* ---- messages_self.c ------------------------------------------------------------------------ */

/* Takes time linear in the queue. ncclInvalidUsage: the rank's sends to itself do not match its
 * receives from itself. */
ncclResult_t plan_self_check(const struct ncclComm *comm, const struct plan_messages *ms);
/* Copies all messages. Only for a communicator of one rank. */
ncclResult_t plan_self_copies(const struct ncclComm *comm, const struct plan_messages *ms,
			      cudaStream_t stream);

/* ---- messages_rounds.c ---------------------------------------------------------------------- */

/* Fills round_of. */
void plan_rounds_init(uint32_t *round_of, int32_t nranks);
/* Returns the channel of one part of a round's messages. */
int32_t plan_round_channel(const struct ncclComm *comm, uint32_t round, int32_t part);
/* Returns transport_pair_channels, which it calls only once for each peer. */
int32_t plan_pair_channels(const struct ncclComm *comm, const struct plan_messages *ms,
			   int32_t peer);
/* Returns the number of channels that a message of so many bytes uses. *each: bytes of every part
 * except the last. */
int32_t plan_parts_of(uint64_t bytes, int32_t pair_channels, uint64_t *each);
/* Sorts the queue into ms->rounds. */
ncclResult_t plan_rounds_make(const struct ncclComm *comm, struct plan_messages *ms);
/* Builds the next launch from ms->next on, with as many rounds as fit: p->rounds. */
ncclResult_t plan_rounds_build(struct ncclComm *comm, const struct plan_state *st,
			       struct plan_messages *ms, struct plan *p);

/* ---- staged.c ------------------------------------------------------------------------------- */

/* Gives each send in place of the queue an offset in the staging memory. */
void plan_staged_place(const struct ncclComm *comm, struct plan_messages *ms);
/* Allocates that memory if the queue needs more. Called before its first launch. May wait for
 * kernels of earlier groups. */
ncclResult_t plan_staged_reserve(struct ncclComm *comm);
/* Copies the sends in place, in the stream of the launches. The messages are then sent from the
 * copies. */
ncclResult_t plan_staged_copy(const struct ncclComm *comm, struct plan_messages *ms,
			      const struct plan *p);
/* Called at the end of the communicator. */
void plan_staged_free(struct plan_messages *ms);

/* ---- registered.c --------------------------------------------------------------------------- */

struct registered_recv plan_registered_recv(const struct plan_queued_message *m);
/* Returns true if any call of the queue uses registered buffers. */
bool plan_registers(const struct ncclComm *comm);
/* Exchanges the registrations of all calls of the queue with the other ranks. Called before the
 * first launch. May wait for kernels of earlier groups. */
ncclResult_t plan_registered_exchange(struct ncclComm *comm);

/* ---- uses.c --------------------------------------------------------------------------------- */

/* Reports the buffer of the stream's next operation to a world that watches buffers. */
void plan_message_uses(const struct ncclComm *comm, const struct plan_queued_message *m,
		       cudaStream_t stream);

/* ---- messages_launch.c ---------------------------------------------------------------------- */

/* Launches the next plan of the queue. WAITS for slots of the proxy. */
ncclResult_t plan_messages_launch(struct ncclComm *comm, struct plan_state *st);

#endif
