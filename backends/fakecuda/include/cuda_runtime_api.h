/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CUDA runtime API of the GPU double, spelled as in CUDA 13.0. Called by core and by any
 * program that would include the Toolkit's header; implemented by libfakecuda. All of it exists. A
 * call of a function that is ABSENT in backends/fakecuda/entry/entries.def aborts with its name.
 *
 * Contract, units and errors are CUDA's: docs/fakecuda.md lists where the double is stricter.
 */
#ifndef FAKECUDA_CUDA_RUNTIME_API_H
#define FAKECUDA_CUDA_RUNTIME_API_H

#include "driver_types.h"

#define CUDART_VERSION 13000

#define FAKECUDA_API __attribute__((visibility("default")))
#ifdef __cplusplus
#define FAKECUDA_OPT(value) = value
extern "C" {
#else
#define FAKECUDA_OPT(value)
#endif

/* ---- errors and versions -------------------------------------------------------------------- */

FAKECUDA_API cudaError_t cudaGetLastError(void);
FAKECUDA_API cudaError_t cudaPeekAtLastError(void);
FAKECUDA_API const char *cudaGetErrorName(cudaError_t error);
FAKECUDA_API const char *cudaGetErrorString(cudaError_t error);
FAKECUDA_API cudaError_t cudaDriverGetVersion(int *driverVersion);
FAKECUDA_API cudaError_t cudaRuntimeGetVersion(int *runtimeVersion);
FAKECUDA_API cudaError_t
cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
			enum cudaDriverEntryPointQueryResult *driverStatus FAKECUDA_OPT(NULL));
FAKECUDA_API cudaError_t cudaGetDriverEntryPointByVersion(
	const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,
	enum cudaDriverEntryPointQueryResult *driverStatus FAKECUDA_OPT(NULL));

/* ---- devices -------------------------------------------------------------------------------- */

FAKECUDA_API cudaError_t cudaGetDeviceCount(int *count);
FAKECUDA_API cudaError_t cudaSetDevice(int device);
FAKECUDA_API cudaError_t cudaGetDevice(int *device);
FAKECUDA_API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
FAKECUDA_API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device);
FAKECUDA_API cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device);
FAKECUDA_API cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId);
FAKECUDA_API cudaError_t cudaDeviceSynchronize(void);
FAKECUDA_API cudaError_t cudaDeviceReset(void);
FAKECUDA_API cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value);
FAKECUDA_API cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice);
FAKECUDA_API cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags);
FAKECUDA_API cudaError_t cudaDeviceDisablePeerAccess(int peerDevice);
FAKECUDA_API cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr,
						   int srcDevice, int dstDevice);
FAKECUDA_API cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority,
							  int *greatestPriority);

/* ---- memory --------------------------------------------------------------------------------- */

FAKECUDA_API cudaError_t cudaMalloc(void **devPtr, size_t size);
FAKECUDA_API cudaError_t cudaFree(void *devPtr);
FAKECUDA_API cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
FAKECUDA_API cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags);
FAKECUDA_API cudaError_t cudaMallocHost(void **ptr, size_t size);
FAKECUDA_API cudaError_t cudaFreeHost(void *ptr);
FAKECUDA_API cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags);
FAKECUDA_API cudaError_t cudaHostUnregister(void *ptr);
FAKECUDA_API cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags);
FAKECUDA_API cudaError_t cudaHostGetFlags(unsigned int *pFlags, void *pHost);
FAKECUDA_API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
						  const void *ptr);
FAKECUDA_API cudaError_t cudaMemcpy(void *dst, const void *src, size_t count,
				    enum cudaMemcpyKind kind);
FAKECUDA_API cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count,
					 enum cudaMemcpyKind kind,
					 cudaStream_t stream FAKECUDA_OPT(0));
FAKECUDA_API cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice,
					size_t count);
FAKECUDA_API cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src,
					     int srcDevice, size_t count,
					     cudaStream_t stream FAKECUDA_OPT(0));
FAKECUDA_API cudaError_t cudaMemset(void *devPtr, int value, size_t count);
FAKECUDA_API cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count,
					 cudaStream_t stream FAKECUDA_OPT(0));
FAKECUDA_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr);
FAKECUDA_API cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle,
					      unsigned int flags);
FAKECUDA_API cudaError_t cudaIpcCloseMemHandle(void *devPtr);

/* ---- streams and events --------------------------------------------------------------------- */

FAKECUDA_API cudaError_t cudaStreamCreate(cudaStream_t *pStream);
FAKECUDA_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags);
FAKECUDA_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags,
						      int priority);
FAKECUDA_API cudaError_t cudaStreamDestroy(cudaStream_t stream);
FAKECUDA_API cudaError_t cudaStreamSynchronize(cudaStream_t stream);
FAKECUDA_API cudaError_t cudaStreamQuery(cudaStream_t stream);
FAKECUDA_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
					     unsigned int flags FAKECUDA_OPT(0));
FAKECUDA_API cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int *priority);
FAKECUDA_API cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags);
FAKECUDA_API cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int *device);
FAKECUDA_API cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId);
FAKECUDA_API cudaError_t cudaEventCreate(cudaEvent_t *event);
FAKECUDA_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);
FAKECUDA_API cudaError_t cudaEventDestroy(cudaEvent_t event);
FAKECUDA_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream FAKECUDA_OPT(0));
FAKECUDA_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event,
						  cudaStream_t stream FAKECUDA_OPT(0),
						  unsigned int flags FAKECUDA_OPT(0));
FAKECUDA_API cudaError_t cudaEventQuery(cudaEvent_t event);
FAKECUDA_API cudaError_t cudaEventSynchronize(cudaEvent_t event);
FAKECUDA_API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);

/* ---- kernels and callbacks ------------------------------------------------------------------ */

FAKECUDA_API cudaError_t cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim,
					  void **args, size_t sharedMem, cudaStream_t stream);
FAKECUDA_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func,
					     void **args);
FAKECUDA_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData);
FAKECUDA_API cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr,
					      int value);
FAKECUDA_API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func);

/* ---- variables of the device; a symbol is the address of the host's variable of that name --- */

FAKECUDA_API cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol);
FAKECUDA_API cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol);
FAKECUDA_API cudaError_t
cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset FAKECUDA_OPT(0),
		   enum cudaMemcpyKind kind FAKECUDA_OPT(cudaMemcpyHostToDevice));
FAKECUDA_API cudaError_t
cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset FAKECUDA_OPT(0),
		     enum cudaMemcpyKind kind FAKECUDA_OPT(cudaMemcpyDeviceToHost));
FAKECUDA_API cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count,
						 size_t offset, enum cudaMemcpyKind kind,
						 cudaStream_t stream FAKECUDA_OPT(0));
FAKECUDA_API cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count,
						   size_t offset, enum cudaMemcpyKind kind,
						   cudaStream_t stream FAKECUDA_OPT(0));

/* ---- declared, not implemented: ABSENT in entry/entries.def --------------------------------- */

FAKECUDA_API cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
					   size_t width, size_t height, enum cudaMemcpyKind kind,
					   cudaStream_t stream FAKECUDA_OPT(0));
FAKECUDA_API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event);
FAKECUDA_API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle);
FAKECUDA_API cudaError_t cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr);

/* ---- CUDA graphs, capture, user objects; pools ---------------------------------------------- */

#include "graph_api.h"
#include "pool_api.h"

#ifdef __cplusplus
}
#endif
#undef FAKECUDA_OPT

#endif
