/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between the RAS tasks of a job: fixed-width little-endian structs. A message is a head
 * and its arrays:
 *
 *	REPORT, DUMP, CALLS  hashes[hashes]: communicators whose members the sender knows
 *	FAIL                 hashes[RAS_FAIL_WORDS], text[text]: a verdict
 *	ANSWER               struct ras_rank[ranks], struct ras_member[members],
 *	                     struct ras_call[calls], struct ras_pair[pairs], text[text + why]
 *
 * Only answers to DUMP and CALLS have calls, and only answers to DUMP have pairs and text. The text
 * is that of the pending operations, then the lines of `why`. An answer to FAIL
 * is empty. Members of the communicators in `hashes` are not sent. A task sends one request on a
 * connection and receives one answer. A message of another version, or a malformed one, closes the
 * connection.
 */
#ifndef CORE_RAS_RAS_WIRE_H
#define CORE_RAS_RAS_WIRE_H

#include "core/ras/ras.h"

#define RAS_WIRE_MAGIC     0x3153415270656f64ull
#define RAS_WIRE_VERSION   4
#define RAS_WIRE_MAX       (64u << 20) /* bytes of a message */
#define RAS_WIRE_RANKS_MAX (1 << 20)   /* ranks of a communicator */

enum ras_wire_kind {
	RAS_WIRE_REPORT = 1,
	RAS_WIRE_DUMP,
	RAS_WIRE_CALLS,
	RAS_WIRE_FAIL,
	RAS_WIRE_ANSWER,
};
/* The hashes of FAIL: communicator, enum ras_phase, ncclResult_t. */
enum { RAS_FAIL_COMM, RAS_FAIL_PHASE, RAS_FAIL_ERROR, RAS_FAIL_WORDS };
#define RAS_FAIL_TEXT_MAX 4096 /* bytes */

struct ras_head {
	uint64_t magic;
	uint32_t version, kind;
	/* lengths of the arrays; text, why: bytes */
	uint32_t hashes, ranks, members, calls, pairs, text, why, pad0;
};
DOPPEL_CHECK_SIZE(struct ras_head, 48);

/* A checked message; the arrays are in the message's bytes. */
struct ras_message {
	struct ras_head head;
	const uint64_t *hash;
	const struct ras_rank *rank;
	const struct ras_member *member;
	const struct ras_call *call;
	const struct ras_pair *pair;
	const char *text, *why;
};

/* Returns the size of the message whose head is at `head`. 0: the head is malformed. */
size_t ras_wire_bytes(const struct ras_head *head);
/* Checks a whole message, aligned to 8 bytes. False: it is malformed, and *m is zero. */
bool ras_wire_read(const void *data, size_t bytes, struct ras_message *m);
/* `text` may be NULL; only FAIL has one. */
void ras_wire_request(struct ras_text *out, enum ras_wire_kind kind, const uint64_t *hash,
		      uint32_t hashes, const struct ras_text *text);
/* Answers `request` with the view, and with the texts. */
void ras_wire_answer(struct ras_text *out, const struct ras_message *request,
		     const struct ras_view *v, const struct ras_text *text,
		     const struct ras_text *why);

#endif
