/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/engine/base/symbol.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/engine/base/state.h"

struct symbol_search {
	uintptr_t pc;
	char *name;
	size_t bytes, offset;
	bool found;
};

/* Searches one symbol table of a mapped file. */
static bool symbol_in_table(struct symbol_search *s, const uint8_t *file, size_t size,
			    const Elf64_Shdr *table, const Elf64_Shdr *strings, uintptr_t address)
{
	const Elf64_Sym *sym = (const void *)(file + table->sh_offset);
	size_t n = table->sh_size / sizeof *sym;

	if (table->sh_offset + table->sh_size > size ||
	    strings->sh_offset + strings->sh_size > size)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (ELF64_ST_TYPE(sym[i].st_info) != STT_FUNC ||
		    address - sym[i].st_value >= sym[i].st_size ||
		    sym[i].st_name >= strings->sh_size)
			continue;
		snprintf(s->name, s->bytes, "%s",
			 (const char *)file + strings->sh_offset + sym[i].st_name);
		s->offset = address - sym[i].st_value;
		return true;
	}
	return false;
}

static bool symbol_in_file(struct symbol_search *s, const char *path, uintptr_t address)
{
	struct stat st;
	bool found = false;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (fstat(fd, &st) || (size_t)st.st_size < sizeof(Elf64_Ehdr))
		goto out_close;
	size_t size = (size_t)st.st_size;
	const uint8_t *file = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED)
		goto out_close;
	const Elf64_Ehdr *e = (const void *)file;
	const Elf64_Shdr *sh = (const void *)(file + e->e_shoff);
	if (e->e_shoff + e->e_shnum * sizeof *sh <= size) {
		/* the full table first, then the dynamic linker's */
		static const uint32_t type[] = {SHT_SYMTAB, SHT_DYNSYM};

		for (size_t k = 0; k < ARRAY_LEN(type) && !found; k++)
			for (uint32_t i = 0; i < e->e_shnum && !found; i++)
				if (sh[i].sh_type == type[k] && sh[i].sh_link < e->e_shnum)
					found = symbol_in_table(s, file, size, &sh[i],
								&sh[sh[i].sh_link], address);
	}
	munmap((void *)(uintptr_t)file, size);
out_close:
	close(fd);
	return found;
}

static int symbol_in_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct symbol_search *s = arg;
	const char *path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";

	(void)bytes;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD || s->pc - (info->dlpi_addr + ph->p_vaddr) >= ph->p_memsz)
			continue;
		s->found = symbol_in_file(s, path, s->pc - info->dlpi_addr);
		return 1;
	}
	return 0;
}

bool symbol_find(const void *pc, char *name, size_t bytes, size_t *offset)
{
	struct symbol_search s = {.pc = (uintptr_t)pc, .name = name, .bytes = bytes};

	snprintf(name, bytes, "?");
	dl_iterate_phdr(symbol_in_object, &s);
	*offset = s.offset;
	return s.found;
}

__attribute__((noinline, no_sanitize("address", "thread"))) int
symbol_frames(uintptr_t top, const void **frame, int most)
{
	const uintptr_t *fp = __builtin_frame_address(0);
	int n = 0;

	while (n < most && fp[1]) {
		uintptr_t next = fp[0];

		frame[n++] = (const void *)fp[1];
		if (next <= (uintptr_t)fp || next % sizeof(void *) || next + 16 > top)
			break;
		fp = (const uintptr_t *)next;
	}
	return n;
}

void sim_call_site(const void *caller, char *out, size_t bytes)
{
	char name[64];
	size_t at = 0;

	if (caller && symbol_find((const char *)caller - 1, name, sizeof name, &at))
		snprintf(out, bytes, "%s+0x%zx", name, at + 1);
	else
		snprintf(out, bytes, "?");
}
