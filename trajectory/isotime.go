package trajectory

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// isoTime says whether s is a time as the reference reads it: Python's
// datetime.fromisoformat of 3.12 after every Z became +00:00. That is wider
// than RFC 3339: dates alone, basic forms and week dates pass, any one
// character may stand between date and time, and 24:00 does not pass.
func isoTime(s string) bool {
	s = strings.ReplaceAll(s, "Z", "+00:00")
	for _, form := range []*regexp.Regexp{isoWeek, isoDate} {
		m := form.FindStringSubmatch(s)
		if m == nil || !realDate(form, m) {
			continue
		}
		rest := s[len(m[0]):]
		if rest == "" {
			return true
		}
		_, size := utf8.DecodeRuneInString(rest)
		if clock := isoClock.FindStringSubmatch(rest[size:]); clock != nil && realClock(clock) {
			return true
		}
	}
	return false
}

var (
	isoDate = regexp.MustCompile(`^(\d{4})(?:-(\d\d)-(\d\d)|(\d\d)(\d\d))`)
	isoWeek = regexp.MustCompile(`^(\d{4})(?:-W(\d\d)(?:-(\d))?|W(\d\d)(\d)?)`)
	// hours, minutes, seconds and a fraction, then a zone of the same form
	isoClock = regexp.MustCompile(`^` + hms + ` ?(?:[+-]` + hms + `)?$`)
)

const hms = `(\d\d)(?:(?::(\d\d)(?::(\d\d)(?:[.,]\d+)?)?)|(?:(\d\d)(?:(\d\d)(?:[.,]\d+)?)?))?`

func realDate(form *regexp.Regexp, m []string) bool {
	year, a, b := atoi(m[1]), atoi(m[2]+m[4]), atoi(m[3]+m[5])
	if year < 1 {
		return false
	}
	if form == isoDate {
		t := time.Date(year, time.Month(a), b, 0, 0, 0, 0, time.UTC)
		return t.Year() == year && int(t.Month()) == a && t.Day() == b
	}
	if m[3]+m[5] == "" {
		b = 1
	}
	_, last := time.Date(year, 12, 28, 0, 0, 0, 0, time.UTC).ISOWeek()
	return a >= 1 && a <= last && b >= 1 && b <= 7 && !(year == 9999 && a == last && b > 5)
}

func realClock(m []string) bool {
	for _, at := range []int{1, 6} { // time, then zone
		if atoi(m[at]) > 23 || atoi(m[at+1]+m[at+3]) > 59 || atoi(m[at+2]+m[at+4]) > 59 {
			return false
		}
	}
	return true
}

// atoi reads digits that a pattern has already found to be digits.
func atoi(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
