/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The programs by themselves, on the connections of device_ring.h: every program, every root, all
 * types and operations, random bits, in place and out of place, counts that no chunk divides,
 * several launches over one connection. Programs of rings in SIMPLE also put results directly, over
 * all or some connections; and a kernel that is aborted, and one that meets another build's
 * communicator.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/collectives/device_ring_check.h"
#include "tests/sample.h"

static bool program_reduces(enum dev_program program)
{
	return steps_program(program).func == DEV_REDUCE_SCATTER ||
	       steps_program(program).func == DEV_REDUCE;
}

/* Every program but the all-reduce's, whose cases are many; every root. */
static void ring_programs(struct ring *g)
{
	static const uint64_t counts[] = {1, 130, 3001};
	int turn = 0;

	for (int program = 0; program < DEV_EDGE_PROGRAMS; program++) {
		bool rooted = program_has_root((enum dev_program)program);
		bool reduces = program_reduces((enum dev_program)program);

		for (int root = 0; root < (rooted ? g->n : program_runs(program, g->n)); root++)
			for (size_t c = 0; c < ARRAY_LEN(counts); c++, turn++) {
				struct dev_work w = program_work(
					(enum dev_program)program, counts[c],
					reduces ? DEV_F16 : DEV_U8,
					reduces ? DEV_PREMUL_SUM : DEV_SUM, 0, turn % CHANNELS);

				w.root = rooted ? root : -1;
				ring_once(g, w, 1 + turn % 3, turn % 2, "programs");
				if (steps_program(program).algo !=
				    DEV_TREE) /* the next one's links are these */
					ring_once(g, w, 1 + turn % 2, turn % 2 == 0, "programs");
			}
	}
}

/* Some ranks have a group of threads for each way of a tree, and others one for both; a group has
 * fewer threads than links to wait for, twice. There are more chunks than both ways have slots. */
static void ring_tree_groups(const struct device_run *run, struct ring *g)
{
	if (run->slow && run->width > 1)
		return;
	g->uneven = true;
	for (int program = 0; program < DEV_EDGE_PROGRAMS; program++) {
		struct dev_program_row row = steps_program(program);
		uint64_t chunk = steps_chunk_bytes(&row, step_bytes[row.proto]);

		if (row.algo == DEV_TREE && row.func == DEV_ALL_REDUCE)
			ring_once(g,
				  program_work((enum dev_program)program,
					       CHANNELS * (2 * DEV_STEPS + 2) * chunk, DEV_U8,
					       DEV_SUM, 0, CHANNELS - 1),
				  6, program % 2, "groups of a tree");
	}
	g->uneven = false;
}

/* ---- ends that are no results --------------------------------------------------------------- */

/* A copy of the slots of the other ranks, into which rank 0 puts bytes. */
struct slots {
	uint8_t buffers[MAX_RANKS][CHANNELS * BUFFERS_BYTES];
	uint8_t direct[MAX_RANKS][OTHERS_CONNS * DIRECT_BYTES];
	uint8_t tree[MAX_RANKS][TREE_CONNS * BUFFERS_BYTES];
};

static void ring_slots(const struct ring *g, struct slots *out)
{
	for (int i = 1; i < g->n; i++) {
		CUDA_OK(cudaMemcpy(out->buffers[i], g->rank[i].buffers, sizeof out->buffers[i],
				   cudaMemcpyDeviceToHost));
		CUDA_OK(cudaMemcpy(out->direct[i], g->rank[i].direct_buffers, sizeof out->direct[i],
				   cudaMemcpyDeviceToHost));
		CUDA_OK(cudaMemcpy(out->tree[i], g->rank[i].tree_buffers, sizeof out->tree[i],
				   cudaMemcpyDeviceToHost));
	}
}

/* One rank starts alone: its kernel waits for the others until the abort word is set. The next
 * kernel moves nothing: an HCA may still transfer the slots. */
