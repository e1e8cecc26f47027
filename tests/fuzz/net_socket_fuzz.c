/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the bytes that a peer of net_socket sends: first a handle, then the contents of a control
 * socket: the hello (a nonce of 0 is replaced by the listener's), headers, messages, notices. The
 * receiving end accepts them or returns an error. It writes nothing outside its receives, and
 * closes.
 */
#include <stdlib.h>

#include "core/transport/net_socket/net_socket_internal.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"
#include "tests/fuzz/world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define FUZZ_ROOM     4096u
#define FUZZ_RECEIVES 6
#define FUZZ_GUARD    0x5a
#define FUZZ_END_NS   50000000ull /* virtual time by which the peer has sent everything */

static struct fuzz_peer {
	const uint8_t *data;
	size_t bytes;
	struct net_handle handle;
	shared_u32 listening;
} peer;

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* Checks that a handle that is accepted has the properties on which the sending end relies. */
static void fuzz_handle(void)
{
	struct net_socket_handle h = {0};

	memcpy(&h, peer.data, MIN_OF(peer.bytes, sizeof h));
	if (net_socket_handle_check(0, 1, &h))
		return;
	must(h.rank == 1 && h.lanes <= NET_SOCKET_LANES && h.tasks <= NET_SOCKET_TASKS);
	must(!h.tasks || h.lanes / h.tasks * h.tasks == h.lanes);
	must(strlen(h.nic) < sizeof h.nic);
}

/* ---- the peer ------------------------------------------------------------------------------- */

static void fuzz_send(int fd, const uint8_t *data, size_t bytes)
{
	while (bytes) {
		size_t done = 0;
		int rc = os_send(fd, data, bytes, &done);

		if (rc && rc != EAGAIN)
			return;
		if (rc)
			os_sleep_ns(100000);
		data += done;
		bytes -= done;
	}
}

static void fuzz_send_main(void *arg)
{
	const size_t skip = MIN_OF(peer.bytes, sizeof(struct net_socket_handle));
	const uint8_t *stream = peer.data + skip;
	size_t left = peer.bytes - skip;
	struct net_socket_hello hello = {0};
	struct net_socket_handle h;
	int fd;

	(void)arg;
	while (!shared_load_u32(&peer.listening, SHARED_ACQUIRE))
		os_sleep_ns(100000);
	memcpy(&h, peer.handle.bytes, sizeof h);
	must(os_connect(&h.addr, &fd) == 0);
	while (os_connected(fd) == EAGAIN)
		os_sleep_ns(100000);
	memcpy(&hello, stream, MIN_OF(left, sizeof hello));
	if (!hello.nonce)
		hello.nonce = h.nonce;
	fuzz_send(fd, (const uint8_t *)&hello, MIN_OF(left, sizeof hello));
	if (left > sizeof hello)
		fuzz_send(fd, stream + sizeof hello, left - sizeof hello);
	os_sleep_ns(FUZZ_END_NS / 2);
	os_close(fd);
}

/* ---- the receiving end ---------------------------------------------------------------------- */

/* Waits. Returns false if the peer's time is over. */
static bool fuzz_wait(struct wait *w, uint64_t end_ns)
{
	if (!w->deadline_ns || w->deadline_ns > end_ns)
		w->deadline_ns = end_ns;
	(void)os_wait_one(w, NULL);
	return os_now_ns() < end_ns;
}

/* Receives the messages. Returns the first error, or ncclInProgress. */
static ncclResult_t fuzz_receive(void *net_comm, uint8_t *area, uint64_t end_ns)
{
	struct net_request *req[FUZZ_RECEIVES] = {NULL};
	ncclResult_t rc = ncclSuccess;
	struct wait w;

	for (uint32_t i = 0; i < FUZZ_RECEIVES && !rc; i++) {
		const struct net_buffer b = {
			.data = area + 2 * FUZZ_ROOM * i, .bytes = FUZZ_ROOM, .mr = net_comm};

		rc = net_socket_irecv(net_comm, &b, 1, &req[i], &w);
	}
	for (uint32_t i = 0; i < FUZZ_RECEIVES && !rc;) {
		bool done;
		size_t bytes;

		rc = net_socket_test(req[i], &done, &bytes, &w);
		if (!rc && done) {
			must(bytes <= FUZZ_ROOM);
			i++;
		} else if (!rc && !fuzz_wait(&w, end_ns)) {
			return ncclInProgress;
		}
	}
	return rc ? rc : net_socket_check(net_comm, true, &w);
}

static void fuzz_recv_main(void *arg)
{
	struct ncclComm *comm = os_alloc(sizeof *comm, "communicator");
	const size_t area_bytes = (size_t)2 * FUZZ_ROOM * FUZZ_RECEIVES;
	uint8_t *area = os_alloc(area_bytes, "area");
	const struct net_who who = {.peer = 0};
	uint64_t end_ns = os_now_ns() + FUZZ_END_NS;
	void *listen, *net_comm = NULL;
	ncclResult_t rc;
	struct wait w;
	int count;

	(void)arg;
	comm->rank = 1;
	memset(area, FUZZ_GUARD, area_bytes);
	must(net_socket_devices(comm, &count) == ncclSuccess);
	must(net_socket_listen(comm, &(struct net_nic){1, {0}}, &who, &peer.handle, &listen) ==
	     ncclSuccess);
	shared_store_u32(&peer.listening, 1, SHARED_RELEASE);
	do
		rc = net_socket_accept(listen, &net_comm, &w);
	while (rc == ncclInProgress && fuzz_wait(&w, end_ns));
	must((rc == ncclSuccess) == (net_comm != NULL));
	if (net_comm)
		(void)fuzz_receive(net_comm, area, end_ns);
	for (size_t i = 0; i < area_bytes; i++)
		must(i / FUZZ_ROOM % 2 == 0 || area[i] == FUZZ_GUARD);
	net_socket_close(net_comm);
	net_socket_close_listen(listen);
	net_socket_fini(comm);
	os_free(area);
	os_free(comm);
}

/* ---- the world ------------------------------------------------------------------------------ */

static struct os_thread *fuzz_spawn(struct os_proc *proc, const char *name, void (*fn)(void *))
{
	struct os_thread_attr attr = {.name = name, .rank = -1};
	struct os_thread *t;

	must(world_thread_start(proc, &t, &attr, fn, NULL) == 0);
	return t;
}

static void fuzz_world_main(void *arg)
{
	struct os_proc *a, *b;

	(void)arg;
	fuzz_handle();
	must(world_proc_create(0, "sender", &a) == 0 && world_proc_create(1, "receiver", &b) == 0);
	struct os_thread *send = fuzz_spawn(a, "sender", fuzz_send_main);
	struct os_thread *recv = fuzz_spawn(b, "receiver", fuzz_recv_main);
	os_thread_join(send);
	os_thread_join(recv);
	world_proc_exit(a);
	world_proc_exit(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct sim_config config = {.engine = SIM_ENGINE_SIM, .seed = 1};
	const struct world_config world = {.hosts = 2, .machine = "workstation-2gpu"};
	struct fuzz_aside aside = fuzz_aside_begin();
	bool passed;

	peer = (struct fuzz_peer){.data = data, .bytes = bytes};
	must(sim_start(&config) == 0 && world_create(&world) == 0);
	passed = sim_run(fuzz_world_main, NULL) == SIM_PASS;
	passed &= world_destroy() == 0;
	sim_stop();
	(void)fuzz_aside_end(&aside);
	fuzz_aside_free(&aside, !passed);
	must(passed);
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
