/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of a program: an ELF file, read into memory. The file supplies its own offsets and
 * addresses. Each is checked before use. Source: the System V ABI.
 */
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/world/program/program.h"

#if defined(__x86_64__)
enum {
	FILE_MACHINE = EM_X86_64,
	FILE_COPY = R_X86_64_COPY,
	FILE_WORD = R_X86_64_64,
	FILE_SLOT = R_X86_64_JUMP_SLOT,
	FILE_DATA = R_X86_64_GLOB_DAT
};
#elif defined(__aarch64__)
enum {
	FILE_MACHINE = EM_AARCH64,
	FILE_COPY = R_AARCH64_COPY,
	FILE_WORD = R_AARCH64_ABS64,
	FILE_SLOT = R_AARCH64_JUMP_SLOT,
	FILE_DATA = R_AARCH64_GLOB_DAT
};
#endif

#define FILE_BYTES_MOST (1ull << 30)
#define FILE_NCCL       "libnccl.so"

struct program_file {
	char path[PATH_MAX];
	uint8_t *image;
	uint64_t bytes;
	const Elf64_Ehdr *head;
	Elf64_Phdr *segment;
	Elf64_Dyn *dynamic;
	uint64_t dynamics;
	const char *names; /* names of dynamic symbols and libraries; ends with a NUL */
	uint64_t names_bytes;
	uint64_t main;
};

static int file_refuse(const struct program_file *f, const char *what)
{
	fprintf(stderr, "doppel exec: %s: %s\n", f->path, what);
	return ENOEXEC;
}

static int file_refuse_name(const struct program_file *f, const char *format, const char *name)
{
	char what[512];

	snprintf(what, sizeof what, format, name);
	return file_refuse(f, what);
}

/* ---- places in the file --------------------------------------------------------------------- */

/* Returns a range of the file; NULL: it is not entirely in the file, or is misaligned. */
static void *file_at(const struct program_file *f, uint64_t offset, uint64_t bytes, uint64_t align)
{
	bool in = offset <= f->bytes && bytes <= f->bytes - offset && offset % align == 0;

	return in ? f->image + offset : NULL;
}

static void *file_at_address(const struct program_file *f, uint64_t address, uint64_t bytes,
			     uint64_t align)
{
	for (uint32_t i = 0; i < f->head->e_phnum; i++) {
		const Elf64_Phdr *s = &f->segment[i];
		uint64_t into = address - s->p_vaddr;

		if (s->p_type == PT_LOAD && into < s->p_filesz && bytes <= s->p_filesz - into &&
		    into <= UINT64_MAX - s->p_offset)
			return file_at(f, s->p_offset + into, bytes, align);
	}
	return NULL;
}

static Elf64_Phdr *file_segment(const struct program_file *f, uint32_t type)
{
	for (uint32_t i = 0; i < f->head->e_phnum; i++)
		if (f->segment[i].p_type == type)
			return &f->segment[i];
	return NULL;
}

/* Returns the value of a dynamic entry; 0: no such entry. */
static uint64_t file_dynamic(const struct program_file *f, int64_t tag)
{
	for (uint64_t i = 0; i < f->dynamics; i++)
		if (f->dynamic[i].d_tag == tag)
			return f->dynamic[i].d_un.d_val;
	return 0;
}

static const char *file_name(const struct program_file *f, uint64_t at)
{
	return at < f->names_bytes ? f->names + at : "";
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool file_found(const char *folder, size_t n, const char *name, char out[PATH_MAX])
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof path, "%.*s%s%s", (int)n, folder, n ? "/" : "", name);
	struct stat s;

	return length > 0 && length < PATH_MAX && access(path, X_OK) == 0 && stat(path, &s) == 0 &&
	       S_ISREG(s.st_mode) && realpath(path, out);
}

