/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plugin of net_plugin.h with GPU memory, for worlds: it accesses the memory of the GPU
 * double as the HCA double does. A write becomes visible to a kernel at the next read, which is the
 * flush, as on GPUs before compute capability 9.0.
 */
#include <pthread.h>

#include "backends/peermem.h"

#include "sim/lab/plugin/net_plugin.h"

struct plug_gpu_mr {
	bool gpu;
	const void *comm, *data; /* of the registration */
	size_t bytes;
	struct peermem_region region;
};

struct plug_gpu_req {
	void *inner;                     /* NULL: a flush, which is done */
	struct plug_gpu_req *next, **at; /* of all that have not ended */
	bool is_recv;
	int n;
	struct {
		struct plug_gpu_mr *mr;
		void *data;
		uint8_t *bounce; /* host memory that stands for GPU memory; NULL: not needed */
	} part[PLUG_MOST_RECVS];
};

static int plug_flushes, plug_regions, plug_dmabufs, plug_registered;
static pthread_mutex_t plug_gpu_lock = PTHREAD_MUTEX_INITIALIZER; /* the list of requests */
static struct plug_gpu_req *plug_gpu_requests;

void plug_gpu_count(int *flushes, int *regions, int *dmabufs)
{
	*flushes = plug_flushes;
	*regions = plug_regions;
	*dmabufs = plug_dmabufs;
}

/* ---- registrations -------------------------------------------------------------------------- */

static struct plug_gpu_mr *plug_gpu_mr_make(const void *comm, const void *data, size_t bytes)
{
	struct plug_gpu_mr *mr = calloc(1, sizeof *mr);

	if (!mr)
		abort();
	mr->comm = comm;
	mr->data = data;
	mr->bytes = bytes;
	__atomic_add_fetch(&plug_registered, 1, __ATOMIC_RELAXED);
	return mr;
}

static void plug_gpu_mr_free(struct plug_gpu_mr *mr)
{
	__atomic_sub_fetch(&plug_registered, 1, __ATOMIC_RELAXED);
	free(mr);
}

/* The memory of a transfer is in a registration of its connection. */
static void plug_gpu_check(const void *comm, const struct plug_gpu_mr *mr, const void *data,
			   size_t bytes)
{
	const uintptr_t first = (uintptr_t)mr->data, at = (uintptr_t)data;

	if (mr->comm != comm || at < first || at - first > mr->bytes ||
	    bytes > mr->bytes - (at - first))
		plug_wrong("net: a transfer of %zu bytes outside of its registration of %zu", bytes,
			   mr->bytes);
}

ncclResult_t plug_gpu_reg_mr(void *comm, void *data, size_t bytes, int type, void **out)
{
	struct plug_gpu_mr *mr = plug_gpu_mr_make(comm, data, bytes);

	mr->gpu = type == NET_ABI_CUDA;
	if (!mr->gpu && plug_fault("regmr")) {
		plug_gpu_mr_free(mr);
		return ncclSystemError;
	}
	if (mr->gpu && (plug_fault("nogpu") ||
			peermem()->pin(os_proc(), (uintptr_t)data, bytes, &mr->region))) {
		plug_gpu_mr_free(mr);
		return ncclSystemError;
	}
	__atomic_add_fetch(&plug_regions, mr->gpu, __ATOMIC_RELAXED);
	*out = mr;
	return ncclSuccess;
}

ncclResult_t plug_gpu_reg_dmabuf(void *comm, void *data, size_t bytes, int type, uint64_t offset,
				 int fd, void **out)
{
	struct plug_gpu_mr *mr = plug_gpu_mr_make(comm, data, bytes);

	mr->gpu = true;
	if (type != NET_ABI_CUDA || plug_fault("nodmabuf") ||
	    peermem()->pin_dmabuf(os_proc(), fd, offset, bytes, &mr->region) ||
	    mr->region.address != (uintptr_t)data) {
		plug_gpu_mr_free(mr);
		return ncclSystemError;
	}
	__atomic_add_fetch(&plug_dmabufs, 1, __ATOMIC_RELAXED);
	*out = mr;
	return ncclSuccess;
}

ncclResult_t plug_gpu_dereg_mr(void *comm, void *in)
{
	struct plug_gpu_mr *mr = in;

	if (mr->comm != comm)
		plug_wrong("net: deregMr on another connection than regMr");
	if (mr->gpu)
		peermem()->unpin(&mr->region);
	plug_gpu_mr_free(mr);
	return ncclSuccess;
}

