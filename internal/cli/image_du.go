package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"assay/internal/image"
)

type imageDuCmd struct {
	Jobs bool `help:"List what each job's end states take, too."`
}

func (imageDuCmd) Help() string {
	return `Says what each image takes, how much of it no other image shares, and with which it shares the rest; then what
the rest of the store is for, each layer counted once: images before end states of jobs, what only running
commands need, and steps of builds. 'assay image gc' frees what is unneeded, steps that were not used for ten
minutes, and the trash.

Examples:
  assay image du
  assay image du --json | jq 'select(.type == "image.du") | [.name, .unique]'

Exit status: 0.`
}

func (c *imageDuCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	s, err := a.openStore(g)
	if err != nil {
		return err
	}
	u, err := s.Usage(ctx)
	if err != nil {
		return err
	}
	if g.JSON {
		return c.emit(a, u)
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "IMAGE\tLAYERS\tSIZE\tUNIQUE\tSHARED WITH")
	for _, im := range u.Images {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", im.Name, im.Layers, size(im.Bytes), size(im.Unique), some(im.SharedWith))
	}
	if c.Jobs {
		fmt.Fprintln(w, "\nJOB\tLAYERS\tSIZE")
		for _, j := range u.Jobs {
			fmt.Fprintf(w, "%s\t%d\t%s\n", j.Dir, j.Layers, size(j.Bytes))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return storeTable(a.Stdout, u)
}

func storeTable(out io.Writer, u image.Usage) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\nSTORE\tLAYERS\tSIZE")
	for _, p := range []struct {
		name string
		image.Share
	}{{"images", u.Named}, {"end states", u.EndStates}, {"running", u.Running}, {"build cache", u.BuildCache}, {"unneeded", u.Unneeded}, {"all layers", u.Total}} {
		fmt.Fprintf(w, "%s\t%d\t%s\n", p.name, p.Layers, size(p.Bytes))
	}
	for _, p := range []struct {
		name  string
		bytes int64
	}{{"cache mounts", u.CacheMounts}, {"pulls cut off", u.Partial}, {"unfinished", u.Unfinished}, {"trash", u.Trash}} {
		fmt.Fprintf(w, "%s\t\t%s\n", p.name, size(p.bytes))
	}
	return w.Flush()
}

func (c *imageDuCmd) emit(a *app, u image.Usage) error {
	for _, im := range u.Images {
		if err := a.emit("image.du", im); err != nil {
			return err
		}
	}
	for _, j := range u.Jobs {
		if err := a.emit("image.du.job", j); err != nil {
			return err
		}
	}
	return a.emit("image.du.store", u)
}

// some are as many names as people read.
func some(names []string) string {
	const shown = 3
	if len(names) > shown+1 {
		names = append(names[:shown:shown], fmt.Sprintf("and %d more", len(names)-shown))
	}
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ", ")
}
