/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/cli/run/exec_program.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/macros.h"

struct exec_file {
	const uint8_t *image;
	uint64_t bytes;
};

/* Opens the file that execvp would run. execvp reports a program that does not exist. */
static int exec_open(const char *name)
{
	const char *path = getenv("PATH");
	char at[PATH_MAX];

	if (strchr(name, '/') || !path)
		return open(name, O_RDONLY | O_CLOEXEC);
	for (size_t n; *path; path += n + (path[n] == ':')) {
		n = strcspn(path, ":");
		snprintf(at, sizeof at, "%.*s/%s", (int)n, path, name);
		if (n && access(at, X_OK) == 0)
			return open(at, O_RDONLY | O_CLOEXEC);
	}
	return -1;
}

static bool exec_map(const char *name, struct exec_file *f)
{
	int fd = exec_open(name);
	struct stat s;
	bool regular = fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0;
	void *image =
		regular ? mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;

	if (fd >= 0)
		close(fd);
	if (image == MAP_FAILED)
		return false;
	*f = (struct exec_file){.image = image, .bytes = (uint64_t)s.st_size};
	return true;
}

/* Returns a range of the file; NULL: it is not entirely in the file. */
static const void *exec_at(const struct exec_file *f, uint64_t offset, uint64_t bytes)
{
	return offset <= f->bytes && bytes <= f->bytes - offset ? f->image + offset : NULL;
}

static const Elf64_Phdr *exec_segment(const struct exec_file *f, uint32_t i)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)f->image;

	ASSERT(f->bytes >= sizeof *head); /* exec_check_program looks at no shorter file */
	return i < head->e_phnum
		       ? exec_at(f, head->e_phoff + i * sizeof(Elf64_Phdr), sizeof(Elf64_Phdr))
		       : NULL;
}

/* Returns the text at an address of the loaded program; "": it is not in the file. */
static const char *exec_text(const struct exec_file *f, uint64_t address)
{
	const Elf64_Phdr *s;

	for (uint32_t i = 0; (s = exec_segment(f, i)); i++) {
		const char *text = s->p_type == PT_LOAD && address - s->p_vaddr < s->p_filesz
					   ? exec_at(f, s->p_offset + (address - s->p_vaddr), 1)
					   : NULL;

		if (text && memchr(text, 0, f->bytes - (uint64_t)(text - (const char *)f->image)))
			return text;
	}
	return "";
}

/* Returns the i-th library that the program is linked with; NULL: fewer exist. */
static const char *exec_library(const struct exec_file *f, uint32_t wanted)
{
	const Elf64_Phdr *s;
	const Elf64_Dyn *d;
	uint64_t names = 0, name = 0;
	bool found = false;

	for (uint32_t i = 0; (s = exec_segment(f, i)); i++) {
		if (s->p_type != PT_DYNAMIC)
			continue;
		for (uint64_t at = 0; (d = exec_at(f, s->p_offset + at, sizeof *d)) &&
				      d->d_tag != DT_NULL && at < s->p_filesz;
		     at += sizeof *d) {
			if (d->d_tag == DT_STRTAB)
				names = d->d_un.d_ptr;
			if (d->d_tag == DT_NEEDED && !found && wanted-- == 0) {
				name = d->d_un.d_val;
				found = true;
			}
		}
	}
	return found && names ? exec_text(f, names + name) : NULL;
}

static bool exec_begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* True if the CUDA runtime is linked statically. It loads the driver by the first name and finds
 * its functions by the second. */
static bool exec_has_runtime(const struct exec_file *f)
{
	static const char driver[] = "libcuda.so.1", find[] = "cuGetProcAddress";

	return memmem(f->image, f->bytes, driver, sizeof driver - 1) &&
	       memmem(f->image, f->bytes, find, sizeof find - 1);
}

static bool exec_check_file(const struct exec_file *f, const char *name)
{
	const char *library, *other = exec_has_runtime(f) ? "a CUDA runtime of its own" : NULL;
	bool doubles = false;

	for (uint32_t i = 0; (library = exec_library(f, i)); i++) {
		if (exec_begins(library, "libcudart.so.") || exec_begins(library, "libcuda.so"))
			other = library;
		doubles |= exec_begins(library, "libnccl.so") ||
			   exec_begins(library, "libfakecuda.so") ||
			   exec_begins(library, "libdoppel");
	}
	if (other) {
		fprintf(stderr,
			"doppel exec: %s is linked with %s, which knows no doubles; expected "
			"Doppel's "
			"libcudart.so: $(pkg-config --cflags --libs doppel)\n",
			name, other);
		return false;
	}
	if (!doubles)
		fprintf(stderr,
			"doppel exec: %s is not linked with libnccl.so.2 or libcudart.so of "
			"Doppel: only "
			"what it loads or starts can use the doubles\n",
			name);
	return true;
}

bool exec_check_program(const char *name)
{
	struct exec_file f;
	bool good = true;

	if (!exec_map(name, &f))
		return true;
	if (f.bytes >= sizeof(Elf64_Ehdr) && memcmp(f.image, ELFMAG, SELFMAG) == 0 &&
	    f.image[EI_CLASS] == ELFCLASS64)
		good = exec_check_file(&f, name);
	munmap((void *)f.image, f.bytes);
	return good;
}
