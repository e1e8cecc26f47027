/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that clang puts into a host program for its kernels: constructors register images,
 * kernels and variables; <<<>>> pushes a configuration, and the kernel's host function pops it and
 * calls cudaLaunchKernel. Names and layouts are those of clang's code generation.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

#define IMAGE_API __attribute__((visibility("default")))

#define IMAGE_WRAPPER_MAGIC 0x466243b1u

struct image_wrapper {
	uint32_t magic, version;
	const char *text;
	void *unused;
};
DOPPEL_CHECK_SIZE(struct image_wrapper, 24);

IMAGE_API void **__cudaRegisterFatBinary(const void *wrapper);
IMAGE_API void __cudaRegisterFatBinaryEnd(void **handle);
IMAGE_API void __cudaUnregisterFatBinary(void **handle);
IMAGE_API void __doppelRegisterLinked(void **image, void (*globals)(void **), const void *wrapper);
IMAGE_API int __cudaRegisterFunction(void **handle, const void *host, char *device,
				     const char *name, int threads, void *tid, void *bid,
				     void *block, void *grid, int *size);
IMAGE_API void __cudaRegisterVar(void **handle, const void *host, char *device, const char *name,
				 int external, size_t bytes, int constant, int global);
IMAGE_API unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
						   void *stream);
IMAGE_API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
						 void *stream);

static const char *image_unwrap(const struct image_wrapper *w)
{

	if (w->magic != IMAGE_WRAPPER_MAGIC || w->version != 1) {
		fprintf(stderr,
			"fakecuda: an image with magic 0x%x, version %u; expected 0x%x, 1: "
			"programs for this double are compiled by 'doppel cc'\n",
			w->magic, w->version, IMAGE_WRAPPER_MAGIC);
		abort();
	}
	return w->text;
}

/* The handle is the image. */
void **__cudaRegisterFatBinary(const void *wrapper)
{
	return (void **)fc_image_new(image_unwrap(wrapper));
}

/* Objects with relocatable device code that `doppel cc` linked: their texts are one image, and
 * `globals` registers kernels and variables of one of them. *image is NULL for the first. */
void __doppelRegisterLinked(void **image, void (*globals)(void **), const void *wrapper)
{
	const char *text = image_unwrap(wrapper);

	if (!*image) {
		*image = fc_image_new(text);
	} else if (!fc_image_add(*image, text)) {
		fprintf(stderr, "fakecuda: an object registers device code after a kernel of its "
				"image ran; expected all objects before\n");
		abort();
	}
	globals(*image);
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
	fc_image_end((struct fc_image *)handle);
}

int __cudaRegisterFunction(void **handle, const void *host, char *device, const char *name,
			   int threads, void *tid, void *bid, void *block, void *grid, int *size)
{
	(void)device, (void)threads, (void)tid, (void)bid, (void)block, (void)grid, (void)size;
	fc_unit_new((struct fc_image *)handle, name, host);
	return 0;
}

void __cudaRegisterVar(void **handle, const void *host, char *device, const char *name,
		       int external, size_t bytes, int constant, int global)
{
	struct fc_image *image = (struct fc_image *)handle;
	struct fc_symbol *s = calloc(1, sizeof *s);

	(void)device, (void)external, (void)bytes, (void)constant, (void)global;
	ASSERT(s);
	s->host = host;
	s->name = strdup(name);
	ASSERT(s->name);
	s->next = image->symbols;
	image->symbols = s;
}

/* ---- <<<>>> --------------------------------------------------------------------------------- */

/* It belongs to one launch, between the two calls. A task may have several: an argument of a
 * launch may launch a kernel itself. */
struct image_configuration {
	struct image_configuration *next;
	uint32_t task;
	dim3 grid, block;
	size_t shared;
	void *stream;
};
static struct image_configuration *configurations; /* newest first; under fc_lock */

/* A result other than 0 skips the launch. */
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
	struct fc_proc *proc;
	cudaError_t rc = fc_enter_quiet("__cudaPushCallConfiguration", &proc);
	struct image_configuration *c = rc ? NULL : calloc(1, sizeof *c);

	if (rc)
		return (unsigned int)fc_leave(rc);
	ASSERT(c);
	*c = (struct image_configuration){NULL, os_self()->id, grid, block, shared, stream};
	fc_lock();
	c->next = configurations;
	configurations = c;
	fc_unlock();
	return 0;
}

static struct image_configuration *configuration_take(uint32_t task)
{
	struct image_configuration **at = &configurations;

	while (*at && (*at)->task != task)
		at = &(*at)->next;
	struct image_configuration *c = *at;
	if (c)
		*at = c->next;
	return c;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
	fc_lock();
	struct image_configuration *c = configuration_take(os_self()->id);
	fc_unlock();

	if (!c) {
		fc_report("__cudaPopCallConfiguration: a kernel's host function was called without "
			  "<<<>>>");
		return fc_leave(cudaErrorMissingConfiguration);
	}
	*grid = c->grid;
	*block = c->block;
	*shared = c->shared;
	*(void **)stream = c->stream;
	free(c);
	return cudaSuccess;
}
