/* SPDX-License-Identifier: BSD-3-Clause */
/* sim/world: processes and their objects, borders between them, leaks. Every case makes a world of
 * two hosts and runs as its main task. The tests of os.h's own contract are
 * tests/conformance/os_conformance_test.c, os_conformance_socket_test.c and
 * os_conformance_world_test.c. */
#include "tests/unit/engine/world_run.h"

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

/* ---- the engine threads --------------------------------------------------------------------- */

/* The same mains on pthreads: their results do not depend on the engine. */
static void (*const mains_for_threads[])(void *) = {main_environment, main_hosts, main_foreign};

START_TEST(the_world_is_the_same_under_threads)
{
	const struct sim_config sc = {.engine = SIM_ENGINE_THREADS};
	run_world(&sc, mains_for_threads[_i], NULL);
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
	tcase_add_loop_test(tc, the_world_is_the_same_under_threads, 0,
			    ARRAY_LEN(mains_for_threads));
	tcase_add_test(tc, the_arena_gives_offsets);
	tcase_add_test(tc, doubles_hear_of_ends);
	tcase_add_loop_test(tc, a_wrong_configuration_is_refused, 0, ARRAY_LEN(wrong));
	tcase_add_test(tc, the_machine_may_come_from_the_environment);
	tcase_add_test(tc, hosts_may_differ);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
