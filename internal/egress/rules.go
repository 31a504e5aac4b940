package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Rule allows one target. Exactly one of Name and Prefix is set.
type Rule struct {
	// Name is a host name, "*." and a suffix (hosts below it, not itself), or
	// "*": every name and every public address.
	Name   string
	Prefix netip.Prefix // of addresses that are asked for as addresses
	Port   uint16       // 0: every port
	// Private lets the rule lead to what is not public. A name may then resolve
	// to private, loopback and reserved addresses, but never to link-local ones
	// and cloud metadata; a prefix covers special addresses if it
	// lies inside their range (10.1.0.0/16 does, 0.0.0.0/0 does not). Only what
	// the operator of this machine wrote may have it, never what a task wrote.
	Private bool
}

// ParseRule reads NAME, *.SUFFIX, *, ADDRESS or CIDR, each with an optional
// :PORT (an IPv6 address then stands in brackets). "@private" at the end of a
// name sets Private; addresses and ranges have it.
func ParseRule(s string) (Rule, error) {
	r, err := parseRule(strings.ToLower(strings.TrimSpace(s)))
	if err != nil {
		return Rule{}, fmt.Errorf("allowed host %q: %w", clip(s), err)
	}
	return r, nil
}

func parseRule(s string) (r Rule, err error) {
	s, r.Private = strings.CutSuffix(s, "@private")
	host := s
	if rest, port, ok := cutPort(s); ok {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return r, fmt.Errorf("port %q is not a number from 1 to 65535", clip(port))
		}
		host, r.Port = rest, uint16(n)
	}
	plain := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if a, err := netip.ParseAddr(plain); err == nil {
		if a.Zone() != "" {
			return r, errors.New("an address with a zone names no target")
		}
		a = a.Unmap()
		r.Prefix, r.Private = netip.PrefixFrom(a, a.BitLen()), true
		return r, nil
	}
	if strings.Contains(plain, "/") {
		p, err := netip.ParsePrefix(plain)
		if err != nil || p.Addr().Is4In6() {
			return r, errors.New("not a range; write it as 10.0.0.0/8 or 2001:db8::/32")
		}
		if p != p.Masked() {
			return r, fmt.Errorf("has host bits set; write %s", p.Masked())
		}
		r.Prefix, r.Private = p, true
		return r, nil
	}
	name := host
	if name != "*" {
		if name, err = hostName(strings.TrimPrefix(host, "*.")); err != nil {
			return r, fmt.Errorf("%w; write a host name, *.SUFFIX, an address or a range, without scheme and path", err)
		}
		if strings.HasPrefix(host, "*.") {
			name = "*." + name
		}
	}
	r.Name = name
	return r, nil
}

// cutPort takes a port off unless the colon is part of an IPv6 address.
func cutPort(s string) (host, port string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || (strings.Count(s, ":") > 1 && !strings.HasSuffix(s[:i], "]")) {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// String is what ParseRule reads.
func (r Rule) String() string {
	s := r.Name
	if r.Prefix.IsValid() {
		s = r.Prefix.String()
		if r.Prefix.IsSingleIP() {
			s = r.Prefix.Addr().String()
		}
		if r.Port != 0 && r.Prefix.Addr().Is6() {
			s = "[" + s + "]"
		}
	}
	if r.Port != 0 {
		s += ":" + strconv.Itoa(int(r.Port))
	}
	if r.Private && !r.Prefix.IsValid() {
		s += "@private"
	}
	return s
}

// ParseRules reads a list. What a task wrote is not trusted: its rules reach
// public addresses only.
func ParseRules(list []string, trusted bool) ([]Rule, error) {
	rules := make([]Rule, 0, len(list))
	for _, s := range list {
		r, err := ParseRule(s)
		if err != nil {
			return nil, err
		}
		r.Private = r.Private && trusted
		rules = append(rules, r)
	}
	return rules, nil
}

// names reports whether the rule covers a host name at a port.
func (r Rule) names(name string, port uint16) bool {
	switch {
	case r.Name == "" || (r.Port != 0 && r.Port != port):
		return false
	case r.Name == "*":
		return true
	}
	if suffix, ok := strings.CutPrefix(r.Name, "*"); ok {
		return len(name) > len(suffix) && strings.HasSuffix(name, suffix)
	}
	return name == r.Name
}

// reaches reports whether the rule, which covers a name, lets it lead to an
// address of this class.
func (r Rule) reaches(c class) bool {
	return c == classPublic || r.Private && (c == classPrivate || c == classLoopback || c == classReserved)
}

// covers reports whether the rule allows an address as such.
func (r Rule) covers(a netip.Addr, port uint16, c class, within netip.Prefix) bool {
	if r.Port != 0 && r.Port != port || c == classNever || c == classInvalid {
		return false
	}
	if r.Name == "*" {
		return c == classPublic
	}
	if !r.Prefix.IsValid() || !r.Prefix.Contains(a) && !r.Prefix.Contains(embedded(a)) {
		return false
	}
	if c == classPublic {
		return true
	}
	return r.Private && within.Bits() <= r.Prefix.Bits() && within.Contains(r.Prefix.Addr())
}

// hostName checks a name in lower case and takes one trailing dot off. What a
// resolver could take for an address in one of its odd spellings (0x7f.1,
// 2130706433, 127.1) is none.
func hostName(s string) (string, error) {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return "", errors.New("not a host name")
	}
	last := ""
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", errors.New("not a host name")
		}
		for i := range len(label) {
			c := label[i]
			if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
				return "", errors.New("not a host name")
			}
		}
		last = label
	}
	if isNumber(last) {
		return "", errors.New("an address in an odd spelling")
	}
	return s, nil
}

// isNumber is the rule by which URLs tell addresses from names (WHATWG, "ends
// in a number"): digits, or 0x and hexadecimal ones.
func isNumber(label string) bool {
	digits, hex := strings.CutPrefix(label, "0x")
	for i := range len(digits) {
		c := digits[i]
		if (c < '0' || c > '9') && (!hex || c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// clip shortens what somebody else wrote for a message.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
