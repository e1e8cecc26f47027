/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of core/plan share about messages: the sends and receives of one rank.
 *
 *	messages.c          the queue, numbers, agreement with the other ranks
 *	messages_self.c     messages to oneself
 *	messages_rounds.c   which messages move together: rounds, channels, works
 *	messages_launch.c   connections, launches
 *	staged.c            copies of what is sent from the buffer that is received into
 */
#ifndef CORE_PLAN_MESSAGES_H
#define CORE_PLAN_MESSAGES_H

#include "core/plan/plan_internal.h"
#include "core/transport/registered.h"

/* Bytes of a channel's part of a message are a multiple of it, except of the last part's. */
#define PLAN_PART_GRAIN 4096u
/* A message has more than two parts only if each has so many bytes: another channel takes longer to
 * begin. */
#define PLAN_PART_LEAST 8192u
/* One to oneself has another part for each so many bytes. */
#define PLAN_SELF_PART_LEAST (64ull << 10)
/* Where no part has more bytes, a block of so many warps is faster than one of 16: fewer have to
 * begin. */
#define PLAN_SHORT_PART       2048u
#define PLAN_SHORT_PART_WARPS 8u

/* One message of the queue. */
struct plan_queued_message {
	struct plan_message call;
	size_t bytes;
	uint64_t number;    /* of the messages between the two ranks in this direction: 0, 1... */
	uint32_t nth;       /* among those of the group */
	uint64_t staged_at; /* of a send that is staged: where its copy is in the staging memory */
};

/* Device memory that holds copies of what is sent in place. */
struct plan_staging {
	uint8_t *mem; /* NULL: none */
	uint64_t bytes;
	struct plan_staging *older; /* too small since */
};

/* Directions of the messages between this rank and another one. */
enum { PLAN_RECEIVES = 1, PLAN_SENDS = 2 };

/* A message to one rank and one from another, which move at the same time; or a message to
 * oneself. */
struct plan_round {
	uint64_t key;       /* nth << 32 | round: see messages_rounds.c */
	int32_t send, recv; /* of the queue; -1: none */
};

struct plan_messages {
	struct plan_queued_message *queue;
	int32_t queued, room;
	int32_t agreed; /* from the first on, announced to the other ranks */
	/* Messages launched so far, and in this group: [nranks] each. */
	uint64_t *sent, *received;
	uint32_t *sends, *receives;
	uint32_t *round_of; /* [nranks]: the round of a distance between ranks */
	uint8_t *connected; /* [nranks]: PLAN_SENDS, PLAN_RECEIVES: all connections exist */
	uint8_t *channels;  /* [nranks]: what plan_pair_channels has found; 0: nothing yet */

	struct plan_round *rounds; /* in the order of their launch */
	int32_t nrounds, rounds_room;
	int32_t next; /* the round with which the next launch begins */
	bool begun;   /* streams are ready, messages of a communicator of one rank are copied */

	uint64_t staged_bytes;       /* that the queue needs */
	struct plan_staging staging; /* that the communicator has */

	struct conn_job *job; /* connections that are being made; NULL: none */
	bool connecting;      /* the other ends may wait for this rank */
};

/* ---- messages.c ----------------------------------------------------------------------------- */

/* Positions of messages come after those of any collective. */
#define PLAN_AFTER_COLLECTIVES (1ull << 62)

static inline bool plan_messages_pending(const struct plan_messages *ms)
{
	return ms && ms->queued > 0;
}

/* The round that is launched next. */
static inline uint64_t plan_messages_position(const struct plan_messages *ms)
{
	return ms->next < ms->nrounds ? ms->rounds[ms->next].key : 0;
}

bool plan_message_is_to_self(const struct ncclComm *comm, const struct plan_queued_message *m);
/* Numbers the queue, compares it with what the other ranks launch, and puts it into rounds. */
ncclResult_t plan_messages_announce(struct ncclComm *comm, struct plan_messages *ms);
/* What was announced is not launched. */
void plan_messages_renounce(const struct ncclComm *comm, struct plan_messages *ms);
/* All is launched: the numbers count. */
void plan_messages_commit(struct ncclComm *comm, struct plan_messages *ms);
/* Forgets the queue. */
void plan_messages_reset(struct ncclComm *comm, struct plan_messages *ms);
/* At the end; NULL is fine. */
void plan_messages_free(struct plan_messages *ms, int32_t nranks);

/* ---- messages_self.c ------------------------------------------------------------------------ */

/* In time that is linear in the queue. ncclInvalidUsage: the rank's sends to itself are not its
 * receives. */
ncclResult_t plan_self_check(const struct ncclComm *comm, const struct plan_messages *ms);
/* A communicator of one rank copies the queue. */
ncclResult_t plan_self_copies(const struct ncclComm *comm, const struct plan_messages *ms,
			      cudaStream_t stream);

/* ---- messages_rounds.c ---------------------------------------------------------------------- */

/* Fills round_of. */
void plan_rounds_init(uint32_t *round_of, int32_t nranks);
/* The channel of one part of a round's messages. */
int32_t plan_round_channel(const struct ncclComm *comm, uint32_t round, int32_t part);
/* transport_pair_channels, asked once for each peer. */
int32_t plan_pair_channels(const struct ncclComm *comm, const struct plan_messages *ms,
			   int32_t peer);
/* How many channels a message of so many bytes uses, and the bytes of each but the last. */
int32_t plan_parts_of(uint64_t bytes, int32_t pair_channels, uint64_t *each);
/* Puts the queue into ms->rounds. */
ncclResult_t plan_rounds_make(const struct ncclComm *comm, struct plan_messages *ms);
/* The next launch: as many rounds from ms->next on as fit; *next: the first of the others. */
ncclResult_t plan_rounds_build(struct ncclComm *comm, const struct plan_state *st,
			       const struct plan_messages *ms, struct plan *p, int32_t *next);

/* ---- staged.c ------------------------------------------------------------------------------- */

/* Gives each send in place of the queue its place in the staging memory. */
void plan_staged_place(const struct ncclComm *comm, struct plan_messages *ms);
/* Before the first launch of the queue: there is memory for it. May wait for kernels of earlier
 * groups. */
ncclResult_t plan_staged_reserve(struct ncclComm *comm);
/* The launches' stream copies the sends in place; the messages are sent from the copies. */
ncclResult_t plan_staged_copy(const struct ncclComm *comm, struct plan_messages *ms,
			      const struct plan *p);
/* At the end. */
void plan_staged_free(struct plan_messages *ms);

/* ---- registered.c --------------------------------------------------------------------------- */

struct registered_recv plan_registered_recv(const struct plan_queued_message *m);
/* Has any call of the queue to do with registered buffers? */
bool plan_registers(const struct ncclComm *comm);
/* What all calls of the queue have registered is known before its first launch. May wait for
 * kernels of earlier groups. */
ncclResult_t plan_registered_exchange(struct ncclComm *comm);

/* ---- messages_launch.c ---------------------------------------------------------------------- */

/* Lets a world that watches buffers know what the stream's next operation uses. */
void plan_message_uses(const struct ncclComm *comm, const struct plan_queued_message *m,
		       cudaStream_t stream);
/* Launches the next plan of the queue. WAITS for slots of the proxy. */
ncclResult_t plan_messages_launch(struct ncclComm *comm, struct plan_state *st);

#endif
