/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much of a long loop a build does. Under a sanitizer each run costs five to fifty times as much
 * and looks for something else: it takes every SAMPLE_THIN-th k or seed.
 */
#ifndef TESTS_SAMPLE_H
#define TESTS_SAMPLE_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SAMPLE_THIN 3 /* odd: what goes by the parity of k still alternates */
#else
#define SAMPLE_THIN 1
#endif

#endif
