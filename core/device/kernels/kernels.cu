/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels.c for nvcc, which goes by a file's name. */
#include "core/device/kernels/kernels.c"