static int file_find(const char *name, char out[PATH_MAX])
{
	const char *path = getenv("PATH");

	if (strchr(name, '/'))
		return file_found("", 0, name, out) ? 0 : access(name, F_OK) ? ENOENT : EACCES;
	for (path = path ? path : "/usr/bin:/bin"; path;) {
		size_t n = strcspn(path, ":");

		if (file_found(n ? path : ".", n ? n : 1, name, out))
			return 0;
		path = path[n] ? path + n + 1 : NULL;
	}
	return ENOENT;
}

static int file_read(struct program_file *f)
{
	FILE *in = fopen(f->path, "rb");
	struct stat s = {0};
	int rc = !in || fstat(fileno(in), &s) ? errno : 0;

	if (!rc && (uint64_t)s.st_size > FILE_BYTES_MOST)
		rc = EFBIG;
	f->bytes = rc ? 0 : (uint64_t)s.st_size;
	f->image = rc ? NULL : malloc(f->bytes + 1);
	if (!rc && !f->image)
		rc = ENOMEM;
	if (!rc && fread(f->image, 1, f->bytes, in) != f->bytes)
		rc = EIO;
	if (in)
		fclose(in);
	return rc ? file_refuse(f, strerror(rc)) : 0;
}

static int file_read_head(struct program_file *f)
{
	const Elf64_Ehdr *h = f->head = file_at(f, 0, sizeof *h, 1);

	if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 ||
	    h->e_machine != FILE_MACHINE)
		return file_refuse(f, "not a program of this computer; on several hosts a program "
				      "is loaded by Doppel, so a script cannot be one");
	f->segment = file_at(f, h->e_phoff, h->e_phnum * sizeof(Elf64_Phdr), 8);
	if (!f->segment || h->e_phentsize != sizeof(Elf64_Phdr))
		return file_refuse(f, "its table of segments is damaged");
	if (h->e_type != ET_DYN || !file_segment(f, PT_DYNAMIC))
		return file_refuse(f, "its address is fixed, so it can be loaded once; expected a "
				      "program built with -pie and without -static");
	return 0;
}

/* True if the tables fit into the file: a larger table is damaged. */
static bool file_has_tables(const struct program_file *f)
{
	static const int64_t sizes[] = {DT_STRSZ, DT_RELASZ, DT_PLTRELSZ, DT_FINI_ARRAYSZ};
	bool fit = true;

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		fit &= file_dynamic(f, sizes[i]) <= f->bytes;
	return fit;
}

static int file_read_dynamic(struct program_file *f)
{
	const Elf64_Phdr *s = file_segment(f, PT_DYNAMIC);
	uint64_t n = s->p_filesz / sizeof(Elf64_Dyn);

	f->dynamic = file_at(f, s->p_offset, n * sizeof(Elf64_Dyn), 8);
	while (f->dynamic && f->dynamics < n && f->dynamic[f->dynamics].d_tag != DT_NULL)
		f->dynamics++;
	f->names_bytes = file_dynamic(f, DT_STRSZ);
	f->names = file_at_address(f, file_dynamic(f, DT_STRTAB), f->names_bytes, 1);
	if (!f->dynamic || !f->names || !f->names_bytes || f->names[f->names_bytes - 1] ||
	    !file_has_tables(f))
		return file_refuse(f, "its dynamic section is damaged");
	return 0;
}

/* Searches one symbol table for main. */
static void file_find_main(struct program_file *f, const Elf64_Shdr *table)
{
	const Elf64_Shdr *sections = file_at(f, f->head->e_shoff, 0, 8);
	const Elf64_Sym *symbol = file_at(f, table->sh_offset, table->sh_size, 8);

	if (!symbol || table->sh_link >= f->head->e_shnum)
		return;
	const Elf64_Shdr *named = &sections[table->sh_link];
	const char *names = file_at(f, named->sh_offset, named->sh_size, 1);

	if (!names || !named->sh_size || names[named->sh_size - 1])
		return;
	for (uint64_t i = 0; i < table->sh_size / sizeof *symbol; i++)
		if (symbol[i].st_name < named->sh_size && symbol[i].st_shndx != SHN_UNDEF &&
		    strcmp(names + symbol[i].st_name, "main") == 0)
			f->main = symbol[i].st_value;
}

