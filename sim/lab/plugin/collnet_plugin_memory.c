/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the collective network: of the host, and with PLUG_GPU of the GPU double, which it
 * accesses like the HCA double. A write there is visible to a kernel after the next read, which is
 * the flush.
 */
#include <stdint.h>

#ifdef PLUG_GPU
#include "backends/peermem.h"
#endif

#include "sim/lab/plugin/collnet_plugin.h"

struct coll_mr {
	bool gpu;
#ifdef PLUG_GPU
	struct peermem_region region;
#endif
};

static int flushes, registered;

int coll_flushes(void)
{
	return flushes;
}

static bool coll_pin(struct coll_mr *mr, void *data, size_t bytes)
{
#ifdef PLUG_GPU
	return !peermem()->pin(os_proc(), (uintptr_t)data, bytes, &mr->region);
#else
	(void)mr, (void)data, (void)bytes;
	return false;
#endif
}

void coll_memory_end(bool passed)
{
	if (passed && registered)
		plug_wrong("collnet: %d registrations are left", registered);
	flushes = registered = 0;
}

ncclResult_t coll_reg_mr(void *comm, void *data, size_t bytes, int type, void **out)
{
	struct coll_mr *mr;

	if (coll_fault("regmr", coll_rank(comm)))
		return ncclSystemError;
	mr = calloc(1, sizeof *mr);
	mr->gpu = type == NET_ABI_CUDA;
	if (mr->gpu && !coll_pin(mr, data, bytes)) {
		free(mr);
		return ncclInternalError;
	}
	__atomic_add_fetch(&registered, 1, __ATOMIC_RELAXED);
	*out = mr;
	return ncclSuccess;
}

ncclResult_t coll_dereg_mr(void *comm, void *in)
{
	struct coll_mr *mr = in;

	(void)comm;
	if (!mr)
		return ncclInternalError;
#ifdef PLUG_GPU
	if (mr->gpu)
		peermem()->unpin(&mr->region);
#endif
	free(mr);
	__atomic_sub_fetch(&registered, 1, __ATOMIC_RELAXED);
	return coll_fault("dereg", -1) ? ncclInternalError : ncclSuccess;
}

void coll_read(void *mr, const void *at, void *to, size_t bytes)
{
#ifdef PLUG_GPU
	struct coll_mr *m = mr;

	if (m->gpu) {
		peermem()->read(&m->region, 0, (uintptr_t)at, to, bytes);
		return;
	}
#else
	(void)mr;
#endif
	memcpy(to, at, bytes);
}

void coll_write(void *mr, void *at, const void *from, size_t bytes)
{
#ifdef PLUG_GPU
	struct coll_mr *m = mr;

	if (m->gpu) {
		peermem()->write(&m->region, 0, (uintptr_t)at, from, bytes);
		return;
	}
#else
	(void)mr;
#endif
	memcpy(at, from, bytes);
}

/* Each second flush has no request: it is done already. The other ones are of no reduction. */
ncclResult_t coll_iflush(void *comm, void *data, int bytes, void *mr, void **request)
{
	const struct coll_mr *m = mr;
	uint8_t byte;

	if (!m->gpu || bytes < 1 || coll_fault("iflush", coll_rank(comm)))
		return ncclInternalError;
	coll_read(mr, data, &byte, 1);
	if (__atomic_fetch_add(&flushes, 1, __ATOMIC_RELAXED) % 2)
		*request = coll_flush_request();
	return ncclSuccess;
}
