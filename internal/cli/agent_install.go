package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"assay/internal/agent/external"
	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/sandbox"
)

type agentInstallCmd struct {
	Agents    []string `arg:"" optional:"" name:"agent" help:"Names, or recipe files."`
	From      []string `placeholder:"FILE" type:"existingfile" help:"Take an agent from an archive that 'assay agent export' wrote; nothing is fetched. Repeatable."`
	Image     string   `default:"host" placeholder:"NAME" help:"Image to install upon: its package manager is used, and its C library and Python go along. Default: this machine's own programs."`
	Again     bool     `help:"Install also what is installed."`
	Network   string   `enum:",none,allowlist,full" default:"" help:"What the installation can reach; default allowlist, the servers of this machine's package managers and --allow-host."`
	AllowHost []string `placeholder:"HOST" help:"A host besides, see 'image build'. Repeatable."`
	Progress  string   `enum:"auto,plain,quiet" default:"auto" help:"As of 'image build'."`

	registryFlags
}

func (agentInstallCmd) Help() string {
	return `Installs each agent once into a read-only layer of the store, with its own runtime, C library and loader, so that it
runs beside any task's image. npm and pip run in a sandbox, with this machine's mirrors and certificates, and without
the packages' install scripts unless the recipe asks for them. What was fetched before is not fetched again. See docs/agents.md.

Examples:
  assay agent install codex claude-code
  assay agent install ./my-agent.toml
  assay agent install mini-swe-agent --image python:3.12-bookworm
  assay agent export codex -o codex.tar && scp codex.tar other: && ssh other assay agent install --from codex.tar

Exit status: 0, 1 an installation failed (the others are done), 2 usage, 130 interrupted.`
}

func (c *agentInstallCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	if len(c.Agents)+len(c.From) == 0 {
		return usagef("name an agent, a recipe file or --from an archive; 'assay agent list' lists agents")
	}
	var recipes []external.Recipe
	for _, name := range c.Agents {
		r, err := recipe(name)
		if err != nil {
			return err
		}
		recipes = append(recipes, r)
	}
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	var failed error
	for _, f := range c.From {
		i, err := external.Import(ctx, r.images, image.HostPath(f))
		if err == nil {
			err = c.tell(a, g, i, "taken from "+f)
		}
		failed = errors.Join(failed, err)
	}
	for _, recipe := range recipes {
		if ctx.Err() != nil {
			return errors.Join(failed, context.Cause(ctx))
		}
		failed = errors.Join(failed, c.install(ctx, a, g, r, recipe))
	}
	return failed
}

func (c *agentInstallCmd) install(ctx context.Context, a *app, g *grammar, r *rooms, recipe external.Recipe) error {
	if i, err := external.Find(r.images, recipe); err == nil && !c.Again {
		return c.tell(a, g, i, "is installed")
	}
	if g.InheritMirrors == nil { // what it is for
		yes := true
		g.InheritMirrors = &yes
	}
	b, err := a.builder(g, r, c.Network, c.AllowHost)
	if err != nil {
		return err
	}
	fetch, err := a.fetcher(g, r.images, c.registryFlags)
	if err != nil {
		return err
	}
	build := func(ctx context.Context, dir string) (image.Image, error) {
		o := dockerfile.Options{Dir: image.HostPath(dir), NoCache: c.Again, Limits: sandbox.Limits{DiskBytes: buildDisk},
			Resolve: fetchMissing(r.resolve, fetch, func(ref string) { a.say("fetching %s", ref) })}
		end := (&imageBuildCmd{Progress: c.Progress}).narrate(a, g, &o)
		defer end()
		return b.build(ctx, o)
	}
	start := time.Now()
	i, err := external.Make(ctx, recipe, external.MakeOptions{Store: r.images, Backend: r.backend, Build: build, Upon: c.Image,
		Say: func(what string) {
			if c.Progress != "quiet" && !g.JSON {
				fmt.Fprintf(a.Stderr, "%s: %s\n", recipe.Name, what)
			}
		}})
	if err != nil {
		return err
	}
	return c.tell(a, g, i, fmt.Sprintf("installed in %.0f s", time.Since(start).Seconds()))
}

func (c *agentInstallCmd) tell(a *app, g *grammar, i external.Installed, how string) error {
	if g.JSON {
		return a.emit("agent.installed", i.Record)
	}
	r := i.Record
	_, err := fmt.Fprintf(a.Stdout, "%s %s  %s, %d packages, at %s  %s\n", r.Name, r.Version, size(r.Bytes), len(r.Packages), r.Place, how)
	return err
}

type agentExportCmd struct {
	Agent string `arg:"" help:"Name, or a recipe file."`
	Out   string `short:"o" required:"" placeholder:"FILE" help:"Archive to write; - is stdout."`
}

func (agentExportCmd) Help() string {
	return `The archive is a docker save archive of one layer, with the record of what was installed in a label.

Examples:
  assay agent export codex -o codex.tar
  assay agent install --from codex.tar --offline

Exit status: 0, 1 the agent is not installed or the archive cannot be written, 2 usage.`
}

func (c *agentExportCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	r, err := recipe(c.Agent)
	if err != nil {
		return err
	}
	s, err := a.openStore(g)
	if err != nil {
		return err
	}
	defer s.Close()
	i, err := external.Find(s, r)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error { return s.Export(ctx, i.Image, image.FormatDocker, w) }
	if c.Out == "-" {
		return write(a.Stdout)
	}
	n, err := writeWhole(c.Out, write)
	if err != nil {
		return err
	}
	if g.JSON {
		return a.emit("agent.exported", map[string]any{"name": r.Name, "version": r.Version, "file": c.Out, "bytes": n})
	}
	fmt.Fprintf(a.Stdout, "%s %s\n", c.Out, size(n))
	return nil
}

type agentRemoveCmd struct {
	Agents []string `arg:"" name:"agent" help:"Names: every installation of that name goes. Recipe files: theirs alone."`
}

func (agentRemoveCmd) Help() string {
	return `Jobs that run keep what they need.

Example:
  assay agent rm codex && assay image gc

Exit status: 0, 1 the agent is not installed, 2 usage.`
}

func (c *agentRemoveCmd) Run(a *app, g *grammar) error {
	s, err := a.openStore(g)
	if err != nil {
		return err
	}
	defer s.Close()
	all, err := external.List(s)
	if err != nil {
		return err
	}
	for _, name := range c.Agents {
		var gone []external.Installed
		for _, i := range all {
			if i.Record.Name == name {
				gone = append(gone, i)
			}
		}
		if len(gone) == 0 {
			r, err := recipe(name)
			if err != nil {
				return err
			}
			i, err := external.Find(s, r)
			if err != nil {
				return err
			}
			gone = append(gone, i)
		}
		for _, i := range gone {
			if err := s.Remove(i.Image.Name); err != nil {
				return err
			}
			if g.JSON {
				if err := a.emit("agent.removed", map[string]string{"name": i.Record.Name, "version": i.Record.Version}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
