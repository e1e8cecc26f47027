/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver's modules and libraries. Both are images: a CUmodule or a CUlibrary is a struct
 * fc_image, a CUfunction or a CUkernel is a struct fc_unit. A kernel is translated at its first
 * launch.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

/* Driver calls do not set the thread's last error. */
static CUresult module_leave(cudaError_t rc)
{
	sim_events_drain();
	return (CUresult)rc;
}

/* Returns the image of a handle; NULL: not one that is loaded. */
static struct fc_image *module_find(const void *handle, const char *call)
{
	for (struct fc_image *i = fc_images_first(); i; i = i->next) {
		if (i == handle && i->loaded && !i->gone)
			return i;
	}
	fc_report("%s: %p is not a module or library that is loaded", call, handle);
	return NULL;
}

static cudaError_t module_load(const char *call, const void *image, struct fc_image **out)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(call, &ctx);

	*out = NULL;
	if (!rc && !image)
		rc = cudaErrorInvalidValue;
	if (rc)
		return rc;
	struct fc_image *i = fc_image_new(image);
	rc = fc_image_parse(i, call);
	if (rc) {
		i->gone = true;
		return rc;
	}
	i->loaded = true;
	*out = i;
	return cudaSuccess;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	struct fc_image *i;
	cudaError_t rc = module_load("cuModuleLoadData", module ? image : NULL, &i);

	if (!rc)
		*module = (CUmodule)i;
	return module_leave(rc);
}

/* Options are hints for a compiler that is not used here. */
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
			    CUjit_option *options, void **optionValues)
{
	(void)numOptions, (void)options, (void)optionValues;
	return cuModuleLoadData(module, image);
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
			   void **jitOptionsValues, unsigned int numJitOptions,
			   CUlibraryOption *libraryOptions, void **libraryOptionValues,
			   unsigned int numLibraryOptions)
{
	struct fc_image *i;
	cudaError_t rc = module_load("cuLibraryLoadData", library ? code : NULL, &i);

	(void)jitOptions, (void)jitOptionsValues, (void)numJitOptions;
	(void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
	if (!rc)
		*library = (CUlibrary)i;
	return module_leave(rc);
}

static CUresult module_unload(const char *call, const void *handle)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(call, &ctx);
	struct fc_image *i = rc ? NULL : module_find(handle, call);

	if (i)
		fc_image_end(i);
	return module_leave(rc ? rc : i ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

CUresult cuModuleUnload(CUmodule hmod)
{
	return module_unload("cuModuleUnload", hmod);
}

CUresult cuLibraryUnload(CUlibrary library)
{
	return module_unload("cuLibraryUnload", library);
}

/* ---- kernels -------------------------------------------------------------------------------- */

static struct fc_unit *module_unit(struct fc_image *i, const char *name)
{
	const struct ptx_text text = {name, (uint32_t)strlen(name)};
	const struct ptx_func *f = ptx_func_find(&i->module, text, PTX_ANY_TEXT);

	for (struct fc_unit *u = i->units; u; u = u->next) {
		if (!strcmp(u->name, name))
			return u;
	}
	return f && f->entry && !f->external ? fc_unit_new(i, name, NULL) : NULL;
}

static cudaError_t module_kernel(const char *call, const void *handle, const char *name,
				 struct fc_unit **out)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(call, &ctx);

	*out = NULL;
	if (!rc && !name)
		rc = cudaErrorInvalidValue;
	struct fc_image *i = rc ? NULL : module_find(handle, call);
	if (!i)
		return rc ? rc : cudaErrorInvalidResourceHandle;
	*out = module_unit(i, name);
	if (!*out)
		fc_report("%s: the image has no kernel %s", call, name);
	return *out ? cudaSuccess : cudaErrorSymbolNotFound;
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	struct fc_unit *u;
	cudaError_t rc = module_kernel("cuModuleGetFunction", hmod, hfunc ? name : NULL, &u);

	if (!rc)
		*hfunc = (CUfunction)u;
	return module_leave(rc);
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	struct fc_unit *u;
	cudaError_t rc = module_kernel("cuLibraryGetKernel", library, pKernel ? name : NULL, &u);

	if (!rc)
		*pKernel = (CUkernel)u;
	return module_leave(rc);
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cuKernelGetFunction", &ctx);

	if (!rc && !pFunc)
		rc = cudaErrorInvalidValue;
	if (!rc && !fc_unit_find(kernel))
		rc = cudaErrorInvalidResourceHandle;
	if (!rc)
		*pFunc = (CUfunction)kernel;
	return module_leave(rc);
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	struct fc_ctx *ctx;
	struct fc_func *f = NULL;
	cudaError_t rc = fc_enter_ctx("cuFuncGetAttribute", &ctx);

	if (!rc && !pi)
		rc = cudaErrorInvalidValue;
	if (!rc)
		rc = fc_func_get(hfunc, "cuFuncGetAttribute", &f);
	if (rc)
		return module_leave(rc);
	switch (attrib) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*pi = LAUNCH_MAX_THREADS;
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*pi = (int)fc_func_static_shared(f);
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*pi = fc_func_dynamic_most(f);
		break;
	default:
		fc_report("cuFuncGetAttribute: attribute %d is not implemented", (int)attrib);
		rc = cudaErrorInvalidValue;
	}
	return module_leave(rc);
}

/* The numbers of these attributes are the runtime's. */
CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	cudaError_t before = fc_task_error();
	cudaError_t rc = cudaFuncSetAttribute(hfunc, (enum cudaFuncAttribute)attrib, value);

	fc_task_set_error(before);
	return (CUresult)rc;
}

/* ---- variables ------------------------------------------------------------------------------ */

static CUresult module_global(const char *call, const void *handle, const char *name,
			      CUdeviceptr *dptr, size_t *bytes)
{
	struct fc_ctx *ctx;
	uint64_t address, size;
	cudaError_t rc = fc_enter_ctx(call, &ctx);
	struct fc_image *i = rc || !name ? NULL : module_find(handle, call);

	if (!rc && !i)
		rc = name ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
	if (rc)
		return module_leave(rc);
	fc_lock();
	rc = fc_instance_variable(i, ctx, name, &address, &size);
	fc_unlock();
	if (rc)
		fc_report("%s: the image has no variable %s", call, name);
	else if (dptr)
		*dptr = address;
	if (!rc && bytes)
		*bytes = size;
	return module_leave(rc == cudaErrorInvalidSymbol ? cudaErrorSymbolNotFound : rc);
}

CUresult cuModuleGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	return module_global("cuModuleGetGlobal", hmod, name, dptr, bytes);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	return module_global("cuLibraryGetGlobal", library, name, dptr, bytes);
}
