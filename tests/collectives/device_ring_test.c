/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring all-reduce kernel by itself: dev_comm, channels and connections are laid out by hand for
 * 2 to 4 GPUs of one process (direct pointers, no transport, no proxy), the kernel runs on each,
 * and every element is compared bit by bit with the same reductions done on the host in the order
 * in which the ring does them: all types and operations, random bits, in place and out of place,
 * counts that no chunk divides, several works in a launch, several launches over one connection.
 * Then once more with every connection through a stand-in for the proxy, which checks what the
 * kernel tells it; and a kernel that is aborted, and one that meets another build's communicator.
 */
#include "tests/device_harness.h"

#include <sys/wait.h>
#include <unistd.h>

#include "core/base/shared.h"
#include "core/device/reduce_copy_host.h"
#include "tests/sample.h"

#define MAX_GPUS    4
#define CHANNELS    3
#define STEP_BYTES  512u
#define CHUNK_BYTES (STEP_BYTES * DEV_CHUNK_STEPS)
#define MAX_BYTES   (1u << 18)

struct rank {
	struct dev_comm *comm; /* device memory, as all below */
	struct dev_channel *channels;
	uint8_t *slots;                /* [CHANNELS][DEV_STEPS * STEP_BYTES] */
	struct dev_recv_mem *recv_mem; /* [CHANNELS] */
	struct dev_send_mem *send_mem; /* [CHANNELS] */
	uint8_t *input, *output;
	uint8_t *host_input;
	cudaStream_t stream;
};

struct ring {
	const struct device_run *run;
	int n;
	struct rank rank[MAX_GPUS];
	shared_u32 *abort;
	uint8_t *want, *got;
	uint64_t steps[CHANNELS]; /* that every connection should have taken */
};

static uint64_t rng_state;

