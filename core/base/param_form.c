/* SPDX-License-Identifier: BSD-3-Clause */
/* Allowed texts of variables. The bounds of numbers are in the table of param.h. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/macros.h"
#include "core/base/param_row.h"

/* ---- special forms -------------------------------------------------------------------------- */

/* True for "ADDRESS[/BITS]". */
static bool form_is_subnet(const char *text)
{
	char address[64], *end = "";
	uint8_t bytes[16];
	size_t n = strcspn(text, "/");

	if (n >= sizeof address)
		return false;
	snprintf(address, sizeof address, "%.*s", (int)n, text);
	int most = inet_pton(AF_INET, address, bytes) == 1    ? 32
		   : inet_pton(AF_INET6, address, bytes) == 1 ? 128
							      : -1;
	long bits = text[n] ? strtol(text + n + 1, &end, 10) : 0;
	return most > 0 && !*end && end != text + n + 1 && bits >= 0 && bits <= most;
}

/* True for the name of a path, or a number. Numbers from 4 on mean SYS
 * (core/topo/topo_params.c). */
static bool form_is_level(const char *text)
{
	static const char *const names[] = {"LOC", "NVL", "NVB", "C2C", "PIX",
					    "PXB", "P2C", "PXN", "PHB", "SYS"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(text, names[i]) == 0)
			return true;
	return *text && strspn(text, "0123456789") == strlen(text);
}
#define FORM_LEVEL                                                                                 \
	NULL, 0, form_is_level, "LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS or a number"

/* True for "mlx5_0,mlx5_1;mlx5_2:1,mlx5_3:1": groups of 2 to 4 devices, each device in one
 * group. */
#define FORM_MERGE_BYTES 511
#define FORM_MERGED      4
static bool form_is_merge(const char *text)
{
	size_t group = 0;

	if (strlen(text) > FORM_MERGE_BYTES)
		return false;
	for (const char *at = text;;) {
		size_t n = strcspn(at, ",;");

		if (!n || ++group > FORM_MERGED || (at[n] != ',' && group < 2))
			return false;
		for (const char *b = text; b < at; b += strcspn(b, ",;") + 1)
			if (strcspn(b, ",;") == n && !memcmp(b, at, n))
				return false;
		if (!at[n])
			return true;
		group = at[n] == ';' ? 0 : group;
		at += n + 1;
	}
}

/* True for "host:port" or "[address]:port". */
static bool form_is_host_port(const char *text)
{
	const char *colon = text[0] == '[' ? strstr(text, "]:") : strrchr(text, ':');
	const char *port = colon ? colon + (text[0] == '[') + 1 : "";

	return colon > text + (text[0] == '[') && strspn(port, "0123456789") == strlen(port) &&
	       strlen(port) <= 5 && atoi(port) > 0 && atoi(port) <= 65535;
}

/* ---- words ---------------------------------------------------------------------------------- */

const struct param_form param_forms[PARAM_COUNT] = {
#define FORM(param, ...) [PARAM_##param] = {__VA_ARGS__}
	FORM(DEBUG, "NONE|VERSION|WARN|ATTN|INFO|ABORT|TRACE", FORM_ANY_CASE, NULL, NULL),
	FORM(DEBUG_SUBSYS,
	     "INIT|COLL|P2P|SHM|NET|GRAPH|TUNING|ENV|ALLOC|CALL|PROXY|NVLS|BOOTSTRAP|REG|PROFILE|"
	     "RAS|DESTROY|ALLOC_HOST|ALL",
	     FORM_LIST | FORM_ALL_BUT | FORM_ANY_CASE, NULL, NULL),
	FORM(P2P_LEVEL, FORM_LEVEL),
	FORM(NET_GDR_LEVEL, FORM_LEVEL),
	FORM(NET_MERGE_LEVEL, "LOC|PORT|PIX|PXB|P2C|PXN|PHB|SYS", 0, NULL, NULL),
	FORM(NET_MERGE_POLICY, "ALL|RAIL", 0, NULL, NULL),
	FORM(NET_FORCE_MERGE, NULL, 0, form_is_merge,
	     "groups of 2 to 4 devices such as mlx5_0,mlx5_1;mlx5_2,mlx5_3"),
	FORM(RAS_ADDR, NULL, 0, form_is_host_port, "host:port such as localhost:28028"),
	FORM(TOPO_COMPAT, "2.28|2.30", 0, NULL, NULL),
	FORM(SOCKET_FAMILY, "AF_INET|AF_INET6", 0, NULL, NULL),
	FORM(IB_ADDR_FAMILY, "AF_INET|AF_INET6", 0, NULL, NULL),
	FORM(PARAM_DUMP_ALL, "1|T|TRUE|0|F|FALSE", FORM_ANY_CASE, NULL, NULL),
	FORM(IB_ADDR_RANGE, NULL, 0, form_is_subnet, "a subnet such as 10.0.0.0/8 or fd00::/16"),
#undef FORM
};

static bool form_has_word(const struct param_form *f, const char *word, size_t n)
{
	for (const char *w = f->words;; w++) {
		size_t k = strcspn(w, "|");

		if (k == n &&
		    !(f->flags & FORM_ANY_CASE ? strncasecmp(w, word, n) : strncmp(w, word, n)))
			return true;
		w += k;
		if (!*w)
			return false;
	}
}

static bool form_words_fit(const struct param_form *f, const char *text)
{
	text += (f->flags & FORM_ALL_BUT) && *text == '^';
	for (;; text++) {
		size_t n = f->flags & FORM_LIST ? strcspn(text, ",") : strlen(text), at = 0;

		if (f->flags & FORM_OF_DEVICE && memchr(text, '=', n))
			at = strcspn(text, "=") + 1;
		if (!form_has_word(f, text + at, n - at))
			return false;
		text += n;
		if (!*text)
			return true;
	}
}

bool param_form_fits(const struct param_form *f, const char *text)
{
	return f->fits ? f->fits(text) : !f->words || form_words_fit(f, text);
}

static size_t form_put(char *out, size_t bytes, size_t at, const char *text, size_t n)
{
	if (at < bytes)
		snprintf(out + at, bytes - at, "%.*s", (int)n, text);
	return at + n;
}

/* Writes the allowed values: "a list of hca, glob or none", "acknowledge, completion or draw". */
bool param_form_expected(const struct param_form *f, char *out, size_t bytes)
{
	const char *last = f->words ? strrchr(f->words, '|') : NULL;
	size_t at = 0;

	if (f->expected)
		at = form_put(out, bytes, at, f->expected, strlen(f->expected));
	else if (f->flags & FORM_LIST)
		at = form_put(out, bytes, at, "a list of ", 10);
	for (const char *w = f->words; w && at < bytes;) {
		size_t n = strcspn(w, "|");

		at = form_put(out, bytes, at, w, n);
		w += n;
		if (!*w)
			break;
		at = form_put(out, bytes, at, w == last ? " or " : ", ", w == last ? 4 : 2);
		w++;
	}
	return at > 0;
}
