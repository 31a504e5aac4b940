package task

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Severity says how bad a finding is.
type Severity string

const (
	Error   Severity = "error"   // the task cannot be used, or cannot be hashed
	Warning Severity = "warning" // it runs, and not as its author thinks
	Note    Severity = "note"    // advice
)

// Finding is one remark of Lint.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	File     string   `json:"file"` // below the path that was given to Lint
	Position
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	Excerpt string `json:"excerpt,omitempty"` // of a file that cannot be parsed
}

func (f Finding) String() string {
	s := quotePath(f.File)
	if f.Line > 0 {
		s += fmt.Sprintf(":%d:%d", f.Line, f.Column)
	}
	s += fmt.Sprintf(": %s: %s [%s]", f.Severity, f.Message, f.Rule)
	if f.Remedy != "" {
		s += "; " + f.Remedy
	}
	if f.Excerpt != "" {
		s += "\n" + f.Excerpt
	}
	return s
}

// Rule is one thing that Lint looks for. Names that Harbor's lint has too mean
// the same there.
type Rule struct {
	Name     string   `json:"rule"`
	Severity Severity `json:"severity"`
	Means    string   `json:"means"`
}

// Rules lists all of them by name.
func Rules() []Rule {
	return []Rule{
		{"agent-image-test-leak", Error, "the agent's image is built with tests or the solution"},
		{"allow-internet-disarmed", Warning, "allow_internet = false is ignored: the network is public"},
		{"artifact-log-overlap", Warning, "an artifact lies in the logs of agent or verifier"},
		{"compose-additional-capabilities", Warning, "a service asks for capabilities"},
		{"compose-external-bind-mount", Warning, "a service mounts a path from outside of the task"},
		{"compose-log-mount", Warning, "a service mounts log directories by variables that are no longer set"},
		{"compose-privileged", Warning, "a service runs privileged"},
		{"digest", Error, "the task cannot be hashed"},
		{"env-host-variable", Note, "the task reads a variable of the machine and has no default"},
		{"env-not-replaced", Warning, "${…} inside a longer value is not replaced"},
		{"harborignore-out-of-place", Warning, ".harborignore is obeyed only below tests/ and solution/"},
		{"instruction-empty", Error, "the agent would read nothing"},
		{ruleInvalidConfig, Error, "task.toml cannot be parsed or has a field that is refused"},
		{ruleInvalidFiles, Error, "a file is missing, or must not be there"},
		{"lax-type", Note, "a value is of another type than its field"},
		{"legacy-field", Note, "an old spelling"},
		{"live-verifier", Note, "the verifier shares the agent's running sandbox by explicit wish"},
		{"memory-number-dropped", Warning, "memory or storage as a bare number sets no limit"},
		{"no-image", Warning, "nothing says what image the agent works in"},
		{"no-solution", Note, "without a gold solution the task cannot be proved"},
		{"odd-timeout", Warning, "a limit that ends at once, or never"},
		{"overlapping-artifacts", Warning, "two artifacts land on one path; the later is skipped"},
		{"reward-not-written", Warning, "the test script never speaks of a reward"},
		{"root-agent", Note, "the agent works as root"},
		{"script-byte-order-mark", Warning, "a script begins with a byte order mark, before its shebang"},
		{"script-crlf", Warning, "a script has Windows line ends"},
		{"script-no-shebang", Warning, "a script that is executed directly names no interpreter"},
		{"shared-verifier", Note, "in Harbor the verifier runs in the agent's sandbox"},
		{"sidecar-without-compose", Warning, "a service is named and there is no Compose file"},
		{"skipped-directory", Warning, "a directory of the set holds no valid task"},
		{"step-directory-unused", Warning, "a directory below steps/ that no step names"},
		{"step-verifier-timeout", Warning, "a step without a verifier limit has 600 s, not the task's"},
		{"strategy-without-steps", Warning, "multi_step_reward_strategy in a single-step task"},
		{"unknown-config-field", Warning, "a key that nothing reads"},
		{"unpinned-image", Note, "FROM without a digest"},
		{"unpinned-python-dependency", Warning, "a Python package without an exact version"},
		{"unused-instruction", Note, "a root instruction.md beside steps"},
		{"verifier-network-download", Warning, "the verifier downloads while it grades"},
		{"verifier-online", Warning, "a separate verifier takes the environment's public network over"},
		{"verifier-runtime-install", Warning, "the verifier installs software while it grades"},
	}
}

const (
	ruleInvalidFiles = "invalid-task-files"
	ruleSkipped      = "skipped-directory"
)

// Lint checks a task directory, or a directory of them, strictly: what Harbor
// ignores, skips or reads in an unexpected way is named with its place and what
// to do about it. Findings are sorted by file and place. Nothing is executed.
//
// Rules named in [metadata.harbor.lint] ignore are left out.
func Lint(path string) []Finding {
	dirs, single, err := taskDirs(path)
	if err != nil {
		return []Finding{{Rule: ruleInvalidFiles, Severity: Error, File: path, Message: reason(err).Error()}}
	}
	if single {
		return lintTask(path)
	}
	if len(dirs) == 0 {
		return []Finding{{Rule: ruleInvalidFiles, Severity: Error, File: path, Message: "holds no task and no directory of one", Remedy: "add a task.toml, or name another directory"}}
	}
	var all []Finding
	for _, dir := range dirs {
		at := filepath.Join(path, filepath.Base(dir))
		if _, err := Load(dir); err != nil {
			why := err
			if inner := errors.Unwrap(err); inner != nil {
				why = inner
			}
			text, _, _ := strings.Cut(why.Error(), "\n")
			all = append(all, Finding{Rule: ruleSkipped, Severity: Warning, File: at, Message: "is skipped: " + text, Remedy: "repair it, or move it out of the set"})
			if errors.Is(err, ErrNoTask) {
				continue
			}
		}
		all = append(all, lintTask(at)...)
	}
	return all
}

