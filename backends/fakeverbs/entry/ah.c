/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles: destinations of datagrams. The address is resolved at creation. The completion
 * of a received datagram gives the address for an answer. */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

struct ibv_ah *ibv_create_ah(struct ibv_pd *ibv_pd, struct ibv_ah_attr *attr)
{
	if (hca_enter_control(ibv_pd, HCA_KIND_PD, "ibv_create_ah", HCA_CALLER()))
		return NULL;
	struct hca_pd_handle *pd = hca_pd_of(ibv_pd);
	struct hca_ah_handle *h = NULL;
	struct hca_ah *ah = NULL;
	uint32_t port = pd->hca->port, to_port;
	int rc = hca_address_resolve(port, attr, &to_port);

	if (!rc)
		rc = hca_command_fault("verbs.create_ah", NULL, port, -1);
	if (rc)
		goto err;
	rc = ENOMEM;
	h = hca_handle_alloc(HCA_KIND_AH, sizeof *h, "ibv_ah");
	ah = h ? hca_slab_alloc_owned(&hca_world()->ah, h) : NULL;
	if (!ah)
		goto err_free;
	ah->item.made = HCA_CALLER();
	ah->pd = pd->hca->item.index;
	ah->port = port;
	ah->to_port = to_port;
	ah->attr = *attr;
	h->hca = ah;
	h->ibv =
		(struct ibv_ah){.context = ibv_pd->context, .pd = ibv_pd, .handle = ah->item.index};
	__atomic_fetch_add(&pd->users, 1, __ATOMIC_ACQ_REL);
	os_trace("ah.create", ah->item.index, to_port, attr->grh.sgid_index);
	return &h->ibv;
err_free:
	hca_handle_end(h, 0);
err:
	errno = rc;
	return NULL;
}

/* Reports unfinished requests that use the handle. The effect on them depends on the HCA. */
static void hca_ah_check_idle(const struct hca_ah *ah, uint64_t caller)
{
	struct hca_site at_here, at_post;
	struct hca_world *w = hca_world();
	uint32_t at = 0;
	struct hca_qp *qp;

	while ((qp = hca_slab_next(&w->qp, ah->item.proc, &at))) {
		hca_qp_lock(qp);
		for (uint32_t i = qp->sq.done; qp->type == IBV_QPT_UD && i != qp->sq.head; i++) {
			const struct hca_wqe *e = hca_wqe_at(&qp->sq, i);

			if (e->ah != ah->item.index || e->ah_generation != ah->item.generation)
				continue;
			hca_check(HCA_RULE_AH_IN_USE, e->caller,
				  "ibv_destroy_ah at %s: send wr_id %llu of qp 0x%x, posted at %s, "
				  "is not complete",
				  hca_site(ah->item.proc, caller, &at_here),
				  (unsigned long long)e->wr_id, qp->number,
				  hca_site(ah->item.proc, e->caller, &at_post));
			break;
		}
		hca_unlock(&qp->item.lock);
	}
}

int ibv_destroy_ah(struct ibv_ah *ibv)
{
	int bad = hca_enter_control(ibv, HCA_KIND_AH, "ibv_destroy_ah", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_ah_handle *h = CONTAINER_OF(ibv, struct hca_ah_handle, ibv);
	struct hca_pd_handle *pd = hca_pd_of(ibv->pd);
	int rc = hca_call_fault("verbs.destroy_ah", NULL, h->hca->port, -1);

	hca_ah_check_idle(h->hca, HCA_CALLER());
	hca_slab_free(&hca_world()->ah, h->hca);
	__atomic_fetch_sub(&pd->users, 1, __ATOMIC_ACQ_REL);
	hca_handle_end(h, HCA_CALLER());
	return hca_result(rc);
}

/* ---- from a received datagram --------------------------------------------------------------- */

/* The two addresses of the header in front of a receive, as GIDs. */
struct hca_grh_read {
	union ibv_gid from, to;
	enum ibv_gid_type type;
	uint32_t flow_label;
	uint8_t traffic_class;
};

_Static_assert(sizeof(struct ibv_grh) == 20 + 20, "an IPv4 header is the last half of a GRH");

static bool hca_grh_read_ipv4(const uint8_t *ip, struct hca_grh_read *out)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	/* the checksum decides if both formats are possible */
	if (ip[0] != 0x45 || (ip[-20] >> 4 == 6 && sum != 0xffff))
		return false;
	out->from.raw[10] = out->from.raw[11] = out->to.raw[10] = out->to.raw[11] = 0xff;
	memcpy(out->from.raw + 12, ip + 12, 4);
	memcpy(out->to.raw + 12, ip + 16, 4);
	out->type = IBV_GID_TYPE_ROCE_V2;
	out->traffic_class = ip[1];
	return true;
}

static bool hca_grh_read(const struct ibv_grh *grh, bool roce, struct hca_grh_read *out)
{
	uint32_t first = be32toh(grh->version_tclass_flow);

	memset(out, 0, sizeof *out);
	if (roce && hca_grh_read_ipv4((const uint8_t *)grh + 20, out))
		return true;
	if (first >> 28 != 6)
		return false;
	out->from = grh->sgid;
	out->to = grh->dgid;
	out->type = !roce                   ? IBV_GID_TYPE_IB
		    : grh->next_hdr == 0x1b ? IBV_GID_TYPE_ROCE_V1
					    : IBV_GID_TYPE_ROCE_V2;
	out->traffic_class = (uint8_t)(first >> 20);
	out->flow_label = first & 0xfffff;
	return true;
}

/* Returns this port's index of the GID; -1: not found. For a multicast GID, any index of that type:
 * it is the source of the answer. */
static int hca_gid_index(uint32_t port, const union ibv_gid *gid, enum ibv_gid_type type)
{
	bool multicast = hca_gid_is_multicast(gid);
	union ibv_gid mine;
	enum ibv_gid_type mine_type;
	int found = -1;

	for (uint32_t i = 0; hca_gid_get(port, i, &mine, &mine_type); i++)
		if (mine_type == type && (multicast || !memcmp(&mine, gid, sizeof mine)))
			found = (int)i;
	return found;
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	if (hca_enter(context, HCA_KIND_CONTEXT, "ibv_init_ah_from_wc", HCA_CALLER()))
		return -1;
	uint32_t port = hca_context_of(context)->hca->port;
	bool roce = hca_personality(port)->link_layer != IBV_LINK_LAYER_INFINIBAND;
	struct hca_grh_read read;

	memset(attr, 0, sizeof *attr);
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port_num;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	int index = -1;

	if (port_num == 1 && hca_grh_read(grh, roce, &read))
		index = hca_gid_index(port, &read.to, read.type);
	if (index < 0) {
		errno = EINVAL;
		return -1;
	}
	attr->is_global = 1;
	attr->grh.dgid = read.from;
	attr->grh.sgid_index = (uint8_t)index;
	attr->grh.flow_label = read.flow_label;
	attr->grh.traffic_class = read.traffic_class;
	attr->grh.hop_limit = 0xff;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num)
{
	struct ibv_ah_attr attr;

	if (hca_bad(pd, HCA_KIND_PD, "ibv_create_ah_from_wc", HCA_CALLER()) ||
	    ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}
