/* SPDX-License-Identifier: BSD-3-Clause */
/* The only code that libnccl.so.2 has and libdoppel.so has not: its first call may create a
 * world. */
#include "core/os/os_ops.h"
#include "sim/world/program/world_guest.h"

__attribute__((constructor)) static void nccl_load(void)
{
	os_on_first_call(world_guest_begin);
}

__attribute__((destructor)) static void nccl_unload(void)
{
	world_guest_end();
}
