/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The twelve types of a reduction, for code that exists once for each type. This header includes
 * the file RC_BODY twelve times with these macros set:
 *
 *	RC_NAME                      i8, u8 ... f8e5m2; RC_F(stem) is rc_<stem>_<name>
 *	RC_T, RC_W                   the type that is stored, and the type of computations
 *	RC_WIDEN(x), RC_NARROW(x)    convert from RC_T to RC_W and back, with rounding
 *	RC_OP                        the operation on RC_W
 *	RC_INTEGER                   1 or 0
 *
 * Bodies are files and not macros, so that a debugger steps through their lines. There is no
 * include guard because the header is included several times.
 */
#define RC_NAME      i8
#define RC_T         int8_t
#define RC_W         int32_t
#define RC_WIDEN(x)  (x)
#define RC_NARROW(x) ((int8_t)(x))
#define RC_OP        rc_op_i32
#define RC_INTEGER   1
#include RC_BODY
#undef RC_NAME
#undef RC_T
#undef RC_W
#undef RC_WIDEN
#undef RC_NARROW
#undef RC_OP
#undef RC_INTEGER

#define RC_NAME      u8
#define RC_T         uint8_t
#define RC_W         uint32_t
#define RC_WIDEN(x)  (x)
#define RC_NARROW(x) ((uint8_t)(x))
#define RC_OP        rc_op_u32
#define RC_INTEGER   1
#include RC_BODY
#undef RC_NAME
#undef RC_T
#undef RC_W
#undef RC_WIDEN
#undef RC_NARROW
#undef RC_OP
#undef RC_INTEGER

#define RC_NAME      i32
#define RC_T         int32_t
#define RC_W         int32_t
#define RC_WIDEN(x)  (x)
#define RC_NARROW(x) (x)
#define RC_OP        rc_op_i32
#define RC_INTEGER   1
#include RC_BODY
#undef RC_NAME
#undef RC_T
#undef RC_W
#undef RC_WIDEN
#undef RC_NARROW
#undef RC_OP
#undef RC_INTEGER

#define RC_NAME      u32
#define RC_T         uint32_t
#define RC_W         uint32_t
#define RC_WIDEN(x)  (x)
#define RC_NARROW(x) (x)
#define RC_OP        rc_op_u32
#define RC_INTEGER   1
#include RC_BODY
#undef RC_NAME
#undef RC_T
#undef RC_W
#undef RC_WIDEN
#undef RC_NARROW
#undef RC_OP
#undef RC_INTEGER

#define RC_NAME      i64
#define RC_T         int64_t
#define RC_W         int64_t
#define RC_WIDEN(x)  (x)
#define RC_NARROW(x) (x)
#define RC_OP        rc_op_i64
#define RC_INTEGER   1
#include RC_BODY
#undef RC_NAME
#undef RC_T
#undef RC_W
#undef RC_WIDEN
#undef RC_NARROW
#undef RC_OP
#undef RC_INTEGER

#define RC_NAME      u64
#define RC_T         uint64_t
#define RC_W         uint64_t
#define RC_WIDEN(x)  (x)
#define RC_NARROW(x) (x)
#define RC_OP        rc_op_u64
#define RC_INTEGER   1
#include RC_BODY
#undef RC_NAME
#undef RC_T
#undef RC_W
#undef RC_WIDEN
#undef RC_NARROW
#undef RC_OP
#undef RC_INTEGER

#define RC_NAME      f16
#define RC_T         uint16_t
#define RC_W         float
#define RC_WIDEN(x)  rc_f32_of_f16(x)
#define RC_NARROW(x) rc_f16_of_f32(x)
#define RC_OP        rc_op_f32
#define RC_INTEGER   0
#include RC_BODY
#undef RC_NAME
#undef RC_T
#undef RC_W
#undef RC_WIDEN
#undef RC_NARROW
#undef RC_OP
#undef RC_INTEGER

#define RC_NAME      f32
#define RC_T         float
#define RC_W         float
#define RC_WIDEN(x)  (x)
#define RC_NARROW(x) (x)
#define RC_OP        rc_op_f32
#define RC_INTEGER   0
#include RC_BODY
#undef RC_NAME
#undef RC_T
#undef RC_W
#undef RC_WIDEN
#undef RC_NARROW
#undef RC_OP
#undef RC_INTEGER

#define RC_NAME      f64
#define RC_T         double
#define RC_W         double
#define RC_WIDEN(x)  (x)
#define RC_NARROW(x) (x)
#define RC_OP        rc_op_f64
#define RC_INTEGER   0
#include RC_BODY
#undef RC_NAME
#undef RC_T
#undef RC_W
#undef RC_WIDEN
#undef RC_NARROW
#undef RC_OP
#undef RC_INTEGER

#define RC_NAME      bf16
#define RC_T         uint16_t
#define RC_W         float
#define RC_WIDEN(x)  rc_f32_of_bf16(x)
#define RC_NARROW(x) rc_bf16_of_f32(x)
#define RC_OP        rc_op_f32
#define RC_INTEGER   0
#include RC_BODY
#undef RC_NAME
#undef RC_T
#undef RC_W
#undef RC_WIDEN
#undef RC_NARROW
#undef RC_OP
#undef RC_INTEGER

#define RC_NAME      f8e4m3
#define RC_T         uint8_t
#define RC_W         float
#define RC_WIDEN(x)  rc_f32_of_f8e4m3(x)
#define RC_NARROW(x) rc_f8e4m3_of_f32(x)
#define RC_OP        rc_op_f32
#define RC_INTEGER   0
#include RC_BODY
#undef RC_NAME
#undef RC_T
#undef RC_W
#undef RC_WIDEN
#undef RC_NARROW
#undef RC_OP
#undef RC_INTEGER

#define RC_NAME      f8e5m2
#define RC_T         uint8_t
#define RC_W         float
#define RC_WIDEN(x)  rc_f32_of_f8e5m2(x)
#define RC_NARROW(x) rc_f8e5m2_of_f32(x)
#define RC_OP        rc_op_f32
#define RC_INTEGER   0
#include RC_BODY
#undef RC_NAME
#undef RC_T
#undef RC_W
#undef RC_WIDEN
#undef RC_NARROW
#undef RC_OP
#undef RC_INTEGER
