/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes a core file in which every task is a thread: an ELF core (gABI; note types as Linux writes
 * them) with one NT_PRSTATUS per task. gdb's `info threads` and `thread apply all bt` then work on
 * tasks. A suspended task has pc = fiber_resume_pc and its saved sp; the CFI of fiber_switch
 * locates the other registers. The first thread is the calling OS thread with its own id, whether
 * it runs a task or the loop. All other thread ids are task ids plus one.
 *
 * Memory in the core: resident pages of readable private mappings and of shared memory, listed by
 * /proc/self/smaps and pagemap. An unmodified mapped file contributes only its first page: its ELF
 * header leads gdb to the file. Gigabytes of sparse device memory therefore cost only their used
 * pages. Device memory has a second mapping without access, the program's view. The core shows it
 * at both addresses and stores it once.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <unistd.h>

#include "sim/engine/report/report_internal.h"
#include "sim/engine/base/output.h"

/* A larger mapping is a sanitizer's shadow: scanning its pagemap takes minutes, and a debugger does
 * not need it. */
#define CORE_SHADOW_BYTES (1ull << 38)

enum { CORE_BATCH = 512, CORE_PAGE = 4096, CORE_SEGMENTS_MAX = 60000, CORE_VIEWS = 64 };

#if defined(__x86_64__)
#define CORE_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define CORE_MACHINE EM_AARCH64
#endif

struct core_segment {
	uint64_t start, bytes;
	uint64_t at;            /* offset in the core file */
	uint32_t flags;         /* PF_* */
	uint32_t twin;          /* index + 1 of the segment with the same bytes; 0: none */
	uint64_t inode, offset; /* of shared memory; offset of a twin: offset within that segment */
};

struct core_view {
	uint64_t start, bytes, inode, offset;
};

struct core_notes {
	char *data;
	size_t n, cap;
};

struct core {
	int fd, pagemap, mem;
	struct core_segment *segment;
	uint32_t segments;
	struct core_view view[CORE_VIEWS];
	uint32_t views;
	struct core_notes notes;
};

/* ---- notes ---------------------------------------------------------------------------------- */

static int core_note(struct core_notes *notes, uint32_t type, const char *name, const void *data,
		     size_t n)
{
	size_t name_n = strlen(name) + 1;
	size_t need = sizeof(Elf64_Nhdr) + ALIGN_UP(name_n, 4) + ALIGN_UP(n, 4);

	if (notes->n + need > notes->cap) {
		size_t cap = 2 * (notes->n + need);
		char *more = realloc(notes->data, cap);

		if (!more)
			return ENOMEM;
		notes->data = more;
		notes->cap = cap;
	}
	char *at = notes->data + notes->n;
	memset(at, 0, need);
	*(Elf64_Nhdr *)at = (Elf64_Nhdr){(uint32_t)name_n, (uint32_t)n, type};
	memcpy(at + sizeof(Elf64_Nhdr), name, name_n);
	memcpy(at + sizeof(Elf64_Nhdr) + ALIGN_UP(name_n, 4), data, n);
	notes->n += need;
	return 0;
}

static void core_registers_suspended(elf_gregset_t *regs, const void *sp)
{
	uint64_t *r = (uint64_t *)regs;

#if defined(__x86_64__)
	r[16] = (uint64_t)(uintptr_t)fiber_resume_pc;
	r[17] = 0x33;
	r[19] = (uint64_t)(uintptr_t)sp;
	r[20] = 0x2b;
#elif defined(__aarch64__)
	r[31] = (uint64_t)(uintptr_t)sp;
	r[32] = (uint64_t)(uintptr_t)fiber_resume_pc;
#endif
}

static int core_note_task(struct core_notes *notes, int32_t lwp, const void *sp,
			  const ucontext_t *here)
{
	struct elf_prstatus status;

	memset(&status, 0, sizeof status);
	status.pr_pid = lwp;
	status.pr_ppid = getpid();
	status.pr_pgrp = getpgrp();
	if (sp)
		core_registers_suspended(&status.pr_reg, sp);
	else
		crash_registers(&status.pr_reg, here);
	return core_note(notes, NT_PRSTATUS, "CORE", &status, sizeof status);
}

