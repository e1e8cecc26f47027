/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies and fills of the GPU double: directions, sizes, what is synchronous ("API synchronization
 * behavior" of the CUDA documentation), misuse. A copy is held back by a gate kernel in its stream,
 * which waits for a word, where a test must see that a call did or did not wait.
 */
#include "tests/bytes.h"
#include "tests/conformance/cuda/cuda_harness.h"
/* Adds 1 to a word when `gate`, another word, has reached `want` (no gate: immediately). */
struct gate_args {
	uint64_t gate, want, word;
};

CH_KERNEL(gate, 0)
{
	if (a->gate)
		ch_wait_word(d, a->gate, a->want);
	fakedev_add(d, (void *)(uintptr_t)a->word, 8, 1, SHARED_RELEASE, SHARED_SYSTEM);
}

struct held {
	shared_u64 *word; /* [0] the gate, [1] passed */
	cudaStream_t stream;
};

/* Puts a kernel into the stream that runs until held_open. */
static void held_close(struct held *h, cudaStream_t stream)
{
	h->word = ch_pinned(4096);
	h->stream = stream;
	struct gate_args a = {(uintptr_t)&h->word[0], 1, (uintptr_t)&h->word[1]};

	CU(ch_launch_on(&gate_w1, 1, 1, &a, stream));
}

static void held_open(struct held *h)
{
	shared_store_u64(&h->word[0], 1, SHARED_RELEASE);
	CU(cudaStreamSynchronize(h->stream));
	ck_assert_uint_eq(shared_load_u64(&h->word[1], SHARED_ACQUIRE), 1);
	CU(cudaFreeHost(h->word));
}

CH_TEST(copies_of_every_direction_move_every_byte)
{
	static const size_t sizes[] = {1, 3, 511, 4096, 100001, 3 << 20};
	static uint8_t in[3 << 20], out[3 << 20];

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		size_t n = sizes[i];
		uint8_t *a = ch_malloc(n), *b = ch_malloc(n + 1);

		ch_pattern(in, n, (unsigned)i);
		memset(out, 0, n);
		CU(cudaMemcpy(a, in, n, cudaMemcpyHostToDevice));
		CU(cudaMemcpy(b + 1, a, n, cudaMemcpyDeviceToDevice));
		CU(cudaMemcpy(out, b + 1, n, cudaMemcpyDeviceToHost));
		ch_expect(out, n, (unsigned)i);
		memset(out, 0, n);
		CU(cudaMemcpy(out, in, n, cudaMemcpyHostToHost));
		ch_expect(out, n, (unsigned)i);
		CU(cudaFree(a));
		CU(cudaFree(b));
	}
}

CH_TEST(default_direction_is_what_the_pointers_are)
{
	uint8_t in[1000], out[1000];
	uint8_t *a = ch_malloc(1000), *b = ch_malloc(1000);

	ch_pattern(in, sizeof in, 3);
	CU(cudaMemcpy(a, in, 1000, cudaMemcpyDefault));
	CU(cudaMemcpy(b, a, 1000, cudaMemcpyDefault));
	CU(cudaMemcpy(out, b, 1000, cudaMemcpyDefault));
	ch_expect(out, sizeof out, 3);
	CU(cudaFree(a));
	CU(cudaFree(b));
}

