/* SPDX-License-Identifier: BSD-3-Clause */
/* What the text of a variable may look like; numbers have their bounds in the table of param.h. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/macros.h"
#include "core/base/param.h"
#include "core/base/param_form.h"

enum form_flag {
	FORM_LIST = 1,      /* words with commas between */
	FORM_ALL_BUT = 2,   /* ^ may be in front of the list */
	FORM_ANY_CASE = 4,  /* capitals do not matter */
	FORM_OF_DEVICE = 8, /* NAME= may be in front of a word */
};

/* ---- forms of their own --------------------------------------------------------------------- */

/* "ADDRESS[/BITS]" */
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

static bool form_is_pkeys(const char *text)
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

/* The HCA double knows the names of the rules. */
static bool form_is_rules(const char *text)
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

static bool form_is_name(const char *text)
{
	return !strchr(text, '/');
}

/* ---- words ---------------------------------------------------------------------------------- */

#define FORM_LEVELS "|PIX|PXB|PHB|SYS|0|1|2|3|4|5"

static const struct form {
	const char *words; /* with | between; NULL: `fits` decides */
	unsigned flags;
	bool (*fits)(const char *text);
	const char *expected; /* NULL: the words */
} forms[PARAM_COUNT] = {
#define FORM(param, ...) [PARAM_##param] = {__VA_ARGS__}
	FORM(DEBUG, "NONE|VERSION|WARN|INFO|ABORT|TRACE", FORM_ANY_CASE, NULL, NULL),
	FORM(DEBUG_SUBSYS,
	     "INIT|COLL|P2P|SHM|NET|GRAPH|TUNING|ENV|ALLOC|CALL|PROXY|NVLS|BOOTSTRAP|REG|PROFILE|"
	     "RAS|ALL",
	     FORM_LIST | FORM_ALL_BUT | FORM_ANY_CASE, NULL, NULL),
	FORM(P2P_LEVEL, "LOC|NVL|NVB|C2C|P2C|PXN" FORM_LEVELS, 0, NULL, NULL),
	FORM(NET_GDR_LEVEL, "LOC|NVL|NVB|C2C|P2C|PXN" FORM_LEVELS, 0, NULL, NULL),
	FORM(IB_ADDR_FAMILY, "AF_INET|AF_INET6", 0, NULL, NULL),
	FORM(IB_ADDR_RANGE, NULL, 0, form_is_subnet, "a subnet such as 10.0.0.0/8 or fd00::/16"),
	FORM(DOPPEL_HCA_ATOMIC, "hca|glob|none", FORM_LIST | FORM_OF_DEVICE, NULL, NULL),
	FORM(DOPPEL_HCA_FAST_PATH, "on|off", FORM_LIST | FORM_OF_DEVICE, NULL, NULL),
	FORM(DOPPEL_HCA_ORDER, "acknowledge|completion|draw", 0, NULL, NULL),
	FORM(DOPPEL_HCA_PERSONALITY, "spec|mlx5|mlx5-ib|rxe", FORM_LIST, NULL, NULL),
	FORM(DOPPEL_HCA_PKEYS, NULL, 0, form_is_pkeys, "a list of P_Keys such as 0xffff,0x8001"),
	FORM(DOPPEL_VERBS_CHECK, NULL, 0, form_is_rules,
	     "a list of NAME, -NAME, NAME=off, NAME=warn or NAME=fail with rules of "
	     "docs/verbs-sanitizer.md"),
	FORM(DOPPEL_FABRIC, NULL, 0, form_is_name, "a name without '/'"),
	FORM(DOPPEL_ENGINE, "sim|threads", 0, NULL, NULL),
	FORM(DOPPEL_WARP, "1|32", 0, NULL, NULL),
#undef FORM
};

static bool form_has_word(const struct form *f, const char *word, size_t n)
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

static bool form_words_fit(const struct form *f, const char *text)
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

bool param_form_fits(enum param p, const char *text)
{
	const struct form *f = &forms[p];

	return f->fits ? f->fits(text) : !f->words || form_words_fit(f, text);
}

static size_t form_put(char *out, size_t bytes, size_t at, const char *text, size_t n)
{
	if (at < bytes)
		snprintf(out + at, bytes - at, "%.*s", (int)n, text);
	return at + n;
}

/* "a list of hca, glob or none", "acknowledge, completion or draw" */
bool param_form_expected(enum param p, char *out, size_t bytes)
{
	const struct form *f = &forms[p];
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