static int core_note_process(struct core_notes *notes)
{
	struct elf_prpsinfo info;
	char auxv[4096];

	memset(&info, 0, sizeof info);
	info.pr_pid = getpid();
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = read(fd, info.pr_psargs, sizeof info.pr_psargs - 1);

		for (ssize_t i = 0; i + 1 < n; i++)
			if (!info.pr_psargs[i])
				info.pr_psargs[i] = ' ';
		close(fd);
	}
	const char *base = strrchr(info.pr_psargs, '/');
	snprintf(info.pr_fname, sizeof info.pr_fname, "%.15s", base ? base + 1 : info.pr_psargs);
	int rc = core_note(notes, NT_PRPSINFO, "CORE", &info, sizeof info);
	if (rc)
		return rc;
	fd = open("/proc/self/auxv", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, auxv, sizeof auxv);
	close(fd);
	return n > 0 ? core_note(notes, NT_AUXV, "CORE", auxv, (size_t)n) : 0;
}

/* Writes a note for each task. The running task, or the loop in its place, is first: gdb selects
 * the first thread. It has this thread's id, under which libthread_db knows it, unless a task's
 * thread id is the same. */
static int core_note_tasks(struct core_notes *notes, const ucontext_t *here)
{
	const struct sim_task *self = sim_task_known();
	bool taken = (uint32_t)gettid() <= eng.next_task_id;
	int rc = core_note_task(notes, taken ? INT32_MAX : gettid(), NULL, here);

	if (!rc)
		rc = core_note_process(notes);
	for (const struct sim_task *t = sim_task_first(); t && !rc; t = t->next)
		if (t != self && t->sp)
			rc = core_note_task(notes, (int32_t)t->self.id + 1, t->sp, NULL);
	return rc;
}

/* ---- memory --------------------------------------------------------------------------------- */

struct core_mapping {
	uint64_t start, end, resident, dirty;
	uint64_t inode, offset; /* inode 0: not a file */
	uint32_t flags;         /* PF_*; 0: no access */
	bool shared, file;      /* file: gdb finds its contents in the file itself */
};

static int core_add(struct core *c, const struct core_mapping *m, uint64_t start, uint64_t bytes)
{
	if (c->segments % CORE_BATCH == 0) {
		struct core_segment *more =
			realloc(c->segment, (c->segments + CORE_BATCH) * sizeof *more);

		if (!more)
			return ENOMEM;
		c->segment = more;
	}
	if (c->segments == CORE_SEGMENTS_MAX)
		return E2BIG;
	c->segment[c->segments++] = (struct core_segment){
		.start = start,
		.bytes = bytes,
		.flags = m->flags,
		.inode = m->shared ? m->inode : 0,
		.offset = m->offset + (start - m->start),
	};
	return 0;
}

/* Adds the resident runs of one mapping. The scan stops after `resident` pages were found. Without
 * a pagemap it adds the whole mapping, unless that is larger than 64 MiB. */
static int core_add_resident(struct core *c, const struct core_mapping *m)
{
	uint64_t entry[CORE_BATCH], run = 0, resident = m->resident;
	int rc = 0;

	if (c->pagemap < 0)
		return m->end - m->start <= 64 << 20 ? core_add(c, m, m->start, m->end - m->start)
						     : 0;
	for (uint64_t at = m->start; at < m->end && resident && !rc;) {
		size_t want = MIN_OF((m->end - at) / CORE_PAGE, (uint64_t)CORE_BATCH);
		ssize_t got = pread(c->pagemap, entry, want * 8, (off_t)(at / CORE_PAGE * 8));

		if (got <= 0)
			break;
		for (ssize_t i = 0; i < got / 8 && !rc; i++, at += CORE_PAGE) {
			bool in = entry[i] >> 62 != 0; /* present or swapped */

			if (in && !run)
				run = at;
			resident -= in && resident;
			if (!in && run) {
				rc = core_add(c, m, run, at - run);
				run = 0;
			}
		}
		if (!rc && run && (!resident || at >= m->end)) {
			rc = core_add(c, m, run, at - run);
			run = 0;
		}
	}
	return rc;
}

