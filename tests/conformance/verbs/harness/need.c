/* SPDX-License-Identifier: BSD-3-Clause */
/* The features of a device as its attributes report them. No call is tried. */
#include "tests/conformance/verbs/harness/target.h"

#define NAME(name, text) #name,
#define TEXT(name, text) text,
const char *const vs_need_name[VS_NEED_COUNT] = {VS_NEEDS(NAME)};
const char *const vs_need_text[VS_NEED_COUNT] = {VS_NEEDS(TEXT)};

/* Calls that no attribute reports: there, unless the target's list lacks them. */
#define NEED_UNREPORTED                                                                            \
	(NEED(UC) | NEED(UD) | NEED(RESIZE_CQ) | NEED(REREG) | NEED(DMABUF) | NEED(IMPORT) |       \
	 NEED(ECE) | NEED(SQD) | NEED(GID_EX) | NEED(LOCAL_INV) | NEED(CQ_EX) | NEED(QP_EX) |      \
	 NEED(ATOMIC_WRITE) | NEED(MODIFY_CQ) | NEED(NULL_MR) | NEED(PARENT_DOMAIN) |              \
	 NEED(POLLABLE) | NEED(ADVICE))

static uint64_t need_of_attr(const struct ibv_device_attr_ex *x)
{
	const struct ibv_device_attr *a = &x->orig_attr;
	const unsigned int mw2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	uint64_t n = 0;

	if (a->max_srq > 0)
		n |= NEED(SRQ);
	if (a->max_srq > 0 && (a->device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
		n |= NEED(RESIZE_SRQ);
	if (a->device_cap_flags & IBV_DEVICE_XRC)
		n |= NEED(XRC);
	if (a->max_mw > 0 && (a->device_cap_flags & IBV_DEVICE_MEM_WINDOW))
		n |= NEED(MW1);
	if (a->max_mw > 0 && (a->device_cap_flags & mw2))
		n |= NEED(MW2);
	if (a->atomic_cap != IBV_ATOMIC_NONE)
		n |= NEED(ATOMIC);
	if (a->atomic_cap == IBV_ATOMIC_GLOB)
		n |= NEED(ATOMIC_GLOB);
	if (a->max_mcast_grp > 0)
		n |= NEED(MCAST);
	if (x->completion_timestamp_mask)
		n |= NEED(TIMESTAMP);
	if (x->max_dm_size)
		n |= NEED(DM);
	return n;
}

struct vs_probe *vs_probe;

void vs_probe_run(void)
{
	struct ibv_context *ctx = vs_open(0), *other = vs_open(1);
	struct ibv_device_attr_ex *x = &vs_probe->device;

	vs_probe->port = vs_port_attr(ctx);
	if (ibv_query_device_ex(ctx, NULL, x)) { /* it falls back to the older call by itself */
		memset(x, 0, sizeof *x);
		x->orig_attr = vs_device_attr(ctx);
	}
	uint64_t n = need_of_attr(x);

	if (vs_probe->port.link_layer == IBV_LINK_LAYER_ETHERNET)
		n |= NEED(ROCE);
	if (strcmp(ibv_get_device_name(ctx->device), ibv_get_device_name(other->device)))
		n |= NEED(TWO_DEVICES);
	if (target_faults())
		n |= NEED(FAULTS);
	vs_probe->gid_index[0] = vs_gid_index(ctx);
	vs_probe->gid_index[1] = vs_gid_index(other);
	CHECK_EQ(ibv_close_device(other), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
	vs_probe->unreported = NEED_UNREPORTED;
	vs_probe->reported = n;
}
