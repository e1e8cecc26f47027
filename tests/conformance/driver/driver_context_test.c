/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts of the driver and lookups of its functions, for the double and for a GPU: see
 * graph_cases.h, and add -lcuda. The runtime has made the context of device 0 current before each
 * case; a case that needs none drops it. CUDA does not promise an error for an output parameter
 * that is NULL, and a program died in such a call on an H200. Only the double is called so.
 */
#include <cuda.h>

#include "../graphs/graph_cases.h"

static CUcontext current(void)
{
	CUcontext c = (CUcontext)(size_t)8;

	IS(CUDA_SUCCESS, cuCtxGetCurrent(&c));
	return c;
}

/* ---- no current context --------------------------------------------------------------------- */

static void calls_without_a_context_are_refused(void)
{
	CUdevice dev = 7;
	CUdeviceptr p = 0;
	CUstream s = NULL;
	CUevent e = NULL;
	CUcontext c = NULL;
	unsigned int u = 0;
	size_t n = 0;
	void *h = NULL;

	OK(cuCtxSetCurrent(NULL));
	IS(0, (size_t)current());
	IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&dev));
	IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
	IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetFlags(&u));
	IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetLimit(&n, CU_LIMIT_STACK_SIZE));
	IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
	IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&c));
	IS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 64));
	IS(CUDA_ERROR_INVALID_CONTEXT, cuMemHostAlloc(&h, 64, 0));
	IS(CUDA_ERROR_INVALID_CONTEXT, cuStreamCreate(&s, 0));
	IS(CUDA_ERROR_INVALID_CONTEXT, cuEventCreate(&e, 0));
	IS(7, dev);
	OK(cudaPeekAtLastError());
	OK(cudaSetDevice(0));
}

static void the_runtime_makes_its_context_current(void)
{
	CUcontext primary = NULL;
	CUdevice dev = 7;
	void *p = NULL;

	OK(cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cuCtxSetCurrent(NULL));
	OK(cudaMalloc(&p, 64));
	IS(1, current() == primary);
	OK(cudaFree(p));
	OK(cuCtxSetCurrent(NULL));
	OK(cudaSetDevice(0));
	IS(1, current() == primary);
	OK(cuCtxGetDevice(&dev));
	IS(0, dev);
	OK(cuDevicePrimaryCtxRelease(0));
}

/* ---- the stack of contexts ------------------------------------------------------------------ */

static void a_push_is_undone_by_a_pop(void)
{
	CUcontext c = NULL, primary = current();

	OK(cuCtxSetCurrent(NULL));
	OK(cuCtxPushCurrent(primary));
	IS(1, current() == primary);
	OK(cuCtxPushCurrent(primary));
	OK(cuCtxPopCurrent(&c));
	IS(1, c == primary);
	IS(1, current() == primary);
	OK(cuCtxPopCurrent(NULL));
	IS(0, (size_t)current());
	OK(cuCtxSetCurrent(primary));
}

static void the_device_follows_the_context(void)
{
	CUcontext first = current(), second = NULL;
	int count = 0, dev = 7;

	OK(cudaGetDeviceCount(&count));
	if (count < 2)
		return;
	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxPushCurrent(second));
	OK(cudaGetDevice(&dev));
	IS(1, dev);
	OK(cuCtxPopCurrent(NULL));
	OK(cudaGetDevice(&dev));
	IS(0, dev);
	IS(1, current() == first);
	OK(cuDevicePrimaryCtxRelease(1));
}

/* ---- primary contexts ----------------------------------------------------------------------- */

static void an_unknown_device_has_no_context(void)
{
	CUcontext c = NULL;
	unsigned int flags = 0;
	int active = 0;

	IS(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain(&c, 999));
	IS(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRelease(-1));
	IS(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxReset(999));
	IS(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxSetFlags(999, 0));
	IS(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxGetState(999, &flags, &active));
	IS(0, (size_t)c);
}

static void a_context_that_the_runtime_uses_is_active(void)
{
	unsigned int flags = 0;
	int active = 0;

	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	IS(1, active);
	IS(CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxSetFlags(0, 0x100));
	IS(CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_MASK));
}

/* The runtime uses the first device only. */
static void the_last_release_ends_a_context(void)
{
	CUcontext c = NULL;
	CUdeviceptr p = 0;
	unsigned int flags = 0;
	int count = 0, active = 7;

	OK(cudaGetDeviceCount(&count));
	if (count < 3)
		return;
	OK(cuDevicePrimaryCtxGetState(2, &flags, &active));
	IS(0, active);
	OK(cuDevicePrimaryCtxRetain(&c, 2));
	OK(cuDevicePrimaryCtxRetain(&c, 2));
	OK(cuDevicePrimaryCtxRelease(2));
	OK(cuDevicePrimaryCtxGetState(2, &flags, &active));
	IS(1, active);
	OK(cuCtxPushCurrent(c));
	OK(cuMemAlloc(&p, 64)); /* freed with the context */
	OK(cuDevicePrimaryCtxRelease(2));
	IS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&p, 64));
	OK(cuCtxPopCurrent(NULL));
	OK(cuDevicePrimaryCtxGetState(2, &flags, &active));
	IS(0, active);
	IS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(2));
}

