/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much of a long loop a build does. Under a sanitizer each run costs five to fifty times as
 * much and looks for something else: it takes every SAMPLE_THIN-th k or seed.
 */
#ifndef TESTS_SAMPLE_H
#define TESTS_SAMPLE_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SAMPLE_THIN 5 /* prime: what goes by k modulo 2, 3 or 4 still alternates */
#else
#define SAMPLE_THIN 1
#endif

#endif
