package cgroup

import (
	"path"
	"slices"
	"strings"
)

// mount is one mounted hierarchy.
type mount struct {
	point string   // where
	root  string   // which part of the hierarchy shows there
	v2    bool     //
	ctl   []string // version 1: its controllers
}

// parseMounts reads the cgroup file systems of a mountinfo file.
func parseMounts(info string) []mount {
	var out []mount
	for line := range strings.Lines(info) {
		head, tail, ok := strings.Cut(strings.TrimSpace(line), " - ")
		h, t := strings.Fields(head), strings.Fields(tail)
		if !ok || len(h) < 6 || len(t) < 3 {
			continue
		}
		m := mount{root: unescape(h[3]), point: unescape(h[4])}
		switch t[0] {
		case "cgroup2":
			m.v2 = true
		case "cgroup":
			m.ctl = strings.Split(t[2], ",")
		default:
			continue
		}
		out = append(out, m)
	}
	return out
}

// unescape undoes the octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// parseOwn reads a process's cgroup file: the path in every hierarchy by
// controller; version 2 has the empty name.
func parseOwn(b string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(b) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			out[c] = f[2]
		}
	}
	return out
}

// directory is where a path of the hierarchy lies in the file system; false
// where the mount does not show it.
func (m mount) directory(own string) (string, bool) {
	if !path.IsAbs(own) || slices.Contains(strings.Split(own, "/"), "..") {
		return "", false // outside of this process's cgroup namespace
	}
	rel := path.Clean(own)
	if m.root != "/" {
		rest, ok := strings.CutPrefix(rel+"/", strings.TrimSuffix(m.root, "/")+"/")
		if !ok {
			return "", false
		}
		rel = rest
	}
	return path.Join(m.point, rel), true
}
