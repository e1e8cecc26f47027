/* SPDX-License-Identifier: BSD-3-Clause */
/* sim/world: processes and what they own, borders between them, leaks, faults, the fabric. Every
 * case makes a world of two hosts and runs as its main task; os.h's own contract is tested by
 * tests/conformance/os. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/os/os_ops.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"
#include "tests/suite.h"

#define US 1000ull

/* ---- a world, its output, and its leaks ----------------------------------------------------- */

static struct {
	enum sim_verdict verdict;
	uint64_t leaks, hash;
	char said[16384]; /* stderr */
} run;

static const char *const no_env[] = {NULL};

static int capture_start(void)
{
	fflush(stderr);
	int keep = dup(STDERR_FILENO), file = fileno(tmpfile());
	dup2(file, STDERR_FILENO);
	return keep;
}

static void capture_end(int keep)
{
	fflush(stderr);
	lseek(STDERR_FILENO, 0, SEEK_SET);
	ssize_t n = read(STDERR_FILENO, run.said, sizeof run.said - 1);
	run.said[n > 0 ? n : 0] = '\0';
	dup2(keep, STDERR_FILENO);
	close(keep);
	fputs(run.said, stderr);
}

static void run_world(const struct sim_config *sc, void (*fn)(void *), void *arg)
{
	const struct world_config wc = {.hosts = 2, .machine = "a100-4nic", .env = no_env};
	ck_assert_int_eq(sim_start(sc), 0);
	int keep = capture_start();
	int rc = world_create(&wc);
	if (rc == 0) {
		run.verdict = sim_run(fn, arg);
		run.hash = sim_hash();
		run.leaks = world_destroy();
	}
	sim_stop();
	capture_end(keep);
	ck_assert_int_eq(rc, 0);
}

static void run_sim(uint64_t seed, void (*fn)(void *))
{
	const struct sim_config sc = {.seed = seed};
	run_world(&sc, fn, NULL);
}

static void ran_clean(void)
{
	ck_assert_int_eq(run.verdict, SIM_PASS);
	ck_assert_uint_eq(run.leaks, 0);
}

static void said(const char *text)
{
	ck_assert_msg(strstr(run.said, text) != NULL, "'%s' does not say '%s'", run.said, text);
}

/* Runs fn(arg) as a task of a process and waits for its end. */
static void in_proc(struct os_proc *p, void (*fn)(void *), void *arg)
{
	const struct os_thread_attr attr = {.name = "test", .rank = -1};
	struct os_thread *t = NULL;
	ck_assert_int_eq(world_thread_start(p, &t, &attr, fn, arg), 0);
	ck_assert_int_eq(os_thread_join(t), 0);
}

static struct os_proc *proc_on(uint32_t host)
{
	struct os_proc *p = NULL;
	ck_assert_int_eq(world_proc_create(host, NULL, &p), 0);
	return p;
}

/* ---- processes ------------------------------------------------------------------------------ */

static void task_sees_its_environment(void *arg)
{
	char name[32];
	ck_assert_ptr_eq(os_proc(), arg);
	ck_assert_str_eq(os_env("NCCL_IB_TIMEOUT"), "18");
	ck_assert_int_eq(param_i64(PARAM_IB_TIMEOUT), 18);
	ck_assert_str_eq(os_env("NCCL_TOPO_FILE"), "/topo/machine.xml");
	ck_assert(log_wanted(LOG_LEVEL_INFO, LOG_INIT));
	os_host_name(name, sizeof name);
	ck_assert_str_eq(name, "host1");
	char *xml = NULL;
	size_t bytes = 0;
	ck_assert_int_eq(os_file_read("/topo/machine.xml", &xml, &bytes), 0);
	ck_assert_uint_eq(bytes, world_host_machine(1)->xml_bytes);
	ck_assert_str_eq(xml, world_host_machine(1)->xml);
	os_free(xml);
	WARN("only here");
}

