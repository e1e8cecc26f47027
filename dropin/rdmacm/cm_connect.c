/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: the calls of the active side and of both sides, and the handling of the peer's
 * messages in each state. The passive side is in cm_accept.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "dropin/rdmacm/cm.h"

#define CM_LISTENER_NAPS   60
#define CM_LISTENER_NAP_NS 5000000

bool cm_is_datagram(const struct cm_id *id)
{
	return id->rdma.ps == RDMA_PS_UDP || id->rdma.ps == RDMA_PS_IPOIB;
}

/* ---- making messages ------------------------------------------------------------------------ */

static void cm_put_address(uint8_t out[16], uint16_t *port, const struct sockaddr *a)
{
	*port = cm_port(a);
	if (a->sa_family == AF_INET)
		memcpy(out, &((const struct sockaddr_in *)a)->sin_addr, 4);
	else
		memcpy(out, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
}

struct cm_message cm_message_of(const struct cm_id *id, enum cm_kind kind)
{
	const struct rdma_conn_param *p = &id->param;
	struct cm_message m = {.magic = CM_MAGIC,
			       .version = CM_VERSION,
			       .kind = (uint32_t)kind,
			       .qpn = (id->rdma.qp ? id->rdma.qp->qp_num : p->qp_num) & 0xffffff,
			       .psn = id->psn,
			       .qkey = RDMA_UDP_QKEY,
			       .mtu = id->has_place ? (uint32_t)id->place.mtu : IBV_MTU_1024,
			       .responder_resources = p->responder_resources,
			       .initiator_depth = p->initiator_depth,
			       .retry_count = p->retry_count & 7,
			       .rnr_retry_count = p->rnr_retry_count & 7,
			       .flow_control = p->flow_control,
			       .has_srq = id->rdma.qp ? id->rdma.qp->srq != NULL : p->srq,
			       .ece_vendor = id->local_ece.vendor_id,
			       .ece_options = id->local_ece.options,
			       .family = id->rdma.route.addr.src_addr.sa_family,
			       .gid = id->place.gid};

	if (m.family != AF_INET6)
		m.family = AF_INET;
	cm_put_address(m.source, &m.source_port, &id->rdma.route.addr.src_addr);
	cm_put_address(m.destination, &m.destination_port, &id->rdma.route.addr.dst_addr);
	return m;
}

int cm_message_private(struct cm_message *m, const void *data, size_t bytes, size_t room)
{
	if (bytes > room || (bytes && !data))
		return EINVAL;
	if (bytes)
		memcpy(m->private_data, data, bytes);
	m->private_bytes = (uint8_t)bytes;
	return 0;
}

/* Ends the connection on this side: reads no more messages. */
void cm_id_hang_up(struct cm_id *id)
{
	cm_channel_unwatch(id);
	if (id->fd >= 0)
		close(id->fd);
	id->fd = -1;
	id->state = CM_ENDED;
}

void cm_refuse(struct cm_id *id, uint32_t reason, const void *data, size_t bytes)
{
	struct cm_message m = cm_message_of(id, CM_REJECT);

	m.reason = reason;
	if (cm_message_private(&m, data, bytes, CM_REJECT_PRIVATE) == 0)
		(void)cm_send(id->fd, &m); /* a peer that is gone needs no rejection */
	cm_id_hang_up(id);
}

/* ---- active side ---------------------------------------------------------------------------- */

static uint8_t cm_least(uint8_t asked, int a, int b)
{
	int least = a < b ? a : b;

	return (uint8_t)(asked < least ? asked : least);
}

void cm_param_settle(struct cm_id *id, const struct rdma_conn_param *asked, uint8_t most_responder,
		     uint8_t most_initiator)
{
	static const struct rdma_conn_param most = {.responder_resources = RDMA_MAX_RESP_RES,
						    .initiator_depth = RDMA_MAX_INIT_DEPTH,
						    .retry_count = 7,
						    .rnr_retry_count = 7};
	const struct ibv_device_attr *d = &id->place.device->attr;

	id->param = asked ? *asked : most;
	id->param.private_data = NULL;
	id->param.responder_resources =
		cm_least(id->param.responder_resources, d->max_qp_rd_atom, most_responder);
	id->param.initiator_depth =
		cm_least(id->param.initiator_depth, d->max_qp_init_rd_atom, most_initiator);
}

/* Connects the identifier's own socket, which holds its port. ECONNREFUSED: no identifier listens
 * at the destination. */
static int cm_connect_once(struct cm_id *id)
{
	const struct sockaddr *to = &id->rdma.route.addr.dst_addr;
	struct sockaddr_un name;
	int rc = ECONNREFUSED;

	for (int any = 0; any < 2 && rc == ECONNREFUSED; any++) {
		socklen_t bytes = cm_name(&name, id->rdma.ps, to, any, id->to_host);

		rc = connect(id->fd, (struct sockaddr *)&name, bytes) ? errno : 0;
	}
	return rc;
}

/* Connects, and retries for a while if it finds no listener. A request over a network is slower,
 * and programs rely on that. For example, perftest's client connects again before its server
 * listens again. */
static int cm_connect_socket(struct cm_id *id)
{
	static const struct timespec nap = {.tv_nsec = CM_LISTENER_NAP_NS};
	int rc = cm_connect_once(id);

	id->state = CM_CONNECTING;
	for (int i = 0; rc == ECONNREFUSED && i < CM_LISTENER_NAPS; i++) {
		pthread_mutex_unlock(&cm.lock);
		nanosleep(&nap, NULL);
		pthread_mutex_lock(&cm.lock);
		rc = cm_connect_once(id);
	}
	return rc;
}

static int cm_id_connect(struct cm_id *id, const struct rdma_conn_param *asked)
{
	bool datagram = cm_is_datagram(id);

	if (id->state != CM_ROUTED)
		return EINVAL;
	cm_param_settle(id, asked, RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH);
	struct cm_message m = cm_message_of(id, datagram ? CM_LOOKUP : CM_REQUEST);
	const void *data =
		asked && asked->private_data_len ? asked->private_data : id->connect_data;
	size_t bytes =
		asked && asked->private_data_len ? asked->private_data_len : id->connect_bytes;
	int rc = cm_message_private(&m, data, bytes,
				    datagram ? CM_LOOKUP_PRIVATE : CM_REQUEST_PRIVATE);

	if (rc)
		return rc;
	int refused = cm_connect_socket(id);

	if (!refused)
		refused = cm_send(id->fd, &m);
	if (!refused)
		return cm_channel_watch(id);
	id->state = CM_ENDED;
	bool no_listener = refused == ECONNREFUSED && !datagram;

	if (no_listener)
		(void)cm_qp_error(id);
	struct cm_event *e =
		cm_event_add(id, no_listener ? RDMA_CM_EVENT_REJECTED : RDMA_CM_EVENT_UNREACHABLE,
			     no_listener ? CM_REJECT_NO_LISTENER : -ETIMEDOUT);

	return e ? 0 : ENOMEM;
}

int rdma_connect(struct rdma_cm_id *rdma, struct rdma_conn_param *param)
{
	if (!rdma)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm.lock);
	int rc = cm_id_connect(cm_id_of(rdma), param);

	pthread_mutex_unlock(&cm.lock);
	return cm_result(rc ? rc : cm_wait_done(cm_id_of(rdma)));
}

