/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images: PTX texts that a program registers or loads, with their kernels and variables.
 * fakecuda.h includes this file last.
 *
 *    fc_image      texts; parsed at the first use of anything in it
 *    fc_unit       a kernel of an image, as fc_func.unit; translated and built at its first launch
 *    fc_instance   the variables of an image in a context: one allocation on the GPU
 *
 * Registration happens in constructors, before a world exists, so images belong to the real
 * process. Instances belong to contexts. Callers do not hold fc_lock, except where noted.
 */
#ifndef BACKENDS_FAKECUDA_IMAGE_H
#define BACKENDS_FAKECUDA_IMAGE_H

#include "backends/fakecuda/ptx/compile.h"
#include "backends/fakecuda/ptx/model.h"

/* A kernel that can be launched. */
struct fc_func {
	const struct dev_kernel *kernel;
	void (*entry)(struct dev *d, const void *args);
	int width;
	int opted_shared;     /* dynamic shared memory that the program permits; 0: the default */
	struct fc_unit *unit; /* NULL: a kernel of this build */
};

struct fc_instance {
	struct fc_instance *next;
	const struct fc_ctx *ctx;
	uint64_t base;     /* 0: the image has no variables */
	uint64_t *address; /* of each variable */
};

/* A variable of the host program that stands for one of the image. */
struct fc_symbol {
	struct fc_symbol *next;
	const void *host;
	char *name;
};

struct fc_image_text {
	struct fc_image_text *next;
	const char *text; /* the program's */
	char *owned;      /* a copy; NULL: not parsed yet */
};

struct fc_image {
	struct fc_image *next;
	struct fc_image_text *texts; /* several if objects were linked, in the order of linking */
	bool parsed, valid;
	bool loaded; /* by cuModuleLoadData or cuLibraryLoadData */
	bool gone;   /* unregistered; its units may be in use */
	struct ptx_module module;
	struct fc_unit *units;
	struct fc_symbol *symbols;
	struct fc_instance *instances;
};

struct fc_unit {
	struct fc_unit *next;
	struct fc_image *image;
	struct fc_func *func;
	char *name; /* as in the PTX text */
	char plain[128];
	const struct ptx_func *ptx; /* NULL: not known yet */
	struct ptx_code code;       /* entry NULL: not translated yet */
	size_t stack_bytes;         /* of a lane's fiber; 0: the engine's default */
	struct dev_kernel kernel;   /* fc_func.kernel points here */
};

/* image.c. True if the program has kernels from PTX: the world's warps are 32 wide then. */
bool fc_images_any(void);
struct fc_image *fc_images_first(void);
struct fc_image *fc_image_new(const char *text);
/* Adds the text of another object that was linked. False: the image is in use. */
bool fc_image_add(struct fc_image *image, const char *text);
void fc_image_end(struct fc_image *image);
/* Parses the image's text, once. Reports an error. */
cudaError_t fc_image_parse(struct fc_image *image, const char *call);
/* Returns the kernel whose host function, or whose handle, this is; NULL: no such kernel. */
struct fc_func *fc_unit_find(const void *func);
struct fc_unit *fc_unit_new(struct fc_image *image, const char *name, const void *func);
/* Finds the kernel in its image, with its sizes; does not translate it. Reports an error. */
cudaError_t fc_unit_known(struct fc_unit *u, const char *call);
/* Translates and builds the kernel, once. Reports an error. */
cudaError_t fc_unit_ready(struct fc_unit *u, const char *call);
/* Copies a launch's parameters into `room`. Reports an error. */
enum { FC_ARGS_MOST = 4096 };
cudaError_t fc_unit_pack(const struct fc_unit *u, void **params, void **extra,
			 uint8_t room[FC_ARGS_MOST], const char *call);

/* image_text.c. The text ends before a NUL or another character that no PTX has, before the next
 * text that is registered, or with the memory. */
size_t fc_image_text_bytes(const char *text);

/* instance.c. The variables of the image in the context; made at the first use. The caller holds
 * fc_lock. */
cudaError_t fc_instance_get(struct fc_image *image, struct fc_ctx *ctx, struct fc_instance **out);
/* Forgets the instances of a context; its caller frees all memory of the context. The caller holds
 * fc_lock. */
void fc_instances_ctx_gone(const struct fc_ctx *ctx);
/* True if the allocation is that of an instance, which no program frees. */
bool fc_instance_is(const struct fc_alloc *a);
/* Finds the variable, with its address in the context. The caller holds fc_lock. */
cudaError_t fc_instance_variable(struct fc_image *image, struct fc_ctx *ctx, const char *name,
				 uint64_t *address, uint64_t *bytes);
/* Finds the image and the name of a host program's variable. NULL: not one. */
struct fc_image *fc_symbol_find(const void *host, const char **name);

#endif
