package cli

import (
	"fmt"
	"text/tabwriter"
	"time"

	"assay/internal/gateway/overhead"
)

type gatewayBenchCmd struct {
	Streams int           `default:"200" placeholder:"N" help:"Streams at once."`
	Events  int           `default:"200" placeholder:"N" help:"Events of a paced stream."`
	Pace    time.Duration `default:"50ms" placeholder:"DUR" help:"Time between two of them."`
	Repeat  int           `default:"3" placeholder:"N" help:"Rounds, direct and through the gateway in turns."`
	Rounds  int           `default:"300" placeholder:"N" help:"Requests for the time to the first byte."`
}

func (gatewayBenchCmd) Help() string {
	return `A server that streams, a client that reads, and the same requests with and without a gateway between them, over
TCP on this machine: time to the first byte, events a second of streams at a model's pace and of streams as fast
as they go, how late events are, memory, and what the record takes on disk. Server and client run in the same
process and share its processors with the gateway.

Example:
  assay gateway bench --json

Exit status: 0, 1 when a stream failed. Targets are printed, not enforced.`
}

func (c *gatewayBenchCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	if c.Streams < 1 || c.Events < 1 || c.Repeat < 1 || c.Rounds < 1 || c.Pace < 0 {
		return usagef("numbers of a benchmark begin at 1")
	}
	tw := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', tabwriter.AlignRight)
	if !g.JSON {
		fmt.Fprintln(tw, "MEASURE\tDIRECT\tGATEWAY\tADDED\tRATIO\tTARGET\tUNIT\t")
	}
	o := overhead.Options{Codecs: codecs(), Streams: c.Streams, Events: c.Events, Pace: c.Pace, Repeat: c.Repeat, Rounds: c.Rounds}
	err := overhead.Run(ctx, o, func(r overhead.Result) error {
		if g.JSON {
			return a.emit("gateway-bench", r)
		}
		_, err := fmt.Fprintf(tw, "%s\t%s\t%.3g\t%s\t%s\t%s\t%s\t\n", r.Measure, figure(r.Direct), r.Gateway, figure(r.Added), figure(r.Ratio), r.Target, r.Unit)
		return err
	})
	if !g.JSON {
		if ferr := tw.Flush(); err == nil {
			err = ferr
		}
	}
	return err
}

func figure(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3g", *v)
}
