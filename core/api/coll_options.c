/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of one collective (ncclCollConfig_t): checked, and passed to the plan. */
#include <stdio.h>
#include <string.h>

#include "core/api/collective.h"
#include "core/base/log.h"
#include "core/ras/ras.h"
#include "core/tune/allowed.h"

/* Size of the first layout, which ended after the tag. */
#define OPTIONS_LEAST (offsetof(ncclCollConfig_t, userProfilerTag) + sizeof(uint64_t))
/* A longer list of vendors' options is taken for one that does not end. */
#define OPTIONS_VENDOR_MOST  1000
#define OPTIONS_TAG_RESERVED (1ull << 63)
DOPPEL_CHECK_OFFSET(ncclCollConfig_t, ext, 16);
DOPPEL_CHECK_OFFSET(ncclCollConfig_t, algSelection, 40);
DOPPEL_CHECK_OFFSET(ncclCollConfig_t, userProfilerTag, 56);
DOPPEL_CHECK_SIZE(ncclCollConfig_t, 72);
DOPPEL_STATIC_CHECK(OPTIONS_LEAST <= sizeof(ncclCollConfig_t),
		    "the first layout is a part of this");

/* ---- values --------------------------------------------------------------------------------- */

static ncclResult_t options_copy(const char *call, const ncclCollConfig_t *config,
				 ncclCollConfig_t *full)
{
	const ncclCollConfig_t unset = NCCL_COLLCONFIG_INITIALIZER;

	*full = unset;
	if (config->magic == NCCL_API_MAGIC && config->size >= OPTIONS_LEAST) {
		memcpy(full, config, MIN_OF(config->size, sizeof *full));
		return ncclSuccess;
	}
	WARN("%s: config has magic 0x%x and size %zu; initialise it with "
	     "NCCL_COLLCONFIG_INITIALIZER",
	     call, config->magic, config->size);
	return ncclInvalidArgument;
}

struct options_row {
	const char *name;
	int value, least, most;
	bool idle; /* has no effect here */
};

static ncclResult_t options_row_check(const char *call, const struct options_row *row)
{
	if (row->value == NCCL_CONFIG_UNDEF_INT)
		return ncclSuccess;
	if (row->value < row->least || row->value > row->most) {
		WARN("%s: config: %s is %d, expected %d to %d", call, row->name, row->value,
		     row->least, row->most);
		return ncclInvalidArgument;
	}
	if (row->idle)
		INFO(LOG_COLL, "%s: config: %s is %d, which has no effect here", call, row->name,
		     row->value);
	return ncclSuccess;
}

/* `messages`: the call consists of messages, which have no programs. */
static ncclResult_t options_values_check(const struct ncclComm *comm, const char *call,
					 const ncclCollConfig_t *o, bool messages)
{
	const int most = comm->config.maxCTAs;

	ASSERT(most >= 1 && most <= DEV_MAX_CHANNELS); /* comm_config_parse completed it */
	const struct options_row row[] = {
		{"minCTAs", o->minCTAs, 1, most, messages},
		{"maxCTAs", o->maxCTAs, 1, most, messages},
		{"nvlsCTAs", o->nvlsCTAs, 1, most, true},
		{"cgaClusterSize", o->cgaClusterSize, 0, 8, messages},
		{"forceAlgSelection", o->forceAlgSelection, 0, 1, false},
		{"CTAPolicy", o->CTAPolicy, NCCL_CTA_POLICY_DEFAULT,
		 NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO, true},
	};
	ncclResult_t rc = ncclSuccess;

	for (size_t i = 0; i < ARRAY_LEN(row) && !rc; i++)
		rc = options_row_check(call, &row[i]);
	if (rc || o->minCTAs == NCCL_CONFIG_UNDEF_INT || o->maxCTAs == NCCL_CONFIG_UNDEF_INT ||
	    o->minCTAs <= o->maxCTAs)
		return rc;
	WARN("%s: config: minCTAs is %d, more than maxCTAs, %d", call, o->minCTAs, o->maxCTAs);
	return ncclInvalidArgument;
}

/* Reads the deadline of a call. */
static ncclResult_t options_timeout(const struct ncclComm *comm, const char *call,
				    const ncclConfigExt_t *e, bool messages, uint64_t *timeout_ns)
{
	if (e->val.i < 1) {
		WARN("%s: config: NCCL_DOPPEL_OPTION_TIMEOUT_MS is %d, expected at least 1", call,
		     e->val.i);
		return ncclInvalidArgument;
	}
	if (messages) {
		WARN("%s: config: NCCL_DOPPEL_OPTION_TIMEOUT_MS is %d, expected a call that is not "
		     "made of messages; those have DOPPEL_TIMEOUT_MS",
		     call, e->val.i);
		return ncclInvalidUsage;
	}
	if (!comm->ras) {
		WARN("%s: config: NCCL_DOPPEL_OPTION_TIMEOUT_MS is %d, but no task watches it; "
		     "expected NCCL_RAS_ENABLE=1 or DOPPEL_TIMEOUT_MS in the environment",
		     call, e->val.i);
		return ncclInvalidUsage;
	}
	*timeout_ns = (uint64_t)e->val.i * 1000000ull;
	return ncclSuccess;
}

