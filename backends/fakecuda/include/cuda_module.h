/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's types and calls of modules, libraries and launches. A part of cuda.h, which includes
 * it; the Toolkit has no such file. Implemented by backends/fakecuda/image. */
#ifndef FAKECUDA_CUDA_MODULE_H
#define FAKECUDA_CUDA_MODULE_H

typedef struct CUmod_st *CUmodule;
typedef struct CUlib_st *CUlibrary;

typedef enum CUjit_option_enum {
	CU_JIT_MAX_REGISTERS = 0,
	CU_JIT_INFO_LOG_BUFFER = 3,
	CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
	CU_JIT_ERROR_LOG_BUFFER = 5,
	CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
	CU_JIT_OPTIMIZATION_LEVEL = 7,
	CU_JIT_TARGET = 9,
} CUjit_option;

typedef enum CUlibraryOption_enum {
	CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE = 0,
	CU_LIBRARY_BINARY_IS_PRESERVED = 1,
} CUlibraryOption;

typedef enum CUfunction_attribute_enum {
	CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
	CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
	CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
	CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
	CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
} CUfunction_attribute;

/* Words of `extra` of a launch. */
#define CU_LAUNCH_PARAM_END            ((void *)0x00)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#define CU_LAUNCH_PARAM_BUFFER_SIZE    ((void *)0x02)

#include "driver_launch.h"

#define cuModuleGetGlobal cuModuleGetGlobal_v2

FAKECUDA_API CUresult cuModuleLoadData(CUmodule *module, const void *image);
FAKECUDA_API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image,
					 unsigned int numOptions, CUjit_option *options,
					 void **optionValues);
FAKECUDA_API CUresult cuModuleUnload(CUmodule hmod);
FAKECUDA_API CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name);
FAKECUDA_API CUresult cuModuleGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod,
					const char *name);
FAKECUDA_API CUresult cuLibraryLoadData(CUlibrary *library, const void *code,
					CUjit_option *jitOptions, void **jitOptionsValues,
					unsigned int numJitOptions, CUlibraryOption *libraryOptions,
					void **libraryOptionValues, unsigned int numLibraryOptions);
FAKECUDA_API CUresult cuLibraryUnload(CUlibrary library);
FAKECUDA_API CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name);
FAKECUDA_API CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
					 const char *name);
FAKECUDA_API CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel);
FAKECUDA_API CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc);
FAKECUDA_API CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value);

#endif
