package draft

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
)

// others finds another literal for one that a test expects. It is one that an
// honest test could hold: code that forges outcomes reads the tests, and a mark
// that all canaries bear would tell it which ones to let fail.
type others struct {
	seed  []byte
	texts []string // what else the file asserts of
}

// draw is a number below n, the same for the same place.
func (o others) draw(at string, n int) int {
	sum := sha256.Sum256(append(o.seed[:len(o.seed):len(o.seed)], at...))
	return int(binary.LittleEndian.Uint32(sum[:4]) % uint32(n))
}

// other is another literal of the same kind; the same one where there is none.
func (o others) other(lit, at string) string {
	switch lit {
	case "True":
		return "False"
	case "False":
		return "True"
	case "true":
		return "false"
	case "false":
		return "true"
	}
	if lit[0] == '"' || lit[0] == '\'' {
		return o.text(lit, at)
	}
	whole, after, point := strings.Cut(lit, ".")
	n, err := strconv.ParseInt(whole, 10, 32)
	if err != nil || !point && len(lit) > 1 && lit[0] == '0' {
		return lit
	}
	to := strconv.FormatInt(o.number(n, at), 10)
	if point {
		to += "." + after
	}
	return to
}

// number is near to n, and not negative.
func (o others) number(n int64, at string) int64 {
	near := []int64{n + 1, n + 2}
	if n > 1 {
		near = append(near, n-1, n-1)
	}
	if n > 9 && n/10%10 != n%10 { // two digits the other way round
		near = append(near, n/100*100+n%10*10+n/10%10)
	}
	return near[o.draw(at, len(near))]
}

// text has another digit, is another text of the file's, or has two letters
// the other way round, whichever there is first.
func (o others) text(lit, at string) string {
	quote, in := lit[:1], []byte(lit[1:len(lit)-1])
	plain := func(i int) bool { // no part of an escape or of a verb
		return i == 0 || !strings.ContainsRune(`\%$`, rune(in[i-1]))
	}
	is := func(i int, from, to byte) bool { return in[i] >= from && in[i] <= to && plain(i) }
	var digits, pairs, letters []int
	for i := range in {
		if is(i, '0', '9') {
			digits = append(digits, i)
		}
		if is(i, 'a', 'z') || is(i, 'A', 'Z') {
			letters = append(letters, i)
			if n := len(letters); n > 1 && letters[n-2] == i-1 && in[i-1] != in[i] {
				pairs = append(pairs, i)
			}
		}
	}
	if len(digits) > 0 && !strings.ContainsRune(string(in), '\\') {
		i := digits[o.draw(at, len(digits))]
		in[i] = '0' + (in[i]-'0'+1+byte(o.draw(at+"d", 8)))%10
		return quote + string(in) + quote
	}
	var same []string
	for _, t := range o.texts {
		if t[0] == lit[0] && t != lit && len(t) > 2 {
			same = append(same, t)
		}
	}
	switch {
	case len(same) > 0:
		return same[o.draw(at, len(same))]
	case len(pairs) > 0:
		i := pairs[o.draw(at, len(pairs))]
		in[i-1], in[i] = in[i], in[i-1]
	case len(letters) > 0:
		i := letters[o.draw(at, len(letters))]
		in[i] = in[i]&^0x1f | ((in[i]&0x1f+byte(o.draw(at+"l", 25)))%26 + 1) // of 26, in its own case
	default:
		return quote + string(in) + string(rune('a'+o.draw(at, 26))) + quote
	}
	return quote + string(in) + quote
}
