/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages by which two ranks connect: connect.c sends them, connect_part.c takes them. Each
 * direction has its own messages, so that it does not depend on the progress of the other
 * direction.
 *
 *	description      a head and, for each channel, a struct connect_info
 *	acknowledgement  one byte: the other rank's description has arrived, and is valid
 *
 * A rank that has failed sends an empty message instead.
 */
#ifndef CORE_TRANSPORT_CONN_CONNECT_WIRE_H
#define CORE_TRANSPORT_CONN_CONNECT_WIRE_H

#include "core/bootstrap/bootstrap.h"
#include "core/transport/transport_internal.h"

/* Changes when the format of the messages changes. */
#define CONNECT_MAGIC 0xd0de2101u

struct connect_head {
	uint32_t magic;
	int32_t rank;    /* the rank that describes its ends */
	uint8_t is_send; /* its ends send */
	uint8_t both;    /* the job has ends of the other direction, too */
	uint16_t index;  /* enum conn_index */
	uint32_t count;  /* number of channels */
	uint64_t channels;
};
DOPPEL_CHECK_SIZE(struct connect_head, 24);
DOPPEL_CHECK_OFFSET(struct connect_head, channels, 16);
DOPPEL_STATIC_CHECK(DEV_MAX_CHANNELS <= 64, "a bit for each channel");

enum connect_what { CONNECT_DESCRIPTION = 0x520000, CONNECT_KNOWN = 0x530000 };

/* The tag encodes the message, the index, and the direction of the sender's ends. */
static inline int connect_tag(enum connect_what what, uint32_t index, bool is_send)
{
	return (int)what + (int)(2 * index) + is_send;
}

/* States of a part: the ends of a job with the same peer, index and direction.
 *
 *	DESCRIBED --description--> RECEIVED --acknowledge--> KNOWN
 *	          --acknowledgement--> CONNECTING --connect--> READY
 */
enum conn_part_state {
	CONN_DESCRIBED, /* this rank's description was sent; the peer's has not arrived */
	CONN_RECEIVED,  /* the peer's description has arrived */
	CONN_KNOWN,     /* this rank has acknowledged it */
	CONN_CONNECTING,
	CONN_READY,
};

struct conn_part {
	int first, n; /* range of the job's ends */
	enum conn_part_state state;
	bool known;     /* the peer's acknowledgement has arrived */
	bool alike;     /* both ranks have called only send, or both only receive */
	bool logged;    /* a line about `alike` was logged */
	size_t message; /* offset of its description in job->messages */
};

struct conn_job {
	struct ncclComm *comm;
	int n, nparts;
	int left;                    /* parts that are not READY */
	int known;                   /* parts whose acknowledgement has arrived */
	ncclResult_t error;          /* caused by a message that arrived */
	struct conn_want *want;      /* [n], sorted by conn_want_compare */
	struct conn **conn;          /* [n] */
	struct connect_info *theirs; /* [n] */
	bool *ready;                 /* [n] */
	struct wait *wait;           /* [n]: waits of ends that are not ready, and of parts */
	int nwaits;
	struct conn_part *part; /* [nparts] */
	uint8_t *messages;      /* descriptions, one after the other */
};

static inline const struct conn_want *conn_part_want(const struct conn_job *job,
						     const struct conn_part *p)
{
	return &job->want[p->first];
}

/* The connect_info of one end in its part's description. */
static inline struct connect_info *conn_part_info(const struct conn_job *job,
						  const struct conn_part *p, int i)
{
	ASSERT(i >= p->first && i < p->first + p->n);
	return (struct connect_info *)(job->messages + p->message + sizeof(struct connect_head)) +
	       (i - p->first);
}

static inline size_t conn_part_bytes(const struct conn_part *p)
{
	return sizeof(struct connect_head) + (size_t)p->n * sizeof(struct connect_info);
}

/* Returns the head of this rank's description. */
struct connect_head conn_part_head(const struct conn_job *job, const struct conn_part *p);
/* A callback for bootstrap_offer, with the job as argument. True: the message was for one of its
 * parts. */
bool conn_job_take(void *job, const struct bootstrap_came *m);
/* Advances the part as far as possible without waiting. Its waits are added to the job's. */
ncclResult_t conn_part_look(struct conn_job *job, struct conn_part *p);
/* After an error: sends an empty acknowledgement, so that the peer does not wait for this rank. */
void conn_part_fail(struct conn_job *job, struct conn_part *p);

#endif
