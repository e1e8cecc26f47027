/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data that host and device share: connection memory, the device's view of a communicator, and the
 * works of one launch. core/comm, core/transport and core/plan write it, core/device reads it.
 * Layouts depend on nothing that differs between host and device, builds or warp widths, and are
 * checked at compile time. Numbers are NCCL 2.28's.
 *
 * A connection is one direction between two ranks on one channel: a ring of DEV_STEPS slots. The
 * sender fills the slot step % DEV_STEPS and advances `tail`. The receiver empties it and advances
 * `head`. Both count steps since the connection was made and never wrap (64 bits). They are the
 * only flow control: the sender may fill step s when head + DEV_STEPS > s, the receiver may read it
 * when tail > s. Protocol LL does without the tail, and so does LL128 if lines arrive whole: the
 * lines of a slot have flags.
 */
#ifndef CORE_DEVICE_WORK_H
#define CORE_DEVICE_WORK_H

#include <stdbool.h>

#include "core/base/shared_types.h"
#include "core/device/layout/programs.h"

#define DEV_STEPS        8
#define DEV_MAX_CHANNELS 64
/* Limits of programs that connect every two ranks. */
#define DEV_DIRECT_RANKS    8
#define DEV_DIRECT_CHANNELS 16
/* Limits of PAT, which connects a rank with the ranks 1, 2, 4... before and after it. */
#define DEV_PAT_LEVELS   16
#define DEV_PAT_CHANNELS 32
/* Most edges of an algorithm on a channel. */
#define DEV_EDGES_MOST DEV_PAT_LEVELS
/* Links of a rank in a tree: link 0 to its parent, the others to its children. */
#define DEV_TREE_LINKS 4
#define DEV_TREE_SELF  0xffu /* in dev_channel.tree_toward */

/* A line of protocol LL: {data, flag, data, flag}, of 4 bytes each. Each half is stored and loaded
 * as a whole. All lines with data in the slot of step s have the flag of s. Before the first step
 * all flags are those of the step before it. */
#define DEV_LINE_BYTES   16u
#define DEV_LINE_DATA    8u
#define DEV_LINE_FLAG(s) ((uint32_t)((s) + 1))
/* Flags wrap after 2^32 steps. Twice in 2^32 steps, in the eight steps s with (s & mask) == mask,
 * one for each slot, the sender writes every line of the slot. No flag then is old enough to be
 * taken for a new one. */
#define DEV_LINE_CLEAN_MASK 0x7ffffff8u
DOPPEL_STATIC_CHECK((DEV_LINE_CLEAN_MASK | (DEV_STEPS - 1)) == UINT32_MAX / 2,
		    "the steps that clean are DEV_STEPS in a row, twice in 2^32");
DOPPEL_STATIC_CHECK(2 * DEV_LINE_DATA == DEV_LINE_BYTES, "half of a line of LL is flags");

/*
 * Lines of protocol LL128, in pairs. A line is 16 words of 8 bytes; the last word is the flag. A
 * pair has the words d0, d1... d29 of data:
 *
 *	first line    d0 d1 ... d13 d14 flag
 *	second line   d16 d17 ... d29 d15 flag
 *
 * A thread of a GPU moves 16 bytes at a time. Except for d14 and d15, the two words of each move
 * are adjacent in the user's buffers too. The flag counts in 64 bits, and never wraps. A warp moves
 * DEV_WARP_PAIRS together (shim_cuda.h, shim_fake.h).
 */
#define DEV_LINE128_BYTES   128u
#define DEV_PAIR_BYTES      256u
#define DEV_PAIR_DATA       240u
#define DEV_WARP_PAIRS_MOST 32u
#define DEV_WARP_DATA       (DEV_WARP_PAIRS * DEV_PAIR_DATA)
#define DEV_LINE128_FLAG(s) ((uint64_t)(s) + 1)
DOPPEL_STATIC_CHECK(DEV_PAIR_BYTES == 2 * DEV_LINE128_BYTES &&
			    DEV_PAIR_DATA == DEV_PAIR_BYTES - 2 * sizeof(uint64_t),
		    "each of the two lines of a pair has one flag");

