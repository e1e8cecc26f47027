/* SPDX-License-Identifier: BSD-3-Clause */
/* The short interface: rdma_getaddrinfo, and endpoints, which are identifiers with all their
 * resources. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "dropin/rdmacm/cm.h"

/* ---- names ---------------------------------------------------------------------------------- */

static const struct {
	enum rdma_port_space ps;
	int qp_type, socktype;
} cm_spaces[] = {
	{RDMA_PS_TCP, IBV_QPT_RC, SOCK_STREAM},
	{RDMA_PS_UDP, IBV_QPT_UD, SOCK_DGRAM},
	{RDMA_PS_IPOIB, IBV_QPT_UD, SOCK_DGRAM},
};

/* Derives the port space, queue pair type and socket type that the hints leave open. Returns an
 * EAI_ code. */
static int cm_info_kind(const struct rdma_addrinfo *hints, struct rdma_addrinfo *out, int *socktype)
{
	int ps = hints ? hints->ai_port_space : 0, type = hints ? hints->ai_qp_type : 0;

	if (ps == RDMA_PS_IB) {
		out->ai_port_space = ps;
		out->ai_qp_type = type ? type : IBV_QPT_RC;
		*socktype = out->ai_qp_type == IBV_QPT_UD ? SOCK_DGRAM : SOCK_STREAM;
		return 0;
	}
	for (size_t i = 0; i < sizeof cm_spaces / sizeof cm_spaces[0]; i++) {
		if (ps && ps != (int)cm_spaces[i].ps)
			continue;
		if (!ps && type && (type == IBV_QPT_UD) != (cm_spaces[i].qp_type == IBV_QPT_UD))
			continue;
		out->ai_port_space = (int)cm_spaces[i].ps;
		out->ai_qp_type = type ? type : cm_spaces[i].qp_type;
		*socktype = cm_spaces[i].socktype;
		return 0;
	}
	return EAI_SERVICE;
}

static int cm_info_copy(struct sockaddr **to, socklen_t *bytes, const struct sockaddr *from,
			socklen_t n)
{
	*to = calloc(1, sizeof(struct sockaddr_storage));
	if (!*to)
		return EAI_MEMORY;
	memcpy(*to, from, n);
	*bytes = n;
	return 0;
}

static int cm_info_fill(const char *node, const char *service, const struct rdma_addrinfo *hints,
			struct rdma_addrinfo *r)
{
	struct addrinfo ask = {.ai_family = AF_UNSPEC}, *found = NULL;
	int rc = cm_info_kind(hints, r, &ask.ai_socktype);

	if (rc)
		return rc;
	r->ai_flags = hints ? hints->ai_flags : 0;
	if (r->ai_flags & RAI_PASSIVE)
		ask.ai_flags |= AI_PASSIVE;
	if (r->ai_flags & RAI_NUMERICHOST)
		ask.ai_flags |= AI_NUMERICHOST;
	if (r->ai_flags & RAI_FAMILY)
		ask.ai_family = hints->ai_family;
	if (!node && !service) { /* the hints contain the destination, the source, or both */
		if (!hints || (!hints->ai_dst_addr && !hints->ai_src_addr))
			return EAI_NONAME;
		r->ai_family = hints->ai_dst_addr ? hints->ai_dst_addr->sa_family
						  : hints->ai_src_addr->sa_family;
		if (hints->ai_dst_addr)
			rc = cm_info_copy(&r->ai_dst_addr, &r->ai_dst_len, hints->ai_dst_addr,
					  hints->ai_dst_len);
	} else {
		rc = getaddrinfo(node, service, &ask, &found);
		if (rc)
			return rc;
		r->ai_family = found->ai_family;
		if (r->ai_flags & RAI_PASSIVE)
			rc = cm_info_copy(&r->ai_src_addr, &r->ai_src_len, found->ai_addr,
					  found->ai_addrlen);
		else
			rc = cm_info_copy(&r->ai_dst_addr, &r->ai_dst_len, found->ai_addr,
					  found->ai_addrlen);
		freeaddrinfo(found);
	}
	if (!rc && !r->ai_src_addr && hints && hints->ai_src_addr)
		rc = cm_info_copy(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr,
				  hints->ai_src_len);
	return rc;
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	if (!res)
		return cm_result(EINVAL);
	*res = NULL;
	struct rdma_addrinfo *r = calloc(1, sizeof *r);

	if (!r)
		return EAI_MEMORY;
	int rc = cm_info_fill(node, service, hints, r);

	if (rc) {
		rdma_freeaddrinfo(r);
		return rc;
	}
	*res = r;
	return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_route);
		free(res->ai_connect);
		free(res);
		res = next;
	}
}

/* ---- endpoints ------------------------------------------------------------------------------ */

static int cm_listener_keep(struct cm_id *id, struct ibv_pd *pd,
			    const struct ibv_qp_init_attr *attr, enum ibv_qp_type type)
{
	if (!attr)
		return 0;
	id->listen_attr = malloc(sizeof *attr);
	if (!id->listen_attr)
		return cm_result(ENOMEM);
	*id->listen_attr = *attr;
	id->listen_attr->qp_type = type;
	id->listen_pd = pd;
	return 0;
}

int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *id = NULL;
	int rc;

	if (!out || !res)
		return cm_result(EINVAL);
	*out = NULL;
	rc = rdma_create_id(NULL, &id, NULL, (enum rdma_port_space)res->ai_port_space);
	if (rc)
		return rc;
	if (res->ai_flags & RAI_PASSIVE) {
		rc = rdma_bind_addr(id, res->ai_src_addr);
		if (!rc)
			rc = cm_listener_keep(cm_id_of(id), pd, attr,
					      (enum ibv_qp_type)res->ai_qp_type);
	} else {
		rc = rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, 2000);
		if (!rc)
			rc = rdma_resolve_route(id, 2000);
		if (!rc && attr) {
			attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
			rc = rdma_create_qp(id, pd, attr);
		}
		if (!rc && res->ai_connect_len && res->ai_connect_len <= CM_PRIVATE_BYTES) {
			cm_id_of(id)->connect_bytes = (uint8_t)res->ai_connect_len;
			memcpy(cm_id_of(id)->connect_data, res->ai_connect, res->ai_connect_len);
		}
	}
	if (rc) {
		int e = errno;

		rdma_destroy_ep(id);
		return cm_result(e);
	}
	id->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	*out = id;
	return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (!id)
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
	struct cm_id *l = cm_id_of(listen);

	if (!listen || !out)
		return cm_result(EINVAL);
	*out = NULL;
	if (!l->synchronous || l->state != CM_LISTENING)
		return cm_result(EINVAL);
	int rc = cm_wait_done(l);

	if (rc)
		return cm_result(rc);
	struct rdma_cm_event *e = listen->event;

	if (e->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return cm_result(EINVAL);
	struct rdma_cm_id *id = e->id;

	if (l->listen_attr) {
		struct ibv_qp_init_attr attr = *l->listen_attr;

		rc = rdma_create_qp(id, l->listen_pd, &attr);
	}
	if (!rc)
		rc = rdma_migrate_id(id, NULL);
	if (rc) {
		int err = errno;

		rdma_reject(id, NULL, 0);
		rdma_destroy_ep(id);
		return cm_result(err);
	}
	id->event = NULL;
	*out = id;
	return 0;
}
