package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"assay/internal/compare"
	"assay/internal/store"
	"assay/internal/web"
	"assay/task"
)

type compareCmd struct {
	Jobs     []string `arg:"" name:"job" help:"Job directories, of assay or of Harbor."`
	Arms     []string `placeholder:"A,B" help:"Only these arms: \"AGENT with MODEL\", or an agent or model that names one arm alone."`
	By       string   `enum:"arm,agent,model,job" default:"arm" help:"What makes trials one arm: arm (agent with model), agent, model, or job (the same agent in several jobs)."`
	Baseline string   `placeholder:"ARM" help:"Compare every arm with this one, instead of each with each."`
	Across   []string `placeholder:"MODE" help:"Compare attempts that differ in these modes: backend, uid, grade, verifier, network, verifier_network, services."`
	Format   string   `enum:"text,markdown,csv,html" default:"text" help:"text, markdown, csv (tidy: a line for each number) or html (one page that needs nothing else, with plots)."`
	Out      string   `short:"o" placeholder:"FILE" help:"Where to write it. Default: stdout."`
	gateFlags
}

func (compareCmd) Help() string {
	return `Says which arm is better and by how much, with the interval of the paired difference, or that the tasks cannot
tell and about how many more would. Only tasks of equal digest under equal modes are compared; what is left out
is named. Trials without a verdict (infrastructure, broken tasks, unfinished) stand in no rate: how far they could
move it stands beside it. With several comparisons at once winners are named after Holm's correction.
See docs/comparing.md.

Examples:
  assay compare jobs/try1
  assay compare jobs/monday jobs/tuesday --by job --baseline monday
  assay compare jobs/grid --arms react,codex --format html -o compare.html
  assay compare jobs/grid --format csv | column -s, -t
  assay compare jobs/new jobs/old --by job --baseline old --gate 'lower(difference) >= -2%'

` + gateHelp + `

Exit status: 0, 2 when a directory is no job or has no such arm, 4 when a gate is not met.`
}

func (c *compareCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	gates, err := c.gates(true)
	if err != nil {
		return usage(err)
	}
	views, err := readJobs(c.Jobs)
	if err != nil {
		return usage(err)
	}
	r, err := compare.Compare(views, compare.Options{By: compare.By(c.By), Arms: c.Arms, Baseline: c.Baseline, Across: c.Across, Labels: taskLabels()})
	if err != nil {
		return usage(err)
	}
	write := map[string]func(io.Writer, *compare.Report) error{
		"text": web.Comparison, "markdown": web.ComparisonMarkdown, "csv": web.ComparisonCSV, "html": web.ComparisonPage,
	}[c.Format]
	switch {
	case c.Out != "":
		if _, err := writeWhole(c.Out, func(w io.Writer) error { return write(w, r) }); err != nil {
			return err
		}
		a.say("written: %s", c.Out)
		for _, s := range r.Sentences {
			a.say("%s", shown(s))
		}
	case g.JSON:
	default:
		if err := write(a.Stdout, r); err != nil {
			return err
		}
	}
	if g.JSON {
		if err := a.emit("comparison", r); err != nil {
			return err
		}
	}
	return a.hold(g, r, gates)
}

// taskLabels reads what tasks declare, where their directories are still what
// was run.
func taskLabels() func(*store.Trial) compare.Labels {
	known := map[string]compare.Labels{}
	return func(t *store.Trial) compare.Labels {
		var id struct{ Path string }
		if t.Result == nil || t.Digest == "" || json.Unmarshal(t.Result.TaskID, &id) != nil || id.Path == "" {
			return compare.Labels{}
		}
		key := t.Digest + "\x00" + id.Path
		if l, ok := known[key]; ok {
			return l
		}
		var l compare.Labels
		if loaded, err := task.Load(id.Path); err == nil {
			if d, err := task.Digest(id.Path); err == nil && d == t.Digest {
				word := func(keys ...string) string {
					for _, k := range keys {
						if s, ok := loaded.Config.Metadata.Rest[k].(string); ok && s != "" {
							return s
						}
					}
					return ""
				}
				l = compare.Labels{Source: word("source", "dataset"), Repository: word("repository", "repo"), Difficulty: word("difficulty")}
			}
		}
		known[key] = l
		return l
	}
}

const gateHelp = `Gates: METRIC >= NUMBER, with >, <=, <; several joined by "and" or by another --gate. lower(METRIC) and upper(METRIC)
are the ends of its 95 % interval. Shares are written 0.5 or 50%, money $2, times 30s or 5m. Metrics: resolved (pass),
pass@K, pass^K, strict, partial, graded, cost, cost_per_solved, time, time_per_solved, tokens_per_solved, turns, and in
assay compare difference. What is not known meets no gate.`

// gateFlags are conditions on a job's figures.
type gateFlags struct {
	Gate      []string `sep:"none" placeholder:"COND" help:"Exit with 4 unless this holds for every arm, e.g. 'resolved >= 0.5' or 'lower(resolved) >= 50% and cost_per_solved < $2'; repeatable."`
	GateLower bool     `name:"gate-lower" help:"Hold the gates against the end of each interval that is against them: the lower one where a figure must be large."`
}

// gates reads the conditions; differences are for comparisons alone.
func (f gateFlags) gates(differences bool) (all []compare.Gate, err error) {
	for _, text := range f.Gate {
		list, err := compare.ParseGates(text)
		if err != nil {
			return nil, err
		}
		for _, g := range list {
			if g.Metric == "difference" && !differences {
				return nil, fmt.Errorf("gate %q: a difference is held by 'assay compare JOB... --gate'", text)
			}
			if f.GateLower {
				g = g.Careful()
			}
			all = append(all, g)
		}
	}
	return all, nil
}

// holdJob holds the gates against one job.
func (a *app) holdJob(g *grammar, dir string, gates []compare.Gate) error {
	if len(gates) == 0 {
		return nil
	}
	v, err := store.Read(dir)
	if err != nil {
		return usage(err)
	}
	r, err := compare.Compare([]*store.View{v}, compare.Options{})
	if err != nil {
		return err
	}
	return a.hold(g, r, gates)
}

// hold says what every gate came to and fails with exit status 4 when one is
// not met.
func (a *app) hold(g *grammar, r *compare.Report, gates []compare.Gate) error {
	if len(gates) == 0 {
		return nil
	}
	all, met := r.Check(gates)
	missed := []string{}
	for _, c := range all {
		if g.JSON {
			if err := a.emit("gate", c); err != nil {
				return err
			}
		} else {
			a.say("%s", shown(c.Line))
		}
		if !c.Met {
			who := ""
			if c.Arm != "" {
				who = " by " + shown(c.Arm)
			}
			missed = append(missed, c.Gate+who)
		}
	}
	if met {
		return nil
	}
	return gate(fmt.Errorf("%d of %d gates are not met: %s", len(missed), len(all), strings.Join(missed, "; ")))
}
