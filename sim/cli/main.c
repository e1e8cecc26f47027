/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/cli/cli.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "core/include/nccl.h"
#include "core/os/os_ops.h"
#include "sim/cli/environment.h"
#include "sim/engine/sim.h"
#include "sim/lab/search/scenario.h"
#include "sim/lab/explore/sweep.h"
#include "sim/world/world.h"

enum { CLI_SECONDS_MOST = 1 << 28 }; /* eight years */
DOPPEL_STATIC_CHECK(CLI_SECONDS_MOST <= UINT64_MAX / 1000000000ull, "fits in 64 bits of ns");

struct cli_command {
	const char *name, *what;
	int (*run)(int argc, char **argv);
};

static const struct cli_command cli_commands[] = {
	{"run", "run a collective on a world of hosts, check it, print the nccl-tests table",
	 cli_run},
	{"sweep", "run many seeds, list those that fail", cli_sweep},
	{"sweep-merge", "add up the shards of a sweep, from their files of --json",
	 cli_sweep_merge},
	{"replay", "run a failing run again, from its folder", cli_replay},
	{"report", "make one HTML page of a failing run, from its folder", cli_report},
	{"shrink", "make a failing run small, and show the two stacks whose order matters",
	 cli_shrink},
	{"topo", "show a machine's topology, search rings in it", cli_topo},
	{"tune", "predict which program runs a collective at each size, and how long it takes",
	 cli_tune},
	{"exhaust", "fail the k-th call of each kind for every k; kill and abort at every moment",
	 cli_exhaust},
	{"exec", "run a program of your own, linked with libnccl.so.2, on GPU doubles", cli_exec},
	{"cc", "compile CUDA source for GPU doubles, with clang", cli_cc},
	{"nvcc", "the same with the options of nvcc; doppel-nvcc is a link to it", cli_nvcc},
#if DOPPEL_FAKEVERBS
	{"verbs-run", "run an ordinary verbs program on HCA doubles", cli_verbs_run},
#endif
	{"ras", "show the state of a real job, or the operations that it waits for", cli_ras},
	{"faults", "list the fault sites and the grammar of a plan", cli_faults},
	{"env", "list the environment variables with meaning and default", cli_env},
};

char *cli_machines_help(const char *text)
{
	char *names = world_machine_names(), *all = NULL;

	if (names && asprintf(&all, "%s: %s", text, names) < 0)
		all = NULL;
	free(names);
	return all ? all : (char *)text;
}

static void cli_usage(FILE *out)
{
	fprintf(out, "Usage: doppel COMMAND [OPTIONS]\n\n"
		     "GPU collective communication on doubles of GPUs and HCAs.\n\nCommands:\n");
	for (size_t i = 0; i < ARRAY_LEN(cli_commands); i++)
		fprintf(out, "  %-11s %s\n", cli_commands[i].name, cli_commands[i].what);
	fprintf(out, "\n'doppel COMMAND --help' explains a command; 'doppel --version' prints "
		     "which build this is.\n");
}

/* Prints commit and build, which a replay compares. */
static void cli_version(void)
{
#if DOPPEL_FAKECUDA
	const char *gpus = "doubles";
#else
	const char *gpus = "CUDA";
#endif
#if DOPPEL_FAKEVERBS
	const char *hcas = "doubles";
#else
	const char *hcas = "rdma-core";
#endif
	printf("doppel %s (build %s; GPUs: %s; HCAs: %s; the API of NCCL %d.%d)\n", build_commit(),
	       build_id(), gpus, hcas, NCCL_MAJOR, NCCL_MINOR);
}

void cli_parse(const struct argp *argp, unsigned flags, int argc, char **argv, void *input)
{
	char name[32], *command = argv[0];

	ASSERT(strlen("doppel ") + strlen(command) < sizeof name); /* one of the table's names */
	snprintf(name, sizeof name, "doppel %s", command);
	argv[0] = name;
	argp_err_exit_status = SIM_USAGE;
	if (argp_parse(argp, argc, argv, flags, NULL, input))
		exit(SIM_USAGE);
	argv[0] = command;
}

bool cli_library_path(const char *dir)
{
	const char *before = getenv("LD_LIBRARY_PATH");
	char *path = NULL;

	if (asprintf(&path, "%s%s%s", dir, before && *before ? ":" : "", before ? before : "") < 0)
		return false;
	bool set = setenv("LD_LIBRARY_PATH", path, 1) == 0;

	free(path);
	return set;
}

bool cli_parse_u64(const char *text, uint64_t *value)
{
	char *end;
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	errno = 0;
	if (hex ? !isxdigit((unsigned char)text[2]) : !isdigit((unsigned char)text[0]))
		return false;
	unsigned long long v = strtoull(text, &end, hex ? 16 : 10);
	if (errno || *end)
		return false;
	*value = v;
	return true;
}

bool cli_parse_seconds(const char *text, uint64_t *ns)
{
	char digits[24];
	size_t n = strlen(text);
	uint64_t unit = 1, v;

	if (n && strchr("smh", text[n - 1])) {
		n--;
		unit = text[n] == 'h' ? 3600 : text[n] == 'm' ? 60 : 1;
	}
	if (!n || n >= sizeof digits)
		return false;
	memcpy(digits, text, n);
	digits[n] = '\0';
	if (!cli_parse_u64(digits, &v) || !v || v > CLI_SECONDS_MOST / unit)
		return false;
	*ns = v * unit * 1000000000ull;
	return true;
}

bool cli_parse_size(const char *text, uint64_t *bytes)
{
	char digits[32];
	size_t n = strlen(text);
	unsigned shift = 0;
	if (n == 0 || n >= sizeof digits)
		return false;
	memcpy(digits, text, n + 1);
	switch (digits[n - 1]) {
	case 'k':
	case 'K':
		shift = 10;
		break;
	case 'm':
	case 'M':
		shift = 20;
		break;
	case 'g':
	case 'G':
		shift = 30;
		break;
	default:
		break;
	}
	if (shift)
		digits[n - 1] = '\0';
	uint64_t v;
	if (!cli_parse_u64(digits, &v) || v > UINT64_MAX >> shift)
		return false;
	*bytes = v << shift;
	return true;
}

static bool cli_alone(int argc, char **argv)
{
	if (argc > 2)
		fprintf(stderr, "doppel %s: unexpected argument '%s'\n", argv[1], argv[2]);
	return argc == 2;
}

static int cli_main(int argc, char **argv)
{
	if (argc < 2) {
		cli_usage(stderr);
		return SIM_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		if (!cli_alone(argc, argv))
			return SIM_USAGE;
		cli_usage(stdout);
		return SIM_PASS;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		if (!cli_alone(argc, argv))
			return SIM_USAGE;
		cli_version();
		return SIM_PASS;
	}
	if (argc == 3 && !strcmp(argv[1], CLI_SWEEP_AGAIN))
		return sweep_again_main(argv[2], NULL);
	for (size_t i = 0; i < ARRAY_LEN(cli_commands); i++)
		if (!strcmp(argv[1], cli_commands[i].name))
			return cli_environment(argv[1]) ? cli_commands[i].run(argc - 1, argv + 1)
							: SIM_USAGE;
	fprintf(stderr, "doppel: unknown command '%s'\n", argv[1]);
	cli_usage(stderr);
	return SIM_USAGE;
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');

	cli_output_start();
	if (!strcmp(slash ? slash + 1 : argv[0], "doppel-nvcc"))
		sim_exit(cli_nvcc(argc, argv));
	os_real_conf_named_only(); /* the files of this machine must not change a seed's run */
	sim_exit(cli_main(argc, argv));
}
