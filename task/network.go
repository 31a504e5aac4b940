package task

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

var errNotHost = errors.New("must be a host name, an IP address or a CIDR range; no URL, port or path")

// NormalizeHosts checks the entries of an allow-list and brings them into one
// form: trimmed, lower-case, no trailing dot, IPv6 compressed. Entries are host
// names, "*." and a host name, IP addresses, and CIDR ranges without host bits.
func NormalizeHosts(hosts []string) ([]string, error) {
	out := make([]string, 0, len(hosts))
	for i, h := range hosts {
		n, err := normalizeHost(h)
		if err != nil {
			return nil, fmt.Errorf("allowed_hosts[%d] %s: %w", i, describe(h), err)
		}
		out = append(out, n)
	}
	return out, nil
}

func normalizeHost(h string) (string, error) {
	h = strings.TrimRight(strings.ToLower(strings.TrimSpace(h)), ".")
	switch {
	case h == "":
		return "", errors.New("must not be empty")
	case strings.Contains(h, "/"):
		return normalizeCIDR(h)
	case strings.Contains(h, ":"):
		a, err := netip.ParseAddr(h)
		if err != nil || a.Zone() != "" || !a.Is6() {
			return "", errNotHost
		}
		return a.String(), nil
	case strings.ContainsAny(h, "[]"):
		return "", errNotHost
	}
	name := h
	if suffix, ok := strings.CutPrefix(h, "*."); ok {
		if _, err := netip.ParseAddr(suffix); err == nil {
			return "", errors.New("a wildcard must stand before a host name, not before an address")
		}
		name = suffix
	}
	for label := range strings.SplitSeq(name, ".") {
		if !hostLabel.MatchString(label) {
			if strings.Contains(label, "*") {
				return "", errors.New(`a wildcard must be a leading "*."`)
			}
			return "", errors.New("a host name holds letters, digits, hyphens and dots")
		}
	}
	return h, nil
}

var hostLabel = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$`)

// normalizeCIDR takes a prefix length and, for IPv4, a netmask or hostmask.
func normalizeCIDR(h string) (string, error) {
	addr, mask, _ := strings.Cut(h, "/")
	a, err := netip.ParseAddr(addr)
	if err != nil || a.Zone() != "" {
		return "", errNotHost
	}
	bits, ok := maskBits(a, mask)
	if !ok {
		return "", errNotHost
	}
	p := netip.PrefixFrom(a, bits)
	if p.Masked().Addr() != a {
		return "", fmt.Errorf("has host bits set; write %s", p.Masked())
	}
	return p.String(), nil
}

func maskBits(a netip.Addr, mask string) (int, bool) {
	if digits(mask) {
		n, err := strconv.Atoi(mask)
		return n, err == nil && n <= a.BitLen()
	}
	m, err := netip.ParseAddr(mask)
	if err != nil || !m.Is4() || !a.Is4() {
		return 0, false
	}
	b := m.As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	for n := range 33 {
		net := ^uint32(0) << (32 - n)
		if v == net || v == ^net {
			return n, true
		}
	}
	return 0, false
}

// hosts reads an allow-list; given is false when the key is absent.
func (d *decoder) hosts(t *table) (list []string, given bool) {
	if _, ok := t.m["allowed_hosts"]; !ok {
		t.known = append(t.known, "allowed_hosts")
		return nil, false
	}
	k := t.key.with("allowed_hosts")
	for i, h := range t.texts("allowed_hosts") {
		n, err := normalizeHost(h)
		if err != nil {
			d.fault(k.at(i), "%s: %v", describe(h), err)
			continue
		}
		list = append(list, n)
	}
	return list, true
}

func (d *decoder) mode(t *table) NetworkMode {
	return word(t, "network_mode", false, NetworkPublic, NetworkNone, NetworkAllowlist)
}

// phaseNetwork reads the policy of [agent] or [verifier], where a list without
// a mode is refused even when it is empty.
func (d *decoder) phaseNetwork(t *table) (NetworkMode, []string) {
	mode := d.mode(t)
	list, given := d.hosts(t)
	if given && mode != NetworkAllowlist && (mode == NetworkUnset || len(list) > 0) {
		t.fault("allowed_hosts", `is only for network_mode = "allowlist"`)
	}
	return mode, list
}

// baselineNetwork reads the policy of an environment. There an empty list
// passes under any mode, and then also disarms the old allow_internet.
func (d *decoder) baselineNetwork(t *table, e *Environment) {
	e.NetworkMode = d.mode(t)
	list, given := d.hosts(t)
	e.AllowedHosts = list
	if len(list) > 0 && e.NetworkMode != NetworkAllowlist {
		t.fault("allowed_hosts", `is only for network_mode = "allowlist"`)
	}
	v, ok := t.get("allow_internet")
	if !ok {
		return
	}
	allow, ok := laxBool(v)
	if !ok {
		t.fault("allow_internet", "must be true or false, not %s", kindOf(v))
		return
	}
	k := t.key.with("allow_internet")
	_, modeSet := t.m["network_mode"]
	if modeSet || given {
		by := "network_mode"
		if !modeSet {
			by = "allowed_hosts"
		}
		rule := "legacy-field"
		if !allow && (e.NetworkMode == NetworkPublic || e.NetworkMode == NetworkUnset) {
			rule = "allow-internet-disarmed"
		}
		d.remark(rule, k, `remove it and say network_mode = "no-network" or "public"`,
			"allow_internet is ignored beside %s: the network is %s", by, cmpOr(string(e.NetworkMode), "public"))
		return
	}
	e.NetworkMode = NetworkNone
	if allow {
		e.NetworkMode = NetworkPublic
	}
	d.remark("legacy-field", k, `write network_mode = "`+string(e.NetworkMode)+`"`, "allow_internet is the old spelling of network_mode")
}
