package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"assay/internal/agent"
	"assay/internal/inlet"
)

// Port is where a sandbox's agent finds the server, on its loopback, and Path
// what it asks for.
const (
	Port = 4181
	Path = "/mcp"
)

// maxConns bounds the connections of one sandbox that are open at once; more
// are closed as they come.
const maxConns = 64

// Server offers a book's tools by MCP. It keeps no session: each request says
// all that it wants, and nothing that a client leaves behind takes room.
type Server struct {
	http http.Server
	in   *inlet.Inlet
	room chan struct{} // one for each connection that is open
	done chan struct{}
}

// New starts a server. rec, which may be nil, gets each call as a step.
func New(b *Book, rec *agent.Recorder) *Server {
	quiet := slog.New(slog.DiscardHandler)
	m := mcp.NewServer(&mcp.Implementation{Name: "assay", Version: "1.0.0"}, &mcp.ServerOptions{
		Logger: quiet, Instructions: "Tools of the machine that this task is run by.", Capabilities: &mcp.ServerCapabilities{},
	})
	for _, t := range b.Tools("mcp") {
		m.AddTool(&mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: t.Schema}, answer(t, rec))
	}
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, Logger: quiet, MaxRequestBodyBytes: int64(b.limits.Arguments) + 64<<10,
		PropagateRequestCancellation: true,
	})
	mux := http.NewServeMux()
	mux.Handle(Path, h)
	s := &Server{in: inlet.New(), room: make(chan struct{}, maxConns), done: make(chan struct{})}
	s.http = http.Server{
		Handler: mux, ErrorLog: slog.NewLogLogger(quiet.Handler(), slog.LevelError), MaxHeaderBytes: 64 << 10,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 5 * time.Minute, WriteTimeout: b.limits.Timeout + time.Minute,
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(s.in) // ends with Close, and says no more than that
	}()
	return s
}

// answer makes an MCP handler of a tool.
func answer(t agent.Tool, rec *agent.Recorder) mcp.ToolHandler {
	return func(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		a := q.Params.Arguments
		if len(a) == 0 {
			a = json.RawMessage("{}")
		}
		done := func(string) {}
		if rec != nil {
			done = rec.Call(t.Name, map[string]string{"arguments": string(a)}).Done
		}
		text, err := t.Call(ctx, a)
		if err != nil {
			text = err.Error()
		}
		done(text)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: err != nil}, nil
	}
}

// Serve answers one connection to its end. It owns c.
func (s *Server) Serve(ctx context.Context, c net.Conn) {
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	default:
		c.Close()
		return
	}
	o := inlet.Watch(c)
	if !s.in.Hand(o) {
		c.Close()
		return
	}
	select {
	case <-o.Closed():
	case <-ctx.Done():
		o.Close()
	}
}

// Close ends every connection and call. It may be repeated.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
