/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One suite for os.h, run against every pair of halves: posix + real, sim + world under several
 * strategies and seeds, threads + world, threads + real. A case is a function that runs as the main task; what it
 * expects is what os.h says and no more, so it does not know which pair it runs on.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/os/os.h"
#include "core/os/os_ops.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"
#include "tests/bytes.h"

#define US 1000ull
#define MS 1000000ull

/* ---- the pairs ------------------------------------------------------------------------------ */

struct pair {
	const char *name;
	bool world;
	enum sim_engine engine;
	enum sim_strategy strategy;
	uint64_t seed;
	bool real; /* the world has the hardware only */
};

static const struct pair pairs[] = {
	{.name = "posix + real"},
	{"sim + world, fifo", true, SIM_ENGINE_SIM, SIM_FIFO, 0, false},
	{"sim + world, uniform, seed 1", true, SIM_ENGINE_SIM, SIM_UNIFORM, 1, false},
	{"sim + world, uniform, seed 2", true, SIM_ENGINE_SIM, SIM_UNIFORM, 2, false},
	{"sim + world, pct, seed 3", true, SIM_ENGINE_SIM, SIM_PCT, 3, false},
	{"sim + world, starve, seed 4", true, SIM_ENGINE_SIM, SIM_STARVE, 4, false},
	{"threads + world", true, SIM_ENGINE_THREADS, SIM_FIFO, 0, false},
	{"threads + real", true, SIM_ENGINE_THREADS, SIM_FIFO, 0, true},
};
#define PAIRS ((int)(sizeof pairs / sizeof pairs[0]))

/* Two GPUs and a NIC are enough of a machine. */
static const char machine_text[] =
	"<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\">"
	"<pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"80\"/></pci>"
	"<nic><net name=\"mlx5_0\" dev=\"0\" speed=\"100000\" port=\"1\" guid=\"0x1\" "
	"gdr=\"1\"/></nic>"
	"</cpu></system>";

static void case_call(void *arg)
{
	(*(void (**)(void))arg)();
}

static void run_in_world(const struct pair *p, void (*fn)(void))
{
	char path[] = "/tmp/doppel-os-XXXXXX.xml";
	int file = mkstemps(path, 4);
	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(write(file, machine_text, sizeof machine_text - 1),
			 sizeof machine_text - 1);
	close(file);
	const char *const env[] = {"OS_TEST=value", NULL};
	const struct sim_config sc = {.engine = p->engine,
				      .strategy = p->strategy,
				      .seed = p->seed,
				      .silent_objects = p->real};
	const struct world_config wc = {
		.hosts = p->real ? 1 : 2, .machine = path, .env = env, .real = p->real};
	ck_assert_int_eq(sim_start(&sc), 0);
	ck_assert_int_eq(world_create(&wc), 0);
	unlink(path);
	enum sim_verdict v = sim_run(case_call, &fn);
	ck_assert_int_eq(v, SIM_PASS);
	ck_assert_uint_eq(world_destroy(), 0);
	sim_stop();
}

static void run_case(int i, void (*fn)(void))
{
	const struct pair *p = &pairs[i];
	fprintf(stderr, "-- %s\n", p->name);
	if (p->world) {
		run_in_world(p, fn);
		return;
	}
	setenv("OS_TEST", "value", 1);
	ck_assert_str_eq(os_sched_in_force()->name, "posix");
	fn();
	const char *first = NULL;
	ck_assert_msg(os_real_alloc_count(&first) == 0, "memory left: %s", first);
}

/* ---- helpers ------------------------------------------------------------------------------------
 */

static struct wait word_wait(const shared_u32 *on, enum wait_kind kind, uint64_t want)
{
	return (struct wait){.on = on,
			     .want = want,
			     .mask = WAIT_MASK_ALL,
			     .kind = kind,
			     .bytes = 4,
			     .why = "test",
			     .from = {-1, -1, -1, NULL}};
}

