package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"assay/internal/audit"
	"assay/internal/store"
)

type jobEgressCmd struct {
	Job string `arg:"" help:"Job directory."`
}

func (jobEgressCmd) Help() string {
	return `Reads the ledgers of the job's sandboxes and builds and its lists of model calls, and says per phase (install, build, run,
grade) and arm which hosts were reached, with how many bytes; how many model calls were made, to where; and which files
the agents were shown before they asked a model. The same statement is written to JOB/egress.json when a job ends.

Examples:
  assay job egress jobs/grid
  assay job egress jobs/grid --json | jq -e .zero

Exit status: 0, 1 when a ledger cannot be read, 2 when the directory is no job.`
}

func (c *jobEgressCmd) Run(a *app, g *grammar) error {
	v, err := store.Read(c.Job)
	if err != nil {
		return usage(err)
	}
	s, err := audit.State(v)
	if err != nil {
		return err
	}
	if g.JSON {
		return a.emit("egress", s)
	}
	return a.printEgress(s)
}

// stateEgress writes a job's statement and tells it in a line.
func (a *app) stateEgress(dir string) error {
	v, err := store.Read(dir)
	if err != nil {
		return err
	}
	s, err := audit.State(v)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = writeWhole(filepath.Join(dir, audit.StatementFile), func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("write the egress statement: %w", err)
	}
	a.say("egress: %s", egressWord(s))
	return nil
}

// egressWord is a statement in one line.
func egressWord(s *audit.Statement) string {
	var run, grade audit.Way
	calls, away := 0, 0
	for _, f := range s.Arms {
		run, grade = plus(run, f.Run), plus(grade, f.Grade)
		calls += f.Model.Calls
		away += f.Model.Away
	}
	var parts []string
	for _, p := range []struct {
		name string
		way  audit.Way
	}{{"build", s.Build}, {"run", run}, {"grade", grade}} {
		if p.way.Connections > 0 || p.way.Refused > 0 || p.way.Partial {
			parts = append(parts, p.name+" "+wayWord(p.way))
		}
	}
	word := "none"
	if len(parts) > 0 {
		word = strings.Join(parts, "; ")
	}
	if calls > 0 {
		word += fmt.Sprintf("; %d model calls, %d off this machine", calls, away)
	}
	return word
}

func plus(x, y audit.Way) audit.Way {
	x.Connections += y.Connections
	x.Refused += y.Refused
	x.Sent += y.Sent
	x.Received += y.Received
	x.Partial = x.Partial || y.Partial
	return x
}

func wayWord(w audit.Way) string {
	s := fmt.Sprintf("%d connections, %d bytes out, %d in", w.Connections, w.Sent, w.Received)
	if w.Refused > 0 {
		s += fmt.Sprintf(", %d refused", w.Refused)
	}
	if w.Partial {
		s += " (at least: a ledger has gaps)"
	}
	return s
}

func (a *app) printEgress(s *audit.Statement) error {
	w := a.Stdout
	way := func(name string, x audit.Way) {
		fmt.Fprintf(w, "  %-8s %s\n", name, wayWord(x))
		for _, h := range x.Hosts {
			refused := ""
			if h.Refused > 0 {
				refused = fmt.Sprintf(", %d refused", h.Refused)
			}
			fmt.Fprintf(w, "             %s: %d connections, %d out, %d in%s\n", shown(h.Host), h.Connections, h.Sent, h.Received, refused)
		}
	}
	fmt.Fprintln(w, "the job")
	way("install", s.Install)
	fmt.Fprintf(w, "             %s\n", s.Install.Note)
	way("build", s.Build)
	for _, f := range s.Arms {
		fmt.Fprintf(w, "%s, %d trials\n", shown(f.Arm.String()), f.Trials)
		way("run", f.Run)
		way("grade", f.Grade)
		m := f.Model
		fmt.Fprintf(w, "  %-8s %d calls, %d bytes out, %d in; %d off this machine, %d not sent", "model", m.Calls, m.Sent, m.Received, m.Away, m.Unsent)
		if len(m.Hosts) > 0 {
			fmt.Fprintf(w, "; to %s", shown(strings.Join(m.Hosts, ", ")))
		}
		fmt.Fprintf(w, "\n  %-8s %d whose text the agents were shown\n", "files", f.FilesN)
		for i, x := range f.Files {
			if i == 20 {
				fmt.Fprintf(w, "             … %d more (--json)\n", f.FilesN-i)
				break
			}
			fmt.Fprintf(w, "             %s (%d trials)\n", shown(x.Path), x.Trials)
		}
	}
	fmt.Fprintf(w, "files are found by %s\n", s.Method)
	_, err := fmt.Fprintln(w, map[bool]string{true: "nothing left this machine", false: "bytes left this machine"}[s.Zero])
	return err
}
