/* SPDX-License-Identifier: BSD-3-Clause */
/* The time that a group's collectives would take, by the model of core/tune. */
#include "core/api/api.h"
#include "core/base/log.h"
#include "core/plan/plan.h"

/* Adds the time of one communicator's collectives. */
static ncclResult_t simulate_member(const struct api_member *m, uint64_t *ns, int32_t *counted)
{
	ncclResult_t rc = comm_enter(m->comm, "ncclGroupSimulateEnd", COMM_NEED_READY);
	int32_t more;

	if (rc)
		return rc;
	*ns += plan_estimate_ns(m->comm, &more);
	*counted += more;
	comm_leave(m->comm);
	return ncclSuccess;
}

static bool simulate_device_seen(const struct api_member *members, int i)
{
	for (int k = 0; k < i; k++)
		if (members[k].device == members[i].device)
			return true;
	return false;
}

/* The communicators of a GPU run one after another, GPUs run concurrently. */
ncclResult_t api_simulate(const struct api_member *members, int n, float *us)
{
	ncclResult_t rc = ncclSuccess;
	uint64_t most_ns = 0;
	int32_t counted = 0;

	for (int i = 0; i < n && !rc; i++) {
		uint64_t ns = 0;

		if (simulate_device_seen(members, i))
			continue;
		for (int k = i; k < n && !rc; k++)
			if (members[k].device == members[i].device)
				rc = simulate_member(&members[k], &ns, &counted);
		most_ns = MAX_OF(most_ns, ns);
	}
	if (rc || !counted)
		return rc;
	*us = (float)most_ns / 1000;
	INFO(LOG_TUNING, "ncclGroupSimulateEnd: %d collectives, %llu ns", counted,
	     (unsigned long long)most_ns);
	return ncclSuccess;
}
