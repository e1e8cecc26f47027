/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/cli/svg.h"

#include "core/base/macros.h"

const char *svg_color(uint32_t number)
{
	/* colours of Okabe and Ito, distinct for colour-blind readers; without the yellow */
	static const char color[][8] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
					"#e69f00", "#56b4e9", "#000000"};

	return color[number % ARRAY_LEN(color)];
}

void svg_text(const char *text, FILE *out)
{
	for (; *text; text++)
		switch (*text) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		default:
			fputc((uint8_t)*text < ' ' || (uint8_t)*text > '~' ? '?' : *text, out);
		}
}