/* Options of other vendors have no effect. *timeout_ns: 0: no such option. */
static ncclResult_t options_vendor_read(const struct ncclComm *comm, const char *call,
					const ncclCollConfig_t *o, bool messages,
					uint64_t *timeout_ns)
{
	ncclResult_t rc = ncclSuccess;
	int n = 0;

	*timeout_ns = 0;
	for (const ncclConfigExt_t *e = o->ext; e && !rc; e = e->next) {
		if (++n > OPTIONS_VENDOR_MOST) {
			WARN("%s: config: ext has more than %d options, expected a list that ends "
			     "with NULL",
			     call, OPTIONS_VENDOR_MOST);
			return ncclInvalidArgument;
		}
		if (e->key.vendorId == NCCL_DOPPEL_VENDOR &&
		    e->key.optionId == NCCL_DOPPEL_OPTION_TIMEOUT_MS)
			rc = options_timeout(comm, call, e, messages, timeout_ns);
		else
			INFO(LOG_COLL, "%s: config: option %d of vendor %d is ignored", call,
			     e->key.optionId, e->key.vendorId);
	}
	return rc;
}

static ncclResult_t options_read(const struct ncclComm *comm, const char *call,
				 const ncclCollConfig_t *config, bool messages,
				 ncclCollConfig_t *full, uint64_t *timeout_ns)
{
	ncclResult_t rc = options_copy(call, config, full);

	if (!rc)
		rc = options_values_check(comm, call, full, messages);
	if (!rc)
		rc = options_vendor_read(comm, call, full, messages, timeout_ns);
	if (!rc && full->userProfilerTag & OPTIONS_TAG_RESERVED)
		INFO(LOG_COLL, "%s: config: userProfilerTag is 0x%llx; NCCL reserves the top bit",
		     call, (unsigned long long)full->userProfilerTag);
	return rc;
}

/* ---- the selection -------------------------------------------------------------------------- */

static bool options_selects(const ncclCollConfig_t *o)
{
	return o->algSelection && *o->algSelection;
}

/* Reports a selection that cannot be used: an error, unless the program allows other algorithms. */
static ncclResult_t options_unselected(const char *call, const ncclCollConfig_t *o, const char *why)
{
	if (o->forceAlgSelection) {
		WARN("%s: config: %s; forceAlgSelection 0 allows any algorithm then", call, why);
		return ncclInvalidArgument;
	}
	INFO(LOG_COLL | LOG_TUNING, "%s: config: %s; any algorithm may be used", call, why);
	return ncclSuccess;
}

static ncclResult_t options_select(struct api_coll *c, const ncclCollConfig_t *o)
{
	uint64_t *programs = &c->task.options.programs;
	char why[512];
	bool known = tune_allowed_select(o->algSelection, programs, why, sizeof why);

	if (*programs && plan_can(c->comm, &c->task))
		return ncclSuccess;
	*programs = 0;
	if (known)
		snprintf(why, sizeof why,
			 "algSelection=%.200s allows no algorithm that can run %s on these ranks",
			 o->algSelection, c->task.name);
	return options_unselected(c->task.call, o, why);
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* Returns a value, or 0 if it is not set. */
static int options_value(int value)
{
	return value == NCCL_CONFIG_UNDEF_INT ? 0 : value;
}

ncclResult_t api_options_of_coll(struct api_coll *c)
{
	ncclCollConfig_t o;
	uint64_t timeout_ns = 0;
	ncclResult_t rc = options_read(c->comm, c->task.call, c->config, false, &o, &timeout_ns);

	if (rc)
		return rc;
	c->task.options = (struct plan_options){
		.min_channels = options_value(o.minCTAs),
		.max_channels = options_value(o.maxCTAs),
		.cluster = o.cgaClusterSize == 0 ? 1 : (uint32_t)options_value(o.cgaClusterSize),
		.tag = o.userProfilerTag,
		.timeout_ns = timeout_ns,
	};
	if (timeout_ns)
		ras_watch(c->comm->ras, timeout_ns);
	c->completion = o.launchCompletionEvent;
	return options_selects(&o) ? options_select(c, &o) : ncclSuccess;
}

ncclResult_t api_options_of_messages(const struct ncclComm *comm, const char *call,
				     const ncclCollConfig_t *config, uint64_t *tag,
				     cudaEvent_t *completion)
{
	ncclCollConfig_t o;
	uint64_t timeout_ns = 0;
	ncclResult_t rc = options_read(comm, call, config, true, &o, &timeout_ns);
	char why[256];

	*tag = 0;
	*completion = NULL;
	if (rc)
		return rc;
	*tag = o.userProfilerTag;
	*completion = o.launchCompletionEvent;
	if (!options_selects(&o))
		return ncclSuccess;
	snprintf(why, sizeof why,
		 "algSelection=%.100s: the call consists of messages, which have "
		 "no algorithm",
		 o.algSelection);
	return options_unselected(call, &o, why);
}
