/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs conformance suite. Cases are plain libibverbs calls, written from the specification,
 * and run unchanged on several targets:
 *
 *   verbs_suite_world   fakeverbs in this process, two HCAs of one host, engines sim and threads;
 *                       target_world.c; expected-fakeverbs.txt. It also has the cases of world/,
 *                       which need faults, environments, hosts or logs of the double (world.h)
 *   verbs_suite         the libibverbs.so.1 that the loader finds: rdma-core on soft-RoCE or an
 *                       HCA, or the drop-in; target_posix.c; needs only libibverbs and libc;
 *                       expected-rxe.txt, expected-dropin.txt
 *
 *     verbs_suite --list
 *     verbs_suite --device rxe0 --expected expected-rxe.txt 'rc_data.*' keys.a_stale_key_is_refused
 *     verbs_suite_world --engine sim --seeds 20 'qp*'
 *     gdb --args verbs_suite_world --here --seed 3 rc_data.write_moves_bytes
 *
 * Output is TAP ("ok N area.name", "not ok N area.name # reason", "ok N area.name # SKIP reason");
 * the last line counts. Each case runs in a process of its own, and is killed after --timeout
 * seconds. Exit code 1 when a case failed.
 *
 * To add a case: one file per area, "area"_cases.c in objects/ or requests/; cmake finds a new file
 * when it runs again; one function:
 *
 *     CASE(write_moves_bytes)
 *     {
 *             struct vs_pair p;
 *
 *             vs_pair(&p, &vs_defaults);
 *             vs_pattern(p.end[0].buffer, 100, 1);
 *             vs_send(&p, 0, IBV_WR_RDMA_WRITE, 7, 0, 100);
 *             vs_expect(p.end[0].send_cq, 7, IBV_WC_SUCCESS, NULL);
 *             vs_expect_pattern(p.end[1].buffer, 100, 1);
 *             vs_free(&p);
 *     }
 *     CASE(write_on_uc, .needs = NEED(UC) | NEED(MW2)) ...
 *     CASE(both_ways, .count = 2, .label = name_of) ...     one case for each vs_param 0 and 1
 *     CASE(close_in_use, .misuse = true) ...                the verbs sanitizer may complain
 *     CASE(it_fails, .needs = NEED(FAULTS), .plan = plan) ...     a plan of faults (docs/faults.md)
 *
 * The name is what is expected. A case frees what it made: the world counts leaks. A failing check
 * ends the case's process immediately, so nothing is unwound. Cases know no clock, sleep, thread or
 * memory but vs_now_ns, vs_sleep_ns, vs_thread_start and vs_alloc: time is virtual on one target.
 * Nothing is polled without vs_wait, vs_expect or vs_poll_until, for the same reason.
 *
 * A feature that a device may lack is a NEED. It is decided by what the device reports (need.c),
 * never by a call that failed; what no attribute reports is there unless the target's list has
 * "lacks". On the fakes (--strict) the list must have "lacks NEED" for all that is not there, and
 * for nothing else (device.the_list_is_true): a change that makes a feature work removes its line.
 * A target's documented differences are lines "differs CASE" (or a pattern) in the same file, and a
 * row in docs/verbs/fidelity.md.
 */
#ifndef TESTS_CONFORMANCE_VERBS_SUITE_H
#define TESTS_CONFORMANCE_VERBS_SUITE_H

#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- cases ---------------------------------------------------------------------------------- */

/* X(name, what a human reads) */
#define VS_NEEDS(X)                                                                                \
	X(UC, "unreliable connections")                                                            \
	X(UD, "datagrams and address handles")                                                     \
	X(MCAST, "multicast groups")                                                               \
	X(SRQ, "shared receive queues")                                                            \
	X(XRC, "extended reliable connections")                                                    \
	X(MW1, "memory windows of type 1")                                                         \
	X(MW2, "memory windows of type 2")                                                         \
	X(LOCAL_INV, "local and remote invalidation of keys")                                      \
	X(ATOMIC, "atomic operations")                                                             \
	X(ATOMIC_GLOB, "atomics that are atomic for CPUs, too")                                    \
	X(ATOMIC_WRITE, "atomic writes")                                                           \
	X(CQ_EX, "extended completion queues")                                                     \
	X(QP_EX, "queue pairs with ibv_wr_*")                                                      \
	X(TIMESTAMP, "completion timestamps")                                                      \
	X(RESIZE_CQ, "resizing completion queues")                                                 \
	X(RESIZE_SRQ, "resizing shared receive queues")                                            \
	X(MODIFY_CQ, "moderation of completion events")                                            \
	X(NULL_MR, "the null memory region")                                                       \
	X(REREG, "re-registration")                                                                \
	X(DMABUF, "registration of dma-buf memory")                                                \
	X(ADVICE, "advice on the pages of a region")                                               \
	X(DM, "device memory")                                                                     \
	X(PARENT_DOMAIN, "thread domains and parent domains")                                      \
	X(IMPORT, "import of devices and objects")                                                 \
	X(ECE, "enhanced connection establishment options")                                        \
	X(SQD, "draining of send queues")                                                          \
	X(GID_EX, "GID entries with types, and the table in one call")                             \
	X(POLLABLE, "descriptors of channels and contexts that poll(2) takes")                     \
	X(ROCE, "an Ethernet link layer")                                                          \
	X(TWO_DEVICES, "a second device")                                                          \
	X(FAULTS, "faults by plan")

