/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of rings with every connection of device_ring.h through a stand-in for the proxy, which
 * checks the FIFO that the kernel fills.
 */
#include "tests/collectives/device_ring_check.h"
#include "tests/sample.h"

/* One connection in pinned host memory, in two halves that a host task copies between. */
struct link {
	uint8_t send[BUFFERS_BYTES] __attribute__((aligned(DEV_LINE128_BYTES)));
	uint8_t recv[BUFFERS_BYTES] __attribute__((aligned(DEV_LINE128_BYTES)));
	struct dev_recv_mem send_tail; /* and the FIFO: what the sending kernel fills */
	struct dev_send_mem send_head;
	struct dev_recv_mem recv_tail;
	struct dev_send_mem recv_head;
	uint64_t end; /* step at which to stop */
	uint32_t slice_steps;
	enum dev_proto proto;
	struct os_thread *thread;
};

static void link_wait_for(struct wait w)
{
	w.from = (struct wait_from){.rank = -1, .channel = -1};
	CHECK(os_wait_one(&w, NULL) == 0, "%s", w.why);
}

static void link_wait(const shared_u64 *word, uint64_t want, const char *why)
{
	link_wait_for((struct wait){.on = word,
				    .want = want,
				    .mask = WAIT_MASK_ALL,
				    .kind = WAIT_GE,
				    .bytes = 8,
				    .why = why});
}

/* The slice at `step` of the sending kernel was taken, and there is room for it at the other
 * end. */
static void link_taken(struct link *l, uint64_t step)
{
	shared_store_u32(&l->send_tail.fifo[step % DEV_STEPS].size, DEV_FIFO_SIZE_NONE,
			 SHARED_RELAXED);
	shared_store_u64(&l->send_head.head, step + l->slice_steps, SHARED_RELEASE);
	if (step >= DEV_STEPS)
		link_wait(&l->recv_head.head, step + l->slice_steps - DEV_STEPS,
			  "proxy: slot emptied");
}

static uint32_t link_slot_bytes(struct link *l, uint64_t step)
{
	struct dev_fifo_slot *slot = &l->send_tail.fifo[step % DEV_STEPS];
	uint32_t size = shared_load_u32(&slot->size, SHARED_RELAXED);
	uint32_t next = shared_load_u32(&slot[1].size, SHARED_RELAXED);
	uint32_t offset = shared_load_u32(&slot->offset, SHARED_RELAXED);

	CHECK(size <= l->slice_steps * step_bytes[l->proto], "step %llu: size %#x",
	      (unsigned long long)step, size);
	CHECK(offset == step % DEV_STEPS * step_bytes[l->proto], "offset %u", offset);
	CHECK(l->slice_steps == 1 || next == DEV_FIFO_SIZE_NONE, "the slice's second slot says %u",
	      next);
	CHECK(l->proto != DEV_LL128 || size % DEV_PAIR_BYTES == 0, "half a pair: %u bytes", size);
	return size;
}

/* SIMPLE and LL128: the tail shows what is filled. */
static void link_task(void *arg)
{
	struct link *l = (struct link *)arg;
	uint8_t bytes[DEV_STEPS * STEP_LL128];

	for (uint64_t step = 0; step < l->end; step += l->slice_steps) {
		size_t at = buffer_at[l->proto] + step % DEV_STEPS * step_bytes[l->proto];
		uint32_t size;

		link_wait(&l->send_tail.tail, step + l->slice_steps, "proxy: slot filled");
		size = link_slot_bytes(l, step);
		shared_read(bytes, l->send + at, size);
		link_taken(l, step);
		shared_write(l->recv + at, bytes, size);
		shared_store_u64(&l->recv_tail.tail, step + l->slice_steps, SHARED_RELEASE);
	}
}

/* Bytes of lines in the slot, all of them filled. */
static uint32_t link_lines_bytes(struct link *l, uint64_t step, const shared_u64 *lines)
{
	shared_u32 *word = &l->send_tail.fifo[step % DEV_STEPS].size;
	uint32_t size, filled;

	link_wait_for((struct wait){.on = word,
				    .want = DEV_FIFO_SIZE_NONE,
				    .mask = WAIT_MASK_ALL,
				    .kind = WAIT_NE,
				    .bytes = 4,
				    .why = "proxy: size of the lines"});
	size = shared_load_u32(word, SHARED_ACQUIRE);
	CHECK(size <= STEP_LL && size % DEV_LINE_BYTES == 0, "step %llu: size %#x",
	      (unsigned long long)step, size);
	for (filled = 0; filled < size / DEV_LINE_BYTES;) {
		link_wait_for((struct wait){.on = lines + (size_t)2 * filled,
					    .want = DEV_LINE_FLAG(step),
					    .kind = WAIT_LINE16,
					    .why = "proxy: line filled"});
		filled += shared_lines_ready(lines + (size_t)2 * filled,
					     size / DEV_LINE_BYTES - filled, DEV_LINE_FLAG(step));
	}
	return size;
}

