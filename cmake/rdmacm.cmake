# SPDX-License-Identifier: BSD-3-Clause
# librdmacm.so.1 of our own, beside the drop-in libibverbs (build/PRESET/verbs): for programs that
# connect by IP address. Calls whatever libibverbs.so.1 the program has.
doppel_sources(rdmacm_sources backends/rdmacm)
add_library(rdmacm SHARED ${rdmacm_sources})
target_link_libraries(rdmacm PRIVATE dropin Threads::Threads)
set(rdmacm_map ${PROJECT_SOURCE_DIR}/backends/rdmacm/exports.map)
target_link_options(rdmacm PRIVATE -Wl,--version-script=${rdmacm_map} -Wl,-z,nodelete)
set_target_properties(rdmacm PROPERTIES SOVERSION 1
	LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/verbs LINK_DEPENDS ${rdmacm_map})
