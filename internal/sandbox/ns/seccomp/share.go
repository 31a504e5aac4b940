package seccomp

import "slices"

// share lets jumps to a return end at a later one with the same action, and
// leaves out what nothing reaches any more. The kernel translates a filter anew
// for every program that starts under it, which takes a third of a microsecond
// an instruction.
func (a *assembler) share() {
	for j := len(a.code) - 1; j >= 0; j-- {
		if a.code[j].op != opRet {
			continue
		}
		next := j + 1 + slices.IndexFunc(a.code[j+1:], func(i insn) bool { return i == a.code[j] })
		if next > j && a.redirect(j, next) {
			a.remove(j)
		}
	}
}

// redirect makes everything that leads to from lead to a later instruction, or
// changes nothing if something cannot.
func (a *assembler) redirect(from, to int) bool {
	if from > 0 && !a.ends(from-1) && !a.jumps(from-1) {
		return false // it is what follows
	}
	code := slices.Clone(a.code)
	for i := range from {
		switch c := &code[i]; {
		case c.op == opJump:
			if i+1+int(c.k) == from {
				c.k = uint32(to - i - 1)
			}
		case a.jumps(i):
			for _, off := range []*uint8{&c.jt, &c.jf} {
				if i+1+int(*off) != from {
					continue
				}
				if to-i-1 > 255 {
					return false
				}
				*off = uint8(to - i - 1)
			}
		}
	}
	a.code = code
	return true
}

// ends reports whether an instruction never goes on to the next one.
func (a *assembler) ends(i int) bool { return a.code[i].op == opRet || a.code[i].op == opJump }

// jumps reports whether an instruction decides.
func (a *assembler) jumps(i int) bool { return a.code[i].op == opEqual || a.code[i].op == opAtMin }

// remove takes an instruction out that nothing leads to.
func (a *assembler) remove(at int) {
	for i := range at {
		switch c := &a.code[i]; {
		case c.op == opJump:
			if i+1+int(c.k) > at {
				c.k--
			}
		case a.jumps(i):
			for _, off := range []*uint8{&c.jt, &c.jf} {
				if i+1+int(*off) > at {
					*off--
				}
			}
		}
	}
	a.code = slices.Delete(a.code, at, at+1)
}
