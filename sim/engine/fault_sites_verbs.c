/* SPDX-License-Identifier: BSD-3-Clause */
/* What can go wrong in an HCA and its library. Visited by backends/fakeverbs. */
#include <errno.h>

#include "sim/engine/fault.h"

#define FAULT_CALL(call, text, error)                                                              \
	{                                                                                          \
		.name = "verbs." call, .what = text, .action = { FAULT_ACTION_FAIL(error) }        \
	}
#define FAULT_STATUS_OR_LATE(text)                                                                 \
	{                                                                                          \
		{.name = "error",                                                                  \
		 .kind = OS_FAULT_ERROR,                                                           \
		 .what = text,                                                                     \
		 .param = {{"status", FAULT_STATUS, 21}}},                                         \
			{.name = "late",                                                           \
			 .kind = OS_FAULT_LATE,                                                    \
			 .what = "it, and all behind it in its queue, is seen that much later",    \
			 .param = {{"by", FAULT_TIME, 10000}}},                                    \
	}

const struct fault_site fault_sites_verbs[] = {
	FAULT_CALL("get_device_list", "ibv_get_device_list", ENOMEM),
	FAULT_CALL("open_device", "ibv_open_device", ENOMEM),
	FAULT_CALL("close_device", "ibv_close_device; the context is gone all the same", EIO),
	FAULT_CALL("query_device", "ibv_query_device", EIO),
	FAULT_CALL("query_port", "ibv_query_port", EIO),
	FAULT_CALL("query_gid", "ibv_query_gid", EIO),
	FAULT_CALL("query_gid_ex", "ibv_query_gid_ex", EIO),
	FAULT_CALL("query_pkey", "ibv_query_pkey", EIO),
	FAULT_CALL("alloc_pd", "ibv_alloc_pd", ENOMEM),
	FAULT_CALL("dealloc_pd", "ibv_dealloc_pd; the domain is gone all the same", EIO),
	FAULT_CALL("reg_mr", "ibv_reg_mr, ibv_reg_mr_iova, ibv_reg_mr_iova2", ENOMEM),
	FAULT_CALL("dereg_mr", "ibv_dereg_mr; the region is gone all the same", EIO),
	FAULT_CALL("create_cq", "ibv_create_cq", ENOMEM),
	FAULT_CALL("destroy_cq", "ibv_destroy_cq; the queue is gone all the same", EIO),
	FAULT_CALL("req_notify_cq", "ibv_req_notify_cq", EIO),
	FAULT_CALL("create_comp_channel", "ibv_create_comp_channel", EMFILE),
	FAULT_CALL("destroy_comp_channel", "ibv_destroy_comp_channel; it is gone all the same",
		   EIO),
	FAULT_CALL("get_cq_event", "ibv_get_cq_event", EIO),
	FAULT_CALL("get_async_event", "ibv_get_async_event", EIO),
	FAULT_CALL("create_qp", "ibv_create_qp", ENOMEM),
	FAULT_CALL("destroy_qp", "ibv_destroy_qp; the queue pair is gone all the same", EIO),
	FAULT_CALL("query_qp", "ibv_query_qp", EIO),
	FAULT_CALL("post_send", "ibv_post_send: the whole chain is refused", ENOMEM),
	FAULT_CALL("post_recv", "ibv_post_recv: the whole chain is refused", ENOMEM),
	{.name = "verbs.modify_qp",
	 .what = "ibv_modify_qp; state= is where it leads",
	 .action = {FAULT_ACTION_FAIL(ETIMEDOUT)},
	 .has_state = true},
	{.name = "verbs.poll_cq",
	 .what = "ibv_poll_cq",
	 .action = {{.name = "fail", .kind = OS_FAULT_FAIL, .what = "returns -1"},
		    {.name = "short",
		     .kind = OS_FAULT_PARTIAL,
		     .what = "sees n completions at most; the rest shows later",
		     .param = {{"n", FAULT_NUMBER, 1}, {"by", FAULT_TIME, 1000}}},
		    {.name = "empty",
		     .kind = OS_FAULT_LATE,
		     .what = "sees none; they show later",
		     .param = {{"by", FAULT_TIME, 1000}}}}},
	{.name = "verbs.inline",
	 .what = "the inline data that ibv_create_qp asks for",
	 .action = {{.name = "limit",
		     .kind = OS_FAULT_LIMIT,
		     .what = "more than that is EINVAL",
		     .param = {{"bytes", FAULT_NUMBER, 16}},
		     .lasts = true}}},
	{.name = "verbs.start",
	 .what = "a send request whose turn has come, before its first packet",
	 .action = {{.name = "error",
		     .kind = OS_FAULT_ERROR,
		     .what = "it fails with that status, nothing is sent, the rest is flushed",
		     .param = {{"status", FAULT_STATUS, 4}}}}},
	{.name = "verbs.cqe",
	 .what = "the completion of a send, after the peer has acknowledged it",
	 .action = FAULT_STATUS_OR_LATE("it has that status, and the queue pair is in ERR")},
	{.name = "verbs.recv_cqe",
	 .what = "the completion of a receive, after its data is placed",
	 .action = FAULT_STATUS_OR_LATE("the same; the sender gets REM_OP_ERR")},
	{.name = "verbs.request",
	 .what = "a request as it comes to the responder",
	 .action = {{.name = "refuse",
		     .kind = OS_FAULT_REFUSE,
		     .what = "INVALID, ACCESS or OPERATION; the sender gets REM_..._ERR",
		     .param = {{"why", FAULT_REFUSAL, 2}}},
		    {.name = "not_ready",
		     .kind = OS_FAULT_NOT_READY,
		     .what = "says receiver not ready (RNR)",
		     .lasts = true}}},
	{.name = "verbs.qp",
	 .what = "a queue pair, looked at at each post",
	 .action = {{.name = "fatal",
		     .kind = OS_FAULT_FATAL,
		     .what = "goes to ERR with QP_FATAL; everything outstanding is flushed"},
		    {.name = "flush",
		     .kind = OS_FAULT_FLUSH,
		     .what = "the same without an event"}}},
	{.name = "verbs.cq",
	 .what = "a completion queue, looked at at each completion",
	 .action = {{.name = "overrun",
		     .kind = OS_FAULT_FATAL,
		     .what = "CQ_ERR; completions are lost, its queue pairs die with QP_FATAL"}}},
	{.name = "verbs.device",
	 .what = "an HCA, looked at at each command and post",
	 .action = {{.name = "fatal",
		     .kind = OS_FAULT_FATAL,
		     .what = "DEVICE_FATAL: queue pairs go to ERR, commands fail, until healed"}}},
	{.name = NULL},
};

