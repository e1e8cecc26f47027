/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters of an HCA's port, and the files of /sys in which its driver shows them:
 * PORT/counters and PORT/hw_counters, under the names that the personality's driver uses. The
 * double counts (fakeverbs/objects/counters.h), doppel verbs-run creates the files, and programs on
 * the drop-in write them. Counters only rise and begin at 0 with the world.
 */
#ifndef BACKENDS_HCA_COUNTERS_H
#define BACKENDS_HCA_COUNTERS_H

#include <stdint.h>

enum hca_counter {
	/* per queue pair: packets, and their bytes on the wire including headers */
	HCA_SENT_PACKETS,
	HCA_SENT_BYTES,
	HCA_RECEIVED_PACKETS,
	HCA_RECEIVED_BYTES,
	HCA_RECEIVED_WRITES, /* requests, each counted once */
	HCA_RECEIVED_READS,
	HCA_RECEIVED_ATOMICS,
	HCA_COMPLETED_SENDS, /* successful ones */
	HCA_COMPLETED_RECEIVES,
	HCA_TRAFFIC_COUNTERS,
	/* requester */
	HCA_TIMEOUTS = HCA_TRAFFIC_COUNTERS, /* timer expired without an answer; it resends */
	HCA_SEQUENCE_NAKS,
	HCA_GAPS_IN_ANSWERS,
	HCA_RESENDS, /* resends for any of these three reasons */
	HCA_RETRIES_SPENT,
	HCA_RNR_NAKS,
	HCA_RNR_RETRIES, /* RNR NAKs after which it waits and resends */
	HCA_RNR_RETRIES_SPENT,
	HCA_REFUSED_REQUESTS, /* completions with an error status */
	HCA_REFUSED_ACCESSES,
	HCA_SENDS_FLUSHED,
	HCA_SENDS_FAILED, /* including flushed ones */
	/* responder */
	HCA_DUPLICATES,
	HCA_OUT_OF_SEQUENCE, /* packets ahead of a missing one */
	HCA_NO_RECEIVES,
	HCA_RNR_NAKS_SENT,
	HCA_ACCESSES_REFUSED,
	HCA_RECEIVES_TOO_SMALL,
	HCA_RECEIVES_FLUSHED,
	HCA_RECEIVES_FAILED, /* including flushed ones */
	/* port */
	HCA_LINK_DOWNED,
	HCA_COUNTERS
};

/* A file of /sys/class/infiniband/DEVICE/ports/PORT. */
struct hca_counter_file {
	const char *path;
	uint32_t counter; /* enum hca_counter; HCA_COUNTERS: not counted by the double, shows 0 */
	uint32_t unit;    /* the file shows counter / unit */
};
/* Returns the files of the port's driver, ended by one with path NULL. Programs that create such a
 * tree call it. */
const struct hca_counter_file *hca_counter_files(uint32_t port);

#endif
