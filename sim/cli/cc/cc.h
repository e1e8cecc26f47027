/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compiling CUDA source for the GPU double. Two command lines fill in a struct cc: `doppel cc` has
 * the options of clang (cc.c), `doppel nvcc` those of nvcc (nvcc.c). cc_all does the work:
 * cc_clang.c compiles files, cc_link.c links. Functions return an exit status; 0: it worked.
 */
#ifndef SIM_CLI_CC_CC_H
#define SIM_CLI_CC_CC_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define CC_CLANG "clang++-19"

/* A list of words; its room doubles. */
struct cc_words {
	const char **at;
	uint32_t n;
};

enum cc_kind {
	CC_CUDA, /* a file of CUDA source */
	CC_HOST, /* a file of host code */
	CC_LINK, /* a word for the linker: an object, -l, -L, -Wl, */
};

struct cc_item {
	enum cc_kind kind;
	const char *word;
};

enum cc_step {
	CC_STEP_LINK,        /* compile and link */
	CC_STEP_COMPILE,     /* -c */
	CC_STEP_DEVICE_LINK, /* -dlink: the object that registers relocatable device code */
	CC_STEP_PTX,         /* the text of the kernels */
	CC_STEP_PREPROCESS,
	CC_STEP_DEPENDS, /* -M: a rule of make */
};

struct cc {
	const char *name; /* of the command, in messages */
	enum cc_step step;
	struct cc_words option; /* for both halves of a file of CUDA source */
	struct cc_words host;   /* for host code, and for linking it */
	struct cc_words depend; /* -MD and others, for compiling host code */
	const char *language;   /* of all files of host code; NULL: by their names */
	struct cc_item *item;   /* in their order */
	uint32_t items;
	const char *output;
	bool relocatable; /* device code refers to other files */
	bool debug;       /* device code is not optimized */
	bool show;        /* print commands */
	char arch[16];    /* sm_90; "": the default */
	bool newer;       /* the code is for newer GPUs only: its text has no kernels */
	char include[PATH_MAX], nccl[PATH_MAX], library[PATH_MAX]; /* folders */
	char folder[64];                                           /* of temporary files */
};

/* cc.c */
void cc_word(struct cc_words *w, const char *word);
void cc_words(struct cc_words *w, const struct cc_words *more);
void cc_add(struct cc *c, enum cc_kind kind, const char *word);
bool cc_ends(const char *word, const char *end);
void cc_free(struct cc *c);
/* Does what the step and the items require. Frees the lists. */
int cc_all(struct cc *c);

/* cc_clang.c. Runs a command; `into` takes its output, if it is not -1. */
int cc_run(const struct cc *c, const struct cc_words *w, int into);
int cc_compile(const struct cc *c, enum cc_kind kind, const char *file, const char *object);
int cc_print(const struct cc *c, const char *file); /* preprocess, depends */
int cc_ptx(const struct cc *c, const char *file, const char *ptx);

/* cc_symbols.c. Opens a temporary file; NULL: an error, which is printed. */
FILE *cc_temporary(const struct cc *c, const char *name, char path[PATH_MAX]);
/* Lists the undefined (-u) or external (-g) symbols of objects, and reads one from the list. */
int cc_symbols(const struct cc *c, const char *which, const struct cc_words *objects, FILE *into);
bool cc_symbol(FILE *symbols, char *line, int bytes);
int cc_name_kernels(const struct cc *c, const char *object);

/* cc_link.c. Writes the object that registers the relocatable device code of the objects. *any:
 * there is some. */
int cc_device_link(const struct cc *c, const struct cc_words *objects, const char *out, bool *any);
int cc_link(const struct cc *c, const struct cc_words *objects);

#endif
