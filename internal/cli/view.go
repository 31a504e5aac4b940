package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"assay/internal/store"
	"assay/internal/web"
)

type reportCmd struct {
	Job string `arg:"" help:"Job directory, of assay or of Harbor."`
	Out string `short:"o" placeholder:"FILE" help:"Where to write it. Default: JOB/.report/index.html, with --no-code no-code.html."`

	NoCode bool `name:"no-code" help:"Leave out instructions, messages, tool inputs and outputs, patches, logs, test output and notes; figures and names stay."`
}

func (reportCmd) Help() string {
	return `One self-contained page; past 200 trials the details lie in a folder beside it.

Examples:
  assay report jobs/demo -o demo.html
  assay report jobs/demo --no-code -o figures.html

Exit status: 0, 2 when the directory is no job.`
}

func (c *reportCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	file, err := a.writeReport(ctx, c.Job, c.Out, c.NoCode)
	if err != nil {
		return err
	}
	if g.JSON {
		return a.emit("report", map[string]string{"path": file})
	}
	fmt.Fprintln(a.Stdout, file)
	return nil
}

func (a *app) writeReport(ctx context.Context, dir, out string, bare bool) (string, error) {
	v, err := store.Read(dir)
	if err != nil {
		return "", usage(err)
	}
	if out == "" {
		out = filepath.Join(dir, ".report", "index.html")
		if bare { // never in the place of the whole one, which may be shared by mistake
			out = filepath.Join(dir, ".report", "no-code.html")
		}
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return "", err
	}
	j := web.FromView(v)
	if bare {
		j = web.WithoutCode(j)
	}
	if _, err := web.Report(ctx, j, out); err != nil {
		return "", err
	}
	return filepath.Abs(out)
}

type viewCmd struct {
	Dir  string `arg:"" optional:"" default:"${jobs}" help:"Folder of jobs."`
	Port int    `default:"8765" help:"Port on loopback; 0 picks a free one."`
}

func (viewCmd) Help() string {
	return `Serves all jobs below a folder on loopback only, live from their events, until Ctrl-C.

Example:
  assay view jobs

Exit status: 130 when interrupted, 1 when the port is taken.`
}

func (c *viewCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", c.Port))
	if err != nil {
		return fmt.Errorf("%w (choose another with --port, or --port 0)", err)
	}
	h, err := web.NewHandler(dir)
	if err != nil {
		l.Close()
		return usage(err)
	}
	if g.JSON {
		if err := a.emit("view", map[string]string{"url": "http://" + l.Addr().String() + "/"}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.Stdout, "http://%s/\n", l.Addr())
	}
	if err := web.Serve(ctx, l, h); err != nil {
		return err
	}
	return context.Cause(ctx)
}
