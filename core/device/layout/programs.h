/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The programs that a kernel can run, one row each. A new collective, algorithm or protocol needs a
 * row here, and the file that defines the row's function a line in programs/program_files.h. Host
 * (core/plan, which chooses), device (core/device/kernels/run_work.h, which runs) and tests read
 * the same rows.
 *
 *	id            DEV_<id> in enum dev_program; stored in dev_work
 *	function      DEV_FN bool function(struct prim *p, const struct steps_part *part): runs one
 *	              channel's share of a work; returns false if the launch was aborted
 *	func          DEV_<func>: the collective
 *	algo, proto   DEV_<algo>, DEV_<proto>
 *	pattern       DEV_<pattern>: the number of chunks that cross a connection (steps.h)
 *	chunk         steps of a connection that a chunk takes; divides DEV_STEPS
 *	slice         steps that are posted together; divides chunk
 *
 * Chunk and slice steps are NCCL 2.28's. There is a list for each kernel (run_programs.h).
 */
#ifndef CORE_DEVICE_PROGRAMS_H
#define CORE_DEVICE_PROGRAMS_H

#include <stdint.h>

/* clang-format off */
#define DEV_PROGRAMS_RING_SIMPLE(X)                                                                \
/* id                         function             func, algo, proto, pattern, chunk, slice */     \
X(ALL_REDUCE_RING_SIMPLE,     all_reduce_ring,     ALL_REDUCE, RING, SIMPLE, RING_TWICE, 4, 2)     \
X(ALL_GATHER_RING_SIMPLE,     all_gather_ring,     ALL_GATHER, RING, SIMPLE, RING_ONCE, 4, 2)      \
X(REDUCE_RING_SIMPLE,         reduce_ring,         REDUCE, RING, SIMPLE, PIPELINE_TO, 1, 1)        \
X(BROADCAST_RING_SIMPLE,      broadcast_ring,      BROADCAST, RING, SIMPLE, PIPELINE_FROM, 1, 1)   \
X(REDUCE_SCATTER_RING_SIMPLE, reduce_scatter_ring, REDUCE_SCATTER, RING, SIMPLE, RING_ONCE, 4, 2)
#define DEV_PROGRAMS_RING_LL(X)                                                                    \
X(ALL_REDUCE_RING_LL,         all_reduce_ring,     ALL_REDUCE, RING, LL, RING_TWICE, 1, 1)         \
X(ALL_GATHER_RING_LL,         all_gather_ring,     ALL_GATHER, RING, LL, RING_ONCE, 1, 1)          \
X(REDUCE_RING_LL,             reduce_ring,         REDUCE, RING, LL, PIPELINE_TO, 1, 1)            \
X(BROADCAST_RING_LL,          broadcast_ring,      BROADCAST, RING, LL, PIPELINE_FROM, 1, 1)       \
X(REDUCE_SCATTER_RING_LL,     reduce_scatter_ring, REDUCE_SCATTER, RING, LL, RING_ONCE, 1, 1)
#define DEV_PROGRAMS_RING_LL128(X)                                                                 \
X(ALL_REDUCE_RING_LL128,      all_reduce_ring,     ALL_REDUCE, RING, LL128, RING_TWICE, 1, 1)      \
X(ALL_GATHER_RING_LL128,      all_gather_ring,     ALL_GATHER, RING, LL128, RING_ONCE, 1, 1)       \
X(REDUCE_RING_LL128,          reduce_ring,         REDUCE, RING, LL128, PIPELINE_TO, 1, 1)         \
X(BROADCAST_RING_LL128,       broadcast_ring,      BROADCAST, RING, LL128, PIPELINE_FROM, 1, 1)    \
X(REDUCE_SCATTER_RING_LL128,  reduce_scatter_ring, REDUCE_SCATTER, RING, LL128, RING_ONCE, 1, 1)
#define DEV_PROGRAMS_DIRECT_LL(X)                                                                  \
X(ALL_REDUCE_ONE_SHOT_LL,     all_reduce_one_shot, ALL_REDUCE, ONE_SHOT, LL, EXCHANGE, 1, 1)       \
X(ALL_REDUCE_TWO_SHOT_LL,     all_reduce_two_shot, ALL_REDUCE, TWO_SHOT, LL, EXCHANGE_TWICE, 2, 2) \
X(ALL_GATHER_ONE_SHOT_LL,     all_gather_one_shot, ALL_GATHER, ONE_SHOT, LL, EXCHANGE, 1, 1)       \
X(REDUCE_ONE_SHOT_LL,         reduce_one_shot,     REDUCE, ONE_SHOT, LL, EXCHANGE, 1, 1)           \
X(BROADCAST_ONE_SHOT_LL,      broadcast_one_shot,  BROADCAST, ONE_SHOT, LL, EXCHANGE, 1, 1)        \
X(REDUCE_SCATTER_ONE_SHOT_LL, reduce_scatter_one_shot, REDUCE_SCATTER, ONE_SHOT, LL, EXCHANGE, 1, 1)
#define DEV_PROGRAMS_DOUBLING_LL(X)                                                                \
X(ALL_REDUCE_DOUBLING_LL,     all_reduce_doubling, ALL_REDUCE, DOUBLING, LL, EXCHANGE, 1, 1)
#define DEV_PROGRAMS_TREE_SIMPLE(X)                                                                \
X(ALL_REDUCE_TREE_SIMPLE,     all_reduce_tree,     ALL_REDUCE, TREE, SIMPLE, TREE_BOTH, 1, 1)      \
X(REDUCE_TREE_SIMPLE,         reduce_tree,         REDUCE, TREE, SIMPLE, TREE_TO, 1, 1)            \
X(BROADCAST_TREE_SIMPLE,      broadcast_tree,      BROADCAST, TREE, SIMPLE, TREE_FROM, 1, 1)
#define DEV_PROGRAMS_TREE_LL(X)                                                                    \
X(ALL_REDUCE_TREE_LL,         all_reduce_tree,     ALL_REDUCE, TREE, LL, TREE_BOTH, 1, 1)          \
X(REDUCE_TREE_LL,             reduce_tree,         REDUCE, TREE, LL, TREE_TO, 1, 1)                \
X(BROADCAST_TREE_LL,          broadcast_tree,      BROADCAST, TREE, LL, TREE_FROM, 1, 1)
#define DEV_PROGRAMS_TREE_LL128(X)                                                                 \
X(ALL_REDUCE_TREE_LL128,      all_reduce_tree,     ALL_REDUCE, TREE, LL128, TREE_BOTH, 1, 1)       \
X(REDUCE_TREE_LL128,          reduce_tree,         REDUCE, TREE, LL128, TREE_TO, 1, 1)             \
X(BROADCAST_TREE_LL128,       broadcast_tree,      BROADCAST, TREE, LL128, TREE_FROM, 1, 1)
#define DEV_PROGRAMS_PAT_SIMPLE(X)                                                                 \
X(ALL_GATHER_PAT_SIMPLE,      all_gather_pat,      ALL_GATHER, PAT, SIMPLE, BINOMIAL, 1, 1)        \
X(REDUCE_SCATTER_PAT_SIMPLE,  reduce_scatter_pat,  REDUCE_SCATTER, PAT, SIMPLE, BINOMIAL, 1, 1)
#define DEV_PROGRAMS_COLLNET_SIMPLE(X)                                                             \
X(ALL_REDUCE_COLLNET_SIMPLE, all_reduce_collnet, ALL_REDUCE, COLLNET_CHAIN, SIMPLE, TREE_BOTH, 1, 1)
#define DEV_PROGRAMS_SYMMETRIC_LL(X)                                                               \
X(ALL_REDUCE_SYM_LL, all_reduce_sym_ll, ALL_REDUCE, SYMMETRIC, LL, NO_EDGES, 1, 1)                 \
X(ALL_GATHER_SYM_LL, all_gather_sym_ll, ALL_GATHER, SYMMETRIC, LL, NO_EDGES, 1, 1)                 \
X(REDUCE_SCATTER_SYM_LL, reduce_scatter_sym_ll, REDUCE_SCATTER, SYMMETRIC, LL, NO_EDGES, 1, 1)    \
X(ALL_TO_ALL_SYM_LL, all_to_all_sym_ll, ALL_TO_ALL, SYMMETRIC, LL, NO_EDGES, 1, 1)
#define DEV_PROGRAMS_SYMMETRIC_SIMPLE(X)                                                           \
X(ALL_REDUCE_SYM_SIMPLE, all_reduce_sym_st, ALL_REDUCE, SYMMETRIC, SIMPLE, NO_EDGES, 1, 1)         \
X(ALL_GATHER_SYM_SIMPLE, all_gather_sym_st, ALL_GATHER, SYMMETRIC, SIMPLE, NO_EDGES, 1, 1)         \
X(REDUCE_SCATTER_SYM_SIMPLE, reduce_scatter_ld, REDUCE_SCATTER, SYMMETRIC, SIMPLE, NO_EDGES, 1, 1) \
X(ALL_TO_ALL_SYM_SIMPLE, all_to_all_sym_st, ALL_TO_ALL, SYMMETRIC, SIMPLE, NO_EDGES, 1, 1)
/* clang-format on */
/* Programs on windows, which have no connections. */
#define DEV_PROGRAMS_SYMMETRIC(X)                                                                  \
	DEV_PROGRAMS_SYMMETRIC_LL(X)                                                               \
	DEV_PROGRAMS_SYMMETRIC_SIMPLE(X)
