/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of the numbers of each os_trace record, for the trace file.
 * tests/unit/rules_trace_test.sh compares the table with the code.
 */
#include <string.h>

#include "core/base/macros.h"
#include "sim/engine/trace/timeline.h"

static const struct timeline_kind timeline_kinds[] = {
	{"ah.create", false, {"ah", "port", "sgid index"}},
	{"async event", false, {"type", "element", "context"}},
	{"atomic", true, {"port<<24 qp", "operation", "old"}},
	{"atomic.land", true, {"port<<24 qp", "psn", "value"}},
	{"cqe", true, {"port<<24 qp", "status", "bytes"}},
	{"cuda.copy", true, {"gpu", "stream", "bytes"}},
	{"cuda.graph", true, {"gpu", "executable graph", "launch"}},
	{"cuda.kernel", true, {"gpu", "kernel", "blocks<<32 threads"}},
	{"cuda.kernel.done", true, {"gpu", "kernel", ""}},
	{"cuda.memop", true, {"gpu", "stream", "bytes"}},
	{"cuda.pool.alloc", true, {"gpu", "stream", "bytes"}},
	{"cuda.pool.free", true, {"gpu", "stream", "bytes"}},
	{"cuda.set", true, {"gpu", "stream", "bytes"}},
	{"fault", false, {"line", "fired", "argument"}},
	{"faults heal", false, {"fired", "", ""}},
	{"hca.early", true, {"port<<24 qp", "psn", "bytes"}},
	{"hca.overtakes", true, {"port<<24 qp", "psn", "bytes"}},
	{"mcast.attach", false, {"port<<24 qp", "group", ""}},
	{"mcast.detach", false, {"port<<24 qp", "group", ""}},
	{"moment", false, {"points", "", ""}},
	{"mr.dereg", false, {"key", "bytes", ""}},
	{"mr.reg", false, {"key", "bytes", "access"}},
	{"mr.rereg", false, {"key", "bytes", "access"}},
	{"mw.alloc", false, {"key", "type", ""}},
	{"mw.bind", true, {"key", "bytes", "ok"}},
	{"mw.unbind", true, {"key", "bytes", ""}},
	{"packet.lost", false, {"port<<24 qp", "packet kind", "psn"}},
	{"port.down", false, {"port", "", ""}},
	{"port.up", false, {"port", "", ""}},
	{"post.recv", true, {"port<<24 qp", "bytes", "sges"}},
	{"post.send", true, {"port<<24 qp", "opcode", "bytes"}},
	{"post.srq_recv", true, {"srq", "bytes", "sges"}},
	{"proc.create", false, {"process", "host", ""}},
	{"proc.exit", false, {"process", "failed", ""}},
	{"proc.kill", false, {"process", "", ""}},
	{"proxy.conn", false, {"rank<<32 peer", "channel<<1 is send", "state"}},
	{"proxy.done", true, {"rank<<32 peer", "channel", "step"}},
	{"proxy.flushed", true, {"rank<<32 peer", "channel", "step"}},
	{"proxy.received", true, {"rank<<32 peer", "channel<<32 bytes", "step"}},
	{"proxy.send", true, {"rank<<32 peer", "channel<<32 bytes", "step"}},
	{"proxy.sent", true, {"rank<<32 peer", "channel", "step"}},
	{"proxy.transmitted", true, {"rank<<32 peer", "channel", "steps in all"}},
	{"qp.create", false, {"port<<24 qp", "send requests", "receive requests"}},
	{"qp.destroy", false, {"port<<24 qp", "state", ""}},
	{"qp.resend", false, {"port<<24 qp", "psn", "retries"}},
	{"qp.rnr", false, {"port<<24 qp", "psn", "timer"}},
	{"qp.state", false, {"port<<24 qp", "from", "to"}},
	{"shm.create", false, {"process", "bytes", ""}},
	{"shm.open", false, {"process", "bytes", ""}},
	{"sock.accept", false, {"socket", "", ""}},
	{"sock.connect", false, {"socket", "host", "port"}},
	{"srq.create", false, {"srq", "requests", "sges"}},
	{"srq.destroy", false, {"srq", "requests left", ""}},
	{"store.visible", true, {"agent", "bytes", "reach"}},
	{"stranger", false, {"host", "port", "kind"}},
	{"task.killed", false, {"task", "", ""}},
};

const struct timeline_kind *timeline_kind_find(const char *kind)
{
	for (size_t i = 0; i < ARRAY_LEN(timeline_kinds); i++)
		if (!strcmp(timeline_kinds[i].kind, kind))
			return &timeline_kinds[i];
	return NULL;
}