enum vs_need {
#define VS_NEED_ENUM(name, text) VS_NEED_##name,
	VS_NEEDS(VS_NEED_ENUM)
#undef VS_NEED_ENUM
		VS_NEED_COUNT
};
#define NEED(name) (1ull << VS_NEED_##name)

struct vs_case {
	const char *name;
	const char *file; /* its base name, without _cases.c, is the area */
	void (*run)(void);
	uint64_t needs;
	int count;                       /* of vs_param; 0: no parameter */
	const char *(*label)(int param); /* its name; NULL: the number */
	const char *(*plan)(int param);  /* of faults, where they can be planned; NULL: none */
	bool misuse; /* breaks rules on purpose: the sanitizer of a double may complain */
	/* in tests/conformance/verbs/world only: */
	const char *faults;               /* the plan, if it has no parameter */
	const char *engine;               /* the only engine that it runs on; NULL: each */
	const struct world_config *world; /* NULL: the target's */
	bool worlds;                      /* runs outside of a world, and makes its own */
	struct vs_case *next;
};

#define CASE(id, ...)                                                                              \
	static void id(void);                                                                      \
	static struct vs_case vs_case_##id = {                                                     \
		.name = #id, .file = __FILE__, .run = id, __VA_ARGS__};                            \
	__attribute__((constructor)) static void vs_add_##id(void)                                 \
	{                                                                                          \
		vs_case_add(&vs_case_##id);                                                        \
	}                                                                                          \
	static void id(void)

void vs_case_add(struct vs_case *c);
extern int vs_param; /* of this case */

/* ---- checks --------------------------------------------------------------------------------- */

/* Ends the case: "file:line: text". */
void vs_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), noreturn));

#define FAIL(...) vs_fail(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			FAIL("%s", #condition);                                                    \
	} while (0)
#define CHECK_MSG(condition, ...)                                                                  \
	do {                                                                                       \
		if (!(condition))                                                                  \
			FAIL(__VA_ARGS__);                                                         \
	} while (0)
