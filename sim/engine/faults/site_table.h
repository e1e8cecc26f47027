/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of a layer's fault sites. The room that visits the sites has the table: sim/world those
 * of fabric and host, backends/sites those of HCAs and GPUs. A table joins the engine when
 * libdoppel-rt is loaded. All tables are in that library, also in a process without the double:
 * a plan has the same meaning in every process, and a seed draws the same plan.
 */
#ifndef SIM_ENGINE_FAULTS_SITE_TABLE_H
#define SIM_ENGINE_FAULTS_SITE_TABLE_H

#include "core/os/os.h"

enum { FAULT_ACTIONS_MAX = 7, FAULT_PARAMS_MAX = 2 };

/* The type of a parameter's value. */
enum fault_value {
	FAULT_TIME,    /* 50us */
	FAULT_NUMBER,  /* 17 */
	FAULT_ERRNO,   /* a name, or a number: so are all types below */
	FAULT_STATUS,  /* enum ibv_wc_status without IBV_WC_ */
	FAULT_CUDA,    /* cudaError_t without cudaError */
	FAULT_STATE,   /* enum ibv_qp_state without IBV_QPS_ */
	FAULT_REFUSAL, /* reason for which a responder refuses */
	FAULT_VALUES,
};

struct fault_param {
	const char *name;
	enum fault_value type;
	uint64_t usual;       /* default value */
	uint64_t least, most; /* most 0: any value of the type */
};

/* An action of a site; the first one in the table is the default. Its parameters become `arg` and
 * `more` of struct os_fault, in order. */
struct fault_action {
	const char *name;
	enum os_fault_kind kind;
	const char *what; /* for people; NULL: the name is enough */
	struct fault_param param[FAULT_PARAMS_MAX];
	bool lasts; /* also has for=TIME; the default 0 lasts until the faults heal */
};

struct fault_site {
	const char *name;
	const char *what; /* for people */
	struct fault_action action[FAULT_ACTIONS_MAX];
	bool has_state; /* the site accepts the key state= */
	/* Reason why no run of the lab reaches the site; NULL: some run does. Drawn plans omit such
	 * sites, and sweeps do not list them as missing. */
	const char *idle;
};

#define IDLE_QUERY "the stack learns what it needs by other calls"

#define FAULT_ACTION_FAIL(error)                                                                   \
	{                                                                                          \
		.name = "fail", .kind = OS_FAULT_FAIL, .what = "returns the error", .param = {     \
			{"errno", FAULT_ERRNO, error, 0, 0}                                        \
		}                                                                                  \
	}

#pragma GCC visibility push(hidden)
/* Makes the table the sites of the layer. `site` ends with a NULL name. */
void fault_sites_join(const char *layer, const struct fault_site *site);
#pragma GCC visibility pop

/* Makes fault_sites_LAYER, the table above it, the sites of the layer. */
#define FAULT_SITES_JOIN(layer)                                                                    \
	__attribute__((constructor)) static void fault_sites_join_##layer(void)                    \
	{                                                                                          \
		fault_sites_join(#layer, fault_sites_##layer);                                     \
	}

#endif
