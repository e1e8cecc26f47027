/* SPDX-License-Identifier: BSD-3-Clause */
/* The variables of images in contexts, and the host program's names of them. */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

#define INSTANCE_ALIGN 256ull

/* ---- one allocation for all variables ------------------------------------------------------- */

/* Stores the offset of each variable. Returns the bytes of all. */
static uint64_t instance_layout(const struct ptx_module *m, uint64_t *at)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < m->variables; i++) {
		const struct ptx_variable *v = &m->variable[i];
		if (v->space == PTX_SHARED || v->external)
			continue;
		bytes = ALIGN_UP(bytes, MAX_OF(INSTANCE_ALIGN, (uint64_t)v->align));
		at[v->at] = bytes;
		bytes += v->bytes;
	}
	return bytes;
}

/* The value of a symbol in an initial value. False: it is not one of this module. */
static bool instance_symbol(const struct ptx_module *m, const struct fc_instance *in,
			    struct ptx_text name, uint32_t from, uint64_t *value)
{
	const struct ptx_variable *v = ptx_variable_find(m, name, from);
	const struct ptx_func *f = ptx_func_find(m, name, from);

	if (v && v->space != PTX_SHARED && !v->external)
		*value = in->address[v->at];
	else if (f && !f->external)
		*value = (uint64_t)(f - m->func) + 1;
	else
		return false;
	return true;
}

static cudaError_t instance_fill(const struct ptx_module *m, const struct fc_instance *in)
{
	for (uint32_t i = 0; i < m->variables; i++) {
		const struct ptx_variable *v = &m->variable[i];
		if (v->space == PTX_SHARED || !v->init)
			continue;
		uint8_t *to = fc_alias(in->address[v->at]);
		memcpy(to, v->init, v->bytes);
		for (uint32_t k = 0; k < v->pointer_count; k++) {
			const struct ptx_pointer *p = &v->pointers[k];
			uint64_t value;
			if (!instance_symbol(m, in, p->symbol, v->text, &value)) {
				fc_report("variable %.*s points to %.*s, which is not in its image",
					  (int)v->name.bytes, v->name.at, (int)p->symbol.bytes,
					  p->symbol.at);
				return cudaErrorInvalidSymbol;
			}
			value += p->offset;
			memcpy(to + p->at, &value, sizeof value);
		}
	}
	return cudaSuccess;
}

static cudaError_t instance_make(struct fc_image *image, struct fc_ctx *ctx, struct fc_instance *in)
{
	const struct ptx_module *m = &image->module;

	in->address = calloc(m->globals + 1, sizeof *in->address);
	ASSERT(in->address);
	uint64_t bytes = instance_layout(m, in->address);
	if (!bytes)
		return cudaSuccess;
	cudaError_t rc = fc_alloc_new(ctx, bytes, &in->base);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < m->globals; i++)
		in->address[i] += in->base;
	memset(fc_alias(in->base), 0, bytes);
	fc_shadow_write(in->base, bytes);
	fc_va_wrote(in->base, bytes);
	return instance_fill(m, in);
}

static void instance_free(struct fc_instance *in)
{
	free(in->address);
	free(in);
}

cudaError_t fc_instance_get(struct fc_image *image, struct fc_ctx *ctx, struct fc_instance **out)
{
	*out = NULL;
	for (struct fc_instance *in = image->instances; in; in = in->next) {
		if (in->ctx == ctx)
			*out = in;
	}
	if (*out)
		return cudaSuccess;
	struct fc_instance *in = calloc(1, sizeof *in);
	ASSERT(in);
	in->ctx = ctx;
	cudaError_t rc = instance_make(image, ctx, in);
	if (rc) {
		struct fc_alloc *a = in->base ? fc_alloc_find(ctx->dev, in->base) : NULL;
		if (a)
			fc_alloc_free(ctx->dev, a);
		instance_free(in);
		return rc;
	}
	in->next = image->instances;
	image->instances = in;
	*out = in;
	return cudaSuccess;
}

void fc_instances_ctx_gone(const struct fc_ctx *ctx)
{
	for (struct fc_image *i = fc_images_first(); i; i = i->next) {
		struct fc_instance **at = &i->instances;
		while (*at) {
			struct fc_instance *in = *at;
			if (in->ctx != ctx) {
				at = &in->next;
				continue;
			}
			*at = in->next;
			instance_free(in);
		}
	}
}

bool fc_instance_is(const struct fc_alloc *a)
{
	for (struct fc_image *i = fc_images_first(); i; i = i->next) {
		for (const struct fc_instance *in = i->instances; in; in = in->next) {
			if (in->base == a->base)
				return true;
		}
	}
	return false;
}

/* ---- names ---------------------------------------------------------------------------------- */

cudaError_t fc_instance_variable(struct fc_image *image, struct fc_ctx *ctx, const char *name,
				 uint64_t *address, uint64_t *bytes)
{
	const struct ptx_text text = {name, (uint32_t)strlen(name)};
	const struct ptx_variable *v = ptx_variable_find(&image->module, text, PTX_ANY_TEXT);
	struct fc_instance *in;

	*address = *bytes = 0;
	if (!v || v->space == PTX_SHARED || v->external)
		return cudaErrorInvalidSymbol;
	cudaError_t rc = fc_instance_get(image, ctx, &in);
	if (rc)
		return rc;
	*address = in->address[v->at];
	*bytes = v->bytes;
	return cudaSuccess;
}

struct fc_image *fc_symbol_find(const void *host, const char **name)
{
	*name = NULL;
	for (struct fc_image *i = fc_images_first(); host && i; i = i->next) {
		for (struct fc_symbol *s = i->symbols; s; s = s->next) {
			if (s->host == host) {
				*name = s->name;
				return i;
			}
		}
	}
	return NULL;
}
