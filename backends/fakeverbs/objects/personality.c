/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of personalities, and the reasons for its values, field by field.
 * docs/verbs/fidelity.md lists the target on which each difference was seen.
 *
 * max_*               Values that the drivers report: mlx5 of a ConnectX-7, rxe of Linux 6.1,
 *                     limited by the room in the tables (ibv_query_device). `spec` has mlx5's
 *                     values, so that a program that fits there fits here. max_cq: so many queues
 *                     of 4,096 entries have memory.
 * max_message_bytes   rxe ends at 8 MiB; all others accept 1 GiB or more. A program that does not
 *                     call ibv_query_port fails on rxe.
 * active_mtu          A soft device is limited by its netdev's 1,500 bytes.
 * pkey_count          RoCE has only the default partition, whatever other fields report. `spec`
 *                     keeps a table so that partitions can be tested.
 * roce_v1             mlx5 lists each address twice, so the index of its v2 GID is odd. rxe
 *                     supports only v2, and index 3 is empty.
 * post_early          libmlx5 does not check the state: a request posted before RTS waits in the
 *                     ring, and the HCA runs it in RTS. The specification requires an immediate
 *                     error; rxe returns it.
 * opcode_checked      libmlx5 builds any request, and the HCA finds the malformed one:
 *                     LOC_QP_OP_ERR. The specification lists it among the immediate errors.
 * reset_purges        libmlx5 removes completions of a queue pair that is reset or destroyed. The
 *                     specification leaves them to the consumer; rxe keeps them.
 * retry_7_forever     rxe does not count down from 7: a program that relies on retry_cnt 7 to
 *                     notice a dead peer waits without end.
 * dmabuf              rxe does not have it.
 * relaxed_ordering    An attribute of PCIe; rxe copies with the processor.
 * timestamps          rxe has no clock.
 * advice              mlx5 has the call only with on-demand paging, which these HCAs lack; rxe of
 *                     Linux 6.1 has neither.
 * ece_options         mlx5 has two (its own numbers for them); rxe refuses the calls.
 * zero_length_mr      HCAs differ. The kernel's checks accept it for rxe. For mlx5 the kernel
 *                     counts the pages from the page of the start to the page after the end. An
 *                     address at a page's start gives 0 pages (EINVAL), any other gives 1.
 * window_index_checked  libmlx5 puts the low 8 bits of the R_Key into the request, after the index
 *                     of the window's own key.
 * window_pd_checked   libmlx5 compares the window's domain only with the region's (EPERM); the HCA
 *                     checks the queue pair's.
 * datagram_qpn_checked  libmlx5 puts all 32 bits into the request; no queue pair has such a number.
 * ah_pd_enforced      libmlx5 copies the address into the request at the post, and does not keep
 *                     its domain.
 * datagram_too_long   The specification (C10-93.1.1) requires that nothing is sent and no error is
 *                     reported; rxe follows it literally. HCAs complete with a local length error.
 * short_receive_waits  rdma-unit-test expects that a datagram longer than its receive is dropped
 *                     without a completion, and that the next one uses that receive. The suite
 *                     lists NICs that differ; mlx5 is not among them.
 * refused_imm_status  rxe takes the receive of a WRITE with immediate before it checks the R_Key,
 *                     and completes it with a remote access error (seen). rdma-unit-test expects a
 *                     local access error, which the verbs define for no other case. mlx5 is not in
 *                     its list of deviations. The specification's responder tables leave it open.
 *
 * The conformance suite saw the following on rxe, in a VM. All other personalities follow the
 * specification.
 *
 * send_error_is_sqe   rxe has no SQE: a failed send of any type leads to ERR.
 * reports_connections  rxe posts none of these events.
 * late_posts_flushed  rxe flushes receives when it enters ERR, and never checks again.
 * no_reads_fail       rxe starts no READ while the allowed number is outstanding, and that number
 *                     may be 0.
 * mcast_comes_back    rxe does not loop a multicast datagram to the device that sends.
 * bad_key_malformed   rxe treats a bad key of a send or a write as a malformed request. A range out
 *                     of bounds, and a bad buffer for a READ's data, are protection errors on rxe,
 *                     too.
 * bad_receive_malformed  rxe has one status for every error of a receive, and REM_OP_ERR for its
 *                     sender: a bad key, a bad range, a message that is longer.
 * qkey_high_bit       rxe sends the Q_Key of the request, whatever it is.
 * header_checksum     rxe's loopback never builds the header that the wire would have had.
 * ack_latest          The specification lets an HCA notice silence after one to four timeouts. rxe
 *                     has a kernel timer for each queue pair, which is exact to a jiffy.
 * sqd_resumes         rxe checks the queue only at the next post.
 * attributes_checked  rxe compares neither the current state nor most of the values. It refuses 6
 *                     and 7 as MTU, and everything that the kernel checks for all drivers.
 * overrun_kills       rxe loses the completion, and continues.
 * zero_based          rxe ignores the flag: an address from 0 is outside the region's bounds.
 * query_complete      rxe leaves cur_qp_state 0; the kernel reports the route's hop limit, 64.
 * length_checked      rxe's port reports 8 MiB, but rxe sends longer messages.
 * atomics_checked     librxe checks an atomic's address and size; no other library does. It refuses
 *                     a result of less than 8 bytes, and uses the first 8 of a longer one.
 * null_region_counts  libmlx5's null region is a key of the context, and not an object of the
 *                     kernel. The kernel does not know that it uses the domain.
 * srq_ignores_recv    The kernel's rxe compares the receive queue's sizes with the limits only
 *                     without a shared receive queue. libmlx5 computes the size of the ring from
 *                     max_recv_wr first.
 * atomic_result_checked  rxe checks the result buffer of an atomic when the answer arrives.
 * inline_checked      librxe accepts the flag with every opcode.
 */