static struct wait object_wait(const void *on, uint64_t seq)
{
	return (struct wait){.on = on,
			     .want = seq,
			     .kind = WAIT_OBJECT,
			     .why = "test",
			     .from = {-1, -1, -1, NULL}};
}

static struct os_thread *start(const char *name, void (*fn)(void *), void *arg)
{
	const struct os_thread_attr attr = {.name = name, .rank = -1};
	struct os_thread *t = NULL;
	ck_assert_int_eq(os_thread_start(&t, &attr, fn, arg), 0);
	ck_assert_ptr_nonnull(t);
	return t;
}

static void join(struct os_thread *t)
{
	ck_assert_int_eq(os_thread_join(t), 0);
}

/* ---- threads -------------------------------------------------------------------------------- */

struct family {
	shared_u32 count;
	uint32_t id[4];
	struct os_proc *proc[4];
	char name[4][16];
};

static void thread_of_family(void *arg)
{
	struct family *f = arg;
	uint32_t i = shared_add_u32(&f->count, 1, SHARED_ACQ_REL);
	f->id[i] = os_self()->id;
	f->proc[i] = os_proc();
	snprintf(f->name[i], sizeof f->name[i], "%s", os_self()->name);
	ck_assert_ptr_eq(os_self()->slot[OS_SLOT_TEST], NULL);
	os_self()->slot[OS_SLOT_TEST] = f;
}

static void threads_have_identity_and_are_joined(void)
{
	struct family f = {0};
	struct os_thread *t[4];
	for (int i = 0; i < 4; i++)
		t[i] = start("child", thread_of_family, &f);
	for (int i = 0; i < 4; i++)
		join(t[i]);
	ck_assert_uint_eq(shared_load_u32(&f.count, SHARED_ACQUIRE), 4);
	for (int i = 0; i < 4; i++) {
		ck_assert_ptr_eq(f.proc[i], os_proc());
		ck_assert_str_eq(f.name[i], "child");
		ck_assert_uint_ne(f.id[i], os_self()->id);
		for (int j = 0; j < i; j++)
			ck_assert_uint_ne(f.id[i], f.id[j]);
	}
	ck_assert_uint_eq(os_proc()->id, 0);
}

static void thread_counts(void *count)
{
	shared_add_u32(count, 1, SHARED_ACQ_REL);
}

static void detached_threads_run_and_are_not_joined(void)
{
	const struct os_thread_attr attr = {.name = "child", .rank = -1, .detached = true};
	static shared_u32 count; /* outlives the threads */

	shared_store_u32(&count, 0, SHARED_RELEASE);
	for (uint32_t i = 1; i <= 20; i++) {
		const struct wait w = word_wait(&count, WAIT_EQ, i);

		ck_assert_int_eq(os_thread_start(NULL, &attr, thread_counts, &count), 0);
		ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	}
}

struct locked {
	struct os_mutex mutex;
	uint64_t value; /* under the mutex */
};

static void thread_adds_under_lock(void *arg)
{
	struct locked *l = arg;
	for (int i = 0; i < 50; i++) {
		os_mutex_lock(&l->mutex);
		uint64_t v = l->value;
		if (i % 10 == 0)
			os_sleep_ns(1 * US);
		l->value = v + 1;
		os_mutex_unlock(&l->mutex);
	}
}

static void mutex_excludes(void)
{
	struct locked l = {0};
	struct os_thread *t[4];
	for (int i = 0; i < 4; i++)
		t[i] = start("adder", thread_adds_under_lock, &l);
	for (int i = 0; i < 4; i++)
		join(t[i]);
	ck_assert_uint_eq(l.value, 200);
}

/* ---- waiting -------------------------------------------------------------------------------- */

struct words {
	shared_u32 a, b, abort;
	shared_u64 wide;
};

static void thread_writes_words(void *arg)
{
	struct words *w = arg;
	os_sleep_ns(100 * US);
	shared_store_u32(&w->b, 5, SHARED_RELEASE);
	os_sleep_ns(100 * US);
	shared_store_u64(&w->wide, 0xab00000000ull, SHARED_RELEASE);
}

