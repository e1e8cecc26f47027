/* SPDX-License-Identifier: BSD-3-Clause */
/* The load of the queue pairs of a sending end, for net_verbs_test.c. */
#ifndef TESTS_INTERNAL_NET_NET_VERBS_SHARES_H
#define TESTS_INTERNAL_NET_NET_VERBS_SHARES_H

#include "tests/internal/net/net_verbs_sides.h"

/* The load of a queue pair of the sending end: requests, and packets of data. */
struct share {
	uint64_t requests, packets;
};

/* The writes of data, and one by itself: an empty message, or the immediate of long data. */
static inline void share_add(struct share *s, const struct net_verbs_conn *c, size_t bytes)
{
	const struct net_verbs_dev *d = c->leg[0].dev;
	const size_t mtu = 128u << d->attr.active_mtu, most = net_verbs_message_max(d);
	const bool together = pair.together > 1;
	const bool apart = c->adaptive && bytes > (size_t)param_i64(PARAM_IB_AR_THRESHOLD);
	const uint32_t alone = !together && (apart || !bytes);

	s->requests += (uint32_t)DIV_UP(bytes, most) + alone;
	for (size_t left = bytes; left; left -= MIN_OF(left, most))
		s->packets += DIV_UP(MIN_OF(left, most), mtu);
	s->packets += alone;
}

/* After the messages of a receive, its queue pair carries their sizes and the immediate. */
static inline void share_add_sizes(struct share *s)
{
	s->requests++;
	s->packets++;
}

static inline void shares_want(const struct net_verbs_conn *c, uint32_t m, struct share *want)
{
	const uint32_t of = messages_of_receive(), n = c->split ? c->nqps : c->width;
	const size_t bytes = size_of(m);
	const size_t each = n > 1 ? DIV_UP(DIV_UP(bytes, n), 128u) * 128u : bytes;
	const uint32_t first = c->split ? 0 : m / of % (c->nqps / c->width) * c->width;

	for (uint32_t i = 0; i < n; i++) {
		const size_t part = i * each < bytes ? MIN_OF(each, bytes - i * each) : 0;

		share_add(&want[first + i], c, part);
		if (of > 1 && m % of == 0)
			share_add_sizes(&want[first + i]);
	}
}

/* Every queue pair has carried its part of each message, or whole receives in rotation, and nothing
 * else. */
static inline void expect_shares(const struct net_verbs_conn *c)
{
	struct share want[NET_VERBS_MAX_QPS] = {{0, 0}};

	for (uint32_t m = 0; m < pair.messages; m++)
		shares_want(c, m, want);
	for (uint32_t i = 0; i < c->nqps; i++) {
		const struct hca_qp *qp = CONTAINER_OF(c->qp[i], struct hca_qp_handle, ibv)->hca;

		ck_assert_uint_eq(qp->sq.posted, want[i].requests);
		ck_assert_uint_eq(qp->req.psn_max, want[i].packets);
	}
}

#endif
