/* SPDX-License-Identifier: BSD-3-Clause */
/* make_int2, make_float4 and the others. */
#ifndef FAKECUDA_DEVICE_VECTORS_H
#define FAKECUDA_DEVICE_VECTORS_H

#define FAKECUDA_MAKE(name, type)                                                                  \
	FAKECUDA_BOTH name##1 make_##name##1(type x)                                               \
	{                                                                                          \
		return name##1 {x};                                                                \
	}                                                                                          \
	FAKECUDA_BOTH name##2 make_##name##2(type x, type y)                                       \
	{                                                                                          \
		return name##2 {x, y};                                                             \
	}                                                                                          \
	FAKECUDA_BOTH name##3 make_##name##3(type x, type y, type z)                               \
	{                                                                                          \
		return name##3 {x, y, z};                                                          \
	}                                                                                          \
	FAKECUDA_BOTH name##4 make_##name##4(type x, type y, type z, type w)                       \
	{                                                                                          \
		return name##4 {x, y, z, w};                                                       \
	}

FAKECUDA_MAKE(char, signed char)
FAKECUDA_MAKE(uchar, unsigned char)
FAKECUDA_MAKE(short, short)
FAKECUDA_MAKE(ushort, unsigned short)
FAKECUDA_MAKE(int, int)
FAKECUDA_MAKE(uint, unsigned int)
FAKECUDA_MAKE(long, long)
FAKECUDA_MAKE(ulong, unsigned long)
FAKECUDA_MAKE(longlong, long long)
FAKECUDA_MAKE(ulonglong, unsigned long long)
FAKECUDA_MAKE(float, float)
FAKECUDA_MAKE(double, double)
#undef FAKECUDA_MAKE

#endif