#define DEV_PROGRAMS(X)                                                                            \
	DEV_PROGRAMS_EDGES(X)                                                                      \
	DEV_PROGRAMS_SYMMETRIC(X)
#define DEV_PROGRAMS_EDGES(X)                                                                      \
	DEV_PROGRAMS_RING_SIMPLE(X)                                                                \
	DEV_PROGRAMS_RING_LL(X)                                                                    \
	DEV_PROGRAMS_RING_LL128(X)                                                                 \
	DEV_PROGRAMS_DIRECT_LL(X)                                                                  \
	DEV_PROGRAMS_DOUBLING_LL(X)                                                                \
	DEV_PROGRAMS_TREE_SIMPLE(X)                                                                \
	DEV_PROGRAMS_TREE_LL(X)                                                                    \
	DEV_PROGRAMS_TREE_LL128(X)                                                                 \
	DEV_PROGRAMS_PAT_SIMPLE(X)                                                                 \
	DEV_PROGRAMS_COLLNET_SIMPLE(X)

/* The programs that have a separate kernel: nvcc makes faster code of one program than of all. LL
 * and LL128 run small and middle calls. In both there is a kernel for the sums of each of the three
 * most used types, without a function call for each line. In LL128 there is also one for all types
 * and operations (type and operation -1). A program that only copies has one kernel, listed as a
 * sum. In SIMPLE only a reduce-scatter gets faster. The kernel of a work is its first row here. */
