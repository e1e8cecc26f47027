# SPDX-License-Identifier: BSD-3-Clause
# Compiler flags of every target, and of the flavours.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
# A step of the simulator runs a little of each library: code that is small and calls directly is faster than code
# whose loops are aligned.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
	string(APPEND CMAKE_C_FLAGS_RELWITHDEBINFO " -fno-semantic-interposition -fno-plt"
		" -falign-functions=1 -falign-loops=1 -falign-jumps=1")
	if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64") # no `rep movs` for what is small
		string(APPEND CMAKE_C_FLAGS_RELWITHDEBINFO
			" -mmemcpy-strategy=unrolled_loop:256:noalign,libcall:-1:noalign"
			" -mmemset-strategy=unrolled_loop:256:noalign,libcall:-1:noalign")
	endif()
endif()
set(CMAKE_C_FLAGS_DEBUG "-O0 -g3") # no "optimized out" in gdb

# A build tree that was moved, and an installation anywhere, find their libraries.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

include_directories(${PROJECT_SOURCE_DIR})
# No contraction: results are the same with every compiler. No CET shadow stack: fibers switch
# stacks. Frame pointers and no sibling calls: a backtrace shows every function.
add_compile_options(
	$<$<COMPILE_LANGUAGE:C>:-Wall> $<$<COMPILE_LANGUAGE:C>:-Wextra> $<$<COMPILE_LANGUAGE:C>:-Werror>
	$<$<COMPILE_LANGUAGE:C>:-Wno-unused-parameter>
	$<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
	$<$<COMPILE_LANGUAGE:C>:-ffp-contract=off>
	$<$<COMPILE_LANGUAGE:C>:-fno-omit-frame-pointer>
	$<$<COMPILE_LANGUAGE:C>:-fno-optimize-sibling-calls>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
	add_compile_options($<$<COMPILE_LANGUAGE:C>:-fcf-protection=none>)
endif()
add_compile_definitions(_GNU_SOURCE)
add_link_options(-Wl,--build-id) # names the code that a replay file was made by

if(DOPPEL_GPU STREQUAL "fakecuda" OR DOPPEL_RDMA STREQUAL "fakeverbs")
	set(DOPPEL_FAKE ON)
	add_compile_definitions(DOPPEL_FAKE=1)
endif()
if(DOPPEL_GPU STREQUAL "fakecuda")
	add_compile_definitions(DOPPEL_FAKECUDA=1)
	include_directories(BEFORE ${PROJECT_SOURCE_DIR}/backends/fakecuda/include)
endif()
if(DOPPEL_RDMA STREQUAL "fakeverbs")
	add_compile_definitions(DOPPEL_FAKEVERBS=1)
endif()

if(DOPPEL_FLAVOUR STREQUAL "debug")
	set(CMAKE_BUILD_TYPE Debug)
elseif(DOPPEL_FLAVOUR STREQUAL "checked")
	add_compile_definitions(DOPPEL_CHECKED=1)
elseif(DOPPEL_FLAVOUR STREQUAL "asan")
	# reports need functions and lines; more of either costs a third of the build, and a test little
	set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")
	add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined)
	add_link_options(-fsanitize=address,undefined)
elseif(DOPPEL_FLAVOUR STREQUAL "tsan")
	set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")
	add_compile_options(-fsanitize=thread)
	add_link_options(-fsanitize=thread)
elseif(DOPPEL_FLAVOUR STREQUAL "coverage")
	set(CMAKE_BUILD_TYPE Debug)
	add_compile_options(--coverage -O0 -fprofile-update=atomic -DDOPPEL_COVERAGE)
	add_link_options(--coverage)
elseif(NOT DOPPEL_FLAVOUR STREQUAL "")
	message(FATAL_ERROR "DOPPEL_FLAVOUR is '${DOPPEL_FLAVOUR}'; expected empty, debug, checked, asan, tsan or coverage")
endif()
