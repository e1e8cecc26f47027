/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CUDA state of the task that calls NCCL: the current device, the last error and the mode of
 * captures. A call leaves all three as they were. The program has a mode of its own, and has
 * enabled access between the GPUs of its process before its first communicator.
 */
#include <cuda_runtime_api.h>
#include <string.h>

#include "sim/lab/run/runner_internal.h"

static bool cuda_state_on(const struct lab_rank *me)
{
	return me->run->config->cuda_state && !me->run->armed;
}

/* Half of the programs enable access. A GPU has none to itself, and to some it is not possible. */
static void cuda_state_access(const struct lab_rank *me)
{
	const struct lab_run *run = me->run;
	int can;

	for (int32_t r = 0; r < run->count; r++) {
		const struct lab_rank *it = &run->rank[r];

		if (it->proc != me->proc || it->device == me->device)
			continue;
		if (cudaDeviceCanAccessPeer(&can, me->device, it->device) == cudaSuccess && can)
			(void)cudaDeviceEnablePeerAccess(it->device, 0);
	}
	(void)cudaGetLastError();
}

void lab_cuda_state_start(struct lab_rank *me)
{
	struct sim_rng rng;

	if (!cuda_state_on(me))
		return;
	sim_rng_seed(&rng, me->run->config->sim.seed, "lab.cuda_state");
	bool access = sim_rng_below(&rng, 2);
	enum cudaStreamCaptureMode mode =
		(enum cudaStreamCaptureMode)((sim_rng_below(&rng, 3) + (uint64_t)me->rank) % 3);

	if (access)
		cuda_state_access(me);
	(void)cudaThreadExchangeStreamCaptureMode(&mode);
}

static int32_t cuda_state_mode(void)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed, other;

	(void)cudaThreadExchangeStreamCaptureMode(&mode);
	other = mode;
	(void)cudaThreadExchangeStreamCaptureMode(&other);
	return (int32_t)mode;
}

static void cuda_state_check(const struct lab_rank *me, const char *what, int32_t before,
			     int32_t now)
{
	if (before == now)
		return;
	lab_judge(me, SIM_ERROR, "error", "%s changed %s from %d to %d", me->cuda_call, what,
		  before, now);
}

/* A program that makes an init fail may use another device in that. */
void lab_cuda_state(struct lab_rank *me, const char *call)
{
	int device = -1;

	if (!cuda_state_on(me))
		return;
	int32_t error = (int32_t)cudaPeekAtLastError(), mode = cuda_state_mode();

	(void)cudaGetDevice(&device);
	/* a rank's watch may end its call */
	if (!call && me->cuda_call && me->cuda_task == os_self()) {
		cuda_state_check(me, "the current device", me->cuda_device, device);
		cuda_state_check(me, "the last error", me->cuda_error, error);
		cuda_state_check(me, "the mode of captures", me->cuda_mode, mode);
	}
	me->cuda_call =
		call && !strncmp(call, "nccl", 4) && !strstr(call, "that fails") ? call : NULL;
	me->cuda_task = os_self();
	me->cuda_device = device;
	me->cuda_mode = mode;
	me->cuda_error = error;
}