/* ---- requests ------------------------------------------------------------------------------- */

static struct plug_gpu_req *plug_gpu_req_make(void)
{
	struct plug_gpu_req *r = calloc(1, sizeof *r);

	if (!r)
		abort();
	pthread_mutex_lock(&plug_gpu_lock);
	r->next = plug_gpu_requests;
	r->at = &plug_gpu_requests;
	if (r->next)
		r->next->at = &r->next;
	plug_gpu_requests = r;
	pthread_mutex_unlock(&plug_gpu_lock);
	return r;
}

static void plug_gpu_free(struct plug_gpu_req *r)
{
	pthread_mutex_lock(&plug_gpu_lock);
	*r->at = r->next;
	if (r->next)
		r->next->at = r->at;
	pthread_mutex_unlock(&plug_gpu_lock);
	for (int i = 0; i < r->n; i++)
		free(r->part[i].bounce);
	free(r);
}

static void *plug_gpu_part(struct plug_gpu_req *r, void *data, size_t bytes, void *in)
{
	struct plug_gpu_mr *mr = in;
	int i = r->n++;

	r->part[i].mr = mr;
	r->part[i].data = data;
	r->part[i].bounce = mr->gpu ? malloc(bytes ? bytes : 1) : NULL;
	return mr->gpu ? r->part[i].bounce : data;
}

/* Hands the request out, or frees it if the socket has taken none. */
static ncclResult_t plug_gpu_begun(struct plug_gpu_req *r, ncclResult_t rc, void **request)
{
	if (rc || !r->inner)
		plug_gpu_free(r);
	else
		*request = r;
	return rc;
}

ncclResult_t plug_gpu_isend(void *comm, void *data, size_t bytes, int tag, void *in, void **request)
{
	struct plug_gpu_req *r = plug_gpu_req_make();
	struct plug_gpu_mr *mr = in;
	void *from = plug_gpu_part(r, data, bytes, in);

	plug_gpu_check(comm, mr, data, bytes);
	if (mr->gpu && bytes)
		peermem()->read(&mr->region, 0, (uintptr_t)data, from, bytes);
	return plug_gpu_begun(r, plug_isend(comm, from, bytes, tag, in, &r->inner), request);
}

ncclResult_t plug_gpu_irecv(void *comm, int n, void **data, const size_t *bytes, const int *tags,
			    void **mrs, void **request)
{
	struct plug_gpu_req *r = plug_gpu_req_make();
	void *to[PLUG_MOST_RECVS];

	r->is_recv = true;
	for (int i = 0; i < n; i++)
		plug_gpu_check(comm, mrs[i], data[i], bytes[i]);
	for (int i = 0; i < n; i++)
		to[i] = plug_gpu_part(r, data[i], bytes[i], mrs[i]);
	return plug_gpu_begun(r, plug_irecv(comm, n, to, bytes, tags, mrs, &r->inner), request);
}

ncclResult_t plug_gpu_iflush(void *comm, int n, void **data, int *bytes, void **mrs, void **request)
{
	const struct plug_gpu_mr *mr = mrs[0];
	uint8_t byte;

	(void)comm;
	if (n != 1 || !mr->gpu || bytes[0] < 1)
		return ncclInternalError;
	peermem()->read(&mr->region, 0, (uintptr_t)data[0], &byte, 1);
	/* each second flush has no request: it is done already */
	if (__atomic_fetch_add(&plug_flushes, 1, __ATOMIC_RELAXED) % 2)
		*request = plug_gpu_req_make();
	return ncclSuccess;
}

ncclResult_t plug_gpu_test(void *request, int *done, int *sizes)
{
	struct plug_gpu_req *r = request;
	ncclResult_t rc = ncclSuccess;

	*done = 1;
	if (r->inner)
		rc = plug_test(r->inner, done, sizes);
	if (rc || !*done)
		return rc;
	for (int i = 0; i < r->n; i++)
		if (r->is_recv && r->part[i].bounce && sizes[i])
			peermem()->write(&r->part[i].mr->region, 0, (uintptr_t)r->part[i].data,
					 r->part[i].bounce, (uint64_t)sizes[i]);
	plug_gpu_free(r);
	return ncclSuccess;
}

void plug_gpu_end(bool passed)
{
	if (passed && plug_registered)
		plug_wrong("net: %d registrations are left", plug_registered);
	while (plug_gpu_requests)
		plug_gpu_free(plug_gpu_requests);
	plug_flushes = plug_regions = plug_dmabufs = plug_registered = 0;
}
