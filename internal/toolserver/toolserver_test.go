package toolserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"assay/internal/agent"
	"assay/task"
	"assay/trial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tool(name string, f callFunc) agent.Tool {
	return agent.Tool{Name: name, Description: "d", Schema: json.RawMessage(`{"type":"object"}`), Call: f}
}

// dialer connects an HTTP client to a server as a relay does.
func dialer(t *testing.T, s *Server) *http.Client {
	t.Helper()
	var wait sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		a, b := net.Pipe()
		wait.Go(func() { s.Serve(ctx, b) })
		return a, nil
	}}
	t.Cleanup(func() { tr.CloseIdleConnections(); cancel(); wait.Wait() })
	return &http.Client{Transport: tr}
}

func session(t *testing.T, s *Server) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	ses, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: fmt.Sprintf("http://127.0.0.1:%d%s", Port, Path), HTTPClient: dialer(t, s)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ses.Close() })
	return ses
}

func opened(t *testing.T, w io.Writer, l Limits, rec *agent.Recorder, tools ...agent.Tool) *Server {
	t.Helper()
	b, err := NewBook(w, l, tools...)
	if err != nil {
		t.Fatal(err)
	}
	s := New(b, rec)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A client of the protocol finds the clock, calls it, and the call stands in
// the book and in the trajectory.
func TestClockByMCP(t *testing.T) {
	var book bytes.Buffer
	marks := 0
	rec := agent.NewRecorder(trial.AgentInfo{Name: "a", Version: "1"}, task.Brief{Instruction: "x"}, func(m trial.StepMark) {
		if marks++; m.Tool != "clock" {
			t.Errorf("mark %+v", m)
		}
	})
	left, tokens := 90*time.Second, int64(1234)
	s := opened(t, &book, Limits{}, rec, Clock(func() Left { return Left{Time: &left, Tokens: &tokens} }))
	c := session(t, s)
	list, err := c.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "clock" {
		t.Fatalf("%+v, %v", list, err)
	}
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "clock"})
	if err != nil || r.IsError || r.Content[0].(*mcp.TextContent).Text != "time left: 1m30s\ntokens left: 1234\nmoney left: no limit" {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = c.CallTool(t.Context(), &mcp.CallToolParams{Name: "clock", Arguments: map[string]any{"zone": "UTC"}})
	if err != nil || !r.IsError {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "magic"}); err == nil {
		t.Error("a tool that is not there answered")
	}
	var entries []Entry
	for line := range strings.Lines(book.String()) {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	if len(entries) != 2 || entries[0].Tool != "clock" || entries[0].Via != "mcp" || entries[0].Error != "" || entries[0].Result == 0 || entries[1].Error == "" {
		t.Errorf("%+v", entries)
	}
	doc := rec.Document()
	if len(doc.Steps) != 3 || marks != 2 || !strings.HasPrefix(doc.Steps[1].Observation.Results[0].Content.Text, "time left") {
		t.Errorf("%d steps, %d marks", len(doc.Steps), marks)
	}
}

// What a tool or its caller does wrong is one failed call.
func TestBounds(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	var running, most int
	var mu sync.Mutex
	tools := []agent.Tool{
		tool("panics", func(context.Context, json.RawMessage) (string, error) { panic("boom") }),
		tool("hangs", func(context.Context, json.RawMessage) (string, error) { <-hang; return "", nil }),
		tool("floods", func(context.Context, json.RawMessage) (string, error) { return strings.Repeat("ä", 1<<20), nil }),
		tool("fails", func(context.Context, json.RawMessage) (string, error) {
			return "", errors.New(strings.Repeat("no ", 1<<20))
		}),
		tool("counts", func(context.Context, json.RawMessage) (string, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			mu.Lock()
			running--
			mu.Unlock()
			return "ok", nil
		}),
	}
	s := opened(t, nil, Limits{Calls: 40, Parallel: 3, Arguments: 1000, Result: 501, Timeout: 200 * time.Millisecond}, nil, tools...)
	c := session(t, s)
	call := func(name string, a map[string]any) (string, bool) {
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: a})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return r.Content[0].(*mcp.TextContent).Text, r.IsError
	}
	for name, want := range map[string]string{"panics": "the tool failed: boom", "hangs": "took longer than 200ms", "floods": "bytes cut]", "fails": "no no "} {
		if text, bad := call(name, nil); !strings.Contains(text, want) || bad != (name != "floods") || len(text) > 1100 || strings.Contains(text, "\ufffd") {
			t.Errorf("%s: %d bytes, %.100q", name, len(text), text)
		}
	}
	if text, bad := call("counts", map[string]any{"x": strings.Repeat("y", 2000)}); !bad || !strings.Contains(text, "larger than 1000 bytes") {
		t.Errorf("%q", text)
	}
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() { call("counts", nil) })
	}
	wait.Wait()
	if most > 2 || most < 1 { // one of three is held by what hangs
		t.Errorf("%d calls ran at once", most)
	}
	for range 20 {
		if text, _ := call("counts", nil); strings.Contains(text, "no more calls: 40") {
			return
		}
	}
	t.Error("there is no end of calls")
}

// What is no MCP is refused, and a connection too many is closed.
func TestHostileClients(t *testing.T) {
	s := opened(t, nil, Limits{Arguments: 1000}, nil, Clock(func() Left { return Left{} }))
	h := dialer(t, s)
	base := fmt.Sprintf("http://127.0.0.1:%d", Port)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", Path, "<html>", 400}, {"POST", Path, strings.Repeat("x", 1<<20), 413}, {"GET", Path, "", 405},
		{"DELETE", Path, "", 405}, {"POST", "/other", "{}", 404}, {"POST", Path, `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, 400},
	} {
		q, err := http.NewRequest(c.method, base+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, text/event-stream")
		r, err := h.Do(q)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
		r.Body.Close()
		if err != nil || r.StatusCode != c.status {
			t.Errorf("%s %s %.20q: %d %s, %v", c.method, c.path, c.body, r.StatusCode, body, err)
		}
	}
	h.CloseIdleConnections()

	var open []net.Conn
	var wait sync.WaitGroup
	for range maxConns + 10 {
		a, b := net.Pipe()
		open = append(open, a)
		wait.Go(func() { s.Serve(context.Background(), b) })
	}
	closed := 0
	for _, c := range open {
		c.SetReadDeadline(time.Now().Add(time.Second / 20))
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			closed++
		}
	}
	if closed < 10 {
		t.Errorf("%d of %d connections were refused", closed, len(open))
	}
	s.Close() // ends those that say nothing
	wait.Wait()
	a, b := net.Pipe()
	s.Serve(context.Background(), b)
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	for _, c := range open {
		c.Close()
	}
}

func TestBookRefuses(t *testing.T) {
	ok := func(context.Context, json.RawMessage) (string, error) { return "", nil }
	for want, tools := range map[string][]agent.Tool{
		"two tools":   {tool("a", ok), tool("a", ok)},
		"a name is":   {tool("a b", ok)},
		"its schema":  {{Name: "a", Schema: json.RawMessage(`{"type":"string"}`), Call: ok}},
		"its schema ": {{Name: "a", Call: ok}},
		"nothing":     {tool("a", nil)},
	} {
		if _, err := NewBook(nil, Limits{}, tools...); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%s: %v", want, err)
		}
	}
	b, err := NewBook(failing{}, Limits{}, tool("a", ok))
	if err != nil {
		t.Fatal(err)
	}
	b.Tools("native")[0].Call(t.Context(), nil)
	if b.Err() == nil {
		t.Error("a line that could not be written is forgotten")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
