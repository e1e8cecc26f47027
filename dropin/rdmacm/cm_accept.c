/* SPDX-License-Identifier: BSD-3-Clause */
/* The passive side of a connection: arrivals at a listener, requests, and rdma_accept and
 * rdma_reject. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dropin/rdmacm/cm.h"

static void cm_get_address(struct sockaddr_storage *out, uint32_t family, const uint8_t in[16],
			   uint16_t port)
{
	memset(out, 0, sizeof *out);
	out->ss_family = (sa_family_t)family;
	cm_set_port((struct sockaddr *)out, port);
	if (family == AF_INET)
		memcpy(&((struct sockaddr_in *)out)->sin_addr, in, 4);
	else
		memcpy(&((struct sockaddr_in6 *)out)->sin6_addr, in, 16);
}

void cm_on_arrival(struct cm_id *listener)
{
	for (;;) {
		int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0)
			return;
		struct cm_id *id = cm_id_make(listener->rdma.channel, listener->rdma.context,
					      listener->rdma.ps);

		if (!id) {
			close(fd);
			return;
		}
		id->fd = fd;
		id->state = CM_ARRIVING;
		id->listener = listener;
		if (cm_channel_watch(id))
			cm_id_drop(id);
	}
}

void cm_on_request(struct cm_id *id, const struct cm_message *m)
{
	struct rdma_addr *a = &id->rdma.route.addr;
	struct cm_place place;

	cm_get_address(&a->src_storage, m->family, m->destination, m->destination_port);
	cm_get_address(&a->dst_storage, m->family, m->source, m->source_port);
	bool here = id->listener->has_place ? (place = id->listener->place, true)
					    : cm_place_of(&a->src_addr, &place) == 0;
	struct cm_event *e =
		here ? cm_event_add(id->listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0) : NULL;

	if (!e) {
		cm_refuse(id, CM_REJECT_NO_LISTENER, NULL, 0);
		cm_id_drop(id);
		return;
	}
	cm_id_place(id, &place);
	a->addr.ibaddr.dgid = m->gid;
	id->peer = *m;
	id->remote_ece = (struct ibv_ece){.vendor_id = m->ece_vendor, .options = m->ece_options};
	id->state = CM_REQUESTED;
	e->event.listen_id = &id->listener->rdma;
	e->event.id = &id->rdma;
	if (m->kind == CM_LOOKUP)
		cm_event_private(e, m->private_data, m->private_bytes, CM_LOOKUP_PRIVATE);
	else
		cm_event_conn(e, m, CM_REQUEST_PRIVATE);
}

static int cm_accept_datagram(struct cm_id *id, const struct rdma_conn_param *asked)
{
	if (!id->rdma.qp && !asked)
		return EINVAL;
	id->param = asked ? *asked : (struct rdma_conn_param){.qp_num = 0};
	struct cm_message m = cm_message_of(id, CM_ANSWER);
	int rc = asked ? cm_message_private(&m, asked->private_data, asked->private_data_len,
					    CM_ANSWER_PRIVATE)
		       : 0;

	if (!rc)
		rc = cm_send(id->fd, &m);
	if (rc)
		return rc;
	cm_id_hang_up(id);
	id->state = CM_CONNECTED;
	return 0;
}

static int cm_accept_connection(struct cm_id *id, const struct rdma_conn_param *asked)
{
	cm_param_settle(id, asked, id->peer.initiator_depth, id->peer.responder_resources);
	id->param.retry_count = id->peer.retry_count;
	int rc = 0;

	if (id->rdma.qp) {
		rc = cm_qp_ready_to_receive(id, id->param.responder_resources);
		if (!rc)
			rc = cm_qp_ready_to_send(id, id->param.initiator_depth);
	}
	struct cm_message m = cm_message_of(id, CM_REPLY);

	if (!rc && asked)
		rc = cm_message_private(&m, asked->private_data, asked->private_data_len,
					CM_REPLY_PRIVATE);
	if (rc)
		return rc;
	rc = cm_send(id->fd, &m);
	if (!rc)
		id->state = CM_ACCEPTED;
	else
		(void)cm_qp_error(id); /* the peer is gone */
	return rc == EPIPE || rc == ECONNRESET ? ENOTCONN : rc;
}

int rdma_accept(struct rdma_cm_id *rdma, struct rdma_conn_param *param)
{
	struct cm_id *id = cm_id_of(rdma);
	int rc;

	if (!rdma)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm.lock);
	if (id->state != CM_REQUESTED)
		rc = EINVAL;
	else if (cm_is_datagram(id))
		rc = cm_accept_datagram(id, param);
	else
		rc = cm_accept_connection(id, param);
	pthread_mutex_unlock(&cm.lock);
	if (rc || cm_is_datagram(id))
		return cm_result(rc);
	return cm_result(cm_wait_done(id));
}

static int cm_reject(struct rdma_cm_id *rdma, uint32_t reason, const void *data, uint8_t bytes)
{
	struct cm_id *id = cm_id_of(rdma);
	int rc = 0;

	if (!rdma || (bytes && !data) || bytes > CM_REJECT_PRIVATE)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm.lock);
	if (id->state == CM_REQUESTED || id->state == CM_REPLIED)
		cm_refuse(id, reason, data, bytes);
	else
		rc = EINVAL;
	pthread_mutex_unlock(&cm.lock);
	return cm_result(rc);
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return cm_reject(id, CM_REJECT_CONSUMER, private_data, private_data_len);
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return cm_reject(id, CM_REJECT_ECE, private_data, private_data_len);
}
