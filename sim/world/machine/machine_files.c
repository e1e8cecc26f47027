/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines by their names: Doppel's own ones, and files. machine.c reads the text. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/xml.h"
#include "core/os/os_ops.h"
#include "sim/world/machine/installed.h"
#include "sim/world/machine/machine_internal.h"

/* ---- files ----------------------------------------------------------------------------------- */

static void machine_dir(char out[PATH_MAX])
{
	const char *dir = os_real_ops.env("DOPPEL_MACHINE_DIR");
	if (dir && *dir)
		snprintf(out, PATH_MAX, "%s", dir);
	else
		(void)world_installed(WORLD_MACHINES, out);
}

static int machine_file_read(const char *path, struct world_machine *m)
{
	char *data;
	size_t bytes;
	int rc = os_real_ops.file_read(path, &data, &bytes);
	if (rc)
		return rc;
	char *xml = malloc(bytes + 1);
	char *name = strdup(path);
	if (!xml || !name) {
		free(xml);
		free(name);
		rc = ENOMEM;
	} else {
		memcpy(xml, data, bytes + 1);
		m->path = name;
		m->xml = xml;
		m->xml_bytes = bytes;
	}
	os_free(data);
	return rc;
}

static int machine_name_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char *world_machine_names(void)
{
	char *name[64], *text = NULL, path[PATH_MAX];
	size_t n = 0, bytes = 0;
	machine_dir(path);
	DIR *d = opendir(path);
	FILE *out = open_memstream(&text, &bytes);
	for (const struct dirent *e; d && n < ARRAY_LEN(name) && (e = readdir(d));) {
		const char *dot = strrchr(e->d_name, '.');
		if (dot && strcmp(dot, ".xml") == 0)
			name[n++] = strndup(e->d_name, (size_t)(dot - e->d_name));
	}
	if (d)
		closedir(d);
	qsort(name, n, sizeof name[0], machine_name_compare);
	for (size_t i = 0; i < n; i++) {
		if (out)
			fprintf(out, "%s%s", i ? ", " : "", name[i]);
		free(name[i]);
	}
	if (out)
		fclose(out);
	return text;
}

static bool machine_is_path(const char *name)
{
	size_t n = strlen(name);
	return strchr(name, '/') || (n > 4 && strcmp(name + n - 4, ".xml") == 0);
}

static void machine_not_found(const char *name)
{
	const char *dir = os_real_ops.env("DOPPEL_MACHINE_DIR");
	char *names = world_machine_names();
	bool any = names && *names;

	if (!any && dir && *dir)
		fprintf(stderr,
			"machine '%s' does not exist: DOPPEL_MACHINE_DIR is '%s', expected a "
			"folder "
			"with topology XMLs\n",
			name, dir);
	else
		fprintf(stderr,
			"machine '%s' does not exist; expected a topology XML, or one of %s\n",
			name, any ? names : "none");
	free(names);
}

static int machine_find(const char *name, struct world_machine *m)
{
	char dir[PATH_MAX], path[PATH_MAX + NAME_MAX];
	int rc = ENOENT;
	machine_dir(dir);
	if (machine_is_path(name)) {
		snprintf(path, sizeof path, "%s", name);
		rc = machine_file_read(path, m);
	}
	if (rc == ENOENT && !strchr(name, '/')) {
		const char *suffix = machine_is_path(name) ? "" : ".xml";
		snprintf(path, sizeof path, "%s/%s%s", dir, name, suffix);
		rc = machine_file_read(path, m);
	}
	if (rc == ENOENT && !machine_is_path(name)) {
		machine_not_found(name);
	} else if (rc == EFBIG) {
		fprintf(stderr, "machine %s: the file is too large, expected at most %u bytes\n",
			path, XML_MAX_BYTES);
	} else if (rc) {
		fprintf(stderr, "machine %s: cannot read it: %s\n", path, strerror(rc));
	}
	return rc;
}

int world_machine_load(const char *name_or_path, struct world_machine **machine)
{
	ASSERT(name_or_path && machine);
	int rc = ENOMEM;
	struct world_machine *m = calloc(1, sizeof *m);
	if (!m)
		return rc;
	m->gpu = calloc(MACHINE_MAX_GPUS, sizeof *m->gpu);
	m->nic = calloc(MACHINE_MAX_NICS, sizeof *m->nic);
	if (!m->gpu || !m->nic)
		goto err_free;
	rc = machine_find(name_or_path, m);
	if (rc)
		goto err_free;
	rc = machine_parse(m);
	if (rc)
		goto err_free;
	*machine = m;
	return 0;
err_free:
	world_machine_free(m);
	return rc;
}

void world_machine_free(struct world_machine *m)
{
	if (!m)
		return;
	free((char *)m->path);
	free((char *)m->xml);
	free(m->gpu);
	free(m->nic);
	free(m->nvlink);
	free(m);
}
