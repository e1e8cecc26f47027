/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/topo/search/record.h"

const char *topo_attempt_end_text(enum topo_attempt_end end)
{
	static const char text[][48] = {[TOPO_ATTEMPT_ALIKE] = "not made: as at the higher speed",
					[TOPO_ATTEMPT_ALL_SEEN] = "every way seen",
					[TOPO_ATTEMPT_BUDGET] = "steps used up",
					[TOPO_ATTEMPT_FULL] = "as many channels as there may be",
					[TOPO_ATTEMPT_NO_BETTER] = "no more channels can fit",
					[TOPO_ATTEMPT_NOT_MADE] =
						"not made: no more than that can fit"};

	return (unsigned)end < ARRAY_LEN(text) ? text[end] : "?";
}
