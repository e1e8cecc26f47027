/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Personalities: differences of real HCAs from each other, or from the specification, that a
 * program can notice. Each field of this struct is one difference; personality.c gives its value
 * for every personality, with the reason. The data path reads the field, never a name.
 *
 * Each port of the world has one personality, chosen when the world's HCAs are created. The
 * sources, in order: the attribute `personality` of <net> in the machine file; entry (port modulo
 * entries) of the list in DOPPEL_HCA_PERSONALITY; "spec". This table is constant. Sizes are in
 * bytes.
 */
#ifndef BACKENDS_FAKEVERBS_PERSONALITY_H
#define BACKENDS_FAKEVERBS_PERSONALITY_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Registration of a region of 0 bytes: refused, accepted unless it begins at a page's start,
 * accepted. */
enum hca_zero_length { HCA_ZERO_REFUSED, HCA_ZERO_INSIDE_PAGE, HCA_ZERO_TAKEN };

#define HCA_VENDOR_MLX5 0x02c9 /* the OUI of Mellanox */

struct hca_personality {
	const char *name;
	/* values that ibv_query_device and ibv_query_port report; larger requests are refused */
	const char *firmware;
	uint32_t vendor_id, vendor_part_id;
	uint32_t max_qp, max_wr, max_sge, max_cq, max_cqe, max_inline, max_rd_atomic;
	uint32_t max_mr;
	uint32_t max_ah;
	uint32_t max_mcast_members, max_mcast_attach; /* per HCA; per group on an HCA */
	uint32_t max_message_bytes;
	enum ibv_mtu active_mtu;
	uint32_t gid_count, pkey_count;
	uint8_t link_layer; /* IBV_LINK_LAYER_ETHERNET: RoCE; IBV_LINK_LAYER_INFINIBAND */
	bool roce_v1;       /* each address is in the table as v1 and as v2; false: v2 only */
	/* behaviour that the specification forbids, leaves open, or that HCAs do not follow */
	bool post_early;       /* posts before RTR or RTS are accepted, and run in RTS */
	bool opcode_checked;   /* an opcode that the QP's type lacks is EINVAL; else a completion */
	bool reset_purges;     /* RESET and destruction remove completions that were not polled */
	bool retry_7_forever;  /* retry_cnt 7 means without end */
	bool dmabuf;           /* GPU memory can be registered by descriptor */
	bool relaxed_ordering; /* IBV_ACCESS_RELAXED_ORDERING has an effect; else it is ignored */
	bool timestamps;       /* completions carry the time */
	bool advice;           /* ibv_advise_mr exists */
	uint32_t ece_options;  /* options of enhanced connection establishment; 0: not supported */
	enum hca_zero_length zero_length_mr; /* a region of 0 bytes */
	/* a bind's R_Key must have the window's index; else only its tag counts */
	bool window_index_checked;
	/* ibv_bind_mw refuses a window of another domain than the queue pair's */
	bool window_pd_checked;
	/* more than 24 bits are refused; else the datagram is sent and lost */
	bool datagram_qpn_checked;
	bool ah_pd_enforced; /* address handles of another protection domain are refused */
	/* UD: a send longer than the MTU fails; else it is dropped and succeeds */
	bool datagram_too_long;
	/* UD: a receive too small for a datagram stays for the next one; else it fails */
	bool short_receive_waits;
	bool send_error_is_sqe;   /* UC, UD: a failed send does not affect the receive side */
	bool reports_connections; /* COMM_EST, QP_ACCESS_ERR and QP_REQ_ERR are posted */
	bool late_posts_flushed; /* a receive posted in ERR completes; else it stays in the queue */
	bool no_reads_fail;      /* a READ with max_rd_atomic 0 fails; else it waits without end */
	bool mcast_comes_back;   /* the sending HCA delivers to its own members */
	bool bad_key_malformed;  /* a bad key of a send or a write: LOC_QP_OP_ERR */
	bool bad_receive_malformed; /* any error of a receive, its length too: LOC_QP_OP_ERR */
	/* status of the receive for a WRITE with immediate whose R_Key is refused; IBV_WC_SUCCESS:
	 * no error completion, the receive is flushed */
	enum ibv_wc_status refused_imm_status;
	bool qkey_high_bit;   /* a Q_Key with this bit means the queue pair's own */
	bool header_checksum; /* the IPv4 header in front of a datagram has a checksum */
	/* silence is noticed between four quarters of the acknowledge timeout and this number */
	uint32_t ack_latest;
	bool sqd_resumes; /* requests posted in SQD start in RTS, without another post */
	/* ibv_modify_qp refuses values out of range, and a wrong current state */
	bool attributes_checked;
	bool overrun_kills;  /* queue pairs of an overrun completion queue go to ERR */
	bool zero_based;     /* regions may begin at 0 */
	bool query_complete; /* ibv_query_qp reports cur_qp_state, and the hop limit that was set */
	bool length_checked; /* a message longer than max_message_bytes fails */
	/* An atomic off a multiple of 8, or not of 8 bytes, is posted and fails. Else ibv_post_send
	 * refuses it off a multiple, or with a result of less than 8 bytes; a longer result
	 * receives 8 bytes. */
	bool atomics_checked;
	bool null_region_counts; /* ibv_dealloc_pd fails while the domain has a null region */
	/* a shared receive queue makes max_recv_wr and max_recv_sge ignored */
	bool srq_ignores_recv;
	/* a bad result buffer fails before an atomic is sent; else after it was executed */
	bool atomic_result_checked;
	/* IBV_SEND_INLINE is refused for requests that send no data; else ignored */
	bool inline_checked;
};

/* Lower bound of every personality's max_message_bytes. */
#define HCA_ANY_MESSAGE_BYTES (8u << 20)

/* Returns the personality of a port of the world. */
const struct hca_personality *hca_personality(uint32_t port);
/* Returns the personality for port `index` that `text` names. `text` is a name or a list of names.
 * NULL: a name is unknown. */
const struct hca_personality *hca_personality_find(const char *text, uint32_t index);
/* Returns the value for hca_port.personality. */
uint32_t hca_personality_index(const struct hca_personality *p);

#pragma GCC visibility pop

#endif
