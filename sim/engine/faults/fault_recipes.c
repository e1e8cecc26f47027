/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The material of drawn plans. Mild faults are repaired or waited out by the stack. Hard faults end
 * a connection, a call or a rank. A run ends with its first hard fault, and later faults never
 * fire. fault_random.c therefore draws few hard ones and more mild ones. Besides the hard recipes
 * it draws failing calls from the catalogue. A third table is for plans of one line, a fourth for
 * plans that a run survives without an error.
 */
#include "sim/engine/faults/fault.h"

#define RANK                                                                                       \
	{                                                                                          \
		FAULT_DRAW_RANK, 0                                                                 \
	}
#define HOST                                                                                       \
	{                                                                                          \
		FAULT_DRAW_HOST, 0                                                                 \
	}
#define SAME_HOST                                                                                  \
	{                                                                                          \
		FAULT_DRAW_SAME_HOST, 0                                                            \
	}
#define OTHER_HOST                                                                                 \
	{                                                                                          \
		FAULT_DRAW_OTHER_HOST, 0                                                           \
	}

const struct fault_recipe fault_recipes_mild[] = {
	/* messages */
	{2, "fabric.packet prob=1/%u drop", {{16, 512}}},
	{3, "fabric.packet nth=%u count=%u drop", {{1, 4096}, {1, 16}}},
	{1, "fabric.packet host=%u prob=1/%u drop", {HOST, {2, 64}}},
	{1, "fabric.packet prob=1/%u delay by=%uus", {{1, 64}, {1, 5000}}},
	{2, "fabric.packet prob=1/%u reorder by=%uus", {{1, 64}, {1, 500}}},
	{2, "fabric.packet prob=1/%u duplicate by=%uus", {{1, 64}, {1, 500}}},
	{1, "fabric.packet prob=1/%u corrupt", {{16, 512}}},
	/* links: a short outage, a flap that continues, a slow rail */
	{1, "fabric.link host=%u after=%uus down for=%uus", {HOST, {1, 5000}, {1, 5000}}},
	{2,
	 "fabric.link host=%u nth=%u flap times=%u each=%uus",
	 {HOST, {1, 512}, {1, 16}, {1, 100000}}},
	{1,
	 "fabric.link port=%u nth=%u slow factor=%u for=%uus",
	 {{0, 7}, {1, 64}, {2, 1000}, {1, 50000}}},
	{1,
	 "fabric.path host=%u peer_host=%u nth=%u partition for=%uus",
	 {HOST, OTHER_HOST, {1, 512}, {1, 5000}}},
	{1,
	 "fabric.path host=%u peer_host=%u nth=%u slow factor=%u for=%uus",
	 {HOST, OTHER_HOST, {1, 512}, {2, 100}, {1, 50000}}},
	{1, "fabric.link host=%u nth=%u mtu bytes=512 for=%uus", {HOST, {1, 512}, {1, 5000}}},
	/* swizzle-clog: paths clog one after the other, and open in another order */
	{3,
	 "fabric.link host=%u nth=%u clog for=%uus\n"
	 "fabric.link host=%u nth=%u clog for=%uus\n"
	 "fabric.path nth=%u clog for=%uus",
	 {HOST, {1, 256}, {1, 50000}, HOST, {1, 256}, {1, 50000}, {1, 256}, {1, 50000}}},
	{1,
	 "fabric.path host=%u peer_host=%u prob=1/%u clog for=%uus",
	 {HOST, OTHER_HOST, {4, 128}, {1, 500}}},
	/* an HCA and itself: the reads that flush a GPU's memory */
	{3,
	 "fabric.path host=%u peer_host=%u nth=%u clog for=%uus",
	 {HOST, SAME_HOST, {1, 64}, {100, 100000}}},
	{1,
	 "fabric.path host=%u peer_host=%u nth=%u partition for=%uus",
	 {HOST, SAME_HOST, {1, 64}, {1, 5000}}},
	/* HCAs that complete late, receivers that are not ready */
	{1, "verbs.cqe prob=1/%u late by=%uus", {{1, 32}, {1, 2000}}},
	{1, "verbs.recv_cqe prob=1/%u late by=%uus", {{1, 32}, {1, 2000}}},
	{1, "verbs.cqe rank=%u nth=%u late by=%uus", {RANK, {1, 512}, {100, 1000000}}},
	{1, "verbs.recv_cqe rank=%u nth=%u late by=%uus", {RANK, {1, 512}, {100, 1000000}}},
	{1, "verbs.request prob=1/%u not_ready for=%uus", {{4, 128}, {1, 200}}},
	{2, "verbs.request rank=%u nth=%u not_ready for=%ums", {RANK, {1, 64}, {1, 100}}},
	{2, "verbs.poll_cq prob=1/%u short by=%uus", {{2, 8}, {1, 100}}},
	{2, "verbs.poll_cq prob=1/%u empty by=%uus", {{2, 8}, {1, 100}}},
	/* GPUs: late launch, a block that starts last, a starved warp, slow copies */
	{1, "cuda.kernel nth=%u delay by=%uus", {{1, 32}, {1, 100000}}},
	{2, "cuda.kernel rank=%u forever delay by=%uus", {RANK, {1, 5000}}},
	{1, "cuda.block prob=1/%u delay by=%uus", {{1, 8}, {1, 5000}}},
	{1,
	 "cuda.block rank=%u channel=%u nth=%u delay by=%uus",
	 {RANK, {0, 7}, {1, 4}, {1, 100000}}},
	{1, "cuda.block nth=%u hold", {{1, 64}}},
	{1, "cuda.warp prob=1/%u starve by=%uus", {{64, 1024}, {1, 200}}},
	{2, "cuda.warp rank=%u nth=%u starve by=%uus", {RANK, {1, 4096}, {100, 1000000}}},
	{1, "cuda.copy prob=1/%u slow by=%u", {{1, 8}, {2, 1000}}},
	{1, "cuda.copy nth=%u delay by=%uus", {{1, 128}, {1, 100000}}},
	/* the host */
	{2, "os.socket prob=1/%u partial by=%u", {{1, 16}, {1, 32}}},
	{1, "os.socket prob=1/%u again", {{2, 16}}},
	{1, "os.socket prob=1/%u delay by=%uus", {{2, 64}, {1, 1000}}},
	{1, "os.socket rank=%u nth=%u trickle by=%uus", {RANK, {1, 256}, {1, 100}}},
	{1, "os.connect prob=1/%u fail", {{2, 32}}},
	{1, "os.connect prob=1/%u delay by=%uus", {{1, 16}, {1, 50000}}},
	{1, "os.stranger prob=1/%u garbage by=%uus", {{1, 8}, {1, 200}}},
	{1, "os.stranger prob=1/%u silent by=%uus", {{1, 8}, {1, 200}}},
	{1, "os.stranger prob=1/%u hangup by=%uus", {{1, 8}, {1, 200}}},
	{1, "os.task prob=1/%u starve by=%uus", {{64, 1024}, {1, 2000}}},
	{2, "os.task rank=%u nth=1 starve by=%uus", {RANK, {1, 100000}}}, /* late to init */
	{2, "os.task rank=%u nth=%u starve by=%uus", {RANK, {1, 2048}, {100, 1000000}}},
	{2, "shared.cas prob=1/%u spurious", {{2, 8}}},
	{.text = NULL},
};