#include "backends/fakeverbs/objects/personality.h"

#include <string.h>

#include "backends/fakeverbs/objects/objects.h"

/* clang-format off */
/* A ConnectX-7, on either link layer. `spec` has its sizes. */
#define HCA_CONNECTX                                                                               \
	.firmware = "28.40.1000", .vendor_id = HCA_VENDOR_MLX5, .vendor_part_id = 4129,            \
	.max_qp = 131072, .max_wr = 32768, .max_sge = 30, .max_cq = 8192, .max_cqe = 1 << 22,      \
	.max_inline = 1024, .max_rd_atomic = 16, .max_mr = 131072, .max_ah = INT32_MAX,            \
	.max_mcast_members = 2097152,                                                              \
	.max_mcast_attach = 240, .max_message_bytes = 1u << 30, .active_mtu = IBV_MTU_4096,        \
	.gid_count = 255, .dmabuf = true, .relaxed_ordering = true, .timestamps = true,            \
	.ece_options = 3, .retry_7_forever = false, .reset_purges = true

/* Checks that libmlx5 omits. */
#define HCA_MLX5                                                                                   \
	.post_early = true, .opcode_checked = false, .window_index_checked = false,                \
	.window_pd_checked = false, .datagram_qpn_checked = false, .ah_pd_enforced = false,        \
	.datagram_too_long = true, .short_receive_waits = true, .null_region_counts = false,       \
	.srq_ignores_recv = false, .refused_imm_status = IBV_WC_LOC_ACCESS_ERR, .advice = false,   \
	.zero_length_mr = HCA_ZERO_INSIDE_PAGE
/* Checks that the specification requires; rxe does them, too. */
#define HCA_LOOKED_AT                                                                              \
	.post_early = false, .opcode_checked = true, .window_index_checked = true,                 \
	.window_pd_checked = true, .datagram_qpn_checked = true, .ah_pd_enforced = true,           \
	.datagram_too_long = false, .short_receive_waits = false,                                  \
	.null_region_counts = true, .srq_ignores_recv = true

/* Behaviour of all except rxe. */
#define HCA_AS_SPECIFIED(v)                                                                        \
	.send_error_is_sqe = (v), .reports_connections = (v), .late_posts_flushed = (v),           \
	.no_reads_fail = (v), .mcast_comes_back = (v), .bad_key_malformed = !(v),                  \
	.bad_receive_malformed = !(v), .qkey_high_bit = (v),                                       \
	.header_checksum = (v), .ack_latest = (v) ? 16 : 4, .sqd_resumes = (v),                    \
	.attributes_checked = (v), .overrun_kills = (v), .zero_based = (v), .query_complete = (v), \
	.length_checked = (v), .atomics_checked = (v), .inline_checked = (v),                      \
	.atomic_result_checked = (v)

static const struct hca_personality hca_personalities[] = {
	{
		.name = "spec", HCA_CONNECTX,
		.link_layer = IBV_LINK_LAYER_ETHERNET, .roce_v1 = true,
		.pkey_count = 128, .advice = true, .zero_length_mr = HCA_ZERO_REFUSED,
		.refused_imm_status = IBV_WC_SUCCESS, HCA_LOOKED_AT, HCA_AS_SPECIFIED(true),
	},
	{
		.name = "mlx5", HCA_CONNECTX,
		.link_layer = IBV_LINK_LAYER_ETHERNET, .roce_v1 = true,
		.pkey_count = 1, HCA_MLX5, HCA_AS_SPECIFIED(true),
	},
	{	/* the same HCA on an InfiniBand subnet: LIDs, no GRH unless requested */
		.name = "mlx5-ib", HCA_CONNECTX,
		.link_layer = IBV_LINK_LAYER_INFINIBAND, .roce_v1 = false,
		.pkey_count = 128, HCA_MLX5, HCA_AS_SPECIFIED(true),
	},
	{
		.name = "rxe", .firmware = "", .vendor_id = 0xffffff, .vendor_part_id = 0,
		.max_qp = 1048575, .max_wr = 1048576, .max_sge = 32, .max_cq = 8192,
		.max_cqe = 32767, .max_inline = 512, .max_rd_atomic = 128,
		.max_mr = 131072, .max_ah = 32767,
		.max_mcast_members = 8192, .max_mcast_attach = 56,
		.max_message_bytes = 8u << 20, .active_mtu = IBV_MTU_1024,
		.gid_count = 1024, .pkey_count = 1,
		.link_layer = IBV_LINK_LAYER_ETHERNET, .roce_v1 = false,
		.dmabuf = false, .relaxed_ordering = false, .timestamps = false,
		.ece_options = 0, .advice = false,
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
	ASSERT(p >= hca_personalities && p < hca_personalities + ARRAY_LEN(hca_personalities));
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
