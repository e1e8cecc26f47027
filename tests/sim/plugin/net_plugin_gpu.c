/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plugin of net_plugin_socket.h with GPU memory, for worlds: it accesses the memory of the GPU
 * double as the HCA double does. A write becomes visible to a kernel at the next read, which is the
 * flush, as on GPUs before compute capability 9.0.
 */
#include "backends/peermem.h"

#include "net_plugin_socket.h"

struct plug_gpu_mr {
	bool gpu;
	struct peermem_region region;
};

struct plug_gpu_req {
	void *inner; /* NULL: a flush, which is done */
	bool is_recv;
	int n;
	struct {
		struct plug_gpu_mr *mr;
		void *data;
		uint8_t *bounce; /* host memory that stands for GPU memory; NULL: not needed */
	} part[PLUG_MOST_RECVS];
};

static int plug_flushes, plug_regions, plug_dmabufs;

void plug_gpu_count(int *flushes, int *regions, int *dmabufs)
{
	*flushes = plug_flushes;
	*regions = plug_regions;
	*dmabufs = plug_dmabufs;
}

/* ---- registrations -------------------------------------------------------------------------- */

ncclResult_t plug_gpu_reg_mr(void *comm, void *data, size_t bytes, int type, void **out)
{
	struct plug_gpu_mr *mr = calloc(1, sizeof *mr);

	(void)comm;
	mr->gpu = type == NET_ABI_CUDA;
	if (mr->gpu && (plug_fault("nogpu") ||
			peermem()->pin(os_proc(), (uintptr_t)data, bytes, &mr->region))) {
		free(mr);
		return ncclSystemError;
	}
	__atomic_add_fetch(&plug_regions, mr->gpu, __ATOMIC_RELAXED);
	*out = mr;
	return ncclSuccess;
}

ncclResult_t plug_gpu_reg_dmabuf(void *comm, void *data, size_t bytes, int type, uint64_t offset,
				 int fd, void **out)
{
	struct plug_gpu_mr *mr = calloc(1, sizeof *mr);

	(void)comm;
	mr->gpu = true;
	if (type != NET_ABI_CUDA || plug_fault("nodmabuf") ||
	    peermem()->pin_dmabuf(os_proc(), fd, offset, bytes, &mr->region) ||
	    mr->region.address != (uintptr_t)data) {
		free(mr);
		return ncclSystemError;
	}
	__atomic_add_fetch(&plug_dmabufs, 1, __ATOMIC_RELAXED);
	*out = mr;
	return ncclSuccess;
}

ncclResult_t plug_gpu_dereg_mr(void *comm, void *in)
{
	struct plug_gpu_mr *mr = in;

	(void)comm;
	if (mr->gpu)
		peermem()->unpin(&mr->region);
	free(mr);
	return ncclSuccess;
}

/* ---- requests ------------------------------------------------------------------------------- */

static void plug_gpu_free(struct plug_gpu_req *r)
{
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
	struct plug_gpu_req *r = calloc(1, sizeof *r);
	struct plug_gpu_mr *mr = in;
	void *from = plug_gpu_part(r, data, bytes, in);

	if (mr->gpu && bytes)
		peermem()->read(&mr->region, 0, (uintptr_t)data, from, bytes);
	return plug_gpu_begun(r, plug_isend(comm, from, bytes, tag, in, &r->inner), request);
}

ncclResult_t plug_gpu_irecv(void *comm, int n, void **data, const size_t *bytes, const int *tags,
			    void **mrs, void **request)
{
	struct plug_gpu_req *r = calloc(1, sizeof *r);
	void *to[PLUG_MOST_RECVS];

	r->is_recv = true;
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
		*request = calloc(1, sizeof(struct plug_gpu_req));
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
