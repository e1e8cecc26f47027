/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ranks connect by these messages: connect.c sends, connect_part.c takes them. Each direction
 * has messages of its own, so that one goes on whatever the other one waits for.
 *
 *	description      a head and, for each channel, what one end sends the other (struct connect_info)
 *	acknowledgement  one byte: the other rank's description has come, and fits
 *
 * Either is empty instead when its sender has failed.
 */
#ifndef CORE_TRANSPORT_CONNECT_WIRE_H
#define CORE_TRANSPORT_CONNECT_WIRE_H

#include "core/bootstrap/bootstrap.h"
#include "core/transport/transport_internal.h"

/* It changes with what is exchanged. */
#define CONNECT_MAGIC 0xd0de2101u

struct connect_head {
	uint32_t magic;
	int32_t rank;    /* that describes its ends */
	uint8_t is_send; /* they send */
	uint8_t both;    /* the job has ends of the other direction, too */
	uint16_t index;  /* enum conn_index */
	uint32_t count;  /* of channels */
	uint64_t channels;
};
DOPPEL_CHECK_SIZE(struct connect_head, 24);
DOPPEL_CHECK_OFFSET(struct connect_head, channels, 16);
DOPPEL_STATIC_CHECK(DEV_MAX_CHANNELS <= 64, "a bit for each channel");

enum connect_what { CONNECT_DESCRIPTION = 0x520000, CONNECT_KNOWN = 0x530000 };

/* Tags also have the index, and whether the sender's ends send. */
static inline int connect_tag(enum connect_what what, uint32_t index, bool is_send)
{
	return (int)what + (int)(2 * index) + is_send;
}

/* A part of a job: its ends of one peer, index and direction.
 *
 *	DESCRIBED --description--> HEARD --acknowledge--> KNOWN --acknowledgement--> CONNECTING --connect--> READY
 */
enum conn_part_state {
	CONN_DESCRIBED, /* this rank's ends are; the peer's description has not come */
	CONN_HEARD,     /* it has come */
	CONN_KNOWN,     /* the peer knows that */
	CONN_CONNECTING,
	CONN_READY,
};

struct conn_part {
	int first, n; /* of the job's ends */
	enum conn_part_state state;
	bool known;     /* the peer's acknowledgement has come */
	bool alike;     /* the peer, too, has called the same of send and receive alone */
	bool logged;    /* that */
	size_t message; /* its description: an offset in the job's */
};

struct conn_job {
	struct ncclComm *comm;
	int n, nparts;
	int left;                    /* parts that are not READY */
	int known;                   /* parts whose acknowledgement has come */
	ncclResult_t error;          /* of what has come */
	struct conn_want *want;      /* [n], in the order of conn_want_compare */
	struct conn **conn;          /* [n] */
	struct connect_info *theirs; /* [n] */
	bool *ready;                 /* [n] */
	struct wait *wait;           /* [n]: what ends wait for that are not ready, and parts */
	int nwaits;
	struct conn_part *part; /* [nparts] */
	uint8_t *messages;      /* descriptions, one after the other */
};

static inline const struct conn_want *conn_part_want(const struct conn_job *job,
						     const struct conn_part *p)
{
	return &job->want[p->first];
}

/* The message of one end to the other one. */
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

/* The head of this rank's description. */
struct connect_head conn_part_head(const struct conn_job *job, const struct conn_part *p);
/* For bootstrap_offer, with the job: takes what is for one of its parts. */
bool conn_job_take(void *job, const struct bootstrap_came *m);
/* Goes on as far as it can without waiting; what it waits for is added to the job's waits. */
ncclResult_t conn_part_look(struct conn_job *job, struct conn_part *p);
/* After an error: the peer need not wait for this rank. */
void conn_part_fail(struct conn_job *job, struct conn_part *p);

#endif