const struct fault_recipe fault_recipes_hard[] = {
	/* faults of the fabric that the stack does not repair */
	{2, "fabric.link host=%u nth=%u down", {HOST, {1, 1024}}},
	{2, "fabric.link port=%u nth=%u down for=%ums", {{0, 7}, {1, 256}, {1, 60000}}},
	{2,
	 "fabric.path host=%u peer_host=%u nth=%u partition for=%ums",
	 {HOST, OTHER_HOST, {1, 512}, {1, 60000}}},
	/* statuses, at either end; 1 to 21 numbered as in enum ibv_wc_status */
	{2, "verbs.cqe rank=%u nth=%u error", {RANK, {1, 512}}},
	{2, "verbs.cqe nth=%u error status=%u", {{1, 512}, {1, 21}}},
	{2, "verbs.recv_cqe nth=%u error status=%u", {{1, 256}, {1, 21}}},
	{2, "verbs.start rank=%u nth=%u error status=%u", {RANK, {1, 256}, {1, 21}}},
	{2, "verbs.request nth=%u refuse why=%u", {{1, 512}, {1, 3}}},
	{2, "verbs.qp rank=%u nth=%u fatal", {RANK, {1, 512}}},
	{2, "verbs.qp nth=%u flush", {{1, 512}}},
	{2, "verbs.cq nth=%u overrun", {{1, 512}}},
	{2, "verbs.device host=%u nth=%u fatal", {HOST, {1, 4096}}},
	{1, "verbs.inline rank=%u nth=1 limit bytes=%u", {RANK, {1, 64}}},
	/* any call of a layer, in one sequence */
	{1, "verbs.any nth=%u fail", {{1, 8192}}},
	{1, "cuda.any rank=%u nth=%u fail", {RANK, {1, 512}}},
	/* contexts that die */
	{2, "cuda.stream_query rank=%u nth=%u sticky", {RANK, {1, 256}}},
	{2, "cuda.launch_ex rank=%u nth=%u sticky", {RANK, {1, 4}}},
	{1, "cuda.event_query nth=%u sticky", {{1, 16}}},
	/* sockets, and the deaths of ranks */
	{3, "os.socket rank=%u nth=%u reset", {RANK, {1, 1024}}},
	{3, "os.socket rank=%u nth=%u close", {RANK, {1, 1024}}},
	{1, "os.socket nth=%u fail", {{1, 1024}}},
	{1, "os.connect nth=%u lost by=%ums", {{1, 20}, {1, 5000}}},
	{4, "os.task rank=%u nth=%u kill", {RANK, {1, 8192}}},
	{1, "os.task after=%uus kill", {{1, 50000}}},
	/* while ranks work, and while they come to their ends */
	{4, "os.task rank=%u after=collective+%uus kill", {RANK, {1, 1000000}}},
	{2, "os.task rank=%u after=collective:%u+%uus kill", {RANK, {0, 7}, {1, 5000}}},
	{2, "os.socket rank=%u after=collective+%uus nth=1 reset", {RANK, {1, 1000000}}},
	{2, "verbs.cqe rank=%u after=collective+%uus nth=1 error", {RANK, {1, 1000000}}},
	{1, "fabric.link host=%u after=collective+%uus nth=1 down", {HOST, {1, 1000000}}},
	{.text = NULL},
};

