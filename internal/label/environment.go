package label

import (
	"regexp"
	"slices"
	"strings"
)

// environment counts what was done to the machine: by the forge's record, else
// by what a Dockerfile does after it made things ready.
func (d *source) environment() (Environment, error) {
	e := Environment{Kinds: []string{}, From: "none"}
	if r := d.record; r.there {
		e.From = "record"
		if r.generator == "invert" {
			e.Kinds = append(e.Kinds, r.operators...)
			e.Faults = len(r.operators)
			e.Depth = min(max(r.depth, min(e.Faults, 1)), max(e.Faults, 1))
		}
		return e, nil
	}
	b, err := d.read("environment/Dockerfile")
	if err == nil && b == nil {
		b, err = d.read("Dockerfile") // Terminal-Bench 1
	}
	if err != nil || b == nil {
		return e, err
	}
	for _, l := range instructions(string(b)) {
		for _, k := range tampering(l) {
			e.Faults++
			if !slices.Contains(e.Kinds, k) {
				e.Kinds = append(e.Kinds, k)
			}
		}
	}
	if e.Faults > 0 {
		// Which of them hides another cannot be told from the file.
		e.From, e.Depth = "dockerfile", 1
	}
	return e, nil
}

// instructions are the RUN lines of a Dockerfile, joined.
func instructions(text string) []string {
	var all []string
	run := ""
	for l := range strings.SplitSeq(text, "\n") {
		t := strings.TrimSpace(l)
		if run == "" && !strings.HasPrefix(strings.ToUpper(t), "RUN ") || strings.HasPrefix(t, "#") {
			continue
		}
		run += " " + strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(t, "RUN "), "run "), "\\")
		if !strings.HasSuffix(t, "\\") {
			all = append(all, run)
			run = ""
		}
	}
	return append(all, run)
}

var (
	command = regexp.MustCompile(`&&|;|\|\|`)
	// cleaning is what every image does: it breaks nothing.
	cleaning = regexp.MustCompile(`/var/lib/apt|/var/cache|/tmp/|/tmp$|\.cache|\.tar|\.zip|\.deb|/root/\.npm|rm -rf \*`)
	damage   = []struct {
		kind string
		form *regexp.Regexp
	}{
		{"removes files", regexp.MustCompile(`^(rm|unlink|shred)\s`)},
		{"edits files", regexp.MustCompile(`^sed\s+(-\w+\s+)*-i`)},
		{"renames files", regexp.MustCompile(`^mv\s+/(etc|usr|bin|lib|opt|app|home|root|var)\b`)},
		{"takes permissions", regexp.MustCompile(`^chmod\s+(-R\s+)?([0-6]?[0-6][0-4][0-4]\s+/(usr|bin|etc|opt|app)\S*bin|[augo]*-[rwx]+)`)},
		{"removes packages", regexp.MustCompile(`^(pip3?\s+uninstall|apt(-get)?\s+(-\w+\s+)*(remove|purge)|npm\s+(uninstall|rm))`)},
		{"breaks links", regexp.MustCompile(`^ln\s+-\w*f\w*\s+/(nonexistent|dev/null|bin/false)`)},
		{"corrupts files", regexp.MustCompile(`^(truncate|dd)\s`)},
	}
)

// tampering names what a RUN line damages.
func tampering(line string) []string {
	var kinds []string
	for _, c := range command.Split(line, -1) {
		c = strings.TrimSpace(c)
		if cleaning.MatchString(c) {
			continue
		}
		for _, d := range damage {
			if d.form.MatchString(c) {
				kinds = append(kinds, d.kind)
			}
		}
	}
	return kinds
}
