/* SPDX-License-Identifier: BSD-3-Clause */
/* Unique ids: the address of a root and a random number, in NCCL's 128 bytes. */
#include <inttypes.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/bootstrap/bootstrap_internal.h"

/* `fixed`: the root's address, or NULL. */
static ncclResult_t bootstrap_id_make(ncclUniqueId *id, const char *fixed,
				      struct bootstrap_owner owner, struct bootstrap_root **root)
{
	struct bootstrap_id out = {0};
	struct os_addr own;
	struct bootstrap_root *made = NULL;
	ncclResult_t rc;

	if (fixed) {
		out.from_env = 1;
		out.magic = hash64_str(fixed);
		rc = sock_addr_parse(fixed, &out.root);
	} else {
		os_random(&out.magic, sizeof out.magic);
		rc = sock_addr_own(&own);
		if (!rc)
			rc = bootstrap_root_start(out.magic, 0, &own, owner, &out.root, &made);
	}
	if (rc)
		return rc;
	memcpy(id->internal, &out, sizeof out);
	*root = made;
	char text[SOCK_TEXT_BYTES];
	INFO(LOG_BOOTSTRAP, "unique id %016" PRIx64 ", root at %s%s", out.magic,
	     sock_addr_print(&out.root, text), fixed ? " (NCCL_COMM_ID)" : "");
	return ncclSuccess;
}

ncclResult_t bootstrap_unique_id(ncclUniqueId *id, struct bootstrap_owner owner,
				 struct bootstrap_root **root)
{
	return bootstrap_id_make(id, param_str(PARAM_COMM_ID), owner, root);
}

ncclResult_t bootstrap_own_id(ncclUniqueId *id, struct bootstrap_owner owner,
			      struct bootstrap_root **root)
{
	return bootstrap_id_make(id, NULL, owner, root);
}

uint64_t bootstrap_id_hash(const ncclUniqueId *id)
{
	struct bootstrap_id bid;

	memcpy(&bid, id->internal, sizeof bid);
	return bid.set.nroots ? bid.set.hash : hash64(id->internal, sizeof id->internal);
}

uint64_t bootstrap_root_hash(const ncclUniqueId *id)
{
	struct bootstrap_id bid;

	memcpy(&bid, id->internal, sizeof bid);
	bid.set = (struct bootstrap_set){0};
	return hash64(&bid, sizeof bid);
}

/* ---- several ids ---------------------------------------------------------------------------- */

int32_t bootstrap_block_of(int32_t rank, int32_t nroots, int32_t nranks)
{
	int32_t least = nranks / nroots, larger = nranks % nroots;
	int32_t in_larger = larger * (least + 1); /* number of ranks in blocks of least + 1 */

	return rank < in_larger ? rank / (least + 1) : larger + (rank - in_larger) / least;
}

static ncclResult_t root_ids_check(const ncclUniqueId *ids, int nids, int rank)
{
	for (int i = 0; i < nids; i++) {
		struct bootstrap_id id;

		memcpy(&id, ids[i].internal, sizeof id);
		if ((id.root.family != 4 && id.root.family != 6) || !id.root.port || id.from_env) {
			WARN("rank %d: commIds[%d] does not come from ncclGetUniqueId%s", rank, i,
			     id.from_env ? " without NCCL_COMM_ID" : "");
			return ncclInvalidArgument;
		}
		for (int j = 0; j < i; j++) {
			if (memcmp(&ids[j], &ids[i], sizeof ids[i]) != 0)
				continue;
			WARN("rank %d: commIds[%d] is the same as commIds[%d], expected ids of "
			     "different calls of ncclGetUniqueId",
			     rank, i, j);
			return ncclInvalidArgument;
		}
	}
	return ncclSuccess;
}

ncclResult_t bootstrap_id_join(const ncclUniqueId *ids, int nids, int nranks, int rank,
			       ncclUniqueId *out)
{
	struct bootstrap_id own, before;
	int32_t root;
	ncclResult_t rc;

	ASSERT(nids >= 1 && nids <= nranks && rank >= 0 && rank < nranks);
	*out = ids[0];
	if (nids == 1)
		return ncclSuccess;
	rc = root_ids_check(ids, nids, rank);
	if (rc)
		return rc;
	root = bootstrap_block_of(rank, nids, nranks);
	memcpy(&own, ids[root].internal, sizeof own);
	memcpy(&before, ids[(root + nids - 1) % nids].internal, sizeof before);
	own.set = (struct bootstrap_set){
		.hash = hash64(ids, (size_t)nids * sizeof *ids),
		.before_magic = before.magic,
		.nroots = nids,
		.root = root,
		.before = before.root,
	};
	memcpy(out->internal, &own, sizeof own);
	return ncclSuccess;
}
