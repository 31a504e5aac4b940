package cli

import (
	"fmt"
	"os"
	"strings"

	"assay/internal/agent/external"
)

type agentCmd struct {
	List    agentListCmd    `cmd:"" help:"List the agents that there are, and which are installed."`
	Show    agentShowCmd    `cmd:"" help:"Print an agent's recipe, to read or to start your own from."`
	Install agentInstallCmd `cmd:"" help:"Install agents into layers of the store."`
	Check   agentCheckCmd   `cmd:"" help:"Let an installed agent solve a small task with a scripted model."`
	Export  agentExportCmd  `cmd:"" help:"Write an installed agent as an archive, for a machine without a network."`
	Remove  agentRemoveCmd  `cmd:"" name:"rm" help:"Remove installed agents; their layers go with 'image gc'."`
}

// recipe finds what a user names: an agent of the table, also with its version
// (codex@0.169.0), or a recipe file, which has a slash or ends in .toml.
func recipe(name string) (external.Recipe, error) {
	if strings.HasSuffix(name, ".toml") || strings.ContainsRune(name, os.PathSeparator) {
		r, err := external.ReadFile(name)
		if err != nil {
			return r, usage(fmt.Errorf("agent %q: %w", name, err))
		}
		return r, nil
	}
	all, err := external.Table()
	if err != nil {
		return external.Recipe{}, err
	}
	name, version, pinned := strings.Cut(name, "@")
	var names []string
	for _, r := range all {
		if r.Name == name && pinned && r.Version != version {
			return r, usagef("agent %s: version %s; the table has %s. For another, save the recipe ('assay agent show %s >my-%s.toml'), change its version and its packages, and name that file",
				name, version, r.Version, name, name)
		}
		if r.Name == name {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return external.Recipe{}, usagef("no agent is named %q; there are %s, and recipe files (./my-agent.toml)", name, strings.Join(names, ", "))
}

type agentShowCmd struct {
	Agent string `arg:"" help:"Name, or a recipe file; react:STRATEGY prints what a strategy comes to."`
}

func (agentShowCmd) Help() string {
	return `A recipe is all that assay knows of an agent. With --json it comes with what is installed of it.
'react' and 'react:no-plan,retries=1' print the strategy: what to write into a file of one's own.

Examples:
  assay agent show codex
  assay agent show pi >my-agent.toml && $EDITOR my-agent.toml && assay agent install ./my-agent.toml

Exit status: 0, 1 the recipe file cannot be read, 2 there is no such agent, or a fault in its recipe.`
}

func (c *agentShowCmd) Run(a *app, g *grammar) error {
	if ok, err := a.strategy(g, c.Agent); ok {
		return err
	}
	r, err := recipe(c.Agent)
	if err != nil {
		return err
	}
	if g.JSON {
		s, err := a.openStore(g)
		if err != nil {
			return err
		}
		defer s.Close()
		l := agentLine{Name: r.Name, Kind: kindExternal, Version: r.Version, Dialects: r.Dialects, Summary: r.Summary, Recipe: &r}
		if l.Installed, err = installation(s, r); err != nil {
			return err
		}
		return a.emit("agent", l)
	}
	b, err := r.Format()
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(b)
	return err
}