/* Ranks undo mostly what they created in init and while connecting, which takes a rank some hundred
 * calls. */
const struct fault_recipe fault_recipes_early[] = {
	{2, "os.any rank=%u nth=%u fail", {RANK, {1, 512}}},
	{2, "cuda.any rank=%u nth=%u fail", {RANK, {1, 256}}},
	{1, "verbs.any rank=%u nth=%u fail", {RANK, {1, 256}}},
	{6, "verbs.modify_qp rank=%u nth=%u fail", {RANK, {4, 16}}},
	{2, "cuda.launch_ex rank=%u nth=%u fail", {RANK, {1, 4}}},
	{6, "os.task rank=%u nth=%u kill", {RANK, {64, 511}}},
	/* the set-up of one connection */
	{3, "os.listen rank=%u nth=%u fail", {RANK, {2, 6}}},
	{2, "verbs.reg_mr rank=%u nth=%u fail", {RANK, {1, 8}}},
	/* no memory for what ranks have for each other */
	{4, "cuda.malloc rank=%u nth=%u fail", {RANK, {1, 24}}},
	{1, "cuda.host_alloc rank=%u nth=%u fail", {RANK, {1, 24}}},
	{2, "os.alloc rank=%u nth=%u fail", {RANK, {1, 255}}},
	{.text = NULL},
};

