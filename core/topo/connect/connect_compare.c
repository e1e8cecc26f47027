/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the rings, trees and heads of all ranks. Each rank computes them by itself from the same
 * data. A rank of another build could compute others, and would wait for connections that no other
 * rank makes.
 */
#include <inttypes.h>
#include <stddef.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/topo/topo.h"

static uint64_t topo_digest_of(const int32_t *ranks, int nranks, int32_t channel, int32_t distinct)
{
	const size_t n = (size_t)nranks;

	return hash64_seeded(ranks + (size_t)(channel % distinct) * n, n * sizeof *ranks,
			     (uint64_t)distinct);
}

void topo_digest_make(struct topo_digest *d, int nranks, int32_t nchannels,
		      const struct topo_rings *rings, const int32_t *order,
		      const struct topo_trees *trees, const int32_t *parent)
{
	ASSERT(nchannels > 0 && nchannels <= DEV_MAX_CHANNELS);
	*d = (struct topo_digest){
		.nchannels = nchannels, .rings = rings->distinct, .trees = trees->distinct};
	for (int32_t c = 0; c < nchannels; c++) {
		d->ring[c] = topo_digest_of(order, nranks, c, rings->distinct);
		d->tree[c] = topo_digest_of(parent, nranks, c, trees->distinct);
	}
}

uint64_t topo_digest_hash(const struct topo_digest *d)
{
	uint64_t hash = hash64_seeded(d, offsetof(struct topo_digest, heads), 0);

	for (int p = 0; p < TOPO_HEAD_PATTERNS; p++)
		if (d->heads[p])
			hash = hash64_combine(hash, hash64_combine(d->heads[p], (uint64_t)p));
	return hash;
}

static bool topo_digest_counts(const struct topo_digest *a, const struct topo_digest *b, int rank)
{
	if (a->nchannels == b->nchannels && a->rings == b->rings && a->trees == b->trees)
		return true;
	WARN("rank %d has %d channels of %d rings and %d trees, rank 0 has %d of %d and %d: all "
	     "ranks "
	     "must be of one build",
	     rank, b->nchannels, b->rings, b->trees, a->nchannels, a->rings, a->trees);
	return false;
}

static bool topo_digest_channel(const struct topo_digest *a, const struct topo_digest *b, int rank,
				int32_t c)
{
	bool ring = a->ring[c] == b->ring[c];

	if (ring && a->tree[c] == b->tree[c])
		return true;
	WARN("rank %d, channel %d: its %s of all ranks has the hash %016" PRIx64
	     ", that of rank 0 %016" PRIx64 ": all ranks must be of one build",
	     rank, c, ring ? "tree" : "ring", ring ? b->tree[c] : b->ring[c],
	     ring ? a->tree[c] : a->ring[c]);
	return false;
}

static bool topo_digest_heads(const struct topo_digest *a, const struct topo_digest *b, int rank,
			      int p)
{
	if (a->heads[p] == b->heads[p])
		return true;
	WARN("rank %d: its %s heads of all hosts have the hash %016" PRIx64
	     ", those of rank 0 %016" PRIx64 ": all ranks must be of one build",
	     rank, topo_pattern_name((enum topo_pattern)(TOPO_PATTERNS + p)), b->heads[p],
	     a->heads[p]);
	return false;
}

ncclResult_t topo_digest_compare(const struct topo_digest *all, int nranks)
{
	for (int r = 1; r < nranks; r++) {
		if (!topo_digest_counts(&all[0], &all[r], r))
			return ncclInternalError;
		for (int32_t c = 0; c < all[0].nchannels; c++)
			if (!topo_digest_channel(&all[0], &all[r], r, c))
				return ncclInternalError;
		for (int p = 0; p < TOPO_HEAD_PATTERNS; p++)
			if (!topo_digest_heads(&all[0], &all[r], r, p))
				return ncclInternalError;
	}
	return ncclSuccess;
}
