#include "textflag.h"

// func vfork(flags uintptr, pidfd *int32) (pid, errno uintptr)
//
// The child shares this stack; the return address is in the link register.
TEXT ·vfork(SB),NOSPLIT,$0-32
	MOVD	flags+0(FP), R0
	MOVD	$0, R1
	MOVD	pidfd+8(FP), R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$0, R5
	MOVD	$220, R8 // clone
	SVC
	CMN	$4095, R0
	BCC	ok
	MOVD	$-1, R4
	MOVD	R4, pid+16(FP)
	NEG	R0, R0
	MOVD	R0, errno+24(FP)
	RET
ok:
	MOVD	R0, pid+16(FP)
	MOVD	ZR, errno+24(FP)
	RET