/* Integers of any width. */
#define CHECK_EQ(got, expected)                                                                    \
	do {                                                                                       \
		long long vs_got_ = (long long)(got), vs_expected_ = (long long)(expected);        \
		if (vs_got_ != vs_expected_)                                                       \
			FAIL("%s is %lld, expected %lld (%s)", #got, vs_got_, vs_expected_,        \
			     #expected);                                                           \
	} while (0)
#define CHECK_GE(got, least)                                                                       \
	do {                                                                                       \
		long long vs_got_ = (long long)(got), vs_least_ = (long long)(least);              \
		if (vs_got_ < vs_least_)                                                           \
			FAIL("%s is %lld, expected at least %lld", #got, vs_got_, vs_least_);      \
	} while (0)
/* A call that makes an object must refuse with this errno. */
#define CHECK_NULL(call, code)                                                                     \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK_MSG(!(call), "%s succeeds", #call);                                          \
		CHECK_MSG(errno == (code), "%s: errno %d (%s), expected %s", #call, errno,         \
			  strerror(errno), #code);                                                 \
	} while (0)
/* A call that answers with 0 or an errno, or (older ones) with -1 and errno. */
#define CHECK_CODE(call, code)                                                                     \
	do {                                                                                       \
		errno = 0;                                                                         \
		int vs_code_ = (call);                                                             \
		if (vs_code_ == -1)                                                                \
			vs_code_ = errno;                                                          \
		CHECK_MSG(vs_code_ == (code), "%s: %d (%s), expected %s", #call, vs_code_,         \
			  strerror(vs_code_), #code);                                              \
	} while (0)
/* Not an errno that the specification names: any refusal. */
#define CHECK_REFUSED(call)                                                                        \
	do {                                                                                       \
		CHECK_MSG((call) != 0, "%s succeeds", #call);                                      \
	} while (0)
/* The rest of the case needs more of something counted than this device reports. Ends the case as
 * skipped. */
#define NEEDS_AT_LEAST(reported, least)                                                            \
	do {                                                                                       \
		if ((long long)(reported) < (long long)(least))                                    \
			vs_skip("the device reports %s %lld, the case takes %lld", #reported,      \
				(long long)(reported), (long long)(least));                        \
	} while (0)
void vs_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* ---- clock, memory, threads ----------------------------------------------------------------- */

#define VS_MS     1000000ull
#define VS_SECOND 1000000000ull

uint64_t vs_now_ns(void);
/* How long ago the kernel last counted a tick: what it measures in ticks ends that much early. In a
 * VM on a busy machine that is several ticks. 0 where time is virtual. */
uint64_t vs_tick_late_ns(void);
/* For cases that draw: the run's seed; how far to go (--steps), or so many. */
uint64_t vs_seed(void);
int vs_steps(int most);
void vs_sleep_ns(uint64_t ns);
void *vs_alloc(size_t bytes); /* zeroed, on a page boundary; ends the case if there is no memory */
void vs_release(void *p);
struct vs_thread;
struct vs_thread *vs_thread_start(void (*run)(void *arg), void *arg);
void vs_thread_join(struct vs_thread *t);

/* ---- devices -------------------------------------------------------------------------------- */

extern uint8_t vs_port_num; /* as chosen: --port */

/* Side 0 or 1: the device of that end. The same one when there is but one. */
struct ibv_context *vs_open(int side);
struct ibv_device_attr vs_device_attr(struct ibv_context *ctx);
struct ibv_port_attr vs_port_attr(struct ibv_context *ctx);
/* --gid, or the first RoCE v2 entry of an IPv4 address, or of any, or the first that is not 0. */
int vs_gid_index(struct ibv_context *ctx);
bool vs_has(enum vs_need need); /* for cases that look at a thing only where it is */
/* A difference between the target's list of missing features and the device's report; NULL: they
 * agree. */
const char *vs_list_wrong(void);

/* ---- a pair of ends ------------------------------------------------------------------------- */

struct vs_options {
	enum ibv_qp_type type;
	int cqe, send_wr, recv_wr, sge, inline_bytes, signal_all;
	enum ibv_mtu mtu;    /* the port's, if that is smaller */
	unsigned int access; /* of the queue pairs */
	unsigned int mr_access;
	int timeout, retry_count, rnr_retry, min_rnr_timer;
	int rd_atomic, dest_rd_atomic; /* what the device can, if that is less */
	uint32_t psn[2];               /* each end's first */
	uint32_t qkey;
	size_t buffer_bytes;
	bool channel;    /* both completion queues of an end report to its channel */
	bool one_device; /* both ends on the first */
	bool one_cq;     /* send_cq == recv_cq */
};
extern const struct vs_options vs_defaults; /* RC; short timers; 64 completions, 16 requests */

struct vs_end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* NULL: none */
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah; /* UD: to the other end */
	union ibv_gid gid;
	int gid_index;
	uint16_t lid;
	uint8_t *buffer; /* options.buffer_bytes, registered with options.mr_access */
	struct ibv_mr *mr;
	uint32_t psn;
};
struct vs_pair {
	struct vs_options options;
	struct vs_end end[2];
};

/* One end of vs_make, and of vs_free. */
void vs_end_make(struct vs_pair *p, int side);
void vs_end_free(struct vs_end *e);
/* Makes both ends without connecting them: queue pairs in RESET. A case may destroy an object
 * before vs_free if it sets the pointer to NULL. */
void vs_make(struct vs_pair *p, const struct vs_options *o);
/* Both ends in RTS; UD: with address handles. */
void vs_pair(struct vs_pair *p, const struct vs_options *o);
void vs_free(struct vs_pair *p);

struct ibv_qp_init_attr vs_init_attr(const struct vs_pair *p, int side);
/* A queue pair more at that end, in RESET; the caller destroys it. */
struct ibv_qp *vs_qp(struct vs_pair *p, int side);
/* Every field filled in for the transition of end `side`'s queue pair towards its peer's. */
struct ibv_qp_attr vs_attr(const struct vs_pair *p, int side);
/* The same between any two queue pairs of the ends. */
struct ibv_qp_attr vs_attr_to(const struct vs_pair *p, int side, uint32_t dest_qpn);
/* The bits that the specification requires for entering a state from the one before it
 * (RESET-INIT-RTR-RTS), IBV_QP_STATE included. */
int vs_mask(enum ibv_qp_type type, enum ibv_qp_state to);
/* From RESET up to and including `state`. */
void vs_raise(struct ibv_qp *qp, struct ibv_qp_attr *a, enum ibv_qp_state state);
void vs_connect(struct vs_pair *p, int side, enum ibv_qp_state state);
struct ibv_ah *vs_ah(struct vs_pair *p, int side);

enum ibv_qp_state vs_state(struct ibv_qp *qp); /* as queried */
#define VS_QP_ALL ((IBV_QP_DEST_QPN << 1) - 1) /* every attribute that ibv_query_qp gives */
void vs_set_state(struct ibv_qp *qp, enum ibv_qp_state state);
/* Waits until the queue pair is in that state by itself. */
void vs_await_state(struct ibv_qp *qp, enum ibv_qp_state state);

/* ---- completions ---------------------------------------------------------------------------- */

/* For what must come. Short where the target's list has that it does not. */
extern uint64_t vs_long_ns;
#define VS_LONG vs_long_ns

/* The next completion within `ns`; false: none came. */
bool vs_wait(struct ibv_cq *cq, struct ibv_wc *wc, uint64_t ns);
/* The next one must have this wr_id and status (and queue pair number and opcode, where given). */
void vs_expect_at(const char *file, int line, struct ibv_cq *cq, uint64_t wr_id,
		  enum ibv_wc_status status, struct ibv_wc *out);
#define vs_expect(cq, wr_id, status, out) vs_expect_at(__FILE__, __LINE__, cq, wr_id, status, out)
/* None is there now. */
void vs_expect_none_at(const char *file, int line, struct ibv_cq *cq);
#define vs_expect_none(cq) vs_expect_none_at(__FILE__, __LINE__, cq)
/* Anything else that is waited for: calls `done` until it is true, and returns which way it
 * ended. */
bool vs_poll_until(bool (*done)(void *arg), void *arg, uint64_t ns);

/* ---- events --------------------------------------------------------------------------------- */

/* The next asynchronous event of the context within `ns` (not acknowledged); false: none came. */
bool vs_async(struct ibv_context *ctx, struct ibv_async_event *event, uint64_t ns);
/* The next one of this type, which is acknowledged; others before it are, too, and forgotten. */
void vs_expect_async_at(const char *file, int line, struct ibv_context *ctx,
			enum ibv_event_type type, struct ibv_async_event *event);
#define vs_expect_async(ctx, type, event) vs_expect_async_at(__FILE__, __LINE__, ctx, type, event)
/* The next event of the channel within `ns` (not acknowledged); NULL: none came. */
struct ibv_cq *vs_cq_event(struct ibv_comp_channel *channel, uint64_t ns);

/* ---- requests ------------------------------------------------------------------------------- */

/* One request of `bytes` from `offset` of end `side`'s buffer to, or from, the same offset of the
 * other's; signaled; imm_data is wr_id. UD: to the other end's queue pair. Change what a case is
 * about, then post. */
struct vs_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};
void vs_fill(struct vs_wr *w, const struct vs_pair *p, int side, enum ibv_wr_opcode opcode,
	     uint64_t wr_id, uint64_t offset, uint32_t bytes);
int vs_post(struct ibv_qp *qp, struct ibv_send_wr *wr);
void vs_send(struct vs_pair *p, int side, enum ibv_wr_opcode opcode, uint64_t wr_id,
	     uint64_t offset, uint32_t bytes);
/* bytes == 0: no scatter entry at all. */
int vs_recv_try(struct vs_pair *p, int side, uint64_t wr_id, uint64_t offset, uint32_t bytes);
void vs_recv(struct vs_pair *p, int side, uint64_t wr_id, uint64_t offset, uint32_t bytes);
/* Posts a request of end 0 that must complete with this error; its queue pair is in ERR then. */
void vs_expect_failure_at(const char *file, int line, struct vs_pair *p, struct vs_wr *w,
			  enum ibv_wc_status status);
#define vs_expect_failure(p, w, status) vs_expect_failure_at(__FILE__, __LINE__, p, w, status)

/* ---- bytes ---------------------------------------------------------------------------------- */

void vs_pattern(uint8_t *p, size_t n, uint32_t key);
void vs_expect_pattern_at(const char *file, int line, const uint8_t *p, size_t n, uint32_t key);
#define vs_expect_pattern(p, n, key) vs_expect_pattern_at(__FILE__, __LINE__, p, n, key)
void vs_expect_bytes_at(const char *file, int line, const uint8_t *p, size_t n, uint8_t value);
#define vs_expect_bytes(p, n, value) vs_expect_bytes_at(__FILE__, __LINE__, p, n, value)

#endif