static int cm_send_ready(struct cm_id *id)
{
	struct cm_message m = cm_message_of(id, CM_READY);
	int rc = cm_send(id->fd, &m);

	if (!rc)
		id->state = CM_CONNECTED;
	return rc;
}

int rdma_establish(struct rdma_cm_id *rdma)
{
	struct cm_id *id = cm_id_of(rdma);

	if (!rdma)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm.lock);
	int rc = id->state == CM_REPLIED ? cm_send_ready(id) : EINVAL;

	pthread_mutex_unlock(&cm.lock);
	return cm_result(rc);
}

static void cm_on_reply(struct cm_id *id, const struct cm_message *m)
{
	enum rdma_cm_event_type type = RDMA_CM_EVENT_ESTABLISHED;
	int rc = 0;

	id->peer = *m;
	id->remote_ece = (struct ibv_ece){.vendor_id = m->ece_vendor, .options = m->ece_options};
	id->rdma.route.addr.addr.ibaddr.dgid = m->gid;
	if (!id->rdma.qp) {
		id->state = CM_REPLIED;
		type = RDMA_CM_EVENT_CONNECT_RESPONSE;
	} else {
		uint8_t responder = id->param.responder_resources, initiator;

		if (responder > m->initiator_depth)
			responder = m->initiator_depth;
		initiator = id->param.initiator_depth;
		if (initiator > m->responder_resources)
			initiator = m->responder_resources;
		rc = cm_qp_ready_to_receive(id, responder);
		if (!rc)
			rc = cm_qp_ready_to_send(id, initiator);
		if (!rc)
			rc = cm_send_ready(id);
		if (rc) {
			(void)cm_qp_error(id);
			cm_refuse(id, CM_REJECT_CONSUMER, NULL, 0);
			type = RDMA_CM_EVENT_CONNECT_ERROR;
		}
	}
	struct cm_event *e = cm_event_add(id, type, -rc);

	if (e)
		cm_event_conn(e, m, CM_REPLY_PRIVATE);
}

/* Handles the answer of the datagram service: the destination's address. The socket is no longer
 * needed. */
static void cm_on_answer(struct cm_id *id, const struct cm_message *m)
{
	struct cm_event *e = cm_event_add(id, RDMA_CM_EVENT_ESTABLISHED, 0);

	id->peer = *m;
	id->rdma.route.addr.addr.ibaddr.dgid = m->gid;
	cm_id_hang_up(id);
	id->state = CM_CONNECTED;
	if (!e)
		return;
	cm_event_private(e, m->private_data, m->private_bytes, CM_ANSWER_PRIVATE);
	cm_address_attr(id, &m->gid, &e->event.param.ud.ah_attr);
	e->event.param.ud.qp_num = m->qpn;
	e->event.param.ud.qkey = m->qkey;
}