static void wait_names_the_first_that_is_true(void)
{
	struct words w = {0};
	struct os_thread *t = start("writer", thread_writes_words, &w);
	const struct wait wa = word_wait(&w.a, WAIT_NE, 0);
	const struct wait wb = word_wait(&w.b, WAIT_GE, 5);
	const struct wait *both[] = {&wa, &wb};
	int index = -1;
	ck_assert_int_eq(os_wait(both, 2, NULL, &index), 0);
	ck_assert_int_eq(index, 1);
	shared_store_u32(&w.a, 1, SHARED_RELEASE);
	ck_assert_int_eq(os_wait(both, 2, &w.abort, &index), 0);
	ck_assert_int_eq(index, 0);
	struct wait wide = word_wait(NULL, WAIT_EQ, 0xab00000000ull);
	wide.on = &w.wide;
	wide.bytes = 8;
	wide.mask = 0xff00000000ull;
	ck_assert_int_eq(os_wait_one(&wide, NULL), 0);
	ck_assert_uint_eq(shared_load_u64(&w.wide, SHARED_ACQUIRE), 0xab00000000ull);
	join(t);
}

static void wait_times_out_at_its_deadline(void)
{
	shared_u32 never = {0};
	struct wait w = word_wait(&never, WAIT_NE, 0);
	uint64_t start_ns = os_now_ns();
	w.deadline_ns = start_ns + 2 * MS;
	int index = 77;
	const struct wait *list = &w;
	ck_assert_int_eq(os_wait(&list, 1, NULL, &index), ETIMEDOUT);
	ck_assert_int_eq(index, 77);
	ck_assert_uint_ge(os_now_ns(), start_ns + 2 * MS);
	/* one that is true is true, however late */
	shared_store_u32(&never, 1, SHARED_RELEASE);
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
}

static void thread_aborts(void *arg)
{
	os_sleep_ns(100 * US);
	shared_store_u32(arg, 1, SHARED_RELEASE);
}

static void abort_ends_a_wait_and_goes_first(void)
{
	shared_u32 never = {0}, stop = {0};
	const struct wait w = word_wait(&never, WAIT_NE, 0);
	struct os_thread *t = start("aborter", thread_aborts, &stop);
	ck_assert_int_eq(os_wait_one(&w, &stop), ECANCELED);
	join(t);
	shared_store_u32(&never, 1, SHARED_RELEASE);
	ck_assert_int_eq(os_wait_one(&w, &stop), ECANCELED);
	/* no waits at all, only an abort */
	ck_assert_int_eq(os_wait(NULL, 0, &stop, NULL), ECANCELED);
}

struct line {
	shared_u32 word[4];
} __attribute__((aligned(16)));

static void thread_writes_line(void *arg)
{
	struct line *l = arg;
	os_sleep_ns(50 * US);
	shared_store_u32(&l->word[1], 7, SHARED_RELEASE); /* half of it is not enough */
	os_sleep_ns(50 * US);
	shared_store_u32(&l->word[0], 11, SHARED_RELAXED);
	shared_store_u32(&l->word[2], 22, SHARED_RELAXED);
	shared_store_u32(&l->word[3], 7, SHARED_RELEASE);
}

static void line_wait_needs_both_flags(void)
{
	struct line l = {0};
	struct os_thread *t = start("line", thread_writes_line, &l);
	struct wait w = word_wait(NULL, WAIT_LINE16, 7);
	w.on = &l;
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	ck_assert_uint_eq(shared_load_u32(&l.word[0], SHARED_ACQUIRE), 11);
	ck_assert_uint_eq(shared_load_u32(&l.word[2], SHARED_ACQUIRE), 22);
	join(t);
}

struct mailbox {
	shared_u32 letters;
};

