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

// newFilter takes the program of a message; nil is one that the kernel refuses.
func newFilter(m Message) *filter {
	if len(m.Strs) != 1 || len(m.Strs[0])%sizeofInsn != 0 || len(m.Strs[0])/sizeofInsn > 4096 {
		return nil
	}
	b := make([]uint64, len(m.Strs[0])/sizeofInsn+1) // aligned
	p := unsafe.Slice((*byte)(unsafe.Pointer(&b[0])), 8*len(b))
	copy(p, m.Strs[0])
	return &filter{uint16(len(m.Strs[0]) / sizeofInsn), &p[0]}
}
