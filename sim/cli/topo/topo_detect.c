/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel topo detect: prints the detected topology as XML, of this host or of a host in a world.
 * The world builds its /sys and drivers from a machine's file.
 */
#include <argp.h>
#include <ctype.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/detect/gpu.h"
#include "core/topo/topo.h"
#include "sim/cli/cli.h"
#include "sim/cli/options.h"
#include "sim/cli/rules.h"
#include "sim/world/world.h"

#define TOPO_DETECT_NICS 256

struct topo_detect_run {
	const char *machine; /* NULL: this host */
	struct topo_detect_gpu gpu[TOPO_MAX_LOCAL];
	struct topo_detect_nic nic[TOPO_DETECT_NICS];
	struct topo_detect_part part[TOPO_MAX_LOCAL];
	int code;
};

enum topo_detect_key { TOPO_DETECT_MACHINE = 0x100 };

static const struct argp_option topo_detect_options[] = {
	{"machine", TOPO_DETECT_MACHINE, "XML", 0,
	 "a host that is this machine: one that comes with Doppel, or a topology file (default: "
	 "this "
	 "host)",
	 0},
	{0},
};

static error_t topo_detect_parse(int key, char *arg, struct argp_state *state)
{
	struct topo_detect_run *r = state->input;

	cli_take(state, topo_detect_options, NULL, key, arg);
	switch (key) {
	case TOPO_DETECT_MACHINE:
		if (!cli_has_both_doubles())
			argp_error(state, "--machine: this build has real GPUs or HCAs, and finds "
					  "those; expected a build of both doubles (preset fake)");
		r->machine = arg;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is too much; expected --machine XML, or nothing", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Stores all GPUs that CUDA reports; returns their number. A build with the GPU double has no GPU
 * on a real host. */
static int32_t topo_detect_gpus(struct topo_detect_run *r)
{
	int count = 0, found = 0;
#ifdef DOPPEL_FAKECUDA
	if (!r->machine)
		return 0;
#endif
	if (cudaGetDeviceCount(&count))
		count = 0;
	for (int i = 0; i < count && found < TOPO_MAX_LOCAL; i++) {
		struct topo_detect_gpu *gpu = &r->gpu[found];
		char bus_id[24] = "";

		if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, i))
			continue;
		for (char *p = bus_id; *p; p++)
			*p = (char)tolower((unsigned char)*p);
		if (detect_gpu_facts(i, bus_id, gpu))
			continue;
		gpu->rank = found++;
		if (gpu->dev < 0)
			gpu->dev = gpu->rank;
	}
	return found;
}

/* Detects the host as the ranks of a communicator do. Each GPU yields a part with all NICs; the
 * parts are fused in order. New elements of a part follow the elements of earlier parts. The order
 * of elements therefore depends on which part has them. */
static ncclResult_t topo_detect_host(struct topo_detect_run *r, char **xml, size_t *bytes,
				     int32_t *gpus)
{
	struct topo_detect d = {.host_hash = topo_host_hash(), .nic = r->nic, .all_cpus = true};
	int32_t parts = 0;
	ncclResult_t rc = ncclSuccess;

	*gpus = topo_detect_gpus(r);
	d.nics = topo_detect_nics(r->nic, TOPO_DETECT_NICS);
	for (; parts < MAX_OF(*gpus, 1) && !rc; parts++) {
		struct topo_detect_part *part = &r->part[parts];
		char *text = NULL;

		d.gpu = &r->gpu[parts];
		d.gpus = *gpus ? 1 : 0;
		rc = topo_detect(&d, &text, &part->bytes);
		part->xml = text;
	}
	if (!rc)
		rc = topo_detect_fuse(r->part, parts, xml, bytes);
	for (int32_t i = 0; i < parts; i++)
		os_free((char *)r->part[i].xml);
	return rc;
}

static void topo_detect_print(void *arg)
{
	struct topo_detect_run *r = arg;
	char *xml = NULL;
	size_t bytes = 0;
	int32_t gpus = 0;

	r->code = SIM_ERROR;
	if (topo_detect_host(r, &xml, &bytes, &gpus)) {
		fprintf(stderr, "doppel topo detect: %s\n", log_last_error());
		return;
	}
	fwrite(xml, 1, bytes, stdout);
	os_free(xml);
	if (gpus)
		r->code = SIM_PASS;
	else
		fprintf(stderr, "doppel topo detect: there is no GPU%s\n",
#ifdef DOPPEL_FAKECUDA
			": this build has doubles, of a machine that --machine names"
#else
			""
#endif
		);
}

static int topo_detect_in_world(struct topo_detect_run *r)
{
	const struct sim_config sim = {.engine = SIM_ENGINE_SIM, .strategy = SIM_FIFO};
	const struct world_config world = {.hosts = 1, .machine = r->machine};

	if (sim_start(&sim))
		return SIM_USAGE;
	if (world_create(&world)) {
		sim_stop();
		return SIM_USAGE;
	}
	int code = (int)sim_run(topo_detect_print, r);
	if (world_destroy() && code == SIM_PASS)
		code = SIM_LEAK;
	sim_stop();
	return code ? code : r->code;
}

static char *topo_detect_help(int key, const char *text, void *input)
{
	(void)input;
	return key == ARGP_KEY_HELP_POST_DOC ? cli_machines_help("XML is a file, or one of")
					     : (char *)text;
}

int cli_topo_detect(int argc, char **argv)
{
	static const struct argp argp = {
		.options = topo_detect_options,
		.parser = topo_detect_parse,
		.help_filter = topo_detect_help,
		.doc = "Prints the topology that is detected, in NCCL's XML: GPUs, NICs, PCI "
		       "switches and CPUs as /sys and the drivers have them. Exit code 2 where "
		       "there is no GPU.",
	};
	struct topo_detect_run *r = calloc(1, sizeof *r);

	if (!r) {
		fprintf(stderr, "doppel topo detect: no memory\n");
		return SIM_USAGE;
	}
	cli_parse(&argp, 0, argc, argv, r);
	if (r->machine)
		r->code = topo_detect_in_world(r);
	else
		topo_detect_print(r);
	int code = r->code;
	free(r);
	return code;
}
