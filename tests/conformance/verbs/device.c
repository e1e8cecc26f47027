/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, ports, GIDs and partition keys: what queries say. */
#include "tests/conformance/verbs/suite.h"

CASE(the_list_is_true)
{
	CHECK_MSG(!vs_list_wrong(), "%s", vs_list_wrong());
}