static int core_add_mapping(struct core *c, const struct core_mapping *m)
{
	if (!m->end)
		return 0;
	if (!m->flags && m->shared && m->inode && c->views < CORE_VIEWS)
		c->view[c->views++] =
			(struct core_view){m->start, m->end - m->start, m->inode, m->offset};
	if (!(m->flags & PF_R) || !m->resident || m->end - m->start > CORE_SHADOW_BYTES)
		return 0;
	if (m->file && !m->dirty) /* gdb reads the rest from the file */
		return core_add(c, m, m->start, CORE_PAGE);
	return core_add_resident(c, m);
}

/* Adds the part of segment i that the view shows, at the view's address. */
static int core_add_twin(struct core *c, uint32_t i, const struct core_view *v)
{
	const struct core_segment *s = &c->segment[i];
	uint64_t from = MAX_OF(s->offset, v->offset);
	uint64_t to = MIN_OF(s->offset + s->bytes, v->offset + v->bytes);
	struct core_mapping m = {.start = v->start, .flags = PF_R};

	if (s->inode != v->inode || from >= to)
		return 0;
	uint64_t within = from - s->offset;
	int rc = core_add(c, &m, v->start + (from - v->offset), to - from);
	if (rc)
		return rc;
	c->segment[c->segments - 1].twin = i + 1;
	c->segment[c->segments - 1].offset = within;
	return 0;
}

static int core_add_twins(struct core *c)
{
	uint32_t n = c->segments;
	int rc = 0;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t v = 0; c->segment[i].inode && v < c->views && !rc; v++)
			rc = core_add_twin(c, i, &c->view[v]);
	return rc;
}

/* Parses "Rss:   12 kB" and similar lines; converts kB to pages. */
static void core_smaps_field(const char *line, struct core_mapping *m)
{
	uint64_t kb;

	if (sscanf(line, "Rss: %" SCNu64, &kb) == 1)
		m->resident = kb / 4;
	else if (sscanf(line, "Swap: %" SCNu64, &kb) == 1)
		m->resident += kb / 4;
	else if (sscanf(line, "Private_Dirty: %" SCNu64, &kb) == 1 ||
		 sscanf(line, "Shared_Dirty: %" SCNu64, &kb) == 1)
		m->dirty += kb;
}

/* Parses a line that starts a mapping: "start-end perms offset device inode name". */
static bool core_smaps_mapping(const char *line, struct core_mapping *m)
{
	char perms[8] = "", name[32] = "";

	*m = (struct core_mapping){0};
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %" SCNu64 " %31s", &m->start,
		   &m->end, perms, &m->offset, &m->inode, name) < 5)
		return false;
	m->flags = (perms[0] == 'r' ? PF_R : 0) | (perms[1] == 'w' ? PF_W : 0) |
		   (perms[2] == 'x' ? PF_X : 0);
	m->shared = perms[3] == 's';
	m->file = m->inode && !m->shared && strncmp(name, "/memfd:", 7) != 0 &&
		  strncmp(name, "/dev/shm/", 9) != 0;
	return true;
}

static int core_find_memory(struct core *c)
{
	struct core_mapping m = {0}, next;
	char line[4608];
	int rc = 0;
	FILE *f = fopen("/proc/self/smaps", "r");

	if (!f)
		return errno;
	while (!rc && fgets(line, sizeof line, f)) {
		if (core_smaps_mapping(line, &next)) {
			rc = core_add_mapping(c, &m);
			m = next;
			if (strstr(line, "[vdso]")) /* pagemap does not list it */
				rc = rc ? rc : core_add(c, &m, m.start, m.end - m.start);
		} else {
			core_smaps_field(line, &m);
		}
	}
	if (!rc)
		rc = core_add_mapping(c, &m);
	fclose(f);
	return rc ? rc : core_add_twins(c);
}