static void main_environment(void *arg)
{
	struct os_proc *p = proc_on(1);
	ck_assert_uint_eq(p->id, 1);
	ck_assert_uint_eq(p->host, 1);
	ck_assert_str_eq(p->name, "host1/p1");
	ck_assert_ptr_eq(world_proc_by_id(1), p);
	ck_assert_ptr_null(world_proc_by_id(2));
	ck_assert_int_ne(p->pid, os_proc()->pid);
	ck_assert_int_eq(world_proc_setenv(p, "NCCL_IB_TIMEOUT", "19"), 0);
	ck_assert_int_eq(world_proc_setenv(p, "NCCL_IB_TIMEOUT", "18"), 0);
	ck_assert_int_eq(world_proc_setenv(p, "NCCL_DEBUG", "INFO"), 0);
	ck_assert_int_eq(world_proc_setenv(p, "BAD=NAME", "1"), EINVAL);
	in_proc(p, task_sees_its_environment, p);
	ck_assert_ptr_null(os_env("NCCL_IB_TIMEOUT"));
	ck_assert_int_eq(param_i64(PARAM_IB_TIMEOUT), 20);
	ck_assert(!log_wanted(LOG_LEVEL_INFO, LOG_INIT));
	ck_assert_str_eq(log_last_error(), "");
	world_proc_exit(p);
	ck_assert(!world_proc_alive(p));
	ck_assert_int_eq(world_proc_create(7, NULL, &p), EINVAL);
}

START_TEST(a_process_has_its_own_environment_and_log)
{
	setenv("NCCL_IB_TIMEOUT", "3", 1); /* the real one is not inherited */
	run_sim(1, main_environment);
	ran_clean();
	said("NCCL WARN only here");
}
END_TEST

static void task_leaks(void *arg)
{
	struct os_addr at = {.family = 4}, bound;
	void *mem;
	int fd;
	ck_assert_ptr_nonnull(os_alloc(10, "first block"));
	ck_assert_ptr_nonnull(os_alloc(10, "second block"));
	ck_assert_int_eq(os_listen(&at, &fd, &bound), 0);
	ck_assert_int_eq(os_shm_create("left", 4096, &mem), 0);
}

static void main_leaks(void *arg)
{
	struct os_proc *p = proc_on(0);
	in_proc(p, task_leaks, NULL);
	world_proc_exit(p);
}

START_TEST(what_a_process_leaves_is_counted_by_kind)
{
	run_sim(1, main_leaks);
	ck_assert_uint_eq(run.leaks, 5);
	said("leak: descriptor 1 (first: listener 0.0.0.0:32768 of host0/p1)\n"
	     "leak: memory 2 (first: first block of host0/p1)\n"
	     "leak: shared memory mapping 1 (first: left of host0/p1)\n"
	     "leak: shared memory segment 1 (first: left on host0)\n");
}
END_TEST

static void task_ends(void *arg)
{
}

static void task_sleeps_for_ever(void *arg)
{
	for (;;)
		os_sleep_ns(1000 * US);
}

static void main_leaks_tasks(void *arg)
{
	const struct os_thread_attr done = {.name = "not joined", .rank = -1};
	const struct os_thread_attr watchdog = {.name = "watchdog", .rank = -1, .background = true};
	struct os_thread *t;
	ck_assert_int_eq(os_thread_start(&t, &done, task_ends, NULL), 0);
	ck_assert_int_eq(os_thread_start(&t, &watchdog, task_sleeps_for_ever, NULL), 0);
	os_sleep_ns(100 * US);
}

START_TEST(tasks_left_behind_are_leaks)
{
	run_sim(_i, main_leaks_tasks);
	ck_assert_int_eq(run.verdict, SIM_PASS);
	ck_assert_uint_eq(run.leaks, 2);
	said("leak: task 2 (first: not joined)\n");
}
END_TEST

static void task_leaks_and_hangs(void *arg)
{
	shared_u32 never = {0};
	task_leaks(NULL);
	os_shm_unlink("left");
	const struct wait w = {.on = &never,
			       .want = 1,
			       .mask = WAIT_MASK_ALL,
			       .kind = WAIT_EQ,
			       .bytes = 4,
			       .why = "never"};
	os_wait_one(&w, NULL);
	ck_abort_msg("a killed task ran on");
}

