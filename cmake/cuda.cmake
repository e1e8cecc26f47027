# SPDX-License-Identifier: BSD-3-Clause
# Real GPUs: the CUDA Toolkit behind the stack. Included by products.cmake when DOPPEL_GPU is cuda.
#
#   cuda_thunks        driver and NVML calls resolved at run time; brings the static runtime along.
#                      Hidden: whoever links it has its own, and loads where there is no driver
#   core_device_cuda   the kernels and their table, for libdoppel
#   cuda_peermem       GPU memory for the HCA double (only with fakeverbs)
#   cuda_backend       DOPPEL_GPU_LIB: what others link
set(DOPPEL_CUDA_ARCH 90 CACHE STRING "compute capabilities to build kernels for, code and PTX: 90;100")
set(CMAKE_CUDA_ARCHITECTURES ${DOPPEL_CUDA_ARCH})
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
	find_program(DOPPEL_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
	if(NOT DOPPEL_NVCC)
		message(FATAL_ERROR "DOPPEL_GPU is cuda and there is no nvcc: install the CUDA Toolkit, or set CMAKE_CUDA_COMPILER")
	endif()
	set(CMAKE_CUDA_COMPILER ${DOPPEL_NVCC})
endif()
enable_language(CUDA)
find_package(CUDAToolkit 12.4 REQUIRED)
set(CMAKE_CUDA_STANDARD 17)
# --split-compile: the kernels are compiled by all cores.
# -fmad=false: no contraction, as on the host. The host half of a .cu file needs no C++ runtime: the
# libraries are linked as C.
set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -fmad=false --split-compile=0 -Werror all-warnings -Xcompiler=-Wall,-Wextra,-Werror,-Wno-unused-parameter,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics")
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O3 -lineinfo -Xcompiler=-g")

include_directories(BEFORE ${PROJECT_SOURCE_DIR}/backends/cuda/include)
include_directories(SYSTEM ${CUDAToolkit_INCLUDE_DIRS})

add_library(cuda_thunks STATIC ${PROJECT_SOURCE_DIR}/backends/cuda/driver.c
	${PROJECT_SOURCE_DIR}/backends/cuda/nvml.c)
target_link_libraries(cuda_thunks PUBLIC CUDA::cudart_static ${CMAKE_DL_LIBS})
target_link_options(cuda_thunks INTERFACE -Wl,--exclude-libs,libcudart_static.a:libcuda_thunks.a)

add_library(cuda_backend INTERFACE)
target_link_libraries(cuda_backend INTERFACE cuda_thunks doppel-rt)
if(DOPPEL_RDMA STREQUAL "fakeverbs")
	add_library(cuda_peermem SHARED ${PROJECT_SOURCE_DIR}/backends/cuda/peermem_cuda.c)
	target_link_libraries(cuda_peermem PRIVATE cuda_thunks doppel-rt)
	# Nobody calls it: it registers itself when it is loaded.
	target_link_libraries(cuda_backend INTERFACE -Wl,--push-state,--no-as-needed cuda_peermem
		-Wl,--pop-state)
endif()
set(DOPPEL_GPU_LIB cuda_backend)

add_library(core_device_cuda OBJECT ${PROJECT_SOURCE_DIR}/core/device/kernels/kernels.cu
	${PROJECT_SOURCE_DIR}/core/device/kernels/table.c)
target_link_libraries(core_device_cuda PUBLIC doppel-rt)
