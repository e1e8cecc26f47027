/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes a PTX text (backends/fakecuda/ptx). The parser accepts it, or its error has a line. Each
 * kernel of an accepted text becomes C, or an error with a line. For libFuzzer (clang
 * -fsanitize=fuzzer); fuzz_main.h has a driver without it. Build with the sources of the
 * translator.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fakecuda/ptx/emit.h"
#include "backends/fakecuda/ptx/parse.h"
#include "core/base/macros.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void fuzz_check_error(const char *error)
{
	ASSERT(strncmp(error, "line ", 5) == 0 && strstr(error, ": "));
	ASSERT(strlen(error) < PTX_ERROR_BYTES);
}

/* The text up to its first NUL, and the rest as a second text that is linked with it. */
static bool fuzz_parse(struct ptx_module *m, const char *text, size_t bytes)
{
	const char *nul = memchr(text, 0, bytes);

	if (!nul)
		return ptx_parse(m, text, bytes);
	size_t first = (size_t)(nul - text);
	return ptx_parse(m, text, first) && ptx_parse_more(m, nul + 1, bytes - first - 1) &&
	       ptx_module_check(m);
}

static void fuzz_emit(const struct ptx_module *m, const struct ptx_func *f)
{
	char error[PTX_ERROR_BYTES];
	char *c = ptx_emit(m, f, error);

	if (c)
		ASSERT(strstr(c, PTX_ENTRY_NAME) && !*error);
	else
		fuzz_check_error(error);
	free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	/* a copy without a byte to spare: a sanitizer sees reads past the end */
	char *text = malloc(bytes ? bytes : 1);
	struct ptx_module m;

	ASSERT(text);
	memcpy(text, data, bytes);
	if (fuzz_parse(&m, text, bytes)) {
		for (uint32_t i = 0; i < m.funcs; i++)
			if (m.func[i].entry && !m.func[i].external)
				fuzz_emit(&m, &m.func[i]);
	} else {
		fuzz_check_error(m.error);
		ASSERT(memchr(text, 0, bytes) || (!m.funcs && !m.variables));
	}
	ptx_module_free(&m);
	free(text);
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
