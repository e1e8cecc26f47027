# SPDX-License-Identifier: BSD-3-Clause
# libmlx5.so.1 of our own, beside the drop-in libibverbs (build/PRESET/verbs).
doppel_sources(mlx5dv_sources backends/mlx5dv)
set(mlx5dv_dir ${PROJECT_SOURCE_DIR}/backends/mlx5dv)
set(mlx5dv_map ${PROJECT_BINARY_DIR}/libmlx5.map)
set(mlx5dv_refusals ${PROJECT_BINARY_DIR}/libmlx5_refusals.c)
add_custom_command(OUTPUT ${mlx5dv_map} ${mlx5dv_refusals}
	COMMAND ${mlx5dv_dir}/abi.sh ${mlx5dv_dir}/abi.txt ${mlx5dv_map} ${mlx5dv_refusals}
	DEPENDS ${PROJECT_SOURCE_DIR}/backends/abi.sh ${mlx5dv_dir}/abi.sh ${mlx5dv_dir}/abi.txt
	VERBATIM)
add_library(mlx5dv SHARED ${mlx5dv_sources} ${mlx5dv_refusals})
target_link_options(mlx5dv PRIVATE -Wl,--version-script=${mlx5dv_map})
set_target_properties(mlx5dv PROPERTIES OUTPUT_NAME mlx5 SOVERSION 1
	LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/verbs LINK_DEPENDS ${mlx5dv_map})