static void main_kills(void *arg)
{
	const struct os_thread_attr attr = {.name = "victim", .rank = 0};
	struct os_proc *p = proc_on(1);
	struct os_thread *t;
	ck_assert_int_eq(world_thread_start(p, &t, &attr, task_leaks_and_hangs, NULL), 0);
	os_sleep_ns(1000 * US);
	world_proc_kill(p);
	ck_assert(!world_proc_alive(p));
	ck_assert_int_eq(os_thread_join(t), 0);
	world_proc_kill(p); /* dead already: nothing */
	world_proc_exit(p);
}

START_TEST(a_killed_process_leaks_nothing)
{
	run_sim(_i, main_kills);
	ran_clean();
}
END_TEST

/* ---- borders between processes -------------------------------------------------------------- */

static int foreign_fd;

static void task_uses_foreign_descriptor(void *arg)
{
	uint8_t b = 0;
	size_t done = 0;
	ck_assert_int_eq(os_send(foreign_fd, &b, 1, &done), EBADF);
	ck_assert_int_eq(os_close(foreign_fd), EBADF);
	ck_assert_ptr_null(os_socket_object(foreign_fd));
	ck_assert_int_eq(os_close(99), EBADF);
	ck_assert_int_eq(os_close(-1), EBADF);
}

static void main_foreign(void *arg)
{
	struct os_addr at = {.family = 4}, bound;
	void *mem;
	ck_assert_int_eq(os_listen(&at, &foreign_fd, &bound), 0);
	struct os_proc *p = proc_on(0);
	in_proc(p, task_uses_foreign_descriptor, NULL);
	world_proc_exit(p);
	ck_assert_int_eq(os_close(foreign_fd), 0);
	ck_assert_int_eq(os_shm_unmap(&mem, 4096), EINVAL);
}

START_TEST(a_foreign_descriptor_is_named_with_both_processes)
{
	run_sim(1, main_foreign);
	ran_clean();
	said("process host0/p1 used descriptor 3, which belongs to process host0/main");
	said("process host0/main has no mapping there");
}
END_TEST

static void task_other_host(void *arg)
{
	void *mem = NULL;
	struct os_addr at = {.family = 4, .ip = {10, 0, 0, 1}}, bound;
	int fd;
	ck_assert_int_eq(os_shm_open("here", 4096, &mem, NULL), ENOENT);
	ck_assert_int_eq(os_listen(&at, &fd, &bound), EADDRNOTAVAIL);
	at.ip[2] = 77;
	ck_assert_int_eq(os_connect(&at, &fd), EHOSTUNREACH);
	at.family = 5;
	ck_assert_int_eq(os_connect(&at, &fd), EAFNOSUPPORT);
}

static void task_same_host(void *arg)
{
	void *mem = NULL;
	ck_assert_int_eq(os_shm_open("here", 4096, &mem, NULL), 0);
	ck_assert_int_eq(*(int *)mem, 42);
	ck_assert_int_eq(os_shm_unmap(mem, 4096), 0);
}

static void main_hosts(void *arg)
{
	int *mem = NULL;
	char a[64], b[64];
	ck_assert_int_eq(os_shm_create("here", 4096, (void **)&mem), 0);
	*mem = 42;
	in_proc(proc_on(0), task_same_host, NULL);
	in_proc(proc_on(1), task_other_host, NULL);
	ck_assert_int_eq(os_shm_unlink("here"), 0);
	ck_assert_int_eq(os_shm_unmap(mem, 4096), 0);
	os_boot_id(a, sizeof a);
	ck_assert_uint_eq(strlen(a), 36);
	os_host_name(b, sizeof b);
	ck_assert_str_eq(b, "host0");
}

START_TEST(shared_memory_and_addresses_belong_to_a_host)
{
	run_sim(1, main_hosts);
	ran_clean();
}
END_TEST

/* ---- sockets under faults and between processes --------------------------------------------- */

struct dialog {
	struct os_addr at;
	shared_u32 listening;
	int client_rc, server_rc;
	uint64_t got;
};

static int wait_socket(int fd, uint64_t seq)
{
	const struct wait w = {.on = os_socket_object(fd),
			       .want = seq,
			       .kind = WAIT_OBJECT,
			       .why = "socket",
			       .from = {-1, -1, -1, NULL}};
	return os_wait_one(&w, NULL);
}

