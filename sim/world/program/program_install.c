/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces some of libc's functions in the program and the loaded libraries. It overwrites each
 * word that the loader has filled with the address of such a function.
 */
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/engine/sim.h"
#include "sim/world/program/program.h"

#if defined(__x86_64__)
enum {
	INSTALL_WORD = R_X86_64_64,
	INSTALL_SLOT = R_X86_64_JUMP_SLOT,
	INSTALL_DATA = R_X86_64_GLOB_DAT
};
#elif defined(__aarch64__)
enum {
	INSTALL_WORD = R_AARCH64_ABS64,
	INSTALL_SLOT = R_AARCH64_JUMP_SLOT,
	INSTALL_DATA = R_AARCH64_GLOB_DAT
};
#endif

struct install_object {
	uintptr_t base;
	const ElfW(Sym) * symbols;
	const char *names;
	const ElfW(Rela) * table[2]; /* [0] relocations of data, [1] of calls */
	size_t bytes[2];
	uintptr_t sealed, sealed_end; /* range that the loader made read-only */
};

/* True for libraries whose time stays real: libc's own, the doubles, and a compiler's runtimes. */
static bool install_leaves(const char *path)
{
	static const char *const real[] = {
		"libc.so",    "libc-",     "ld-",       "linux-vdso", "libpthread", "librt.",
		"libm.so",    "libdl.",    "libdoppel", "libnccl",    "libfake",    "libcudart",
		"libibverbs", "librdmacm", "libexpat",  "libxxhash",  "libasan",    "libtsan",
		"libubsan",   "liblsan",   "libgcc_s",  "libclang_rt"};
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < ARRAY_LEN(real); i++)
		if (strncmp(name, real[i], strlen(real[i])) == 0)
			return true;
	return false;
}

/* Returns the address of a table. The loader has already turned most of the offsets into
 * addresses. */
static const void *install_at(const struct install_object *o, uintptr_t value)
{
	return (const void *)(value < o->base ? value + o->base : value);
}

static void install_read(struct install_object *o, const ElfW(Dyn) * d)
{
	for (; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			o->symbols = install_at(o, d->d_un.d_ptr);
			break;
		case DT_STRTAB:
			o->names = install_at(o, d->d_un.d_ptr);
			break;
		case DT_RELA:
			o->table[0] = install_at(o, d->d_un.d_ptr);
			break;
		case DT_RELASZ:
			o->bytes[0] = d->d_un.d_val;
			break;
		case DT_JMPREL:
			o->table[1] = install_at(o, d->d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			o->bytes[1] = d->d_un.d_val;
			break;
		}
	}
}

/* Returns the function that replaces libc's `name`. NULL: libc's stays. */
static void *install_call(const char *name)
{
	if (sim_engine_kind() == SIM_ENGINE_SIM)
		return program_time_call(name);
	return strcmp(name, "pthread_create") == 0 ? program_call(name) : NULL;
}

static void install_word(const struct install_object *o, uintptr_t at, void *call)
{
	uintptr_t page = at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	size_t bytes = at + sizeof call - page;
	bool sealed = at >= o->sealed && at < o->sealed_end;

	if (sealed && mprotect((void *)page, bytes, PROT_READ | PROT_WRITE))
		return; /* the object's time stays real */
	memcpy((void *)at, &call, sizeof call);
	if (sealed)
		(void)mprotect((void *)page, bytes, PROT_READ);
}

static void install_table(const struct install_object *o, const ElfW(Rela) * r, size_t bytes)
{
	for (size_t i = 0; r && i < bytes / sizeof *r; i++) {
		uint32_t type = (uint32_t)ELF64_R_TYPE(r[i].r_info);
		const ElfW(Sym) *s = &o->symbols[ELF64_R_SYM(r[i].r_info)];

		if ((type != INSTALL_WORD && type != INSTALL_SLOT && type != INSTALL_DATA) ||
		    s->st_shndx != SHN_UNDEF)
			continue;
		void *call = install_call(o->names + s->st_name);

		if (call)
			install_word(o, o->base + r[i].r_offset, call);
	}
}

static int install_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct install_object o = {.base = info->dlpi_addr};
	const ElfW(Dyn) *dynamic = NULL;

	(void)bytes, (void)arg;
	if (install_leaves(info->dlpi_name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)(o.base + p->p_vaddr);
		if (p->p_type != PT_GNU_RELRO)
			continue;
		o.sealed = o.base + p->p_vaddr;
		o.sealed_end = o.sealed + p->p_memsz;
	}
	if (dynamic)
		install_read(&o, dynamic);
	for (int i = 0; i < 2 && o.symbols && o.names; i++)
		install_table(&o, o.table[i], o.bytes[i]);
	return 0;
}

void program_install(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	(void)dl_iterate_phdr(install_object, NULL);
	pthread_mutex_unlock(&lock);
}
