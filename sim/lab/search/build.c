/* SPDX-License-Identifier: BSD-3-Clause */
/* Identifies the code that runs: the linker's build ids of the program and of Doppel's libraries.
 * They change with every change of code that is compiled in, committed or not. */
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "sim/lab/search/scenario.h"

extern const char lab_commit[64]; /* a generated file: cmake/commit.sh */

static bool build_is_ours(const char *path)
{
	static const char *const ours[] = {"libdoppel", "libfakecuda", "libfakeverbs"};
	const char *name = strrchr(path, '/');

	if (!path[0]) /* the program itself */
		return true;
	name = name ? name + 1 : path;
	for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
		if (strncmp(name, ours[i], strlen(ours[i])) == 0)
			return true;
	return false;
}

static const uint8_t *build_note_find(const uint8_t *at, size_t bytes, size_t *id_bytes)
{
	while (bytes >= sizeof(ElfW(Nhdr))) {
		ElfW(Nhdr) n;

		memcpy(&n, at, sizeof n);
		size_t name = (n.n_namesz + 3u) & ~3u, desc = (n.n_descsz + 3u) & ~3u;
		if (bytes < sizeof n + name + desc)
			return NULL;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 &&
		    memcmp(at + sizeof n, "GNU", 4) == 0) {
			*id_bytes = n.n_descsz;
			return at + sizeof n + name;
		}
		at += sizeof n + name + desc;
		bytes -= sizeof n + name + desc;
	}
	return NULL;
}

/* A sum, so that the order in which the loader lists them does not matter. */
static int build_add(struct dl_phdr_info *info, size_t size, void *arg)
{
	uint64_t *sum = arg;

	(void)size;
	if (!build_is_ours(info->dlpi_name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		size_t n = 0;

		if (p->p_type != PT_NOTE)
			continue;
		const uint8_t *id = build_note_find((const uint8_t *)(info->dlpi_addr + p->p_vaddr),
						    p->p_memsz, &n);
		if (id) {
			*sum += XXH3_64bits(id, n);
			return 0;
		}
	}
	return 0;
}

const char *build_id(void)
{
	static char id[20];
	uint64_t sum = 0;

	if (!id[0]) {
		dl_iterate_phdr(build_add, &sum);
		snprintf(id, sizeof id, "%016" PRIx64, sum);
	}
	return id;
}

const char *build_commit(void)
{
	return lab_commit;
}
