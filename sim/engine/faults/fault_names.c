/* SPDX-License-Identifier: BSD-3-Clause */
/* Values that a fault plan writes by name. */
#include <errno.h>
#include <stddef.h>

#include "core/base/macros.h"
#include "sim/engine/faults/fault.h"

static const struct fault_name fault_time_units[] = {
	{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {NULL, 0},
};

static const struct fault_name fault_errno_names[] = {
	{"EPERM", EPERM},
	{"ENOENT", ENOENT},
	{"EINTR", EINTR},
	{"EIO", EIO},
	{"EAGAIN", EAGAIN},
	{"ENOMEM", ENOMEM},
	{"EACCES", EACCES},
	{"EFAULT", EFAULT},
	{"EBUSY", EBUSY},
	{"ENODEV", ENODEV},
	{"EINVAL", EINVAL},
	{"ENFILE", ENFILE},
	{"EMFILE", EMFILE},
	{"ENOSPC", ENOSPC},
	{"EPIPE", EPIPE},
	{"ENOSYS", ENOSYS},
	{"ENOTCONN", ENOTCONN},
	{"ENODATA", ENODATA},
	{"EOPNOTSUPP", EOPNOTSUPP},
	{"EPROTONOSUPPORT", EPROTONOSUPPORT},
	{"EADDRINUSE", EADDRINUSE},
	{"EADDRNOTAVAIL", EADDRNOTAVAIL},
	{"ENETDOWN", ENETDOWN},
	{"ENETUNREACH", ENETUNREACH},
	{"ENOBUFS", ENOBUFS},
	{"ETIMEDOUT", ETIMEDOUT},
	{"ECONNABORTED", ECONNABORTED},
	{"ECONNREFUSED", ECONNREFUSED},
	{"ECONNRESET", ECONNRESET},
	{"EHOSTUNREACH", EHOSTUNREACH},
	{NULL, 0},
};

/* Completion statuses of the verbs API, without their common prefix IBV_WC_. */
static const struct fault_name fault_status_names[] = {
	{"LOC_LEN_ERR", 1},
	{"LOC_QP_OP_ERR", 2},
	{"LOC_PROT_ERR", 4},
	{"WR_FLUSH_ERR", 5},
	{"MW_BIND_ERR", 6},
	{"BAD_RESP_ERR", 7},
	{"LOC_ACCESS_ERR", 8},
	{"REM_INV_REQ_ERR", 9},
	{"REM_ACCESS_ERR", 10},
	{"REM_OP_ERR", 11},
	{"RETRY_EXC_ERR", 12},
	{"RNR_RETRY_EXC_ERR", 13},
	{"REM_ABORT_ERR", 16},
	{"FATAL_ERR", 19},
	{"RESP_TIMEOUT_ERR", 20},
	{"GENERAL_ERR", 21},
	{NULL, 0},
};

/* Runtime errors, without their common prefix cudaError. */
static const struct fault_name fault_cuda_names[] = {
	{"InvalidValue", 1},
	{"MemoryAllocation", 2},
	{"InitializationError", 3},
	{"NoDevice", 100},
	{"InvalidDevice", 101},
	{"MapBufferObjectFailed", 205},
	{"ECCUncorrectable", 214},
	{"NvlinkUncorrectable", 220},
	{"OperatingSystem", 304},
	{"InvalidResourceHandle", 400},
	{"IllegalAddress", 700},
	{"LaunchOutOfResources", 701},
	{"LaunchTimeout", 702},
	{"LaunchFailure", 719},
	{"NotPermitted", 800},
	{"NotSupported", 801},
	{"SystemNotReady", 802},
	{"Unknown", 999},
	{NULL, 0},
};

static const struct fault_name fault_state_names[] = {
	{"RESET", 0}, {"INIT", 1}, {"RTR", 2}, {"RTS", 3},
	{"SQD", 4},   {"SQE", 5},  {"ERR", 6}, {NULL, 0},
};

/* Numbered as in enum hca_nak of the HCA double. */
static const struct fault_name fault_refusal_names[] = {
	{"INVALID", 1},
	{"ACCESS", 2},
	{"OPERATION", 3},
	{NULL, 0},
};

const struct fault_name *fault_names(enum fault_value type)
{
	static const struct fault_name *const names[FAULT_VALUES] = {
		[FAULT_TIME] = fault_time_units,       [FAULT_NUMBER] = NULL,
		[FAULT_ERRNO] = fault_errno_names,     [FAULT_STATUS] = fault_status_names,
		[FAULT_CUDA] = fault_cuda_names,       [FAULT_STATE] = fault_state_names,
		[FAULT_REFUSAL] = fault_refusal_names,
	};

	ASSERT(type < FAULT_VALUES);
	return names[type];
}

/* Returns the range of numbers that may replace a name of this type, whether they have a name or
 * not. */
struct fault_range fault_number_range(enum fault_value type)
{
	static const struct fault_range range[FAULT_VALUES] = {
		[FAULT_ERRNO] = {1, 4095}, [FAULT_STATUS] = {1, 255}, [FAULT_CUDA] = {1, 9999},
		[FAULT_STATE] = {0, 6},    [FAULT_REFUSAL] = {1, 3},
	};

	ASSERT(type < FAULT_VALUES);
	return range[type];
}

const char *fault_value_hint(enum fault_value type)
{
	switch (type) {
	case FAULT_TIME:
		return "TIME";
	case FAULT_NUMBER:
		return "N";
	default:
		return "NAME";
	}
}
