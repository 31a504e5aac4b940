package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"assay/internal/gateway"
	"assay/internal/gateway/atif"
	"assay/internal/job"
	"assay/internal/model/catalog"
	"assay/trajectory"
	"assay/trial"
)

type gatewayCmd struct {
	Serve gatewayServeCmd `cmd:"" default:"withargs" help:"Serve models to agents that run anywhere, and record every call (the default)."`
	Bench gatewayBenchCmd `cmd:"" help:"Measure what the gateway adds to a direct connection."`
}

func (gatewayCmd) Help() string {
	return `Inside a job every trial has a gateway of its own; this is the same one for agents outside of any job.

Examples:
  assay gateway -m gpt --session alice --session bob      the same as 'assay gateway serve …'
  assay gateway bench

Exit status: see 'assay gateway serve --help' and 'assay gateway bench --help'.`
}

type gatewayServeCmd struct {
	modelFlags
	Model   string   `short:"m" required:"" help:"The model, as 'assay run -m' names it."`
	Listen  string   `default:"127.0.0.1:4180" placeholder:"HOST:PORT" help:"Where to listen."`
	Record  string   `default:"model-calls" placeholder:"DIR" help:"Where each session's record goes, a folder by its name."`
	Session []string `placeholder:"NAME" help:"Make a session of this name, with an address and a key of its own. Repeatable. Default: one, called default."`

	Patience  time.Duration `placeholder:"DUR" help:"Wait so long, in all, for a provider that is short of room."`
	Pin       []string      `placeholder:"KEY=VALUE" help:"Set a generation parameter in every call, whatever the agent says. Repeatable."`
	GrantTool []string      `name:"grant-tool" placeholder:"NAME" help:"Let the model use a tool that runs at the provider; others are withheld. Repeatable; * for all."`
	Capture   bool          `name:"capture-tokens" help:"Ask for token ids and log-probabilities, and record them; agents do not see them."`
	NoLoops   bool          `name:"no-loop-stop" help:"Let agents repeat themselves."`
	MaxTokens int64         `name:"max-tokens" placeholder:"N" help:"Tokens, in and out, that one session may use."`
	MaxCost   float64       `name:"max-cost" placeholder:"USD" help:"US dollars that one session may cost; needs a price in the models file."`
	Time      time.Duration `placeholder:"DUR" help:"After this time every key is worthless."`
}

func (gatewayServeCmd) Help() string {
	return `Stands between agents and a model, outside of any job, until Ctrl-C. Each session has an address and a key;
both must match. Agents may speak chat completions, responses, messages or generateContent; what the model lacks
is translated. The real credential stays here. Every call is recorded in DIR/SESSION; at the end a
trajectory.json (ATIF) is made of it there.

Session, address, key and record are printed, one session a line; with --json each call is a line too.

Examples:
  assay gateway -m gpt --session alice --session bob
  assay gateway -m NAME@http://127.0.0.1:8000/v1 --record calls
  eval "$(assay gateway -m gpt | awk '{print "export OPENAI_BASE_URL="$2"/v1 OPENAI_API_KEY="$3; exit}')"

Exit status: 130 when interrupted, 1 when the port or a record is taken, 2 usage.`
}

var sessionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// servedSession is what a session is told to its agent by.
type servedSession struct {
	Session string `json:"session"`
	URL     string `json:"url"` // without /v1
	Key     string `json:"key"`
	Model   string `json:"model"`
	Record  string `json:"record"`
}

// servedCall is a line of --json.
type servedCall struct {
	Session string `json:"session"`
	gateway.Call
}

// servedSummary is what a session came to.
type servedSummary struct {
	Session string `json:"session"`
	gateway.Summary
}