static void task_server(void *arg)
{
	struct dialog *d = arg;
	struct os_addr at = {.family = 4};
	char name[16];
	uint8_t data[1000];
	int fd, conn;
	ck_assert_int_eq(os_interface(0, name, sizeof name, &d->at), 0);
	uint64_t ip = d->at.port;
	ck_assert_uint_eq(ip, 0);
	struct os_addr bound;
	ck_assert_int_eq(os_listen(&at, &fd, &bound), 0);
	d->at.port = bound.port;
	shared_store_u32(&d->listening, 1, SHARED_RELEASE);
	for (;;) {
		uint64_t seq = os_event_seq(os_socket_object(fd));
		if (os_accept(fd, &conn, NULL) == 0)
			break;
		wait_socket(fd, seq);
	}
	for (;;) {
		size_t done = 0;
		uint64_t seq = os_event_seq(os_socket_object(conn));
		int rc = os_recv(conn, data, sizeof data, &done);
		if (rc == EAGAIN) {
			wait_socket(conn, seq);
			continue;
		}
		d->server_rc = rc;
		d->got += done;
		if (rc || !done)
			break;
	}
	os_close(conn);
	os_close(fd);
}

static void task_client(void *arg)
{
	struct dialog *d = arg;
	uint8_t data[5000] = {1, 2, 3};
	int fd, rc;
	const struct wait w = {.on = &d->listening,
			       .want = 1,
			       .mask = WAIT_MASK_ALL,
			       .kind = WAIT_EQ,
			       .bytes = 4,
			       .why = "listening",
			       .from = {-1, -1, -1, NULL}};
	os_wait_one(&w, NULL);
	rc = os_connect(&d->at, &fd);
	if (rc) {
		d->client_rc = rc;
		return;
	}
	for (size_t sent = 0; sent < 100000;) {
		size_t done = 0;
		uint64_t seq = os_event_seq(os_socket_object(fd));
		rc = os_send(fd, data, sizeof data, &done);
		if (rc && rc != EAGAIN)
			break;
		if (rc == EAGAIN)
			wait_socket(fd, seq);
		sent += rc ? 0 : done;
		rc = 0;
	}
	d->client_rc = rc;
	os_close(fd);
}

static struct dialog dialog;

static void main_dialog(void *arg)
{
	const struct os_thread_attr sa = {.name = "server", .rank = 0},
				    ca = {.name = "client", .rank = 1};
	struct os_proc *server = proc_on(0), *client = proc_on(1);
	struct os_thread *s, *c;
	dialog = (struct dialog){0};
	ck_assert_int_eq(world_thread_start(server, &s, &sa, task_server, &dialog), 0);
	ck_assert_int_eq(world_thread_start(client, &c, &ca, task_client, &dialog), 0);
	os_thread_join(c);
	os_thread_join(s);
	world_proc_exit(client);
	world_proc_exit(server);
}

START_TEST(hosts_talk_over_sockets)
{
	run_sim((uint64_t)_i, main_dialog);
	ran_clean();
	ck_assert_int_eq(dialog.client_rc, 0);
	ck_assert_int_eq(dialog.server_rc, 0);
	ck_assert_uint_ge(dialog.got, 100000);
	uint64_t hash = run.hash;
	run_sim((uint64_t)_i, main_dialog);
	ck_assert_uint_eq(run.hash, hash);
}
END_TEST

START_TEST(a_reset_breaks_both_ends)
{
	const struct sim_config sc = {.seed = (uint64_t)_i,
				      .fault_plan = "os.socket rank=1 nth=5 reset\n"};
	run_world(&sc, main_dialog, NULL);
	ran_clean();
	ck_assert_int_eq(dialog.client_rc, ECONNRESET);
	ck_assert_int_eq(dialog.server_rc, ECONNRESET);
}
END_TEST

/* The same mains on pthreads: what they promise does not depend on the engine. */
static void (*const mains_for_threads[])(void *) = {main_environment, main_hosts, main_foreign,
						    main_dialog};

START_TEST(the_world_is_the_same_under_threads)
{
	const struct sim_config sc = {.engine = SIM_ENGINE_THREADS};
	run_world(&sc, mains_for_threads[_i], NULL);
	ran_clean();
}
END_TEST

