/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/plugin/plugin_end.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/base/macros.h"
#include "core/os/os.h"
#include "core/plugin/plugin.h"

/* Pauses: one for each of the first fruitless calls, then the longer ones. */
#define PLUGIN_QUICK_CALLS   32
#define PLUGIN_QUICK_NS      1000u
#define PLUGIN_PAUSE_CALLS   8 /* calls before a pause doubles */
#define PLUGIN_PAUSE_NS      20000u
#define PLUGIN_PAUSE_DOUBLED 3u /* times at most */

static ncclResult_t plugin_end_fail(struct plugin_end *e, ncclResult_t rc, const char *text)
{
	char peer[32] = "";

	if (e->failed)
		return e->failed;
	e->failed = rc == ncclRemoteError ? rc : ncclSystemError;
	if (e->arrow)
		snprintf(peer, sizeof peer, " %s rank %d", e->arrow, e->peer);
	WARN("%s: rank %d%s channel %d on %s: %s: %s", e->network, e->rank, peer, e->channel,
	     e->device, e->plugin, text);
	return e->failed;
}

ncclResult_t plugin_end_failed(struct plugin_end *e, const char *function, ncclResult_t rc)
{
	char text[160];

	snprintf(text, sizeof text, "%s fails with %s (%d)", function, plugin_result(rc), (int)rc);
	return plugin_end_fail(e, rc, text);
}

ncclResult_t plugin_end_refuse(struct plugin_end *e, const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return plugin_end_fail(e, ncclSystemError, text);
}

static uint64_t plugin_end_pause_ns(struct plugin_end *e)
{
	uint32_t doubled;

	if (e->misses++ < PLUGIN_QUICK_CALLS)
		return PLUGIN_QUICK_NS;
	doubled = (e->misses - PLUGIN_QUICK_CALLS) / PLUGIN_PAUSE_CALLS;
	return (uint64_t)PLUGIN_PAUSE_NS << MIN_OF(doubled, PLUGIN_PAUSE_DOUBLED);
}

void plugin_end_wait(struct plugin_end *e, const char *object, const char *why, struct wait *w)
{
	*w = wait_object(e, os_event_seq(e), why, wait_by(e->peer, e->channel, object));
	w->deadline_ns = os_now_ns() + plugin_end_pause_ns(e);
}