static void ring_abort(struct ring *g, const struct dev_work *w)
{
	static struct slots before, after;
	int n = g->n;

	g->n = 1;
	ring_launch(g, w, 1, 3, 2, false);
	os_sleep_ns(1000000);
	shared_store_u32(g->abort, 1, SHARED_RELEASE);
	CUDA_OK(cudaStreamSynchronize(g->rank[0].stream));
	g->n = n;
	ring_slots(g, &before);
	CUDA_OK(cudaSetDevice(0));
	CUDA_OK(cudaMemset(g->rank[0].input, 0x5a, 1000));
	CUDA_OK(cudaMemset(g->rank[0].output, 0x5a, 1000));
	CUDA_OK(cudaDeviceSynchronize());
	g->n = 1;
	ring_launch(g, w, 1, 3, 2, false);
	CUDA_OK(cudaStreamSynchronize(g->rank[0].stream));
	g->n = n;
	ring_slots(g, &after);
	CHECK(memcmp(&before, &after, sizeof after) == 0,
	      "a launch behind an aborted one moved data");
}

/* ---- results that are put ------------------------------------------------------------------- */

/* All types, at addresses that are aligned to them alone; every root. */
static void ring_put_program(struct ring *g, enum dev_program program)
{
	static const uint64_t counts[] = {1, 301, 3001};
	bool rooted = program_has_root(program);

	for (int i = 0; i < (rooted ? g->n : 1) * 6; i++) {
		enum dev_type type = (enum dev_type)((i + program) * 5 % DEV_TYPE_COUNT);
		struct dev_work w =
			program_work(program, counts[i % 3], type, DEV_SUM, 0, i % CHANNELS);

		w.root = rooted ? i / 6 : -1;
		w.recv = (void *)(uintptr_t)(steps_type_bytes(type) * (uint32_t)(i / 2 % 3));
		w.send = i % 2 ? w.recv : NULL;
		ring_once(g, w, 1 + (i + program) % 4, i % 2, "put");
	}
	ring_check_steps(g);
}

static uint8_t slots_before[MAX_RANKS][CHANNELS * BUFFERS_BYTES];

enum { SLOTS_COUNT = 3001 };

/* True if the program writes into a slot of SIMPLE. */
static bool ring_fills_slots(struct ring *g, enum dev_program program)
{
	static uint8_t after[CHANNELS * BUFFERS_BYTES];
	struct dev_work w = program_work(program, SLOTS_COUNT, DEV_U8, DEV_SUM, 0, CHANNELS - 1);
	bool fills = false;

	w.root = program_has_root(program) ? 0 : -1;
	for (int i = 0; i < g->n; i++) {
		memset(slots_before[i], 0xa5, sizeof slots_before[i]);
		CUDA_OK(cudaMemcpy(g->rank[i].buffers, slots_before[i], sizeof slots_before[i],
				   cudaMemcpyHostToDevice));
	}
	ring_once(g, w, 2, false, "slots");
	for (int i = 0; i < g->n; i++) {
		CUDA_OK(cudaMemcpy(after, g->rank[i].buffers, sizeof after,
				   cudaMemcpyDeviceToHost));
		fills |= memcmp(after, slots_before[i], sizeof after) != 0;
	}
	return fills;
}

static void ring_put_slots(struct ring *g)
{
	CHECK(ring_fills_slots(g, DEV_ALL_GATHER_RING_SIMPLE) == !g->put,
	      "%s: %d ranks: slots of an all-gather, put %#x", g->run->where, g->n, g->put);
	CHECK(ring_fills_slots(g, DEV_BROADCAST_RING_SIMPLE),
	      "%s: %d ranks: slots of a broadcast, put %#x", g->run->where, g->n, g->put);
}

/* The first rank's launch is aborted. Then all ranks are launched: the first one's kernel moves
 * nothing, and no other kernel writes into its output. */
static void ring_put_abort(struct ring *g)
{
	struct dev_work w = program_work(DEV_ALL_GATHER_RING_SIMPLE, 3000, DEV_U8, DEV_SUM, 0, 1);

	ring_abort(g, &w);
	shared_store_u32(g->abort, 0, SHARED_RELEASE);
	ring_launch(g, &w, 1, 3, 2, false);
	os_sleep_ns(1000000);
	shared_store_u32(g->abort, 1, SHARED_RELEASE);
	ring_sync(g);
	memset(g->want, 0x5a, 1000);
	CUDA_OK(cudaMemcpy(g->got, g->rank[0].output, 1000, cudaMemcpyDeviceToHost));
	CHECK(memcmp(g->got, g->want, 1000) == 0, "%s: %d ranks: bytes after an abort",
	      g->run->where, g->n);
}

