/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Personalities: where real HCAs differ from each other, or from the specification, and a program
 * can notice it. One row of this struct is one difference; personality.c gives each its value for
 * every personality, with the reason. The data path reads the row, never a name.
 *
 * Each port of the world has one, chosen when the world's HCAs are made: the attribute
 * `personality` of <net> in the machine file, else entry (port modulo entries) of the list in
 * DOPPEL_HCA_PERSONALITY, else "spec". This table is constant; sizes in bytes.
 */
#ifndef BACKENDS_FAKEVERBS_PERSONALITY_H
#define BACKENDS_FAKEVERBS_PERSONALITY_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Can a region of no bytes be registered? INSIDE_PAGE: unless it begins with a page. */
enum hca_zero_length { HCA_ZERO_REFUSED, HCA_ZERO_INSIDE_PAGE, HCA_ZERO_TAKEN };

#define HCA_VENDOR_MLX5 0x02c9 /* the OUI of Mellanox */

struct hca_personality {
	const char *name;
	/* what ibv_query_device and ibv_query_port report, and what is refused beyond it */
	const char *firmware;
	uint32_t vendor_id, vendor_part_id;
	uint32_t max_qp, max_wr, max_sge, max_cq, max_cqe, max_inline, max_rd_atomic;
	uint32_t max_mr;
	uint32_t max_ah;
	uint32_t max_mcast_members, max_mcast_attach; /* of an HCA, of a group on an HCA */
	uint32_t max_message_bytes;
	enum ibv_mtu active_mtu;
	uint32_t gid_count, pkey_count;
	uint8_t link_layer; /* IBV_LINK_LAYER_ETHERNET: RoCE; IBV_LINK_LAYER_INFINIBAND */
	bool roce_v1;       /* each address is in the table as v1 and as v2; false: v2 alone */
	/* what the specification forbids, leaves open, or is not kept */
	bool post_early;       /* requests before their state are taken, and run in RTS */
	bool opcode_checked;   /* an opcode that the QP's type lacks is EINVAL; else a completion */
	bool reset_purges;     /* RESET, and the end, take completions that were not polled */
	bool retry_7_forever;  /* retry_cnt 7 means without end */
	bool dmabuf;           /* GPU memory by descriptor */
	bool relaxed_ordering; /* IBV_ACCESS_RELAXED_ORDERING has an effect; else it is ignored */
	bool timestamps;       /* completions carry the time */
	bool advice;           /* there is ibv_advise_mr */
	uint32_t ece_options;  /* options of enhanced connection establishment; 0: none of it */
	enum hca_zero_length zero_length_mr; /* a region of no bytes */
	bool window_index_checked; /* a bind's R_Key has the window's index; else only its tag counts */
	bool window_pd_checked; /* ibv_bind_mw refuses a window of another domain than the queue pair's */
	bool datagram_qpn_checked; /* more than 24 bits are refused; else sent, and lost */
	bool ah_pd_enforced;       /* address handles of another protection domain are refused */
	bool datagram_too_long; /* UD: longer than the MTU fails; else it is dropped, as a success */
	bool short_receive_waits; /* UD: a receive too small for a datagram is the next one's; else it
				       fails */
	bool send_error_is_sqe;   /* UC, UD: a send that fails leaves the receive side alone */
	bool reports_connections; /* COMM_EST, QP_ACCESS_ERR and QP_REQ_ERR come */
	bool late_posts_flushed; /* a receive that is posted in ERR completes; else it stays there */
	bool no_reads_fail;      /* a READ with max_rd_atomic 0 fails; else it waits for ever */
	bool mcast_comes_back;   /* to members on the HCA that sends */
	bool bad_key_malformed;  /* a bad key of a send or a write: LOC_QP_OP_ERR */
	bool bad_receive_malformed; /* whatever is wrong with a receive, its length too: LOC_QP_OP_ERR */
	/* of the receive that the last packet of a WRITE with immediate would take, where its R_Key
	 * is refused; IBV_WC_SUCCESS: none, it is flushed */
	enum ibv_wc_status refused_imm_status;
	bool qkey_high_bit;   /* a Q_Key with it means the queue pair's own */
	bool header_checksum; /* the IPv4 header in front of a datagram has one */
	uint32_t ack_latest;  /* quarters of the acknowledge timeout: silence is noticed between
				       four of them and that many */
	bool sqd_resumes;     /* what was posted in SQD starts in RTS, without another post */
	bool attributes_checked; /* ibv_modify_qp refuses values out of range, and a wrong current state */
	bool overrun_kills;  /* queue pairs of a completion queue that ran over go to ERR */
	bool zero_based;     /* regions may begin at 0 */
	bool query_complete; /* ibv_query_qp reports cur_qp_state, and the hop limit that was set */
	bool length_checked; /* a message longer than max_message_bytes fails */
	bool atomics_checked; /* an atomic off a multiple of 8, or not of 8 bytes, is posted and fails;
				    else ibv_post_send refuses it off a multiple or with a result of
				    less than 8 bytes, and the first 8 of more are written */
	bool null_region_counts; /* ibv_dealloc_pd beside a null region is refused */
	bool srq_ignores_recv; /* with a shared receive queue max_recv_wr and max_recv_sge mean nothing */
	bool atomic_result_checked; /* before an atomic leaves; else it is executed, and then fails */
	bool inline_checked; /* IBV_SEND_INLINE is refused where nothing is sent; else left out */
};

/* No personality's max_message_bytes is less. */
#define HCA_ANY_MESSAGE_BYTES (8u << 20)

/* Of a port of the world. */
const struct hca_personality *hca_personality(uint32_t port);
/* The one that this text names, for port `index`: a name, or a list of names. NULL: not one. */
const struct hca_personality *hca_personality_find(const char *text, uint32_t index);
/* For hca_port.personality. */
uint32_t hca_personality_index(const struct hca_personality *p);

#pragma GCC visibility pop

#endif
