/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes a fault plan: an engine starts with it, or refuses it with a line that names the plan. For
 * libFuzzer (clang -fsanitize=fuzzer); fuzz_main.h has a driver without it. Build against
 * libdoppel-rt.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/engine/sim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void fuzz_main_task(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++) {
		struct os_fault f;
		(void)os_fault("os.socket", NULL, &f);
		(void)os_fault("verbs.cqe", NULL, &f);
		(void)os_fault("os.alloc", NULL, &f);
		(void)os_fault("cuda.malloc", NULL, &f);
		struct sim_fault_place at = {.host = i % 2,
					     .port = i % 4,
					     .peer_host = i % 3,
					     .peer_port = -1,
					     .state = i % 7,
					     .step = i,
					     .nic = i % 2 ? "mlx5_1" : "mlx5_0",
					     .peer_nic = "mlx5_0"};
		sim_faults_operation((uint64_t)i / 5);
		if (sim_fault("fabric.path", NULL, &at, &f))
			ASSERT(f.left_ns > 0);
		(void)sim_fault("fabric.packet", NULL, &at, &f);
		(void)sim_fault("verbs.modify_qp", NULL, &at, &f);
		os_sleep_ns(1000);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = strndup((const char *)data, bytes);
	struct sim_config config = {.seed = 1, .fault_plan = text, .fault_plan_name = "fuzz"};
	int quiet = open("/dev/null", O_WRONLY), real = dup(2);

	ASSERT(text && quiet >= 0 && real >= 0);
	dup2(quiet, 2); /* discards the messages about lines */
	int rc = sim_start(&config);
	if (!rc) {
		ASSERT(sim_run(fuzz_main_task, NULL) == SIM_PASS);
		sim_stop();
	}
	dup2(real, 2);
	close(real);
	close(quiet);
	ASSERT(rc == 0 || rc == EINVAL);
	free(text);
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
