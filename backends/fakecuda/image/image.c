/* SPDX-License-Identifier: BSD-3-Clause */
/* Images and their kernels: registered, parsed, translated, built. */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

#include "backends/fakecuda/ptx/emit.h"
#include "backends/fakecuda/ptx/parse.h"

enum {
	IMAGE_SM = 90,              /* the newest GPU whose code is translated */
	IMAGE_STACK = 64 << 10,     /* of the default stack: the part for the kernel's functions */
	IMAGE_STACK_MOST = 8 << 20, /* a stack that overflows is reported */
};

static struct fc_image *images; /* newest first */

/* Host threads that launch one kernel at the same time: one builds, the others wait. */
static struct os_mutex image_mutex;

bool fc_images_any(void)
{
	return images != NULL;
}

struct fc_image *fc_images_first(void)
{
	return images;
}

/* ---- images --------------------------------------------------------------------------------- */

/* The text is the program's. fc_image_parse copies it, because the model points into it. */
bool fc_image_add(struct fc_image *image, const char *text)
{
	struct fc_image_text *t = calloc(1, sizeof *t), **end = &image->texts;

	ASSERT(t);
	t->text = text;
	while (*end)
		end = &(*end)->next;
	*end = t;
	return !image->parsed;
}

struct fc_image *fc_image_new(const char *text)
{
	struct fc_image *image = calloc(1, sizeof *image);

	ASSERT(image);
	fc_image_add(image, text);
	image->next = images;
	images = image;
	return image;
}

/* Streams may still have kernels of the image, so only its names go. */
void fc_image_end(struct fc_image *image)
{
	image->gone = true;
	for (struct fc_unit *u = image->units; u; u = u->next)
		u->kernel.func = NULL;
	for (struct fc_symbol *s = image->symbols; s; s = s->next)
		s->host = NULL;
}

/* Returns why a text cannot be translated; NULL: it begins as PTX does. */
static const char *image_refused(const char *text)
{
	static const char fatbin[] = "\x50\xed\x55\xba", packed[] = "\x50\x4c\x50\x49";
	const char *road = "an image of machine code; this double translates PTX that clang makes "
			   "from source: doppel cc FILE.cu -o PROGRAM";

	if (!strncmp(text, "\177ELF", 4) || !strncmp(text, fatbin, 4) || !strncmp(text, packed, 4))
		return road;
	return NULL;
}

static bool image_parse_texts(struct fc_image *image)
{
	bool ok = true;

	for (struct fc_image_text *t = image->texts; t && ok; t = t->next) {
		t->owned = strndup(t->text, fc_image_text_bytes(t->text));
		ASSERT(t->owned);
		ok = ptx_parse_more(&image->module, t->owned, strlen(t->owned));
	}
	return ok && ptx_module_check(&image->module);
}

cudaError_t fc_image_parse(struct fc_image *image, const char *call)
{
	bool again = image->parsed;

	for (const struct fc_image_text *t = image->texts; t && !again; t = t->next) {
		const char *why = image_refused(t->text);
		if (why) {
			fc_report("%s: %s", call, why);
			return cudaErrorNoKernelImageForDevice;
		}
	}
	os_mutex_lock(&image_mutex);
	bool first = !image->parsed;
	if (first)
		image->valid = image_parse_texts(image);
	image->parsed = true;
	os_mutex_unlock(&image_mutex);
	if (first && !image->valid)
		fc_report("%s: PTX: %s", call, image->module.error);
	return image->valid ? cudaSuccess : cudaErrorInvalidPtx;
}

/* ---- kernels -------------------------------------------------------------------------------- */

struct fc_unit *fc_unit_new(struct fc_image *image, const char *name, const void *func)
{
	struct fc_unit *u = calloc(1, sizeof *u);
	struct fc_func *f = calloc(1, sizeof *f);

	ASSERT(u && f);
	u->image = image;
	u->func = f;
	u->name = strdup(name);
	ASSERT(u->name);
	ptx_plain_name((struct ptx_text){u->name, (uint32_t)strlen(u->name)}, u->plain,
		       sizeof u->plain);
	u->kernel = (struct dev_kernel){.func = func ? func : u, .name = u->plain};
	*f = (struct fc_func){.kernel = &u->kernel, .entry = fc_lane_run, .width = 32, .unit = u};
	u->next = image->units;
	image->units = u;
	return u;
}

struct fc_func *fc_unit_find(const void *func)
{
	for (struct fc_image *i = images; func && i; i = i->next) {
		for (struct fc_unit *u = i->units; u; u = u->next) {
			if (u->kernel.func == func)
				return u->func;
		}
	}
	return NULL;
}

