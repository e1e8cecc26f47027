/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/transport/base/step_bytes.h"

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/device/layout/steps.h"
#include "core/os/os.h"

/* The variable that sets the buffer size of the protocol. */
static enum param transport_buffer_param(enum dev_proto proto)
{
	static const enum param buffer[] = {
		[DEV_SIMPLE] = PARAM_BUFFSIZE,
		[DEV_LL] = PARAM_LL_BUFFSIZE,
		[DEV_LL128] = PARAM_LL128_BUFFSIZE,
	};

	DOPPEL_STATIC_CHECK(ARRAY_LEN(buffer) == DEV_PROTO_COUNT, "a variable for each protocol");
	return buffer[proto];
}

/* Logs one line if `set`, the variable's value, is outside of `least` to `most` bytes per step. */
static void transport_buffer_check(enum param p, uint64_t set, uint32_t step, uint64_t least,
				   uint64_t most)
{
	if (set >= least * DEV_STEPS && set / DEV_STEPS <= most)
		return;
	if (param_warns(p))
		WARN("%s is %llu, expected %llu to %llu bytes; %llu are used", param_name(p),
		     (unsigned long long)set, (unsigned long long)least * DEV_STEPS,
		     (unsigned long long)most * DEV_STEPS, (unsigned long long)step * DEV_STEPS);
}

uint32_t transport_step_bytes(enum dev_proto proto)
{
	uint32_t data = steps_data_bytes((int)proto, 16); /* data bytes in 16 bytes of a line */
	uint32_t grain = steps_grain_bytes((int)proto) * 16 / data;
	enum param p = transport_buffer_param(proto);
	uint64_t set = (uint64_t)param_i64(p);
	uint64_t step = set / DEV_STEPS / grain * grain;
	const uint64_t most = 64u << 20;
	uint32_t bytes = (uint32_t)MIN_OF(MAX_OF(step, grain), most);

	transport_buffer_check(p, set, bytes, grain, most);
	return bytes;
}

uint64_t transport_first_step(void)
{
	return (uint64_t)param_i64(PARAM_FIRST_STEP) / DEV_STEPS * DEV_STEPS;
}

void transport_lines_init(enum dev_proto proto, void *lines, uint64_t bytes)
{
	uint64_t half = (uint64_t)DEV_LINE_FLAG(transport_first_step() - 1) << 32;
	uint64_t *at = lines;

	if (proto == DEV_LL128)
		half = 0; /* no step has this flag */
	if (!half)
		os_zero(lines, bytes);
	for (uint64_t i = 0; half && i < bytes / sizeof *at; i++)
		at[i] = half;
}