static int file_read_main(struct program_file *f)
{
	uint64_t n = f->head->e_shnum;
	const Elf64_Shdr *s = file_at(f, f->head->e_shoff, n * sizeof *s, 8);

	for (uint64_t i = 0; s && i < n && !f->main; i++)
		if (s[i].sh_type == SHT_SYMTAB || s[i].sh_type == SHT_DYNSYM)
			file_find_main(f, &s[i]);
	if (f->main && file_at_address(f, f->main, 1, 1))
		return 0;
	return file_refuse(f, "its symbol table has no main; expected a program that was not "
			      "stripped");
}

/* ---- properties that copies cannot have ------------------------------------------------------ */

static bool file_starts(const char *text, const char *const *with)
{
	while (*with && strncmp(text, *with, strlen(*with)))
		with++;
	return *with != NULL;
}

/* Refuses unknown libraries. Known ones keep no state of the program in their variables, or Doppel
 * handles that state. */
static int file_check_libraries(const struct program_file *f)
{
	static const char *const known[] = {
		"libc.so.",       "libm.so.",       "libdl.so.",    "librt.so.",
		"libpthread.so.", "libstdc++.so.",  "libgcc_s.so.", "libatomic.so",
		"ld-linux",       "libfakecuda.so", "libcudart.so", "libdoppel-rt.so",
		"libmvec.so.",    "libasan.so",     "libubsan.so",  NULL};
	const char *name;

	for (uint32_t i = 0; (name = program_file_library(f, i)); i++)
		if (!file_starts(name, known))
			return file_refuse_name(
				f,
				"it is linked with %s, whose variables all hosts would share; "
				"expected a program that has it linked statically",
				name);
	return 0;
}

/* Refuses unknown library variables. A program's copy of such a variable is made when the program
 * is loaded. For the known ones the copy is kept current (program_calls.c) or never changes. The
 * variables of the C++ library refer to themselves. */
static int file_check_variables(const struct program_file *f)
{
	static const char *const known[] = {"_Z",
					    "std",
					    "environ",
					    "__environ",
					    "_environ",
					    "opt",
					    "program_invocation",
					    "__progname",
					    NULL};
	struct program_reference r;

	for (uint64_t i = 0; program_file_reference(f, i, &r); i++)
		if (r.kind == PROGRAM_VARIABLE && !file_starts(r.name, known))
			return file_refuse_name(f,
						"it uses the library variable %s, which all hosts "
						"would share; expected a program without it",
						r.name);
	return 0;
}

static int file_check(const struct program_file *f)
{
	int rc = 0;

	if (file_segment(f, PT_TLS))
		return file_refuse(f, "it has thread-local variables of its own, which a loaded "
				      "copy cannot have; expected a program without them");
	rc = file_check_libraries(f);
	return rc ? rc : file_check_variables(f);
}

/* ---- as a library --------------------------------------------------------------------------- */

/* Changes the image so that dlopen accepts it. dlopen refuses a file that is marked as a program.
 * No part becomes read-only: its calls are changed after they are bound. The stack is already in
 * this process, as libdoppel.so. The entry of libnccl.so is therefore replaced by a second entry of
 * another library. */
