/* SPDX-License-Identifier: BSD-3-Clause */
/* The one thing in libnccl.so.2 that libdoppel.so has not: its first call may begin a world. */
#include "core/os/os_ops.h"
#include "sim/world/guest.h"

__attribute__((constructor)) static void nccl_load(void)
{
	os_on_first_call(world_guest_begin);
}

__attribute__((destructor)) static void nccl_unload(void)
{
	world_guest_end();
}
