/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUDA's error state. The last error and the current device belong to the calling thread, sticky
 * errors to the context (fc_ctx.sticky). The values of a thread are packed in its slot, so a thread
 * needs no allocation and its end no hook.
 */
#include "backends/fakecuda/fakecuda.h"

#include <ctype.h>
#include <string.h>

#define TASK_ERROR_SHIFT 16
#define TASK_DEVICE_MASK 0xffffu
#define TASK_MODE_SHIFT  48 /* position of the capture mode */
#define TASK_MODE_MASK   3u
#define TASK_CONTEXT     (1ull << 50) /* a context is current: the device's */

int32_t fc_task_device(void)
{
	return (int32_t)((uintptr_t)os_self()->slot[OS_SLOT_CUDA] & TASK_DEVICE_MASK);
}

cudaError_t fc_task_error(void)
{
	return (cudaError_t)(uint32_t)((uintptr_t)os_self()->slot[OS_SLOT_CUDA] >>
				       TASK_ERROR_SHIFT);
}

enum cudaStreamCaptureMode fc_task_mode(void)
{
	return (enum cudaStreamCaptureMode)(
		(uintptr_t)os_self()->slot[OS_SLOT_CUDA] >> TASK_MODE_SHIFT & TASK_MODE_MASK);
}

bool fc_task_has_context(void)
{
	return (uintptr_t)os_self()->slot[OS_SLOT_CUDA] & TASK_CONTEXT;
}

/* Replaces the bits of `mask` by `bits`. */
static void task_pack(uintptr_t mask, uintptr_t bits)
{
	uintptr_t packed = (uintptr_t)os_self()->slot[OS_SLOT_CUDA];

	os_self()->slot[OS_SLOT_CUDA] = (void *)((packed & ~mask) | bits);
}

enum cudaStreamCaptureMode fc_task_exchange_mode(enum cudaStreamCaptureMode mode)
{
	enum cudaStreamCaptureMode before = fc_task_mode();

	task_pack((uintptr_t)TASK_MODE_MASK << TASK_MODE_SHIFT, (uintptr_t)mode << TASK_MODE_SHIFT);
	return before;
}

void fc_task_set_device(int32_t device)
{
	ASSERT(device >= 0 && (uint32_t)device <= TASK_DEVICE_MASK);
	task_pack(TASK_DEVICE_MASK | TASK_CONTEXT, (uintptr_t)device | TASK_CONTEXT);
}

void fc_task_drop_context(void)
{
	task_pack(TASK_CONTEXT, 0);
}

void fc_task_set_error(cudaError_t error)
{
	task_pack((uintptr_t)UINT32_MAX << TASK_ERROR_SHIFT, (uintptr_t)error << TASK_ERROR_SHIFT);
}

/* Returns the last error, and clears it if `clear`. Reading also clears a sticky error here, but
 * the next call returns it again. */
static cudaError_t task_last_error(bool clear)
{
	struct fc_proc *proc;
	(void)fc_enter_quiet("cudaGetLastError", &proc);
	cudaError_t last = fc_task_error();
	if (clear)
		fc_task_set_error(cudaSuccess);
	sim_events_drain();
	return last;
}

cudaError_t cudaGetLastError(void)
{
	return task_last_error(true);
}

cudaError_t cudaPeekAtLastError(void)
{
	return task_last_error(false);
}

/* ---- names ---------------------------------------------------------------------------------- */

struct error_name {
	int value;
	const char *name, *text;
};

static const struct error_name error_names[] = {
#define ERROR_NAME(constant, text) {constant, #constant, text},
#include "backends/fakecuda/error_names.def"
#undef ERROR_NAME
};

/* Texts made of names: "cudaErrorInvalidPitchValue" becomes "invalid pitch value". */
#define ERROR_WORDS_BYTES 96
static char error_words[ARRAY_LEN(error_names)][ERROR_WORDS_BYTES];

static __attribute__((constructor)) void error_words_make(void)
{
	for (size_t i = 0; i < ARRAY_LEN(error_names); i++) {
		const char *name = error_names[i].name + strlen("cuda");
		if (!strncmp(name, "Error", 5))
			name += 5;
		char *out = error_words[i];
		for (const char *c = name; *c; c++) {
			if (isupper((unsigned char)*c) && c != name)
				*out++ = ' ';
			*out++ = (char)tolower((unsigned char)*c);
		}
		ASSERT(out < error_words[i] + ERROR_WORDS_BYTES);
		*out = 0;
	}
}

const char *cudaGetErrorName(cudaError_t error)
{
	for (size_t i = 0; i < ARRAY_LEN(error_names); i++) {
		if (error_names[i].value == (int)error)
			return error_names[i].name;
	}
	return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
	for (size_t i = 0; i < ARRAY_LEN(error_names); i++) {
		if (error_names[i].value == (int)error)
			return error_names[i].text ? error_names[i].text : error_words[i];
	}
	return "unrecognized error code";
}