static int file_make_library(struct program_file *f)
{
	Elf64_Phdr *relro = file_segment(f, PT_GNU_RELRO);
	uint64_t other = UINT64_MAX;

	if (relro)
		relro->p_type = PT_NULL;
	for (uint64_t i = 0; i < f->dynamics; i++) {
		Elf64_Dyn *d = &f->dynamic[i];

		if (d->d_tag == DT_FLAGS_1)
			d->d_un.d_val &= ~(uint64_t)DF_1_PIE;
		if (d->d_tag == DT_NEEDED &&
		    strncmp(file_name(f, d->d_un.d_val), FILE_NCCL, strlen(FILE_NCCL)))
			other = d->d_un.d_val;
	}
	if (other == UINT64_MAX)
		return file_refuse(f, "it is not linked with libc; expected a program that is");
	for (uint64_t i = 0; i < f->dynamics; i++) {
		Elf64_Dyn *d = &f->dynamic[i];

		if (d->d_tag == DT_NEEDED &&
		    !strncmp(file_name(f, d->d_un.d_val), FILE_NCCL, strlen(FILE_NCCL)))
			d->d_un.d_val = other;
	}
	return 0;
}

/* ---- the interface -------------------------------------------------------------------------- */

int program_file_open(const char *name, struct program_file **file)
{
	struct program_file *f = calloc(1, sizeof *f);
	int rc = f ? file_find(name, f->path) : ENOMEM;

	*file = NULL;
	if (rc) {
		fprintf(stderr, "doppel exec: %s: %s\n", name, strerror(rc));
		free(f);
		return rc;
	}
	rc = file_read(f);
	rc = rc ? rc : file_read_head(f);
	rc = rc ? rc : file_read_dynamic(f);
	rc = rc ? rc : file_read_main(f);
	rc = rc ? rc : file_make_library(f);
	rc = rc ? rc : file_check(f);
	if (rc)
		program_file_close(f);
	else
		*file = f;
	return rc;
}

void program_file_close(struct program_file *f)
{
	if (f)
		free(f->image);
	free(f);
}

const char *program_file_path(const struct program_file *f)
{
	return f->path;
}

const void *program_file_image(const struct program_file *f, uint64_t *bytes)
{
	*bytes = f->bytes;
	return f->image;
}

uint64_t program_file_main(const struct program_file *f)
{
	return f->main;
}

const char *program_file_library(const struct program_file *f, uint32_t i)
{
	for (uint64_t k = 0; k < f->dynamics; k++)
		if (f->dynamic[k].d_tag == DT_NEEDED && i-- == 0)
			return file_name(f, f->dynamic[k].d_un.d_val);
	return NULL;
}

/* References are in two tables: first those of data, then those of calls. */
bool program_file_reference(const struct program_file *f, uint64_t i, struct program_reference *r)
{
	uint64_t data = file_dynamic(f, DT_RELASZ) / sizeof(Elf64_Rela);
	uint64_t calls = file_dynamic(f, DT_PLTRELSZ) / sizeof(Elf64_Rela);
	uint64_t table = file_dynamic(f, i < data ? DT_RELA : DT_JMPREL);
	uint64_t at = i < data ? i : i - data;
	const Elf64_Rela *rela =
		at < MAX_OF(data, calls)
			? file_at_address(f, table + at * sizeof *rela, sizeof *rela, 8)
			: NULL;

	*r = (struct program_reference){.name = ""};
	if (i >= data && i - data >= calls)
		return false;
	if (!rela)
		return true; /* damaged: no name */
	uint64_t type = ELF64_R_TYPE(rela->r_info);
	uint64_t symbols = file_dynamic(f, DT_SYMTAB);
	const Elf64_Sym *symbol = file_at_address(
		f, symbols + ELF64_R_SYM(rela->r_info) * sizeof *symbol, sizeof *symbol, 8);

	if (symbol && (type == FILE_COPY || type == FILE_SLOT || type == FILE_DATA ||
		       (type == FILE_WORD && rela->r_addend == 0)))
		r->name = file_name(f, symbol->st_name);
	r->kind = type == FILE_COPY ? PROGRAM_VARIABLE : PROGRAM_POINTER;
	r->address = rela->r_offset;
	return true;
}

uint64_t program_file_finishers(const struct program_file *f, uint64_t *n)
{
	*n = file_dynamic(f, DT_FINI_ARRAYSZ) / sizeof(uint64_t);
	return file_dynamic(f, DT_FINI_ARRAY);
}