static void task_allocates(void *arg)
{
	char name[16];
	void *mem = NULL;
	snprintf(name, sizeof name, "t%u", os_self()->id);
	ck_assert_int_eq(os_shm_create(name, 4096, &mem), 0);
	for (int i = 0; i < 200; i++) {
		char text[32];
		void *p = os_alloc(64, "block");
		os_random(p, 64);
		snprintf(text, sizeof text, "count %d", i);
		ck_assert_int_eq(os_agree(9, (uint64_t)i, 0, text, NULL, NULL), 0);
		ck_assert_ptr_nonnull(os_env("NCCL_TOPO_FILE"));
		os_free(p);
	}
	ck_assert_int_eq(os_shm_unlink(name), 0);
	ck_assert_int_eq(os_shm_unmap(mem, 4096), 0);
}

static void main_crowd(void *arg)
{
	const struct os_thread_attr attr = {.name = "crowd", .rank = -1};
	struct os_proc *p = proc_on(0), *q = proc_on(1);
	struct os_thread *t[8];
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(
			world_thread_start(i % 2 ? p : q, &t[i], &attr, task_allocates, NULL), 0);
	for (int i = 0; i < 8; i++)
		os_thread_join(t[i]);
	world_proc_exit(p);
	world_proc_exit(q);
}

START_TEST(many_tasks_share_what_is_shared)
{
	const struct sim_config sc = {.engine = _i ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM};
	run_world(&sc, main_crowd, NULL);
	ran_clean();
}
END_TEST

static void main_alloc_fails(void *arg)
{
	ck_assert_ptr_null(os_alloc(8, "fails"));
	void *p = os_alloc(8, "works");
	ck_assert_ptr_nonnull(p);
	os_free(p);
	char *data;
	size_t bytes;
	ck_assert_int_eq(os_file_read("/topo/machine.xml", &data, &bytes), EIO);
}

START_TEST(faults_fail_allocations_and_files)
{
	const struct sim_config sc = {.fault_plan =
					      "os.alloc nth=1 fail\nos.file fail errno=EIO\n"};
	run_world(&sc, main_alloc_fails, NULL);
	ran_clean();
}
END_TEST

/* ---- the fabric ----------------------------------------------------------------------------- */

static struct {
	shared_u32 count;
	uint64_t at[64];
	uint64_t arg[64];
} arrivals;

static void step_arrive(void *object, uint64_t arg)
{
	uint32_t i = arrivals.count.v_;
	arrivals.at[i] = sim_now_ns();
	arrivals.arg[i] = arg;
	shared_store_u32(&arrivals.count, i + 1, SHARED_RELEASE);
}

static void wait_arrivals(uint32_t n)
{
	const struct wait w = {.on = &arrivals.count,
			       .want = n,
			       .mask = WAIT_MASK_ALL,
			       .kind = WAIT_GE,
			       .bytes = 4,
			       .why = "arrivals",
			       .from = {-1, -1, -1, NULL}};
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
}

static void main_fabric(void *arg)
{
	struct world_port *a = world_port_of(0, 0), *b = world_port_of(1, 2);
	ck_assert_uint_eq(world_port_count(), 8);
	ck_assert_uint_eq(b->index, 6);
	ck_assert_uint_eq(b->host, 1);
	ck_assert_ptr_eq(world_port(6), b);
	ck_assert_ptr_null(world_port(8));
	ck_assert_ptr_null(world_port_of(0, 4));
	ck_assert_int_ne(memcmp(a->ipv4, b->ipv4, 4), 0);
	uint64_t start = os_now_ns();
	/* 25,000 MB/s: 1 MB takes 40 us, the second one waits for the first */
	ck_assert(world_fabric_send(a, b, 1000000, a, step_arrive, &arrivals, 1));
	ck_assert(world_fabric_send(a, b, 1000000, a, step_arrive, &arrivals, 2));
	ck_assert(world_fabric_send(b, a, 1000, b, step_arrive, &arrivals, 3));
	wait_arrivals(3);
	ck_assert_uint_eq(arrivals.arg[0], 3);
	ck_assert_uint_eq(arrivals.at[0] - start, 40 + 1500);
	ck_assert_uint_eq(arrivals.arg[1], 1);
	ck_assert_uint_eq(arrivals.at[1] - start, 40000 + 1500);
	ck_assert_uint_eq(arrivals.arg[2], 2);
	ck_assert_uint_eq(arrivals.at[2] - start, 80000 + 1500);
}

