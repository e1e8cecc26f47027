/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes the files for each write. Programs close descriptors that they did not open, and
 * then open their own files under the same number. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "backends/fakeverbs/fabric/counters_sys.h"
#include "backends/fakeverbs/arena/report.h"
#include "backends/fakeverbs/objects/objects.h"
#include "sim/world/world.h"

#define COUNTERS_PATH  160
#define COUNTERS_PORTS 64 /* ports of a host that are counted; the files of the others stay at 0 */
#define COUNTERS_TRIES 8
#define COUNTERS_SHARE 20 /* one pass uses at most 1/COUNTERS_SHARE of the time */

/* Contents of the hidden file COUNTERS_RECORD. Each program of the tree writes it under flock() on
 * this file. */
struct counters_record {
	uint64_t fabric; /* inode of the memory of the fabric whose counters are added to `base` */
	uint64_t base[HCA_COUNTERS], shown[HCA_COUNTERS];
};
_Static_assert(sizeof(struct counters_record) == (1 + 2 * HCA_COUNTERS) * sizeof(uint64_t),
	       "a record in a file has no padding");

static struct {
	pthread_mutex_t lock; /* protects the fields below */
	uint64_t fabric;
	bool on;
	uint64_t due_ns;
	uint64_t known[COUNTERS_PORTS][HCA_COUNTERS]; /* values written last */
} counters = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t counters_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int counters_open(const struct world_port *port, const char *name, int flags)
{
	char path[COUNTERS_PATH];

	if ((size_t)snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/%s",
			     port->nic->name, name) >= sizeof path)
		return -1;
	return open(path, flags | O_CLOEXEC);
}

/* Writes a counter's file in place. Counters only rise, so the new text is at least as long as the
 * old one. */
static void counters_write(const struct world_port *port, const struct hca_counter_file *file,
			   uint64_t value)
{
	char text[24];

	ASSERT(file->unit > 0); /* each row of counters.c has one */
	int n = snprintf(text, sizeof text, "%" PRIu64 "\n", value / file->unit);
	int fd = counters_open(port, file->path, O_WRONLY);

	if (fd < 0)
		return; /* the tree is of an HCA whose driver has no such file */
	if (pwrite(fd, text, (size_t)n, 0) != n)
		hca_log("%s of %s cannot be written", file->path, port->nic->name);
	close(fd);
}

static void counters_show_record(const struct world_port *port, struct counters_record *r,
				 const uint64_t now[HCA_COUNTERS])
{
	const struct hca_counter_file *file = hca_counter_files(port->index);

	if (r->fabric != counters.fabric)
		memcpy(r->base, r->shown, sizeof r->base);
	r->fabric = counters.fabric;
	for (; file->path; file++) {
		uint32_t i = file->counter;

		if (i < HCA_COUNTERS && r->shown[i] != r->base[i] + now[i])
			counters_write(port, file, r->base[i] + now[i]);
	}
	for (uint32_t i = 0; i < HCA_COUNTERS; i++)
		r->shown[i] = r->base[i] + now[i];
}

/* Reads the port's counters. False if queue pairs ended during each of the attempts; the next pass
 * reads them. */
static bool counters_read(const struct world_port *port, uint64_t now[HCA_COUNTERS])
{
	for (int i = 0; i < COUNTERS_TRIES; i++)
		if (hca_counters_read(port->index, now))
			return true;
	return false;
}

static void counters_show_port(uint32_t nic)
{
	const struct world_port *port = world_port_of(sim_main_proc()->host, (int32_t)nic);
	uint64_t now[HCA_COUNTERS], *known = counters.known[nic];
	struct counters_record record = {0};

	ASSERT(nic < COUNTERS_PORTS); /* counters_ports */
	if (!counters_read(port, now) || !memcmp(now, known, sizeof now))
		return;
	int fd = counters_open(port, COUNTERS_RECORD, O_RDWR);

	if (fd < 0)
		return;
	if (flock(fd, LOCK_EX) == 0) {
		ssize_t n = pread(fd, &record, sizeof record, 0);

		/* reads again under the lock: the values must not be older than those that another
		 * program wrote meanwhile */
		if ((n == 0 || n == (ssize_t)sizeof record) && counters_read(port, now)) {
			counters_show_record(port, &record, now);
			memcpy(known, now, sizeof now);
			if (pwrite(fd, &record, sizeof record, 0) != (ssize_t)sizeof record)
				hca_log("counters of %s cannot be kept", port->nic->name);
		}
	}
	close(fd); /* also unlocks */
}

static uint32_t counters_ports(void)
{
	int32_t n = world_host_machine(sim_main_proc()->host)->nic_count;

	return MIN_OF((uint32_t)n, (uint32_t)COUNTERS_PORTS);
}

void counters_show(bool now)
{
	uint64_t at_ns = counters_now_ns();

	pthread_mutex_lock(&counters.lock);
	if (counters.on && (now || at_ns >= counters.due_ns)) {
		for (uint32_t i = 0; i < counters_ports(); i++)
			if (world_port_of(sim_main_proc()->host, (int32_t)i)->nic->is_rdma)
				counters_show_port(i);
		/* a pass over thousands of queue pairs takes long: the next one is due accordingly
		 * later */
		uint64_t took_ns = counters_now_ns() - at_ns;

		counters.due_ns = at_ns + MAX_OF((uint64_t)COUNTERS_LIFESPAN_MS * 1000000,
						 took_ns * COUNTERS_SHARE);
	}
	pthread_mutex_unlock(&counters.lock);
}

bool counters_start(uint64_t fabric)
{
	bool on = false;

	for (uint32_t i = 0; i < counters_ports() && !on; i++) {
		int fd = counters_open(world_port_of(sim_main_proc()->host, (int32_t)i),
				       COUNTERS_RECORD, O_RDWR);

		on = fd >= 0;
		if (on)
			close(fd);
	}
	pthread_mutex_lock(&counters.lock);
	counters.fabric = fabric;
	counters.on = on;
	pthread_mutex_unlock(&counters.lock);
	return on;
}

void counters_forget(void)
{
	pthread_mutex_init(&counters.lock, NULL); /* a thread of the parent may have held it */
	counters.on = false;
	memset(counters.known, 0, sizeof counters.known);
}
