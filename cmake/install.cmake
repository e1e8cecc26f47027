# SPDX-License-Identifier: BSD-3-Clause
# cmake --install BUILD --prefix P: what a program of one's own needs. Any prefix, DESTDIR, any user;
# the result may be moved. `--target products` builds all that is installed, and no test.
#
#   P/bin/doppel doppel-nvcc         the program (presets with a double), and a link to it
#   P/lib/libnccl.so.2 libnccl.so    the stack, for -lnccl
#   P/lib/libcudart.so               a link to libfakecuda.so, for -lcudart (double of the GPU)
#   P/lib/libdoppel*.so libfake*.so  what these two need, and the program
#   P/lib/libnccl-net-doppel.so      our networks as a net plugin, for NCCL
#   P/lib/doppel/driver              libnvidia-ml.so.1, a link to libfakecuda.so, for programs that load it
#   P/lib/doppel/verbs               the drop-in libibverbs.so.1, librdmacm.so.1 and libmlx5.so.1
#   P/lib/pkgconfig P/lib/cmake      doppel.pc, DoppelConfig.cmake (Doppel::nccl, Doppel::cudart)
#   P/include                        nccl.h and its parts, and the CUDA headers of the double
#   P/share/doppel                   machines, gdb commands
#   P/share/man, bash-completion     doppel.1, completion of doppel
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(libdir ${CMAKE_INSTALL_LIBDIR})
file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")

set(products doppel-rt doppel nccl nccl-net-doppel)
foreach(target fakecuda fakeverbs cuda_peermem)
	if(TARGET ${target})
		list(APPEND products ${target})
	endif()
endforeach()
# The path is the installed one from the beginning: one that CMake rewrites is padded with an empty
# folder, which is the current one.
set_target_properties(${products} PROPERTIES INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)
install(TARGETS ${products} LIBRARY DESTINATION ${libdir})

install(TARGETS nccl-profiler-chrome LIBRARY DESTINATION ${libdir})

set(dropins)
foreach(target dropin rdmacm mlx5dv)
	if(TARGET ${target})
		list(APPEND dropins ${target})
	endif()
endforeach()
if(dropins)
	set_target_properties(${dropins} PROPERTIES INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)
	install(TARGETS ${dropins} LIBRARY DESTINATION ${libdir}/doppel/verbs NAMELINK_SKIP)
endif()