START_TEST(the_fabric_has_bandwidth_and_latency)
{
	const struct sim_config sc = {.strategy = SIM_FIFO};
	run_world(&sc, main_fabric, NULL);
	ran_clean();
}
END_TEST

static void main_fabric_order(void *arg)
{
	struct world_port *a = world_port_of(0, 0), *b = world_port_of(1, 0);
	for (uint64_t i = 0; i < 50; i++)
		ck_assert(world_fabric_send(a, b, 10, &arrivals, step_arrive, &arrivals, i));
	wait_arrivals(50);
	for (uint64_t i = 0; i < 50; i++)
		ck_assert_uint_eq(arrivals.arg[i], i);
}

START_TEST(messages_with_one_order_stay_in_order)
{
	run_sim((uint64_t)_i, main_fabric_order);
	ran_clean();
}
END_TEST

static uint32_t port_changes;

static void port_changed(struct world_port *port)
{
	ck_assert_uint_eq(port->index, 4);
	port_changes++;
}

static void main_link_down(void *arg)
{
	struct world_port *a = world_port_of(0, 0), *b = world_port_of(1, 0);
	ck_assert(world_fabric_send(b, a, 10, NULL, step_arrive, &arrivals, 0));
	wait_arrivals(1);
	ck_assert(!world_fabric_send(b, a, 10, NULL, step_arrive, &arrivals, 0));
	ck_assert(!b->up);
	ck_assert(!world_fabric_send(a, b, 10, NULL, step_arrive, &arrivals, 0));
	os_sleep_ns(200 * US);
	ck_assert(b->up);
	ck_assert(world_fabric_send(b, a, 10, NULL, step_arrive, &arrivals, 0));
	wait_arrivals(2);
	ck_assert_uint_eq(port_changes, 2);
	world_port_set(b, false);
	world_port_set(b, false);
	os_sleep_ns(1 * US);
	ck_assert_uint_eq(port_changes, 3);
}

START_TEST(a_link_goes_down_by_fault_and_heals)
{
	world_on_port_change(port_changed);
	const struct sim_config sc = {.fault_plan = "fabric.link host=1 nth=2 down for=100us\n"};
	run_world(&sc, main_link_down, NULL);
	ran_clean();
}
END_TEST

/* ---- arena, hooks, configuration ------------------------------------------------------------ */

static void main_arena(void *arg)
{
	uint64_t *a = world_arena_alloc(100, "a"), *b = world_arena_alloc(1 << 20, "b");
	for (int i = 0; i < 12; i++)
		ck_assert_uint_eq(a[i], 0);
	ck_assert_uint_eq((uintptr_t)b % 64, 0);
	uint64_t offset = world_arena_offset(b);
	ck_assert_uint_ne(offset, 0);
	ck_assert_ptr_eq(world_arena_at(offset), b);
	ck_assert_uint_eq(world_arena_offset(a) + 128, offset);
	ck_assert_ptr_null(world_arena_alloc(1ull << 40, "too much"));
}

START_TEST(the_arena_gives_offsets)
{
	run_sim(1, main_arena);
	ran_clean();
}
END_TEST

static char exits[64];

static void on_exit_hook(struct os_proc *proc, bool killed)
{
	size_t n = strlen(exits);
	snprintf(exits + n, sizeof exits - n, "%u%s ", proc->id, killed ? "k" : "");
}

static void on_destroy_hook(void)
{
	world_leak("zebra", 2, "z");
	world_leak("ant", 0, "none");
}

static void main_hooks(void *arg)
{
	struct os_proc *p = proc_on(0), *q = proc_on(1);
	world_proc_kill(q);
	proc_on(1);
	world_proc_exit(p);
}

START_TEST(doubles_hear_of_ends)
{
	world_on_proc_exit(on_exit_hook);
	world_on_destroy(on_destroy_hook);
	run_sim(1, main_hooks);
	ck_assert_str_eq(exits, "2k 1 3 0 ");
	ck_assert_uint_eq(run.leaks, 2);
	said("leak: zebra 2 (first: z)\n");
}
END_TEST

