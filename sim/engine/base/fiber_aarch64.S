/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * void fiber_switch(void **save_sp, void *load_sp) for AAPCS64. x19-x30 and the low halves of
 * v8-v15 are saved in one frame of 160 bytes on the suspended stack. The CFI describes that frame,
 * so a debugger unwinds from fiber_resume_pc with only the saved sp.
 */
	.text
	.globl	fiber_switch
	.protected	fiber_switch
	.type	fiber_switch,%function
	.globl	fiber_resume_pc
	.protected	fiber_resume_pc
	.p2align 4
fiber_switch:
	.cfi_startproc
	sub	sp, sp, #160
	.cfi_adjust_cfa_offset 160
	stp	x19, x20, [sp, #0]
	.cfi_rel_offset x19, 0
	.cfi_rel_offset x20, 8
	stp	x21, x22, [sp, #16]
	.cfi_rel_offset x21, 16
	.cfi_rel_offset x22, 24
	stp	x23, x24, [sp, #32]
	.cfi_rel_offset x23, 32
	.cfi_rel_offset x24, 40
	stp	x25, x26, [sp, #48]
	.cfi_rel_offset x25, 48
	.cfi_rel_offset x26, 56
	stp	x27, x28, [sp, #64]
	.cfi_rel_offset x27, 64
	.cfi_rel_offset x28, 72
	stp	x29, x30, [sp, #80]
	.cfi_rel_offset x29, 80
	.cfi_rel_offset x30, 88
	stp	d8, d9, [sp, #96]
	stp	d10, d11, [sp, #112]
	stp	d12, d13, [sp, #128]
	stp	d14, d15, [sp, #144]
	mov	x9, sp
	str	x9, [x0]
	mov	sp, x1
fiber_resume_pc:
	ldp	x19, x20, [sp, #0]
	ldp	x21, x22, [sp, #16]
	ldp	x23, x24, [sp, #32]
	ldp	x25, x26, [sp, #48]
	ldp	x27, x28, [sp, #64]
	ldp	x29, x30, [sp, #80]
	ldp	d8, d9, [sp, #96]
	ldp	d10, d11, [sp, #112]
	ldp	d12, d13, [sp, #128]
	ldp	d14, d15, [sp, #144]
	.cfi_restore x19
	.cfi_restore x20
	.cfi_restore x21
	.cfi_restore x22
	.cfi_restore x23
	.cfi_restore x24
	.cfi_restore x25
	.cfi_restore x26
	.cfi_restore x27
	.cfi_restore x28
	.cfi_restore x29
	.cfi_restore x30
	add	sp, sp, #160
	.cfi_adjust_cfa_offset -160
	br	x30 /* not ret: the return predictor knows the other stack's calls */
	.cfi_endproc
	.size	fiber_switch,.-fiber_switch

/* The first switch into a fiber continues here: x19 = function, x20 = its argument. The CFI
 * has no caller, so backtraces end. */
	.globl	fiber_entry
	.hidden	fiber_entry
	.type	fiber_entry,%function
	.p2align 4
fiber_entry:
	.cfi_startproc
	.cfi_undefined x30
	mov	x0, x20
	blr	x19
	brk	#0
	.cfi_endproc
	.size	fiber_entry,.-fiber_entry
	.section .note.GNU-stack,"",%progbits
