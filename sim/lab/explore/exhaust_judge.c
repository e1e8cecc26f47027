/* SPDX-License-Identifier: BSD-3-Clause */
/* The verdict on a run under a fault, and the command that repeats it. */
#include <inttypes.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/check/reported.h"
#include "sim/lab/explore/exhaust_internal.h"

static bool exhaust_is_hurt(const struct lab_life_rank *r)
{
	return r->call && r->error != ncclRemoteError && !r->launcher_aborted && !r->aborted &&
	       !r->dead;
}

/* Returns the explanation of a failed call that no rank reports, or too late; NULL: there is no
 * such call. */
static const char *exhaust_judge_silence(const struct lab_life *life)
{
	static char text[LAB_REPORTED_BYTES];
	bool shown = false, late = false;

	for (int32_t i = 0; i < life->nranks; i++) {
		const struct lab_life_rank *r = &life->rank[i];

		shown |= r->call != NULL || r->dead;
		late = late ||
		       (r->call && !r->outside && lab_failure_late(i, r->call, text, sizeof text));
	}
	return late || (!shown && lab_failure_unreported(text, sizeof text)) ? text : NULL;
}

/* Returns the reason why a run that passed is wrong; NULL: it is right. */
const char *exhaust_judge(const struct exhaust_series *s, const struct lab_life *life, bool fired)
{
	/* a rank that can open no connection cannot report its error */
	bool mute = s->for_ever && s->class == EXHAUST_SOCKET, early = false, dead = false;
	bool lost = false;
	int32_t hurt = 0;

	ASSERT(life->nranks > 0 && life->nranks <= LAB_LIFE_RANKS);
	for (int32_t i = 0; i < life->nranks; i++) {
		const struct lab_life_rank *r = &life->rank[i];
		early |= r->dead ? r->phase <= LAB_INIT
				 : (r->outside || (mute && r->call)) && r->error_phase <= LAB_INIT;
		dead |= r->dead;
		lost |= r->lost;
		hurt += exhaust_is_hurt(r);
	}
	for (int32_t i = 0; i < life->nranks; i++) {
		const struct lab_life_rank *r = &life->rank[i];
		if (r->dead)
			continue;
		if (r->revived)
			return "a GPU with a sticky error lives again";
		if (r->launcher_aborted && !early && !r->newcomer)
			return "the stack gave a rank no error, and the launcher aborted it";
		if (life->second && !r->recovered && !r->lost)
			return "a survivor cannot make a new communicator";
		if (r->error == ncclInProgress)
			return "an error code that does not exist";
	}
	if (lost != (life->sticky && fired))
		return "a sticky error that ends with the call, or none that kills a GPU";
	if (hurt > (dead ? 0 : 1))
		return "ranks that were not hit see other errors than ncclRemoteError";
	if (life->healed_ns > EXHAUST_BOUND_NS)
		return "it takes longer than the bound";
	return exhaust_judge_silence(life);
}

const char *exhaust_verdict(const struct lab_result *result)
{
	switch (result->verdict) {
	case SIM_PASS:
		return NULL;
	case SIM_NO_PROGRESS:
		return "hang";
	case SIM_WRONG_RESULT:
		return "wrong result after success";
	case SIM_MISUSE:
		return result->failure.message;
	case SIM_LEAK:
		return "leak";
	case SIM_USAGE:
	case SIM_SKIPPED:
	case SIM_CRASH:
	case SIM_ERROR:
	case SIM_NOT_DETERMINISTIC:
	case SIM_BY_SIGNAL:
		break;
	}
	return "crash";
}

void exhaust_print_ranks(FILE *out, const struct lab_life *life)
{
	for (int32_t i = 0; i < life->nranks; i++) {
		const struct lab_life_rank *r = &life->rank[i];
		fprintf(out, "    rank %d: %s%s%s%s", i, r->dead ? "dead in " : "",
			r->dead ? lab_phase_name(r->phase) : "",
			r->launcher_aborted ? "aborted by the launcher " : "",
			r->aborted ? "aborted " : "");
		if (r->call)
			fprintf(out, "%s gave %d (%s) in %s%s", r->call, (int)r->error,
				ncclGetErrorString(r->error), lab_phase_name(r->error_phase),
				r->outside ? ", outside the stack" : "");
		else if (!r->dead)
			fprintf(out, "no error");
		if (r->lost)
			fprintf(out, "; its GPU is dead");
		else if (life->second && !r->dead)
			fprintf(out, "; second: %s %s", r->recovered ? "ok" : "FAILED in",
				r->recovered     ? ""
				: r->second_call ? r->second_call
						 : "?");
		fputc('\n', out);
	}
}

void exhaust_command(const struct exhaust_config *c, const struct exhaust_series *s, uint64_t k,
		     char *out, size_t bytes)
{
	int n = snprintf(
		out, bytes, "doppel exhaust %s --site %s.%s --k %" PRIu64 " --seed %" PRIu64 "%s%s",
		exhaust_class_name[s->class], s->site, s->action, k, c->seed,
		s->for_ever ? " --for-ever" : " --once", s->fifo ? " --fifo" : " --exploring");
	if (s->rank >= 0)
		n += snprintf(out + n, bytes - (size_t)n, " --rank %d", s->rank);
	if (s->task)
		n += snprintf(out + n, bytes - (size_t)n, " --task '%s'", s->task);
	if (strcmp(c->machine, EXHAUST_MACHINE))
		n += snprintf(out + n, bytes - (size_t)n, " --machine %s", c->machine);
	n = MIN_OF(n, (int)bytes - 1);
	if (c->hosts != 2 || c->gpus != 2)
		n += snprintf(out + n, bytes - (size_t)n, " --hosts %u --gpus %u", c->hosts,
			      c->gpus);
	if (c->ranks_per_proc != 1)
		n += snprintf(out + n, bytes - (size_t)n, " --ranks-per-process %u",
			      c->ranks_per_proc);
	if (c->collective != &lab_collectives[0])
		n += snprintf(out + n, bytes - (size_t)n, " --collective %s", c->collective->name);
	for (int i = EXHAUST_ENV_OWN; c->env[i]; i++) {
		n += snprintf(out + n, bytes - (size_t)n, " --env %s", c->env[i]);
		n = MIN_OF(n, (int)bytes - 1);
	}
	if (c->stage)
		n += snprintf(out + n, bytes - (size_t)n, " --stage %s", lab_stage_name[c->stage]);
	n = MIN_OF(n, (int)bytes - 1);
	if (c->blocking != c->polling)
		snprintf(out + n, bytes - (size_t)n, c->blocking ? " --blocking" : " --polling");
}

bool exhaust_action_counts(const struct exhaust_config *c, const struct exhaust_series *s)
{
	if ((s->class == EXHAUST_VERBS || s->class == EXHAUST_CUDA) && !strcmp(s->action, "fail"))
		return c->site != NULL;
	return !strcmp(s->action, "fail") || !strcmp(s->action, "reset") ||
	       !strcmp(s->action, "error") || !strcmp(s->action, "kill") || exhaust_is_sticky(s);
}
