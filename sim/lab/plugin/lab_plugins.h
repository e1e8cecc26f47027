/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plugins of the lab's own, in the program itself: a run with --plugins sets the variables that
 * name them (STATIC_PLUGIN, core/plugin/plugin.h) in its processes, and no other run loads them.
 * All processes of a world are one real process, so all its plugins share this state.
 *
 * The runner calls begin and end; each plugin calls the others. A plugin checks what the stack does
 * with it. A wrong call is the run's failure, of class "plugin". Answers are drawn from the run's
 * seed: under engine sim a seed gives the same calls and answers each time.
 *
 * A program that runs them exports their tables: it links with LAB_PLUGIN_SYMBOLS of
 * cmake/products.cmake. Units: ns, bytes.
 */
#ifndef SIM_LAB_PLUGIN_H
#define SIM_LAB_PLUGIN_H

#include <stdint.h>

#include "core/os/os.h"
#include "sim/lab/run/runner.h"

struct lab_run;

/* Sets the variables of a new process. Returns 0 or a positive errno. */
int lab_plugins_env(const struct lab_config *c, struct os_proc *proc);
/* Resets the plugins, before the ranks start. */
void lab_plugins_begin(struct lab_run *run);
/* Checks that the plugins' objects have ended, if `passed`, and frees the rest. False: the run has
 * failed, a rank was killed, or the stack may keep a communicator that no task could release.
 * Returns the kinds that the stack has used: choices, communicators, connections, reductions. */
uint32_t lab_plugins_end(struct lab_run *run, bool passed);

/* ---- called by the plugins, and plugin_host.h ------------------------------------------------ */

/* The run's seed. */
uint64_t lab_plugin_seed(void);
/* plugin_tuner.c: the end reports contexts that are open after a run that passed, and returns true
 * if there were choices. */
void tuner_plugin_begin(void);
bool tuner_plugin_end(bool passed);

#endif
