/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs clang. Each file of CUDA source is compiled twice: its kernels to PTX, and its host code to
 * an object that has this text in it.
 */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/macros.h"
#include "sim/cli/cc/cc.h"
#include "sim/engine/sim.h"

/* ---- running a command ---------------------------------------------------------------------- */

static void clang_show(const struct cc_words *w)
{
	for (uint32_t i = 0; i < w->n; i++)
		fprintf(stderr, "%s%s", i ? " " : "", w->at[i]);
	fprintf(stderr, "\n");
}

static int clang_start(const struct cc_words *w, int into, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	int rc = posix_spawn_file_actions_init(&actions);

	if (rc)
		return rc;
	if (into >= 0)
		rc = posix_spawn_file_actions_adddup2(&actions, into, STDOUT_FILENO);
	if (!rc)
		rc = posix_spawnp(pid, w->at[0], &actions, NULL, (char *const *)(uintptr_t)w->at,
				  environ);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

int cc_run(const struct cc *c, const struct cc_words *w, int into)
{
	pid_t pid;
	int status;

	if (c->show)
		clang_show(w);
	int rc = clang_start(w, into, &pid);
	if (rc) {
		fprintf(stderr, "%s: cannot start %s: %s (apt-get install clang-19)\n", c->name,
			w->at[0], strerror(rc));
		return SIM_USAGE;
	}
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return SIM_USAGE;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : SIM_USAGE;
}

/* Runs the command and frees its words. */
static int clang_finish(const struct cc *c, struct cc_words *w)
{
	int rc = cc_run(c, w, -1);

	free(w->at);
	return rc;
}

/* ---- commands ------------------------------------------------------------------------------- */

static void clang_words(struct cc_words *w, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cc_word(w, words[i]);
}

/* Room for words that are made here. */
struct clang_room {
	char arch[32], cuid[32];
};

/* Both halves of a file give its static variables the same unique names. */
static void clang_cuid(const struct cc *c, const char *file, char out[32])
{
	char path[PATH_MAX];
	uint64_t h = hash64_str(realpath(file, path) ? path : file);

	for (uint32_t i = 0; i < c->option.n; i++)
		h = hash64_seeded(c->option.at[i], strlen(c->option.at[i]), h);
	if (c->output)
		h = hash64_seeded(c->output, strlen(c->output), h);
	snprintf(out, 32, "-cuid=%016llx", (unsigned long long)h);
}

/* Begins the command of one half of a file of CUDA source. */
static void clang_begin(struct cc_words *w, struct clang_room *room, const struct cc *c,
			const char *file, const char *half)
{
	const char *const words[] = {
		CC_CLANG,
		half,
		"-x",
		"cuda",
		"-nocudainc",
		"-nocudalib",
		"-Wno-unknown-cuda-version",
		room->arch,
		room->cuid,
		"-Xclang",
		"-target-sdk-version=12.3",
		"-O2",
		"-include",
		"cuda_runtime.h",
		"-I",
		c->include,
		"-isystem", /* after the folders of -I, which may have NCCL's */
		c->nccl};

	*w = (struct cc_words){0};
	snprintf(room->arch, sizeof room->arch, "--cuda-gpu-arch=%s",
		 *c->arch && !c->newer ? c->arch : "sm_90");
	clang_cuid(c, file, room->cuid);
	clang_words(w, words, ARRAY_LEN(words));
	if (c->relocatable) {
		cc_word(w, "-fgpu-rdc");
		cc_word(w, "-D__CUDACC_RDC__");
	}
	cc_words(w, &c->option);
}

static void clang_begin_host(struct cc_words *w, struct clang_room *room, const struct cc *c,
			     const char *file)
{
	clang_begin(w, room, c, file, "--cuda-host-only");
	cc_words(w, &c->host);
	cc_words(w, &c->depend);
}

/* The runtime reads the text up to a NUL. */
static bool clang_end_text(const struct cc *c, const char *ptx)
{
	FILE *f = fopen(ptx, "a");
	bool ok = f && fputc('\0', f) != EOF;

	if (f && fclose(f))
		ok = false;
	if (!ok)
		fprintf(stderr, "%s: %s: %s\n", c->name, ptx, strerror(errno));
	return ok;
}

/* Loading this text is no error, and its kernels have no code for the GPU. */
static int clang_newer(const struct cc *c, const char *ptx)
{
	FILE *f = fopen(ptx, "w");
	bool ok = f && fprintf(f, ".version 8.5\n.target %s\n.address_size 64\n", c->arch) > 0;

	if (f && fclose(f))
		ok = false;
	if (!ok)
		fprintf(stderr, "%s: %s: %s\n", c->name, ptx, strerror(errno));
	return ok && clang_end_text(c, ptx) ? 0 : SIM_USAGE;
}

int cc_ptx(const struct cc *c, const char *file, const char *ptx)
{
	const char *const words[] = {"-gline-tables-only", "-S", "-o", ptx, file};
	struct clang_room room;
	struct cc_words w;

	if (c->newer)
		return clang_newer(c, ptx);
	clang_begin(&w, &room, c, file, "--cuda-device-only");
	if (c->debug)
		cc_word(&w, "-O0");
	clang_words(&w, words, ARRAY_LEN(words));
	int rc = clang_finish(c, &w);
	return rc || clang_end_text(c, ptx) ? rc : SIM_USAGE;
}

static int clang_cuda(const struct cc *c, const char *file, const char *object)
{
	char ptx[PATH_MAX];
	struct clang_room room;
	struct cc_words w;
	int n = snprintf(ptx, sizeof ptx, "%s/kernels.ptx", c->folder);

	ASSERT(n > 0 && n < PATH_MAX);
	int rc = cc_ptx(c, file, ptx);
	if (!rc) {
		const char *const words[] = {
			"-Xclang", "-fcuda-include-gpubinary", "-Xclang", ptx, "-c", "-o", object,
			file};
		clang_begin_host(&w, &room, c, file);
		clang_words(&w, words, ARRAY_LEN(words));
		rc = clang_finish(c, &w);
	}
	if (!rc)
		rc = cc_name_kernels(c, object);
	unlink(ptx);
	return rc;
}

static int clang_host(const struct cc *c, const char *file, const char *object)
{
	const char *const words[] = {CC_CLANG, "-I", c->include, "-isystem",
				     c->nccl,  "-c", "-o",       object};
	struct cc_words w = {0};

	clang_words(&w, words, ARRAY_LEN(words));
	cc_words(&w, &c->option);
	cc_words(&w, &c->host);
	cc_words(&w, &c->depend);
	if (c->language) {
		cc_word(&w, "-x");
		cc_word(&w, c->language);
	}
	cc_word(&w, file);
	return clang_finish(c, &w);
}

int cc_compile(const struct cc *c, enum cc_kind kind, const char *file, const char *object)
{
	return kind == CC_CUDA ? clang_cuda(c, file, object) : clang_host(c, file, object);
}

int cc_print(const struct cc *c, const char *file)
{
	struct clang_room room;
	struct cc_words w;

	clang_begin_host(&w, &room, c, file);
	cc_word(&w, c->step == CC_STEP_DEPENDS ? "-M" : "-E");
	if (c->output) {
		cc_word(&w, "-o");
		cc_word(&w, c->output);
	}
	cc_word(&w, file);
	return clang_finish(c, &w);
}
