/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended completion queues. They are polled one completion at a time, and the program reads only
 * the fields that it requested at creation. The fields come from the struct ibv_wc that ibv_poll_cq
 * would return. Invalid fields of a failed completion are poison here, too.
 *
 * From a successful start_poll to its end_poll one task owns the queue. Other tasks wait, or
 * receive an error if the program promised to be single-threaded.
 *
 * Timestamps are the HCA's free-running clock at the completion's creation. One tick is 1 ns
 * (HCA_CLOCK_KHZ), virtual time under `sim`. A timestamp is never smaller than the previous one.
 */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

static uint64_t hca_cq_ex_fields(uint32_t port)
{
	return IBV_WC_STANDARD_FLAGS |
	       (hca_personality(port)->timestamps
			? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
			: 0);
}

static struct hca_cq_handle *hca_cq_ex_of(struct ibv_cq_ex *cq)
{
	return CONTAINER_OF(cq, struct hca_cq_handle, ex);
}

/* ---- polling -------------------------------------------------------------------------------- */

static void hca_cq_ex_enter(struct hca_cq_handle *h)
{
	struct hca_site made;

	if (!h->single_threaded)
		os_mutex_lock(&h->poll_lock);
	else if (__atomic_exchange_n(&h->polling, 1, __ATOMIC_ACQUIRE))
		hca_check(
			HCA_RULE_TWO_THREADS, h->hca->item.made,
			"ibv_start_poll: completion queue %u was made SINGLE_THREADED (at %s), and "
			"is being polled",
			h->hca->item.index, hca_site(h->hca->item.proc, h->hca->item.made, &made));
}

static void hca_cq_ex_leave(struct hca_cq_handle *h)
{
	if (!h->single_threaded)
		os_mutex_unlock(&h->poll_lock);
	else
		__atomic_store_n(&h->polling, 0, __ATOMIC_RELEASE);
}

static int hca_cq_ex_take(struct hca_cq_handle *h)
{
	if (hca_poll_fault(h->hca, &h->ibv))
		return EIO;
	if (!hca_cq_pop(h->hca, &h->wc, 1, &h->timestamp))
		return ENOENT;
	h->ex.status = h->wc.status;
	h->ex.wr_id = h->wc.wr_id;
	hca_poll_hit();
	return 0;
}

static bool hca_cq_ex_is_dead(const struct hca_cq_handle *h, const char *call, uint64_t caller)
{
	return hca_is_not_mine(&h->head, HCA_KIND_CQ) &&
	       hca_bad_handle(&h->ibv, HCA_KIND_CQ, call, caller);
}

static int hca_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct hca_cq_handle *h = hca_cq_ex_of(ex);

	sim_point("ibv_start_poll");
	sim_charge_ns(HCA_POLL_NS);
	if (hca_cq_ex_is_dead(h, "ibv_start_poll", HCA_CALLER()))
		return EINVAL;
	if (attr->comp_mask)
		return EINVAL;
	hca_cq_ex_enter(h);
	int rc = hca_cq_ex_take(h);

	if (rc == ENOENT && hca_members && hca_members_idle())
		rc = hca_cq_ex_take(h);
	if (rc)
		hca_cq_ex_leave(h);
	sim_events_drain();
	return rc;
}

static int hca_next_poll(struct ibv_cq_ex *ex)
{
	sim_point("ibv_next_poll");
	sim_charge_ns(HCA_POLL_NS);
	if (hca_cq_ex_is_dead(hca_cq_ex_of(ex), "ibv_next_poll", HCA_CALLER()))
		return EINVAL;
	int rc = hca_cq_ex_take(hca_cq_ex_of(ex));

	sim_events_drain();
	return rc;
}

