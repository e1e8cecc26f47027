/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces of the reports: addresses, devices, dates and names. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/ras/ras_job.h"

const char *ras_host_print(const struct os_addr *addr, char out[RAS_HOST_BYTES])
{
	snprintf(out, RAS_HOST_BYTES, "unknown");
	if (addr->family)
		inet_ntop(addr->family == 6 ? AF_INET6 : AF_INET, addr->ip, out, RAS_HOST_BYTES);
	return out;
}

static size_t print_bits(uint64_t bits, char *out, size_t bytes, size_t at)
{
	bool first = true;

	for (int i = 0; i < 64; i++) {
		if (!(bits >> i & 1) || at + 8 > bytes)
			continue;
		at += (size_t)snprintf(out + at, bytes - at, "%s%d", first ? "" : ",", i);
		first = false;
	}
	return at;
}

const char *ras_gpus_print(uint64_t gpus, uint64_t nvml, char *out, size_t bytes)
{
	size_t at;

	out[0] = '\0';
	at = print_bits(gpus, out, bytes, 0);
	if (gpus == nvml || !nvml || at + 16 > bytes)
		return out;
	at += (size_t)snprintf(out + at, bytes - at, " (NVML ");
	at = print_bits(nvml, out, bytes - 1, at);
	snprintf(out + at, bytes - at, ")");
	return out;
}

const char *ras_date_print(char out[RAS_DATE_BYTES])
{
	time_t s = (time_t)(os_date_ns() / 1000000000ull);
	struct tm date;

	gmtime_r(&s, &date);
	strftime(out, RAS_DATE_BYTES, "%Y-%m-%d %H:%M:%S", &date);
	return out;
}

const char *ras_func_name(int func)
{
	static const char *const names[RAS_FUNCS] = {
		[RAS_BROADCAST] = "Broadcast",  [RAS_REDUCE] = "Reduce",
		[RAS_ALL_GATHER] = "AllGather", [RAS_REDUCE_SCATTER] = "ReduceScatter",
		[RAS_ALL_REDUCE] = "AllReduce",
	};

	return names[func];
}
