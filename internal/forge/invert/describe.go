package invert

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"assay/internal/forge"
	"assay/internal/repo"
)

// Describe words what a user of the broken machine would report: what was run,
// what it said at the end, and which tests are affected. It says nothing of
// where the fault is; the candidate's hints do, from vague to plain.
func (*Generator) Describe(w *forge.World, c forge.Candidate, seen forge.Seen) forge.Statement {
	h := fnv.New64a()
	h.Write([]byte(c.Name))
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	st := forge.Statement{Hints: c.Statement.Hints, Title: title(w.Env.Name, seen, rng)}
	var b strings.Builder
	b.WriteString(pick(rng,
		"This checkout worked on this machine until recently. Now its tests do not pass any more, although nobody has touched what they test.\n",
		"I came back to this project today, on the machine where it was always built, and the tests do not pass any longer.\n",
		"The nightly run on this machine is red since yesterday. The same commit passes elsewhere.\n",
		"Since somebody worked on this machine, the project's tests fail here. On a fresh machine the same sources pass.\n"))
	if line := command(w, seen); line != "" {
		b.WriteString("\nWhat I run, in a new shell:\n\n```\n" + line + "\n```\n")
	}
	if text := symptom(seen); text != "" {
		b.WriteString("\n" + pick(rng, "It ends with:", "The last lines:", "What I see:") + "\n\n```\n" + text + "\n```\n")
	}
	if !seen.Mute && seen.Passed > 0 {
		fmt.Fprintf(&b, "\n%d tests fail, %d others still pass.", len(seen.Failed), seen.Passed)
		b.WriteString(" " + pick(rng, "Among those that fail:", "These fail, for example:") + "\n\n")
		for _, f := range seen.Failed[:min(len(seen.Failed), 6)] {
			_, id, _ := strings.Cut(f.ID, ":")
			b.WriteString("- `" + strings.ReplaceAll(id, "`", "'") + "`\n")
		}
	} else {
		b.WriteString("\nNone of the tests passes; it does not get that far.\n")
	}
	b.WriteString("\n" + pick(rng,
		"Please find out what is wrong here and mend it for good: it has to work in every new shell, for whoever comes next, without a workaround on the command line.\n",
		"Please repair the machine or the checkout, whichever it is, so that the tests pass again in any new login shell. The tests themselves are fine.\n"))
	st.Body = b.String()
	return st
}

var telling = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^(?:E\s+)?((?:[\w.]*(?:Error|Exception|Warning))\b.{3,160})$`),
	regexp.MustCompile(`(?mi)^.*?((?:fatal|error)(?:\[\w+\])?: .{4,160})$`),
	regexp.MustCompile(`(?m)^.*?((?:[\w./-]+: )?(?:No such file or directory|Permission denied|command not found|not found|cannot open .*))$`),
}

// title is the most telling line of what was seen.
func title(name string, seen forge.Seen, rng *rand.Rand) string {
	texts := []string{seen.Output}
	for _, f := range seen.Failed[:min(len(seen.Failed), 3)] {
		texts = append(texts, f.Message)
	}
	if !seen.Mute {
		slices.Reverse(texts)
	}
	for _, r := range telling {
		for _, t := range texts {
			if m := r.FindStringSubmatch(t); m != nil {
				line := strings.Join(strings.Fields(m[1]), " ")
				return name + ": " + line[:min(len(line), 110)]
			}
		}
	}
	if seen.Mute {
		return name + pick(rng, ": the tests do not even start", ": nothing can be tested any more")
	}
	return fmt.Sprintf("%s: %d tests fail on this machine", name, len(seen.Failed))
}

// command is the line that people would type: the suite's, without what only a
// report needs.
func command(w *forge.World, seen forge.Seen) string {
	commands := w.Env.Suite.Commands
	if len(seen.Failed) > 0 {
		name, _, _ := strings.Cut(seen.Failed[0].ID, ":")
		commands = slices.DeleteFunc(slices.Clone(commands), func(c repo.Command) bool { return c.Name != name })
	}
	if len(commands) == 0 {
		return ""
	}
	line := strings.TrimSpace(commands[0].Run)
	for _, start := range []string{". /etc/profile", ";", "&&", "\n"} {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), start))
	}
	line = regexp.MustCompile(`\s+-p assay_\w+|\s+--(junit-xml|junitxml|assay-report|json-report-file|reporter|outputFile)[= ]\S+|PYTHONPATH=/tests\S*\s+|\s+2>&1`).ReplaceAllString(line, "")
	if len(line) > 400 || strings.Contains(line, "```") {
		return ""
	}
	return line
}

// symptom are the last lines that were printed, or what the first failed tests
// say.
func symptom(seen forge.Seen) string {
	text := strings.TrimSpace(seen.Output)
	if !seen.Mute {
		var all []string
		for _, f := range seen.Failed {
			if m := strings.TrimSpace(f.Message); m != "" && !slices.Contains(all, m) && len(all) < 2 {
				all = append(all, m)
			}
		}
		if len(all) > 0 {
			text = strings.Join(all, "\n\n")
		}
	}
	lines := strings.Split(text, "\n")
	var out []string
	for _, l := range lines[max(0, len(lines)-12):] {
		l = strings.ReplaceAll(strings.TrimRight(l, " \t\r"), "```", "'''")
		if len(l) > 240 {
			l = strings.ToValidUTF8(l[:240], "") + "…"
		}
		out = append(out, l)
	}
	return strings.Trim(strings.Join(out, "\n"), "\n")
}
