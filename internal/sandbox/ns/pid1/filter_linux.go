package pid1

import "unsafe"

// filter is struct sock_fprog: a program that the kernel runs at every system
// call. What it says is package seccomp's matter.
type filter struct {
	length uint16
	code   *byte
}

const (
	sizeofInsn        = 8
	seccompModeFilter = 1
	// Programs here share no memory with anybody they could spy upon; without
	// the flag, kernels before 5.16 would slow them down.
	seccompSpecAllow = 4
)

// newFilter takes a program; nil is one that the kernel refuses.
func newFilter(code string) *filter {
	if len(code)%sizeofInsn != 0 || len(code)/sizeofInsn > 4096 {
		return nil
	}
	b := make([]uint64, len(code)/sizeofInsn+1) // aligned
	p := unsafe.Slice((*byte)(unsafe.Pointer(&b[0])), 8*len(b))
	copy(p, code)
	return &filter{uint16(len(code) / sizeofInsn), &p[0]}
}
