package dockerfile

import (
	"fmt"
	"strconv"
	"strings"
)

// modeChange is a --chmod: a mode, or clauses like those of chmod(1), with
// BuildKit's mind about set-id and sticky bits.
type modeChange struct {
	set     bool
	octal   uint32
	clauses []clause // where symbolic
}

type clause struct {
	who      string // of "ugo"
	op       byte   // '+', '-' or '='
	perms    string // of "rwxXst"
	copyFrom byte   // 'u', 'g', 'o' or 0
}

func parseMode(s string) (modeChange, error) {
	bad := fmt.Errorf("--chmod=%s: it is neither an octal number up to 7777 nor clauses like u=rwX,go-w", s)
	if n, err := strconv.ParseUint(s, 8, 32); err == nil {
		if n > 0o7777 {
			return modeChange{}, bad
		}
		return modeChange{set: true, octal: uint32(n)}, nil
	}
	m := modeChange{set: true}
	for part := range strings.SplitSeq(s, ",") {
		i := strings.IndexAny(part, "+-=")
		if i < 0 || strings.Trim(part[:i], "ugoa") != "" {
			return modeChange{}, bad
		}
		who := part[:i]
		if who == "" || strings.Contains(who, "a") {
			who = "ugo"
		}
		for rest := part[i:]; rest != ""; {
			c := clause{who: who, op: rest[0]}
			rest = rest[1:]
			n := strings.IndexAny(rest, "+-=")
			if n < 0 {
				n = len(rest)
			}
			c.perms, rest = rest[:n], rest[n:]
			if len(c.perms) == 1 && strings.Contains("ugo", c.perms) {
				c.copyFrom, c.perms = c.perms[0], ""
			}
			if strings.Trim(c.perms, "rwxXst") != "" {
				return modeChange{}, bad
			}
			m.clauses = append(m.clauses, c)
		}
	}
	return m, nil
}

// apply gives the new mode of something that has an old one.
func (m modeChange) apply(old uint32, dir bool) uint32 {
	if !m.set {
		return old
	}
	if m.clauses == nil {
		return m.octal
	}
	mode := old
	for _, c := range m.clauses {
		mode = c.apply(mode, dir)
	}
	return mode
}

func (c clause) apply(mode uint32, dir bool) uint32 {
	shift := map[byte]uint32{'u': 6, 'g': 3, 'o': 0}
	var bits uint32 // of one class
	if c.copyFrom != 0 {
		bits = mode >> shift[c.copyFrom] & 7
	}
	for _, p := range c.perms {
		switch p {
		case 'r':
			bits |= 4
		case 'w':
			bits |= 2
		case 'x':
			bits |= 1
		case 'X':
			if dir || mode&0o111 != 0 {
				bits |= 1
			}
		}
	}
	var change, clear uint32
	for _, w := range []byte(c.who) {
		change |= bits << shift[w]
		clear |= 7 << shift[w]
		if strings.Contains(c.perms, "s") {
			change |= map[byte]uint32{'u': 0o4000, 'g': 0o2000}[w]
		}
		if c.copyFrom == 0 {
			clear |= map[byte]uint32{'u': 0o4000, 'g': 0o2000}[w]
		}
	}
	if strings.Contains(c.perms, "t") && strings.ContainsAny(c.who, "ug") {
		change |= 0o1000
	}
	switch c.op {
	case '+':
		return mode | change
	case '-':
		return mode &^ change
	}
	return mode&^clear | change
}
