/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of personalities; docs/fidelity-verbs.md lists which of these rows was seen where. The
 * reasons, row by row:
 *
 * max_*              what the drivers report: mlx5 of a ConnectX-7, rxe of Linux 6.1, and no more
 *                    than the tables have room for (ibv_query_device). `spec` has mlx5's, so that
 *                    what fits there fits here. max_cq: that many of 4,096 entries have memory.
 * max_message_bytes  rxe ends at 8 MiB, where all others take 1 GiB or more: a program that does
 *                    not call ibv_query_port fails here.
 * active_mtu         a soft device lives in its netdev's 1,500 bytes.
 * pkey_count         RoCE has the default partition alone, whatever other fields report; `spec` keeps
 *                    a table that partitions can be tested with.
 * roce_v1            mlx5 lists each address twice, so the index of the v2 one is odd; rxe knows
 *                    only v2, and index 3 is empty.
 * post_early         libmlx5 looks at no state: a request posted before RTS waits in the ring, and
 *                    the HCA runs it when RTS comes. The specification wants an immediate error;
 *                    rxe gives it.
 * opcode_checked     libmlx5 builds what it is given, and the HCA finds the malformed request:
 *                    LOC_QP_OP_ERR. The specification lists it among the immediate errors.
 * reset_purges       libmlx5 cleans the CQ of a queue pair that is reset or destroyed; the
 *                    specification leaves them to the consumer, rxe does not touch them.
 * retry_7_forever    rxe does not count down from 7: a program that relies on retry_cnt 7 to notice a dead
 *                    peer waits for ever.
 * dmabuf             not in rxe.
 * relaxed_ordering   an attribute of PCIe; rxe copies with the processor.
 * timestamps         rxe keeps no clock.
 * advice             mlx5 has the call where it has on-demand paging, which these do not; rxe of Linux
 *                    6.1 has neither.
 * ece_options        mlx5 knows two (its own numbers for them); rxe refuses the calls.
 * zero_length_mr     HCAs differ. The kernel's checks let it pass for rxe. For mlx5 the kernel counts the
 *                    pages from the one of the start to the one after the end: none (EINVAL) where
 *                    it begins with a page, else one.
 * window_index_checked  libmlx5 puts the low 8 bits of the R_Key into the request, after the index of
 *                    the window's own key.
 * window_pd_checked  libmlx5 compares the window's domain with the region's alone (EPERM); the HCA
 *                    finds the queue pair's.
 * datagram_qpn_checked  libmlx5 puts all 32 bits into the request; a queue pair has no such number.
 * ah_pd_enforced     libmlx5 copies the address into the request when it is posted, and forgets
 *                    whose it was.
 * datagram_too_long  the specification (C10-93.1.1): nothing is sent and no error is given; rxe
 *                    follows to the letter. HCAs complete with a local length error.
 * short_receive_waits  rdma-unit-test expects that a datagram longer than its receive is dropped
 *                    without a completion, and that the next one gets that receive; the suite lists
 *                    NICs that do otherwise, and mlx5 is not among them.
 * refused_imm_status rxe takes the receive of a WRITE with immediate before it looks at the R_Key, and
 *                    completes it with a remote access error (seen). rdma-unit-test expects a local
 *                    access error, which the verbs define for no other case, and mlx5 is not in its
 *                    list of deviations. The specification's responder tables leave it open.
 *
 * What follows the conformance suite saw on rxe, in a VM; all others do what is specified.
 *
 * send_error_is_sqe  rxe knows no SQE: a failed send of any type is ERR.
 * reports_connections   rxe posts none of these events.
 * late_posts_flushed rxe flushes receives when it enters ERR, and never looks again.
 * no_reads_fail      rxe starts no READ while there are as many as allowed, none included.
 * mcast_comes_back   rxe does not loop a multicast datagram to the device that sends.
 * bad_key_malformed  rxe takes a bad key of a send or a write for a malformed request; a range out
 *                    of bounds and the place for a READ's data are protection errors there, too.
 * bad_receive_malformed  whatever is wrong with a receive is the same to rxe, and the sender's
 *                    REM_OP_ERR: a bad key, a range, a message that is longer.
 * qkey_high_bit      rxe sends the Q_Key of the request, whatever it is.
 * header_checksum    rxe's loopback never builds the header that the wire would have had.
 * ack_latest         the specification lets an HCA notice silence after one to four timeouts; rxe has
 *                    a timer of the kernel's for each queue pair, which is exact to a jiffy.
 * sqd_resumes        rxe looks at the queue at the next post.
 * attributes_checked rxe compares neither the current state nor most of the values; 6 and 7 as MTU, and
 *                    what the kernel checks for all, are refused there, too.
 * overrun_kills      rxe loses the completion, and goes on.
 * zero_based         rxe ignores the flag: an address from 0 is out of the region's bounds.
 * query_complete     rxe leaves cur_qp_state 0; the kernel puts the route's hop limit, 64.
 * length_checked     rxe's port reports 8 MiB, and it sends what is longer.
 * atomics_checked    librxe looks at an atomic's address and size, no other library does. It refuses a result of
 *                    less than 8 bytes; of more it takes the first 8.
 * null_region_counts  libmlx5's null region is a key that the context has, and no object of the kernel: the
 *                    kernel does not know that it uses the domain.
 * srq_ignores_recv   the kernel's rxe compares the receive queue's sizes with the limits only where there is
 *                    no shared receive queue. libmlx5 computes the size of the ring from max_recv_wr first.
 * atomic_result_checked  rxe looks for the place of an atomic's result when the answer is there.
 * inline_checked     librxe takes the flag with every opcode.
 */

