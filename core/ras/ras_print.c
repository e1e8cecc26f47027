/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces of the reports: addresses, devices, dates, names and lists of ranks. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

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

static bool print_is_leap(uint32_t year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Writes a date of the Gregorian calendar; `day` counts from 1970-01-01. */
static void print_day(uint32_t day, char *out, size_t bytes)
{
	static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	uint32_t year = 1970, month = 0, n;

	while (day >= (n = print_is_leap(year) ? 366 : 365)) {
		day -= n;
		year++;
	}
	while (day >= (n = days[month] + (month == 1 && print_is_leap(year)))) {
		day -= n;
		month++;
	}
	snprintf(out, bytes, "%04u-%02u-%02u", year, month + 1, day + 1);
}

const char *ras_date_print(char out[RAS_DATE_BYTES])
{
	uint64_t s = os_date_ns() / 1000000000ull;
	char day[16];

	print_day((uint32_t)(s / 86400), day, sizeof day);
	snprintf(out, RAS_DATE_BYTES, "%s %02u:%02u:%02u", day, (unsigned)(s / 3600 % 24),
		 (unsigned)(s / 60 % 60), (unsigned)(s % 60));
	return out;
}

static void list_flush(struct ras_list *l, bool more)
{
	if (l->first < 0)
		return;
	ras_text_add(l->out, l->first == l->last ? "%d" : "%d-%d", l->first, l->last);
	if (more)
		ras_text_add(l->out, ", ");
}

void ras_list_add(struct ras_list *l, int32_t rank)
{
	if (l->first >= 0 && rank == l->last + 1) {
		l->last = rank;
	} else {
		list_flush(l, true);
		l->first = l->last = rank;
	}
	l->n++;
}

void ras_list_end(struct ras_list *l)
{
	list_flush(l, false);
}

const char *ras_func_name(int func)
{
	static const char *const names[RAS_FUNCS] = {
		[RAS_BROADCAST] = "Broadcast",  [RAS_REDUCE] = "Reduce",
		[RAS_ALL_GATHER] = "AllGather", [RAS_REDUCE_SCATTER] = "ReduceScatter",
		[RAS_ALL_REDUCE] = "AllReduce", [RAS_ALL_TO_ALL] = "AlltoAll",
	};

	return names[func];
}