/* On an H200 a direction only refuses pageable memory at an end that it has on a GPU. */
CH_TEST(wrong_directions_are_refused_and_explained)
{
	char host[64], *dev = ch_malloc(64), *dev2 = ch_malloc(64), *pinned;

	CU(cudaHostAlloc((void **)&pinned, 64, cudaHostAllocDefault));
	CU_SAYS(cudaMemcpy(host, dev, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue,
		"the destination");
	CU_SAYS(cudaMemcpy(dev, host, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue,
		"source 0x");
	CU_SAYS(cudaMemcpyAsync(dev, host, 64, cudaMemcpyDeviceToDevice, 0), cudaErrorInvalidValue,
		"is pageable host memory");
	CU_SAYS(cudaMemcpy(pinned, host, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue,
		"is pageable host memory");
	CU_FAILS(cudaMemcpy(dev, host, 64, (enum cudaMemcpyKind)9),
		 cudaErrorInvalidMemcpyDirection);
	for (int kind = cudaMemcpyHostToHost; kind <= cudaMemcpyDefault; kind++) {
		ch_pattern((uint8_t *)pinned, 64, (unsigned)kind);
		CU(cudaMemcpy(dev, pinned, 64, (enum cudaMemcpyKind)kind));
		CU(cudaMemcpy(dev2, dev, 64, (enum cudaMemcpyKind)kind));
		CU(cudaMemset(pinned, 0, 64));
		CU(cudaMemcpy(pinned, dev2, 64, (enum cudaMemcpyKind)kind));
		CU(cudaDeviceSynchronize());
		ch_expect((const uint8_t *)pinned, 64, (unsigned)kind);
	}
	CU(cudaMemcpy(dev, host, 64, cudaMemcpyHostToHost));
	CU(cudaFreeHost(pinned));
	CU(cudaFree(dev));
	CU(cudaFree(dev2));
}

CH_TEST(ranges_beyond_an_allocation_are_refused)
{
	static char host[8192];
	char *a = ch_malloc(4000), *b = ch_malloc(64);

	CU_SAYS(cudaMemcpy(a, host, 4001, cudaMemcpyHostToDevice), cudaErrorInvalidValue,
		"run past the end");
	CU_SAYS(cudaMemset(a + 100, 0, 3901), cudaErrorInvalidValue, "run past the end");
	CU_SAYS(cudaMemcpy(host, a + 4000, 1, cudaMemcpyDeviceToHost), cudaErrorInvalidValue,
		"0 bytes past the end");
	CU(cudaFree(b));
	CU_SAYS(cudaMemset(b, 0, 64), cudaErrorInvalidValue, "freed");
	CU_FAILS(cudaMemcpy(NULL, host, 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
	CU_FAILS(cudaMemcpy(a, NULL, 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
	CU_FAILS(cudaMemset(host, 0, 10), cudaErrorInvalidValue);
	CU(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice)); /* nothing to do */
	CU(cudaFree(a));
}

CH_TEST(memset_fills_exactly_its_range)
{
	uint8_t back[300];
	uint8_t *p = ch_malloc(300), *pinned = ch_pinned(300);

	CU(cudaMemset(p, 0xff, 300));
	CU(cudaMemset(p + 7, 0x1234, 200)); /* the low byte counts */
	CU(cudaMemcpy(back, p, 300, cudaMemcpyDeviceToHost));
	ck_assert_uint_eq(bytes_until_not(back, 0xff, 7), 7);
	ck_assert_uint_eq(bytes_until_not(back + 7, 0x34, 200), 200);
	ck_assert_uint_eq(bytes_until_not(back + 207, 0xff, 93), 93);
	CU(cudaMemsetAsync(pinned + 1, 9, 100, 0));
	CU(cudaDeviceSynchronize());
	ck_assert_int_eq(pinned[0] + pinned[1] + pinned[100] + pinned[101], 18);
	CU(cudaFree(p));
	CU(cudaFreeHost(pinned));
}

/* Copies from pages that are not written, written in part and written completely; the range ends
 * inside pages. */
CH_TEST(memset_of_zero_leaves_nothing_of_what_was_written)
{
	enum { PAGE = 4096, BYTES = 8 * PAGE, BEGIN = 100, END = 6 * PAGE + 50 };
	static uint8_t in[BYTES], back[BYTES];
	uint8_t *p = ch_malloc(BYTES);

	ch_pattern(in, BYTES, 5);
	CU(cudaMemset(p, 0xff, PAGE));
	CU(cudaMemcpy(p + 2 * PAGE + 17, in, 10, cudaMemcpyHostToDevice));
	CU(cudaMemset(p + 4 * PAGE, 0xee, 4 * PAGE));
	CU(cudaMemset(p + BEGIN, 0, END - BEGIN));
	CU(cudaMemcpy(back, p, BYTES, cudaMemcpyDeviceToHost));
	ck_assert_uint_eq(bytes_until_not(back, 0xff, BEGIN), BEGIN);
	ck_assert_uint_eq(bytes_until_not(back + BEGIN, 0, END - BEGIN), END - BEGIN);
	ck_assert_uint_eq(bytes_until_not(back + END, 0xee, BYTES - END), BYTES - END);
	CU(cudaFree(p));
}

static void expect_bytes(const uint8_t *at, size_t n, uint8_t value)
{
	ck_assert_uint_eq(bytes_until_not(at, value, n), n);
}

/* Pages that were never written are zero wherever they are copied to, and take what is copied to
 * them. The ranges begin and end within pages. */
CH_TEST(pages_that_were_never_written_are_copied_as_zeros)
{
	enum { N = 5 * 4096 + 77 };
	static uint8_t host[N], out[N];
	uint8_t *fresh = ch_malloc(N + 9), *dirty = ch_malloc(N), *pinned = ch_pinned(N);

	CU(cudaMemset(dirty, 0x5a, N));
	memset(pinned, 0x5a, N); /* without a call */
	CU(cudaMemcpy(host, pinned, N, cudaMemcpyHostToHost));
	expect_bytes(host, N, 0x5a);
	CU(cudaMemcpy(pinned, fresh + 9, N, cudaMemcpyDeviceToHost));
	expect_bytes(pinned, N, 0);
	CU(cudaMemcpy(dirty, fresh + 9, N, cudaMemcpyDeviceToDevice));
	CU(cudaMemcpy(out, dirty, N, cudaMemcpyDeviceToHost));
	expect_bytes(out, N, 0);
	CU(cudaMemcpy(fresh + 9, pinned, N, cudaMemcpyHostToDevice)); /* zeros: nothing changes */
	CU(cudaMemcpy(fresh + 4100, host, 4096, cudaMemcpyHostToDevice));
	CU(cudaMemcpy(out, fresh, N, cudaMemcpyDeviceToHost));
	expect_bytes(out, 4100, 0);
	expect_bytes(out + 4100, 4096, 0x5a);
	expect_bytes(out + 8196, N - 8196, 0);
	CU(cudaFree(fresh));
	CU(cudaFree(dirty));
	CU(cudaFreeHost(pinned));
}

CH_TEST(copies_between_gpus_need_no_peer_access)
{
	uint8_t in[5000], out[5000];
	uint8_t *a = ch_malloc(5000);

	CU(cudaSetDevice(3));
	uint8_t *b = ch_malloc(5000);

	ch_pattern(in, sizeof in, 8);
	CU(cudaMemcpy(a, in, 5000, cudaMemcpyHostToDevice));
	CU(cudaMemcpy(b, a, 5000, cudaMemcpyDeviceToDevice));
	CU(cudaDeviceSynchronize());
	CU(cudaMemcpy(out, b, 5000, cudaMemcpyDeviceToHost));
	ch_expect(out, sizeof out, 8);
	CU(cudaMemset(b, 0, 5000));
	CU(cudaMemcpyPeer(b, 3, a, 0, 5000));
	CU(cudaMemcpy(out, b, 5000, cudaMemcpyDeviceToHost));
	ch_expect(out, sizeof out, 8);
	CU_SAYS(cudaMemcpyPeerAsync(b, 2, a, 0, 5000, 0), cudaErrorInvalidValue,
		"not on the device named");
	CU_FAILS(cudaMemcpyPeerAsync(b, 3, a, 8, 5000, 0), cudaErrorInvalidDevice);
	CU(cudaFree(a));
	CU(cudaFree(b));
}

/* ---- what waits, and what does not ---------------------------------------------------------- */

CH_TEST(async_copy_to_pinned_memory_does_not_wait)
{
	cudaStream_t s;
	struct held h;
	uint8_t *dev = ch_malloc(64), *pinned = ch_pinned(64);

	CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CU(cudaMemset(dev, 5, 64));
	CU(cudaDeviceSynchronize());
	held_close(&h, s);
	CU(cudaMemcpyAsync(pinned, dev, 64, cudaMemcpyDeviceToHost, s));
	ck_assert_int_eq(cudaStreamQuery(s), cudaErrorNotReady);
	ck_assert_int_eq(pinned[0], 0);
	held_open(&h);
	ck_assert_int_eq(pinned[0], 5);
	CU(cudaStreamDestroy(s));
	CU(cudaFree(dev));
	CU(cudaFreeHost(pinned));
}

/* Pinned source memory is read when the copy runs, plain memory before the call returns. */
CH_TEST(async_copy_reads_pinned_memory_late_and_plain_memory_early)
{
	cudaStream_t s;
	struct held h;
	uint8_t plain = 1, *pinned = ch_pinned(1), *dev = ch_malloc(2), back[2];

	*pinned = 1;
	CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	held_close(&h, s);
	CU(cudaMemcpyAsync(dev, &plain, 1, cudaMemcpyHostToDevice, s));
	CU(cudaMemcpyAsync(dev + 1, pinned, 1, cudaMemcpyHostToDevice, s));
	plain = *pinned = 2;
	held_open(&h);
	CU(cudaMemcpy(back, dev, 2, cudaMemcpyDeviceToHost));
	ck_assert_int_eq(back[0], 1);
	ck_assert_int_eq(back[1], 2);
	CU(cudaStreamDestroy(s));
	CU(cudaFree(dev));
	CU(cudaFreeHost(pinned));
}

/* Opens the gate after a while, from another task. */
static void open_later(void *arg)
{
	struct held *h = arg;

	os_sleep_ns(ch_now.engine == SIM_ENGINE_SIM ? 500000 : 50000000);
	shared_store_u64(&h->word[0], 1, SHARED_RELEASE);
}

CH_TEST(copy_to_plain_memory_waits_for_its_stream)
{
	const struct os_thread_attr attr = {.name = "opener", .rank = -1};
	struct os_thread *t;
	cudaStream_t s;
	struct held h;
	uint8_t *dev = ch_malloc(64), back[64] = {0};

	CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CU(cudaMemset(dev, 5, 64));
	CU(cudaDeviceSynchronize());
	held_close(&h, s);
	ck_assert_int_eq(os_thread_start(&t, &attr, open_later, &h), 0);
	CU(cudaMemcpyAsync(back, dev, 64, cudaMemcpyDeviceToHost, s));
	ck_assert_int_eq(back[63], 5);
	ck_assert_uint_eq(shared_load_u64(&h.word[1], SHARED_ACQUIRE), 1);
	ck_assert_int_eq(os_thread_join(t), 0);
	CU(cudaFreeHost(h.word));
	CU(cudaStreamDestroy(s));
	CU(cudaFree(dev));
}

/* The behaviour of a call while a kernel blocks its stream, as measured on an H200 with CUDA 13. */
static bool call_waits(cudaStream_t s, void (*call)(void *), void *arg)
{
	const struct os_thread_attr attr = {.name = "opener", .rank = -1};
	struct os_thread *t;
	struct held h;

	held_close(&h, s);
	ck_assert_int_eq(os_thread_start(&t, &attr, open_later, &h), 0);
	call(arg);
	bool waited = shared_load_u64(&h.word[1], SHARED_ACQUIRE) != 0;

	ck_assert_int_eq(os_thread_join(t), 0);
	CU(cudaStreamSynchronize(s));
	CU(cudaFreeHost(h.word));
	return waited;
}

struct timing {
	char *dev, *dev2, *pinned, *plain;
	cudaStream_t stream;
};

static void small_plain_to_device(void *arg)
{
	struct timing *m = arg;
	CU(cudaMemcpyAsync(m->dev, m->plain, 64, cudaMemcpyHostToDevice, m->stream));
}

static void big_plain_to_device(void *arg)
{
	struct timing *m = arg;
	CU(cudaMemcpyAsync(m->dev, m->plain, 1 << 20, cudaMemcpyHostToDevice, m->stream));
}

static void device_to_device(void *arg)
{
	struct timing *m = arg;
	CU(cudaMemcpy(m->dev, m->dev2, 1 << 20, cudaMemcpyDeviceToDevice));
}

static void fill_device(void *arg)
{
	struct timing *m = arg;
	CU(cudaMemset(m->dev, 1, 1 << 20));
}

static void fill_pinned(void *arg)
{
	struct timing *m = arg;
	CU(cudaMemset(m->pinned, 1, 64));
}

CH_TEST(what_waits_on_an_h200_waits_here)
{
	static char plain[1 << 20];
	struct timing m = {ch_malloc(1 << 20), ch_malloc(1 << 20), ch_pinned(64), plain, NULL};

	CU(cudaStreamCreateWithFlags(&m.stream, cudaStreamNonBlocking));
	ck_assert(!call_waits(m.stream, small_plain_to_device, &m));
	ck_assert(call_waits(m.stream, big_plain_to_device, &m));
	ck_assert(!call_waits(0, device_to_device, &m));
	ck_assert(!call_waits(0, fill_device, &m));
	ck_assert(call_waits(0, fill_pinned, &m));
	CU(cudaStreamDestroy(m.stream));
	CU(cudaFree(m.dev));
	CU(cudaFree(m.dev2));
	CU(cudaFreeHost(m.pinned));
}

CH_TEST(free_waits_for_the_gpu)
{
	const struct os_thread_attr attr = {.name = "opener", .rank = -1};
	struct os_thread *t;
	cudaStream_t s;
	struct held h;
	void *dev = ch_malloc(64);

	CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	held_close(&h, s);
	ck_assert_int_eq(os_thread_start(&t, &attr, open_later, &h), 0);
	CU(cudaFree(dev));
	ck_assert_uint_eq(shared_load_u64(&h.word[1], SHARED_ACQUIRE), 1);
	ck_assert_int_eq(os_thread_join(t), 0);
	CU(cudaStreamDestroy(s));
	CU(cudaFreeHost(h.word));
}

CH_TEST(copies_take_time_in_proportion_to_their_size, .strategy = SIM_FIFO)
{
	cudaEvent_t e[3];
	float small, big;
	char *dev = ch_malloc(64 << 20), *pinned = ch_pinned(64 << 20);

	for (int i = 0; i < 3; i++)
		CU(cudaEventCreate(&e[i]));
	CU(cudaEventRecord(e[0], 0));
	CU(cudaMemcpyAsync(dev, pinned, 1 << 20, cudaMemcpyHostToDevice, 0));
	CU(cudaEventRecord(e[1], 0));
	CU(cudaMemcpyAsync(dev, pinned, 64 << 20, cudaMemcpyHostToDevice, 0));
	CU(cudaEventRecord(e[2], 0));
	CU(cudaEventSynchronize(e[2]));
	CU(cudaEventElapsedTime(&small, e[0], e[1]));
	CU(cudaEventElapsedTime(&big, e[1], e[2]));
	ck_assert(big > 0 && small > 0);
	if (ch_now.engine == SIM_ENGINE_SIM) /* PCIe 4 x16: 24,000 MB/s or so */
		ck_assert_msg(big > 2 && big < 6 && small < big / 10, "%f and %f ms", small, big);
	for (int i = 0; i < 3; i++)
		CU(cudaEventDestroy(e[i]));
	CU(cudaFree(dev));
	CU(cudaFreeHost(pinned));
}

int main(void)
{
	TCase *t = tcase_create("copy");

	CH_ADD(t, copies_of_every_direction_move_every_byte);
	CH_ADD(t, default_direction_is_what_the_pointers_are);
	CH_ADD(t, wrong_directions_are_refused_and_explained);
	CH_ADD(t, ranges_beyond_an_allocation_are_refused);
	CH_ADD(t, memset_fills_exactly_its_range);
	CH_ADD(t, memset_of_zero_leaves_nothing_of_what_was_written);
	CH_ADD(t, pages_that_were_never_written_are_copied_as_zeros);
	CH_ADD(t, copies_between_gpus_need_no_peer_access);
	CH_ADD(t, async_copy_to_pinned_memory_does_not_wait);
	CH_ADD(t, async_copy_reads_pinned_memory_late_and_plain_memory_early);
	CH_ADD(t, copy_to_plain_memory_waits_for_its_stream);
	CH_ADD(t, what_waits_on_an_h200_waits_here);
	CH_ADD(t, free_waits_for_the_gpu);
	CH_ADD(t, copies_take_time_in_proportion_to_their_size);
	return ch_suite_run("cuda copy", t);
}