#include "backends/fakeverbs/objects/personality.h"

#include <string.h>

#include "backends/fakeverbs/objects/objects.h"

/* clang-format off */
/* A ConnectX-7, on either link layer; `spec` has its sizes. */
#define HCA_CONNECTX                                                                               \
	.firmware = "28.40.1000", .vendor_id = HCA_VENDOR_MLX5, .vendor_part_id = 4129,                     \
	.max_qp = 131072, .max_wr = 32768, .max_sge = 30, .max_cq = 8192, .max_cqe = 1 << 22,      \
	.max_inline = 1024, .max_rd_atomic = 16, .max_mr = 131072, .max_ah = INT32_MAX,             \
	.max_mcast_members = 2097152,                                                              \
	.max_mcast_attach = 240, .max_message_bytes = 1u << 30, .active_mtu = IBV_MTU_4096,        \
	.gid_count = 255, .dmabuf = true, .relaxed_ordering = true, .timestamps = true,             \
	.ece_options = 3, .retry_7_forever = false, .reset_purges = true

/* What libmlx5 does not look at. */
#define HCA_MLX5                                                                                   \
	.post_early = true, .opcode_checked = false, .window_index_checked = false,                \
	.window_pd_checked = false, .datagram_qpn_checked = false, .ah_pd_enforced = false,        \
	.datagram_too_long = true, .short_receive_waits = true,                                   \
	.null_region_counts = false, .srq_ignores_recv = false,                                   \
	.refused_imm_status = IBV_WC_LOC_ACCESS_ERR, .advice = false, .zero_length_mr = HCA_ZERO_INSIDE_PAGE
/* What the specification wants looked at; rxe does it, too. */
#define HCA_LOOKED_AT                                                                              \
	.post_early = false, .opcode_checked = true, .window_index_checked = true,                 \
	.window_pd_checked = true, .datagram_qpn_checked = true, .ah_pd_enforced = true,           \
	.datagram_too_long = false, .short_receive_waits = false,                                  \
	.null_region_counts = true, .srq_ignores_recv = true

