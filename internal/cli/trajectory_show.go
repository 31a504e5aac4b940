package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"assay/internal/web"
	"assay/trajectory"
)

type trajectoryShowCmd struct {
	Path string `arg:"" help:"Trajectory file or trial directory."`
	Full bool   `help:"Whole texts; else each is cut to a screenful."`
	Step int    `placeholder:"N" help:"Only this step, in full."`
	Root string `placeholder:"ID" help:"An embedded document (a sub-agent, what follows a compaction) in place of the main one."`
}

func (trajectoryShowCmd) Help() string {
	return `Control characters of the texts are made visible. Colours are used on a terminal alone (NO_COLOR turns them off).

Examples:
  assay trajectory show jobs/demo/hello__4fT2xkq
  assay trajectory show trajectory.json --step 7
  assay trajectory show trajectory.json --json | jq 'select(.kind=="shell").text'

Exit status: 0, 1 when it cannot be read, 2 when there is none or no such step.`
}

// shownAction is a tool call as --json prints it, after its step.
type shownAction struct {
	Step    int64    `json:"step"`
	Tool    string   `json:"tool"`
	Kind    string   `json:"kind"`
	Text    string   `json:"text"`
	Output  string   `json:"output"`
	Seen    []string `json:"files_seen"`
	Changed []string `json:"files_changed"`
	Test    bool     `json:"runs_tests"`
}

func (c *trajectoryShowCmd) Run(a *app, g *grammar) error {
	files, err := trajectoryFiles([]string{c.Path})
	if err != nil {
		return err
	}
	shownAny := false
	for i, f := range files {
		t, err := readTrajectory(f)
		if err != nil {
			return err
		}
		if t = rootOf(t, c.Root); t == nil {
			continue
		}
		if len(files) > 1 && !g.JSON {
			if i > 0 {
				fmt.Fprintln(a.Stdout)
			}
			fmt.Fprintln(a.Stdout, f)
		}
		ok, err := c.show(a, g, t)
		if err != nil {
			return err
		}
		shownAny = shownAny || ok
	}
	switch {
	case shownAny:
		return nil
	case c.Root != "":
		return usagef("%s embeds no document %q", c.Path, c.Root)
	}
	return usagef("%s has no step %d", c.Path, c.Step)
}

// rootOf finds an embedded document; an empty id is t itself.
func rootOf(t *trajectory.Trajectory, id string) *trajectory.Trajectory {
	if id == "" || t.TrajectoryID == id {
		return t
	}
	for i := range t.Subagents {
		if found := rootOf(&t.Subagents[i], id); found != nil {
			return found
		}
	}
	return nil
}

func (c *trajectoryShowCmd) show(a *app, g *grammar, t *trajectory.Trajectory) (any bool, err error) {
	actions := map[int64][]trajectory.Action{}
	for _, x := range t.Actions() {
		actions[x.Step] = append(actions[x.Step], x)
	}
	p := &painter{w: a.Stdout, colour: a.colours(), most: 20}
	if c.Full || c.Step > 0 {
		p.most = 0
	}
	if !g.JSON && c.Step == 0 {
		p.head(t)
	}
	for i := range t.Steps {
		s := &t.Steps[i]
		if c.Step > 0 && s.ID != int64(c.Step) {
			continue
		}
		any = true
		if g.JSON {
			if err := a.showJSON(s, actions[s.ID]); err != nil {
				return any, err
			}
			continue
		}
		p.step(s, actions[s.ID])
	}
	if !g.JSON && c.Step == 0 {
		p.foot(t)
	}
	return any, p.err
}

func (a *app) showJSON(s *trajectory.Step, actions []trajectory.Action) error {
	if err := a.emit("step", s); err != nil {
		return err
	}
	for _, x := range actions {
		n := shownAction{x.Step, x.Tool, string(x.Kind), x.Text, x.Output, named(x.Seen), named(x.Changed), x.Test}
		if err := a.emit("action", n); err != nil {
			return err
		}
	}
	return nil
}

// named drops places that hold no name.
func named(files []string) []string {
	return slices.DeleteFunc(append([]string{}, files...), func(s string) bool { return s == "" })
}

// colours says whether stdout takes them.
func (a *app) colours() bool {
	f, ok := a.Stdout.(*os.File)
	if no, set := a.Env("NO_COLOR"); !ok || set && no != "" {
		return false
	}
	return term.IsTerminal(int(f.Fd()))
}

// shown makes hostile text fit for one line of a terminal.
func shown(s string) string { return strings.ReplaceAll(web.Clean(s), "\n", " ") }

