/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The highest floor of the HCA double: devices and their contexts. Opening a device fills in the
 * context's table with the calls of the floor entry, which programs reach by inline functions.
 */
#ifndef BACKENDS_FAKEVERBS_CONTEXT_H
#define BACKENDS_FAKEVERBS_CONTEXT_H

#include "backends/fakeverbs/entry/entry.h"

#pragma GCC visibility push(hidden)

/* vctx.c: the extended calls of a context */
void hca_extended_ops(struct verbs_context *v);

/* ibv_query.c */
int hca_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t bytes);

/* ibv_device.c. hca_devices_end frees the devices of a process that ends. hca_devices_forget, in
 * the child of a fork, forgets the parent's lists; their devices may be opened. */
void hca_devices_end(struct os_proc *proc, bool killed);
void hca_devices_forget(void);

#pragma GCC visibility pop

#endif
