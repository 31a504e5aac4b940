package cli

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"assay/internal/agent/external"
	"assay/internal/image"
	"assay/internal/model"
)

type agentListCmd struct{}

func (agentListCmd) Help() string {
	return `Built-in agents need no installation. External ones are installed once with 'assay agent install'.

Examples:
  assay agent list
  assay agent list --json | jq -r 'select(.installed) | "\(.name) \(.installed.bytes)"'

Exit status: 0.`
}

const (
	kindBuiltin  = "built-in"
	kindExternal = "external"
	kindFile     = "recipe file" // installed from one that is not in the table
)

// agentLine is one agent as lists show it.
type agentLine struct {
	Name      string           `json:"name"`
	Kind      string           `json:"kind"`
	Version   string           `json:"version,omitempty"`
	Dialects  []model.Dialect  `json:"dialects,omitempty"`
	Summary   string           `json:"summary"`
	Installed *external.Record `json:"installed"` // null: it is not
	Recipe    *external.Recipe `json:"recipe,omitempty"`
}

func (agentListCmd) Run(a *app, g *grammar) error {
	s, err := a.openStore(g)
	if err != nil {
		return err
	}
	defer s.Close()
	lines, err := agentLines(s)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	if !g.JSON {
		fmt.Fprintln(tw, "NAME\tVERSION\tDIALECTS\tINSTALLED\tWHAT IT IS")
	}
	for _, l := range lines {
		if g.JSON {
			if err := a.emit("agent", l); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", l.Name, orDash(l.Version), orDash(dialectList(l.Dialects)), l.state(), l.Summary)
	}
	return tw.Flush()
}

func (l agentLine) state() string {
	switch {
	case l.Kind == kindBuiltin:
		return kindBuiltin
	case l.Installed == nil:
		return "no"
	}
	return size(l.Installed.Bytes)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func dialectList(all []model.Dialect) string {
	s := ""
	for i, d := range all {
		if i > 0 {
			s += ","
		}
		s += string(d)
	}
	return s
}

// agentLines are the built-in agents, those of the table, and what was
// installed from recipe files.
func agentLines(s *image.Store) ([]agentLine, error) {
	var lines []agentLine
	for _, k := range agents() {
		lines = append(lines, agentLine{Name: k.form, Kind: kindBuiltin, Summary: k.means})
	}
	table, err := external.Table()
	if err != nil {
		return nil, err
	}
	listed := map[image.ID]bool{}
	for _, r := range table {
		l := agentLine{Name: r.Name, Kind: kindExternal, Version: r.Version, Dialects: r.Dialects, Summary: r.Summary}
		i, err := external.Find(s, r)
		var missing *external.NotInstalledError
		switch {
		case err == nil:
			l.Installed = &i.Record
			listed[i.Image.ID] = true
		case !errors.As(err, &missing):
			return nil, err
		}
		lines = append(lines, l)
	}
	all, err := external.List(s)
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if !listed[i.Image.ID] {
			lines = append(lines, agentLine{Name: i.Record.Name, Kind: kindFile, Version: i.Record.Version, Installed: &i.Record,
				Summary: "installed from a recipe file, or by an older table"})
		}
	}
	return lines, nil
}

// installation is the record of a recipe's installation; nil when there is none.
func installation(s *image.Store, r external.Recipe) (*external.Record, error) {
	i, err := external.Find(s, r)
	var missing *external.NotInstalledError
	if errors.As(err, &missing) {
		return nil, nil
	}
	return &i.Record, err
}