#define RING_SOON_NS 500000000ull /* a kernel that waits for a dead sender takes 1 s */

/* Gives rank 0's end to the next rank credit for two chunks, and no more. */
static void ring_hold_credit(const struct ring *g, struct dev_send_mem *held)
{
	struct dev_conn *at = g->rank[0].conns + end_at(g, DEV_RING, 0, 0, true), c;

	CUDA_OK(cudaMemcpy(&c, at, sizeof c, cudaMemcpyDeviceToHost));
	CUDA_OK(cudaMemcpy(held, c.head, sizeof *held, cudaMemcpyDeviceToDevice));
	c.head = &held->head;
	CUDA_OK(cudaMemcpy(at, &c, sizeof c, cudaMemcpyHostToDevice));
}

/* Rank 0 is aborted in the middle of its work, and the rank before it has ended its own: all writes
 * into the output have come. The kernel ends immediately. */
static void ring_put_ended(const struct device_run *run, struct ring *g)
{
	struct dev_work w = program_work(DEV_ALL_GATHER_RING_SIMPLE, 1000, DEV_U8, DEV_SUM, 0, 0);
	struct dev_send_mem *held;
	uint64_t start_ns;

	ring_alloc(g, run, 4);
	g->put = 1u << ring_rank_at(g, 0, ring_position_of(g, 0, 0) + g->n - 1);
	ring_connect(g);
	CUDA_OK(cudaSetDevice(0));
	CUDA_OK(cudaMalloc((void **)&held, sizeof *held));
	ring_hold_credit(g, held);
	ring_launch(g, &w, 1, 1, 2, false);
	for (int k = 2; k < g->n; k++)
		CUDA_OK(cudaStreamSynchronize(g->rank[ring_rank_at(g, 0, k)].stream));
	start_ns = os_now_ns();
	shared_store_u32(g->abort, 1, SHARED_RELEASE);
	ring_sync(g);
	CHECK(os_now_ns() - start_ns < RING_SOON_NS,
	      "%s: an aborted kernel waited for a sender that had ended", run->where);
	CUDA_OK(cudaSetDevice(0));
	CUDA_OK(cudaFree(held));
	ring_free(g);
	g->put = 0;
}

static void ring_put_some(const struct device_run *run, struct ring *g, int n, uint32_t put)
{
	for (int program = 0; program < DEV_EDGE_PROGRAMS; program++) {
		struct dev_program_row row = steps_program(program);

		if (row.algo != DEV_RING || row.proto != DEV_SIMPLE)
			continue;
		ring_alloc(g, run, n);
		g->put = put;
		ring_connect(g);
		ring_put_program(g, (enum dev_program)program);
		ring_free(g);
	}
}

/* Over all connections, and over some. */
static void ring_put(const struct device_run *run, struct ring *g, int n)
{
	ring_put_some(run, g, n, ~0u);
	ring_put_some(run, g, n, run->seed % 2 ? 0x5 : 0x6);
	ring_alloc(g, run, n);
	g->put = ~0u;
	ring_connect(g);
	ring_put_slots(g);
	ring_put_abort(g);
	ring_free(g);
	g->put = 0;
	if (n == 4)
		ring_put_ended(run, g);
}

/* Every program that has lines, the rank waiting for credit and for lines; of two sizes of the
 * group. There are more chunks than slots on each channel: a rank that only sends waits too. */
static void ring_abort_lines(const struct device_run *run, struct ring *g, int n)
{
	for (int program = 0; program < DEV_EDGE_PROGRAMS; program++) {
		struct dev_program_row row = steps_program(program);
		struct dev_work w =
			program_work((enum dev_program)program, 90000, DEV_U8, DEV_SUM, 0, 1);

		if (row.proto == DEV_SIMPLE || !program_runs(program, n))
			continue;
		w.root = program_has_root((enum dev_program)program) ? program % n : -1;
		w.nwarps = (uint8_t)(1 + program % 2);
		ring_alloc(g, run, n);
		ring_connect(g);
		ring_abort(g, &w);
		ring_free(g);
	}
}

