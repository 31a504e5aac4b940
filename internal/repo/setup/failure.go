package setup

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Failure says that nothing made a repository's suite run, what was tried, and
// what a person can write to help.
type Failure struct {
	Name     string     `json:"name"`
	Cause    string     `json:"cause"`
	Stage    Stage      `json:"stage"`
	Step     string     `json:"step,omitempty"`
	Output   []string   `json:"output,omitempty"`
	Advice   []string   `json:"advice"`
	Recipe   string     `json:"recipe"`
	Notes    []string   `json:"notes,omitempty"` // of the source: a submodule that is missing may be why
	Attempts []*Attempt `json:"attempts"`
}

func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "set up %s: %s\n", f.Name, f.Cause)
	if f.Step != "" {
		fmt.Fprintf(&b, "the step was: %.300s\n", f.Step)
	}
	for _, l := range f.Output {
		fmt.Fprintf(&b, "  | %s\n", l)
	}
	fmt.Fprintf(&b, "tried:\n")
	for i, a := range f.Attempts {
		fmt.Fprintf(&b, "  %d. %s (%s): %s: %.200s\n", i+1, a.Rung, a.Why, a.Stage, a.Result)
	}
	for _, n := range f.Notes {
		fmt.Fprintf(&b, "of its files: %s\n", n)
	}
	for _, a := range f.Advice {
		fmt.Fprintf(&b, "%s\n", a)
	}
	return strings.TrimSpace(b.String())
}

// diagnosis is a cause that shows in what a stage printed, and what helps.
type diagnosis struct {
	stages              []Stage
	when, cause, advice string
}

// unreached is what programs say when no network answers.
const unreached = `(?i)(Name or service not known|Temporary failure in name resolution|Network is unreachable|getaddrinfo (ENOTFOUND|EAI_AGAIN)|no such host|Could not resolve host|ConnectionError|Connection refused|dial tcp)`

func diagnoses() []diagnosis {
	build, test := []Stage{StageImage, StageInstall}, []Stage{StageTest}
	both := []Stage{StageInstall, StageTest}
	return []diagnosis{
		{both, `(?i)(no space left on device|ENOSPC|Disk quota exceeded)`,
			"what one command may write is used up", "raise it with --disk MIB; if the machine's own disk is full, free some room or give the store another file system with --store"},
		{both, `(?i)(resource temporarily unavailable|cannot fork|can't fork|fork: retry)`,
			"it starts more processes than a sandbox may have", "let it do fewer things at once (a -j, an environment variable below [env])"},
		{build, unreached,
			"it fetches from a host that builds do not reach", "builds reach this machine's package mirrors alone: let it reach more with --allow-host HOST, or put what it fetches into the repository"},
		{test, `(?i)(127\.0\.0\.1|localhost|\[?::1\]?)\S*[^\n]{0,80}refused|could not connect to server`,
			"the suite needs a service on this machine, such as a database", "start it with services = [\"…\"] (--service), and name what it is in with more_packages"},
		{test, unreached,
			"the suite needs a network", "suites run without one: leave such tests out in the run line, or start what they need with services = [\"…\"]"},
		{test, `(?i)(cannot open display|no display name|could not connect to display|Missing X server)`,
			"the suite needs a display", "more_packages = [\"xvfb\", \"xauth\"] and \"xvfb-run -a \" before the command in the run line"},
		{test, `(?i)(must be (run as |run with |called with )?root|(requires|needs) (root|superuser|CAP_\w+)|are you root)`,
			"the suite needs root's powers over the machine", "in a sandbox root has few of them: leave such tests out in the run line"},
		{test, `(?i)(must not be run as (a )?root|do not run .{0,20}as root|running as root|as root is not supported|cannot be run as root|refus\w+ to run as root|must be run as (a )?non-root)`,
			"the suite minds who runs it", "let an ordinary user run it: \"setpriv --reuid=1000 --regid=1000 --clear-groups \" before the command, with --uid root or subid; or leave the test out"},
		{test, `(?i)(unsupported locale|locale\.Error|cannot change locale|setlocale)`, "the suite needs a locale", "more_packages = [\"locales-all\"], and LANG below [env]"},
		{test, `(?i)(ZoneInfoNotFound|unknown time ?zone|tzdata|Invalid time zone)`, "the suite needs a time zone", "TZ below [env], and more_packages = [\"tzdata\"]"},
		{both, `(?i)(out of memory|\boom\b|Cannot allocate memory|heap space|MemoryError|signal: killed|\bKilled\b)`, "memory ran out", "run fewer things at once in the run line"},
		{test, `(?i)(operation not permitted|EPERM\b)`, "the suite asks for what a sandbox does not permit", "leave such tests out in the run line"},
	}
}

// diagnose finds what the output of a stage shows.
func diagnose(stage Stage, text string) (diagnosis, bool) {
	for _, d := range diagnoses() {
		if slices.Contains(d.stages, stage) && regexp.MustCompile(d.when).MatchString(text) {
			return d, true
		}
	}
	return diagnosis{}, false
}

// failure makes the report of the best that was reached.
func (w *work) failure(ctx context.Context, a *Attempt) error {
	f := &Failure{Name: w.s.name, Stage: a.Stage, Step: a.Step, Output: a.Output, Notes: w.s.notes, Attempts: w.attempts, Recipe: filepath.Join(w.o.Out, RecipeFile)}
	switch {
	case ctx.Err() != nil:
		f.Cause = context.Cause(ctx).Error()
	case a.Stage == StageImage:
		f.Cause = "its base or toolchain cannot be made: " + a.Result
		f.Advice = append(f.Advice, "write another base, packages or toolchain; or name an image that has all of it with --image")
	case a.Stage == StageInstall:
		f.Cause = "it does not build: " + a.Result
		f.Advice = append(f.Advice, "write what builds it into install, and Debian packages that are missing into more_packages")
	case a.tried.hung != "":
		f.Cause = "its suite hangs or is too long: " + a.tried.hung
		f.Advice = append(f.Advice, "raise timeout_sec below [suite] if it is only long, or leave the test out in the run line")
	case len(a.recipe.Tests) == 0:
		f.Cause = "no way to run tests was recognised"
		f.Advice = append(f.Advice, "say it with --test 'COMMAND', or below [[tests]]")
	case a.Passed+a.Failed+a.tried.skipped == 0:
		f.Cause = "it has no tests that run: " + a.Result
		f.Advice = append(f.Advice, "say how they are run with --test 'COMMAND', or below [[tests]]")
	default:
		f.Cause = "no test of its suite passes: " + a.Result
		f.Advice = append(f.Advice, "mend the run line below [[tests]], or env")
	}
	if d, ok := diagnose(a.Stage, a.text); ok {
		f.Cause += "; it seems that " + d.cause
		f.Advice = append(f.Advice, d.advice)
	}
	f.Advice = append(f.Advice, "edit "+f.Recipe+" and run the same command again; "+filepath.Join(w.o.Out, "setup.json")+" has every attempt with its output")
	return f
}
