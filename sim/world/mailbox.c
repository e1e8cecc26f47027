/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mailboxes of the world. A name belongs to a host, and a box to one process. Descriptors are the
 * real machine's, on which all simulated processes are one process. Each letter therefore has its
 * own duplicate. When a process dies, the descriptors that it received are closed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/os/mailbox.h"
#include "sim/world/world_internal.h"

struct world_letter {
	struct world_letter *next;
	uint64_t what;
	int fd;
	ino_t inode; /* inode of this file: the number may be reused for another file */
};

struct world_box {
	struct world_box *next;
	char name[OS_MAILBOX_NAME_BYTES];
	struct world_proc *owner;
	int number;
	struct world_letter *first, **end;
};

/* ---- letters: under world.shm_lock ---------------------------------------------------------- */

static int letter_new(uint64_t what, int fd, struct world_letter **out)
{
	struct world_letter *l = calloc(1, sizeof *l);
	struct stat s;

	if (!l)
		return ENOMEM;
	l->what = what;
	l->fd = dup(fd);
	if (l->fd < 0 || fstat(l->fd, &s)) {
		free(l);
		return EBADF;
	}
	l->inode = s.st_ino;
	*out = l;
	return 0;
}

static void letter_burn(struct world_letter *l)
{
	struct stat s;

	if (fstat(l->fd, &s) == 0 && s.st_ino == l->inode)
		close(l->fd);
	free(l);
}

static void letters_burn(struct world_letter *l)
{
	while (l) {
		struct world_letter *next = l->next;

		letter_burn(l);
		l = next;
	}
}

/* ---- boxes ---------------------------------------------------------------------------------- */

static struct world_box **boxes_of(const struct world_proc *wp)
{
	return &world->host[wp->proc->host].boxes;
}

static struct world_box *box_of_name(const struct world_proc *wp, const char *name)
{
	struct world_box *b = *boxes_of(wp);

	while (b && strcmp(b->name, name) != 0)
		b = b->next;
	return b;
}

static struct world_box **box_at(const struct world_proc *wp, int number)
{
	struct world_box **at = boxes_of(wp);

	while (*at && !((*at)->owner == wp && (*at)->number == number))
		at = &(*at)->next;
	return at;
}

static int box_make(struct world_proc *wp, const char *name, int *number)
{
	struct world_box *b;

	if (box_of_name(wp, name))
		return EADDRINUSE;
	b = calloc(1, sizeof *b);
	if (!b)
		return ENOMEM;
	snprintf(b->name, sizeof b->name, "%s", name);
	b->owner = wp;
	b->number = ++world->box_last;
	b->end = &b->first;
	b->next = *boxes_of(wp);
	*boxes_of(wp) = b;
	*number = b->number;
	return 0;
}

static bool mailbox_fault(int *rc)
{
	struct os_fault f;

	if (!os_fault("os.mailbox", NULL, &f) || f.kind != OS_FAULT_FAIL)
		return false;
	*rc = f.arg ? (int)f.arg : EMFILE;
	return true;
}

int world_mailbox_open(const char *name, int *box)
{
	int rc;

	world_point("os_mailbox_open");
	if (!*name || strlen(name) >= OS_MAILBOX_NAME_BYTES)
		return EINVAL;
	if (mailbox_fault(&rc))
		return rc;
	world_lock(&world->shm_lock);
	rc = box_make(world_self(), name, box);
	world_unlock(&world->shm_lock);
	os_charge(OS_COST_CALL, 1);
	return rc;
}

static void box_drop(struct world_box **at)
{
	struct world_box *b = *at;

	*at = b->next;
	letters_burn(b->first);
	free(b);
}

void world_mailbox_close(int box)
{
	world_point("os_mailbox_close");
	world_lock(&world->shm_lock);
	struct world_box **at = box_at(world_self(), box);

	if (*at)
		box_drop(at);
	world_unlock(&world->shm_lock);
}

int world_mailbox_post(const char *name, uint64_t what, int fd)
{
	struct world_letter *l = NULL;
	int rc;

	world_point("os_mailbox_post");
	if (mailbox_fault(&rc))
		return rc;
	world_lock(&world->shm_lock);
	struct world_box *b = box_of_name(world_self(), name);

	rc = b ? letter_new(what, fd, &l) : ECONNREFUSED;
	if (!rc) {
		*b->end = l;
		b->end = &l->next;
		mem_release(b);
		os_event_post(b);
	}
	world_unlock(&world->shm_lock);
	os_charge(OS_COST_CALL, 1);
	return rc;
}

int world_mailbox_take(int box, uint64_t *what, int *fd)
{
	world_point("os_mailbox_take");
	world_lock(&world->shm_lock);
	struct world_proc *wp = world_self();
	struct world_box *b = *box_at(wp, box);
	struct world_letter *l = b ? b->first : NULL;

	if (l) {
		mem_acquire(b);
		b->first = l->next;
		if (!b->first)
			b->end = &b->first;
		*what = l->what;
		*fd = l->fd;
		l->next = wp->taken;
		wp->taken = l;
	}
	world_unlock(&world->shm_lock);
	os_charge(OS_COST_CALL, 1);
	return l ? 0 : b ? EAGAIN : EBADF;
}

const void *world_mailbox_object(int box)
{
	world_lock(&world->shm_lock);
	const void *b = *box_at(world_self(), box);

	world_unlock(&world->shm_lock);
	return b;
}

uint64_t world_mailboxes_close(struct world_proc *wp, char *first, size_t bytes)
{
	struct world_box **at = boxes_of(wp);
	uint64_t n = 0;

	world_lock(&world->shm_lock);
	while (*at) {
		if ((*at)->owner != wp) {
			at = &(*at)->next;
			continue;
		}
		if (n++ == 0)
			snprintf(first, bytes, "%s of %s", (*at)->name, wp->name);
		box_drop(at);
	}
	letters_burn(wp->taken);
	wp->taken = NULL;
	world_unlock(&world->shm_lock);
	return n;
}
