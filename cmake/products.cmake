# SPDX-License-Identifier: BSD-3-Clause
# The libraries and the program. One folder of sources belongs to exactly one product.

function(doppel_sources out)
	set(all)
	foreach(dir ${ARGN})
		file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${dir}/*.c)
		list(APPEND all ${found})
	endforeach()
	set(${out} ${all} PARENT_SCOPE)
endfunction()

# ---- libdoppel-rt: base, os, and in fake builds the engine and the world. One instance a process.
doppel_sources(rt_sources core/base core/os)
if(DOPPEL_FAKE)
	set(engine_floors base trace order memory faults run report life)
	list(TRANSFORM engine_floors PREPEND sim/engine/)
	doppel_sources(sim_sources ${engine_floors} sim/world sim/world/machine sim/world/program backends/sites)
	file(GLOB sim_asm CONFIGURE_DEPENDS
		${PROJECT_SOURCE_DIR}/sim/engine/base/*_${CMAKE_SYSTEM_PROCESSOR}.S)
	list(APPEND rt_sources ${sim_sources} ${sim_asm} ${PROJECT_SOURCE_DIR}/backends/peermem.c)
endif()
add_library(rt_objects OBJECT ${rt_sources})
target_link_libraries(rt_objects PUBLIC EXPAT::EXPAT Threads::Threads ${CMAKE_DL_LIBS})
target_compile_definitions(rt_objects PRIVATE
	DOPPEL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
add_library(doppel-rt SHARED $<TARGET_OBJECTS:rt_objects>)
target_link_libraries(doppel-rt PUBLIC EXPAT::EXPAT Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(doppel-rt PRIVATE -Wl,-z,nodelete) # a handler at exit is in it

# The rare paths and probes of a library are found by this object, which is in each of them
# (core/os/site.h). Part of the stack for tests/mutants, by its name.
add_library(core_site OBJECT ${PROJECT_SOURCE_DIR}/core/os/site_object.c)
set(site_object $<TARGET_OBJECTS:core_site>)

# ---- the GPU double
if(DOPPEL_GPU STREQUAL "fakecuda")
	set(fakecuda_folders entry runtime graph memory stream launch vmm pool ptx image)
	list(TRANSFORM fakecuda_folders PREPEND backends/fakecuda/)
	doppel_sources(fakecuda_sources backends/fakecuda ${fakecuda_folders})
	add_library(fakecuda SHARED ${fakecuda_sources} ${site_object})
	target_link_libraries(fakecuda PUBLIC doppel-rt PRIVATE m ${CMAKE_DL_LIBS})
	# emit.c has the text of lane.h in it
	set_source_files_properties(${PROJECT_SOURCE_DIR}/backends/fakecuda/ptx/emit.c PROPERTIES
		COMPILE_DEFINITIONS DOPPEL_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
		OBJECT_DEPENDS ${PROJECT_SOURCE_DIR}/backends/fakecuda/ptx/lane.h)
	set(DOPPEL_GPU_LIB fakecuda)
else()
	include(cmake/cuda.cmake)
endif()

# ---- the HCA double
if(DOPPEL_RDMA STREQUAL "fakeverbs")
	set(fakeverbs_floors arena objects checks queues transport entry context fabric)
	list(TRANSFORM fakeverbs_floors PREPEND backends/fakeverbs/)
	doppel_sources(fakeverbs_sources ${fakeverbs_floors})
	add_library(fakeverbs_objects OBJECT ${fakeverbs_sources})
	target_link_libraries(fakeverbs_objects PUBLIC doppel-rt)
	add_library(fakeverbs SHARED $<TARGET_OBJECTS:fakeverbs_objects> ${site_object})
	target_link_libraries(fakeverbs PUBLIC doppel-rt)
	set(DOPPEL_RDMA_LIB fakeverbs)
	include(dropin/dropin.cmake)
else()
	doppel_sources(verbs_sources backends/verbs)
	add_library(verbs_thunks STATIC ${verbs_sources})
	target_link_libraries(verbs_thunks PUBLIC doppel-rt)
	set(DOPPEL_RDMA_LIB verbs_thunks)
endif()

# ---- libdoppel: the stack. Topology and the choice of programs are an object library of their own:
# `doppel topo`, `doppel tune` and the unit tests use it directly, and it depends on nothing but base
# and os.
set(topo_folders model detect search connect)
list(TRANSFORM topo_folders PREPEND core/topo/)
doppel_sources(topo_sources core/topo ${topo_folders} core/algo core/tune)
add_library(core_topo OBJECT ${topo_sources})
target_link_libraries(core_topo PUBLIC doppel-rt)
# What the drivers have of a GPU, for `doppel topo detect` too.
doppel_sources(detect_sources core/detect)
add_library(core_detect OBJECT ${detect_sources})
target_link_libraries(core_detect PUBLIC doppel-rt ${DOPPEL_GPU_LIB})
set(transport_folders base net_verbs net_socket net_plugin collnet local registered conn)
list(TRANSFORM transport_folders PREPEND core/transport/)
doppel_sources(core_sources core/api core/api/windows core/bootstrap core/comm core/mem core/plan core/plugin core/profiler core/proxy core/proxy/relay core/rank core/ras core/ras/watch
	core/transport core/tuner ${transport_folders})
add_library(core_host OBJECT ${core_sources})
target_link_libraries(core_host PUBLIC doppel-rt ${DOPPEL_GPU_LIB} ${DOPPEL_RDMA_LIB})

# What core may not call of CUDA, NVML and verbs is poisoned: the list is backends/INTERFACE.md.
set(poison_header ${PROJECT_BINARY_DIR}/poison.h)
if(DOPPEL_GPU STREQUAL "fakecuda")
	set(cuda_header_dir ${PROJECT_SOURCE_DIR}/backends/fakecuda/include)
else()
	set(cuda_header_dir ${CUDAToolkit_INCLUDE_DIRS})
	list(GET cuda_header_dir 0 cuda_header_dir)
endif()
set(poisoned_headers ${cuda_header_dir}/cuda_runtime_api.h ${cuda_header_dir}/cuda.h
	${VERBS_INCLUDE}/infiniband/verbs.h)
add_custom_command(OUTPUT ${poison_header}
	COMMAND ${PROJECT_SOURCE_DIR}/cmake/poison.sh ${PROJECT_SOURCE_DIR}/backends/INTERFACE.md
		${poison_header} ${poisoned_headers}
	DEPENDS ${PROJECT_SOURCE_DIR}/cmake/poison.sh ${PROJECT_SOURCE_DIR}/backends/INTERFACE.md
		${poisoned_headers}
	VERBATIM)
add_custom_target(poison DEPENDS ${poison_header})
target_include_directories(core_topo PRIVATE ${cuda_header_dir}) # core/algo reads struct ncclComm
foreach(target core_host core_topo core_detect)
	add_dependencies(${target} poison)
	target_compile_options(${target} PRIVATE -include ${poison_header})
endforeach()

if(DOPPEL_GPU STREQUAL "fakecuda")
	# Device code is one translation unit, built once per warp width, symbols static.
	foreach(width 1 32)
		add_library(core_device_w${width} OBJECT ${PROJECT_SOURCE_DIR}/core/device/kernels/kernels.c)
		target_compile_definitions(core_device_w${width} PRIVATE DEV_WARP_WIDTH=${width})
		target_link_libraries(core_device_w${width} PUBLIC doppel-rt fakecuda)
	endforeach()
	add_library(core_device OBJECT ${PROJECT_SOURCE_DIR}/core/device/kernels/table.c)
	target_link_libraries(core_device PUBLIC doppel-rt)
	set(core_device_objects $<TARGET_OBJECTS:core_device_w1> $<TARGET_OBJECTS:core_device_w32>
		$<TARGET_OBJECTS:core_device>)
else()
	set(core_device_objects $<TARGET_OBJECTS:core_device_cuda>)
endif()

# ---- the lab, for the program, the tests and the benches
if(DOPPEL_FAKE)
	doppel_sources(lab_sources sim/lab/check sim/lab/run sim/lab/program sim/lab/family
		sim/lab/life sim/lab/queries sim/lab/plugin sim/lab/scene sim/lab/search sim/lab/explore)
	# the commit, in one object; asked at every build, compiled when it changed
	set(commit_source ${PROJECT_BINARY_DIR}/commit.c)
	add_custom_target(commit BYPRODUCTS ${commit_source}
		COMMAND ${PROJECT_SOURCE_DIR}/cmake/commit.sh ${PROJECT_SOURCE_DIR} ${commit_source}
		VERBATIM)
	add_library(lab STATIC ${lab_sources} ${commit_source})
	add_dependencies(lab commit)
	set_source_files_properties(${PROJECT_SOURCE_DIR}/sim/lab/plugin/net_plugin_tables.c
		${PROJECT_SOURCE_DIR}/sim/lab/plugin/collnet_plugin.c
		${PROJECT_SOURCE_DIR}/sim/lab/plugin/collnet_plugin_memory.c
		PROPERTIES COMPILE_DEFINITIONS "PLUG_V12;PLUG_GPU;PLUG_NAME=\"lab\"")
	target_link_libraries(lab PUBLIC doppel-rt ${DOPPEL_GPU_LIB} ${DOPPEL_RDMA_LIB} m)
	# lab_plugins_export(TARGET): a program that runs --plugins takes the tables of the lab's plugins from
	# the archive and exports them (the setting STATIC_PLUGIN); other programs have none
	function(lab_plugins_export target)
		foreach(table ncclTunerPlugin_v6 ncclProfiler_v7 ncclNetPlugin_v12
				ncclCollNetPlugin_v12)
			target_link_options(${target} PRIVATE -Wl,-u,${table} -Wl,--export-dynamic-symbol=${table})
		endforeach()
	endfunction()
endif()

set(export_map ${PROJECT_SOURCE_DIR}/core/api/exports.map)
add_library(doppel SHARED $<TARGET_OBJECTS:core_host> $<TARGET_OBJECTS:core_topo>
	$<TARGET_OBJECTS:core_detect>
	${core_device_objects} ${site_object})
target_link_libraries(doppel PUBLIC doppel-rt ${DOPPEL_GPU_LIB} ${DOPPEL_RDMA_LIB})
target_link_options(doppel PRIVATE -Wl,--version-script=${export_map})
if(NOT DOPPEL_FLAVOUR MATCHES "asan|tsan")
	target_link_options(doppel PRIVATE -Wl,-z,defs) # whatever it calls is there
endif()
set_target_properties(doppel PROPERTIES LINK_DEPENDS ${export_map} LINKER_LANGUAGE C)

# ---- libnccl.so.2: the same objects under the name that programs look for. A library of its own: a
# program that knows nothing of worlds is given one by it (backends/nccl), and ours make their own.
add_library(nccl SHARED $<TARGET_OBJECTS:core_host> $<TARGET_OBJECTS:core_topo>
	$<TARGET_OBJECTS:core_detect>
	${core_device_objects} ${site_object})
if(DOPPEL_GPU STREQUAL "fakecuda" AND DOPPEL_RDMA STREQUAL "fakeverbs")
	doppel_sources(nccl_sources backends/nccl)
	target_sources(nccl PRIVATE ${nccl_sources})
endif()
target_link_libraries(nccl PUBLIC doppel-rt ${DOPPEL_GPU_LIB} ${DOPPEL_RDMA_LIB})
target_link_options(nccl PRIVATE -Wl,--version-script=${export_map})
set_target_properties(nccl PROPERTIES SOVERSION 2 LINK_DEPENDS ${export_map} LINKER_LANGUAGE C)

# ---- libnccl-net-doppel.so: the networks of core/transport as a net plugin, for NCCL. Takes from the
# archive what it needs, and shows nothing but its tables.
add_library(core_archive STATIC $<TARGET_OBJECTS:core_host> $<TARGET_OBJECTS:core_topo>
	$<TARGET_OBJECTS:core_detect>)
set(net_map ${PROJECT_SOURCE_DIR}/plugins/net/exports.map)
doppel_sources(net_sources plugins/net)
add_library(nccl-net-doppel SHARED ${net_sources} ${site_object})
target_link_libraries(nccl-net-doppel PRIVATE core_archive doppel-rt ${DOPPEL_GPU_LIB} ${DOPPEL_RDMA_LIB})
target_include_directories(nccl-net-doppel PRIVATE ${cuda_header_dir})
target_link_options(nccl-net-doppel PRIVATE -Wl,--version-script=${net_map})
if(NOT DOPPEL_FLAVOUR MATCHES "asan|tsan")
	target_link_options(nccl-net-doppel PRIVATE -Wl,-z,defs)
endif()
set_target_properties(nccl-net-doppel PROPERTIES LINK_DEPENDS ${net_map})

# ---- doppel, the program
if(DOPPEL_FAKE)
	doppel_sources(cli_sources sim/cli sim/cli/cc sim/cli/run sim/cli/topo)
	doppel_sources(cli_report_sources sim/cli/report)
	add_library(cli_report OBJECT ${cli_report_sources})
	# it has the page's style and script in it
	set_source_files_properties(${PROJECT_SOURCE_DIR}/sim/cli/report/report_page.c PROPERTIES
		COMPILE_DEFINITIONS DOPPEL_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
		OBJECT_DEPENDS "${PROJECT_SOURCE_DIR}/sim/cli/report/report.css;${PROJECT_SOURCE_DIR}/sim/cli/report/report.js")
	if(DOPPEL_RDMA STREQUAL "fakeverbs")
		doppel_sources(verbs_run_sources dropin/cli)
		list(APPEND cli_sources ${verbs_run_sources})
	endif()
	add_executable(doppel-cli ${cli_sources} $<TARGET_OBJECTS:cli_report> $<TARGET_OBJECTS:core_topo> $<TARGET_OBJECTS:core_detect>)
	set_target_properties(doppel-cli PROPERTIES OUTPUT_NAME doppel)
	target_link_libraries(doppel-cli PRIVATE lab doppel ${DOPPEL_GPU_LIB} ${DOPPEL_RDMA_LIB} doppel-rt)
	add_custom_command(TARGET doppel-cli POST_BUILD
		COMMAND ${CMAKE_COMMAND} -E create_symlink doppel doppel-nvcc
		WORKING_DIRECTORY $<TARGET_FILE_DIR:doppel-cli>)
	# ELF symbols in the dynamic table, so that backtraces name functions.
	set_target_properties(doppel-cli PROPERTIES ENABLE_EXPORTS ON)
	lab_plugins_export(doppel-cli)
endif()

# ---- plugins: libraries that NCCL loads, too. They are compiled from the interface alone.
add_library(nccl-profiler-chrome SHARED ${PROJECT_SOURCE_DIR}/plugins/chrome/chrome.c)
target_link_libraries(nccl-profiler-chrome PRIVATE Threads::Threads)