static void link_task_ll(void *arg)
{
	struct link *l = (struct link *)arg;
	uint64_t half[STEP_LL / 8];

	for (uint64_t step = 0; step < l->end; step++) {
		size_t at = buffer_at[DEV_LL] + step % DEV_STEPS * STEP_LL;
		const shared_u64 *from = (const shared_u64 *)(l->send + at);
		shared_u64 *to = (shared_u64 *)(l->recv + at);
		uint32_t n = link_lines_bytes(l, step, from) / 8;

		for (uint32_t i = 0; i < n; i++)
			half[i] = shared_load_u64(from + i, SHARED_RELAXED);
		link_taken(l, step);
		for (uint32_t i = n; i-- > 0;) /* backwards: no order is promised */
			shared_store_u64(to + i, half[i], SHARED_RELAXED);
	}
}

/* Puts the link under the connection of channel 0 from rank `i` to the next. */
static void link_connect(struct ring *g, struct link *l, int i)
{
	int next = (i + 1) % g->n;
	struct dev_conn c = {.tail = &l->send_tail.tail,
			     .head = &l->send_head.head,
			     .fifo = l->send_tail.fifo,
			     .peer = next};

	for (int s = 0; s < DEV_STEPS; s++)
		shared_store_u32(&l->send_tail.fifo[s].size, DEV_FIFO_SIZE_NONE, SHARED_RELAXED);
	conn_place(&c, l->send);
	CUDA_OK(cudaMemcpy(&g->rank[i].conns[end_at(g, DEV_RING, 0, 0, true)], &c, sizeof c,
			   cudaMemcpyHostToDevice));
	conn_place(&c, l->recv);
	c.tail = &l->recv_tail.tail;
	c.head = &l->recv_head.head;
	c.fifo = NULL;
	c.peer = i;
	CUDA_OK(cudaMemcpy(&g->rank[next].conns[end_at(g, DEV_RING, 0, 0, false)], &c, sizeof c,
			   cudaMemcpyHostToDevice));
}

static void ring_proxied_by(struct ring *g, const struct dev_work *w)
{
	struct dev_program_row row = steps_program(w->program);
	void (*task)(void *) = row.proto == DEV_LL ? link_task_ll : link_task;
	struct link *links = device_host_alloc((size_t)g->n * sizeof *links);

	for (int i = 0; i < g->n; i++) {
		struct os_thread_attr attr = {.name = "proxy", .rank = i};
		struct steps_part part = steps_part_of(w, 0);
		struct steps_place at = {.rank = i,
					 .nranks = g->n,
					 .root = w->root,
					 .prev = (i + g->n - 1) % g->n,
					 .next = (i + 1) % g->n};

		link_connect(g, &links[i], i);
		links[i].end = steps_of_edge(&row, &part, &at, 0).send;
		links[i].slice_steps = row.slice_steps;
		links[i].proto = row.proto;
		CHECK(os_thread_start(&links[i].thread, &attr, task, &links[i]) == 0, "thread");
	}
	ring_once(g, *w, 2, false, "through a proxy");
	for (int i = 0; i < g->n; i++)
		CHECK(os_thread_join(links[i].thread) == 0, "join");
	CUDA_OK(cudaFreeHost(links));
}

static void ring_proxied(const struct device_run *run, struct ring *g, int n)
{
	static const uint64_t counts[DEV_PROTO_COUNT] = {
		[DEV_SIMPLE] = 9001, [DEV_LL] = 2001, [DEV_LL128] = 9001};

	for (int proto = 0; proto < DEV_PROTO_COUNT; proto++) {
		struct dev_work w = ring_work((enum dev_proto)proto, counts[proto], DEV_BF16,
					      DEV_PREMUL_SUM, 0, 0);

		ring_alloc(g, run, n);
		ring_connect(g);
		ring_proxied_by(g, &w);
		ring_free(g);
	}
}

static void proxy_body(const struct device_run *run)
{
	static struct ring g;
	int most = device_ranks(run, MAX_RANKS);

	device_peers_enable(run, most);
	for (int n = 2; n <= most; n++)
		ring_proxied(run, &g, n);
}

int main(void)
{
	return device_harness(proxy_body, SAMPLE_THIN > 1 ? 1 : 3);
}
