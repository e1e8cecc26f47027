# SPDX-License-Identifier: BSD-3-Clause
# The libraries of foreign programs, all in build/PRESET/verbs.

# ---- libibverbs.so.1
doppel_sources(dropin_sources dropin/ibverbs)
set(dropin_dir ${PROJECT_SOURCE_DIR}/dropin/ibverbs)
set(dropin_map ${PROJECT_BINARY_DIR}/libibverbs.map)
set(dropin_stubs ${PROJECT_BINARY_DIR}/libibverbs_stubs.c)
add_custom_command(OUTPUT ${dropin_map} ${dropin_stubs}
	COMMAND ${dropin_dir}/abi.sh ${dropin_dir}/abi.txt ${dropin_map} ${dropin_stubs}
	DEPENDS ${PROJECT_SOURCE_DIR}/dropin/abi.sh ${dropin_dir}/abi.sh ${dropin_dir}/abi.txt
	VERBATIM)
# It has the runtime inside, hidden: a program may have a Doppel of its own (our stack in the preset
# soft-roce), whose worlds and HCAs are not these.
add_library(dropin SHARED ${dropin_sources} ${dropin_stubs} $<TARGET_OBJECTS:fakeverbs_objects>
	$<TARGET_OBJECTS:rt_objects>)
target_link_libraries(dropin PRIVATE EXPAT::EXPAT Threads::Threads ${CMAKE_DL_LIBS})
# Its threads and what it does at exit outlive a dlclose.
target_link_options(dropin PRIVATE -Wl,--version-script=${dropin_map} -Wl,--enable-new-dtags
	-Wl,-z,nodelete)
set_target_properties(dropin PROPERTIES OUTPUT_NAME ibverbs SOVERSION 1
	LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/verbs LINK_DEPENDS ${dropin_map})

# ---- libfakeverbs.so has the same version nodes: programs that `doppel exec` starts load it by the name
# libibverbs.so, and look functions up by name and version. Its other names stay without one.
set(fakeverbs_map ${PROJECT_BINARY_DIR}/libfakeverbs.map)
add_custom_command(OUTPUT ${fakeverbs_map}
	COMMAND sed "s/ local: [*];//" ${dropin_map} > ${fakeverbs_map}
	DEPENDS ${dropin_map} VERBATIM)
target_sources(fakeverbs PRIVATE ${fakeverbs_map})
target_link_options(fakeverbs PRIVATE -Wl,--version-script=${fakeverbs_map})
set_target_properties(fakeverbs PROPERTIES LINK_DEPENDS ${fakeverbs_map})

# ---- librdmacm.so.1, for programs that connect by IP address. It calls the libibverbs.so.1 that the
# program has.
if(RDMACM_INCLUDE)
	doppel_sources(rdmacm_sources dropin/rdmacm)
	add_library(rdmacm SHARED ${rdmacm_sources})
	target_link_libraries(rdmacm PRIVATE dropin Threads::Threads)
	set(rdmacm_map ${PROJECT_SOURCE_DIR}/dropin/rdmacm/exports.map)
	target_link_options(rdmacm PRIVATE -Wl,--version-script=${rdmacm_map} -Wl,-z,nodelete)
	set_target_properties(rdmacm PROPERTIES SOVERSION 1
		LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/verbs LINK_DEPENDS ${rdmacm_map})
endif()

# ---- libmlx5.so.1
if(MLX5DV_INCLUDE)
	doppel_sources(mlx5dv_sources dropin/mlx5dv)
	set(mlx5dv_dir ${PROJECT_SOURCE_DIR}/dropin/mlx5dv)
	set(mlx5dv_map ${PROJECT_BINARY_DIR}/libmlx5.map)
	set(mlx5dv_refusals ${PROJECT_BINARY_DIR}/libmlx5_refusals.c)
	add_custom_command(OUTPUT ${mlx5dv_map} ${mlx5dv_refusals}
		COMMAND ${mlx5dv_dir}/abi.sh ${mlx5dv_dir}/abi.txt ${mlx5dv_map} ${mlx5dv_refusals}
		DEPENDS ${PROJECT_SOURCE_DIR}/dropin/abi.sh ${mlx5dv_dir}/abi.sh ${mlx5dv_dir}/abi.txt
		VERBATIM)
	add_library(mlx5dv SHARED ${mlx5dv_sources} ${mlx5dv_refusals})
	target_link_options(mlx5dv PRIVATE -Wl,--version-script=${mlx5dv_map})
	set_target_properties(mlx5dv PROPERTIES OUTPUT_NAME mlx5 SOVERSION 1
		LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/verbs LINK_DEPENDS ${mlx5dv_map})
endif()
