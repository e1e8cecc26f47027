# SPDX-License-Identifier: BSD-3-Clause
# libibverbs.so.1 of our own, for programs that know nothing of Doppel: build/PRESET/verbs.
doppel_sources(dropin_sources backends/dropin)
set(dropin_dir ${PROJECT_SOURCE_DIR}/backends/dropin)
set(dropin_map ${PROJECT_BINARY_DIR}/libibverbs.map)
set(dropin_stubs ${PROJECT_BINARY_DIR}/libibverbs_stubs.c)
add_custom_command(OUTPUT ${dropin_map} ${dropin_stubs}
	COMMAND ${dropin_dir}/abi.sh ${dropin_dir}/abi.txt ${dropin_map} ${dropin_stubs}
	DEPENDS ${PROJECT_SOURCE_DIR}/backends/abi.sh ${dropin_dir}/abi.sh ${dropin_dir}/abi.txt
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
