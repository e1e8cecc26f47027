/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces of the text report that its files share. */
#ifndef CORE_RAS_RAS_STATUS_H
#define CORE_RAS_RAS_STATUS_H

#include "core/ras/ras_job.h"

#define RAS_DETAILS 10u /* most entries of a list that is not verbose */

/* True if a set of `count` of `total` ranks is small enough for its ranks to be listed. */
bool ras_is_outlier(uint32_t count, uint32_t total, bool verbose);
void ras_process_write(struct ras_text *out, const struct ras_process *p);
/* Writes " -- GPU ... managed by process ... on node ..." and a newline. */
void ras_place_write(struct ras_text *out, const struct ras_process *p, int32_t cuda_dev,
		     int32_t nvml_dev);
void ras_comm_title(struct ras_text *out, const struct ras_comm *c, const char *what);
/* Writes a line for a rank without an answer: "Rank N", the phrase, and its place. */
void ras_missing_write(struct ras_text *out, struct ras_job *j, const struct ras_missing *m,
		       const char *phrase);
/* ras_mismatch.c: the ranks that differ in status or in their numbers of operations. */
void ras_mismatch_write(struct ras_text *out, struct ras_job *j, const struct ras_comm *c,
			bool verbose);

#endif
