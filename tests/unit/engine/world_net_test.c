/* SPDX-License-Identifier: BSD-3-Clause */
/* sim/world: sockets between processes and under faults, and the fabric. */
#include "tests/unit/engine/world_run.h"

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

START_TEST(a_dialog_is_the_same_under_threads)
{
	const struct sim_config sc = {.engine = SIM_ENGINE_THREADS};
	run_world(&sc, main_dialog, NULL);
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

int main(void)
{
	Suite *suite = suite_create("world_net");
	TCase *tc = tcase_create("world");
	tcase_add_loop_test(tc, hosts_talk_over_sockets, 0, 20);
	tcase_add_loop_test(tc, a_reset_breaks_both_ends, 0, 20);
	tcase_add_test(tc, a_dialog_is_the_same_under_threads);
	tcase_add_loop_test(tc, many_tasks_share_what_is_shared, 0, 2);
	tcase_add_test(tc, faults_fail_allocations_and_files);
	tcase_add_test(tc, the_fabric_has_bandwidth_and_latency);
	tcase_add_loop_test(tc, messages_with_one_order_stay_in_order, 0, 10);
	tcase_add_test(tc, a_link_goes_down_by_fault_and_heals);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