static uint64_t rng(void)
{
	uint64_t z = rng_state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* ---- laying it out ------------------------------------------------------------------------------
 */

static void ring_alloc(struct ring *g, int n)
{
	g->n = n;
	g->abort = device_host_alloc(sizeof *g->abort);
	g->want = malloc(MAX_BYTES);
	g->got = malloc(MAX_BYTES);
	memset(g->steps, 0, sizeof g->steps);
	for (int i = 0; i < n; i++) {
		struct rank *r = &g->rank[i];

		r->comm = device_alloc(i, sizeof *r->comm);
		r->channels = device_alloc(i, CHANNELS * sizeof *r->channels);
		r->slots = device_alloc(i, CHANNELS * DEV_STEPS * STEP_BYTES);
		r->recv_mem = device_alloc(i, CHANNELS * sizeof *r->recv_mem);
		r->send_mem = device_alloc(i, CHANNELS * sizeof *r->send_mem);
		r->input = device_alloc(i, MAX_BYTES);
		r->output = device_alloc(i, MAX_BYTES);
		r->host_input = malloc(MAX_BYTES);
		CUDA_OK(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
	}
}

/* Connection from rank `from` to rank `to`, seen from one end. */
static struct dev_conn ring_conn(const struct ring *g, int from, int to, int channel, int peer)
{
	struct dev_conn c = {
		.buffer = (uintptr_t)(g->rank[to].slots + channel * DEV_STEPS * STEP_BYTES),
		.tail = (uintptr_t)&g->rank[to].recv_mem[channel].tail,
		.head = (uintptr_t)&g->rank[from].send_mem[channel].head,
		.step_bytes = STEP_BYTES,
		.peer = peer,
		.channel = channel,
	};
	return c;
}

static void ring_connect(struct ring *g)
{
	for (int i = 0; i < g->n; i++) {
		struct dev_channel channels[CHANNELS];
		struct dev_comm comm = {.magic = DEV_COMM_MAGIC,
					.rank = i,
					.nranks = g->n,
					.nchannels = CHANNELS,
					.abort = (uintptr_t)g->abort,
					.channels = (uintptr_t)g->rank[i].channels,
					.warp_width = (uint32_t)g->run->width};

		memset(channels, 0, sizeof channels);
		for (int c = 0; c < CHANNELS; c++) {
			/* odd channels go round the other way */
			int up = c % 2 ? g->n - 1 : 1;
			int next = (i + up) % g->n, prev = (i + g->n - up) % g->n;

			channels[c].ring.next = next;
			channels[c].ring.prev = prev;
			channels[c].ring.index = c % 2 ? (g->n - i) % g->n : i;
			channels[c].ring_recv = ring_conn(g, prev, i, c, prev);
			channels[c].ring_send = ring_conn(g, i, next, c, next);
		}
		CUDA_OK(cudaMemcpy(g->rank[i].comm, &comm, sizeof comm, cudaMemcpyHostToDevice));
		CUDA_OK(cudaMemcpy(g->rank[i].channels, channels, sizeof channels,
				   cudaMemcpyHostToDevice));
	}
}

static void ring_free(struct ring *g)
{
	for (int i = 0; i < g->n; i++) {
		struct rank *r = &g->rank[i];
		void *device[] = {r->comm,     r->channels, r->slots, r->recv_mem,
				  r->send_mem, r->input,    r->output};

		CUDA_OK(cudaSetDevice(i));
		for (size_t k = 0; k < ARRAY_LEN(device); k++)
			CUDA_OK(cudaFree(device[k]));
		CUDA_OK(cudaStreamDestroy(r->stream));
		free(r->host_input);
	}
	CUDA_OK(cudaFreeHost(g->abort));
	free(g->want);
	free(g->got);
}

/* ---- the reference ------------------------------------------------------------------------------
 */

/* What chunk `c` of a loop becomes: position c+1 sends first, each next one adds its own input. */
static void reference_chunk(const struct ring *g, const struct dev_work *w, int channel, int c,
			    uint64_t at, uint64_t count)
{
	uint32_t size = steps_type_bytes(w->type);
	uint8_t *result = g->want + w->send + at * size;

	for (int k = 1; k <= g->n; k++) {
		int position = (c + k) % g->n;
		int rank = channel % 2 ? (g->n - position) % g->n : position;
		struct rc_job job = {
			.src = {g->rank[rank].host_input + w->send + at * size, result},
			.dst = {result},
			.nsrc = k == 1 ? 1 : 2,
			.ndst = 1,
			.count = count,
			.type = (enum dev_type)w->type,
			.op = (enum dev_op)w->op,
			.scale = w->scale,
			.post = k == g->n};
		rc_reduce_copy(&job);
	}
}

static void reference(struct ring *g, const struct dev_work *w)
{
	uint32_t size = steps_type_bytes(w->type);

	for (int channel = w->channel_lo; channel <= w->channel_hi; channel++) {
		struct steps_part part = steps_part_of(w, channel);
		uint64_t loop = (uint64_t)part.chunk * (uint64_t)g->n;

		g->steps[channel] += steps_ring_all_reduce(part.count, part.chunk, g->n);
		for (uint64_t done = 0; done < part.count; done += loop) {
			uint64_t left = part.count - done;
			uint64_t chunk = steps_ring_chunk(left, part.chunk, g->n, size);

			for (int c = 0; c < g->n; c++) {
				uint64_t at = (uint64_t)c * chunk;
				uint64_t n = at < left ? MIN_OF(chunk, left - at) : 0;

				reference_chunk(g, w, channel, c, part.offset + done + at, n);
			}
		}
	}
}

/* ---- running ------------------------------------------------------------------------------------
 */

/* Until the launch, send and recv are offsets in the ranks' buffers, in bytes. */
static struct dev_work ring_work(uint64_t count, enum dev_type type, enum dev_op op, int lo, int hi)
{
	uint32_t size = steps_type_bytes(type), chunk = CHUNK_BYTES / size;
	uint64_t channels = (uint64_t)(hi - lo + 1), grain = DEV_GRAIN_BYTES / size;
	uint64_t share = ALIGN_UP(DIV_UP(count, channels), grain);
	struct dev_work w;

	memset(&w, 0, sizeof w);
	w.count = count;
	w.count_lo = MIN_OF(share, count);
	if (hi > lo) {
		uint64_t rest = count - w.count_lo, mids = channels - 2;

		w.count_mid = mids ? MIN_OF(share, rest / mids) : 0;
		w.count_hi = rest - mids * w.count_mid;
	}
	w.chunk_lo = w.chunk_mid = w.chunk_hi = chunk;
	w.channel_lo = (uint8_t)lo;
	w.channel_hi = (uint8_t)hi;
	w.func = DEV_ALL_REDUCE;
	w.algo = DEV_RING;
	w.proto = DEV_SIMPLE;
	w.type = (uint8_t)type;
	w.op = (uint8_t)op;
	return w;
}

static uint64_t scale_of(enum dev_type type, enum dev_op op, int n)
{
	if (op == DEV_SUM_POSTDIV)
		return (uint64_t)n;
	switch (type) {
	case DEV_F16:
		return rc_f16_of_f32(1.0f / (float)n);
	case DEV_BF16:
		return rc_bf16_of_f32(1.0f / (float)n);
	case DEV_F8E4M3:
		return rc_f8e4m3_of_f32(1.0f / (float)n);
	case DEV_F8E5M2:
		return rc_f8e5m2_of_f32(1.0f / (float)n);
	case DEV_F32:
		return rc_bits_of_f32(1.0f / (float)n);
	case DEV_F64:
		return rc_bits_of_f64(1.0 / n);
	default:
		return (uint64_t)n;
	}
}

static void ring_fill(struct ring *g, size_t bytes, bool in_place)
{
	for (int i = 0; i < g->n; i++) {
		struct rank *r = &g->rank[i];

		for (size_t k = 0; k < bytes; k += 8) {
			uint64_t v = rng();
			memcpy(r->host_input + k, &v, 8);
		}
		CUDA_OK(cudaMemcpy(in_place ? r->output : r->input, r->host_input, bytes,
				   cudaMemcpyHostToDevice));
	}
}

static void ring_launch(struct ring *g, const struct dev_work *works, int n, uint64_t mask,
			int warps, bool in_place)
{
	const struct dev_kernel *k = dev_kernel_collective(g->run->width);
	int blocks = __builtin_popcountll(mask);

	for (int i = 0; i < g->n; i++) {
		struct dev_args args;

		memset(&args, 0, sizeof args);
		args.comm = (uintptr_t)g->rank[i].comm;
		args.channel_mask = mask;
		args.work_count = (uint32_t)n;
		for (int j = 0; j < n; j++) {
			args.work[j] = works[j];
			args.work[j].send +=
				(uintptr_t)(in_place ? g->rank[i].output : g->rank[i].input);
			args.work[j].recv += (uintptr_t)g->rank[i].output;
			if (!args.work[j].nwarps)
				args.work[j].nwarps = (uint8_t)warps;
		}
		CUDA_OK(cudaSetDevice(i));
		device_launch(k, blocks, warps, g->run->width, &args, g->rank[i].stream);
	}
}

static void ring_sync(struct ring *g)
{
	for (int i = 0; i < g->n; i++)
		CUDA_OK(cudaStreamSynchronize(g->rank[i].stream));
}

static void ring_check(struct ring *g, const struct dev_work *w, const char *what)
{
	uint32_t size = steps_type_bytes(w->type);

	for (int i = 0; i < g->n; i++) {
		CUDA_OK(cudaMemcpy(g->got, g->rank[i].output + w->recv, w->count * size,
				   cudaMemcpyDeviceToHost));
		for (uint64_t at = 0; at < w->count; at++)
			CHECK(!memcmp(g->got + at * size, g->want + w->recv + at * size, size),
			      "%s, %s: %d ranks, rank %d, type %d op %d count %llu, channels "
			      "%d-%d: "
			      "element %llu differs",
			      g->run->where, what, g->n, i, w->type, w->op,
			      (unsigned long long)w->count, w->channel_lo, w->channel_hi,
			      (unsigned long long)at);
	}
}

/* Both ends of every connection stand at the step that steps.h derives. */
static void ring_check_steps(struct ring *g)
{
	for (int i = 0; i < g->n; i++) {
		struct dev_channel channels[CHANNELS];

		CUDA_OK(cudaMemcpy(channels, g->rank[i].channels, sizeof channels,
				   cudaMemcpyDeviceToHost));
		for (int c = 0; c < CHANNELS; c++)
			CHECK(channels[c].ring_recv.step == g->steps[c] &&
				      channels[c].ring_send.step == g->steps[c],
			      "%s: channel %d at %llu and %llu, expected %llu", g->run->where, c,
			      (unsigned long long)channels[c].ring_recv.step,
			      (unsigned long long)channels[c].ring_send.step,
			      (unsigned long long)g->steps[c]);
	}
}

static void ring_once(struct ring *g, struct dev_work w, int warps, bool in_place, const char *what)
{
	uint32_t size = steps_type_bytes(w.type);
	uint64_t mask = 0;

	w.scale = scale_of((enum dev_type)w.type, (enum dev_op)w.op, g->n);
	for (int c = w.channel_lo; c <= w.channel_hi; c++)
		mask |= 1ull << c;
	ring_fill(g, ALIGN_UP(w.count * size, 8), in_place);
	reference(g, &w);
	ring_launch(g, &w, 1, mask, warps, in_place);
	ring_sync(g);
	ring_check(g, &w, what);
}

/* Several works of one launch, on overlapping channels, each in a part of the buffers of its own:
 * nothing orders the channels of one against those of another. */
static void ring_many(struct ring *g)
{
	struct dev_work w[2];

	for (int i = 0; i < 2; i++) {
		w[i] = ring_work(3000, DEV_F32, i ? DEV_MAX : DEV_SUM, i, CHANNELS - 1);
		w[i].send = w[i].recv = (uint64_t)i * 3000 * 4;
		w[i].nwarps = (uint8_t)(2 - i); /* the second with half of the block */
	}
	ring_fill(g, 2 * 3000 * 4, false);
	reference(g, &w[0]);
	reference(g, &w[1]);
	ring_launch(g, w, 2, (1u << CHANNELS) - 1, 2, false);
	ring_sync(g);
	ring_check(g, &w[0], "first of two works");
	ring_check(g, &w[1], "second of two works");
}

/* ---- through a proxy ------------------------------------------------------------------------ */

/* One connection in pinned host memory, in two halves that a host task copies between. */
struct link {
	uint8_t send_slots[DEV_STEPS * STEP_BYTES], recv_slots[DEV_STEPS * STEP_BYTES];
	struct dev_recv_mem send_tail; /* and the FIFO: what the sending kernel fills */
	struct dev_send_mem send_head;
	struct dev_recv_mem recv_tail;
	struct dev_send_mem recv_head;
	uint64_t end; /* step at which to stop */
	struct os_thread *thread;
};

static void link_wait(const shared_u64 *word, uint64_t want, const char *why)
{
	struct wait w = {.on = word,
			 .want = want,
			 .mask = WAIT_MASK_ALL,
			 .kind = WAIT_GE,
			 .bytes = 8,
			 .why = why,
			 .from = {.rank = -1, .channel = -1}};

	CHECK(os_wait_one(&w, NULL) == 0, "%s", why);
}

static uint32_t link_slot_bytes(struct link *l, uint64_t step)
{
	struct dev_fifo_slot *slot = &l->send_tail.fifo[step % DEV_STEPS];
	uint32_t size = shared_load_u32(&slot->size, SHARED_RELAXED);
	uint32_t next = shared_load_u32(&slot[1].size, SHARED_RELAXED);
	uint32_t offset = shared_load_u32(&slot->offset, SHARED_RELAXED);

	CHECK(size <= DEV_SLICE_STEPS * STEP_BYTES, "step %llu: size %#x", (unsigned long long)step,
	      size);
	CHECK(offset == step % DEV_STEPS * STEP_BYTES, "offset %u", offset);
	CHECK(next == DEV_FIFO_SIZE_NONE, "the slice's second slot says %u", next);
	return size;
}

static void link_task(void *arg)
{
	struct link *l = (struct link *)arg;
	uint8_t bytes[DEV_SLICE_STEPS * STEP_BYTES];

	for (uint64_t step = 0; step < l->end; step += DEV_SLICE_STEPS) {
		size_t at = step % DEV_STEPS * STEP_BYTES;
		uint32_t size;

		link_wait(&l->send_tail.tail, step + DEV_SLICE_STEPS, "proxy: slot filled");
		size = link_slot_bytes(l, step);
		shared_read(bytes, l->send_slots + at, size);
		shared_store_u32(&l->send_tail.fifo[step % DEV_STEPS].size, DEV_FIFO_SIZE_NONE,
				 SHARED_RELAXED);
		shared_store_u64(&l->send_head.head, step + DEV_SLICE_STEPS, SHARED_RELEASE);
		if (step >= DEV_STEPS)
			link_wait(&l->recv_head.head, step + DEV_SLICE_STEPS - DEV_STEPS,
				  "proxy: slot emptied");
		shared_write(l->recv_slots + at, bytes, size);
		shared_store_u64(&l->recv_tail.tail, step + DEV_SLICE_STEPS, SHARED_RELEASE);
	}
}

/* Puts the link under the connection of channel 0 from rank `i` to the next. */
static void link_connect(struct ring *g, struct link *l, int i)
{
	int next = (i + 1) % g->n;
	struct dev_channel *from = g->rank[i].channels, *to = g->rank[next].channels;
	struct dev_conn c = {.buffer = (uintptr_t)l->send_slots,
			     .tail = (uintptr_t)&l->send_tail.tail,
			     .head = (uintptr_t)&l->send_head.head,
			     .fifo = (uintptr_t)l->send_tail.fifo,
			     .step_bytes = STEP_BYTES,
			     .peer = next};

	for (int s = 0; s < DEV_STEPS; s++)
		shared_store_u32(&l->send_tail.fifo[s].size, DEV_FIFO_SIZE_NONE, SHARED_RELAXED);
	CUDA_OK(cudaMemcpy(&from->ring_send, &c, sizeof c, cudaMemcpyHostToDevice));
	c.buffer = (uintptr_t)l->recv_slots;
	c.tail = (uintptr_t)&l->recv_tail.tail;
	c.head = (uintptr_t)&l->recv_head.head;
	c.fifo = 0;
	c.peer = i;
	CUDA_OK(cudaMemcpy(&to->ring_recv, &c, sizeof c, cudaMemcpyHostToDevice));
}

static void ring_proxied(struct ring *g)
{
	struct dev_work w = ring_work(9001, DEV_BF16, DEV_PREMUL_SUM, 0, 0);
	struct link *links = device_host_alloc((size_t)g->n * sizeof *links);

	for (int i = 0; i < g->n; i++) {
		struct os_thread_attr attr = {.name = "proxy", .rank = i};

		link_connect(g, &links[i], i);
		links[i].end = steps_ring_all_reduce(w.count, w.chunk_lo, g->n);
		CHECK(os_thread_start(&links[i].thread, &attr, link_task, &links[i]) == 0,
		      "thread");
	}
	ring_once(g, w, 2, false, "through a proxy");
	for (int i = 0; i < g->n; i++)
		CHECK(os_thread_join(links[i].thread) == 0, "join");
	CUDA_OK(cudaFreeHost(links));
}

/* ---- ends that are no results --------------------------------------------------------------- */

/* What rank 0 has put into the slots of all others. */
static void ring_slots(const struct ring *g, uint8_t *out)
{
	size_t bytes = (size_t)CHANNELS * DEV_STEPS * STEP_BYTES;

	for (int i = 1; i < g->n; i++)
		CUDA_OK(cudaMemcpy(out + (size_t)i * bytes, g->rank[i].slots, bytes,
				   cudaMemcpyDeviceToHost));
}

/* One rank starts alone: its kernel waits for the others until the abort word is set. The kernel
 * behind it moves nothing: what is in the slots may be on its way through an HCA. */
static void ring_abort(struct ring *g)
{
	static uint8_t before[MAX_GPUS][CHANNELS * DEV_STEPS * STEP_BYTES], after[sizeof before];
	struct dev_work w = ring_work(1000, DEV_U8, DEV_SUM, 0, 1);
	int n = g->n;

	g->n = 1;
	ring_launch(g, &w, 1, 3, 2, false);
	os_sleep_ns(1000000);
	shared_store_u32(g->abort, 1, SHARED_RELEASE);
	CUDA_OK(cudaStreamSynchronize(g->rank[0].stream));
	g->n = n;
	ring_slots(g, before[0]);
	CUDA_OK(cudaSetDevice(0));
	CUDA_OK(cudaMemset(g->rank[0].input, 0x5a, 1000));
	CUDA_OK(cudaMemset(g->rank[0].output, 0x5a, 1000));
	CUDA_OK(cudaDeviceSynchronize());
	g->n = 1;
	ring_launch(g, &w, 1, 3, 2, false);
	CUDA_OK(cudaStreamSynchronize(g->rank[0].stream));
	g->n = n;
	ring_slots(g, after);
	CHECK(memcmp(before, after, sizeof after) == 0,
	      "a launch behind an aborted one moved data");
}

#ifdef DOPPEL_FAKECUDA
static void ring_bad_magic_body(const struct device_run *run)
{
	static struct ring g;
	struct dev_work w = ring_work(1, DEV_U8, DEV_SUM, 0, 0);
	uint32_t magic = DEV_COMM_MAGIC + 1;

	g.run = run;
	ring_alloc(&g, 2);
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
		freopen("/dev/null", "w", stderr);
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

static void ring_body(const struct device_run *run)
{
	static const uint64_t counts[] = {1, 7, 1023, 5000, 20001};
	static struct ring g;
	int most = run->light ? 2 : MIN_OF(run->gpus, MAX_GPUS);

	rng_state = run->seed;
	if (run->gpus < 2) {
		printf("skipped: %d GPU\n", run->gpus);
		return;
	}
	device_peers_enable(most);
	for (int n = 2; n <= most; n++) {
		int turn = 0;

		g.run = run;
		ring_alloc(&g, n);
		ring_connect(&g);
		for (size_t c = 0; c < ARRAY_LEN(counts) - (run->slow && run->width > 1 ? 2 : 0);
		     c++)
			for (int ch = 1; ch <= CHANNELS; ch++, turn++)
				ring_once(&g, ring_work(counts[c], DEV_F32, DEV_SUM, 0, ch - 1),
					  1 + turn % 4, turn % 2, "counts");
		for (int type = 0; type < DEV_TYPE_COUNT; type++)
			for (int op = 0; op < DEV_OP_COUNT; op++, turn++)
				if (op != DEV_SUM_POSTDIV || type <= DEV_U64)
					ring_once(&g,
						  ring_work(900, (enum dev_type)type,
							    (enum dev_op)op, 0, turn % 2),
						  1 + turn % 2, turn % 3 == 0, "types");
		ring_many(&g);
		ring_check_steps(&g);
		ring_abort(&g);
		ring_free(&g);
		ring_alloc(&g, n);
		ring_connect(&g);
		ring_proxied(&g);
		ring_free(&g);
	}
}

int main(void)
{
	ring_bad_magic();
	return device_harness(ring_body, 3 / SAMPLE_THIN);
}