/* What all do except rxe. */
#define HCA_AS_SPECIFIED(v)                                                                        \
	.send_error_is_sqe = (v), .reports_connections = (v), .late_posts_flushed = (v),           \
	.no_reads_fail = (v), .mcast_comes_back = (v), .bad_key_malformed = !(v),                  \
	.bad_receive_malformed = !(v), .qkey_high_bit = (v),         \
	.header_checksum = (v), .ack_latest = (v) ? 16 : 4, .sqd_resumes = (v),                    \
	.attributes_checked = (v), .overrun_kills = (v), .zero_based = (v), .query_complete = (v), \
	.length_checked = (v), .atomics_checked = (v), .inline_checked = (v),            \
	.atomic_result_checked = (v)

static const struct hca_personality hca_personalities[] = {
	{
		.name = "spec", HCA_CONNECTX, .link_layer = IBV_LINK_LAYER_ETHERNET, .roce_v1 = true,
		.pkey_count = 128, .advice = true, .zero_length_mr = HCA_ZERO_REFUSED,
		.refused_imm_status = IBV_WC_SUCCESS, HCA_LOOKED_AT, HCA_AS_SPECIFIED(true),
	},
	{
		.name = "mlx5", HCA_CONNECTX, .link_layer = IBV_LINK_LAYER_ETHERNET, .roce_v1 = true,
		.pkey_count = 1, HCA_MLX5, HCA_AS_SPECIFIED(true),
	},
	{	/* the same HCA on an InfiniBand subnet: local identifiers, no GRH unless requested */
		.name = "mlx5-ib", HCA_CONNECTX, .link_layer = IBV_LINK_LAYER_INFINIBAND, .roce_v1 = false,
		.pkey_count = 128, HCA_MLX5, HCA_AS_SPECIFIED(true),
	},
	{
		.name = "rxe", .firmware = "", .vendor_id = 0xffffff, .vendor_part_id = 0,
		.max_qp = 1048575, .max_wr = 1048576, .max_sge = 32, .max_cq = 8192,
		.max_cqe = 32767, .max_inline = 512, .max_rd_atomic = 128, .max_mr = 131072, .max_ah = 32767,
		.max_mcast_members = 8192, .max_mcast_attach = 56,
		.max_message_bytes = 8u << 20, .active_mtu = IBV_MTU_1024,
		.gid_count = 1024, .pkey_count = 1,
		.link_layer = IBV_LINK_LAYER_ETHERNET, .roce_v1 = false,
		.dmabuf = false, .relaxed_ordering = false, .timestamps = false, .ece_options = 0, .advice = false,
		.retry_7_forever = true, .reset_purges = false, .zero_length_mr = HCA_ZERO_TAKEN,
		.refused_imm_status = IBV_WC_REM_ACCESS_ERR, HCA_LOOKED_AT, HCA_AS_SPECIFIED(false),
	},
};
/* clang-format on */

const struct hca_personality *hca_personality(uint32_t port)
{
	return &hca_personalities[hca_world()->port[port].personality];
}

uint32_t hca_personality_index(const struct hca_personality *p)
{
	return (uint32_t)(p - hca_personalities);
}

static const struct hca_personality *hca_personality_named(const char *name, size_t length)
{
	for (size_t i = 0; i < ARRAY_LEN(hca_personalities); i++) {
		const struct hca_personality *p = &hca_personalities[i];

		if (strlen(p->name) == length && !memcmp(p->name, name, length))
			return p;
	}
	return NULL;
}

const struct hca_personality *hca_personality_find(const char *text, uint32_t index)
{
	const struct hca_personality *found[64];
	uint32_t n = 0;

	for (const char *at = text;; at++) {
		size_t length = strcspn(at, ",");

		if (n == ARRAY_LEN(found))
			return NULL;
		found[n] = hca_personality_named(at, length);
		if (!found[n++])
			return NULL;
		at += length;
		if (!*at)
			return found[index % n];
	}
}
