/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of a tuner plugin's functions, whose types differ between versions. */
#include "core/tune/allowed.h"
#include "core/tuner/tuner_internal.h"

/* Numbers of algorithms in the table of costs. */
enum { TUNER_COLLNET_CHAIN = 3, TUNER_NVLS = 4, TUNER_NVLS_TREE = 5, TUNER_SIMPLE = 2 };

const char *tuner_name(const struct tuner *t)
{
	/* the name is the first member in each version */
	return ((const struct tuner_v2 *)t->table)->name;
}

bool tuner_table_is_complete(const struct tuner *t)
{
	/* name, init, the choice and the end have the same places in each version */
	const struct tuner_v2 *v2 = t->table;

	return v2->name && v2->init && v2->get_coll_info && v2->destroy;
}

ncclResult_t tuner_call_init(struct tuner *t, const struct ncclComm *comm,
			     struct tuner_constants *constants)
{
	const struct topo_summary *s = &comm->summary;
	struct tuner_domains domains = {s->nhosts, s->host_least, s->host_most};
	const size_t nranks = (size_t)comm->nranks, nhosts = (size_t)s->nhosts;

	t->context = NULL;
	if (t->version >= 5)
		return ((const struct tuner_v5 *)t->table)
			->init(&t->context, comm->id_hash, nranks, nhosts, plugin_log, &domains,
			       constants);
	return ((const struct tuner_v2 *)t->table)->init(nranks, nhosts, plugin_log, &t->context);
}

ncclResult_t tuner_call_finalize(const struct tuner *t)
{
	return ((const struct tuner_v2 *)t->table)->destroy(t->context);
}

/* Version 2 names one program instead of costs: its cost becomes 0. Such a plugin receives which
 * algorithms of switches can run. */
static ncclResult_t tuner_choose_v2(const struct tuner *t, int func, uint64_t bytes,
				    float cost_us[TUNER_ALGOS][TUNER_PROTOS], int *nchannels)
{
	const struct tuner_v2 *v2 = t->table;
	const int nvls = cost_us[TUNER_NVLS][TUNER_SIMPLE] >= 0 ||
			 cost_us[TUNER_NVLS_TREE][TUNER_SIMPLE] >= 0;
	const int collnet = cost_us[TUNER_COLLNET_CHAIN][TUNER_SIMPLE] >= 0;
	int algo = -1, proto = -1;
	ncclResult_t rc = v2->get_coll_info(t->context, func, bytes, collnet, nvls, 1, &algo,
					    &proto, nchannels);

	if (!rc && algo >= 0 && algo < TUNER_ALGOS && proto >= 0 && proto < TUNER_PROTOS &&
	    cost_us[algo][proto] >= 0)
		cost_us[algo][proto] = 0;
	return rc;
}

ncclResult_t tuner_call_choose(const struct tuner *t, int func, uint64_t bytes,
			       float cost_us[TUNER_ALGOS][TUNER_PROTOS], int *nchannels)
{
	const struct tuner_v3 *v3 = t->table;
	const struct tuner_v4 *v4 = t->table;

	if (t->version == 2)
		return tuner_choose_v2(t, func, bytes, cost_us, nchannels);
	if (t->version == 3)
		return v3->get_coll_info(t->context, func, bytes, 1, (float **)cost_us, TUNER_ALGOS,
					 TUNER_PROTOS, nchannels);
	return v4->get_coll_info(t->context, func, bytes, 1, (float **)cost_us, TUNER_ALGOS,
				 TUNER_PROTOS, 0, nchannels);
}

ncclResult_t tuner_call_chunk(const struct tuner *t, int func, uint64_t bytes,
			      enum dev_program program, int32_t nchannels, size_t *chunk)
{
	const struct tuner_v6 *v6 = t->table;

	if (t->version < 6 || !v6->get_chunk_size)
		return ncclSuccess;
	return v6->get_chunk_size(t->context, func, bytes, tune_algo_number((int)program),
				  tune_proto_number((int)program), nchannels, chunk);
}
