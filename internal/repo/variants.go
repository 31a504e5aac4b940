package repo

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/report"
)

// variant is a change of the surroundings that may cure tests.
type variant struct {
	kind    FindingKind
	hint    *regexp.Regexp // in what failing tests say: such a variant is tried first
	env     []string
	user    string
	network bool
	wrap    string // a line around the command's, with %s
	detail  string
	remedy  string
}

// noNetwork finds what programs say of a name that is not found or a network
// that is not there.
func noNetwork() *regexp.Regexp {
	return regexp.MustCompile(`(?i)name resolution|getaddrinfo|ENOTFOUND|EAI_AGAIN|network is unreachable|no such host|could ?n.t resolve|ENETUNREACH|UnknownHostException|failed to establish a new connection`)
}

const networkRemedy = "grading has no network: leave them out, or put what they fetch into the image"

func (r *suiteRun) candidates() []variant {
	vs := []variant{
		{kind: NeedNetwork, hint: noNetwork(), network: true, detail: "%d tests pass with a network", remedy: networkRemedy},
		{kind: NeedDisplay, hint: regexp.MustCompile(`(?i)no display|cannot open display|\$?DISPLAY (is not|not) set|HeadlessException|could not connect to display|xcb`),
			wrap: "xvfb-run -a /bin/sh -c %s", detail: "%d tests pass with a display", remedy: "run the command under xvfb-run"},
		{kind: NeedNotRoot, hint: regexp.MustCompile(`(?i)permission|EACCES|EPERM|root|should (have )?fail`), user: "65534", env: []string{"HOME=/tmp"},
			detail: "%d tests pass as an ordinary user", remedy: "give the environment a user of its own"},
		{kind: NeedRoot, hint: regexp.MustCompile(`(?i)permission denied|EACCES|EPERM|operation not permitted`), user: "0", detail: "%d tests pass as root", remedy: "run the suite as root"},
		{kind: NeedZone, hint: regexp.MustCompile(`(?i)time ?zone|tzinfo|\bTZ\b|\bUTC\b|GMT|hour`), env: []string{"TZ=America/New_York"}, detail: "%d tests pass in another time zone", remedy: "set TZ in the image's profile"},
		{kind: NeedLocale, hint: regexp.MustCompile(`(?i)locale|codec can't|unicode|LC_ALL|encod`), env: []string{"LANG=C.UTF-8", "LC_ALL=C.UTF-8"}, detail: "%d tests pass in another locale", remedy: "set LC_ALL in the image's profile"},
		{kind: NeedLocale, hint: regexp.MustCompile(`(?i)locale|LC_ALL`), env: []string{"LANG=en_US.UTF-8", "LC_ALL=en_US.UTF-8"}, detail: "%d tests pass in another locale", remedy: "install the locale and set LC_ALL in the image's profile"},
		{kind: NeedHome, hint: regexp.MustCompile(`(?i)\bHOME\b|home director|expanduser|XDG_`), env: []string{"HOME=/tmp", "XDG_CACHE_HOME=/tmp/.cache"}, detail: "%d tests pass with a home directory", remedy: "set HOME in the image's profile"},
	}
	if r.c.Egress == nil {
		vs = slices.DeleteFunc(vs, func(v variant) bool { return v.network })
	}
	root := r.c.User == "" || r.c.User == "root" || r.c.User == "0"
	return slices.DeleteFunc(vs, func(v variant) bool { return v.kind == NeedRoot && root || v.kind == NeedNotRoot && !root })
}

// maxVariants is how many are tried of one command, each once.
const maxVariants = 5

// variants tries what might cure the tests that fail in every run, and says
// what did. The suite stays as it was: whoever made the image decides.
func (r *suiteRun) variants(ctx context.Context) error {
	for at, c := range r.c.Commands {
		first, ran := r.kept[at]
		if !ran {
			continue
		}
		var failing []Test
		said := first.tail
		if first.report != nil {
			for _, t := range first.report.Tests {
				if t.Status == report.Failed || t.Status == report.Errored {
					said += "\n" + t.Message
				}
			}
		}
		for _, t := range r.suite.Tests {
			if t.Command == c.Name && t.Stability == Failing {
				failing = append(failing, t)
			}
		}
		if len(failing) == 0 && !first.fatal() && len(first.report.Tests) > 0 {
			continue
		}
		if err := r.try(ctx, c, first, failing, said); err != nil {
			return err
		}
	}
	return nil
}

// try makes a run for each variant, those first for which the failures speak.
// Without any word for a variant only the cheap ones are tried, on few tests.
func (r *suiteRun) try(ctx context.Context, c Command, first result, failing []Test, said string) error {
	vs := r.candidates()
	hinted := func(v variant) bool { return v.hint.MatchString(said) }
	slices.SortStableFunc(vs, func(a, b variant) int {
		switch {
		case hinted(a) == hinted(b):
			return 0
		case hinted(a):
			return -1
		}
		return 1
	})
	line, ok := Select(c, failing)
	left := map[string]bool{}
	for _, t := range failing {
		left[t.ID] = true
	}
	for _, v := range vs[:min(maxVariants, len(vs))] {
		if len(left) == 0 && len(failing) > 0 || r.left() < first.wall || (v.network || v.wrap != "" || len(failing) == 0) && !hinted(v) {
			continue
		}
		t := trial{seed: r.c.Seed, env: v.env, user: v.user, network: v.network, limit: max(2*first.wall, 30*time.Second)}
		if ok {
			t.line = line
		}
		if v.wrap != "" {
			was := t.line
			if was == "" {
				was = c.Run
			}
			t.line = fmt.Sprintf(v.wrap, Quote(was))
		}
		next, err := r.run(ctx, c, t)
		if err != nil {
			return err
		}
		r.cured(c, v, next, left, len(failing) == 0)
	}
	if r.c.Egress == nil && (len(left) > 0 || len(failing) == 0) && noNetwork().MatchString(said) {
		r.find(Finding{Kind: NeedNetwork, Command: c.Name, Count: len(left), Detail: "what failed speaks of a network that does not answer", Remedy: networkRemedy})
	}
	return nil
}

// cured notes what a variant's run mended; whole: nothing ran without it.
func (r *suiteRun) cured(c Command, v variant, next result, left map[string]bool, whole bool) {
	if next.fatal() {
		return
	}
	var ids []string
	for _, t := range next.report.Tests {
		if t.Status == report.Passed && (whole || left[t.ID]) {
			ids = append(ids, t.ID)
			delete(left, t.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	slices.Sort(ids)
	f := Finding{Kind: v.kind, Command: c.Name, Tests: ids, Detail: fmt.Sprintf(v.detail, len(ids)), Remedy: v.remedy, User: v.user}
	for _, kv := range v.env {
		if f.Env == nil {
			f.Env = map[string]string{}
		}
		k, val, _ := strings.Cut(kv, "=")
		f.Env[k] = val
	}
	if len(v.env) > 0 {
		f.Detail += " (" + strings.Join(v.env, " ") + ")"
	}
	r.find(f)
}
