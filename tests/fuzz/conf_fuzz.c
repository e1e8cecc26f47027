/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes a configuration file (core/os/os_conf.h). Each line becomes a variable, or a bad line, or
 * is empty or a comment. Variables have valid names, and values that are part of the text. A file
 * of these variables alone has no bad line, and sets the same. For libFuzzer (clang
 * -fsanitize=fuzzer); fuzz_main.h has a driver without it. Build against libdoppel-rt.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "core/os/os_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char *fuzz_env(const void *ctx, const char *name)
{
	return strcmp(name, "NCCL_SET") == 0 ? "environment" : NULL;
}

static int fuzz_add(void *ctx, const char *name, const char *value)
{
	ASSERT(*name && strcmp(name, "NCCL_SET") != 0 && strncmp(name, "DOPPEL_", 7) != 0);
	ASSERT(name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789_")] == '\0');
	ASSERT(strlen(name) <= CONF_TEXT_BYTES && strlen(value) <= CONF_TEXT_BYTES);
	++*(uint32_t *)ctx;
	return 0;
}

/* Parses a text. Returns the lines; *added: number of variables. */
static struct conf *fuzz_parse(const char *text, size_t bytes, uint32_t *added)
{
	const struct conf_process process = {.ctx = added, .env = fuzz_env, .add = fuzz_add};
	struct conf *conf = calloc(1, sizeof *conf);

	*added = 0;
	ASSERT(conf);
	ASSERT(conf_parse(conf, &process, "fuzz", text, bytes) == 0);
	return conf;
}

/* Writes the lines as a file, which the caller frees. */
static char *fuzz_write(const struct conf *conf, size_t bytes)
{
	char *text = malloc(bytes + 2);
	size_t n = 0;

	ASSERT(text);
	for (const struct conf_line *l = conf->first; l; l = l->next)
		n += (size_t)snprintf(text + n, bytes + 2 - n, "%s=%s\n", l->name, l->value);
	ASSERT(n <= bytes + 1);
	text[n] = '\0';
	return text;
}

static void fuzz_same(const struct conf *a, const struct conf *b)
{
	const struct conf_line *m = b->first;

	for (const struct conf_line *l = a->first; l; l = l->next, m = m->next)
		ASSERT(m && strcmp(l->name, m->name) == 0 && strcmp(l->value, m->value) == 0 &&
		       l->use == m->use && m->number <= l->number);
	ASSERT(!m && b->bad_count == 0);
}

static uint32_t fuzz_lines(const uint8_t *data, size_t bytes)
{
	uint32_t lines = 1;

	for (size_t i = 0; i < bytes; i++)
		lines += data[i] == '\n';
	return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint32_t added, again;
	struct conf *conf = fuzz_parse((const char *)data, bytes, &added);
	char *text = fuzz_write(conf, bytes);
	struct conf *second = fuzz_parse(text, strlen(text), &again);

	ASSERT(added == again && added <= conf->count);
	ASSERT(conf->count + conf->bad_count <= fuzz_lines(data, bytes));
	fuzz_same(conf, second);
	conf_free(conf);
	conf_free(second);
	free(text);
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
