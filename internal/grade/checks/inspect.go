package checks

import (
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/grade/report"
	"assay/internal/strict"
)

// inspector finds what is wrong with a plan that could be decoded.
type inspector struct {
	plan   *Plan
	places strict.Places
	tests  fs.FS
	sum    hash.Hash         // the digest, as far as files were read
	read   map[string][]byte // files below tests, once each
	faults []strict.Fault
	ids    map[string]bool // global, of the closed lists
	names  map[string]bool // of commands and cases
}

// fault notes what is wrong with the key at path.
func (in *inspector) fault(path []any, format string, args ...any) {
	in.faults = append(in.faults, in.places.At(fmt.Errorf(format, args...), path...))
}

// key is a path of keys with one more.
func key(path []any, more ...any) []any { return append(path[:len(path):len(path)], more...) }

func (in *inspector) all() {
	p := in.plan
	in.ids, in.names = map[string]bool{}, map[string]bool{}
	if p.Version != 1 {
		in.fault([]any{"version"}, "version %d of a check plan; this assay reads version 1: write version = 1", p.Version)
	}
	in.count("commands", len(p.Commands), maxCommands)
	for _, part := range []struct {
		name string
		n    int
	}{{"cases", len(p.Cases)}, {"state", len(p.State)}, {"milestones", len(p.Milestones)}, {"spec", len(p.Spec)},
		{"edge_cases", len(p.EdgeCases)}, {"protected", len(p.Protected)}, {"forbidden", len(p.Forbidden)}, {"place", len(p.Place)}} {
		in.count(part.name, part.n, maxPart)
	}
	in.paths()
	for i := range p.Commands {
		in.command(&p.Commands[i], []any{"commands", i})
	}
	for i := range p.Cases {
		in.cases(&p.Cases[i], []any{"cases", i})
	}
	in.states()
	in.canariesTogether()
	if len(in.faults) == 0 && len(in.ids) == 0 {
		in.fault(nil, "nothing is expected: a plan without a check passes any work; add [[commands]], [[cases]] or [[state]]")
	}
	if n := len(in.ids); n > report.MaxTests {
		in.fault(nil, "%d ids are expected; at most %d", n, report.MaxTests)
	}
	in.groups()
	in.needs()
}

func (in *inspector) count(name string, n, most int) {
	if n > most {
		in.fault([]any{name}, "%d of %s; at most %d", n, name, most)
	}
}

// paths checks protected, forbidden and placed ones.
func (in *inspector) paths() {
	for i, p := range in.plan.Protected {
		in.sandboxPath([]any{"protected", i}, p)
	}
	for i, p := range in.plan.Forbidden {
		at := []any{"forbidden", i}
		if in.sandboxPath(at, p) {
			if _, err := glob(p); err != nil {
				in.fault(at, "%w", err)
			}
		}
	}
	for _, from := range slices.Sorted(maps.Keys(in.plan.Place)) {
		at := []any{"place", from}
		if !fs.ValidPath(from) || from == "." {
			in.fault(at, "%q is no directory below tests/: write it without a leading slash and without ..", from)
		} else if in.tests != nil {
			if fi, err := fs.Stat(in.tests, from); err != nil || !fi.IsDir() {
				in.fault(at, "there is no directory tests/%s", from)
			}
		}
		to := in.plan.Place[from]
		if in.sandboxPath(at, to) && path.IsAbs(to) {
			for _, not := range []string{"/proc", "/sys", "/dev", "/tests", "/logs/verifier", "/solution"} {
				if c := path.Clean(to); c == "/" || c == not || strings.HasPrefix(c, not+"/") {
					in.fault(at, "tests cannot be placed at %s; place them into the working directory or where the project lies", to)
					break
				}
			}
		}
	}
}

// sandboxPath checks a path in the sandbox: absolute, or below the working
// directory.
func (in *inspector) sandboxPath(at []any, p string) bool {
	switch {
	case p == "":
		in.fault(at, "an empty path; the working directory is \".\"")
	case len(p) > 4096 || strings.ContainsAny(p, "\x00\n"):
		in.fault(at, "no path: %.80q", p)
	case slices.Contains(strings.Split(p, "/"), ".."):
		in.fault(at, "%q has .. in it: paths are below the working directory, or absolute", p)
	default:
		return true
	}
	return false
}

