/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's list of NEEDs that it lacks and of cases that differ (--expected). */
#include <fnmatch.h>

#include "tests/conformance/verbs/harness/target.h"

#define SUITE_ROWS_MAX 256

static struct suite_row suite_rows[SUITE_ROWS_MAX];
static int suite_row_count;

void suite_rows_read(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[400], word[20], name[120];
	int number = 0;

	if (!f) {
		fprintf(stderr, "verbs_suite: %s: %s\n", path, strerror(errno));
		exit(2);
	}
	while (fgets(line, sizeof line, f)) {
		number++;
		line[strcspn(line, "#\n")] = 0;
		int n = sscanf(line, "%19s %119s", word, name);

		if (n <= 0)
			continue;
		bool differs = !strcmp(word, "differs");

		if (n != 2 || (!differs && strcmp(word, "lacks")) ||
		    suite_row_count == SUITE_ROWS_MAX) {
			fprintf(stderr, "%s:%d: expected 'lacks NEED' or 'differs CASE'\n", path,
				number);
			exit(2);
		}
		suite_rows[suite_row_count].differs = differs;
		memcpy(suite_rows[suite_row_count++].name, name, sizeof name);
	}
	fclose(f);
}

struct suite_row *suite_listed(bool differs, const char *name)
{
	for (int i = 0; i < suite_row_count; i++)
		if (suite_rows[i].differs == differs && !fnmatch(suite_rows[i].name, name, 0))
			return &suite_rows[i];
	return NULL;
}

int suite_rows_check(bool whole, int *number)
{
	int failed = 0;

	for (int i = 0; i < suite_row_count; i++) {
		const struct suite_row *r = &suite_rows[i];

		if (!r->passes || r->fails || (strpbrk(r->name, "*?[") && !whole))
			continue;
		printf("not ok %d list: %s # passes, but %s lists it as different\n", ++*number,
		       r->name, vs_config.expected);
		failed++;
	}
	return failed;
}