/* A slot is whole moves of 16 bytes, and so is a channel's share. */
#define DEV_PROTO_CHECK(id, buffer, grain, data)                                                   \
	DOPPEL_STATIC_CHECK((buffer) % (16 * DEV_STEPS) == 0 && (grain) % 16 == 0,                 \
			    "slots and shares of " #id);
DEV_PROTOS(DEV_PROTO_CHECK)
#undef DEV_PROTO_CHECK

/* Same numbers as ncclDataType_t. */
enum dev_type {
	DEV_I8,
	DEV_U8,
	DEV_I32,
	DEV_U32,
	DEV_I64,
	DEV_U64,
	DEV_F16,
	DEV_F32,
	DEV_F64,
	DEV_BF16,
	DEV_F8E4M3,
	DEV_F8E5M2,
	DEV_TYPE_COUNT
};
/* The kernel's operation. ncclAvg becomes PREMUL_SUM (floats: each input x scale first) or
 * SUM_POSTDIV (integers: the sum is divided last). */
enum dev_op { DEV_SUM, DEV_PROD, DEV_MAX, DEV_MIN, DEV_PREMUL_SUM, DEV_SUM_POSTDIV, DEV_OP_COUNT };

/* Toward a proxy: the content of a slot. size is SIZE_NONE until the kernel has filled the slot;
 * the proxy sets it back. Steps are posted a slice at a time: the slot of a slice's first step
 * describes the whole slice, and the slots of its other steps are not touched. Host memory that the
 * device can access. */
#define DEV_FIFO_SIZE_NONE (~0u)
struct dev_fifo_slot {
	shared_u32 size;   /* bytes in the slot */
	shared_u32 offset; /* from the connection's buffer */
};
DOPPEL_CHECK_SIZE(struct dev_fifo_slot, 8);

/* Memory that the two ends of a connection poll. The receiver's end holds the tail and the fifo,
 * the sender's end the head; each has its own cache line. */
struct dev_send_mem {
	shared_u64 head;
	/* The receiver's address for a message or for the results of a collective, with bits of its
	 * state. The message is the one whose step the head allows. Only connections with `put` use
	 * it (prims_put.h, prims_result.h). */
	shared_u64 put;
	/* One more than the step to which `put` refers: the step of a message between two processes
	 * (prims_mapped.h), or the step before a collective (prims_result.h). */
	shared_u64 shown;
	uint8_t pad0[128 - 24];
};
struct dev_recv_mem {
	shared_u64 tail;
	/* One more than the step of the last message that went directly into the receiver's buffer,
	 * between two processes (prims_mapped.h). */
	shared_u64 put;
	uint8_t pad0[128 - 16];
	struct dev_fifo_slot fifo[DEV_STEPS];
	uint8_t pad1[128 - DEV_STEPS * 8];
};
DOPPEL_CHECK_SIZE(struct dev_send_mem, 128);
DOPPEL_CHECK_OFFSET(struct dev_send_mem, put, 8);
DOPPEL_CHECK_OFFSET(struct dev_send_mem, shown, 16);
DOPPEL_CHECK_SIZE(struct dev_recv_mem, 256);
DOPPEL_CHECK_OFFSET(struct dev_recv_mem, put, 8);
DOPPEL_CHECK_OFFSET(struct dev_recv_mem, fifo, 128);

/* Bits of dev_send_mem.put that no address uses. TAKEN: the sender writes to the address, or has
 * written. WITHDRAWN: the receiver was aborted, and its buffer must not be written. For a
 * collective also OFFERED: the sender has not taken the address yet. RELEASED: the sender was
 * stopped, and writes no more. */
#define DEV_PUT_TAKEN     (1ull << 63)
#define DEV_PUT_WITHDRAWN (1ull << 62)
#define DEV_PUT_OFFERED   (1ull << 61)
#define DEV_PUT_RELEASED  (1ull << 60)
DOPPEL_STATIC_CHECK((DEV_PUT_TAKEN ^ DEV_PUT_WITHDRAWN ^ DEV_PUT_OFFERED ^ DEV_PUT_RELEASED) / 15 ==
			    DEV_PUT_RELEASED,
		    "four bits, above every address: additions to them carry into no other bit");

/* Values of dev_conn.put: between ranks of one process; for one work. */
#define DEV_PUT_ALWAYS     1u
#define DEV_PUT_REGISTERED 2u

/* One end of a connection as the kernel uses it. Pointers are valid on this rank's device. */
struct dev_conn {
	/* The slots of each protocol. A send end has the peer's or the proxy's. */
	uint8_t *buffer[DEV_PROTO_COUNT];
	shared_u64 *tail, *head;
	struct dev_fifo_slot *fifo; /* toward a proxy; NULL: the peer polls tail */
	/* Kept by the kernel: the next step, which it rounds up to a chunk, and the head that a
	 * sender read last. It reads the head again only if that value gives no credit, so most
	 * works need no load. Connections of trees and PAT keep only the step across works. */
	uint64_t step, head_seen;
	uint32_t step_bytes[DEV_PROTO_COUNT]; /* of each protocol's slots */
	int32_t peer;                         /* rank at the other end */
	int16_t channel;
	uint8_t index; /* number among the pair's connections on the channel: enum conn_index */
	/* 1: lines of 128 bytes that the sender stores arrive whole. Both ends of a connection
	 * agree. */
	uint8_t whole_lines;
	/* Not 0: messages in SIMPLE, or the results in a ring, go directly into the receiver's
	 * buffer. 0 or DEV_PUT_ALWAYS, and both ends agree; in a block's copy also
	 * DEV_PUT_REGISTERED (prims_result.h). The head then is in a dev_send_mem. */
	uint8_t put;
	/* 1: an end of a chain's head, whose other end is a network that reduces. */
	uint8_t network;
	uint8_t pad0[2];
};
DOPPEL_CHECK_SIZE(struct dev_conn, ALIGN_UP(52 + 12 * DEV_PROTO_COUNT, 8));

/* Most ranks of other processes, previous to a rank in different rings, that can write into its
 * registered output. */
#define DEV_WORK_RANKS 4
DOPPEL_STATIC_CHECK(DEV_WORK_RANKS < 8, "the number DEV_WORK_RANKS has a bit of a byte, always 0");

/* A rank's place in the ring of one channel. */
struct dev_ring {
	int32_t prev, next; /* ranks */
	int32_t index;      /* this rank's position; position 0 holds rank 0 */
	/* Numbers the different previous ranks in the rings from 0, and the different next ranks.
	 * DEV_WORK_RANKS: no number was left. */
	uint16_t prev_number, next_number;
	const int32_t *ranks; /* [nranks], by position */
};
DOPPEL_CHECK_SIZE(struct dev_ring, 24);

/*
 * A rank's ends of the connections of one algorithm, by number. A channel c below `channels` has
 * `count` of them, from first + c * count on. They form edges of two ends each, the receiving end
 * first. An end that the rank does not have has peer -1. The ends of rings come before all others:
 * those of channel c have the numbers 2 * c and 2 * c + 1.
 *
 *	RING                 one edge: from the previous rank, to the next rank
 *	TREE                 one for each link; each collective uses a link in one direction, or in
 *	                     both
 *	PAT                  one for each level k: from the rank 2^k before this one, to the rank
 *	                     2^k after it
 *	ONE_SHOT, TWO_SHOT   one for each other rank; all take the same steps
 *	DOUBLING             one for each bit k: with the rank whose number differs in bit k
 *	COLLNET_CHAIN        two: with the rank above it in the chain, or with the network; with the
 *	                     rank below it
 */
struct dev_edges {
	uint32_t first;
	uint16_t count, channels;
};
DOPPEL_CHECK_SIZE(struct dev_edges, 8);
DOPPEL_STATIC_CHECK(DEV_TREE_LINKS <= DEV_EDGES_MOST && DEV_DIRECT_RANKS - 1 <= DEV_EDGES_MOST,
		    "room for the edges of every algorithm");

/* A rank's place on one channel. A block reads it and the ring's two ends, which are adjacent, with
 * one load per thread of a warp. */
struct dev_channel {
	struct dev_ring ring;
	/* [nranks]: the tree's link over which a rank is reached, or DEV_TREE_SELF. NULL: the trees
	 * are not connected. */
	const uint8_t *tree_toward;
	/* Set by a kernel that an abort ended: slots are in use that steps do not count. */
	uint64_t aborted;
};
DOPPEL_CHECK_SIZE(struct dev_channel, 40);
DOPPEL_STATIC_CHECK((sizeof(struct dev_channel) + 2 * sizeof(struct dev_conn)) / 8 <= 32,
		    "a channel and the ring's two ends are one load of a warp");

/* Times of the works of a channel, for a profiler plugin (core/profiler): in pinned host memory.
 * The entry of a work has the index number % DEV_PROFILE_ENTRIES. The host clears `mark` before the
 * launch; thread 0 of the block stores `ns`, then `mark`. A later work of the same entry may store
 * its `ns` before the host has read this one: the mark then does not fit the time. */
#define DEV_PROFILE_ENTRIES        64
#define DEV_PROFILE_NUMBER(mark)   ((uint32_t)((mark) % (1u << 24)))
#define DEV_PROFILE_MARK(work, ns) ((uint64_t)(ns) << 24 | (work))
DOPPEL_STATIC_CHECK((1u << 24) % DEV_PROFILE_ENTRIES == 0,
		    "numbers of 24 bits (dev_work.profile) wrap at the end of the entries");
struct dev_profile_entry {
	shared_u64 mark; /* number of the work, low 40 bits of its `ns`; 0: not filled */
	shared_u64 ns;   /* dev_now_ns */
};
struct dev_profile {
	struct dev_profile_entry began[DEV_PROFILE_ENTRIES], ended[DEV_PROFILE_ENTRIES];
};
DOPPEL_CHECK_SIZE(struct dev_profile, 32 * DEV_PROFILE_ENTRIES);

/* In device memory, one for each communicator and rank. All pointers in it, in channels and in
 * connections are valid on this rank's device. */
struct dev_comm {
	uint32_t magic; /* DEV_COMM_MAGIC: kernel and host were built from one work.h */
	int32_t rank, nranks, nchannels; /* nchannels: including channels of messages */
	const shared_u32 *abort;         /* host memory */
	struct dev_channel *channels;    /* [nchannels] */
	/* Every connection end of the rank: those of algorithms, and those of messages. Ends of
	 * messages are made while kernels run that do not touch them. */
	struct dev_conn *conns;
	struct dev_edges edges[DEV_EDGE_SETS]; /* by steps_edges */
	/* Least bytes of a channel's results that the sender writes directly into the output
	 * (prims_result.h). */
	uint32_t result_least;
	/* Warp width of the double. Host and kernel agree. */
	uint32_t warp_width;
	uint32_t id; /* low half of the communicator's hash, for traces */
	uint32_t pad0;
	struct dev_profile *profile; /* [DEV_MAX_CHANNELS]; NULL: no profiler */
};
DOPPEL_CHECK_SIZE(struct dev_comm, 64 + 8 * DEV_EDGE_SETS);
#define DEV_COMM_MAGIC 0xd0de0010u

enum dev_work_kind { DEV_WORK_COLLECTIVE, DEV_WORK_SEND_RECV, DEV_WORK_KIND_COUNT };

/* A message to one rank and a message from one rank; either may be missing. The work has parts of
 * both, one for each channel. Connections are this rank's ends in device memory, in the order of
 * the channels. A message from the rank to itself has no connections. A block reduces the work that
 * it loads to its own channel's part (run_messages.h). There is one channel then, `bytes` are those
 * of the part, and the protocols are set. */
struct dev_send_recv {
	struct dev_conn *send_conn,
		*recv_conn; /* of the first channel; NULL: nothing to send, to receive */
	uint64_t send_bytes, recv_bytes; /* of all channels */
	uint64_t send_each, recv_each;   /* of each channel except the last one that has bytes */
	/* A part of at most so many bytes uses LL, or LL128; a larger one uses SIMPLE. Both ends
	 * agree. */
	uint32_t send_ll, recv_ll, send_ll128, recv_ll128;
	/* Address of the receiver's buffer in the sender's process; 0: not mapped there. */
	uint64_t recv_mapped;
	uint32_t nth; /* the message's number in its group, among those of the two ranks */
	uint8_t send_proto, recv_proto; /* of the part: enum dev_proto */
	uint8_t to_self;                /* 1: both ends are this rank */
	uint8_t shown;                  /* DEV_SHOWN_SEND, DEV_SHOWN_RECV */
};
DOPPEL_CHECK_SIZE(struct dev_send_recv, 80);

/* Set if the receiver shows whether the sender can write into its buffer: for the message that this
 * rank sends, or receives. Messages in SIMPLE between two processes only (prims_mapped.h). */
#define DEV_SHOWN_SEND 1u
#define DEV_SHOWN_RECV 2u

/*
 * One collective, or one pair of messages, of a launch.
 *
 * A collective: channels lo..hi share the elements. The first channel takes count_lo elements, the
 * last one count_hi, each one in between count_mid. If lo == hi, count_lo is all. In an all-reduce,
 * a reduce or a broadcast the channels share all elements. In an all-gather and a reduce-scatter
 * they share one rank's block, and each channel takes the same elements of each block.
 *
 * Messages: successive works of one channel with the same `nth` are a batch. They run at the same
 * time, each end in its own group of threads.
 */
struct dev_work {
	const void *send; /* user buffers; of messages: where the first channel's bytes begin */
	void *recv;
	union {
		struct {
			uint64_t count; /* elements that the channels share */
			uint64_t count_lo, count_mid, count_hi;
			uint32_t chunk_lo, chunk_mid, chunk_hi; /* elements per chunk */
			/* For results between processes (prims_result.h). A bit of `offers` for
			 * each dev_ring.prev_number: this rank offers its output. A bit of `takes`
			 * for each next_number: it takes the next rank's output. */
			uint8_t offers, takes;
			uint8_t pad2[2];
			/* Address of the output in the previous rank's process, by prev_number; 0:
			 * not mapped there. */
			uint64_t mapped[DEV_WORK_RANKS];
		};
		struct dev_send_recv pair;
	};
	uint8_t channel_lo, channel_hi;
	uint8_t program; /* enum dev_program; collectives only */
	uint8_t type, op;
	uint8_t nwarps; /* warps of the block that work on it; not used by messages */
	uint8_t kind;   /* enum dev_work_kind */
	uint8_t pad0;
	uint64_t scale;    /* PREMUL_SUM: the factor in the type's bits; SUM_POSTDIV: the divisor */
	uint64_t op_count; /* number of the collective in the communicator, from 0 */
	int32_t root;      /* rank; -1: the collective has no root */
	uint8_t scale_in_memory; /* `scale` is the address of the factor, in the type */
	/* Number for the times of the work, the low byte first; 0: no times. */
	uint8_t profile[3];
};
DOPPEL_CHECK_SIZE(struct dev_work, 128);
DOPPEL_STATIC_CHECK(DEV_PROGRAM_COUNT <= UINT8_MAX && DEV_MAX_CHANNELS <= UINT8_MAX,
		    "programs and channels fit in the bytes of a work");

/* Most warps of a block: the kernel's registers are allotted for it. */
#define DEV_MAX_WARPS 16
/* Most works of a batch: each has two ends, and each end has a warp. */
#define DEV_BATCH_WORKS (DEV_MAX_WARPS / 2)
/* Most works of a launch, and most works in its arguments. */
#define DEV_LAUNCH_WORKS (1u << 16)
#define DEV_ARGS_WORKS   24
DOPPEL_STATIC_CHECK(DEV_LAUNCH_WORKS - 1 <= UINT16_MAX, "a work's number fits in dev_fifo.number");

/* The range of work numbers that belongs to one block: `count` of them, from `first` on. */
struct dev_share {
	uint32_t first, count;
};
DOPPEL_CHECK_SIZE(struct dev_share, 8);

/* Works of a launch that has more than its arguments can hold. They are in pinned host memory,
 * which the host fills before the launch (core/plan/fifo.c). A block that ends stores `end` in the
 * word of its channel: it will not read anything before `end` again. */
struct dev_fifo {
	const struct dev_work *work;   /* [work_count]; NULL: the works are in the arguments */
	const struct dev_share *share; /* of each block */
	const uint16_t *number;        /* of works, block after block; in the order of the works */
	shared_u64 *consumed;          /* [DEV_MAX_CHANNELS] */
	uint64_t end;
};
DOPPEL_CHECK_SIZE(struct dev_fifo, 40);

/* The kernel's one argument block. Grid: one block per set bit of channel_mask, in order. */
struct dev_args {
	struct dev_comm *comm;
	struct dev_channel
		*channels; /* as in *comm: a block then reads them at the same time as *comm */
	struct dev_conn *conns;
	uint64_t channel_mask;
	struct dev_fifo fifo;
	struct dev_edges edges[DEV_EDGE_SETS]; /* as in *comm */
	uint32_t work_count;
	uint8_t pad0[52 - 8 * DEV_EDGE_SETS];
	struct dev_work work[DEV_ARGS_WORKS];
};
DOPPEL_CHECK_SIZE(struct dev_args, 128 + 128 * DEV_ARGS_WORKS);
DOPPEL_CHECK_OFFSET(struct dev_args, work, 128);
DOPPEL_STATIC_CHECK(sizeof(struct dev_args) <= 4096, "kernel arguments fit in 4 KiB");
DOPPEL_STATIC_CHECK(DEV_MAX_CHANNELS <= 64, "each channel has a bit in channel_mask");

/*
 * Programs on windows (algorithm SYMMETRIC, core/device/edges/prims_sym.h). Each rank has memory
 * that all ranks of the host have mapped (core/transport/registered/windows_memory.c). A block uses
 * only its own part of it, on every rank:
 *
 *	head     the step and the number of barriers, kept across launches; the barriers at which
 *	         each rank has arrived
 *	slots    of lines of LL: for each of two banks, one slot for each rank that sends
 *
 * A step uses the bank step % 2. There is neither credit nor a barrier: a rank that has received
 * lines of step s + 1 from all ranks knows that these have read their lines of step s.
 */
#define DEV_SYM_RANKS  DEV_DIRECT_RANKS
#define DEV_SYM_BLOCKS 32
#define DEV_SYM_BANKS  2
#define DEV_SYM_LINES  512 /* of a slot */
#define DEV_SYM_SLOT   (DEV_SYM_LINES * DEV_LINE_BYTES)
#define DEV_SYM_DATA   (DEV_SYM_LINES * DEV_LINE_DATA)
/* In the steps s with (s & mask) == mask, one for each bank, the sender writes every line. */
#define DEV_SYM_CLEAN_MASK 0x7ffffffeu
DOPPEL_STATIC_CHECK((DEV_SYM_CLEAN_MASK | (DEV_SYM_BANKS - 1)) == UINT32_MAX / 2,
		    "the steps that clean are one for each bank, twice in 2^32");
/* The step of a block whose launch was aborted. Later launches of the block move nothing. */
#define DEV_SYM_ABORTED UINT64_MAX

struct dev_sym_head {
	shared_u64 step;     /* the next one */
	shared_u64 barriers; /* number of those that the block has passed */
	uint8_t pad0[128 - 16];
	shared_u64 arrived[DEV_SYM_RANKS]; /* by rank: number of its last barrier */
	uint8_t pad1[128 - 8 * DEV_SYM_RANKS];
};
DOPPEL_CHECK_SIZE(struct dev_sym_head, 256);
struct dev_sym_mem {
	struct dev_sym_head block[DEV_SYM_BLOCKS];
};
DOPPEL_CHECK_SIZE(struct dev_sym_mem, 256 * DEV_SYM_BLOCKS);
#define DEV_SYM_SLOTS(nranks) ((uint64_t)DEV_SYM_BLOCKS * DEV_SYM_BANKS * (uint64_t)(nranks))
#define DEV_SYM_BYTES(nranks) (sizeof(struct dev_sym_mem) + DEV_SYM_SLOTS(nranks) * DEV_SYM_SLOT)

/* The memory of one rank, as this rank has it mapped. The program's buffers are NULL where no
 * program of the launch uses them. */
struct dev_sym_rank {
	struct dev_sym_mem *mem;
	const uint8_t *send;
	uint8_t *recv;
};
/* The argument block of kernels on windows, with one work. Grid: one block for each channel of the
 * work. A block loads nothing except the head of its part. */
struct dev_sym_args {
	uint32_t magic, warp_width; /* as in dev_comm */
	int32_t rank, nranks;
	const shared_u32 *abort;
	struct dev_profile *profile; /* [DEV_MAX_CHANNELS]; NULL: no profiler */
	struct dev_work work;
	struct dev_sym_rank of[DEV_SYM_RANKS];
};
DOPPEL_CHECK_SIZE(struct dev_sym_args, 32 + 128 + 24 * DEV_SYM_RANKS);

/* A kernel as the host sees it: `func` goes to cudaLaunchKernel. */
struct dev_kernel {
	const void *func;
	const char *name;
	uint32_t arg_bytes;
	uint32_t shared_bytes; /* dynamic shared memory */
};

DOPPEL_EXTERN_C_BEGIN
/* The kernel table of core/device, by warp width (doubles: 1 or 32; CUDA: only 32). NULL: not
 * built. dev_kernel_of runs all programs of the program's protocol and family. dev_kernel_one_rank
 * takes a struct dev_work as its argument block, and one block for each of its channels. */
const struct dev_kernel *dev_kernel_of(int program, int warp_width);
/* Return the kernel for only this program, type and operation (programs.h, DEV_ONE_PROGRAMS), or
 * that of row 0, 1, 2... NULL: no such kernel or row. */
const struct dev_kernel *dev_kernel_one(int program, int type, int op, int warp_width);
const struct dev_kernel *dev_kernel_one_row(uint32_t row, int warp_width);
/* With LL128, messages may use it as well, and the kernel needs more registers. */
const struct dev_kernel *dev_kernel_messages(bool ll128, int warp_width);
const struct dev_kernel *dev_kernel_one_rank(int warp_width);
DOPPEL_EXTERN_C_END

#endif
