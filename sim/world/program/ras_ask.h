/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of RAS in the world of `doppel exec`: some time after the start it sends DUMP to the
 * client port of host 0, and prints the answer on stderr (DOPPEL_RAS_DUMP, --ras-dump). Programs of
 * a world have sockets of that world, which `doppel ras` does not reach. In engine sim the client
 * keeps the world alive until then: a hang is a deadlock only after it.
 */
#ifndef SIM_WORLD_RAS_ASK_H
#define SIM_WORLD_RAS_ASK_H

/* Starts the client if DOPPEL_RAS_DUMP is set. Returns 0 or a positive errno. */
int world_ras_ask_start(void);
/* The programs have ended: ends the client and waits for it. */
void world_ras_ask_end(void);

#endif
