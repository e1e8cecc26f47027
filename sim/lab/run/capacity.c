/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the demand of a run with the resources of this computer, before the run starts. A world
 * that does not fit fails in thousands of places, none of which knows the reason.
 */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "sim/lab/run/runner_internal.h"

/* Mappings of a rank: GPU memory twice, network buffers. The stacks that have a guard are of all
 * ranks (sim/engine/base/fiber.h), two mappings each. 512 ranks with 1 MiB had 19,144. */
#define CAPACITY_RANK_MAPPINGS  8u
#define CAPACITY_OTHER_MAPPINGS 17400u

static int capacity_check_mappings(const struct lab_config *c, uint64_t ranks)
{
	uint64_t most = 0;
	uint64_t need = CAPACITY_OTHER_MAPPINGS + ranks * CAPACITY_RANK_MAPPINGS;
	FILE *f = fopen("/proc/sys/vm/max_map_count", "r");

	ASSERT(ranks > 0); /* lab_check_world */
	if (f && fscanf(f, "%" SCNu64, &most) != 1)
		most = 0;
	if (f)
		fclose(f);
	if (!most || need <= most)
		return 0;
	uint64_t fit = most > CAPACITY_OTHER_MAPPINGS ? most - CAPACITY_OTHER_MAPPINGS : 0;
	fprintf(stderr,
		"doppel: --hosts %u: %" PRIu64 " ranks need about %" PRIu64
		" memory mappings, and the kernel allows %" PRIu64
		" (vm.max_map_count); expected at most --hosts %" PRIu64
		", or sysctl vm.max_map_count=%" PRIu64 "\n",
		c->hosts, ranks, need, most, fit / CAPACITY_RANK_MAPPINGS * c->hosts / ranks, need);
	return ENOMEM;
}

/* Too large to be generous. */
static bool capacity_is_large(const struct lab_config *c)
{
	uint64_t most = c->whole_result_bytes ? c->whole_result_bytes : LAB_WHOLE_RESULT_BYTES;

	return c->bytes_max > most;
}

bool lab_expect_is_whole(const struct lab_config *c)
{
	bool reduces = c->collective->reduces || (c->before && c->before->reduces);

	return c->check && !c->life && reduces && !capacity_is_large(c);
}

uint64_t lab_send_bytes(const struct lab_config *c)
{
	bool used = c->life || lab_collective_out_of_place(c->collective, c->out_of_place) ||
		    (c->before && lab_collective_out_of_place(c->before, c->out_of_place));

	return used || !capacity_is_large(c) ? MAX_OF(c->bytes_max, LAB_SMALL_BYTES)
					     : LAB_SMALL_BYTES;
}

#ifdef DOPPEL_FAKECUDA
/* Each rank has a receive buffer, a send buffer if it is used, two more beside several streams, and
 * one beside windows. */
static int capacity_check_memory(const struct lab_config *c, uint64_t ranks)
{
	uint64_t have = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	bool whole = lab_expect_is_whole(c), sends = lab_send_bytes(c) > LAB_SMALL_BYTES;
	uint64_t own = 1 + sends + (c->streams > 1 ? 2 : lab_has_windows(c));
	uint64_t copies = own * ranks + whole, fit = have / copies;

	if (c->bytes_max <= fit)
		return 0;
	fprintf(stderr,
		"doppel: -e %" PRIu64 ": %" PRIu64 " buffers of so many bytes (%" PRIu64
		" ranks%s) do not fit in the %" PRIu64
		" MiB of this computer; expected at most -e %" PRIu64
		"M, or fewer ranks (--gpus, --hosts)%s\n",
		c->bytes_max, copies, ranks, whole ? " and the expected result" : "", have >> 20,
		fit >> 20, sends && !c->collective->never_in_place ? ", or --place in" : "");
	return ENOMEM;
}
#endif

int lab_capacity_check(const struct lab_config *c, uint32_t ranks)
{
	int rc = c->spread ? 0 : capacity_check_mappings(c, ranks);

#ifdef DOPPEL_FAKECUDA
	if (!rc)
		rc = capacity_check_memory(c, ranks);
#endif
	return rc;
}
