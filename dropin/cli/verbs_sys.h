/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writers of the files of /dev and /sys that show HCAs (verbs_run.h): folders, files and links at
 * absolute paths. verbs_space.c has made their folders private to this process. The first error is
 * logged and kept.
 */
#ifndef DROPIN_CLI_VERBS_SYS_H
#define DROPIN_CLI_VERBS_SYS_H

#include <infiniband/verbs.h>
#include <net/if.h>

#include "dropin/cli/verbs_run.h"
#include "sim/world/world.h"

#define SYS_PATH 1536 /* longest path of os.h, plus a name */
/* Folder of devices without a PCI function. */
#define SYS_VIRTUAL "/sys/devices/virtual"

struct sys_fill {
	char netdev[IF_NAMESIZE]; /* network device of RoCE ports */
	int rc;                   /* errno of the first error */
};

void sys_path(char out[SYS_PATH], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sys_failed(struct sys_fill *f, const char *path);
void sys_folder(struct sys_fill *f, const char *dir, const char *name);
/* Writes the text and a newline. */
void sys_file(struct sys_fill *f, const char *dir, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void sys_link(struct sys_fill *f, const char *dir, const char *name, const char *target);

/* Writes the HCA's PCI function, the bridges above it and the links to it. Stores the function's
 * folder, or SYS_VIRTUAL if the machine has no function for the HCA. */
void verbs_pci_fill(struct sys_fill *f, const struct world_nic *nic,
		    const struct ibv_device_attr *a, char function[SYS_PATH]);

#endif