/* The stack repairs or waits out all of these, with the HCAs' own retries: every call succeeds. */
const struct fault_recipe fault_recipes_survivable[] = {
	/* losses within the retries, and delays */
	{2, "fabric.packet prob=1/%u drop", {{32, 512}}},
	{3, "fabric.packet nth=%u count=%u drop", {{1, 4096}, {1, 4}}},
	{2, "fabric.packet prob=1/%u delay by=%uus", {{1, 64}, {1, 5000}}},
	{2, "fabric.packet prob=1/%u reorder by=%uus", {{1, 64}, {1, 500}}},
	{1, "fabric.packet prob=1/%u duplicate by=%uus", {{1, 64}, {1, 500}}},
	{1, "fabric.packet prob=1/%u corrupt", {{32, 512}}},
	{3, "fabric.link host=%u after=%uus down for=%uus", {HOST, {1, 5000}, {1, 50000}}},
	{3, "fabric.link host=%u nth=%u down for=%uus", {HOST, {1, 1024}, {1, 50000}}},
	{2,
	 "fabric.link host=%u nth=%u flap times=%u each=%uus",
	 {HOST, {1, 512}, {1, 8}, {1, 50000}}},
	{1,
	 "fabric.path host=%u peer_host=%u nth=%u partition for=%uus",
	 {HOST, OTHER_HOST, {1, 512}, {1, 5000}}},
	{1, "verbs.cqe rank=%u nth=%u late by=%uus", {RANK, {1, 512}, {100, 1000000}}},
	{1, "verbs.recv_cqe rank=%u nth=%u late by=%uus", {RANK, {1, 512}, {100, 1000000}}},
	{2, "verbs.request prob=1/%u not_ready for=%uus", {{4, 128}, {1, 200}}},
	{2, "verbs.request rank=%u nth=%u not_ready for=%ums", {RANK, {1, 64}, {1, 100}}},
	{1, "cuda.kernel nth=%u delay by=%uus", {{1, 32}, {1, 100000}}},
	{1, "cuda.warp rank=%u nth=%u starve by=%uus", {RANK, {1, 4096}, {100, 1000000}}},
	/* connections that are lost, refused or not the peer's */
	{3, "os.connect prob=1/%u fail", {{4, 32}}},
	{4, "os.connect nth=%u count=%u fail errno=ETIMEDOUT", {{1, 128}, {1, 8}}},
	{4, "os.connect nth=%u count=%u lost by=%uus", {{1, 128}, {1, 8}, {1, 50000}}},
	/* addresses that resolve late: before any connection of the rank is ready */
	{2,
	 "verbs.modify_qp state=RTR rank=%u nth=1 count=%u fail errno=ETIMEDOUT",
	 {RANK, {1, 7}}},
	{2,
	 "verbs.modify_qp state=RTS rank=%u nth=1 count=%u fail errno=ETIMEDOUT",
	 {RANK, {1, 7}}},
	{2, "os.stranger prob=1/%u garbage by=%uus", {{1, 8}, {1, 200}}},
	{2, "os.stranger prob=1/%u silent by=%uus", {{1, 8}, {1, 200}}},
	{2, "os.stranger prob=1/%u hangup by=%uus", {{1, 8}, {1, 200}}},
	{1, "os.socket prob=1/%u partial by=%u", {{1, 16}, {1, 32}}},
	{1, "os.socket prob=1/%u delay by=%uus", {{2, 64}, {1, 1000}}},
	{2, "os.task rank=%u nth=%u starve by=%uus", {RANK, {1, 2048}, {100, 1000000}}},
	{.text = NULL},
};