static const struct {
	struct world_config config;
	int rc;
} wrong[] = {
	{{.hosts = 0, .machine = "a100-4nic"}, EINVAL},
	{{.hosts = 1}, EINVAL},
	{{.hosts = 1, .machine = "no-such-machine"}, ENOENT},
	{{.hosts = 100000, .machine = "a100-4nic"}, EINVAL},
	{{.hosts = 1, .machine = "a100-4nic", .warp_width = 16}, EINVAL},
	{{.hosts = 1, .machine = "a100-4nic", .env = (const char *const[]){"NOVALUE", NULL}},
	 EINVAL},
	{{.hosts = 1, .machine = "a100-4nic", .env = (const char *const[]){"DOPPEL_WARP=3", NULL}},
	 EINVAL},
};

START_TEST(a_wrong_configuration_is_refused)
{
	const struct sim_config sc = {.seed = 1};
	ck_assert_int_eq(sim_start(&sc), 0);
	ck_assert_int_eq(world_create(&wrong[_i].config), wrong[_i].rc);
	ck_assert_ptr_null(world_config());
	ck_assert_str_eq(os_world_in_force()->name, "real");
	sim_stop();
}
END_TEST

START_TEST(the_machine_may_come_from_the_environment)
{
	const struct sim_config sc = {.seed = 1};
	const struct world_config wc = {.hosts = 1};
	setenv("DOPPEL_MACHINE", "workstation-2gpu", 1);
	ck_assert_int_eq(sim_start(&sc), 0);
	ck_assert_int_eq(world_create(&wc), 0);
	ck_assert_int_eq(world_host_machine(0)->gpu_count, 2);
	ck_assert_uint_eq(world_destroy(), 0);
	sim_stop();
}
END_TEST

START_TEST(hosts_may_differ)
{
	const struct sim_config sc = {.seed = 1};
	const char *const machines[] = {"a100-4nic", "h100-8nic", "a100-4nic"};
	const struct world_config wc = {.hosts = 3,
					.machines = machines,
					.env = (const char *const[]){"DOPPEL_WARP=32", NULL}};
	ck_assert_int_eq(sim_start(&sc), 0);
	ck_assert_int_eq(world_create(&wc), 0);
	ck_assert_uint_eq(world_host_count(), 3);
	ck_assert_int_eq(world_host_machine(1)->nic_count, 8);
	ck_assert_ptr_eq(world_host_machine(0), world_host_machine(2));
	ck_assert_uint_eq(world_config()->warp_width, 32);
	ck_assert_uint_eq(world_port_count(), 16);
	ck_assert_uint_eq(world_destroy(), 0);
	sim_stop();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("world");
	TCase *tc = tcase_create("world");
	tcase_add_test(tc, a_process_has_its_own_environment_and_log);
	tcase_add_test(tc, what_a_process_leaves_is_counted_by_kind);
	tcase_add_loop_test(tc, tasks_left_behind_are_leaks, 0, 10);
	tcase_add_loop_test(tc, a_killed_process_leaks_nothing, 0, 10);
	tcase_add_test(tc, a_foreign_descriptor_is_named_with_both_processes);
	tcase_add_test(tc, shared_memory_and_addresses_belong_to_a_host);
	tcase_add_loop_test(tc, hosts_talk_over_sockets, 0, 20);
	tcase_add_loop_test(tc, a_reset_breaks_both_ends, 0, 20);
	tcase_add_loop_test(tc, the_world_is_the_same_under_threads, 0,
			    ARRAY_LEN(mains_for_threads));
	tcase_add_loop_test(tc, many_tasks_share_what_is_shared, 0, 2);
	tcase_add_test(tc, faults_fail_allocations_and_files);
	tcase_add_test(tc, the_fabric_has_bandwidth_and_latency);
	tcase_add_loop_test(tc, messages_with_one_order_stay_in_order, 0, 10);
	tcase_add_test(tc, a_link_goes_down_by_fault_and_heals);
	tcase_add_test(tc, the_arena_gives_offsets);
	tcase_add_test(tc, doubles_hear_of_ends);
	tcase_add_loop_test(tc, a_wrong_configuration_is_refused, 0, ARRAY_LEN(wrong));
	tcase_add_test(tc, the_machine_may_come_from_the_environment);
	tcase_add_test(tc, hosts_may_differ);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
