package forge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/repo"
)

// whatWasSeen are a candidate's failures as a describer gets them.
func (a *attempt) whatWasSeen(env *repo.Environment) Seen {
	s := Seen{Mute: a.seen.mute, Output: a.seen.output}
	_, s.Passed = a.lists.count()
	files := map[string]string{}
	for _, t := range env.Suite.Tests {
		files[t.Global()] = t.File
	}
	for _, name := range slices.Sorted(maps.Keys(a.lists.failToPass)) {
		for _, id := range slices.Sorted(slices.Values(a.lists.failToPass[name])) {
			g := name + ":" + id
			f, told := a.seen.failed[g]
			if !told {
				f = Failure{ID: g, Status: "missing"}
			}
			f.File = files[g]
			s.Failed = append(s.Failed, f)
		}
	}
	return s
}

// describe is a statement of the failures alone: what stops working and what is
// said about it, and not where.
func describe(env *repo.Environment, c Candidate, seen Seen) Statement {
	n := len(seen.Failed)
	st := Statement{Title: fmt.Sprintf("%s: %d of %d tests fail", env.Name, n, n+seen.Passed)}
	var b strings.Builder
	switch {
	case seen.Passed == 0:
		b.WriteString("The project's tests no longer run here: none of them passes.\n")
		if out := lastLines(seen.Output, 15); out != "" {
			fmt.Fprintf(&b, "\nThe last lines of what is printed:\n\n```\n%s\n```\n", out)
		}
	default:
		fmt.Fprintf(&b, "Some of what worked before no longer does. %d tests fail, %d others still pass.\n", n, seen.Passed)
	}
	shown := 0
	for _, f := range seen.Failed {
		m := firstLines(f.Message, 6)
		if m == "" || shown == 3 || strings.Contains(b.String(), m) {
			continue
		}
		if shown == 0 {
			b.WriteString("\nWhat is reported:\n")
		}
		fmt.Fprintf(&b, "\n```\n%s\n```\n", m)
		shown++
	}
	if c.Grade == GradeState {
		b.WriteString("\nFind out what is wrong with this machine or this checkout, and mend it for good: what only holds in your own shell does not count.\n")
	} else {
		b.WriteString("\nFind the cause and mend it.\n")
	}
	st.Body = b.String()
	return st
}

// instruction is what the agent reads: the statement, as many hints as are
// given, and what is judged.
func instruction(c Candidate, env *repo.Environment, hints int) string {
	var b strings.Builder
	if t := strings.TrimSpace(c.Statement.Title); t != "" {
		fmt.Fprintf(&b, "# %s\n\n", strings.Join(strings.Fields(t), " "))
	}
	b.WriteString(strings.TrimSpace(c.Statement.Body) + "\n")
	for i, h := range c.Statement.Hints[:min(max(hints, 0), len(c.Statement.Hints))] {
		if i == 0 {
			b.WriteString("\n## Hints\n\n")
		}
		fmt.Fprintf(&b, "- %s\n", strings.TrimSpace(h))
	}
	whose := "The project's own tests judge"
	if len(c.Hidden) > 0 {
		whose = "Tests that are not in it judge"
	}
	fmt.Fprintf(&b, "\nThe project is in `%s`. %s the result, in a fresh copy without a network; changes to test files are put back before.\n", env.Workdir, whose)
	return b.String()
}

func firstLines(s string, n int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(shorten(all[:min(n, len(all))]), "\n")
}

func lastLines(s string, n int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(shorten(all[max(0, len(all)-n):]), "\n")
}

// shorten keeps lines readable, and fences whole.
func shorten(all []string) []string {
	out := make([]string, len(all))
	for i, l := range all {
		l = strings.ReplaceAll(strings.TrimRight(l, " \t\r"), "```", "'''")
		if len(l) > 300 {
			l = strings.ToValidUTF8(l[:297], "") + "…"
		}
		out[i] = l
	}
	return out
}
