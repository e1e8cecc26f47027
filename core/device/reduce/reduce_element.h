/* SPDX-License-Identifier: BSD-3-Clause */
/* A body of reduce_types.h: the functions of one element, for host and device. */

RC_FN RC_T RC_F(apply)(enum dev_op op, RC_T a, RC_T b)
{
	return RC_NARROW(RC_OP(op, RC_WIDEN(a), RC_WIDEN(b)));
}

/* scale: a number of this type, in the low bits. */
RC_FN RC_T RC_F(scale)(RC_T a, uint64_t scale)
{
	RC_T s;
	memcpy(&s, &scale, sizeof s);
	return RC_NARROW(RC_OP(DEV_PROD, RC_WIDEN(a), RC_WIDEN(s)));
}

#if RC_INTEGER
RC_FN RC_T RC_F(divide)(RC_T a, uint64_t divisor)
{
	return RC_NARROW(RC_WIDEN(a) / (RC_W)divisor);
}
#endif
