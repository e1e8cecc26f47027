/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters of an HCA's port, and the files of /sys in which its driver shows it: PORT/counters
 * and PORT/hw_counters, by the names that the personality's driver has. The double counts
 * (fakeverbs/objects/counters.h), doppel verbs-run makes the files, programs on the drop-in fill
 * them. Counters only rise, and begin with the world.
 */
#ifndef BACKENDS_HCA_COUNTERS_H
#define BACKENDS_HCA_COUNTERS_H

#include <stdint.h>

enum hca_counter {
	/* of a queue pair: packets and their bytes on the wire, headers included */
	HCA_SENT_PACKETS,
	HCA_SENT_BYTES,
	HCA_RECEIVED_PACKETS,
	HCA_RECEIVED_BYTES,
	HCA_RECEIVED_WRITES, /* requests, each once */
	HCA_RECEIVED_READS,
	HCA_RECEIVED_ATOMICS,
	HCA_COMPLETED_SENDS, /* with success */
	HCA_COMPLETED_RECEIVES,
	HCA_TRAFFIC_COUNTERS,
	/* of the requester */
	HCA_TIMEOUTS = HCA_TRAFFIC_COUNTERS, /* silence; it sends again */
	HCA_SEQUENCE_NAKS,
	HCA_GAPS_IN_ANSWERS,
	HCA_RESENDS, /* for any of these three */
	HCA_RETRIES_SPENT,
	HCA_RNR_NAKS,
	HCA_RNR_RETRIES, /* of them, those that it waits for and sends again */
	HCA_RNR_RETRIES_SPENT,
	HCA_REFUSED_REQUESTS, /* completions with a status */
	HCA_REFUSED_ACCESSES,
	HCA_SENDS_FLUSHED,
	HCA_SENDS_FAILED, /* flushed ones included */
	/* of the responder */
	HCA_DUPLICATES,
	HCA_OUT_OF_SEQUENCE, /* ahead of one that is missing */
	HCA_NO_RECEIVES,
	HCA_RNR_NAKS_SENT,
	HCA_ACCESSES_REFUSED,
	HCA_RECEIVES_TOO_SMALL,
	HCA_RECEIVES_FLUSHED,
	HCA_RECEIVES_FAILED, /* flushed ones included */
	/* of the port */
	HCA_LINK_DOWNED,
	HCA_COUNTERS
};

/* A file of /sys/class/infiniband/DEVICE/ports/PORT. */
struct hca_counter_file {
	const char *path;
	uint32_t counter; /* enum hca_counter; HCA_COUNTERS: what the double does not have: 0 */
	uint32_t unit;    /* it shows counter / unit */
};
/* The files of the port's driver; the last has no path. For programs that make such a tree. */
const struct hca_counter_file *hca_counter_files(uint32_t port);

#endif