# ---- headers, and what a program links
install(FILES core/include/nccl.h core/include/nccl_types.h core/include/nccl_device.h
	DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY core/include/nccl_device DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(DOPPEL_GPU STREQUAL "fakecuda")
	install(DIRECTORY backends/fakecuda/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
	# libfakecuda.so keeps its soname: a program made for the double never loads CUDA by accident
	add_custom_command(TARGET fakecuda POST_BUILD
		COMMAND ${CMAKE_COMMAND} -E create_symlink libfakecuda.so libcudart.so
		WORKING_DIRECTORY $<TARGET_FILE_DIR:fakecuda>)
	install(FILES ${PROJECT_BINARY_DIR}/libcudart.so DESTINATION ${libdir})
	# programs load NVML and verbs by these names; `doppel exec` adds the folder to their path
	file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/driver)
	file(RELATIVE_PATH driver_to_lib /${libdir}/doppel/driver /${libdir})
	# name, target in the build tree, target in an installation
	set(driver_links libnvidia-ml.so.1 ../libfakecuda.so ${driver_to_lib}libfakecuda.so)
	if(TARGET fakeverbs)
		foreach(name libibverbs.so libibverbs.so.1)
			list(APPEND driver_links ${name} ../libfakeverbs.so ${driver_to_lib}libfakeverbs.so)
		endforeach()
	endif()
	if(TARGET mlx5dv)
		foreach(name libmlx5.so libmlx5.so.1)
			list(APPEND driver_links ${name} ../verbs/libmlx5.so.1 ../verbs/libmlx5.so.1)
		endforeach()
	endif()
	while(driver_links)
		list(POP_FRONT driver_links name to installed_to)
		add_custom_command(TARGET fakecuda POST_BUILD
			COMMAND ${CMAKE_COMMAND} -E create_symlink ${to} driver/${name}
			WORKING_DIRECTORY $<TARGET_FILE_DIR:fakecuda>)
		install(CODE "file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${libdir}/doppel/driver\")
			file(CREATE_LINK ${installed_to}
				\"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${libdir}/doppel/driver/${name}\" SYMBOLIC)")
	endwhile()
	set(cuda_cflags)
	set(cuda_libs "-lcudart")
	set(cuda_dependency "add_library(Doppel::cudart SHARED IMPORTED)
set_target_properties(Doppel::cudart PROPERTIES
	IMPORTED_LOCATION \${PACKAGE_PREFIX_DIR}/${libdir}/libfakecuda.so
	IMPORTED_SONAME libfakecuda.so
	INTERFACE_INCLUDE_DIRECTORIES \${PACKAGE_PREFIX_DIR}/${CMAKE_INSTALL_INCLUDEDIR})")
else()
	list(GET CUDAToolkit_INCLUDE_DIRS 0 cuda_include)
	set(cuda_cflags " -I${cuda_include}")
	set(cuda_libs "-L${CUDAToolkit_LIBRARY_DIR} -Wl,-rpath,${CUDAToolkit_LIBRARY_DIR} -lcudart")
	set(cuda_dependency "find_dependency(CUDAToolkit)
add_library(Doppel::cudart INTERFACE IMPORTED)
target_link_libraries(Doppel::cudart INTERFACE CUDA::cudart)")
endif()
# one of the installation, and one of the build folder itself, which may be moved with its sources
set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
set(pc_includes "-I\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
configure_file(cmake/doppel.pc.in installed/doppel.pc @ONLY)
file(RELATIVE_PATH pc_to_prefix ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
set(pc_libdir "\${pcfiledir}")
set(pc_includes "-I\${prefix}/core/include")
if(DOPPEL_GPU STREQUAL "fakecuda")
	string(APPEND pc_includes " -I\${prefix}/backends/fakecuda/include")
endif()
configure_file(cmake/doppel.pc.in doppel.pc @ONLY)
configure_package_config_file(cmake/DoppelConfig.cmake.in DoppelConfig.cmake
	INSTALL_DESTINATION ${libdir}/cmake/Doppel)
write_basic_package_version_file(DoppelConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/installed/doppel.pc DESTINATION ${libdir}/pkgconfig)
install(FILES ${PROJECT_BINARY_DIR}/DoppelConfig.cmake ${PROJECT_BINARY_DIR}/DoppelConfigVersion.cmake
	DESTINATION ${libdir}/cmake/Doppel)
install(FILES LICENSE docs/using.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES examples/all_reduce.c examples/hosts.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(FILES docs/cuda/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/cuda)
install(DIRECTORY examples/cuda DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
	FILES_MATCHING PATTERN "*.cu")

add_custom_target(products)
add_dependencies(products ${products} ${dropins})

# ---- the program
if(TARGET doppel-cli)
	set_target_properties(doppel-cli PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/${bin_to_lib}"
		BUILD_WITH_INSTALL_RPATH ON)
	install(TARGETS doppel-cli)
	install(FILES ${PROJECT_BINARY_DIR}/doppel-nvcc TYPE BIN)
	install(DIRECTORY sim/world/machines DESTINATION ${CMAKE_INSTALL_DATADIR}/doppel)
	install(DIRECTORY sim/gdb DESTINATION ${CMAKE_INSTALL_DATADIR}/doppel
		FILES_MATCHING PATTERN "*.py")
	install(FILES sim/cli/completion.bash RENAME doppel
		DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
	add_dependencies(products doppel-cli)
	if(NOT CMAKE_CROSSCOMPILING) # the program is run
		set(man_page ${PROJECT_BINARY_DIR}/doppel.1)
		add_custom_command(OUTPUT ${man_page} DEPENDS doppel-cli cmake/man.sh
			COMMAND ${PROJECT_SOURCE_DIR}/cmake/man.sh $<TARGET_FILE:doppel-cli> ${man_page}
			VERBATIM)
		add_custom_target(man ALL DEPENDS ${man_page})
		add_dependencies(products man)
		install(FILES ${man_page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
	endif()
endif()
