/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of ports. The names are those of the kernel's drivers mlx5_ib and rdma_rxe. The folder
 * `counters` is ib_core's, for drivers that answer performance management queries; rdma_rxe does
 * not. */
#include "backends/fakeverbs/objects/counters.h"
#include "backends/fakeverbs/objects/objects.h"
#include "backends/fakeverbs/objects/personality.h"

/* Events that are not modelled have counters that show 0: congestion control, adaptive
 * retransmission, errors of the link. */
static const struct hca_counter_file hca_files_mlx5[] = {
	{"counters/port_xmit_data", HCA_SENT_BYTES, 4},
	{"counters/port_rcv_data", HCA_RECEIVED_BYTES, 4},
	{"counters/port_xmit_packets", HCA_SENT_PACKETS, 1},
	{"counters/port_rcv_packets", HCA_RECEIVED_PACKETS, 1},
	{"counters/link_downed", HCA_LINK_DOWNED, 1},
	{"counters/symbol_error", HCA_COUNTERS, 1},
	{"counters/link_error_recovery", HCA_COUNTERS, 1},
	{"counters/port_rcv_errors", HCA_COUNTERS, 1},
	{"counters/port_rcv_remote_physical_errors", HCA_COUNTERS, 1},
	{"counters/port_rcv_switch_relay_errors", HCA_COUNTERS, 1},
	{"counters/port_rcv_constraint_errors", HCA_COUNTERS, 1},
	{"counters/port_xmit_constraint_errors", HCA_COUNTERS, 1},
	{"counters/port_xmit_discards", HCA_COUNTERS, 1},
	{"counters/port_xmit_wait", HCA_COUNTERS, 1},
	{"counters/local_link_integrity_errors", HCA_COUNTERS, 1},
	{"counters/excessive_buffer_overrun_errors", HCA_COUNTERS, 1},
	{"counters/VL15_dropped", HCA_COUNTERS, 1},
	{"hw_counters/rx_write_requests", HCA_RECEIVED_WRITES, 1},
	{"hw_counters/rx_read_requests", HCA_RECEIVED_READS, 1},
	{"hw_counters/rx_atomic_requests", HCA_RECEIVED_ATOMICS, 1},
	{"hw_counters/rx_dct_connect", HCA_COUNTERS, 1},
	{"hw_counters/out_of_buffer", HCA_NO_RECEIVES, 1},
	{"hw_counters/out_of_sequence", HCA_OUT_OF_SEQUENCE, 1},
	{"hw_counters/duplicate_request", HCA_DUPLICATES, 1},
	{"hw_counters/rnr_nak_retry_err", HCA_RNR_RETRIES, 1},
	{"hw_counters/packet_seq_err", HCA_SEQUENCE_NAKS, 1},
	{"hw_counters/implied_nak_seq_err", HCA_GAPS_IN_ANSWERS, 1},
	{"hw_counters/local_ack_timeout_err", HCA_TIMEOUTS, 1},
	{"hw_counters/resp_local_length_error", HCA_RECEIVES_TOO_SMALL, 1},
	{"hw_counters/resp_cqe_error", HCA_RECEIVES_FAILED, 1},
	{"hw_counters/req_cqe_error", HCA_SENDS_FAILED, 1},
	{"hw_counters/req_remote_invalid_request", HCA_REFUSED_REQUESTS, 1},
	{"hw_counters/req_remote_access_errors", HCA_REFUSED_ACCESSES, 1},
	{"hw_counters/resp_remote_access_errors", HCA_ACCESSES_REFUSED, 1},
	{"hw_counters/resp_cqe_flush_error", HCA_RECEIVES_FLUSHED, 1},
	{"hw_counters/req_cqe_flush_error", HCA_SENDS_FLUSHED, 1},
	{"hw_counters/req_transport_retries_exceeded", HCA_RETRIES_SPENT, 1},
	{"hw_counters/req_rnr_retries_exceeded", HCA_RNR_RETRIES_SPENT, 1},
	{"hw_counters/roce_adp_retrans", HCA_COUNTERS, 1},
	{"hw_counters/roce_adp_retrans_to", HCA_COUNTERS, 1},
	{"hw_counters/roce_slow_restart", HCA_COUNTERS, 1},
	{"hw_counters/roce_slow_restart_cnps", HCA_COUNTERS, 1},
	{"hw_counters/roce_slow_restart_trans", HCA_COUNTERS, 1},
	{"hw_counters/rp_cnp_ignored", HCA_COUNTERS, 1},
	{"hw_counters/rp_cnp_handled", HCA_COUNTERS, 1},
	{"hw_counters/np_ecn_marked_roce_packets", HCA_COUNTERS, 1},
	{"hw_counters/np_cnp_sent", HCA_COUNTERS, 1},
	{"hw_counters/rx_icrc_encapsulated", HCA_COUNTERS, 1},
	{NULL, HCA_COUNTERS, 1},
};