static void thread_posts(void *arg)
{
	struct mailbox *m = arg;
	for (int i = 0; i < 20; i++) {
		if (i % 5 == 0)
			os_sleep_ns(20 * US);
		shared_add_u32(&m->letters, 1, SHARED_ACQ_REL);
		os_event_post(m);
	}
}

static void no_event_is_lost_between_poll_and_wait(void)
{
	struct mailbox m = {0};
	struct os_thread *t = start("poster", thread_posts, &m);
	for (;;) {
		uint64_t seq = os_event_seq(&m);
		if (shared_load_u32(&m.letters, SHARED_ACQUIRE) == 20)
			break;
		const struct wait w = object_wait(&m, seq);
		ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	}
	join(t);
	uint64_t seq = os_event_seq(&m);
	os_event_post(&m);
	ck_assert_uint_ne(os_event_seq(&m), seq);
}

static void thread_polled(void *arg)
{
	os_sleep_ns(300 * US);
	shared_store_u32(arg, 1, SHARED_RELEASE);
}

static void polling_gets_there(void)
{
	shared_u32 ready = {0};
	struct os_thread *t = start("polled", thread_polled, &ready);
	while (!shared_load_u32(&ready, SHARED_ACQUIRE))
		os_poll_miss("test");
	os_poll_hit();
	join(t);
}

static void time_moves_forward(void)
{
	uint64_t before = os_now_ns();
	os_sleep_ns(1 * MS);
	uint64_t after = os_now_ns();
	ck_assert_uint_ge(after, before + 1 * MS);
	os_charge(OS_COST_CALL, 3);
	os_charge(OS_COST_NS, 100);
	os_sleep_ns(0);
	ck_assert_uint_ge(os_now_ns(), after);
}

