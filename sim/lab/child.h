/* SPDX-License-Identifier: BSD-3-Clause */
/* What the lab's child processes do first: workers of a sweep, candidates of shrinking. */
#ifndef SIM_LAB_CHILD_H
#define SIM_LAB_CHILD_H

/* What the runs of this process print is not shown, here or by what it starts. */
void child_silence(void);

#endif
