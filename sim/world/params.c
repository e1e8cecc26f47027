/* SPDX-License-Identifier: BSD-3-Clause */
/* The doubles' variables, for core/base/param.c. */
#include "sim/world/params.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "core/base/param_row.h"

/* ---- forms that only the doubles have -------------------------------------------------------- */

static bool world_form_is_pkeys(const char *text)
{
	for (;; text++) {
		char *end;
		unsigned long v = strtoul(text, &end, 0);

		if (end == text || *text == '-' || v > 0xffff || (*end && *end != ','))
			return false;
		text = end;
		if (!*text)
			return true;
	}
}

/* Checks the syntax only: the HCA double knows the names of the rules. */
static bool world_form_is_rules(const char *text)
{
	for (;; text++) {
		size_t n = strcspn(text, ","), name = *text == '-';
		size_t end = name + strspn(text + name, "abcdefghijklmnopqrstuvwxyz0123456789_.-");

		if (end == name || (text[0] == '-' && end != n))
			return false;
		if (end != n && strncmp(text + end, "=off", n - end) != 0 &&
		    strncmp(text + end, "=warn", n - end) != 0 &&
		    strncmp(text + end, "=fail", n - end) != 0)
			return false;
		text += n;
		if (!*text)
			return true;
	}
}

static bool world_form_is_name(const char *text)
{
	return !strchr(text, '/');
}

static bool world_form_is_interfaces(const char *text)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	for (int count = 1;; count++) {
		size_t n = strspn(text, letters);

		if (n == 0 || n > 15 || *text == '-' || count > 16 || (text[n] && text[n] != ','))
			return false;
		if (!text[n])
			return true;
		text += n + 1;
	}
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct param_row world_param_rows[] = {WORLD_PARAM_TABLE(PARAM_ROW)};
DOPPEL_STATIC_CHECK(ARRAY_LEN(world_param_rows) <= PARAM_DOUBLES_MAX,
		    "base_state has room for them");

static const struct param_form world_param_forms[ARRAY_LEN(world_param_rows)] = {
#define FORM(param, ...) [PARAM_##param - PARAM_COUNT] = {__VA_ARGS__}
	FORM(DOPPEL_HCA_ATOMIC, "hca|glob|none", FORM_LIST | FORM_OF_DEVICE, NULL, NULL),
	FORM(DOPPEL_HCA_FAST_PATH, "on|off", FORM_LIST | FORM_OF_DEVICE, NULL, NULL),
	FORM(DOPPEL_HCA_LINK, "up|down", FORM_LIST | FORM_OF_DEVICE, NULL, NULL),
	FORM(DOPPEL_HCA_ORDER, "acknowledge|completion|draw", 0, NULL, NULL),
	FORM(DOPPEL_HCA_ROUTING, "fixed|adaptive|draw", 0, NULL, NULL),
	FORM(DOPPEL_HCA_PERSONALITY, "spec|mlx5|mlx5-ib|rxe", FORM_LIST, NULL, NULL),
	FORM(DOPPEL_HCA_PKEYS, NULL, 0, world_form_is_pkeys,
	     "a list of P_Keys such as 0xffff,0x8001"),
	FORM(DOPPEL_VERBS_CHECK, NULL, 0, world_form_is_rules,
	     "a list of NAME, -NAME, NAME=off, NAME=warn or NAME=fail with rules of "
	     "docs/verbs/sanitizer.md"),
	FORM(DOPPEL_HOST_SHM, "host|process", 0, NULL, NULL),
	FORM(DOPPEL_INTERFACES, NULL, 0, world_form_is_interfaces,
	     "1 to 16 names of network interfaces, as docker0,eth0"),
	FORM(DOPPEL_FABRIC, NULL, 0, world_form_is_name, "a name without '/'"),
	FORM(DOPPEL_ENGINE, "sim|threads", 0, NULL, NULL),
	FORM(DOPPEL_GPU_RDMA, "both|dmabuf|peermem|none", 0, NULL, NULL),
	FORM(DOPPEL_WARP, "1|32", 0, NULL, NULL),
#undef FORM
};

#ifdef DOPPEL_FAKECUDA
static const struct param_default world_param_defaults[] = {
	{PARAM_NTHREADS, "64", "a warp of the GPU double moves any number of lines in one step"},
	{PARAM_CHECK_POINTERS, "1", "the check costs no time there"},
	{PARAM_NET_PLUGIN, "none", "a library of the real machine would change runs"},
	{PARAM_PROFILER_PLUGIN, "none", "a library of the real machine would change runs"},
	{PARAM_TUNER_PLUGIN, "none", "a library of the real machine would change runs"},
	{PARAM_RAS_ENABLE, "0", "its task is one more in each schedule; its tests turn it on"},
};
#endif

const struct param_rows param_doubles = {
	.row = world_param_rows,
	.form = world_param_forms,
	.count = ARRAY_LEN(world_param_rows),
#ifdef DOPPEL_FAKECUDA
	.instead = world_param_defaults,
	.instead_count = ARRAY_LEN(world_param_defaults),
#endif
};