static void hca_end_poll(struct ibv_cq_ex *ex)
{
	if (hca_cq_ex_is_dead(hca_cq_ex_of(ex), "ibv_end_poll", HCA_CALLER()))
		return;
	hca_cq_ex_leave(hca_cq_ex_of(ex));
	sim_events_drain();
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Returns the handle with the current completion. Reports a field that was not requested; a
 * hardware library would call through NULL. */
static const struct hca_cq_handle *hca_cq_ex_field(struct ibv_cq_ex *ex, uint64_t flag,
						   const char *call, uint64_t caller)
{
	const struct hca_cq_handle *h = hca_cq_ex_of(ex);
	struct hca_site at, made;

	if (hca_cq_ex_is_dead(h, call, caller))
		return h; /* its completion is wiped */
	if (!(h->wc_flags & flag))
		hca_check(HCA_RULE_WC_FIELDS, caller,
			  "%s at %s: completion queue %u was made without that field (wc_flags "
			  "0x%llx, at %s)",
			  call, hca_site(h->hca->item.proc, caller, &at), h->hca->item.index,
			  (unsigned long long)h->wc_flags,
			  hca_site(h->hca->item.proc, h->hca->item.made, &made));
	return h;
}
#define hca_cq_ex_current(ex, flag, field)                                                         \
	hca_cq_ex_field(ex, flag, "ibv_wc_read_" field, HCA_CALLER())

/* Reports a read of a field that a failed completion does not have. */
static void hca_cq_ex_succeeded(struct ibv_cq_ex *ex, const char *call, uint64_t caller)
{
	const struct hca_cq_handle *h = hca_cq_ex_of(ex);
	struct hca_site at;

	if (!hca_cq_ex_is_dead(h, call, caller) && h->wc.status != IBV_WC_SUCCESS)
		hca_check(HCA_RULE_ERROR_WC_FIELDS, caller,
			  "%s at %s: the completion of wr_id 0x%llx is an error (%s): only its "
			  "status, wr_id, qp_num and vendor_err are valid",
			  call, hca_site(h->hca->item.proc, caller, &at),
			  (unsigned long long)h->wc.wr_id, ibv_wc_status_str(h->wc.status));
}

static enum ibv_wc_opcode hca_read_opcode(struct ibv_cq_ex *ex)
{
	hca_cq_ex_succeeded(ex, "ibv_wc_read_opcode", HCA_CALLER());
	return hca_cq_ex_of(ex)->wc.opcode;
}

static uint32_t hca_read_vendor_err(struct ibv_cq_ex *ex)
{
	return hca_cq_ex_of(ex)->wc.vendor_err;
}

static unsigned int hca_read_wc_flags(struct ibv_cq_ex *ex)
{
	return hca_cq_ex_of(ex)->wc.wc_flags;
}

static uint32_t hca_read_byte_len(struct ibv_cq_ex *ex)
{
	hca_cq_ex_succeeded(ex, "ibv_wc_read_byte_len", HCA_CALLER());
	return hca_cq_ex_current(ex, IBV_WC_EX_WITH_BYTE_LEN, "byte_len")->wc.byte_len;
}

static __be32 hca_read_imm_data(struct ibv_cq_ex *ex)
{
	const struct hca_cq_handle *h = hca_cq_ex_current(ex, IBV_WC_EX_WITH_IMM, "imm_data");
	struct hca_site at;

	if (!hca_is_dead(&h->head, HCA_KIND_CQ) &&
	    !(h->wc.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)))
		hca_check(HCA_RULE_IMM_UNCHECKED, HCA_CALLER(),
			  "ibv_wc_read_imm_data at %s: the completion of wr_id 0x%llx has no "
			  "immediate data "
			  "(wc_flags 0x%x)",
			  hca_site(h->hca->item.proc, HCA_CALLER(), &at),
			  (unsigned long long)h->wc.wr_id, h->wc.wc_flags);
	return h->wc.imm_data;
}

static uint32_t hca_read_qp_num(struct ibv_cq_ex *ex)
{
	return hca_cq_ex_current(ex, IBV_WC_EX_WITH_QP_NUM, "qp_num")->wc.qp_num;
}

static uint32_t hca_read_src_qp(struct ibv_cq_ex *ex)
{
	return hca_cq_ex_current(ex, IBV_WC_EX_WITH_SRC_QP, "src_qp")->wc.src_qp;
}

static uint32_t hca_read_slid(struct ibv_cq_ex *ex)
{
	return hca_cq_ex_current(ex, IBV_WC_EX_WITH_SLID, "slid")->wc.slid;
}

static uint8_t hca_read_sl(struct ibv_cq_ex *ex)
{
	return hca_cq_ex_current(ex, IBV_WC_EX_WITH_SL, "sl")->wc.sl;
}

static uint8_t hca_read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return hca_cq_ex_current(ex, IBV_WC_EX_WITH_DLID_PATH_BITS, "dlid_path_bits")
		->wc.dlid_path_bits;
}

static uint64_t hca_read_completion_ts(struct ibv_cq_ex *ex)
{
	return hca_cq_ex_current(ex, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, "completion_ts")
		->timestamp;
}

static uint64_t hca_read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	return sim_wall_ns(hca_cq_ex_current(ex, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
					     "completion_wallclock_ns")
				   ->timestamp);
}

