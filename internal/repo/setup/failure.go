package setup

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
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
	for _, a := range f.Advice {
		fmt.Fprintf(&b, "%s\n", a)
	}
	return strings.TrimSpace(b.String())
}

// diagnosis is a cause that shows in what was printed, and what helps.
type diagnosis struct{ when, cause, advice string }

func diagnoses() []diagnosis {
	return []diagnosis{
		{`(?i)(Name or service not known|Temporary failure in name resolution|Network is unreachable|getaddrinfo (ENOTFOUND|EAI_AGAIN)|no such host|Could not resolve host|ConnectionError|network is unreachable|dial tcp)`,
			"the suite needs a network", "suites run without one: leave such tests out in the run line, or start what they need with services = [\"…\"]"},
		{`(?i)(cannot open display|no display name|could not connect to display|Missing X server)`,
			"the suite needs a display", "more_packages = [\"xvfb\", \"xauth\"] and \"xvfb-run -a \" before the command in the run line"},
		{`(?i)(must (not )?be run as (a )?(non-)?root|do not run .{0,20}as root|running as root|as root is not supported|cannot be run as root|refus\w+ to run as root)`,
			"the suite minds who runs it", "let an ordinary user run it: \"setpriv --reuid=1000 --regid=1000 --clear-groups \" before the command, with --uid root or subid; or leave the test out"},
		{`(?i)(unsupported locale|locale\.Error|cannot change locale|setlocale)`, "the suite needs a locale", "more_packages = [\"locales-all\"], and LANG below [env]"},
		{`(?i)(ZoneInfoNotFound|unknown time ?zone|tzdata|Invalid time zone)`, "the suite needs a time zone", "TZ below [env], and more_packages = [\"tzdata\"]"},
		{`(?i)(no space left on device)`, "the disk is full", "free some room, or give the store another file system with --store"},
		{`(?i)(killed|out of memory|oom|Cannot allocate memory|heap space)`, "memory ran out", "run fewer things at once in the run line"},
	}
}

// failure makes the report of the best that was reached.
func (w *work) failure(ctx context.Context, a *Attempt) error {
	f := &Failure{Name: w.s.name, Stage: a.Stage, Step: a.Step, Output: a.Output, Attempts: w.attempts, Recipe: filepath.Join(w.o.Out, RecipeFile)}
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
	for _, d := range diagnoses() {
		if a.Stage == StageTest && regexp.MustCompile(d.when).MatchString(a.text) {
			f.Cause += "; it seems that " + d.cause
			f.Advice = append(f.Advice, d.advice)
			break
		}
	}
	f.Advice = append(f.Advice, "edit "+f.Recipe+" and run the same command again; "+filepath.Join(w.o.Out, "setup.json")+" has every attempt with its output")
	return f
}
