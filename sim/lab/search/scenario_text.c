/* SPDX-License-Identifier: BSD-3-Clause */
/* The text form of a scenario: the table of dimensions serves writer and parser. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/macros.h"
#include "sim/engine/base/output.h"
#include "sim/lab/search/dimension.h"

enum { TEXT_MAX_BYTES = 1 << 20 };

/* ---- writing -------------------------------------------------------------------------------- */

void scenario_write(const struct scenario *s, FILE *out)
{
	fprintf(out, "doppel-config %d\n", SCENARIO_VERSION);
	for (uint32_t i = 0; i < dimensions_n; i++)
		dimension_write(&dimensions[i], s, out);
}

int scenario_write_file(const struct scenario *s, const char *path)
{
	FILE *f = output_open("config", path);

	if (!f)
		return EIO;
	scenario_write(s, f);
	return output_close(f, "config", path);
}

uint32_t scenario_digest(const struct scenario *s)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	ASSERT(f);
	for (uint32_t i = 0; i < dimensions_n; i++)
		if (!dimensions[i].provenance && dimensions[i].option.key != OPTION_SEED)
			dimension_write(&dimensions[i], s, f);
	fclose(f);
	uint32_t digest = (uint32_t)XXH3_64bits(text, bytes);
	free(text);
	return digest;
}

/* ---- parsing -------------------------------------------------------------------------------- */

static int text_parse_block(const struct text_cursor *c, struct scenario *s)
{
	size_t have = strlen(s->plan), n = (size_t)(c->end - c->line.begin) - 1;

	ASSERT(c->end > c->line.begin && *c->line.begin == '\t');
	if (have + n + 2 > sizeof s->plan)
		return text_error(c, c->line.begin, "plan: expected at most %zu characters",
				  sizeof s->plan - 1);
	memcpy(s->plan + have, c->line.begin + 1, n);
	s->plan[have + n] = '\n';
	s->plan[have + n + 1] = 0;
	return 0;
}

static int text_unknown_key(const struct text_cursor *c, struct token key)
{
	const char *names[DIMENSIONS_MAX + 1] = {NULL};
	size_t n = 0;

	for (uint32_t i = 0; i < dimensions_n; i++)
		if (dimensions[i].key)
			names[n++] = dimensions[i].key;
	return text_error(c, key.at, "unknown key \"%.*s\"; nearest: %s", (int)key.n, key.at,
			  text_nearest(key, names));
}

static int text_parse_line(const struct text_cursor *c, bool given[DIMENSIONS_MAX], bool *block,
			   struct scenario *s)
{
	struct token rest = {c->line.begin, (size_t)(c->end - c->line.begin)}, key;

	if (*block && rest.n && *rest.at == '\t')
		return text_parse_block(c, s);
	*block = false;
	if (!text_word(&rest, &key) || *key.at == '#')
		return 0;
	while (rest.n && (*rest.at == ' ' || *rest.at == '\t'))
		rest.at++, rest.n--;
	while (rest.n && isspace((unsigned char)rest.at[rest.n - 1]))
		rest.n--;
	for (uint32_t i = 0; i < dimensions_n; i++) {
		const struct dimension *d = &dimensions[i];

		if (!d->key || !token_is(key, d->key))
			continue;
		if (given[i] && d->parse != own_parse_env)
			return text_error(c, key.at, "key \"%s\" is given twice", d->key);
		given[i] = true;
		*block = d->parse == own_parse_plan;
		if (!rest.n && !*block)
			return text_error(c, rest.at, "%s: expected a value", d->key);
		return dimension_parse(c, d, rest, s);
	}
	return text_unknown_key(c, key);
}

