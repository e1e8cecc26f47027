/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended reliable connections. One connection reaches every shared receive queue of a domain. The
 * initiator's half (XRC_SEND) sends, and each request names the queue by its number. The target's
 * half (XRC_RECV) has neither a protection domain nor queues of its own. It uses those of the
 * shared queue that the request names: its receives, its completion queue, its memory keys.
 *
 *   process a: XRC_SEND --- srq number 7 ---> XRC_RECV --- domain ---+--- XRC srq 7 -> cq, pd
 *                                                                    +--- XRC srq 9 -> cq, pd
 *
 * A domain belongs to an HCA, and to an inode if it was opened with a descriptor: every process
 * that opens the same file shares it. Target halves belong to the domain. Another process may open
 * one by its number, and the half lives until the last process destroys it. The process that
 * created it receives its events.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "backends/fakeverbs/entry/entry.h"

static struct hca_xrcd_handle *hca_xrcd_of(struct ibv_xrcd *xrcd)
{
	return CONTAINER_OF(xrcd, struct hca_xrcd_handle, ibv);
}

/* ---- domains -------------------------------------------------------------------------------- */

/* Returns the inode's domain on this HCA, or NULL. Under the table's lock. */
static struct hca_xrcd *hca_xrcd_find(uint32_t port, uint64_t device, uint64_t inode)
{
	struct hca_xrcd *x;
	uint32_t at = 0;

	while ((x = hca_slab_next(&hca_world()->xrcd, UINT32_MAX, &at)))
		if (x->named && x->port == port && x->device == device && x->inode == inode)
			return x;
	return NULL;
}

/* Returns a new or shared domain. NULL and *error: the errno that the kernel would return. */
static struct hca_xrcd *hca_xrcd_get(uint32_t port, const struct ibv_xrcd_init_attr *a, int *error)
{
	struct hca_world *w = hca_world();
	struct hca_xrcd *x = NULL;
	struct stat st = {0};

	if (a->fd != -1 && fstat(a->fd, &st)) {
		*error = EBADF;
		return NULL;
	}
	*error = 0;
	hca_lock(&w->xrcd_lock);
	if (a->fd != -1)
		x = hca_xrcd_find(port, st.st_dev, st.st_ino);
	if (x && (a->oflags & O_CREAT) && (a->oflags & O_EXCL))
		*error = EINVAL;
	else if (!x && !(a->oflags & O_CREAT))
		*error = a->fd == -1 ? EINVAL : EAGAIN;
	if (!*error && !x) {
		x = hca_slab_alloc(&w->xrcd);
		if (x) {
			x->port = port;
			x->named = a->fd != -1;
			x->device = st.st_dev;
			x->inode = st.st_ino;
			x->opens = 0;
		} else {
			*error = ENOMEM;
		}
	}
	if (!*error)
		x->opens++;
	hca_unlock(&w->xrcd_lock);
	return *error ? NULL : x;
}

static void hca_xrcd_put(struct hca_xrcd *x)
{
	struct hca_world *w = hca_world();

	hca_lock(&w->xrcd_lock);
	/* a process that died before it freed its reference has given it back already */
	ASSERT(x->opens > 0 || hca_members);
	bool last = --x->opens == 0;

	if (last)
		x->named = 0;
	hca_unlock(&w->xrcd_lock);
	if (last)
		hca_slab_free(&w->xrcd, x);
}

struct ibv_xrcd *hca_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *a)
{
	const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct hca_xrcd_handle *h = NULL;
	struct hca_xrcd *x = NULL;

	if (hca_enter_control(context, HCA_KIND_CONTEXT, "ibv_open_xrcd", HCA_CALLER()))
		return NULL;
	uint32_t port = hca_context_of(context)->hca->port;
	int rc = a->comp_mask != needed ? EINVAL
					: hca_command_fault("verbs.open_xrcd", NULL, port, -1);

	if (!rc)
		x = hca_xrcd_get(port, a, &rc);
	if (rc)
		goto err;
	rc = ENOMEM;
	h = hca_handle_alloc(HCA_KIND_XRCD, sizeof *h, "ibv_xrcd");
	if (!h)
		goto err_put;
	h->open = hca_slab_alloc_owned(&hca_world()->xrcd_open, h);
	if (!h->open)
		goto err_free;
	h->open->item.made = HCA_CALLER();
	h->open->xrcd = x->item.index;
	h->ibv.context = context;
	h->hca = x;
	return &h->ibv;
err_free:
	hca_handle_end(h, 0);
err_put:
	hca_xrcd_put(x);
err:
	errno = rc;
	return NULL;
}

void hca_xrcd_open_end(struct hca_xrcd_open *open)
{
	hca_xrcd_put(hca_slab_at(&hca_world()->xrcd, open->xrcd));
	hca_slab_free(&hca_world()->xrcd_open, open);
}

