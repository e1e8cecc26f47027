#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
exec bash "$2/dropin/tests/foreign/programs.sh" "$1" "$2" ucx
