/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scenario is everything that defines a run, as data: the world, the collectives, the seed, the
 * faults, what is checked, what is expected, and by which build it was made. The command line fills
 * one from options, a sweep draws one from a seed (scenario_swarm), a failing run leaves one
 * (fail/<id>/config) and `doppel replay` reads it again. It is plain data: copy it by assignment,
 * change a field, run it (what shrinking does).
 *
 * The text form is for people, one `key value` a line, `#` starts a comment; a plan of faults is
 * the indented block after `plan`:
 *
 *	doppel-config 1
 *	machine h100-8nic
 *	hosts 2
 *	env NCCL_BUFFSIZE=65536
 *	seed 0x2a
 *	faults plan
 *	plan
 *		fabric.packet prob=1/64 drop
 *
 * Keys that are missing have their default. An error is explained on stderr with file, line,
 * column, what was expected and the nearest key. Errors: 0 or a positive errno. Times are virtual
 * ns.
 */
#ifndef SIM_LAB_SCENARIO_H
#define SIM_LAB_SCENARIO_H

#include "sim/lab/run/runner.h"

enum {
	SCENARIO_VERSION = 1,
	SCENARIO_SWARM_VERSION = 69, /* changes whenever a seed comes to mean another run */
	SCENARIO_MAX_ENV = 64,
	SCENARIO_ENV_BYTES = 256,
	SCENARIO_PATH_BYTES = 1024,
	SCENARIO_PLAN_BYTES = 32 << 10,
};

enum scenario_expect {
	SCENARIO_EXPECT_AUTO,             /* without faults SUCCESS, with faults SUCCESS_OR_ERROR */
	SCENARIO_EXPECT_SUCCESS,          /* every call of every rank returns success */
	SCENARIO_EXPECT_SUCCESS_OR_ERROR, /* or an error; but it returns, and nothing leaks */
	SCENARIO_EXPECT_REFUSED,          /* every init fails: settings contradict each other */
};

struct scenario {
	/* Complete, except for the pointers, which scenario_lab() sets to the text below. */
	struct lab_config lab;
	char machine[SCENARIO_PATH_BYTES];
	char env[SCENARIO_MAX_ENV][SCENARIO_ENV_BYTES]; /* "NAME=VALUE"; the last of a name wins */
	uint32_t env_count;
	char env_odd[SCENARIO_ENV_BYTES]; /* "NAME=VALUE" of every other process; "": none */
	char plan[SCENARIO_PLAN_BYTES];   /* "": none */
	enum scenario_expect expect;
	uint64_t canary_step; /* a planted failure, to test the code that looks for them; 0: none */
	/* where it comes from; compared by scenario_same_build, of no influence on the run */
	char origin[32]; /* "swarm-default:1", "options" */
	char commit[64]; /* git describe */
	char build[20];  /* of the libraries in this process: build_id() */
	char machine_digest[20];
	/* how it ended when it was recorded (sim/lab/check/found.h); kind "": not known */
	struct sim_failure found;
	uint32_t found_seconds; /* kind "hung": of real time, after which it was given up */

	const char *env_list[SCENARIO_MAX_ENV + 1]; /* scenario_lab's */
};

/* The defaults of `doppel run`. */
void scenario_default(struct scenario *s);
/* NAME=VALUE, in place of what that name was. ENOSPC when the environment is full, E2BIG for too
 * long a text, EINVAL without a '='. Silent. */
int scenario_set_env(struct scenario *s, const char *assignment);

/* Returns the argument of lab_run. It points into *s: valid until *s changes, moves or is
 * copied. */
const struct lab_config *scenario_lab(struct scenario *s);

bool scenario_has_faults(const struct scenario *s);
/* Returns the expected outcome, with AUTO resolved. */
enum scenario_expect scenario_expectation(const struct scenario *s);
/* Has its collective a root, or the one before it? */
bool scenario_has_root(const struct scenario *s);
/* Number of ranks; loads the machine when the number of GPUs in use of a host is not given. */
int scenario_ranks(const struct scenario *s, uint32_t *ranks);

/* Writes down which build and which machine file this is (commit, build, machine_digest). */
int scenario_stamp(struct scenario *s);
/* Prints what differs from the build and the machine files of this process, a line each; returns
 * the number of differences. */
int scenario_print_differences(const struct scenario *s, FILE *out);

/* ---- the text form -------------------------------------------------------------------------- */

void scenario_write(const struct scenario *s, FILE *out);
int scenario_write_file(const struct scenario *s, const char *path);
/* `name` is for messages. */
int scenario_parse(struct scenario *s, const char *text, size_t bytes, const char *name);
int scenario_read_file(struct scenario *s, const char *path);
/* Digest of all that the run depends on, except for its origin and its seed. */
uint32_t scenario_digest(const struct scenario *s);

/* ---- swarms --------------------------------------------------------------------------------- */

/* Draws a whole scenario from a seed: first which features exist at all, then how strong. Every
 * part has a random stream of its own, so that a new feature leaves the others as they were. */
enum scenario_faults {
	SCENARIO_FAULTS_SOME, /* the default swarm: one seed in five draws a plan */
	SCENARIO_FAULTS_NONE,
	SCENARIO_FAULTS_ALWAYS,
	SCENARIO_FAULTS_CALL, /* a side world: small; mostly one call fails, drawn by its caller */
};
void scenario_swarm(struct scenario *s, uint64_t seed, enum scenario_faults faults);
/* Adds plugins of the lab's own (enum lab_plugin), except those that do not fit the scenario. */
void scenario_take_plugins(struct scenario *s, uint32_t plugins);
/* Lets one call of a function of these (an index of lab_plugin_fails) fail, if that fits; 0: none.
 * Leaves out what the program does beside its series. */
void scenario_take_plugin_failure(struct scenario *s, uint32_t function);
/* The side worlds of a seed are scenario_swarm of other seeds, with SCENARIO_FAULTS_CALL. Side 0 is
 * the seed's own world. */
#define SCENARIO_SIDES 2
uint64_t scenario_side_seed(uint64_t seed, uint32_t side);

/* ---- builds --------------------------------------------------------------------------------- */

/* Changes when the code changes: a digest of the build ids of this program and its libraries of
 * Doppel, as 16 hexadecimal digits. */
const char *build_id(void);
const char *build_commit(void);

#endif