static cudaError_t unit_build(struct fc_unit *u, const char *call)
{
	char error[PTX_BUILD_ERROR_BYTES];
	char *c = ptx_emit(&u->image->module, u->ptx, error);

	if (!c) {
		fc_report("%s: kernel %s: PTX: %s", call, u->plain, error);
		return cudaErrorInvalidPtx;
	}
	bool built = ptx_build(c, u->plain, &u->code, error);
	free(c);
	if (!built) {
		fc_report("%s: kernel %s: %s", call, u->plain, error);
		return cudaErrorJitCompilerNotFound;
	}
	ASSERT(u->code.static_shared == u->kernel.shared_bytes);
	return cudaSuccess;
}

/* Stacks are reused: powers of two make few sizes. */
static size_t unit_stack_bytes(const struct ptx_module *m, const struct ptx_func *ptx)
{
	uint64_t need = ptx_stack_bytes(m, ptx), bytes = 4 * IMAGE_STACK;

	if (need <= IMAGE_STACK)
		return 0;
	while (bytes < need + IMAGE_STACK && bytes < IMAGE_STACK_MOST)
		bytes *= 2;
	return bytes;
}

cudaError_t fc_unit_known(struct fc_unit *u, const char *call)
{
	cudaError_t rc = u->ptx ? cudaSuccess : fc_image_parse(u->image, call);

	if (rc || u->ptx)
		return rc;
	const struct ptx_text name = {u->name, (uint32_t)strlen(u->name)};
	const struct ptx_func *ptx = ptx_func_find(&u->image->module, name, PTX_ANY_TEXT);
	if (!ptx && u->image->module.target_number > IMAGE_SM) {
		const struct ptx_text t = u->image->module.target;
		fc_report("%s: kernel %s: code for %.*s; expected code up to sm_%d", call, u->plain,
			  (int)t.bytes, t.at, IMAGE_SM);
		return cudaErrorNoKernelImageForDevice;
	}
	if (!ptx || !ptx->entry || ptx->external) {
		fc_report("%s: kernel %s is not in its image", call, u->plain);
		return cudaErrorInvalidDeviceFunction;
	}
	os_mutex_lock(&image_mutex);
	u->kernel.arg_bytes = ptx->param_bytes;
	u->kernel.shared_bytes = ptx_shared_bytes(&u->image->module, ptx);
	u->stack_bytes = unit_stack_bytes(&u->image->module, ptx);
	u->ptx = ptx;
	os_mutex_unlock(&image_mutex);
	return cudaSuccess;
}

cudaError_t fc_unit_ready(struct fc_unit *u, const char *call)
{
	cudaError_t rc = fc_unit_known(u, call);

	if (rc || u->code.entry)
		return rc;
	os_mutex_lock(&image_mutex);
	rc = u->code.entry ? cudaSuccess : unit_build(u, call);
	os_mutex_unlock(&image_mutex);
	return rc;
}

/* ---- parameters ----------------------------------------------------------------------------- */

enum { UNIT_NO_PARAMETER = 0xa5 }; /* bytes of parameters that the buffer does not have */

/* extra: 1, buffer, 2, pointer to its size, 0 (CU_LAUNCH_PARAM_*). A buffer may be shorter than the
 * parameters, as NCCL's is: a kernel does not read the rest. */
static cudaError_t unit_pack_buffer(const struct fc_unit *u, void **extra, uint8_t *room,
				    const char *call)
{
	const void *buffer = NULL;
	size_t bytes = 0;

	for (; *extra && ((uintptr_t)*extra == 1 || (uintptr_t)*extra == 2); extra += 2) {
		if ((uintptr_t)*extra == 1)
			buffer = extra[1];
		else
			bytes = *(const size_t *)extra[1];
	}
	if (*extra || !buffer || !bytes) {
		fc_report("%s: kernel %s: no buffer in `extra`; expected one for %u bytes", call,
			  u->plain, u->ptx->param_bytes);
		return cudaErrorInvalidValue;
	}
	memset(room, UNIT_NO_PARAMETER, u->ptx->param_bytes);
	memcpy(room, buffer, MIN_OF(bytes, (size_t)u->ptx->param_bytes));
	return cudaSuccess;
}

cudaError_t fc_unit_pack(const struct fc_unit *u, void **params, void **extra,
			 uint8_t room[FC_ARGS_MOST], const char *call)
{
	const struct ptx_func *ptx = u->ptx;

	if (ptx->param_bytes > FC_ARGS_MOST || (params && extra)) {
		fc_report("%s: kernel %s: more than %d bytes of parameters, or parameters twice",
			  call, u->plain, FC_ARGS_MOST);
		return cudaErrorInvalidValue;
	}
	if (extra)
		return unit_pack_buffer(u, extra, room, call);
	for (uint32_t i = 0; i < ptx->params; i++) {
		if (!params || !params[i]) {
			fc_report("%s: kernel %s: parameter %u of %u is missing", call, u->plain, i,
				  ptx->params);
			return cudaErrorInvalidValue;
		}
		memcpy(room + ptx->param[i].at, params[i], ptx->param[i].bytes);
	}
	return cudaSuccess;
}
