# SPDX-License-Identifier: BSD-3-Clause
# The verbs conformance suite (tests/conformance/verbs/suite.h): one program for each kind of target.
set(verbs_suite_dir ${CMAKE_CURRENT_SOURCE_DIR}/conformance/verbs)
file(GLOB verbs_suite_areas CONFIGURE_DEPENDS ${verbs_suite_dir}/objects/*.c ${verbs_suite_dir}/requests/*.c)
# Cases that need a world of the engine: faults, environments, several hosts, logs.
file(GLOB verbs_world_areas CONFIGURE_DEPENDS ${verbs_suite_dir}/world/*.c)
if(NOT DOPPEL_GPU STREQUAL "fakecuda")
	list(FILTER verbs_world_areas EXCLUDE REGEX "/world_gpu[.]c$")
endif()
file(GLOB verbs_walk_parts CONFIGURE_DEPENDS
	${CMAKE_CURRENT_SOURCE_DIR}/fuzz/verbs_walk/*.c)
# Compiled once for all targets.
add_library(verbs_suite_harness OBJECT ${verbs_suite_dir}/harness/suite.c
	${verbs_suite_dir}/harness/suite_rows.c ${verbs_suite_dir}/harness/suite_options.c
	${verbs_suite_dir}/harness/fixture.c
	${verbs_suite_dir}/harness/transfer.c ${verbs_suite_dir}/harness/need.c)
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
	add_library(verbs_target_world OBJECT ${verbs_suite_dir}/harness/target_world.c
		${verbs_suite_dir}/harness/world_runs.c)
	add_executable(verbs_suite_world ${verbs_suite_objects} $<TARGET_OBJECTS:verbs_target_world>
		${verbs_world_areas})
	add_executable(verbs_walk_world ${verbs_walk_objects} $<TARGET_OBJECTS:verbs_target_world>)
	target_link_libraries(verbs_suite_world PRIVATE ${DOPPEL_GPU_LIB} ${DOPPEL_RDMA_LIB} doppel-rt)
	target_link_libraries(verbs_walk_world PRIVATE ${DOPPEL_RDMA_LIB} doppel-rt)
	set(case_seconds 30)
	if(NOT DOPPEL_FLAVOUR STREQUAL "")
		set(case_seconds 300)
	endif()
	foreach(source ${verbs_suite_areas})
		get_filename_component(area ${source} NAME_WE)
		string(REGEX REPLACE "_cases$" "" area ${area})
		foreach(engine sim threads)
			add_test(NAME conformance.verbs.${area}.${engine}
				COMMAND verbs_suite_world --engine ${engine} --timeout ${case_seconds}
					--expected ${verbs_suite_dir}/expected-fakeverbs.txt ${area}.*)
			set_tests_properties(conformance.verbs.${area}.${engine} PROPERTIES
				LABELS conformance TIMEOUT 900)
		endforeach()
	endforeach()
	# Each world's case that is for one engine names it. An area without a case for an engine has no test there.
	foreach(source ${verbs_world_areas})
		get_filename_component(area ${source} NAME_WE)
		file(READ ${source} text)
		string(REGEX MATCHALL "\nCASE[(]" cases "${text}")
		list(LENGTH cases count)
		foreach(engine sim threads)
			set(other threads)
			if(engine STREQUAL "threads")
				set(other sim)
			endif()
			string(REGEX MATCHALL "[.]engine = \"${other}\"" elsewhere "${text}")
			list(LENGTH elsewhere left_out)
			if(NOT count GREATER left_out)
				continue()
			endif()
			set(seeds)
			if(engine STREQUAL "sim")
				set(seeds --seeds 6)
			endif()
			add_test(NAME conformance.verbs.${area}.${engine}
				COMMAND verbs_suite_world --engine ${engine} ${seeds} --timeout 600
					--expected ${verbs_suite_dir}/expected-fakeverbs.txt ${area}.*)
			set_tests_properties(conformance.verbs.${area}.${engine} PROPERTIES
				LABELS conformance TIMEOUT 1800)
		endforeach()
	endforeach()
	# The same without the fast path of backends/fakeverbs/transport/direct.c: packets must pass the same cases.
	add_test(NAME conformance.verbs.packets_only COMMAND verbs_suite_world --engine threads
		--timeout ${case_seconds} --expected ${verbs_suite_dir}/expected-fakeverbs.txt --except world_*)
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