int hca_close_xrcd(struct ibv_xrcd *ibv)
{
	int bad = hca_enter_control(ibv, HCA_KIND_XRCD, "ibv_close_xrcd", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_xrcd_handle *h = hca_xrcd_of(ibv);
	uint32_t users = __atomic_load_n(&h->users, __ATOMIC_ACQUIRE);

	if (users) {
		hca_check(HCA_RULE_DESTROY_ORDER, HCA_CALLER(),
			  "ibv_close_xrcd: %u queue pairs and shared receive queues still use it",
			  users);
		return hca_result(EBUSY);
	}
	int rc = hca_call_fault("verbs.close_xrcd", NULL, h->hca->port, -1);

	hca_xrcd_open_end(h->open);
	hca_handle_end(h, HCA_CALLER());
	return hca_result(rc);
}

uint32_t hca_xrcd_use(struct ibv_xrcd *ibv)
{
	struct hca_xrcd_handle *h = hca_xrcd_of(ibv);

	__atomic_fetch_add(&h->users, 1, __ATOMIC_ACQ_REL);
	return h->hca->item.index + 1;
}

void hca_xrcd_unuse(struct ibv_xrcd *ibv)
{
	uint32_t before = __atomic_fetch_sub(&hca_xrcd_of(ibv)->users, 1, __ATOMIC_ACQ_REL);

	ASSERT(before > 0);
}

bool hca_xrcd_is_of(struct ibv_xrcd *ibv, uint32_t port)
{
	return hca_xrcd_of(ibv)->hca->port == port;
}

/* ---- shared queues by number ---------------------------------------------------------------- */

int hca_get_srq_num(struct ibv_srq *ibv, uint32_t *number)
{
	int bad = hca_bad(ibv, HCA_KIND_SRQ, "ibv_get_srq_num", HCA_CALLER());

	if (bad)
		return bad;
	const struct hca_srq *srq = hca_srq_of(ibv)->hca;

	if (!srq->xrcd)
		return hca_result(EINVAL);
	*number = hca_srq_number(srq);
	return 0;
}

/* ---- target halves of other processes ------------------------------------------------------- */

struct ibv_qp *hca_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *a)
{
	const uint32_t needed =
		IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct hca_qp_handle *h = NULL;
	struct hca_qp *qp = NULL;

	if (hca_enter_control(context, HCA_KIND_CONTEXT, "ibv_open_qp", HCA_CALLER()) ||
	    ((a->comp_mask & IBV_QP_OPEN_ATTR_XRCD) &&
	     hca_bad_part(a->xrcd, HCA_KIND_XRCD, context, "ibv_open_qp", HCA_CALLER())))
		return NULL;
	uint32_t port = hca_context_of(context)->hca->port;
	int rc = hca_command_fault("verbs.open_qp", NULL, port, -1);

	if (!rc && ((a->comp_mask & ~(uint32_t)IBV_QP_OPEN_ATTR_CONTEXT) != needed ||
		    a->qp_type != IBV_QPT_XRC_RECV))
		rc = EINVAL;
	if (rc)
		goto err;
	rc = ENOMEM;
	h = hca_handle_alloc(HCA_KIND_QP, sizeof *h, "ibv_qp");
	if (!h)
		goto err;
	h->open = hca_slab_alloc_owned(&hca_world()->qp_open, h);
	if (!h->open)
		goto err;
	rc = EINVAL;
	qp = hca_qp_lock_number(port, a->qp_num);
	if (!qp)
		goto err;
	bool mine = qp->type == IBV_QPT_XRC_RECV &&
		    qp->xrcd == hca_xrcd_of(a->xrcd)->hca->item.index + 1;

	qp->opens += mine;
	h->open->item.made = HCA_CALLER();
	h->open->qp = qp->item.index;
	h->ibv.state = (enum ibv_qp_state)qp->state;
	hca_unlock(&qp->item.lock);
	if (!mine)
		goto err;
	h->hca = qp;
	h->xrcd = a->xrcd;
	hca_xrcd_use(a->xrcd);
	h->ibv.context = context;
	h->ibv.qp_context = a->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? a->qp_context : NULL;
	h->ibv.handle = qp->item.index;
	h->ibv.qp_num = a->qp_num;
	h->ibv.qp_type = IBV_QPT_XRC_RECV;
	pthread_mutex_init(&h->ibv.mutex, NULL);
	pthread_cond_init(&h->ibv.cond, NULL);
	return &h->ibv;
err:
	if (h && h->open)
		hca_slab_free(&hca_world()->qp_open, h->open);
	hca_handle_end(h, 0);
	errno = rc;
	return NULL;
}

bool hca_qp_release(struct hca_qp *qp, bool owner)
{
	hca_qp_lock(qp);
	bool last = qp->opens <= 1; /* 0: the process that was creating it died */

	qp->opens -= qp->opens > 0;
	if (owner && !last) { /* the queue pair lives on without an owner */
		hca_event_purge(qp->context, HCA_ELEMENT_QP, qp->item.index, qp->item.generation);
		qp->context = HCA_NONE;
		hca_slab_orphan(&hca_world()->qp, qp);
	}
	hca_unlock(&qp->item.lock);
	if (last)
		hca_qp_destroy(qp);
	return last;
}

void hca_qp_open_end(struct hca_qp_open *open)
{
	hca_qp_release(hca_slab_at(&hca_world()->qp, open->qp), false);
	hca_slab_free(&hca_world()->qp_open, open);
}
