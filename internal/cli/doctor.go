package cli

import (
	"fmt"

	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/sandbox/ns"
)

type doctorCmd struct{}

func (doctorCmd) Help() string {
	return `Probes user namespaces, overlay in them, a fresh proc mount, the file system under the store, and the
tools that some commands use. Each finding says what follows and the exact remedy.

Example:
  assay doctor --json

Exit status: 0 sandboxes work, 4 they do not.`
}

func (doctorCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	dir, err := a.storeDir(g)
	if err != nil {
		return err
	}
	needed := ns.Probe(ctx, ns.Config{Scratch: image.HostPath(dir)})
	all := append(needed, doctor.Tools(ctx)...)
	ok := true
	for _, f := range needed {
		ok = ok && f.OK
	}
	for _, f := range all {
		if g.JSON {
			if err := a.emit("finding", f); err != nil {
				return err
			}
			continue
		}
		mark := "ok"
		if !f.OK {
			mark = "--"
		}
		fmt.Fprintf(a.Stdout, "%s  %-28s %s\n", mark, f.Name, f.Detail)
		if !f.OK {
			fmt.Fprintf(a.Stdout, "      %s\n      remedy: %s\n", f.Means, f.Remedy)
		}
	}
	if !ok {
		return gate(nil)
	}
	return nil
}