/* ---- contexts that the program creates ------------------------------------------------------ */

static void a_created_context_is_current_until_its_end(void)
{
	CUcontext before = current(), c = NULL;
	unsigned int flags = 0;
	CUdevice dev = 7;

	OK(cuCtxCreate(&c, NULL, CU_CTX_SCHED_YIELD, 0));
	IS(1, c && c != before);
	IS(1, current() == c);
	OK(cuCtxGetDevice(&dev));
	IS(0, dev);
	OK(cuCtxGetFlags(&flags));
	IS(CU_CTX_SCHED_YIELD, flags & CU_CTX_SCHED_MASK);
	OK(cuCtxDestroy(c));
	IS(1, current() == before);
}

static void a_created_context_owns_what_is_made_in_it(void)
{
	CUcontext before = current(), c = NULL, of = NULL;
	CUdeviceptr p = 0;
	CUstream s = NULL;
	CUevent e = NULL;
	size_t old = 0, n = 0;

	OK(cuCtxGetLimit(&old, CU_LIMIT_STACK_SIZE));
	OK(cuCtxCreate(&c, NULL, 0, 0));
	OK(cuMemAlloc(&p, 64));
	OK(cuStreamCreate(&s, 1));
	OK(cuEventCreate(&e, 0));
	OK(cuMemsetD8Async(p, 1, 64, s));
	OK(cuEventRecord(e, s));
	IS(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(e, now.a));
	OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, p));
	IS(1, of == c);
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, old + 1024));
	OK(cuCtxPopCurrent(NULL));
	IS(1, current() == before);
	OK(cuCtxGetLimit(&n, CU_LIMIT_STACK_SIZE));
	IS(old, n);
	OK(cuCtxDestroy(c)); /* waits for the stream, and frees all */
	IS(1, current() == before);
	IS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, p));
}

static void older_variants_create_contexts_too(void)
{
	CUresult (*create)(CUcontext *, unsigned int, CUdevice) = NULL;
	CUdriverProcAddressQueryResult st = CU_GET_PROC_ADDRESS_SUCCESS;
	CUcontext before = current(), c = NULL;
	void *fn = NULL;

	OK(cuGetProcAddress("cuCtxCreate", &fn, 11000, 0, &st));
	memcpy(&create, &fn, sizeof fn);
	OK(create(&c, 0, 0));
	IS(1, current() == c);
	OK(cuCtxDestroy(c));
	IS(1, current() == before);
	IS(CUDA_ERROR_INVALID_DEVICE, create(&c, 0, 999));
	IS(CUDA_ERROR_INVALID_VALUE, create(&c, CU_CTX_SCHED_MASK, 0));
}

#ifdef DOPPEL_FAKECUDA
static void a_context_that_was_not_created_is_not_destroyed(void)
{
	CUcontext c = NULL;

	IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(current()));
	IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(NULL));
	for (int i = 0; i < 200; i++) { /* more than there are slots */
		OK(cuCtxCreate(&c, NULL, 0, 0));
		OK(cuCtxDestroy(c));
	}
	IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(c));
	OK(cuCtxCreate(&c, NULL, 0, 0));
	OK(cuCtxDestroy(c));
}

/* A thread keeps the context that another one destroys. */
static void a_destroyed_context_is_known(void)
{
	CUcontext c = NULL, before = current();
	CUdeviceptr p = 0;

	OK(cuCtxCreate(&c, NULL, 0, 0));
	OK(cuCtxPushCurrent(c));
	OK(cuCtxDestroy(c)); /* pops once: the context before it is the same */
	IS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&p, 64));
	OK(cuCtxPopCurrent(NULL));
	IS(1, current() == before);
}
#endif

/* ---- properties ----------------------------------------------------------------------------- */

static void limits_have_defaults_and_can_be_set(void)
{
	size_t before = 0, n = 0;
	unsigned int version = 0;

	OK(cuCtxGetLimit(&before, CU_LIMIT_STACK_SIZE));
	IS(1024, before);
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
	OK(cuCtxGetLimit(&n, CU_LIMIT_STACK_SIZE));
	IS(2048, n);
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, before));
	OK(cuCtxGetLimit(&n, CU_LIMIT_MALLOC_HEAP_SIZE));
	IS(8388608, n);
	IS(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit(&n, (CUlimit)11));
	OK(cuCtxGetApiVersion(current(), &version));
	IS(3020, version);
}

