/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Table of the environment variables of the doubles, of their worlds and of the drop-in, in the
 * form of core/base/param.h, which has the stack's variables. param_str and the other functions
 * accept these numbers, too.
 */
#ifndef SIM_WORLD_PARAMS_H
#define SIM_WORLD_PARAMS_H

#include "core/base/param.h"

/* clang-format off */
#define WORLD_PARAM_TABLE(X)                                                                       \
X(DOPPEL_MACHINE, "DOPPEL_MACHINE", STRING, NULL, 0, 0,                                            \
	"machine of the doubles without --machine: one of Doppel's own, or a topology XML")        \
X(DOPPEL_MACHINE_DIR, "DOPPEL_MACHINE_DIR", STRING, NULL, 0, 0,                                    \
	"folder of Doppel's own machines")                                                         \
X(DOPPEL_HCA_ATOMIC, "DOPPEL_HCA_ATOMIC", STRING, NULL, 0, 0,                                      \
	"atomics of the HCA doubles: hca (default), glob or none; NAME=... for one of them")       \
X(DOPPEL_HCA_FAST_PATH, "DOPPEL_HCA_FAST_PATH", STRING, "on", 0, 0,                                \
	"off: HCA doubles always send packets, as in a traced run; NAME=... for one of them")      \
X(DOPPEL_HCA_LINK, "DOPPEL_HCA_LINK", STRING, "up", 0, 0,                                          \
	"down: links of the HCA doubles are down from the start; NAME=down for one of them")       \
X(DOPPEL_HCA_ORDER, "DOPPEL_HCA_ORDER", STRING, "acknowledge", 0, 0,                               \
	"event that shows data of HCA doubles: acknowledge, completion (of a receive), or draw")   \
X(DOPPEL_HCA_ROUTING, "DOPPEL_HCA_ROUTING", STRING, "fixed", 0, 0,                                 \
	"adaptive: packets of a queue pair of the HCA doubles overtake each other; or draw")       \
X(DOPPEL_HOST_SHM, "DOPPEL_HOST_SHM", STRING, "host", 0, 0,                                        \
	"/dev/shm of the simulated hosts: one for the host, or one for each process (process)")    \
X(DOPPEL_INTERFACES, "DOPPEL_INTERFACES", STRING, "eth0", 0, 0,                                    \
	"network interfaces of each host in the order of the system, as docker0,eth0,ib0")         \
X(DOPPEL_HOST, "DOPPEL_HOST", INT, "0", 0, 3,                                                      \
	"drop-in: index of the host that a program runs on")                                       \
X(DOPPEL_FABRIC, "DOPPEL_FABRIC", STRING, "default", 0, 0,                                         \
	"drop-in: programs with the same fabric name reach each other")                            \
X(DOPPEL_ENGINE, "DOPPEL_ENGINE", STRING, "sim", 0, 0,                                             \
	"exec: the engine that runs the program, sim or threads")                                  \
X(DOPPEL_FAULTS, "DOPPEL_FAULTS", STRING, NULL, 0, 0,                                              \
	"drop-in and exec: file with a fault plan; exec: or random")                               \
X(DOPPEL_TRACE, "DOPPEL_TRACE", STRING, NULL, 0, 0, "drop-in and exec: file for the trace")        \
X(DOPPEL_SEED, "DOPPEL_SEED", INT, "1", 0, INT64_MAX,                                              \
	"drop-in and exec: seed of the random choices")                                            \
X(DOPPEL_EXEC, "DOPPEL_EXEC", BOOL, "0", 0, 1, "exec: set for the program that it starts")         \
X(DOPPEL_JOB, "DOPPEL_JOB", STRING, NULL, 0, 0,                                                    \
	"exec --procs: place of the program in its job, as PROCESS/PROCESSES/HOST/HOSTS; set for " \
	"the programs that it starts")                                                             \
X(DOPPEL_RAS_DUMP, "DOPPEL_RAS_DUMP", INT, "0", 0, 86400,                                          \
	"exec: seconds after which the answer of RAS to DUMP is printed; 0: never")                \
X(DOPPEL_LEAKS, "DOPPEL_LEAKS", BOOL, "0", 0, 1,                                                   \
	"drop-in: report open objects at exit; exec: open objects fail the run")                   \
X(DOPPEL_CUDA_WAITS, "DOPPEL_CUDA_WAITS", BOOL, "0", 0, 1,                                         \
	"GPU double: calls that may wait for kernels (INTERFACE.md) always wait")                  \
X(DOPPEL_GPU_RDMA, "DOPPEL_GPU_RDMA", STRING, "both", 0, 0,                                        \
	"how HCAs can register memory of the GPU double: dmabuf, peermem, both or none")           \
X(DOPPEL_WARP, "DOPPEL_WARP", INT, "1", 1, 32, "warp width of the GPU double: 1 or 32")            \
X(DOPPEL_HCA_PERSONALITY, "DOPPEL_HCA_PERSONALITY", STRING, "spec", 0, 0,                          \
	"how the HCA double behaves where HCAs differ: spec, mlx5, mlx5-ib, rxe, or a list of "    \
	"these, one for each port in turn")                                                        \
X(DOPPEL_VERBS_CHECK, "DOPPEL_VERBS_CHECK", STRING, NULL, 0, 0,                                    \
	"rules of the verbs sanitizer: -NAME silences one, NAME=warn or NAME=fail; all, none, "    \
	"warn (docs/verbs/sanitizer.md)")                                                          \
X(DOPPEL_HCA_PKEYS, "DOPPEL_HCA_PKEYS", STRING, NULL, 0, 0,                                        \
	"P_Key table of the HCA double, as 0xffff,0x8001; default: 0xffff alone")
/* clang-format on */

enum world_param { WORLD_PARAM_BEFORE = PARAM_COUNT - 1, WORLD_PARAM_TABLE(PARAM_ENUM) };

#endif