#ifdef DOPPEL_FAKECUDA
static void ring_bad_magic_body(const struct device_run *run)
{
	static struct ring g;
	struct dev_work w = ring_work(DEV_SIMPLE, 1, DEV_U8, DEV_SUM, 0, 0);
	uint32_t magic = DEV_COMM_MAGIC + 1;

	ring_alloc(&g, run, 2);
	ring_connect(&g);
	CUDA_OK(cudaMemcpy(&g.rank[0].comm->magic, &magic, sizeof magic, cudaMemcpyHostToDevice));
	g.n = 1;
	ring_launch(&g, &w, 1, 1, 1, false);
	(void)cudaStreamSynchronize(g.rank[0].stream);
	exit(EXIT_SUCCESS); /* it should not come to this */
}

/* In a process of its own, because it ends loudly. */
static void ring_bad_magic(void)
{
	int status = 0;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		if (!freopen("/dev/null", "w", stderr))
			exit(EXIT_SUCCESS);
		device_harness_one(ring_bad_magic_body, SIM_ENGINE_SIM, 1, 1);
		exit(EXIT_SUCCESS);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork");
	CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS,
	      "a kernel ran with a communicator of another layout");
	printf("ok: another layout traps\n");
}
#else
static void ring_bad_magic(void)
{
	/* on real GPUs it would end the context for the rest of the test */
}
#endif

static void ring_types(struct ring *g, enum dev_type type, enum dev_op op, int turn)
{
	static const uint64_t counts[DEV_PROTO_COUNT] = {
		[DEV_SIMPLE] = 900, [DEV_LL] = 299, [DEV_LL128] = 899};
	static const enum dev_program tree[DEV_PROTO_COUNT] = {
		[DEV_SIMPLE] = DEV_ALL_REDUCE_TREE_SIMPLE,
		[DEV_LL] = DEV_ALL_REDUCE_TREE_LL,
		[DEV_LL128] = DEV_ALL_REDUCE_TREE_LL128};
	const int of_turn =
		(turn + g->n) % DEV_PROTO_COUNT; /* of a tree one, another one with each n */

	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		ring_once(g, ring_work((enum dev_proto)p, counts[p], type, op, 0, turn % 2),
			  1 + turn % 2, turn % 3 == 0, "types");
	ring_once(g, program_work(tree[of_turn], counts[of_turn], type, op, 0, turn % CHANNELS),
		  1 + turn % 3, turn % 3 == 0, "types, tree");
}

static void ring_body(const struct device_run *run)
{
	static const uint64_t counts[] = {1, 7, 1023, 5000, 20001};
	static struct ring g;
	struct dev_work work;
	int most = device_ranks(run, MAX_RANKS);

	device_peers_enable(run, most);
	for (int n = 2; n <= most; n++) {
		int turn = 0;

		ring_alloc(&g, run, n);
		ring_connect(&g);
		for (size_t c = 0; c < ARRAY_LEN(counts) - (run->slow && run->width > 1 ? 2 : 0);
		     c++)
			for (int ch = 1; ch <= CHANNELS; ch++, turn++) {
				ring_once(&g,
					  ring_work(DEV_SIMPLE, counts[c], DEV_F32, DEV_SUM, 0,
						    ch - 1),
					  1 + turn % 4, turn % 2, "counts");
				ring_once(&g,
					  ring_work(DEV_LL, counts[c] / 2 + 1, DEV_F32, DEV_SUM, 0,
						    ch - 1),
					  1 + turn % 4, turn % 2, "counts, LL");
				ring_once(&g,
					  ring_work(DEV_LL128, counts[c] + 1, DEV_F32, DEV_SUM, 0,
						    ch - 1),
					  1 + turn % 4, turn % 2, "counts, LL128");
			}
		for (int type = 0; type < DEV_TYPE_COUNT; type++)
			for (int op = 0; op < DEV_OP_COUNT; op++, turn++)
				if (op != DEV_SUM_POSTDIV || type <= DEV_U64)
					ring_types(&g, (enum dev_type)type, (enum dev_op)op, turn);
		ring_programs(&g);
		ring_put_slots(&g);
		ring_tree_groups(run, &g);
		ring_check_steps(&g);
		work = ring_work(DEV_SIMPLE, 1000, DEV_U8, DEV_SUM, 0, 1);
		ring_abort(&g, &work);
		ring_free(&g);
		ring_put(run, &g, n);
		ring_abort_lines(run, &g, n);
	}
}

int main(void)
{
	ring_bad_magic();
	return device_harness(ring_body, SAMPLE_THIN > 1 ? 1 : 3);
}
