package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/google/renameio/v2"

	"assay/internal/image"
)

type imageExportCmd struct {
	Name   string `arg:"" help:"Image of the store."`
	Out    string `short:"o" required:"" placeholder:"FILE" help:"Archive to write; - is stdout. With --format oci, one that ends in / or is a directory: an OCI layout there."`
	Format string `enum:"docker,oci,rootfs" default:"docker" help:"docker (for 'docker load'; holds an OCI layout too), oci, or rootfs (one tree, no configuration)."`
}

func (imageExportCmd) Help() string {
	return `Writes a tar archive. Owners, modes, links, attributes and deletions are those of the image's manifests,
whoever runs the command. Sockets are left out, as in every tar.

Examples:
  assay image export my/task:1 -o - | docker load
  assay image export my/task:1 -o task.tar --format oci
  assay image export my/task:1 -o layout/ --format oci
  assay image export my/task:1 -o root.tar --format rootfs

Exit status: 0, 1 it failed and no FILE is left, 2 usage.`
}

func (c *imageExportCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	s, err := a.openStore(g)
	if err != nil {
		return err
	}
	im, err := s.Resolve(c.Name)
	if err != nil {
		return err
	}
	if c.isDir() {
		return c.layout(ctx, a, g, s, im)
	}
	if c.Out == "-" {
		return s.Export(ctx, im, image.Format(c.Format), a.Stdout)
	}
	n, err := writeWhole(c.Out, func(w io.Writer) error { return s.Export(ctx, im, image.Format(c.Format), w) })
	if err != nil {
		return err
	}
	if g.JSON {
		return a.emit("image.exported", map[string]any{"name": im.Name, "file": c.Out, "format": c.Format, "bytes": n})
	}
	fmt.Fprintf(a.Stdout, "%s %s\n", c.Out, size(n))
	return nil
}

// isDir reports whether a directory is asked for.
func (c *imageExportCmd) isDir() bool {
	fi, err := os.Stat(c.Out)
	return image.Format(c.Format) == image.FormatOCI && (strings.HasSuffix(c.Out, "/") || err == nil && fi.IsDir())
}

func (c *imageExportCmd) layout(ctx *boundCtx, a *app, g *grammar, s *image.Store, im image.Image) error {
	if err := s.ExportDir(ctx, im, image.HostPath(c.Out)); err != nil {
		return err
	}
	if g.JSON {
		return a.emit("image.exported", map[string]any{"name": im.Name, "dir": c.Out, "format": c.Format})
	}
	fmt.Fprintln(a.Stdout, c.Out)
	return nil
}

// writeWhole makes a file that is complete or not there.
func writeWhole(path string, write func(io.Writer) error) (int64, error) {
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o644))
	if err != nil {
		return 0, err
	}
	defer f.Cleanup()
	err = write(f)
	n, serr := f.Seek(0, io.SeekEnd)
	if err = errors.Join(err, serr); err != nil {
		return 0, err
	}
	return n, f.CloseAtomicallyReplace()
}

type imageInspectCmd struct {
	Name string `arg:"" help:"Image of the store: a name, a digest or an id."`
}

func (imageInspectCmd) Help() string {
	return `Example:
  assay image inspect debian:bookworm-slim --json

Exit status: 0, 1 it is not in the store, 2 usage.`
}

func (c *imageInspectCmd) Run(a *app, g *grammar) error {
	s, err := a.openStore(g)
	if err != nil {
		return err
	}
	im, err := s.Resolve(c.Name)
	if err != nil {
		return err
	}
	if g.JSON {
		return a.emit("image", im)
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "name\t%s\nid\t%s\n", im.Name, im.ID)
	for _, d := range im.Digests {
		fmt.Fprintf(w, "digest\t%s\n", d)
	}
	if im.Platform != "" {
		fmt.Fprintf(w, "platform\t%s\n", im.Platform)
	}
	for i, id := range im.Layers {
		m, err := s.Manifest(id)
		if err != nil {
			return err
		}
		var n int64
		for _, e := range m.Entries {
			if e.Hardlink == "" {
				n += e.Size
			}
		}
		fmt.Fprintf(w, "layer %d\t%s\t%d entries\t%s\n", i+1, id.Short(), len(m.Entries), size(n))
	}
	for _, kv := range im.Config.Env {
		fmt.Fprintf(w, "env\t%s\n", kv)
	}
	fmt.Fprintf(w, "workdir\t%s\nuser\t%s\nentrypoint\t%q\ncmd\t%q\n", im.Config.Workdir, im.Config.User, im.Config.Entrypoint, im.Config.Cmd)
	return w.Flush()
}
