# SPDX-License-Identifier: BSD-3-Clause
# The tests with the label dropin, included by tests/CMakeLists.txt.
set(doppel_tests_DIR ${CMAKE_CURRENT_LIST_DIR})
doppel_tests(dropin)
unset(doppel_tests_DIR)
foreach(test helpers_test fork_test)
	if(TARGET ${test})
		add_dependencies(${test} dropin)
	endif()
endforeach()
# linked with the public names alone; both libraries are ours at run time
foreach(test keys_test overlap_test yield_test reap_test list_test
	limits_test signal_test first_calls_test rdmacm_test
	rdmacm_first_calls_test)
	if(TARGET ${test})
		target_link_libraries(${test} PRIVATE dropin)
	endif()
endforeach()
foreach(test rdmacm_test rdmacm_first_calls_test)
	if(TARGET ${test})
		target_link_libraries(${test} PRIVATE rdmacm)
	endif()
endforeach()
# two processes, one of which is killed; 500 kills are a minute: kill_peers --kills 500
add_executable(kill_peers ${CMAKE_CURRENT_LIST_DIR}/killed/kill_peers.c
	${CMAKE_CURRENT_LIST_DIR}/killed/kill_peer.c)
target_link_libraries(kill_peers PRIVATE dropin)
if(NOT DOPPEL_FLAVOUR MATCHES "asan|tsan") # as for other programs on the drop-in
	add_test(NAME dropin.kill_peers COMMAND kill_peers --kills 20)
	add_test(NAME dropin.kill_peers_beside_one_that_stays
		COMMAND kill_peers --kills 20 --seed 2 --resident)
	add_test(NAME dropin.kill_peers_that_were_stopped
		COMMAND kill_peers --kills 20 --seed 3 --stops)
	set_tests_properties(dropin.kill_peers_that_were_stopped
		PROPERTIES LABELS dropin TIMEOUT 600)
	set_tests_properties(dropin.kill_peers dropin.kill_peers_beside_one_that_stays
		PROPERTIES LABELS dropin TIMEOUT 300)
endif()