static int text_parse_header(const struct text_cursor *c)
{
	static const char magic[] = "doppel-config ";
	struct token v = {c->line.begin + sizeof magic - 1, 0};
	uint64_t version;

	if ((size_t)(c->end - c->line.begin) < sizeof magic ||
	    memcmp(c->line.begin, magic, sizeof magic - 1))
		return text_error(c, c->line.begin, "expected \"doppel-config %d\"",
				  SCENARIO_VERSION);
	v.n = (size_t)(c->end - v.at);
	if (!token_number(v, &version) || version != SCENARIO_VERSION)
		return text_error(c, v.at, "expected version %d, got \"%.*s\"", SCENARIO_VERSION,
				  (int)v.n, v.at);
	return 0;
}

/* Checks that the values fit each other. Each value alone has been checked. */
static int text_check(const struct text_cursor *c, const struct scenario *s)
{
	const struct lab_config *l = &s->lab;

	ASSERT(l->hosts > 0 && l->type_count > 0 && l->op_count > 0); /* by their rows */
	if (l->warp_width > 1 && l->warp_width != 32)
		return text_error(c, c->line.begin, "warp is %u; expected 0, 1 or 32",
				  l->warp_width);
	if (l->bytes_min > l->bytes_max)
		return text_error(c, c->line.begin,
				  "bytes-min %" PRIu64 " is larger than bytes-max %" PRIu64,
				  l->bytes_min, l->bytes_max);
	if (l->bytes_min != l->bytes_max && (l->factor == 1 || (!l->factor && !l->bytes_step)))
		return text_error(c, c->line.begin,
				  "sizes never reach bytes-max: expected bytes-step, or "
				  "a factor of at least 2");
	if (l->host_gpus_n && l->host_gpus_n != l->hosts)
		return text_error(c, c->line.begin, "host-gpus lists %u hosts, hosts is %u",
				  l->host_gpus_n, l->hosts);
	if (l->host_gpus_n && l->device_count)
		return text_error(c, c->line.begin, "devices, and host-gpus: expected one of them");
	if (l->sim.fault_random && s->plan[0])
		return text_error(c, c->line.begin,
				  "faults random, and a plan: expected one of them");
	return 0;
}

int scenario_parse(struct scenario *s, const char *text, size_t bytes, const char *name)
{
	struct text_cursor c = {
		.line = {.what = "config: ", .name = name, .begin = text, .number = 1}};
	const char *end = text + bytes;
	bool given[DIMENSIONS_MAX] = {false};
	bool block = false;
	int rc = 0;

	ASSERT(dimensions_n <= DIMENSIONS_MAX);
	scenario_default(s);
	s->origin[0] = 0;
	s->found.rank = -1;
	for (bool first = true; !rc && (first || c.line.begin < end); first = false) {
		c.end = c.line.begin < end
				? memchr(c.line.begin, '\n', (size_t)(end - c.line.begin))
				: NULL;
		if (!c.end)
			c.end = end;
		const char *nul = memchr(c.line.begin, 0, (size_t)(c.end - c.line.begin));
		if (nul)
			rc = text_error(&c, nul, "expected text, got a zero byte");
		else if (first)
			rc = text_parse_header(&c);
		else
			rc = text_parse_line(&c, given, &block, s);
		if (rc || c.end == end)
			break;
		c.line.begin = c.end + 1;
		c.line.number++;
	}
	if (!rc)
		rc = text_check(&c, s);
	return rc;
}

int scenario_read_file(struct scenario *s, const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = malloc(TEXT_MAX_BYTES);
	int rc = EINVAL;

	if (!f || !text) {
		rc = f ? ENOMEM : errno;
		fprintf(stderr, "config: cannot read %s: %s\n", path, strerror(rc));
		goto out;
	}
	size_t n = fread(text, 1, TEXT_MAX_BYTES, f);
	if (ferror(f))
		fprintf(stderr, "config: reading %s failed\n", path);
	else if (n == TEXT_MAX_BYTES)
		fprintf(stderr, "config: %s: expected less than 1 MiB\n", path);
	else
		rc = scenario_parse(s, text, n, path);
out:
	free(text);
	if (f)
		fclose(f);
	return rc;
}