// linter collects the findings of one task.
type linter struct {
	loader
	dir      string // as the caller wrote it
	doc      *document
	findings []Finding
	severity map[string]Severity
}

func lintTask(dir string) []Finding {
	l := &linter{dir: dir, severity: map[string]Severity{}}
	for _, r := range Rules() {
		l.severity[r.Name] = r.Severity
	}
	t, err := openTree(dir)
	if err != nil {
		l.add(ruleInvalidFiles, "", Position{}, "", "%v", reason(err))
		return l.findings
	}
	l.loader = loader{t: t, f: newFilter(t)}
	if _, err := os.Lstat(t.path(configName)); err == nil {
		l.harbor()
	} else {
		l.legacy()
	}
	l.files()
	if _, err := Digest(dir); err != nil {
		l.failed("digest", "", errors.Unwrap(err))
	}
	return l.sorted()
}

// add notes a finding; rel is relative to the task.
func (l *linter) add(rule, rel string, at Position, remedy, format string, args ...any) {
	l.findings = append(l.findings, Finding{
		Rule: rule, Severity: l.severity[rule], File: filepath.Join(l.dir, filepath.FromSlash(rel)),
		Position: at, Message: fmt.Sprintf(format, args...), Remedy: remedy,
	})
}

// at notes a finding at a key of the configuration.
func (l *linter) at(rule string, k key, remedy, format string, args ...any) {
	l.add(rule, l.doc.file, l.doc.place(k), remedy, "%s: %s", k, fmt.Sprintf(format, args...))
}

// failed turns an error of this package into a finding.
func (l *linter) failed(rule, rel string, err error) {
	var se *SyntaxError
	var le *LayoutError
	switch {
	case errors.As(err, &se):
		l.add(rule, se.File, se.Position, "", "%s", se.Message)
		l.findings[len(l.findings)-1].Excerpt = se.Excerpt
	case errors.As(err, &le):
		l.add(rule, le.Path, Position{}, le.Remedy, "%s", le.Message)
	case err != nil:
		l.add(rule, rel, Position{}, "", "%v", reason(err))
	}
}

// harbor checks a task.toml and all that it speaks of.
func (l *linter) harbor() {
	text, err := l.t.readText(configName, maxConfigFile)
	if err != nil {
		l.failed(ruleInvalidConfig, configName, err)
		return
	}
	d, err := decodeTOML(configName, text)
	if err != nil {
		l.failed(ruleInvalidConfig, configName, err)
		return
	}
	l.doc, l.c = d.doc, d.config
	l.problems(d)
	if d.err() != nil {
		return // half a configuration says nothing about the files
	}
	err = l.layout(func(e *LayoutError) bool {
		l.add(ruleInvalidFiles, e.Path, Position{}, e.Remedy, "%s", e.Message)
		return true
	})
	l.failed(ruleInvalidFiles, "", err)
	l.config()
	l.instructions()
	l.sources()
}

func (l *linter) problems(d *decoded) {
	for _, p := range d.problems {
		l.at(p.rule, p.key, p.remedy, "%s", p.message)
	}
}

// legacy checks a Terminal-Bench 1 directory.
func (l *linter) legacy() {
	d, instruction, err := l.decodeLegacy()
	if err != nil {
		l.failed(ruleInvalidConfig, legacyConfigName, err)
		return
	}
	l.doc, l.c = d.doc, d.config
	l.problems(d)
	if strings.TrimSpace(stripCanary(instruction)) == "" && d.err() == nil {
		l.at("instruction-empty", key{"instruction"}, "say what the agent is to do", "is empty")
	}
	sl, err := l.legacyLayout()
	l.failed(ruleInvalidFiles, "", err)
	if sl.solutionFiles == nil {
		l.add("no-solution", "", Position{}, "add solution.sh", "has no gold solution that can be run")
	}
	l.anyScript("solution.sh")
	l.verifierScript(legacyScript)
	l.dockerfile(strings.TrimPrefix(sl.context+"/Dockerfile", "./"), true)
}

// sorted drops repetitions and what the task asks not to hear about.
func (l *linter) sorted() []Finding {
	ignored := l.ignored()
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Rule, b.Rule))
	})
	var out []Finding
	for _, f := range l.findings {
		if slices.Contains(ignored, f.Rule) {
			continue
		}
		if n := len(out); n > 0 {
			last := out[n-1]
			same := last.Rule == f.Rule && last.File == f.File && last.Position == f.Position
			if same && (f.Rule == ruleInvalidFiles || last.Message == f.Message) {
				continue
			}
		}
		out = append(out, f)
	}
	return out
}

func (l *linter) ignored() []string {
	if l.doc == nil {
		return nil
	}
	var at any = l.doc.root
	for _, name := range []string{"metadata", "harbor", "lint", "ignore"} {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[name]
	}
	list, _ := at.([]any)
	var rules []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			rules = append(rules, s)
		}
	}
	return rules
}