#ifdef DOPPEL_FAKECUDA
static void an_output_that_is_null_is_refused(void)
{
	void *fn = NULL;

	IS(CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxRetain(NULL, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuCtxGetCurrent(NULL));
	IS(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE));
	IS(CUDA_ERROR_INVALID_VALUE, cuCtxGetApiVersion(current(), NULL));
	IS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress(NULL, &fn, 12000, 0, NULL));
	IS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress("cuInit", NULL, 12000, 0, NULL));
}
#endif

static void access_to_a_peer_is_enabled_once(void)
{
	CUcontext peer = NULL;
	int can = 0, count = 0;

	OK(cudaGetDeviceCount(&count));
	if (count < 2)
		return;
	OK(cuDeviceCanAccessPeer(&can, 0, 1));
	OK(cuDevicePrimaryCtxRetain(&peer, 1));
	if (can) {
		IS(CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess(peer, 1));
		IS(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(peer));
		OK(cuCtxEnablePeerAccess(peer, 0));
		IS(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(peer, 0));
		OK(cuCtxDisablePeerAccess(peer));
	}
	OK(cuDevicePrimaryCtxRelease(1));
}

/* ---- devices -------------------------------------------------------------------------------- */

static void devices_are_refused_by_number(void)
{
	char name[64], bus[32];
	size_t bytes = 0;
	CUuuid uuid;
	CUdevice dev = 7;
	int v = 0;

	OK(cuDeviceGetName(name, sizeof name, 0));
	OK(cuDeviceGetUuid(&uuid, 0));
	OK(cuDeviceTotalMem(&bytes, 0));
	IS(1, bytes > 0);
	OK(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
	OK(cuDeviceGetByPCIBusId(&dev, bus));
	IS(0, dev);
	IS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&dev, 999));
	IS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetName(name, sizeof name, 999));
	IS(CUDA_ERROR_INVALID_DEVICE, cuDeviceTotalMem(&bytes, -1));
	IS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MAX, 0));
	for (int a = 1; a < CU_DEVICE_ATTRIBUTE_MAX; a++)
		OK(cuDeviceGetAttribute(&v, (CUdevice_attribute)a, 0));
}

/* ---- lookups -------------------------------------------------------------------------------- */

/* Returns the status, or minus the error; *fn is the function, or NULL. */
static int look(const char *name, int version, cuuint64_t flags, void **fn)
{
	CUdriverProcAddressQueryResult st = (CUdriverProcAddressQueryResult)7;
	CUresult rc;

	*fn = &st;
	rc = cuGetProcAddress(name, fn, version, flags, &st);
	return rc ? -(int)rc : (int)st;
}

static void a_lookup_answers_by_name_and_version(void)
{
	void *fn = NULL, *older = NULL;

	IS(0, look("cuInit", 12000, 0, &fn));
	IS(1, fn != NULL);
	IS(1, look("nothing", 12000, 0, &fn));
	IS(0, (size_t)fn);
	IS(1, look("", 12000, 0, &fn));
	IS(0, (size_t)fn);
	IS(2, look("cuMemCreate", 9000, 0, &fn));
	IS(0, (size_t)fn);
	IS(0, look("cuMemHostRegister", 4000, 0, &older));
	IS(0, look("cuMemHostRegister", 12000, 0, &fn));
	IS(1, fn != older);
}

static void a_flag_chooses_the_stream_of_the_thread(void)
{
	CUresult (*id_of)(CUstream, unsigned long long *) = NULL;
	unsigned long long legacy = 0, own = 0;
	void *fn = NULL;

	IS(0, look("cuStreamGetId", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &fn));
	memcpy(&id_of, &fn, sizeof fn);
	OK(id_of(NULL, &legacy));
	IS(0, look("cuStreamGetId", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &fn));
	memcpy(&id_of, &fn, sizeof fn);
	OK(id_of(NULL, &own));
	IS(1, legacy != own);
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, &legacy));
	IS(1, legacy == own);
}

static const struct graph_case cases[] = {
	CASE(calls_without_a_context_are_refused),
	CASE(the_runtime_makes_its_context_current),
	CASE(a_push_is_undone_by_a_pop),
	CASE(the_device_follows_the_context),
	CASE(an_unknown_device_has_no_context),
	CASE(a_context_that_the_runtime_uses_is_active),
	CASE(the_last_release_ends_a_context),
	CASE(a_created_context_is_current_until_its_end),
	CASE(a_created_context_owns_what_is_made_in_it),
	CASE(older_variants_create_contexts_too),
#ifdef DOPPEL_FAKECUDA
	CASE(a_context_that_was_not_created_is_not_destroyed),
	CASE(a_destroyed_context_is_known),
#endif
	CASE(limits_have_defaults_and_can_be_set),
	CASE(access_to_a_peer_is_enabled_once),
#ifdef DOPPEL_FAKECUDA
	CASE(an_output_that_is_null_is_refused),
#endif
	CASE(devices_are_refused_by_number),
	CASE(a_lookup_answers_by_name_and_version),
	CASE(a_flag_chooses_the_stream_of_the_thread),
};

int main(int argc, char **argv)
{
	return cases_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}