static const struct hca_counter_file hca_files_rxe[] = {
	{"hw_counters/sent_pkts", HCA_SENT_PACKETS, 1},
	{"hw_counters/rcvd_pkts", HCA_RECEIVED_PACKETS, 1},
	{"hw_counters/duplicate_request", HCA_DUPLICATES, 1},
	{"hw_counters/out_of_seq_request", HCA_OUT_OF_SEQUENCE, 1},
	{"hw_counters/rcvd_rnr_err", HCA_RNR_NAKS, 1},
	{"hw_counters/send_rnr_err", HCA_RNR_NAKS_SENT, 1},
	{"hw_counters/rcvd_seq_err", HCA_SEQUENCE_NAKS, 1},
	{"hw_counters/ack_deferred", HCA_COUNTERS, 1},
	{"hw_counters/retry_exceeded_err", HCA_RETRIES_SPENT, 1},
	{"hw_counters/retry_rnr_exceeded_err", HCA_RNR_RETRIES_SPENT, 1},
	{"hw_counters/completer_retry_err", HCA_RESENDS, 1},
	{"hw_counters/send_err", HCA_COUNTERS, 1},
	{"hw_counters/link_downed", HCA_LINK_DOWNED, 1},
	{"hw_counters/rdma_sends", HCA_COMPLETED_SENDS, 1},
	{"hw_counters/rdma_recvs", HCA_COMPLETED_RECEIVES, 1},
	{NULL, HCA_COUNTERS, 1},
};

const struct hca_counter_file *hca_counter_files(uint32_t port)
{
	return strcmp(hca_personality(port)->name, "rxe") ? hca_files_mlx5 : hca_files_rxe;
}

void hca_count(uint32_t port, enum hca_counter counter)
{
	ASSERT(counter >= HCA_TRAFFIC_COUNTERS && counter < HCA_COUNTERS);
	__atomic_fetch_add(&hca_world()->port[port].counted[counter], 1, __ATOMIC_RELAXED);
}

void hca_counters_end(struct hca_qp *qp)
{
	struct hca_port *port = &hca_world()->port[qp->port];

	hca_lock(&port->lock);
	uint32_t moves = port->counted_moves | 1; /* odd if a process died between the two stores */

	__atomic_store_n(&port->counted_moves, moves, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < HCA_TRAFFIC_COUNTERS; i++) {
		__atomic_store_n(&port->counted[i], port->counted[i] + qp->traffic[i],
				 __ATOMIC_SEQ_CST);
		__atomic_store_n(&qp->traffic[i], 0, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&port->counted_moves, moves + 1, __ATOMIC_SEQ_CST);
	hca_unlock(&port->lock);
}

_Static_assert(HCA_TRAFFIC_COUNTERS < HCA_COUNTERS,
	       "a queue pair has the first of a port's counters");

/* Adds up the counts of a port. Does not lock the port, because packets need its lock. */
static void hca_counters_sum(uint32_t index, uint64_t out[HCA_COUNTERS])
{
	struct hca_world *w = hca_world();
	const struct hca_port *port = &w->port[index];
	uint32_t queue_pairs = __atomic_load_n(&w->qp.count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < HCA_COUNTERS; i++)
		out[i] = __atomic_load_n(&port->counted[i], __ATOMIC_SEQ_CST);
	for (uint32_t n = 0; n < queue_pairs; n++) {
		const struct hca_qp *qp = hca_slab_at(&w->qp, n);

		if (__atomic_load_n(&qp->port, __ATOMIC_RELAXED) != index)
			continue; /* an ended queue pair has traffic counts of 0 */
		for (uint32_t i = 0; i < HCA_TRAFFIC_COUNTERS; i++)
			out[i] += __atomic_load_n(&qp->traffic[i], __ATOMIC_SEQ_CST);
	}
}

bool hca_counters_read(uint32_t index, uint64_t out[HCA_COUNTERS])
{
	const uint32_t *moves = &hca_world()->port[index].counted_moves;
	uint32_t before = __atomic_load_n(moves, __ATOMIC_SEQ_CST);

	hca_counters_sum(index, out);
	return !(before & 1) && __atomic_load_n(moves, __ATOMIC_SEQ_CST) == before;
}
