/* SPDX-License-Identifier: BSD-3-Clause */
/* The report as JSON, with NCCL's keys. */
#include <inttypes.h>
#include <string.h>

#include "core/include/nccl.h"
#include "core/ras/ras_job.h"

static const char *json_bool(bool b)
{
	return b ? "true" : "false";
}

/* Writes the fields of a rank that are the same for those that answered and for missing ones. */
static void json_place(struct ras_text *out, const struct ras_job *j, int32_t rank,
		       uint32_t process, int32_t cuda_dev, int32_t nvml_dev)
{
	const struct ras_process *p = process == UINT32_MAX ? NULL : &j->process[process];
	char host[RAS_HOST_BYTES] = "unknown";

	if (p)
		ras_host_print(&p->addr, host);
	ras_text_add(out,
		     "        {\n          \"rank\": %d,\n          \"host\": \"%s\",\n"
		     "          \"pid\": %d,\n          \"cuda_dev\": %d,\n"
		     "          \"nvml_dev\": %d,\n          \"status\": {\n",
		     rank, host, p ? p->pid : -1, cuda_dev, nvml_dev);
}

static void json_rank(struct ras_text *out, const struct ras_job *j, const struct ras_job_rank *jr)
{
	const struct ras_rank *r = &jr->r;

	json_place(out, j, r->rank, jr->process, r->cuda_dev, r->nvml_dev);
	ras_text_add(out,
		     "            \"init_state\": %u,\n            \"async_error\": %u,\n"
		     "            \"finalize_called\": %s,\n            \"destroy_flag\": %s,\n"
		     "            \"abort_flag\": %s\n          },\n"
		     "          \"collective_counts\": {\n",
		     r->init_state, r->async_error, json_bool(r->finalized),
		     json_bool(r->destroyed), json_bool(r->aborted));
	for (int f = 0; f < RAS_FUNCS; f++)
		ras_text_add(out, "            \"%s\": %" PRIu64 "%s\n", ras_func_name(f),
			     r->count[f], f < RAS_FUNCS - 1 ? "," : "");
	ras_text_add(out, "          }\n        }");
}

static void json_missing(struct ras_text *out, struct ras_job *j, const struct ras_comm *c)
{
	struct ras_missing m = {.next = 0};

	for (bool first = true; ras_missing_next(j, c, &m); first = false) {
		bool dead = m.process != UINT32_MAX && j->process[m.process].state == RAS_DEAD;

		ras_text_add(out, "%s", first ? "" : ",\n");
		json_place(out, j, m.rank, m.process, m.member ? m.member->cuda_dev : -1,
			   m.member ? m.member->nvml_dev : -1);
		ras_text_add(out,
			     "            \"unresponsive\": %s,\n"
			     "            \"considered_dead\": %s\n          }\n        }",
			     json_bool(!m.answered), json_bool(dead));
	}
}

static void json_comm(struct ras_text *out, struct ras_job *j, const struct ras_comm *c)
{
	const struct ras_rank *first = &c->rank[0].r;

	ras_text_add(out,
		     "    {\n      \"hash\": \"0x%" PRIx64 "\",\n"
		     "      \"secondary_hash\": \"0x%" PRIx64 ":0x%" PRIx64 "\",\n"
		     "      \"size\": %d,\n      \"ranks_count\": %u,\n"
		     "      \"missing_ranks_count\": %u,\n      \"ranks\": [\n",
		     c->hash, first->first_host, first->first_pid, c->size, c->ranks, c->missing);
	for (uint32_t i = 0; i < c->ranks; i++) {
		ras_text_add(out, "%s", i ? ",\n" : "");
		json_rank(out, j, &c->rank[i]);
	}
	ras_text_add(out, "\n      ],\n      \"missing_ranks\": [\n");
	json_missing(out, j, c);
	ras_text_add(out, "\n      ]\n    }");
}

static void json_lines(struct ras_text *out, const struct ras_text *text)
{
	const char *at = text->at, *end = text->at + text->bytes;

	for (bool first = true; at < end; first = false) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t n = (size_t)((stop ? stop : end) - at);

		ras_text_add(out, "%s", first ? "\n        \"" : ",\n        \"");
		ras_text_json(out, at, n);
		ras_text_add(out, "\"");
		at += n + 1;
	}
}

/* The texts of a DUMP; NCCL has no such key. */
static void json_dumps(struct ras_text *out, const struct ras_job *j)
{
	char host[RAS_HOST_BYTES];
	bool first = true;

	for (uint32_t i = 0; i < j->processes; i++) {
		const struct ras_process *p = &j->process[i];

		if (!p->dump.bytes)
			continue;
		ras_text_add(out,
			     "%s    {\n      \"host\": \"%s\",\n      \"pid\": %d,\n"
			     "      \"lines\": [",
			     first ? "  \"pending\": [\n" : ",\n", ras_host_print(&p->addr, host),
			     p->pid);
		json_lines(out, &p->dump);
		ras_text_add(out, "\n      ]\n    }");
		first = false;
	}
	ras_text_add(out, "%s", first ? "" : "\n  ],\n");
}

/* The causes of a DUMP; NCCL has no such key. */
static void json_causes(struct ras_text *out, struct ras_job *j)
{
	struct ras_text causes = {.bytes = 0};

	ras_causes_write(&causes, j);
	ras_text_add(out, "  \"causes\": [");
	json_lines(out, &causes);
	ras_text_add(out, "\n  ],\n");
	out->lost = out->lost || causes.lost;
	ras_text_free(&causes);
}

void ras_json_write(struct ras_text *out, struct ras_job *j, bool dump)
{
	char date[RAS_DATE_BYTES];

	ras_text_add(out,
		     "{\n  \"nccl_version\": \"%d.%d.%d\",\n  \"cuda_runtime_version\": %d,\n"
		     "  \"cuda_driver_version\": %d,\n  \"timestamp\": \"%s\",\n"
		     "  \"communicators_count\": %u,\n  \"communicators\": [\n",
		     NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH, j->cuda_runtime, j->cuda_driver,
		     ras_date_print(date), j->comms);
	for (uint32_t i = 0; i < j->comms; i++) {
		ras_text_add(out, "%s", i ? ",\n" : "");
		json_comm(out, j, &j->comm[i]);
	}
	ras_text_add(out, "\n  ],\n");
	if (dump)
		json_causes(out, j);
	json_dumps(out, j);
	ras_text_add(out,
		     "  \"ras\": {\n    \"collection_time_sec\": %.3f,\n"
		     "    \"timeouts_count\": %u\n  }\n}\n",
		     (double)j->took_ns * 1e-9, j->timeouts);
}
