/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults of a GPU and its libraries. backends/fakecuda visits these sites; the schedulers visit
 * cuda.warp. */
#include "backends/sites/cuda_calls.h"
#include "sim/engine/faults/site_table.h"

/* Reasons why no run of the lab reaches a site. */
#define IDLE_COPY   "the stack moves data by kernels, the lab by cudaMemcpyAsync"
#define IDLE_LAUNCH "the stack launches by cudaLaunchKernelExC, on the caller's stream"
#define IDLE_RESET  "neither stack nor lab resets a device that others use"
#define IDLE_GRAPH  "only runs with CUDA graphs (-G) capture and launch them"
#define IDLE_GRAPHS "neither stack nor lab builds or changes a graph node by node"
#define IDLE_DRIVER "the stack uses the runtime; the driver's calls are there for programs"

#define CUDA_CALL(site, call, usual, ...)                                                          \
	{.name = (site),                                                                           \
	 .what = (call),                                                                           \
	 .action = {{.name = "fail",                                                               \
		     .kind = OS_FAULT_FAIL,                                                        \
		     .what = "returns the error",                                                  \
		     .param = {{"error", FAULT_CUDA, usual, 0, 0}}},                               \
		    {.name = "sticky",                                                             \
		     .kind = OS_FAULT_STICKY,                                                      \
		     .what = "the context is dead: kernels end, all calls return the error",       \
		     .param = {{"error", FAULT_CUDA, 700, 0, 0}}}},                                \
	 __VA_ARGS__},

#define NVML_CALL(site, call, usual, ...)                                                          \
	{.name = (site),                                                                           \
	 .what = (call),                                                                           \
	 .action = {{.name = "fail",                                                               \
		     .kind = OS_FAULT_FAIL,                                                        \
		     .what = "returns the error, an nvmlReturn_t",                                 \
		     .param = {{"error", FAULT_NUMBER, usual, 1, 999}}}},                          \
	 __VA_ARGS__},

static const struct fault_site fault_sites_cuda[] = {
	FAULT_CUDA_CALLS(CUDA_CALL){.name = "cuda.kernel",
				    .what = "a launch",
				    .action = {{.name = "delay",
						.kind = OS_FAULT_DELAY,
						.what = "it starts later",
						.param = {{"by", FAULT_TIME, 1000000, 0, 0}}}}},
	{.name = "cuda.block",
	 .what = "a block of a kernel that gets its SM; its number is the channel",
	 .action = {{.name = "delay",
		     .kind = OS_FAULT_DELAY,
		     .what = "it starts later",
		     .param = {{"by", FAULT_TIME, 1000000, 0, 0}}},
		    {.name = "hold",
		     .kind = OS_FAULT_HOLD,
		     .what = "it starts when the launch's other blocks have ended"}}},
	{.name = "cuda.warp",
	 .what = "a call or a wait of device code",
	 .action = {{.name = "starve",
		     .kind = OS_FAULT_STARVE,
		     .what = "the warp does not run for a time",
		     .param = {{"by", FAULT_TIME, 100000, 0, 0}}}}},
	{.name = "cuda.copy",
	 .what = "a copy or a fill that begins",
	 .action = {{.name = "slow",
		     .kind = OS_FAULT_SLOW,
		     .what = "runs at a fraction of the bandwidth",
		     .param = {{"by", FAULT_NUMBER, 10, 1, 1000000}}},
		    {.name = "delay",
		     .kind = OS_FAULT_DELAY,
		     .what = "it ends later",
		     .param = {{"by", FAULT_TIME, 100000, 0, 0}}}}},
	{.name = "cuda.host_func",
	 .idle = IDLE_LAUNCH,
	 .what = "a host callback that is next in its stream",
	 .action = {{.name = "delay",
		     .kind = OS_FAULT_DELAY,
		     .what = "it starts later",
		     .param = {{"by", FAULT_TIME, 1000000, 0, 0}}}}},
	{.name = NULL},
};
FAULT_SITES_JOIN(cuda)

static const struct fault_site fault_sites_nvml[] = {
	FAULT_NVML_CALLS(NVML_CALL){.name = NULL},
};
FAULT_SITES_JOIN(nvml)
