# SPDX-License-Identifier: BSD-3-Clause
"""Doppel's gdb commands; loaded by sim/gdb/doppel.py, which lists them."""
