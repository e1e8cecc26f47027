/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes: states that a campaign is worth nothing without, and how often this run was in them
 * (OS_PROBE of core/os/os.h). A counter each; nothing is drawn, traced or hashed.
 */
#include <string.h>

#include "sim/engine/engine_internal.h"

enum { PROBE_MAX = 64 };

/* Every one there is; tests/unit/rules_sites_test.sh compares it with the code. */
static const struct {
	const char *name, *what;
} probe_sites[] = {
	{"bootstrap.connect_refused", "nobody listens yet; it is tried again"},
	{"bootstrap.message_overtakes", "a message is taken before one that came earlier"},
	{"bootstrap.peer_hung_up", "a message is awaited from a rank that has gone"},
	{"comm.call_after_error", "a call finds that its communicator has failed"},
	{"comm.ended_in_init", "a communicator is aborted or destroyed in its init"},
	{"comm.end_without_all", "a rank does not come to the last barrier"},
	{"comm.error_ends_finalize", "an error comes while destroy waits for kernels"},
	{"comm.parked", "a rank waits for others of its process to be freed"},
	{"cuda.block_waits_for_sm", "a kernel's block finds all SMs taken"},
	{"hca.atomic_again", "an atomic comes that is already done"},
	{"hca.atomic_forgotten", "an atomic comes again, and the log has it no more"},
	{"hca.datagram_unwanted", "a datagram finds no receive"},
	{"hca.message_dropped", "a message of an unreliable transport is dropped half way"},
	{"hca.not_ready_for_good", "a receiver stays without a receive until retries are spent"},
	{"hca.packet_no_room", "the tables have no room for a packet, which is lost"},
	{"hca.read_again", "an RDMA read is asked for again"},
	{"hca.receiver_not_ready", "a sender waits because of RNR"},
	{"hca.request_again", "a write or send comes that is already done"},
	{"hca.request_missing", "a request comes before one that was lost or is late"},
	{"hca.resend", "a sender goes back to what is not acknowledged"},
	{"hca.retries_spent", "a sender gives up"},
	{"hca.send_flushed", "a send is flushed from a dead queue pair"},
	{"hca.send_queue_error", "a send that fails leaves the receive side alone"},
	{"hca.wrong_pkey", "a packet comes from another partition"},
	{"hca.wrong_qkey", "a datagram comes with another Q_Key"},
	{"net.completions_at_once", "one poll gives several completions"},
	{"net.poll_again", "a poll fills its array, and is done again"},
	{"net.requests_spent", "all requests of a connection are in use"},
	{"net.send_not_cleared", "a send has no receive at the other end yet"},
	{"proxy.empty_slice", "a slice without data"},
	{"proxy.fifo_wraps", "an operation goes around the end of the slots"},
	{"proxy.flush_waits", "data is in, but not yet pushed out to GPU memory"},
	{"proxy.op_waits_behind", "an operation is queued while another begins"},
	{"proxy.recv_all_taken",
	 "every slot of a receiver holds data that the kernel has not read"},
	{"proxy.send_all_in_flight", "every slot of a sender is on the wire"},
	{"proxy.steps_skipped", "an operation begins at another step than the last one ended at"},
};

/* Those that no run of the lab is in, and why; a test of the module is. */
static const struct {
	const char *name, *why;
} probe_idle[] = {
	{"hca.atomic_again", "the stack has no use for atomics"},
	{"hca.atomic_forgotten", "the stack has no use for atomics"},
	{"hca.datagram_unwanted", "the stack sends no datagrams"},
	{"hca.message_dropped", "the stack's connections are reliable"},
	{"hca.packet_no_room", "the stack has few packets on their way at a time"},
	{"hca.send_queue_error", "the stack's connections are reliable"},
	{"hca.wrong_pkey", "the stack knows one partition"},
	{"hca.wrong_qkey", "the stack sends no datagrams"},
	{"hca.not_ready_for_good", "the stack has its HCAs retry for ever (rnr_retry 7)"},
	{"net.requests_spent", "the proxy has 8 slots in flight, a connection 32 requests"},
	{"proxy.steps_skipped", "all collectives that there are have the same chunks"},
};

static struct {
	struct sim_probe_stat stat[PROBE_MAX];
	const char *seen[PROBE_MAX]; /* the caller's copy of the name: a shortcut */
	uint32_t n;
} probe;

static uint32_t probe_add(const char *name, const char *what)
{
	uint32_t i = probe.n++;

	ASSERT(i < PROBE_MAX);
	probe.stat[i] = (struct sim_probe_stat){.name = name, .what = what};
	probe.seen[i] = NULL;
	return i;
}

void probe_start(void)
{
	probe.n = 0;
	for (size_t i = 0; i < ARRAY_LEN(probe_sites); i++)
		probe_add(probe_sites[i].name, probe_sites[i].what);
}

static uint32_t probe_find(const char *name)
{
	for (uint32_t i = 0; i < probe.n; i++)
		if (probe.seen[i] == name)
			return i;
	for (uint32_t i = 0; i < probe.n; i++) {
		if (strcmp(probe.stat[i].name, name) == 0) {
			probe.seen[i] = name;
			return i;
		}
	}
	return probe_add(name, "a test's own");
}

void probe_hit(const char *name)
{
	if (eng.phase != ENGINE_RUNNING)
		return;
	probe.stat[probe_find(name)].hits++;
}

uint32_t sim_probe_stats(const struct sim_probe_stat **stats)
{
	*stats = probe.stat;
	return probe.n;
}

const char *sim_probe_idle(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(probe_idle); i++)
		if (strcmp(probe_idle[i].name, name) == 0)
			return probe_idle[i].why;
	return NULL;
}

void sim_probe_print_sites(FILE *out)
{
	for (size_t i = 0; i < ARRAY_LEN(probe_sites); i++) {
		const char *why = sim_probe_idle(probe_sites[i].name);

		fprintf(out, "  %-28s %s%s%s%s\n", probe_sites[i].name, probe_sites[i].what,
			why ? " (idle: " : "", why ? why : "", why ? ")" : "");
	}
}