// painter prints a trajectory for people.
type painter struct {
	w      io.Writer
	colour bool
	most   int // lines of one text; 0: all
	err    error
}

const (
	bold, dim, green, yellow, blue = "1", "2", "32", "33", "36"
)

func (p *painter) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *painter) paint(style, s string) string {
	if !p.colour || s == "" {
		return s
	}
	return "\x1b[" + style + "m" + s + "\x1b[0m"
}

func (p *painter) head(t *trajectory.Trajectory) {
	name := strings.TrimSpace(t.Agent.Name + " " + t.Agent.Version)
	if t.Agent.ModelName != "" {
		name += ", " + t.Agent.ModelName
	}
	p.printf("%s  %d steps\n", p.paint(bold, shown(name)), len(t.Steps))
}

func (p *painter) step(s *trajectory.Step, actions []trajectory.Action) {
	style := map[trajectory.Source]string{trajectory.User: green, trajectory.System: dim, trajectory.Agents: blue}[s.Source]
	line := fmt.Sprintf("── %d %s", s.ID, shown(string(s.Source)))
	if s.CopiedContext != nil && *s.CopiedContext {
		line += " (copied)"
	}
	if m := s.Metrics; m != nil {
		line += "  " + tokensWord(m.PromptTokens, m.CompletionTokens, m.CostUSD)
	}
	p.printf("\n%s\n", p.paint(style, line))
	if s.ReasoningContent != nil {
		p.text("thinks ", *s.ReasoningContent, dim)
	}
	p.text("", s.Message.String(), "")
	for _, x := range actions {
		label := "▸ " + shown(x.Tool) + " "
		if x.Test {
			label += "(tests) "
		}
		p.text(label, x.Text, yellow)
		if files := named(x.Seen); len(files) > 0 {
			p.printf("  %s\n", p.paint(dim, "reads "+shown(strings.Join(files, " "))))
		}
		if files := named(x.Changed); len(files) > 0 {
			p.printf("  %s\n", p.paint(dim, "writes "+shown(strings.Join(files, " "))))
		}
		p.text("  ", x.Output, "")
	}
	p.loose(s)
}

// loose prints results of no call, and where sub-agents stand.
func (p *painter) loose(s *trajectory.Step) {
	if s.Observation == nil {
		return
	}
	for _, r := range s.Observation.Results {
		if r.Content != nil && r.CallID == "" && len(s.ToolCalls) != 1 {
			p.text("  ", r.Content.String(), "")
		}
		for _, ref := range r.Subagents {
			p.printf("  %s\n", p.paint(bold, "→ "+shown(ref.TrajectoryID+ref.TrajectoryPath)+" (--root)"))
		}
	}
}

func (p *painter) text(label, s, style string) {
	s = strings.TrimRight(web.Clean(s), "\n")
	if s == "" && strings.TrimSpace(label) == "" {
		return
	}
	lines := strings.Split(s, "\n")
	rest := 0
	if p.most > 0 && len(lines) > p.most {
		rest = len(lines) - p.most
		lines = lines[:p.most]
	}
	pad := ""
	if strings.TrimSpace(label) == "" {
		pad = label
	}
	for i, l := range lines {
		if p.most > 0 && len(l) > 2000 {
			l = strings.ToValidUTF8(l[:2000], "") + " …"
		}
		if i == 0 {
			l = label + l
		} else {
			l = pad + l
		}
		p.printf("%s\n", p.paint(style, l))
	}
	if rest > 0 {
		p.printf("%s\n", p.paint(dim, fmt.Sprintf("%s… %d more lines (--full)", pad, rest)))
	}
}

func (p *painter) foot(t *trajectory.Trajectory) {
	b := t.Behave()
	if b.SeenN > 0 {
		p.printf("\nfiles consulted: %s\n", shown(strings.Join(b.Seen, " ")))
	}
	if b.ChangedN > 0 {
		p.printf("files written: %s\n", shown(strings.Join(b.Changed, " ")))
	}
	for i := range t.Subagents {
		p.printf("embedded: %s, %d steps\n", shown(t.Subagents[i].TrajectoryID), len(t.Subagents[i].Steps))
	}
	if t.Notes != "" {
		p.printf("notes: %s\n", shown(t.Notes))
	}
}

func tokensWord(in, out *int64, cost *float64) string {
	word := func(n *int64) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	s := word(in) + " in, " + word(out) + " out"
	if cost != nil {
		s += fmt.Sprintf(", $%.4f", *cost)
	}
	return s
}
