package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Policy is what may vary.
type Policy struct {
	Arch string // as GOARCH
	// FakeOwners: chown, set*id, setgroups, capset and the making of devices
	// succeed and do nothing.
	FakeOwners bool
	// FakeDevices: the making of devices alone does.
	FakeDevices bool
}

// Actions of a filter: what the kernel makes of a call.
const (
	allow   = 0x7fff0000 // SECCOMP_RET_ALLOW
	errno   = 0x00050000 // SECCOMP_RET_ERRNO, with the number below
	success = errno      // the call is skipped and returns 0
	eperm   = errno | 1
	enosys  = errno | 38
)

// Offsets in struct seccomp_data, whose words are the machine's: all of ours
// are little-endian.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// abi is one table of calls as the kernel tells them apart.
type abi struct {
	audit  uint32 // AUDIT_ARCH_*
	column int    // of the table
	// private numbers far above the table, which belong to it.
	privateFrom, privateTo uint32
}

// abis lists the tables that programs of a machine can use.
func abis(arch string) ([]abi, error) {
	switch arch {
	case "amd64":
		return []abi{{audit: 0xc000003e, column: 0}, {audit: 0x40000003, column: 1}}, nil
	case "arm64":
		return []abi{{audit: 0xc00000b7, column: 2}, {0x40000028, 3, 0xf0001, 0xf0006}}, nil
	case "riscv64":
		return []abi{{audit: 0xc00000f3, column: 2}}, nil
	case "loong64":
		return []abi{{audit: 0xc0000102, column: 2}}, nil
	}
	return nil, fmt.Errorf("no table of system calls for %s", arch)
}

// Compile returns an array of struct sock_filter.
func Compile(p Policy) ([]byte, error) {
	all, err := abis(p.Arch)
	if err != nil {
		return nil, fmt.Errorf("compile system call filter: %w", err)
	}
	a := &assembler{}
	a.load(offArch)
	for _, b := range all {
		body := &assembler{}
		body.load(offNumber)
		ranges, err := b.ranges(p)
		if err != nil {
			return nil, fmt.Errorf("compile system call filter: %w", err)
		}
		body.tree(ranges)
		body.share()
		a.skipUnless(b.audit, len(body.code))
		a.code = append(a.code, body.code...)
	}
	a.ret(enosys)
	if len(a.code) > maxProgram {
		return nil, errors.New("compile system call filter: longer than the kernel takes")
	}
	return a.bytes(), nil
}

// maxProgram is BPF_MAXINSNS.
const maxProgram = 4096

// verdict is what happens to a number: code that ends in a return.
type verdict struct {
	ret   uint32
	check func(*assembler) // instead of ret, if set
}

// span is a run of numbers with one verdict, up to the next span's from.
type span struct {
	from uint32
	v    verdict
}

// ranges cuts all numbers into spans.
func (b abi) ranges(p Policy) ([]span, error) {
	numbers := map[uint32]verdict{}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) != 6 {
			return nil, fmt.Errorf("table: %q", line)
		}
		if f[2+b.column] == "-" {
			continue
		}
		n, err := strconv.ParseUint(f[2+b.column], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("table: %q", line)
		}
		v, ok := p.verdict(f[0], f[1])
		if !ok {
			return nil, fmt.Errorf("table: %q: no such verb or check", line)
		}
		numbers[uint32(n)] = v
	}
	var out []span
	plain := func(from, action uint32) {
		if n := len(out); n > 0 && out[n-1].v.check == nil && out[n-1].v.ret == action {
			return
		}
		out = append(out, span{from, verdict{ret: action}})
	}
	for n := range uint32(newest + 1) {
		v, ok := numbers[n]
		switch {
		case !ok:
			plain(n, allow)
		case v.check != nil:
			out = append(out, span{n, v})
		default:
			plain(n, v.ret)
		}
	}
	plain(newest+1, enosys)
	if b.privateFrom != 0 {
		plain(b.privateFrom, allow)
		plain(b.privateTo, enosys)
	}
	return out, nil
}

// verdict of a row.
func (p Policy) verdict(verb, name string) (verdict, bool) {
	switch verb {
	case "perm":
		return verdict{ret: eperm}, true
	case "nosys":
		return verdict{ret: enosys}, true
	case "fake":
		if p.FakeOwners {
			return verdict{ret: success}, true
		}
		return verdict{ret: allow}, true
	case "check":
		f := p.check(name)
		return verdict{check: f}, f != nil
	}
	return verdict{}, false
}

// insn is struct sock_filter.
type insn struct {
	op     uint16
	jt, jf uint8
	k      uint32
}

const (
	opLoad  = 0x20 // BPF_LD | BPF_W | BPF_ABS
	opAnd   = 0x54 // BPF_ALU | BPF_AND | BPF_K
	opJump  = 0x05 // BPF_JMP | BPF_JA
	opEqual = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	opAtMin = 0x35 // BPF_JMP | BPF_JGE | BPF_K
	opRet   = 0x06 // BPF_RET | BPF_K
)

type assembler struct{ code []insn }

func (a *assembler) add(op uint16, k uint32, jt, jf uint8) {
	a.code = append(a.code, insn{op, jt, jf, k})
}

func (a *assembler) load(off uint32)   { a.add(opLoad, off, 0, 0) }
func (a *assembler) arg(i uint32)      { a.load(offArgs + 8*i) } // its low half
func (a *assembler) ret(action uint32) { a.add(opRet, action, 0, 0) }

// skipUnless goes on if the accumulator is k and else jumps over n instructions.
func (a *assembler) skipUnless(k uint32, n int) {
	a.add(opEqual, k, 1, 0)
	a.add(opJump, uint32(n), 0, 0)
}

// tree decides by halves: the kernel tries every number when a filter is
// installed, and each step of a chain would be taken hundreds of times.
func (a *assembler) tree(s []span) {
	if len(s) == 1 {
		if s[0].v.check != nil {
			s[0].v.check(a)
		} else {
			a.ret(s[0].v.ret)
		}
		return
	}
	mid := len(s) / 2
	low := &assembler{}
	low.tree(s[:mid])
	if n := len(low.code); n < 256 {
		a.add(opAtMin, s[mid].from, uint8(n), 0)
	} else {
		a.add(opAtMin, s[mid].from, 0, 1)
		a.add(opJump, uint32(n), 0, 0)
	}
	a.code = append(a.code, low.code...)
	a.tree(s[mid:])
}

func (a *assembler) bytes() []byte {
	b := make([]byte, 0, 8*len(a.code))
	for _, i := range a.code {
		b = binary.LittleEndian.AppendUint16(b, i.op)
		b = append(b, i.jt, i.jf)
		b = binary.LittleEndian.AppendUint32(b, i.k)
	}
	return slices.Clip(b)
}