/* clang-format off */
#define DEV_SUMS(X, t, T)                                                                          \
/* kernel                         program                     function                 type, op */ \
X(all_reduce_ring_ll_##t,         ALL_REDUCE_RING_LL,         all_reduce_ring,         T, DEV_SUM) \
X(all_reduce_one_shot_ll_##t,     ALL_REDUCE_ONE_SHOT_LL,     all_reduce_one_shot,     T, DEV_SUM) \
X(all_reduce_two_shot_ll_##t,     ALL_REDUCE_TWO_SHOT_LL,     all_reduce_two_shot,     T, DEV_SUM) \
X(reduce_scatter_ring_ll_##t,     REDUCE_SCATTER_RING_LL,     reduce_scatter_ring,     T, DEV_SUM) \
X(reduce_scatter_one_shot_ll_##t, REDUCE_SCATTER_ONE_SHOT_LL, reduce_scatter_one_shot, T, DEV_SUM) \
X(all_reduce_ring_ll128_##t,      ALL_REDUCE_RING_LL128,      all_reduce_ring,         T, DEV_SUM) \
X(reduce_scatter_ring_ll128_##t,  REDUCE_SCATTER_RING_LL128,  reduce_scatter_ring,     T, DEV_SUM)
#define DEV_OTHERS(X)                                                                              \
X(all_reduce_ring_ll128,      ALL_REDUCE_RING_LL128,      all_reduce_ring,     -1, -1)             \
X(reduce_scatter_ring_ll128,  REDUCE_SCATTER_RING_LL128,  reduce_scatter_ring, -1, -1)             \
X(reduce_ring_ll128,          REDUCE_RING_LL128,          reduce_ring,         -1, -1)             \
X(reduce_scatter_ring_simple, REDUCE_SCATTER_RING_SIMPLE, reduce_scatter_ring, -1, -1)             \
X(all_gather_ring_ll,         ALL_GATHER_RING_LL,         all_gather_ring,     -1, DEV_SUM)        \
X(all_gather_one_shot_ll,     ALL_GATHER_ONE_SHOT_LL,     all_gather_one_shot, -1, DEV_SUM)        \
X(all_gather_ring_ll128,      ALL_GATHER_RING_LL128,      all_gather_ring,     -1, DEV_SUM)        \
X(broadcast_ring_ll,          BROADCAST_RING_LL,          broadcast_ring,      -1, DEV_SUM)        \
X(broadcast_one_shot_ll,      BROADCAST_ONE_SHOT_LL,      broadcast_one_shot,  -1, DEV_SUM)        \
X(broadcast_ring_ll128,       BROADCAST_RING_LL128,       broadcast_ring,      -1, DEV_SUM)
/* clang-format on */
#define DEV_ONE_PROGRAMS(X)                                                                        \
	DEV_SUMS(X, f32, DEV_F32)                                                                  \
	DEV_SUMS(X, f16, DEV_F16)                                                                  \
	DEV_SUMS(X, bf16, DEV_BF16)                                                                \
	DEV_OTHERS(X)

/* The programs on windows that have a separate kernel, as above. */
/* clang-format off */
#define DEV_SYMMETRIC_SUMS(X, t, T)                                                                \
X(all_reduce_sym_ll_##t,     ALL_REDUCE_SYM_LL,     all_reduce_sym_ll,     T, DEV_SUM)       \
X(reduce_scatter_sym_ll_##t, REDUCE_SCATTER_SYM_LL, reduce_scatter_sym_ll, T, DEV_SUM)
#define DEV_SYMMETRIC_ONE(X)                                                                       \
DEV_SYMMETRIC_SUMS(X, f32, DEV_F32)                                                                \
DEV_SYMMETRIC_SUMS(X, f16, DEV_F16)                                                                \
DEV_SYMMETRIC_SUMS(X, bf16, DEV_BF16)                                                              \
X(all_gather_sym_ll,         ALL_GATHER_SYM_LL,     all_gather_sym_ll,     -1, DEV_SUM)            \
X(all_to_all_sym_ll,         ALL_TO_ALL_SYM_LL,     all_to_all_sym_ll,     -1, DEV_SUM)
/* clang-format on */

/* The collectives, with their names on the command line, in logs and in gdb. An all-to-all is a
 * collective only on windows; otherwise it consists of messages (core/api/api_messages.c). */
#define DEV_FUNCS(X)                                                                               \
	X(ALL_REDUCE, "all_reduce")                                                                \
	X(ALL_GATHER, "all_gather")                                                                \
	X(REDUCE, "reduce")                                                                        \
	X(BROADCAST, "broadcast")                                                                  \
	X(REDUCE_SCATTER, "reduce_scatter")                                                        \
	X(ALL_TO_ALL, "all_to_all")
enum dev_func {
#define DEV_FUNC_ID(id, name) DEV_##id,
	DEV_FUNCS(DEV_FUNC_ID)
#undef DEV_FUNC_ID
		DEV_FUNC_COUNT,
	/* the first collectives have programs with connections */
	DEV_EDGE_FUNCS = DEV_ALL_TO_ALL
};
/*
 * The connections of a rank, and the number of steps of a collective:
 *
 *	RING       with the next and the previous rank; as many steps as there are ranks, or twice
 *	           as many
 *	ONE_SHOT   with every other rank, without a proxy (prims_direct.h); one step: every rank
 *	           gets all it needs from the ranks that have it, and reduces by itself
 *	TWO_SHOT   with every other rank; two steps: every rank reduces its part, and sends the
 *	           result to all
 *	TREE       with a parent and up to three children (prims_tree.h); as many steps as the tree
 *	           is deep, or twice as many
 *	PAT        parallel aggregated trees: with the ranks 1, 2, 4... after and before it
 *	           (prims_pat.h). It has as many steps as the number of ranks has binary digits. If
 *	           blocks are too large to share a slot, it has as many steps as there are ranks.
 *	DOUBLING   recursive doubling: with the ranks whose numbers differ in one bit
 *	           (prims_doubling.h); as many steps as the number of ranks has binary digits
 *	COLLNET_CHAIN
 *	           with the neighbours in a chain of the host's ranks. The head of each chain is
 *	           connected with a network that reduces the data of all heads (prims_collnet.h). It
 *	           has twice as many steps as the longest chain.
 *	SYMMETRIC  on windows (prims_sym.h): no connections; every rank reads and writes the buffers
 *	           of all ranks of its host, or lines in memory that all of them have mapped
 */
enum dev_algo {
	DEV_RING,
	DEV_ONE_SHOT,
	DEV_TWO_SHOT,
	DEV_TREE,
	DEV_PAT,
	DEV_DOUBLING,
	DEV_COLLNET_CHAIN,
	DEV_SYMMETRIC,
	DEV_ALGO_COUNT
};
/* Sets of ends of connections: steps_edges. */
#define DEV_EDGE_SETS 6

/*
 * The protocols: the layout of data in the slots of a connection. A connection has a buffer of
 * DEV_STEPS slots for each protocol (core/transport makes it).
 *
 *	id       DEV_<id>
 *	buffer   default size of the buffer in bytes, changed by NCCL_BUFFSIZE, NCCL_LL_BUFFSIZE and
 *	         NCCL_LL128_BUFFSIZE
 *	grain    in bytes: a channel's share of the data is a multiple of it
 *	data     bytes of data in 16 bytes of a slot
 *
 * SIMPLE: a slot has only data; head and tail show which slots are filled (prims_simple.h). LL: a
 * slot has lines of 16 bytes in which data and flags alternate; the flags show which lines are
 * filled (prims_ll.h). A line needs no fence, and takes twice the bytes.
 *
 * LL128: a slot has pairs of lines of 128 bytes, each with one flag (prims_ll128.h). If lines
 * arrive whole, the flags show which are filled; otherwise head and tail do.
 *
 * The sizes are NCCL 2.28's: a slot of LL has 8 lines x 512 threads, one of LL128 120 words x 640
 * threads.
 */
#define DEV_PROTOS(X)                                                                              \
	X(SIMPLE, 4u << 20, 512u, 16u)                                                             \
	X(LL, 512u << 10, 16u, 8u)                                                                 \
	X(LL128, 4800u << 10, 1920u, 15u)
enum dev_proto {
#define DEV_PROTO_ID(id, buffer, grain, data) DEV_##id,
	DEV_PROTOS(DEV_PROTO_ID)
#undef DEV_PROTO_ID
		DEV_PROTO_COUNT
};

/*
 * Chunks of one loop on the connections of a ring of n ranks (steps.h):
 *
 *	RING_TWICE      2(n-1) in each direction; a loop covers n chunks of the share
 *	RING_ONCE       n-1 in each direction; a loop covers one chunk of each rank's block
 *	PIPELINE_FROM   one in each direction; the root only sends, the rank before it only receives
 *	PIPELINE_TO     one in each direction; the rank after the root only sends, the root only
 *	                receives
 *
 * On the connections between every two ranks and on those of DOUBLING. Each of them takes the same
 * steps, whether it is used or not:
 *
 *	EXCHANGE         one in each direction; a loop covers one chunk of the share
 *	EXCHANGE_TWICE   one in each direction, of two steps; a loop covers n chunks, of one slot
 *	                 each
 *
 * On the connections of a tree, or of a chain and its network; a loop covers one chunk of the
 * share:
 *
 *	TREE_BOTH   one in each direction
 *	TREE_FROM   one over each link, away from the root
 *	TREE_TO     one over each link, toward the root
 *
 * On the connections of PAT; a loop covers one chunk of each rank's block:
 *
 *	BINOMIAL   in each direction as many as steps_of_edge derives
 *
 * NO_EDGES: programs on windows.
 */
enum dev_pattern {
	DEV_RING_TWICE,
	DEV_RING_ONCE,
	DEV_PIPELINE_FROM,
	DEV_PIPELINE_TO,
	DEV_EXCHANGE,
	DEV_EXCHANGE_TWICE,
	DEV_TREE_BOTH,
	DEV_TREE_FROM,
	DEV_TREE_TO,
	DEV_BINOMIAL,
	DEV_NO_EDGES
};

enum dev_program {
#define DEV_PROGRAM_ID(id, function, func, algo, proto, pattern, chunk, slice) DEV_##id,
	DEV_PROGRAMS(DEV_PROGRAM_ID)
#undef DEV_PROGRAM_ID
		DEV_PROGRAM_COUNT,
	/* the first programs have connections */
	DEV_EDGE_PROGRAMS = DEV_ALL_REDUCE_SYM_LL
};

/* The set of programs on windows, a bit for each. */
/* clang-format off */
#define DEV_PROGRAM_BIT(id, function, func, algo, proto, pattern, chunk, slice) | 1ull << DEV_##id
#define DEV_SYMMETRIC_BITS (0ull DEV_PROGRAMS_SYMMETRIC(DEV_PROGRAM_BIT))
/* clang-format on */

struct dev_program_row {
	enum dev_func func;
	enum dev_algo algo;
	enum dev_proto proto;
	enum dev_pattern pattern;
	uint32_t chunk_steps, slice_steps;
};

#endif
