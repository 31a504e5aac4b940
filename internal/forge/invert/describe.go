package invert

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
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
	b.WriteString(pick(rng, openings(seen)...) + "\n")
	parts := []string{"", "", affected(seen, rng)}
	if line := command(w, seen); line != "" {
		parts[0] = pick(rng, "What I run, in a new shell:", "To see it, in a fresh login shell:", "Steps: log in, go to the project, and") + "\n\n```\n" + line + "\n```\n"
	}
	if text := symptom(seen); text != "" {
		parts[1] = pick(rng, "It ends with:", "The last lines:", "What I see:", "From the log:") + "\n\n```\n" + text + "\n```\n"
	}
	if rng.IntN(3) == 0 {
		parts[0], parts[1] = parts[1], parts[0]
	}
	for _, p := range parts {
		if p != "" {
			b.WriteString("\n" + p)
		}
	}
	b.WriteString("\n" + pick(rng,
		"Please find out what is wrong here and mend it for good: it has to work in every new shell, for whoever comes next, without a workaround on the command line.",
		"Please repair the machine or the checkout, whichever it is, so that the tests pass again in any new login shell. The tests themselves are fine.",
		"I need this machine to build and test the project again, from a plain login shell and without anything that one has to remember to type. Do not change the tests.",
		"Can you get it back to a green run? Others log in here too, so it has to hold in their shells as well; the tests are right as they are.",
		"Put right whatever it is. There may be more than one thing. It is mended when a new login shell runs the same command without a failure.") + "\n")
	st.Body = b.String()
	return st
}

// openings are how reports begin. What they say is true of every fault.
func openings(seen forge.Seen) []string {
	all := []string{
		"This checkout worked on this machine until recently. Now its tests do not pass any more, although nobody has touched what they test.",
		"I came back to this project today, on the machine where it was always built, and the tests do not pass any longer.",
		"The nightly run on this machine is red since yesterday. The same commit passes elsewhere.",
		"Since somebody worked on this machine, the project's tests fail here. On a fresh machine the same sources pass.",
		"A colleague set this machine up for me, and the project's tests were green then. I have changed nothing of the code since, and they are not any more.",
		"We moved some things about on the build host last week. Since then this project cannot be tested there as it could before.",
		"Same commit, same command, two machines: green on mine, red on this one.",
	}
	if !seen.Mute && seen.Passed > 0 {
		all = append(all, "Most of it works on this machine, and some of it no longer does. The code is what was released, and passes elsewhere.",
			"The release is stuck: a part of the tests fails on this machine alone. I looked at the code they cover and cannot see anything wrong with it.")
	}
	return all
}

// affected says how many tests fail, and names a few.
func affected(seen forge.Seen, rng *rand.Rand) string {
	if seen.Mute || seen.Passed == 0 {
		return pick(rng, "None of the tests passes; it does not get that far.", "Not one test passes.", "That is all there is: no test gets to run to its end.") + "\n"
	}
	var b strings.Builder
	fails, those := []string{"test fails", "tests fail"}, []string{"Among those that fail:", "These fail, for example:"}
	if !slices.ContainsFunc(seen.Failed, func(f forge.Failure) bool { return f.Status != "missing" }) {
		fails, those = []string{"test is not run any more", "tests are not run any more"}, []string{"Among those that are left out:", "These do not run, for example:"}
	}
	fmt.Fprintf(&b, "%s, %s. %s\n\n", count(len(seen.Failed), fails[0], fails[1]), count(seen.Passed, "other still passes", "others still pass"), pick(rng, those...))
	for _, f := range seen.Failed[:min(len(seen.Failed), 6)] {
		_, id, _ := strings.Cut(f.ID, ":")
		b.WriteString("- `" + strings.ReplaceAll(id, "`", "'") + "`\n")
	}
	return b.String()
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

var telling = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^(?:E\s+)?((?:[\w.]*(?:Error|Exception|Warning))\b.{3,160})$`),
	regexp.MustCompile(`(?mi)^.*?((?:fatal|error)(?:\[\w+\])?: .{4,160})$`),
	regexp.MustCompile(`(?m)^.*?((?:[\w./-]+: )?(?:No such file or directory|Permission denied|command not found|not found|cannot open .*))$`),
	regexp.MustCompile(`(?m)^((?:go|make|npm|node|git|cargo|cmake|[a-z]+env)(?:\[\d+\])?: .{6,140})$`),
}

// trouble are the lines of an output, mostly of tests that pass, that may be
// about the others.
func trouble(text string) string {
	var all []string
	for l := range strings.Lines(text) {
		if complaint.MatchString(l) && !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return strings.TrimSpace(strings.Join(all, ""))
}

var complaint = regexp.MustCompile(`(?i)^\S*(?:error|fatal)\b|\bFAIL(?:ED|URE)?\b|\[build failed\]|cannot find|no such file|command not found|permission denied|undefined reference`)

// plain is what a command would have printed for people: of events in JSON,
// as go test writes them, the output that they carry.
func plain(text string) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		var event struct{ Action, Output string }
		switch {
		case !strings.HasPrefix(l, "{") || json.Unmarshal([]byte(l), &event) != nil || event.Action == "":
			b.WriteString(l)
		default:
			b.WriteString(event.Output)
		}
	}
	return b.String()
}

// title is the most telling line of what was seen.
func title(name string, seen forge.Seen, rng *rand.Rand) string {
	var texts []string
	if seen.Mute || seen.Passed == 0 {
		texts = append(texts, plain(seen.Output)) // else it is of tests that pass, too
	}
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
	return name + ": " + count(len(seen.Failed), "test does not pass", "tests do not pass") + " on this machine"
}

// harness is what of a command only its report and the grader need.
var harness = regexp.MustCompile(`PYTHONPATH=/tests\S*\s+|\bsetpriv(\s+--[\w-]+ \S+)+\s+|\s+-p (assay_\w+|no:cacheprovider)|\s+-(json|B)\b` +
	`|\s+--(junit-?xml|assay-report|json-report-file|reporter-options?|reporter|outputFile|output-junit)[= ]\S+|\s+--(ci|json|coverage=false)\b` +
	`|\s+-D(rat|checkstyle|enforcer|animal\.sniffer|spotbugs|pmd|gpg|maven\.javadoc)\.skip\b|\s+[12]?>\s*/logs/\S+|\s+2>&1`)

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
	line = strings.TrimSpace(harness.ReplaceAllString(line, ""))
	if len(line) > 400 || strings.Contains(line, "```") {
		return ""
	}
	return line
}

// symptom are the last lines that were printed, or what the first failed tests
// say.
func symptom(seen forge.Seen) string {
	text := strings.TrimSpace(plain(seen.Output))
	if !seen.Mute {
		var all []string
		for _, f := range seen.Failed {
			if m := strings.TrimSpace(f.Message); m != "" && !slices.Contains(all, m) && len(all) < 2 {
				all = append(all, m)
			}
		}
		if len(all) > 0 {
			text = strings.Join(all, "\n\n")
		} else if seen.Passed > 0 {
			text = trouble(text)
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