static void hca_cq_ex_calls(struct ibv_cq_ex *ex)
{
	ex->start_poll = hca_start_poll;
	ex->next_poll = hca_next_poll;
	ex->end_poll = hca_end_poll;
	ex->read_opcode = hca_read_opcode;
	ex->read_vendor_err = hca_read_vendor_err;
	ex->read_byte_len = hca_read_byte_len;
	ex->read_imm_data = hca_read_imm_data;
	ex->read_qp_num = hca_read_qp_num;
	ex->read_src_qp = hca_read_src_qp;
	ex->read_wc_flags = hca_read_wc_flags;
	ex->read_slid = hca_read_slid;
	ex->read_sl = hca_read_sl;
	ex->read_dlid_path_bits = hca_read_dlid_path_bits;
	ex->read_completion_ts = hca_read_completion_ts;
	ex->read_completion_wallclock_ns = hca_read_completion_wallclock_ns;
	/* VLANs, flow tags and tag matching cannot be requested */
	ex->read_cvlan = NULL;
	ex->read_flow_tag = NULL;
	ex->read_tm_info = NULL;
}

/* ---- creating ------------------------------------------------------------------------------- */

struct ibv_cq_ex *hca_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *a)
{
	const uint32_t masks = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD,
		       flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED |
			       IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	uint32_t wanted = a->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? a->flags : 0;

	if (hca_enter_control(context, HCA_KIND_CONTEXT, "ibv_create_cq_ex", HCA_CALLER()) ||
	    hca_bad_part(a->channel, HCA_KIND_CHANNEL, context, "ibv_create_cq_ex", HCA_CALLER()))
		return NULL;
	uint64_t fields = hca_cq_ex_fields(hca_context_of(context)->hca->port);

	if ((a->comp_mask & ~masks) || (wanted & ~flags) || (a->wc_flags & ~fields)) {
		hca_log("ibv_create_cq_ex: comp_mask 0x%x, flags 0x%x, wc_flags 0x%llx: this HCA "
			"supports 0x%x, 0x%x, 0x%llx",
			a->comp_mask, wanted, (unsigned long long)a->wc_flags, masks, flags,
			(unsigned long long)fields);
		errno = EOPNOTSUPP;
		return NULL;
	}
	struct ibv_pd *parent = a->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? a->parent_domain : NULL;
	void *memory = NULL;
	int rc = 0;

	if (hca_bad_part(parent, HCA_KIND_PD, context, "ibv_create_cq_ex", HCA_CALLER()) ||
	    ((a->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) && (!parent || !hca_pd_of(parent)->base)))
		rc = EINVAL;
	if (!rc)
		rc = hca_ring_memory_alloc(parent, HCA_RESOURCE_CQ, a->cqe * 64ull, &memory);
	if (rc) {
		errno = rc;
		return NULL;
	}
	struct hca_cq_handle *h = hca_cq_create(context, a, wanted);

	if (!h) {
		rc = errno;
		hca_ring_memory_free(parent, HCA_RESOURCE_CQ, memory);
		errno = rc;
		return NULL;
	}
	h->parent = parent;
	h->ring_memory = memory;
	if (parent)
		__atomic_fetch_add(&hca_pd_of(parent)->users, 1, __ATOMIC_ACQ_REL);
	h->hca->item.made = HCA_CALLER();
	h->wc_flags = a->wc_flags;
	h->single_threaded = (wanted & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
	hca_cq_ex_calls(&h->ex);
	return &h->ex;
}

/* ---- the clock ------------------------------------------------------------------------------ */

/* Reads the clock. One tick is 1 ns. The value is in tv_nsec, however large, as on other HCAs. On
 * return comp_mask names the values that were read. */
int hca_query_rt_values(struct ibv_context *context, struct ibv_values_ex *v)
{
	int bad = hca_enter(context, HCA_KIND_CONTEXT, "ibv_query_rt_values_ex", HCA_CALLER());

	if (bad)
		return bad;
	int rc = hca_command_fault("verbs.query_rt_values", NULL,
				   hca_context_of(context)->hca->port, -1);

	if (rc)
		return hca_result(rc);
	if (v->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return hca_result(EINVAL);
	if (!hca_personality(hca_context_of(context)->hca->port)->timestamps)
		return hca_result(EOPNOTSUPP);
	v->raw_clock = (struct timespec){0, 0};
	if (v->comp_mask & IBV_VALUES_MASK_RAW_CLOCK)
		v->raw_clock.tv_nsec = (long)sim_now_ns();
	return 0;
}
