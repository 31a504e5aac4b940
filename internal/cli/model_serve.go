package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"assay/internal/model/scripted"
)

type modelServeCmd struct {
	File   string `arg:"" help:"Script of the model; see docs/scripted-models.md."`
	Listen string `default:"127.0.0.1:0" placeholder:"ADDR" help:"Address and port; port 0 picks a free one."`
}

func (modelServeCmd) Help() string {
	return `Serves a model without a model: it answers in the four dialects (chat completions, responses, messages,
generateContent) from a file of turns, with the faults that the file asks for, until Ctrl-C. Point any agent at it:
its base URL is printed, without /v1. Each request is a line on stderr, or on stdout with --json.

Example:
  assay model serve hello.yaml --listen 127.0.0.1:8899

Exit status: 130 when interrupted, 1 when the port is taken, 2 when the file is no script.`
}

func (c *modelServeCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	s, err := scripted.Open(c.File)
	if err != nil {
		return usage(err)
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("%w (choose another with --listen)", err)
	}
	url := "http://" + l.Addr().String()
	if g.JSON {
		if err := a.emit("model-serve", map[string]string{"url": url}); err != nil {
			l.Close()
			return err
		}
	} else {
		fmt.Fprintln(a.Stdout, url)
	}
	srv := &http.Server{Handler: s, BaseContext: func(net.Listener) context.Context { return ctx }}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for told := 0; ; {
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			srv.Close()
			if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			_, err := a.tellRequests(s, told, g.JSON)
			return errors.Join(err, context.Cause(ctx))
		case <-tick.C:
			if told, err = a.tellRequests(s, told, g.JSON); err != nil {
				return err
			}
		}
	}
}

// servedRequest is a line of --json.
type servedRequest struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Model  string `json:"model,omitempty"`
	Script string `json:"script,omitempty"`
	Turn   int    `json:"turn"` // from 0
	Side   string `json:"side,omitempty"`
	Fault  string `json:"fault,omitempty"`
	Status int    `json:"status"`
	Error  string `json:"error,omitempty"`
	Bytes  int    `json:"request_bytes"`
	Sent   int64  `json:"response_bytes"`
	Gone   bool   `json:"client_left,omitempty"`
}

// tellRequests prints the requests that are done, in order of arrival, from
// number told on.
func (a *app) tellRequests(s *scripted.Server, told int, json bool) (int, error) {
	for _, r := range s.Requests()[told:] {
		if !r.Done {
			break
		}
		told++
		if json {
			one := servedRequest{r.Method, r.Path, r.Model, r.Script, r.Turn, r.Side, string(r.Fault), r.Status, r.Err, len(r.Body), r.Sent, r.Gone}
			if err := a.emit("request", one); err != nil {
				return told, err
			}
			continue
		}
		line := fmt.Sprintf("%s %s -> %d, turn %d, %d bytes in, %d out", r.Method, r.Path, r.Status, r.Turn, len(r.Body), r.Sent)
		for _, more := range []string{r.Side, string(r.Fault), r.Err} {
			if more != "" {
				line += ", " + more
			}
		}
		fmt.Fprintln(a.Stderr, line)
	}
	return told, nil
}

// script reads a model's file of turns, if it has one, so that its faults are
// told before a trial begins.
func (m *armory) script(name string) error {
	e, err := m.catalog.Find(name)
	if err != nil || e.Scripted == "" {
		return nil // what is wrong with a name is said where the model is connected
	}
	if _, err := scripted.Read(e.Scripted); err != nil {
		return fmt.Errorf("model %s: %w", name, err)
	}
	return nil
}