func (c *gatewayServeCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	opts := armOptions{Grant: c.GrantTool, Patience: catalog.Duration(c.Patience), Capture: c.Capture, NoLoops: c.NoLoops}
	var err error
	if opts.Sampling, err = parsePins(c.Pin); err != nil {
		return usage(err)
	}
	if len(c.Session) == 0 {
		c.Session = []string{"default"}
	}
	for _, name := range c.Session {
		if !sessionName.MatchString(name) {
			return usagef("--session %q: a name is letters, digits, dots, dashes and underscores", name)
		}
	}
	m, err := a.armory(g, c.modelFlags)
	if err != nil {
		return err
	}
	defer m.Close()
	e, err := m.catalog.Find(c.Model)
	if err != nil {
		return usage(err)
	}
	if len(e.Dialects) == 0 {
		e.Dialects = a.readSpoken()[e.Where()]
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("%w (choose another with --listen)", err)
	}
	defer l.Close()
	open, err := c.open(a, g, m.switches, e, opts, l.Addr().String())
	if err != nil {
		return err
	}
	served := m.switches.gw.Listen(ctx, l)
	return errors.Join(served, c.close(a, g, open), context.Cause(ctx))
}

// open makes the sessions and tells of them.
func (c *gatewayServeCmd) open(a *app, g *grammar, s *switchboard, e catalog.Entry, o armOptions, at string) (map[string]*gateway.Session, error) {
	open := map[string]*gateway.Session{}
	for _, name := range c.Session {
		dir := filepath.Join(c.Record, name)
		if _, err := os.Lstat(dir); err == nil {
			return nil, fmt.Errorf("there is a record in %s already: choose another folder with --record, or another --session", dir)
		}
		r := job.LineRequest{Trial: name, Dir: dir, Budget: job.Budget{Tokens: c.MaxTokens, USD: c.MaxCost}}
		conf, err := s.session(e, o, r)
		if err != nil {
			return nil, err
		}
		conf.Time = c.Time
		conf.OnStop = func(st gateway.Stop) { a.say("%s: stopped: %s", name, st.Message) }
		if g.JSON {
			conf.OnCall = func(call gateway.Call) { _ = a.emit("gateway-call", servedCall{name, call}) } // stdout that is gone ends the command elsewhere
		}
		if open[name], err = s.gw.Open(conf); err != nil {
			return nil, err
		}
		v := servedSession{Session: name, URL: open[name].BaseAt(at), Key: open[name].Key(), Model: e.ModelID(), Record: dir}
		if g.JSON {
			err = a.emit("gateway-session", v)
		} else {
			_, err = fmt.Fprintf(a.Stdout, "%s %s %s %s %s\n", v.Session, v.URL, v.Key, v.Model, v.Record)
		}
		if err != nil {
			return nil, err
		}
	}
	return open, nil
}

// close ends the sessions and says what they came to.
func (c *gatewayServeCmd) close(a *app, g *grammar, open map[string]*gateway.Session) error {
	var errs []error
	for _, name := range c.Session {
		sum, err := open[name].Close()
		if err == nil {
			err = writeTrajectory(filepath.Join(c.Record, name), name, open[name])
		}
		errs = append(errs, err)
		if g.JSON {
			errs = append(errs, a.emit("gateway-summary", servedSummary{name, sum}))
			continue
		}
		a.say("%s: %d calls, %s tokens in, %s out, cost %s", name, sum.Calls+sum.Side, counted(sum.Usage.Input), counted(sum.Usage.Output), dollars(sum.CostUSD))
	}
	return errors.Join(errs...)
}

// writeTrajectory makes a document of a record, beside it; none if no call was
// part of any work.
func writeTrajectory(dir, name string, s *gateway.Session) error {
	rec, err := gateway.Read(dir)
	if err != nil {
		return err
	}
	defer rec.Close()
	t, err := atif.FromRecord(trial.AgentInfo{Name: name, Version: "unknown"}, "", rec, codecs(), atif.Options{Session: s.ID()})
	if err != nil || t == nil {
		return err
	}
	b, err := trajectory.Marshal(t)
	if err != nil {
		return err
	}
	for _, secret := range s.Secrets() { // pieces of a stream may have spelled one
		b = bytes.ReplaceAll(b, []byte(secret), bytes.Repeat([]byte("*"), len(secret)))
	}
	return os.WriteFile(filepath.Join(dir, "trajectory.json"), b, 0o644)
}

func counted(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

func dollars(usd *float64) string {
	if usd == nil {
		return "unknown"
	}
	return fmt.Sprintf("$%.4f", *usd)
}
