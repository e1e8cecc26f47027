/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the files of a host's /sys, and the topology that exists before detection. The input is
 * lines, then the XML:
 *
 *   gpu 0000:13:00.0               a GPU to detect
 *   file /sys/... CONTENTS         CONTENTS is the rest of the line
 *   link /sys/... NAME TARGET
 *   xml                            the rest of the text
 *
 * Detection returns XML, or refuses the text with a reason. The XML can be fused, and fusing it
 * with itself changes nothing. If it was made from /sys alone, and no GPU is a bridge there, the
 * reader accepts it. For libFuzzer (clang -fsanitize=fuzzer); fuzz_main.h has a driver without it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/topo/detect/detect_internal.h"
#include "core/topo/topo.h"
#include "tests/host_files.h"

enum { FUZZ_GPUS = 4, FUZZ_NICS = 8 };

struct fuzz_host {
	struct topo_detect_gpu gpu[FUZZ_GPUS];
	struct topo_detect_nic nic[FUZZ_NICS];
	struct topo_detect d;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* ---- host ----------------------------------------------------------------------------------- */

/* Returns the next word of the line; "" at its end. */
static char *fuzz_word(char **line)
{
	char *word = *line, *end = word + strcspn(word, " ");

	*line = *end ? end + 1 : end;
	*end = '\0';
	return word;
}

/* Adds a GPU with links to the other GPUs and to a switch that is not visible. */
static void fuzz_gpu(struct fuzz_host *h, const char *bus_id)
{
	struct topo_detect_gpu *gpu = &h->gpu[h->d.gpus];

	if (h->d.gpus == FUZZ_GPUS || !detect_is_bus_id(bus_id))
		return; /* a driver reports valid addresses */
	for (int32_t i = 0; i < h->d.gpus; i++)
		if (strcmp(h->gpu[i].bus_id, bus_id) == 0)
			return;
	memset(gpu, 0, sizeof *gpu);
	snprintf(gpu->bus_id, sizeof gpu->bus_id, "%.23s", bus_id);
	gpu->dev = gpu->rank = h->d.gpus++;
	gpu->sm = 80;
	snprintf(gpu->link[0].target, sizeof gpu->link[0].target, "fffffff:ff:ff.0");
	gpu->link[0].count = 2;
	memcpy(gpu->link[1].target, h->gpu[0].bus_id, sizeof gpu->bus_id);
	gpu->link[1].count = 1;
	gpu->links = 2;
}

/* Handles one line. Returns false if the rest is XML. */
static bool fuzz_line(struct fuzz_host *h, char *line)
{
	const char *what = fuzz_word(&line);

	if (strcmp(what, "xml") == 0)
		return false;
	const char *path = fuzz_word(&line);

	if (strcmp(what, "gpu") == 0)
		fuzz_gpu(h, path);
	if (path[0] != '/')
		return true;
	if (strcmp(what, "file") == 0)
		files_add(host, path, line);
	if (strcmp(what, "link") == 0) {
		const char *name = fuzz_word(&line);

		files_link(host, path, name, line);
	}
	return true;
}

static void fuzz_host_make(struct fuzz_host *h, char *text)
{
	bool more = true;

	h->d = (struct topo_detect){.host_hash = 1, .gpu = h->gpu, .nic = h->nic};
	while (more && *text) {
		char *end = text + strcspn(text, "\n"), *next = *end ? end + 1 : end;

		*end = '\0';
		more = fuzz_line(h, text);
		text = next;
	}
	if (!more) {
		h->d.base = text;
		h->d.base_bytes = strlen(text);
		h->d.source = "fuzz";
	}
	h->d.nics = topo_detect_nics(h->nic, FUZZ_NICS);
}

/* ---- checks --------------------------------------------------------------------------------- */

/* True if the kernel has a GPU as a bridge: its functions precede the <gpu> element. */
static bool fuzz_gpu_is_bridge(const char *xml)
{
	for (const char *gpu = strstr(xml, "<gpu "); gpu; gpu = strstr(gpu + 1, "<gpu ")) {
		const char *before = gpu;

		while (before[-1] == ' ' || before[-1] == '\n')
			before--;
		if (before - xml > 6 && strncmp(before - 6, "</pci>", 6) == 0)
			return true;
	}
	return false;
}

static void fuzz_read(const struct fuzz_host *h, const char *xml, size_t bytes)
{
	static struct topo_select select;
	const struct topo_system *sys;

	memset(&select, 0, sizeof select);
	select.count = h->d.gpus;
	for (int32_t i = 0; i < h->d.gpus; i++) {
		memcpy(select.gpu[i].bus_id, h->gpu[i].bus_id, sizeof h->gpu[i].bus_id);
		select.gpu[i].dev = h->gpu[i].dev;
	}
	if (topo_system_get(xml, bytes, "fuzz", &select, &sys) == ncclSuccess)
		return;
	ASSERT(log_last_error()[0]);
	if (!h->d.base && h->d.gpus && !fuzz_gpu_is_bridge(xml)) {
		fprintf(stderr, "%s\n%s", log_last_error(), xml);
		abort();
	}
}

static void fuzz_fuse(const struct fuzz_host *h, const char *xml, size_t bytes)
{
	const struct topo_detect_part part[2] = {{xml, bytes}, {xml, bytes}};
	char *once, *twice;
	size_t once_bytes, twice_bytes;

	if (topo_detect_fuse(part, 1, &once, &once_bytes)) {
		ASSERT(h->d.base && log_last_error()[0]); /* too deep, or too many attributes */
		return;
	}
	ASSERT(topo_detect_fuse(part, 2, &twice, &twice_bytes) == ncclSuccess);
	ASSERT(once_bytes == twice_bytes && memcmp(once, twice, once_bytes) == 0);
	fuzz_read(h, once, once_bytes);
	os_free(once);
	os_free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct fuzz_host h;
	char *text = calloc(1, bytes + 1), *xml = NULL;
	size_t xml_bytes = 0;

	ASSERT(text);
	memcpy(text, data, bytes);
	host_open();
	fuzz_host_make(&h, text);
	if (topo_detect(&h.d, &xml, &xml_bytes)) {
		ASSERT(h.d.base && log_last_error()[0]);
	} else {
		ASSERT(strlen(xml) == xml_bytes);
		fuzz_fuse(&h, xml, xml_bytes);
		os_free(xml);
	}
	ASSERT(os_real_alloc_count(NULL) == 0);
	host_close();
	free(text);
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
