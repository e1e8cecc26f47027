/* SPDX-License-Identifier: BSD-3-Clause */
/* cuGetProcAddress: which symbol a base name, a version and flags choose. */
#include <cuda.h>
#include <dlfcn.h>

#include "tests/conformance/cuda/cuda_harness.h"

typedef CUresult (*lookup_v1)(const char *, void **, int, cuuint64_t);

#define FOUND   CU_GET_PROC_ADDRESS_SUCCESS
#define UNKNOWN CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
#define TOO_OLD CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT

/* Expects the exported `name`, or NULL, from a lookup. */
static void finds(const char *base, int version, cuuint64_t flags, const char *name,
		  CUdriverProcAddressQueryResult want)
{
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
	void *fn = &status;

	ck_assert_int_eq(cuGetProcAddress(base, &fn, version, flags, &status), CUDA_SUCCESS);
	ck_assert_msg(status == want, "%s %d: status %d", base, version, (int)status);
	ck_assert_msg(fn == (name ? dlsym(RTLD_DEFAULT, name) : NULL), "%s %d: %p", base, version,
		      fn);
}

START_TEST(a_version_chooses_the_symbol)
{
	finds("cuInit", 2000, 0, "cuInit", FOUND);
	finds("cuMemGetAddressRange", 3020, 0, "cuMemGetAddressRange_v2", FOUND);
	finds("cuMemGetAddressRange", 13000, 0, "cuMemGetAddressRange_v2", FOUND);
	finds("cuMemAlloc", 13000, 0, "cuMemAlloc_v2", FOUND);
	finds("cuEventElapsedTime", 13000, 0, "cuEventElapsedTime_v2", FOUND);
	finds("cuEventElapsedTime", 12000, 0, "cuEventElapsedTime", FOUND);
	finds("cuMemHostRegister", 6040, 0, "cuMemHostRegister", FOUND);
	finds("cuGetProcAddress", 11030, 0, "cuGetProcAddress", FOUND);
	finds("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2", FOUND);
	finds("cuStreamGetCaptureInfo", 12030, 0, "cuStreamGetCaptureInfo_v3", FOUND);
	finds("cuMemCreate", 13030, 0, "cuMemCreate", FOUND); /* newer than the driver */
}
END_TEST

START_TEST(a_version_before_the_function_is_too_old)
{
	finds("cuMemCreate", 9000, 0, NULL, TOO_OLD);
	finds("cuMemGetAddressRange", 2000, 0, NULL, TOO_OLD);
	finds("cuInit", 0, 0, NULL, TOO_OLD);
}
END_TEST

START_TEST(an_unknown_or_absent_function_is_not_found)
{
	finds("", 13000, 0, NULL, UNKNOWN);
	finds("nothing", 13000, 0, NULL, UNKNOWN);
	finds("cuMemGetAddressRange_v2", 13000, 0, NULL, UNKNOWN); /* no base */
	finds("cudaMalloc", 13000, 0, NULL, UNKNOWN);              /* not of the driver */
	finds("nvmlInit_v2", 13000, 0, NULL, UNKNOWN);
	finds("cuMulticastCreate", 13000, 0, NULL, UNKNOWN); /* ABSENT */
	finds("cuMemcpy3DAsync", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL,
	      UNKNOWN);
	finds("cuGetExportTable", 13000, 0, NULL, UNKNOWN);
}
END_TEST

START_TEST(flags_choose_the_variant)
{
	finds("cuInit", 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, "cuInit", FOUND);
	finds("cuMemcpyAsync", 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, "cuMemcpyAsync", FOUND);
	finds("cuMemcpyAsync", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
	      "cuMemcpyAsync_ptsz", FOUND);
	finds("cuMemAllocAsync", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
	      "cuMemAllocAsync_ptsz", FOUND);
	finds("cuMemcpyHtoD", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
	      "cuMemcpyHtoD_v2_ptds", FOUND);
	finds("cuInit", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuInit", FOUND);
}
END_TEST

START_TEST(bad_arguments_are_refused)
{
	CUdriverProcAddressQueryResult status;
	void *fn;

	ck_assert_int_eq(cuGetProcAddress(NULL, &fn, 13000, 0, &status), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(cuGetProcAddress("cuInit", NULL, 13000, 0, &status),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(cuGetProcAddress("cuInit", &fn, 13000, 4, &status),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(cuGetProcAddress("cuInit", &fn, 13000, 0, NULL), CUDA_SUCCESS);
}
END_TEST

START_TEST(the_first_variant_reports_what_it_does_not_find)
{
	void *at = dlsym(RTLD_DEFAULT, "cuGetProcAddress"), *fn = &at;
	lookup_v1 lookup;

	memcpy(&lookup, &at, sizeof lookup);
	ck_assert_int_eq(lookup("cuInit", &fn, 11030, 0), CUDA_SUCCESS);
	ck_assert_ptr_eq(fn, dlsym(RTLD_DEFAULT, "cuInit"));
	ck_assert_int_eq(lookup("nothing", &fn, 11030, 0), CUDA_ERROR_NOT_FOUND);
	ck_assert_ptr_null(fn);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("lookup");

	tcase_add_test(t, a_version_chooses_the_symbol);
	tcase_add_test(t, a_version_before_the_function_is_too_old);
	tcase_add_test(t, an_unknown_or_absent_function_is_not_found);
	tcase_add_test(t, flags_choose_the_variant);
	tcase_add_test(t, bad_arguments_are_refused);
	tcase_add_test(t, the_first_variant_reports_what_it_does_not_find);
	return ch_suite_run("cuda lookup", t);
}
