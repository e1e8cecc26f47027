/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/transport/local/letters.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/mem/cumem.h"
#include "core/os/mailbox.h"

/* A letter that arrived. */
struct letter {
	struct letter *next;
	uint64_t what;
	int fd;
};

struct letters {
	int box;
	struct letter *first; /* letters that were not used yet */
};

static const struct letter_words {
	const char *link, *mine, *theirs, *wait;
	enum cumem_place place;
} letter_words[] = {
	[LETTER_POOL] = {"p2p", "p2p connection memory", "a neighbour's p2p connection memory",
			 "descriptor of a neighbour's p2p memory", CUMEM_DEVICE},
	[LETTER_SEGMENT] = {"shm", "shm connection memory", "a neighbour's shm connection memory",
			    "descriptor of a neighbour's shm memory", CUMEM_HOST},
};

/* Wire format of a letter's key: owner, kind and number of the memory. */
static uint64_t letter_what(int32_t owner, const struct letter_memory *m)
{
	ASSERT(m->number >> 31 == 0);
	return (uint64_t)(uint32_t)owner << 32 | (uint32_t)m->kind << 31 | m->number;
}

static void letters_box_name(const struct ncclComm *comm, int32_t rank,
			     char name[OS_MAILBOX_NAME_BYTES])
{
	snprintf(name, OS_MAILBOX_NAME_BYTES, "nccl-%016" PRIx64 "-%d", comm->id_hash, (int)rank);
}

static ncclResult_t letters_open(struct ncclComm *comm, struct letters *l)
{
	char name[OS_MAILBOX_NAME_BYTES];
	int rc;

	letters_box_name(comm, comm->rank, name);
	rc = os_mailbox_open(name, &l->box);
	if (!rc)
		return ncclSuccess;
	WARN("rank %d: no mailbox %s for descriptors of memory: error %d", comm->rank, name, rc);
	return ncclSystemError;
}

ncclResult_t letters_expect(struct ncclComm *comm)
{
	struct letters *l;
	ncclResult_t rc;

	if (comm->letters)
		return ncclSuccess;
	l = os_alloc(sizeof *l, "letters");
	if (!l) {
		WARN("rank %d: no memory for the state of its mailbox", comm->rank);
		return ncclSystemError;
	}
	rc = letters_open(comm, l);
	if (rc)
		os_free(l);
	else
		comm->letters = l;
	return rc;
}

ncclResult_t letters_give(struct ncclComm *comm, int32_t peer, const struct letter_memory *m,
			  void *mem)
{
	const char *what = letter_words[m->kind].mine;
	char name[OS_MAILBOX_NAME_BYTES];
	ncclResult_t rc;
	int fd, posted;

	rc = cumem_export(&fd, mem, what);
	if (rc)
		goto err_close;
	letters_box_name(comm, peer, name);
	posted = os_mailbox_post(name, letter_what(comm->rank, m), fd);
	if (posted) {
		WARN("rank %d: the descriptor of its %s does not reach rank %d: %s (error %d)",
		     comm->rank, what, peer,
		     posted == ECONNREFUSED ? "that rank has left or is dead" : "mailbox", posted);
		rc = posted == ECONNREFUSED ? ncclRemoteError : ncclSystemError;
	}
err_close:
	if (fd >= 0)
		os_descriptor_close(fd);
	return rc;
}

/* ---- letters that arrive --------------------------------------------------------------------- */

/* Moves all letters from the mailbox to the list. */
static ncclResult_t letters_collect(const struct ncclComm *comm)
{
	struct letters *letters = comm->letters;
	uint64_t what;
	int fd, rc;

	while (!(rc = os_mailbox_take(letters->box, &what, &fd))) {
		struct letter *l = os_alloc(sizeof *l, "letter");

		if (!l) {
			os_descriptor_close(fd);
			WARN("rank %d: no memory for a descriptor of a neighbour's memory",
			     comm->rank);
			return ncclSystemError;
		}
		*l = (struct letter){.next = letters->first, .what = what, .fd = fd};
		letters->first = l;
	}
	if (rc == EAGAIN)
		return ncclSuccess;
	WARN("rank %d: its mailbox cannot be read: error %d", comm->rank, rc);
	return ncclSystemError;
}

/* Removes the letter for that memory and returns its descriptor; -1: it has not arrived. */
static int letters_find(struct letters *letters, uint64_t what)
{
	struct letter **at = &letters->first;

	while (*at && (*at)->what != what)
		at = &(*at)->next;
	if (!*at)
		return -1;
	struct letter *l = *at;
	int fd = l->fd;

	*at = l->next;
	os_free(l);
	return fd;
}

/* Takes the letter for the peer's memory. ncclInProgress: it has not arrived. */
static ncclResult_t letters_take(struct ncclComm *comm, int32_t peer, const struct letter_memory *m,
				 int *fd, struct wait *w)
{
	const struct letter_words *words = &letter_words[m->kind];
	const void *object = os_mailbox_object(comm->letters->box);
	uint64_t seq = os_event_seq(object);
	ncclResult_t rc = letters_collect(comm);

	*fd = rc ? -1 : letters_find(comm->letters, letter_what(peer, m));
	if (rc || *fd >= 0)
		return rc;
	*w = wait_object(object, seq, words->wait, wait_by(peer, -1, words->link));
	return ncclInProgress;
}

ncclResult_t letters_import(struct conn *c, const struct letter_memory *m, void **mem,
			    struct wait *w)
{
	const struct letter_words *words = &letter_words[m->kind];
	int fd;
	ncclResult_t rc = letters_take(c->comm, c->peer, m, &fd, w);

	*mem = NULL;
	if (rc == ncclInProgress)
		w->from.channel = c->channel;
	if (rc)
		return rc;
	rc = cumem_import(words->place, mem, m->bytes, fd, words->theirs);
	os_descriptor_close(fd);
	return transport_import_result(c->comm, c->peer, rc);
}

ncclResult_t letters_import_at(struct ncclComm *comm, int32_t peer, const struct letter_memory *m,
			       void *mem, struct wait *w)
{
	const struct letter_words *words = &letter_words[m->kind];
	int fd;
	ncclResult_t rc = letters_take(comm, peer, m, &fd, w);

	if (rc)
		return rc;
	rc = cumem_import_at(words->place, mem, m->bytes, fd, words->theirs);
	os_descriptor_close(fd);
	return transport_import_result(comm, peer, rc);
}

void letters_close(struct ncclComm *comm)
{
	struct letters *letters = comm->letters;

	if (!letters)
		return;
	while (letters->first) {
		struct letter *l = letters->first;

		letters->first = l->next;
		os_descriptor_close(l->fd);
		os_free(l);
	}
	os_mailbox_close(letters->box);
	comm->letters = NULL;
	os_free(letters);
}
