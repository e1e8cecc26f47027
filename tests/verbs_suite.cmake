# SPDX-License-Identifier: BSD-3-Clause
# The verbs conformance suite (tests/conformance/verbs/suite.h): one program for each kind of target.
file(GLOB verbs_suite_areas CONFIGURE_DEPENDS
	${CMAKE_CURRENT_SOURCE_DIR}/conformance/verbs/*.c)
set(verbs_suite_dir ${CMAKE_CURRENT_SOURCE_DIR}/conformance/verbs)
file(GLOB verbs_walk_parts CONFIGURE_DEPENDS
	${CMAKE_CURRENT_SOURCE_DIR}/fuzz/verbs_walk/*.c)
# Compiled once for all targets.
add_library(verbs_suite_harness OBJECT ${verbs_suite_dir}/harness/suite.c
	${verbs_suite_dir}/harness/fixture.c ${verbs_suite_dir}/harness/need.c)
add_library(verbs_suite_cases OBJECT ${verbs_suite_areas})
add_library(verbs_walk_cases OBJECT ${verbs_walk_parts})
set(verbs_suite_objects $<TARGET_OBJECTS:verbs_suite_cases> $<TARGET_OBJECTS:verbs_suite_harness>)
set(verbs_walk_objects $<TARGET_OBJECTS:verbs_walk_cases> $<TARGET_OBJECTS:verbs_suite_harness>)

# Whatever libibverbs.so.1 the loader finds.
if(IBVERBS_LIB)
	foreach(program verbs_suite verbs_walk)
		add_executable(${program} ${${program}_objects} ${verbs_suite_dir}/harness/target_posix.c)
		target_link_libraries(${program} PRIVATE ${IBVERBS_LIB} Threads::Threads)
	endforeach()
endif()

# fakeverbs in this process: a test for each area and engine.
if(DOPPEL_FAKE AND DOPPEL_RDMA STREQUAL "fakeverbs")
	foreach(program verbs_suite verbs_walk)
		add_executable(${program}_world ${${program}_objects} ${verbs_suite_dir}/harness/target_world.c)
		target_link_libraries(${program}_world PRIVATE ${DOPPEL_RDMA_LIB} doppel-rt)
	endforeach()
	set(case_seconds 30)
	if(NOT DOPPEL_FLAVOUR STREQUAL "")
		set(case_seconds 300)
	endif()
	foreach(source ${verbs_suite_areas})
		get_filename_component(area ${source} NAME_WE)
		foreach(engine sim threads)
			add_test(NAME conformance.verbs.${area}.${engine}
				COMMAND verbs_suite_world --engine ${engine} --timeout ${case_seconds}
					--expected ${verbs_suite_dir}/expected-fakeverbs.txt ${area}.*)
			set_tests_properties(conformance.verbs.${area}.${engine} PROPERTIES
				LABELS conformance TIMEOUT 900)
		endforeach()
	endforeach()
	# The same without the fast path of backends/fakeverbs/transport/direct.c: packets must pass the same cases.
	add_test(NAME conformance.verbs.packets_only COMMAND verbs_suite_world --engine threads
		--timeout ${case_seconds} --expected ${verbs_suite_dir}/expected-fakeverbs.txt)
	set_tests_properties(conformance.verbs.packets_only PROPERTIES LABELS conformance TIMEOUT 900
		ENVIRONMENT DOPPEL_HCA_FAST_PATH=off)
	# Personalities (rxe: personality_rxe_test.sh), in the areas where mlx5 does as the specification, or nearly.
	foreach(row "mlx5 expected-mlx5.txt uc ud mcast atomics keys regions srq"
			"mlx5-ib expected-mlx5.txt uc ud mcast rc_data atomics keys regions srq")
		separate_arguments(row)
		list(POP_FRONT row personality expected)
		list(TRANSFORM row APPEND ".*")
		set(name conformance.verbs.personality.${personality})
		add_test(NAME ${name} COMMAND verbs_suite_world --engine sim --timeout ${case_seconds}
			--expected ${verbs_suite_dir}/${expected} ${row})
		set_tests_properties(${name} PROPERTIES LABELS conformance TIMEOUT 900
			ENVIRONMENT DOPPEL_HCA_PERSONALITY=${personality})
	endforeach()

	# random walks by several clients: by hand with many seeds and steps
	foreach(engine sim threads)
		add_test(NAME fuzz.verbs_walk.${engine}
			COMMAND verbs_walk_world --engine ${engine} --seeds 4 --timeout ${case_seconds}
				--expected ${verbs_suite_dir}/expected-fakeverbs.txt)
		set_tests_properties(fuzz.verbs_walk.${engine} PROPERTIES LABELS fuzz TIMEOUT 900)
	endforeach()
	add_test(NAME fuzz.verbs_walk.packets_only
		COMMAND verbs_walk_world --engine threads --seeds 4 --timeout ${case_seconds}
			--expected ${verbs_suite_dir}/expected-fakeverbs.txt)
	set_tests_properties(fuzz.verbs_walk.packets_only PROPERTIES LABELS fuzz TIMEOUT 900
		ENVIRONMENT DOPPEL_HCA_FAST_PATH=off)
endif()
