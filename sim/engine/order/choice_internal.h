/* SPDX-License-Identifier: BSD-3-Clause */
/* State shared by choice.c (draws, replayed values) and choice_file.c (the file). */
#ifndef SIM_ENGINE_ORDER_CHOICE_INTERNAL_H
#define SIM_ENGINE_ORDER_CHOICE_INTERNAL_H

#include "sim/engine/order/order_internal.h"

#pragma GCC visibility push(hidden)

struct choice {
	uint32_t n, value; /* n == 0: quiet */
};

struct choice_site {
	struct choice_site *next; /* links all sites, in order of creation */
	char name[64];
	struct sim_rng rng;
	struct choice *made;
	uint32_t made_n, made_cap, drawn;
	struct choice *given; /* replayed choices, from the file or from bytes */
	uint32_t given_n, given_at;
};

/* All sites, in order of creation. */
struct choice_site *choice_first(void);
/* Reads the sites' replayed choices from a file. EINVAL, explained on stderr; EIO, ENOMEM. */
int choice_read(const char *path);

#pragma GCC visibility pop

#endif
