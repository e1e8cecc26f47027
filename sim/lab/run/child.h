/* SPDX-License-Identifier: BSD-3-Clause */
/* The first steps of the lab's child processes: workers of a sweep, candidates of shrinking. */
#ifndef SIM_LAB_CHILD_H
#define SIM_LAB_CHILD_H

/* Discards all further output of this process and of the processes that it starts. */
void child_silence(void);

#endif
