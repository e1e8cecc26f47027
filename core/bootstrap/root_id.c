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
	return hash64(id->internal, sizeof id->internal);
}