const struct fault_recipe fault_recipes_verbs[] = {
	{"verbs.any nth=%u fail", {{1, 400}}},
	{"verbs.cqe nth=%u error", {{1, 64}}},
	{"verbs.cqe nth=%u error status=%u", {{1, 64}, {1, 13}}},
	{"verbs.cqe prob=1/%u late by=%uus", {{1, 32}, {1, 100}}},
	{"verbs.recv_cqe nth=%u error", {{1, 64}}},
	{"verbs.recv_cqe prob=1/%u late by=%uus", {{1, 32}, {1, 100}}},
	{"verbs.start nth=%u error", {{1, 64}}},
	{"verbs.request nth=%u refuse why=%u", {{1, 64}, {1, 3}}},
	{"verbs.request prob=1/%u not_ready for=%uus", {{1, 128}, {1, 200}}},
	{"verbs.poll_cq prob=1/%u short by=%uus", {{1, 8}, {1, 20}}},
	{"verbs.poll_cq prob=1/%u empty by=%uus", {{1, 8}, {1, 20}}},
	{"verbs.reg_mr nth=%u fail", {{1, 16}}},
	{"verbs.qp nth=%u fatal", {{1, 200}}},
	{"verbs.qp nth=%u flush", {{1, 200}}},
	{"verbs.cq nth=%u overrun", {{1, 200}}},
	{"verbs.device after=%uus fatal", {{1, 3000}}},
	{NULL, {{0, 0}}},
};
