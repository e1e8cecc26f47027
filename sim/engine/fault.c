/* SPDX-License-Identifier: BSD-3-Clause */
/* Fault plans. */
#include <stdlib.h>
#include "sim/engine/engine_internal.h"
int fault_start(void)
{
	if (eng.config.fault_plan || eng.config.fault_random) {
		fprintf(stderr, "engine: fault plans are not built yet\n");
		return ENOSYS;
	}
	return 0;
}
void fault_stop(void) {}
bool fault_check(const char *site, const void *object, struct os_fault *f) { (void)site, (void)object, (void)f; return false; }
void sim_fault_print_sites(FILE *out) { (void)out; abort(); }
void sim_fault_print_plan(FILE *out) { (void)out; }
uint64_t sim_faults_fired(void) { return 0; }
