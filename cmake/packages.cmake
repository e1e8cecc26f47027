# SPDX-License-Identifier: BSD-3-Clause
# What comes from Debian's packages. A configuration looks again for what was missing before, and for
# what it had found and is gone: the cache keeps neither.
function(doppel_forget)
	foreach(name ${ARGN})
		if(DEFINED CACHE{${name}} AND NOT EXISTS "$CACHE{${name}}")
			unset(${name} CACHE)
		endif()
	endforeach()
endfunction()

# Stops: nothing can be built without it.
function(doppel_require found what package)
	if(NOT ${found})
		message(FATAL_ERROR "${what} is missing, and nothing can be built without it: "
			"apt-get install ${package}, then configure again")
	endif()
endfunction()

# Goes on without it, and says what is left out. The result is `found`, in the caller's scope.
function(doppel_want found what package without)
	if(NOT ${found})
		message(STATUS "${what} is missing, left out: ${without} "
			"(apt-get install ${package}, then configure again)")
	endif()
endfunction()

doppel_forget(EXPAT_INCLUDE_DIR EXPAT_LIBRARY EXPAT_LIBRARY_RELEASE XXHASH_INCLUDE VERBS_INCLUDE
	RDMACM_INCLUDE MLX5DV_INCLUDE CHECK_INCLUDE CHECK_LIB SUBUNIT_LIB IBVERBS_LIB)
find_package(Threads REQUIRED)
find_package(EXPAT QUIET)
find_path(XXHASH_INCLUDE xxhash.h)
find_path(VERBS_INCLUDE infiniband/verbs.h)
find_path(RDMACM_INCLUDE rdma/rdma_cma.h)
find_path(MLX5DV_INCLUDE infiniband/mlx5dv.h)
find_path(CHECK_INCLUDE check.h)
find_library(CHECK_LIB check)
find_library(SUBUNIT_LIB subunit)
find_library(IBVERBS_LIB ibverbs)
doppel_require(EXPAT_FOUND "The XML parser expat (expat.h)" libexpat1-dev)
doppel_require(XXHASH_INCLUDE "The hash function xxHash (xxhash.h)" libxxhash-dev)
doppel_require(VERBS_INCLUDE "The verbs header (infiniband/verbs.h)" libibverbs-dev)
doppel_want(RDMACM_INCLUDE "The header rdma/rdma_cma.h" librdmacm-dev
	"the drop-in librdmacm.so.1 and its tests")
doppel_want(MLX5DV_INCLUDE "The header infiniband/mlx5dv.h" libibverbs-dev
	"the drop-in libmlx5.so.1 and its tests")
set(DOPPEL_CHECK OFF)
if(CHECK_INCLUDE AND CHECK_LIB)
	set(DOPPEL_CHECK ON)
endif()
doppel_want(DOPPEL_CHECK "The unit test framework check (check.h)" check
	"every test program tests/*/*_test.c")
doppel_want(IBVERBS_LIB "The library libibverbs" libibverbs-dev
	"verbs_suite and verbs_walk for other libibverbs than ours")