/* ---- writing -------------------------------------------------------------------------------- */

static int core_write(struct core *c, const void *data, size_t n)
{
	const char *p = data;

	while (n) {
		ssize_t did = write(c->fd, p, n);

		if (did <= 0)
			return errno ? errno : EIO;
		p += did;
		n -= (size_t)did;
	}
	return 0;
}

static int core_write_headers(struct core *c)
{
	uint64_t notes_at = sizeof(Elf64_Ehdr) + (c->segments + 1) * sizeof(Elf64_Phdr);
	uint64_t at = ALIGN_UP(notes_at + c->notes.n, (uint64_t)CORE_PAGE);
	Elf64_Ehdr head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				       EV_CURRENT},
			   .e_type = ET_CORE,
			   .e_machine = CORE_MACHINE,
			   .e_version = EV_CURRENT,
			   .e_phoff = sizeof(Elf64_Ehdr),
			   .e_ehsize = sizeof(Elf64_Ehdr),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = (uint16_t)(c->segments + 1)};
	Elf64_Phdr note = {
		.p_type = PT_NOTE, .p_offset = notes_at, .p_filesz = c->notes.n, .p_align = 4};
	int rc = core_write(c, &head, sizeof head);

	if (!rc)
		rc = core_write(c, &note, sizeof note);
	for (uint32_t i = 0; i < c->segments && !rc; i++) {
		struct core_segment *s = &c->segment[i];

		s->at = s->twin ? c->segment[s->twin - 1].at + s->offset : at;
		Elf64_Phdr load = {.p_type = PT_LOAD,
				   .p_flags = s->flags,
				   .p_offset = s->at,
				   .p_vaddr = s->start,
				   .p_filesz = s->bytes,
				   .p_memsz = s->bytes,
				   .p_align = CORE_PAGE};

		rc = core_write(c, &load, sizeof load);
		at += s->twin ? 0 : s->bytes;
	}
	/* sim_core_write frees the notes: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
	rc = rc ? rc : core_write(c, c->notes.data, c->notes.n);
	if (!rc &&
	    lseek(c->fd, (off_t)ALIGN_UP(notes_at + c->notes.n, (uint64_t)CORE_PAGE), SEEK_SET) < 0)
		rc = errno;
	return rc;
}

/* Writes memory read through /proc/self/mem. A page that was unmapped meanwhile, or that a
 * sanitizer protects, is a read error there and no fault; it is written as zeros. */
static int core_write_memory(struct core *c)
{
	static char page[16 * CORE_PAGE];
	int rc = 0;

	for (uint32_t i = 0; i < c->segments && !rc; i++) {
		const struct core_segment *s = &c->segment[i];

		for (uint64_t done = 0; done < s->bytes && !s->twin && !rc;) {
			size_t want = MIN_OF(s->bytes - done, sizeof page);
			ssize_t got = pread(c->mem, page, want, (off_t)(s->start + done));

			if (got <= 0) {
				memset(page, 0, want);
				got = (ssize_t)want;
			}
			rc = core_write(c, page, (size_t)got);
			done += (size_t)got;
		}
	}
	return rc;
}

int sim_core_write(const char *path)
{
	struct core c = {.pagemap = -1, .mem = -1};
	ucontext_t here;
	int rc;

	getcontext(&here);
	c.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (c.fd < 0) {
		rc = errno;
		output_failed("core", path, rc);
		return rc;
	}
	c.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	c.mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	rc = c.mem < 0 ? errno : core_note_tasks(&c.notes, &here);
	if (!rc)
		rc = core_find_memory(&c);
	if (!rc)
		rc = core_write_headers(&c);
	if (!rc)
		rc = core_write_memory(&c);
	if (close(c.fd) && !rc)
		rc = errno;
	if (rc)
		output_failed("core", path, rc);
	if (c.mem >= 0)
		close(c.mem);
	if (c.pagemap >= 0)
		close(c.pagemap);
	free(c.segment);
	free(c.notes.data);
	return rc;
}