static void choices_are_in_range(void)
{
	for (uint32_t n = 1; n < 20; n++) {
		uint32_t got = os_choose("test.choice", n);
		ck_assert_uint_lt(got, n);
	}
	ck_assert_uint_eq(os_choose("test.one", 1), 0);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void alloc_gives_zeroed_memory(void)
{
	for (size_t bytes = 1; bytes < 100000; bytes = bytes * 3 + 1) {
		uint8_t *p = os_alloc(bytes, "test block");
		ck_assert_ptr_nonnull(p);
		ck_assert_uint_eq((uintptr_t)p % 16, 0);
		ck_assert_uint_eq(bytes_until_not(p, 0, bytes), bytes);
		memset(p, 0xff, bytes);
		os_free(p);
	}
	os_free(NULL);
	ck_assert_ptr_null(os_alloc(SIZE_MAX - 8, "too much"));
}

static int memo_made;

static void *memo_make(const void *key, size_t bytes, void *arg)
{
	memo_made++;
	if (arg)
		return NULL;
	uint64_t *v = malloc(sizeof *v);
	*v = hash64(key, bytes);
	return v;
}

static void memo_makes_a_value_once(void)
{
	memo_made = 0;
	const uint64_t *a = os_memo("test", "alpha", 5, memo_make, NULL);
	const uint64_t *b = os_memo("test", "beta", 4, memo_make, NULL);
	ck_assert_ptr_nonnull(a);
	ck_assert_ptr_ne(a, b);
	ck_assert_ptr_eq(os_memo("test", "alpha", 5, memo_make, NULL), a);
	ck_assert_ptr_ne(os_memo("other", "alpha", 5, memo_make, NULL), a);
	ck_assert_int_eq(memo_made, 3);
	int fail = 1;
	ck_assert_ptr_null(os_memo("test", "gamma", 5, memo_make, &fail));
	ck_assert_ptr_nonnull(os_memo("test", "gamma", 5, memo_make, NULL));
	ck_assert_int_eq(memo_made, 5);
}

/* ---- identity and files --------------------------------------------------------------------- */

static void host_has_a_name_and_an_environment(void)
{
	char name[64], again[64], small[3];
	os_host_name(name, sizeof name);
	ck_assert_uint_gt(strlen(name), 0);
	os_host_name(small, sizeof small);
	ck_assert_uint_le(strlen(small), 2);
	os_boot_id(name, sizeof name);
	os_boot_id(again, sizeof again);
	ck_assert_str_eq(name, again);
	ck_assert_uint_ge(strlen(name), 8);
	ck_assert_str_eq(os_env("OS_TEST"), "value");
	ck_assert_ptr_null(os_env("OS_TEST_NOT_SET"));
	ck_assert_int_ge(os_cpu(), -1);
	uint8_t a[16] = {0}, b[16] = {0};
	os_random(a, sizeof a);
	os_random(b, sizeof b);
	ck_assert_int_ne(memcmp(a, b, sizeof a), 0);
}

static void files_are_read_whole(void)
{
	char *data = NULL, id[64];
	size_t bytes = 0;
	ck_assert_int_eq(os_file_read("/no/such/file", &data, &bytes), ENOENT);
	ck_assert_ptr_null(data);
	ck_assert_int_eq(os_file_read("/proc/sys/kernel/random/boot_id", &data, &bytes), 0);
	ck_assert_uint_eq(strlen(data), bytes);
	os_boot_id(id, sizeof id);
	ck_assert_int_eq(strncmp(data, id, strlen(id)), 0);
	os_free(data);
}

static void agreement_is_by_key_and_sequence(void)
{
	struct os_agree_other other = {.rank = -5};
	ck_assert_int_eq(os_agree(1, 0, 0, "count 4", NULL, &other), 0);
	ck_assert_int_eq(os_agree(1, 0, 1, "count 4", NULL, &other), 0);
	ck_assert_int_eq(os_agree(2, 0, 1, "count 5", NULL, &other), 0);
	ck_assert_int_eq(os_agree(1, 1, 1, "count 5", NULL, &other), 0);
	ck_assert_int_eq(other.rank, -5);
	int rc = os_agree(1, 0, 2, "count 8", NULL, &other);
	if (strcmp(os_world_in_force()->name, "real") == 0) {
		ck_assert_int_eq(rc, 0);
		return;
	}
	ck_assert_int_eq(rc, EINVAL);
	ck_assert_int_eq(other.rank, 0);
	ck_assert_str_eq(other.text, "count 4");
	for (uint64_t seq = 2; seq < 300; seq++)
		ck_assert_int_eq(os_agree(1, seq, 0, "count 4", NULL, NULL), 0);
	/* long ago: not compared any more */
	ck_assert_int_eq(os_agree(1, 0, 2, "count 8", NULL, NULL), 0);
}

static void agents_keep_one_order_between_keys(void)
{
	enum { A = 100, B, ONE = 1, TWO };
	struct os_agree_other other = {.rank = -5};
	for (uint64_t agent = ONE; agent <= TWO; agent++) {
		os_agree_member(A, agent, true);
		os_agree_member(B, agent, true);
	}
	ck_assert_int_eq(os_agree_order(A, ONE, 0, 0, "A 0", NULL, &other), 0);
	ck_assert_int_eq(os_agree_order(B, ONE, 0, 0, "B 0", NULL, &other), 0);
	ck_assert_int_eq(os_agree_order(A, TWO, 0, 1, "A 0", NULL, &other), 0);
	ck_assert_int_eq(os_agree_order(A, 3, 1, 0, "no member", NULL, &other), 0);
	ck_assert_int_eq(other.rank, -5);
	int rc = os_agree_order(A, TWO, 1, 1, "A 1", NULL, &other);
	if (strcmp(os_world_in_force()->name, "real") == 0) {
		ck_assert_int_eq(rc, 0);
		return;
	}
	ck_assert_int_eq(rc, EINVAL);
	ck_assert_int_eq(other.rank, 0);
	ck_assert_str_eq(other.text, "B 0");
	/* who has left is compared no more */
	os_agree_member(B, TWO, false);
	ck_assert_int_eq(os_agree_order(A, TWO, 2, 1, "A 2", NULL, &other), 0);
	os_agree_member(A, ONE, false);
	os_agree_member(A, TWO, false);
	os_agree_member(B, ONE, false);
}

/* ---- sockets -------------------------------------------------------------------------------- */

static struct os_addr loopback(uint16_t port)
{
	return (struct os_addr){.family = 4, .port = port, .ip = {127, 0, 0, 1}};
}

static void socket_wait(int fd, uint64_t seq)
{
	const struct wait w = object_wait(os_socket_object(fd), seq);
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
}

static int connect_and_wait(const struct os_addr *to, int *fd)
{
	int rc = os_connect(to, fd);
	if (rc)
		return rc;
	for (;;) {
		uint64_t seq = os_event_seq(os_socket_object(*fd));
		rc = os_connected(*fd);
		if (rc != EAGAIN)
			return rc;
		socket_wait(*fd, seq);
	}
}

static int accept_and_wait(int fd, struct os_addr *peer)
{
	int conn = -1;
	for (;;) {
		uint64_t seq = os_event_seq(os_socket_object(fd));
		int rc = os_accept(fd, &conn, peer);
		if (rc == 0)
			return conn;
		ck_assert_int_eq(rc, EAGAIN);
		socket_wait(fd, seq);
	}
}

static void send_all(int fd, const uint8_t *data, size_t n)
{
	for (size_t at = 0; at < n;) {
		uint64_t seq = os_event_seq(os_socket_object(fd));
		size_t done = 0;
		int rc = os_send(fd, data + at, n - at, &done);
		if (rc == EAGAIN) {
			socket_wait(fd, seq);
			continue;
		}
		ck_assert_int_eq(rc, 0);
		ck_assert_uint_gt(done, 0);
		at += done;
	}
}

/* Bytes read until n, or the end of the stream. */
static size_t recv_all(int fd, uint8_t *data, size_t n)
{
	for (size_t at = 0; at < n;) {
		uint64_t seq = os_event_seq(os_socket_object(fd));
		size_t done = 0;
		int rc = os_recv(fd, data + at, n - at, &done);
		if (rc == EAGAIN) {
			socket_wait(fd, seq);
			continue;
		}
		ck_assert_int_eq(rc, 0);
		if (done == 0)
			return at;
		at += done;
	}
	return n;
}

#define ECHO_BYTES 700001

static uint8_t echo_byte(size_t i)
{
	return (uint8_t)(i * 131 + (i >> 8));
}

static void thread_echoes(void *arg)
{
	const struct os_addr *to = arg;
	int fd = -1;
	ck_assert_int_eq(connect_and_wait(to, &fd), 0);
	uint8_t *data = os_alloc(ECHO_BYTES, "echo");
	ck_assert_uint_eq(recv_all(fd, data, ECHO_BYTES), ECHO_BYTES);
	send_all(fd, data, ECHO_BYTES);
	os_free(data);
	ck_assert_int_eq(os_close(fd), 0);
}

static void bytes_go_both_ways_in_order_then_end(void)
{
	int fd = -1;
	struct os_addr at = loopback(0), bound, peer;
	ck_assert_int_eq(os_listen(&at, &fd, &bound), 0);
	ck_assert_uint_ne(bound.port, 0);
	struct os_thread *t = start("echo", thread_echoes, &bound);
	int conn = accept_and_wait(fd, &peer);
	ck_assert_uint_eq(peer.family, 4);
	uint8_t *data = os_alloc(ECHO_BYTES + 10, "payload"),
		*back = os_alloc(ECHO_BYTES + 10, "back");
	for (size_t i = 0; i < ECHO_BYTES; i++)
		data[i] = echo_byte(i);
	send_all(conn, data, ECHO_BYTES);
	/* asks for more than comes: ends where the peer closed */
	ck_assert_uint_eq(recv_all(conn, back, ECHO_BYTES + 10), ECHO_BYTES);
	ck_assert_int_eq(memcmp(data, back, ECHO_BYTES), 0);
	join(t);
	os_free(data);
	os_free(back);
	ck_assert_int_eq(os_close(conn), 0);
	ck_assert_int_eq(os_close(fd), 0);
	ck_assert_int_eq(os_close(fd), EBADF);
}

static void nobody_listens_is_connection_refused(void)
{
	int fd = -1, listener = -1;
	struct os_addr at = loopback(0), bound;
	ck_assert_int_eq(os_listen(&at, &listener, &bound), 0);
	ck_assert_int_eq(os_close(listener), 0);
	int rc = connect_and_wait(&bound, &fd);
	ck_assert_int_eq(rc, ECONNREFUSED);
	if (fd >= 0)
		ck_assert_int_eq(os_close(fd), 0);
}

static void a_port_is_taken_once(void)
{
	int fd = -1, other = -1;
	struct os_addr at = loopback(0), bound, second = {.port = 9};
	ck_assert_int_eq(os_listen(&at, &fd, &bound), 0);
	ck_assert_int_eq(os_listen(&bound, &other, &second), EADDRINUSE);
	ck_assert_int_eq(other, -1);
	ck_assert_uint_eq(second.port, 9);
	int conn = -1;
	ck_assert_int_eq(os_accept(fd, &conn, NULL), EAGAIN);
	ck_assert_int_eq(os_close(fd), 0);
}

static void writing_to_a_closed_peer_breaks(void)
{
	int fd = -1, out = -1, rc = 0;
	struct os_addr at = loopback(0), bound;
	uint8_t data[100] = {1};
	ck_assert_int_eq(os_listen(&at, &fd, &bound), 0);
	ck_assert_int_eq(connect_and_wait(&bound, &out), 0);
	int conn = accept_and_wait(fd, NULL);
	ck_assert_int_eq(os_close(conn), 0);
	for (int i = 0; i < 1000 && !rc; i++) {
		size_t done = 0;
		rc = os_send(out, data, sizeof data, &done);
		os_sleep_ns(100 * US);
	}
	ck_assert_msg(rc == EPIPE || rc == ECONNRESET, "rc %d", rc);
	ck_assert_int_eq(os_close(out), 0);
	ck_assert_int_eq(os_close(fd), 0);
}

static void a_sender_that_outruns_its_reader_is_held(void)
{
	int fd = -1, out = -1, rc = 0;
	struct os_addr at = loopback(0), bound;
	uint8_t data[8192] = {0};
	size_t sent = 0, got = 0;
	ck_assert_int_eq(os_listen(&at, &fd, &bound), 0);
	ck_assert_int_eq(connect_and_wait(&bound, &out), 0);
	int conn = accept_and_wait(fd, NULL);
	while (rc == 0) {
		size_t done = 0;
		rc = os_send(out, data, sizeof data, &done);
		sent += rc ? 0 : done;
		ck_assert_uint_lt(sent, 1u << 30);
	}
	ck_assert_int_eq(rc, EAGAIN);
	ck_assert_int_eq(os_close(out), 0);
	while ((rc = (int)recv_all(conn, data, sizeof data)))
		got += (size_t)rc;
	ck_assert_uint_eq(got, sent);
	ck_assert_int_eq(os_close(conn), 0);
	ck_assert_int_eq(os_close(fd), 0);
}

static void interfaces_are_listed_and_reachable(void)
{
	char name[32] = "";
	struct os_addr addr = {0}, bound;
	ck_assert_int_eq(os_interface(0, name, sizeof name, &addr), 0);
	ck_assert_uint_gt(strlen(name), 0);
	ck_assert(addr.family == 4 || addr.family == 6);
	ck_assert_int_eq(os_interface(100000, name, sizeof name, &addr), ENOENT);
	int fd = -1, out = -1;
	addr.port = 0;
	ck_assert_int_eq(os_listen(&addr, &fd, &bound), 0);
	ck_assert_int_eq(connect_and_wait(&bound, &out), 0);
	int conn = accept_and_wait(fd, NULL);
	ck_assert_int_eq(os_close(conn), 0);
	ck_assert_int_eq(os_close(out), 0);
	ck_assert_int_eq(os_close(fd), 0);
}

/* ---- shared memory -------------------------------------------------------------------------- */

static void shm_is_made_opened_and_unlinked(void)
{
	char name[64];
	snprintf(name, sizeof name, "doppel-os-test-%d", (int)getpid());
	uint8_t *a = NULL, *b = NULL;
	void *none = NULL;
	ck_assert_int_eq(os_shm_open(name, 4096, &none), ENOENT);
	ck_assert_int_eq(os_shm_create("with/slash", 4096, &none), EINVAL);
	ck_assert_int_eq(os_shm_create(name, 8192, (void **)&a), 0);
	ck_assert_int_eq(os_shm_create(name, 8192, &none), EEXIST);
	ck_assert_ptr_null(none);
	ck_assert_uint_eq(bytes_until_not(a, 0, 8192), 8192);
	ck_assert_int_eq(os_shm_open(name, 1 << 20, &none), EINVAL);
	ck_assert_int_eq(os_shm_open(name, 8192, (void **)&b), 0);
	a[4097] = 42;
	ck_assert_uint_eq(b[4097], 42);
	ck_assert_int_eq(os_shm_unlink(name), 0);
	ck_assert_int_eq(os_shm_unlink(name), ENOENT);
	ck_assert_int_eq(os_shm_open(name, 4096, &none), ENOENT);
	b[1] = 7;
	ck_assert_uint_eq(a[1], 7);
	ck_assert_int_eq(os_shm_unmap(a, 8192), 0);
	ck_assert_int_eq(os_shm_unmap(b, 8192), 0);
}

/* ---- the table of cases --------------------------------------------------------------------- */

#define CASES(X)                                                                                   \
	X(threads_have_identity_and_are_joined)                                                    \
	X(detached_threads_run_and_are_not_joined)                                                 \
	X(mutex_excludes)                                                                          \
	X(wait_names_the_first_that_is_true)                                                       \
	X(wait_times_out_at_its_deadline)                                                          \
	X(abort_ends_a_wait_and_goes_first)                                                        \
	X(line_wait_needs_both_flags)                                                              \
	X(no_event_is_lost_between_poll_and_wait)                                                  \
	X(polling_gets_there)                                                                      \
	X(time_moves_forward)                                                                      \
	X(choices_are_in_range)                                                                    \
	X(alloc_gives_zeroed_memory)                                                               \
	X(memo_makes_a_value_once)                                                                 \
	X(host_has_a_name_and_an_environment)                                                      \
	X(files_are_read_whole)                                                                    \
	X(agreement_is_by_key_and_sequence)                                                        \
	X(agents_keep_one_order_between_keys)                                                      \
	X(bytes_go_both_ways_in_order_then_end)                                                    \
	X(nobody_listens_is_connection_refused)                                                    \
	X(a_port_is_taken_once)                                                                    \
	X(writing_to_a_closed_peer_breaks)                                                         \
	X(a_sender_that_outruns_its_reader_is_held)                                                \
	X(interfaces_are_listed_and_reachable)                                                     \
	X(shm_is_made_opened_and_unlinked)

#define CASE_ROW(name) {#name, name},
static const struct {
	const char *name;
	void (*fn)(void);
} cases[] = {CASES(CASE_ROW)};

START_TEST(os_case)
{
	run_case(_i % PAIRS, cases[_i / PAIRS].fn);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("os");
	for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
		TCase *tc = tcase_create(cases[i].name);
		tcase_set_timeout(tc, 60);
		tcase_add_loop_test(tc, os_case, i * PAIRS, (i + 1) * PAIRS);
		suite_add_tcase(suite, tc);
	}
	SRunner *runner = srunner_create(suite);
	srunner_set_fork_status(runner, CK_FORK);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