static void cm_on_reject(struct cm_id *id, const struct cm_message *m)
{
	bool datagram = cm_is_datagram(id);
	struct cm_event *e =
		cm_event_add(id, datagram ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED,
			     m ? (int)m->reason : CM_REJECT_CONSUMER);

	if (!datagram)
		(void)cm_qp_error(id); /* flushes the posted work requests */
	cm_id_hang_up(id);
	if (e && m)
		cm_event_private(e, m->private_data, m->private_bytes, CM_REJECT_PRIVATE);
}

/* ---- both sides ----------------------------------------------------------------------------- */

static int cm_id_disconnect(struct cm_id *id)
{
	bool was = id->state == CM_CONNECTED || id->state == CM_ACCEPTED;
	int rc = cm_qp_error(id);

	if (was && !cm_is_datagram(id)) {
		struct cm_message m = cm_message_of(id, CM_BYE);

		(void)cm_send(id->fd, &m); /* a failure is harmless: the peer detects the hang-up */
		cm_id_hang_up(id);
		if (!cm_event_add(id, RDMA_CM_EVENT_DISCONNECTED, 0))
			rc = ENOMEM;
		cm_timewait_begin(id);
	} else if (id->peer_left) { /* this answers the peer's disconnect */
		id->peer_left = false;
		cm_timewait_begin(id);
	} else if (id->state != CM_ENDED) {
		rc = rc ? rc : EINVAL;
	}
	return rc;
}

int rdma_disconnect(struct rdma_cm_id *rdma)
{
	struct cm_id *id = cm_id_of(rdma);

	if (!rdma)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm.lock);
	bool waits = id->state == CM_CONNECTED || id->state == CM_ACCEPTED;
	int rc = cm_id_disconnect(id);

	pthread_mutex_unlock(&cm.lock);
	return cm_result(rc || !waits ? rc : cm_wait_done(id));
}

int rdma_notify(struct rdma_cm_id *rdma, enum ibv_event_type event)
{
	struct cm_id *id = cm_id_of(rdma);

	if (!rdma || event != IBV_EVENT_COMM_EST)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm.lock);
	/* Data arrived before the READY, which is in flight or was lost with its sender. */
	if (id->state == CM_ACCEPTED) {
		id->state = CM_CONNECTED;
		cm_event_add(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	}
	pthread_mutex_unlock(&cm.lock);
	return 0;
}

static void cm_on_ready(struct cm_id *id)
{
	id->state = CM_CONNECTED;
	cm_event_add(id, RDMA_CM_EVENT_ESTABLISHED, 0);
}

/* Handles the peer's end, orderly or not. */
static void cm_on_gone(struct cm_id *id)
{
	enum cm_state was = id->state;

	switch (was) {
	case CM_CONNECTING:
	case CM_REPLIED:
		cm_on_reject(id, NULL);
		break;
	case CM_ACCEPTED:
		cm_id_hang_up(id);
		cm_event_add(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
		break;
	case CM_CONNECTED:
		cm_id_hang_up(id);
		id->peer_left = true;
		cm_event_add(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		break;
	default:
		cm_id_hang_up(id);
		break;
	}
}

/* True if the identifier's state expects this message. */
static bool cm_expects(const struct cm_id *id, uint32_t kind)
{
	bool datagram = cm_is_datagram(id);

	switch (id->state) {
	case CM_ARRIVING:
		return kind == (uint32_t)(datagram ? CM_LOOKUP : CM_REQUEST);
	case CM_CONNECTING:
		return kind == (uint32_t)(datagram ? CM_ANSWER : CM_REPLY) || kind == CM_REJECT;
	case CM_ACCEPTED:
		return kind == CM_READY || kind == CM_REJECT;
	default:
		return false;
	}
}

static void cm_on_message(struct cm_id *id, const struct cm_message *m)
{
	switch ((enum cm_kind)m->kind) {
	case CM_REQUEST:
	case CM_LOOKUP:
		cm_on_request(id, m);
		break;
	case CM_REPLY:
		cm_on_reply(id, m);
		break;
	case CM_ANSWER:
		cm_on_answer(id, m);
		break;
	case CM_READY:
		cm_on_ready(id);
		break;
	case CM_REJECT:
		cm_on_reject(id, m);
		break;
	case CM_BYE:
		break;
	}
}

void cm_id_progress(struct cm_id *id)
{
	struct cm_message m;

	if (id->state == CM_LISTENING) {
		cm_on_arrival(id);
		return;
	}
	int got = cm_receive(id->fd, &m);

	if (got == 0)
		return;
	if (got > 0 && cm_expects(id, m.kind)) {
		cm_on_message(id, &m);
		return;
	}
	if (id->state == CM_ARRIVING)
		cm_id_drop(id);
	else
		cm_on_gone(id);
}