func isName(s string) bool {
	if s == "" || len(s) > 64 || strings.Trim(s[:1], "._-") == "" {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// name checks the name of a command or of cases; both are said in ids.
func (in *inspector) name(at []any, name, what string) {
	switch {
	case !isName(name):
		in.fault(key(at, "name"), "%s needs a name of letters, digits, _ . and -, at most 64; it has %.80q", what, name)
	case name == StateName:
		in.fault(key(at, "name"), "the name %q is taken: it stands before the ids of [[state]]", name)
	case in.names[name]:
		in.fault(key(at, "name"), "there are two commands or cases called %q", name)
	}
	in.names[name] = true
}

func (in *inspector) seconds(at []any, s float64) {
	if math.IsNaN(s) || s < 0 || s > 7*24*3600 {
		in.fault(at, "%v seconds; a limit is between 0 (none of its own) and a week", s)
	}
}

func (in *inspector) text(at []any, s string) {
	if len(s) > maxText || strings.ContainsRune(s, 0) {
		in.fault(at, "a text of more than %d bytes, or with a zero byte", maxText)
	}
}

func (in *inspector) command(c *Command, at []any) {
	in.name(at, c.Name, "a command")
	in.text(key(at, "run"), c.Run)
	switch {
	case c.Run == "" && len(c.Args) == 0:
		in.fault(at, "command %q does nothing: give it run = \"…\" (a shell's line) or args = […]", c.Name)
	case c.Run != "" && len(c.Args) > 0:
		in.fault(key(at, "args"), "command %q has both run and args: keep one", c.Name)
	}
	for i, a := range c.Args {
		in.text(key(at, "args", i), a)
	}
	if c.Dir != "" {
		in.sandboxPath(key(at, "dir"), c.Dir)
	}
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		if !isVariable(k) || strings.ContainsRune(c.Env[k], 0) {
			in.fault(key(at, "env", k), "no variable: %q; names are of letters, digits and _", k)
		}
	}
	if c.User != "" && strings.ContainsAny(c.User, " \t\n/\x00") {
		in.fault(key(at, "user"), "no user: %q", c.User)
	}
	in.seconds(key(at, "timeout_sec"), c.TimeoutSec)
	in.report(c, at)
	in.lists(c, at)
	if n := len(c.Canaries); n > MaxCanaries {
		in.fault(key(at, "canaries", MaxCanaries), "command %q has %d canaries; at most %d", c.Name, n, MaxCanaries)
	}
	for i, k := range c.Canaries {
		in.canary(c, k, key(at, "canaries", i))
	}
}

// isVariable reports whether every shell takes name for a variable's.
func isVariable(name string) bool {
	return name != "" && strings.Trim(name[:1], "0123456789") != "" &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// report checks a report's format, and whether the plan says where it lies.
func (in *inspector) report(c *Command, at []any) {
	if c.Report == "" {
		if len(c.Files) > 0 {
			in.fault(key(at, "files"), "command %q has files and no report: say report = \"FORMAT\"", c.Name)
		}
		return
	}
	rd, err := report.ReaderOf(c.Report)
	if err != nil {
		in.fault(key(at, "report"), "%w", err)
		return
	}
	if !rd.Stream && len(c.Files) == 0 {
		in.fault(key(at, "report"), "a report of the format %s is a file: say where it lies, files = [\"…\"]", c.Report)
	}
	for i, f := range c.Files {
		if in.sandboxPath(key(at, "files", i), f) {
			if _, err := glob(f); err != nil {
				in.fault(key(at, "files", i), "%w", err)
			}
		}
	}
}

// lists takes a command's closed lists over, with those of files.
func (in *inspector) lists(c *Command, at []any) {
	c.more.failToPass = in.list(key(at, "fail_to_pass_file"), c.FailToPassFile)
	c.more.passToPass = in.list(key(at, "pass_to_pass_file"), c.PassToPassFile)
	f2p, p2p := c.Expected()
	if c.Report == "" {
		for _, id := range slices.Concat(f2p, p2p) {
			if id != c.Name {
				in.fault(at, "command %q has no report, so its one check is called %q; %.80q is not known", c.Name, c.Name, id)
			}
		}
	}
	if len(f2p)+len(p2p) == 0 {
		in.fault(at, "command %q expects nothing: fill fail_to_pass, pass_to_pass or their files", c.Name)
	}
	where := map[string]string{}
	take := func(list string, written, all []string) {
		for i, id := range all {
			at := key(at, list)
			if i < len(written) {
				at = key(at, i)
			} else {
				at[len(at)-1] = list + "_file"
			}
			if err := checkID(id); err != nil {
				in.fault(at, "%w", err)
			}
			if before := where[id]; before == list {
				in.fault(at, "the id %.200q stands in %s twice", id, list)
			} else if before != "" {
				in.fault(at, "the id %.200q stands in fail_to_pass and in pass_to_pass: it is one or the other", id)
			}
			where[id] = list
			in.ids[Global(c.Name, id)] = true
		}
	}
	take("fail_to_pass", c.FailToPass, f2p)
	take("pass_to_pass", c.PassToPass, p2p)
}

func (in *inspector) list(at []any, name string) []string {
	if name == "" {
		return nil
	}
	b, ok := in.file(at, name)
	if !ok {
		return nil
	}
	ids, err := idLines(b)
	if err != nil {
		in.fault(at, "tests/%s: %w", name, err)
	} else if len(ids) == 0 {
		in.fault(at, "tests/%s holds no id", name)
	}
	return ids
}

// file reads what a plan names below tests, into the digest as well.
func (in *inspector) file(at []any, name string) ([]byte, bool) {
	if !fs.ValidPath(name) || name == "." {
		in.fault(at, "%q is no file below tests/: write it without a leading slash and without ..", name)
		return nil, false
	}
	if b, ok := in.read[name]; ok {
		return b, true
	}
	b, err := readFile(in.tests, name, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		in.fault(at, "there is no file tests/%s", name)
		return nil, false
	}
	if err != nil {
		in.fault(at, "tests/%s: %w", name, err)
		return nil, false
	}
	in.read[name] = b
	fmt.Fprintf(in.sum, "%s %d\n%s", name, len(b), b)
	return b, true
}

func (in *inspector) canary(c *Command, k Canary, at []any) {
	in.text(key(at, "old"), k.Old)
	in.text(key(at, "new"), k.New)
	if k.Old == k.New {
		in.fault(key(at, "new"), "the canary changes nothing: old and new are the same")
	}
	if len(k.Breaks) == 0 {
		in.fault(at, "say which ids fail with the canary: breaks = [\"…\"]")
	}
	for i, id := range k.Breaks {
		if !in.ids[Global(c.Name, id)] {
			in.fault(key(at, "breaks", i), "the id %.200q is in neither list of command %q", id, c.Name)
		}
	}
	if k.OfImage() {
		if in.sandboxPath(key(at, "file"), k.File) && (path.Clean(k.File) != k.File || k.File == "/" || ours(k.File)) {
			in.fault(key(at, "file"), "%q is no file of the image: a clean path, and none below /tests, /logs or /solution", k.File)
		}
		if k.Old == "" {
			in.fault(key(at, "old"), "say which text of the image's %s is changed", k.File)
		}
		return // what stands there is known where the image is
	}
	if b, ok := in.file(key(at, "file"), k.File); ok {
		if _, err := spots(b, []Canary{k}); err != nil {
			in.fault(key(at, "old"), "tests/%w", err)
		}
	}
}

// OfImage reports whether a canary changes a file of the image.
func (k Canary) OfImage() bool { return path.IsAbs(k.File) }

// ours reports whether a path is one of those that no image's file is seen at.
func ours(p string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return slices.Contains([]string{"tests", "logs", "solution"}, top)
}

// canariesTogether refuses canaries that stand in each other's way: any subset
// of all of them may be drawn.
func (in *inspector) canariesTogether() {
	if len(in.faults) > 0 {
		return
	}
	of := map[string][]Canary{}
	for _, c := range in.plan.Commands {
		for _, k := range c.Canaries {
			if !k.OfImage() {
				of[k.File] = append(of[k.File], k)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if _, err := spots(in.read[name], of[name]); err != nil {
			in.fault([]any{"commands"}, "tests/%w", err)
		}
	}
}

func (in *inspector) cases(c *Cases, at []any) {
	in.name(at, c.Name, "cases")
	if (len(c.Run) == 0) == (c.Call == "") {
		in.fault(at, "cases %q need run = [\"PROGRAM\", …] or call = \"LANGUAGE\", one of both", c.Name)
	}
	if c.Call != "" && !slices.Contains([]string{"python", "javascript", "go", "sql"}, c.Call) {
		in.fault(key(at, "call"), "no language is called %q; there are python, javascript, go, sql", c.Call)
	}
	if (c.Call == "") != (c.Source == "") {
		in.fault(at, "call and source belong together: the language, and the file that holds the functions")
	}
	for _, p := range []struct{ key, path string }{{"dir", c.Dir}, {"source", c.Source}} {
		if p.path != "" {
			in.sandboxPath(key(at, p.key), p.path)
		}
	}
	for i, a := range c.Run {
		in.text(key(at, "run", i), a)
	}
	if c.Reference != "" {
		if c.Call == "" {
			in.fault(key(at, "reference"), "a reference gives what functions and queries return; the output of a program stands in its cases")
		}
		in.file(key(at, "reference"), c.Reference)
	}
	all := []string{"", "text", "exact", "tokens", "numbers", "json", "json-unordered"}
	if c.Call == "sql" {
		all = []string{"", "sql"}
	} else if c.Call != "" {
		all = []string{"", "exact", "numbers", "unordered", "set", "truth"}
	}
	if !slices.Contains(all, c.Compare) {
		in.fault(key(at, "compare"), "no comparison is called %q; there are %s", c.Compare, strings.Join(all[1:], ", "))
	}
	for _, t := range []struct {
		key string
		tol float64
	}{{"abs_tol", c.AbsTol}, {"rel_tol", c.RelTol}} {
		if !(t.tol >= 0 && t.tol <= 1e300) {
			in.fault(key(at, t.key), "a tolerance is 0 or more")
		}
	}
	in.seconds(key(at, "timeout_sec"), c.TimeSec)
	if c.MemoryMB < 0 || c.MemoryMB > 1<<24 {
		in.fault(key(at, "memory_mb"), "no amount of memory: %d MB", c.MemoryMB)
	}
	b, ok := in.file(key(at, "file"), c.File)
	if !ok {
		return
	}
	ids, err := caseIDs(b)
	if err != nil {
		in.fault(key(at, "file"), "tests/%s: %w", c.File, err)
		return
	}
	if len(ids) == 0 {
		in.fault(key(at, "file"), "tests/%s holds no case", c.File)
	}
	c.ids, c.data = ids, b
	have := map[string]bool{}
	for _, id := range ids {
		have[id] = true
		in.ids[Global(c.Name, id)] = true
	}
	for i, id := range c.PassToPass {
		if !have[id] {
			in.fault(key(at, "pass_to_pass", i), "no case of tests/%s is called %.200q", c.File, id)
		}
		if slices.Index(c.PassToPass, id) != i {
			in.fault(key(at, "pass_to_pass", i), "the id %.200q stands in pass_to_pass twice", id)
		}
	}
}

func (in *inspector) states() {
	for i, s := range in.plan.State {
		at := []any{"state", i}
		if !isName(s.Name) {
			in.fault(key(at, "name"), "an assertion needs a name of letters, digits, _ . and -, at most 64; it has %.80q", s.Name)
		} else if in.ids[Global(StateName, s.Name)] {
			in.fault(key(at, "name"), "there are two assertions called %q", s.Name)
		}
		in.ids[Global(StateName, s.Name)] = true
		in.state(s, at)
	}
}

func (in *inspector) state(s State, at []any) {
	subjects := 0
	for _, set := range []bool{s.Path != "", s.NoProcess != "", s.Run != ""} {
		if set {
			subjects++
		}
	}
	if subjects != 1 {
		in.fault(at, "assertion %q is about one thing: path, no_process or run", s.Name)
	}
	for _, p := range []struct{ key, re string }{{"matches", s.Matches}, {"no_process", s.NoProcess}} {
		if _, err := regexp.Compile(p.re); err != nil || len(p.re) > 10_000 {
			in.fault(key(at, p.key), "no regular expression (RE2): %v", err)
		}
	}
	in.seconds(key(at, "timeout_sec"), s.TimeoutSec)
	in.text(key(at, "run"), s.Run)
	ofPath := s.Absent || s.Type != "" || s.Mode != "" || s.UID != nil || s.GID != nil || s.Target != "" || s.SHA256 != ""
	content := s.Equals != nil || s.Contains != "" || s.Matches != ""
	if s.Path == "" && ofPath {
		in.fault(at, "absent, type, mode, uid, gid, target and sha256 are about a path")
	}
	if s.Run == "" && s.Exit != nil {
		in.fault(key(at, "exit"), "exit is about a command: run = \"…\"")
	}
	if s.NoProcess != "" && content {
		in.fault(at, "no_process stands alone")
	}
	if s.Path == "" {
		return
	}
	in.sandboxPath(key(at, "path"), s.Path)
	if s.Absent && (content || s.Type != "" || s.Mode != "" || s.UID != nil || s.GID != nil || s.Target != "" || s.SHA256 != "") {
		in.fault(key(at, "absent"), "what is absent has no other property")
	}
	if !slices.Contains([]string{"", "file", "dir", "link"}, s.Type) {
		in.fault(key(at, "type"), "no type is called %q; there are file, dir, link", s.Type)
	}
	if s.Mode != "" {
		if m, err := strconv.ParseUint(s.Mode, 8, 32); err != nil || m > 0o7777 {
			in.fault(key(at, "mode"), "no mode: %q; write it in octal, \"0644\"", s.Mode)
		}
	}
	if s.SHA256 != "" && (len(s.SHA256) != 64 || strings.Trim(s.SHA256, "0123456789abcdef") != "") {
		in.fault(key(at, "sha256"), "a sha256 is 64 hexadecimal digits")
	}
}

// groups checks what refers to checks: milestones, spec items, edge cases.
func (in *inspector) groups() {
	known := func(at []any, checks []string) {
		if len(checks) == 0 {
			in.fault(at, "it names no checks: checks = [\"COMMAND:ID\", …]")
		}
		for i, id := range checks {
			if !in.ids[id] {
				in.fault(key(at, "checks", i), "no check is called %.200q; ids are COMMAND:ID, CASES:ID or state:NAME, out of the closed lists", id)
			}
		}
	}
	unique := func(at []any, seen map[string]bool, name string) {
		if strings.TrimSpace(name) == "" || len(name) > 1000 {
			in.fault(at, "it needs a name")
		} else if seen[name] {
			in.fault(at, "there are two called %q", name)
		}
		seen[name] = true
	}
	seen := map[string]bool{}
	for i, m := range in.plan.Milestones {
		at := []any{"milestones", i}
		unique(key(at, "name"), seen, m.Name)
		known(at, m.Checks)
		if !(m.Weight >= 0 && m.Weight <= 1e6) {
			in.fault(key(at, "weight"), "a weight is between 0 (which means 1) and a million")
		}
	}
	seen = map[string]bool{}
	for i, s := range in.plan.Spec {
		unique(key([]any{"spec", i}, "id"), seen, s.ID)
		known([]any{"spec", i}, s.Checks)
	}
	seen = map[string]bool{}
	for i, e := range in.plan.EdgeCases {
		unique(key([]any{"edge_cases", i}, "name"), seen, e.Name)
		known([]any{"edge_cases", i}, e.Checks)
	}
}

func (in *inspector) needs() {
	n := in.plan.Needs
	for _, need := range []struct {
		name   string
		amount float64
	}{{"memory_mb", float64(n.MemoryMB)}, {"disk_mb", float64(n.DiskMB)}, {"cpus", n.CPUs}, {"time_sec", n.TimeSec}} {
		if !(need.amount >= 0 && need.amount <= 1e9) {
			in.fault([]any{"needs", need.name}, "no amount: %v", need.amount)
		}
	}
}
