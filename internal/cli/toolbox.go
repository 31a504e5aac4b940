package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"assay/internal/agent"
	"assay/internal/job"
	"assay/internal/toolserver"
)

// toolFlags choose tools of the host.
type toolFlags struct {
	Tool []string `placeholder:"NAME" help:"Offer a tool of the host to every agent, by MCP to those in a sandbox: clock, which says what is left of time and budget. Repeatable."`
}

// hostTools is the table of tools that the host has for agents.
func hostTools() map[string]func(r job.ToolRequest) agent.Tool {
	return map[string]func(job.ToolRequest) agent.Tool{
		"clock": func(r job.ToolRequest) agent.Tool {
			return toolserver.Clock(func() toolserver.Left {
				l := r.Left()
				return toolserver.Left{Time: l.Time, Tokens: l.Tokens, USD: l.USD}
			})
		},
	}
}

func (f toolFlags) check() error {
	for _, name := range f.Tool {
		if hostTools()[name] == nil {
			return usagef("--tool %s: there is no such tool; there is clock", name)
		}
	}
	return nil
}

// toolbox is one step's tools, their server and the book of their use.
type toolbox struct {
	*toolserver.Server
	book *toolserver.Book
	file *os.File
}

// openToolbox implements job.Deps.Tools.
func openToolbox(r job.ToolRequest) (job.Toolbox, error) {
	var tools []agent.Tool
	for _, name := range r.Names {
		tool := hostTools()[name]
		if tool == nil {
			return nil, fmt.Errorf("there is no tool %q", name)
		}
		tools = append(tools, tool(r))
	}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(r.Dir, "tools.ndjson"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	book, err := toolserver.NewBook(f, toolserver.Limits{}, tools...)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &toolbox{toolserver.New(book, r.Recorder), book, f}, nil
}

// Tools implements job.Toolbox.
func (t *toolbox) Tools() []agent.Tool { return t.book.Tools("native") }

// URL implements job.Toolbox.
func (t *toolbox) URL() string {
	return fmt.Sprintf("http://127.0.0.1:%d%s", job.ToolPort, toolserver.Path)
}

// Close implements job.Toolbox.
func (t *toolbox) Close() error {
	err := errors.Join(t.Server.Close(), t.book.Err())
	if e := t.file.Close(); !errors.Is(e, os.ErrClosed) {
		err = errors.Join(err, e)
	}
	return err
}
