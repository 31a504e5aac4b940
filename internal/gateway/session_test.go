package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/model"
)

const realKey = "real-key-of-the-user"

// provider is a server over real TCP, and its upstream.
func provider(t *testing.T, h http.HandlerFunc) *Upstream {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body) // until then a server does not notice that its client left
		r.Body = io.NopCloser(bytes.NewReader(b))
		h(w, r)
	}))
	t.Cleanup(srv.Close)
	return &Upstream{Name: "test", Model: "model-of-the-provider", URL: srv.URL + "/v1", Credential: func(context.Context, bool) (string, error) { return realKey, nil }}
}

// opened is a session whose record is in dir.
func opened(t *testing.T, g *Gateway, c SessionConfig) *Session {
	t.Helper()
	if c.Dir == "" {
		c.Dir = filepath.Join(t.TempDir(), "model")
	}
	if c.Trial == "" {
		c.Trial = "trial"
	}
	s, err := g.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func gateway(t *testing.T, c Config) *Gateway {
	t.Helper()
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// relayed is the address of a listener whose connections are the session's, as
// a sandbox's relay gives them.
func relayed(t *testing.T, s *Session) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.Serve(ctx, c)
		}
	}()
	return l.Addr().String()
}

func post(t *testing.T, url, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		b = append(b, " <"+err.Error()+">"...)
	}
	return res.StatusCode, string(b)
}

// ended closes the session and returns its calls.
func ended(t *testing.T, s *Session) ([]Call, Summary, *Record) {
	t.Helper()
	sum, err := s.Close()
	if err != nil {
		t.Fatal(err)
	}
	rec, err := Read(s.conf.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close() })
	return rec.Calls(), sum, rec
}

const question = `{"model":"agent-name","messages":[{"role":"user","content":"hello"}]}`

func TestRelay(t *testing.T) {
	got := make(chan *http.Request, 1)
	body := make(chan string, 1)
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- r
		body <- string(b)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Openai-Organization", "org-of-the-user")
		w.Header().Set("X-Request-Id", "req-1")
		fmt.Fprintf(w, `{"echo":%q}`, r.Header.Get("Authorization"))
	})
	s := opened(t, gateway(t, Config{}), SessionConfig{Upstream: up})
	addr := relayed(t, s)
	req, _ := http.NewRequest("POST", s.BaseAt(addr)+"/v1/chat/completions?key="+s.Key()+"&x=1", strings.NewReader(question))
	req.Header.Set("Cookie", "c=d")
	req.Header.Set("User-Agent", "an-agent/1")
	req.Header.Set("X-Stainless-Lang", "go")
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(res.Body)
	r := <-got
	if r.URL.Path != "/v1/chat/completions" || r.URL.RawQuery != "" || r.Header.Get("Authorization") != "Bearer "+realKey ||
		r.Header.Get("Cookie") != "" || r.Header.Get("Accept-Encoding") != "" || r.Header.Get("X-Stainless-Lang") != "go" {
		t.Errorf("the provider was asked %s with %v", r.URL, r.Header)
	}
	if want := strings.Replace(question, "agent-name", "model-of-the-provider", 1); <-body != want {
		t.Error("more than the model's name was changed")
	}
	if string(answer) != `{"echo":"Bearer ********************"}` {
		t.Errorf("the agent got %s", answer)
	}
	if res.Header.Get("Set-Cookie")+res.Header.Get("Openai-Organization") != "" || res.Header.Get("X-Request-Id") != "req-1" {
		t.Errorf("headers back: %v", res.Header)
	}
	calls, sum, rec := ended(t, s)
	if len(calls) != 1 || sum.Calls != 1 {
		t.Fatalf("%d calls in the record, %+v", len(calls), sum)
	}
	c := calls[0]
	if c.Model != "agent-name" || c.Sent != "model-of-the-provider" || c.Status != 200 || c.First == nil || c.Client != "an-agent/1" || c.Path != "/v1/chat/completions" {
		t.Errorf("line: %+v", c)
	}
	q, a, err := rec.Raw(1)
	if err != nil || string(q) != question || string(a) != string(answer) {
		t.Errorf("raw: %s %s %v", q, a, err)
	}
}

// Path and key must both be the session's.
func TestIdentity(t *testing.T) {
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	})
	g := gateway(t, Config{})
	a, b := opened(t, g, SessionConfig{Upstream: up}), opened(t, g, SessionConfig{Upstream: up})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- g.Listen(ctx, l) }()
	at, alone := l.Addr().String(), relayed(t, a)
	for _, c := range []struct {
		url, key string
		want     int
	}{
		{a.BaseAt(at), a.Key(), 200}, {b.BaseAt(at), b.Key(), 200}, {a.BaseAt(alone), a.Key(), 200},
		{a.BaseAt(at), b.Key(), 401}, {b.BaseAt(at), a.Key(), 401}, {a.BaseAt(at), "", 401}, {a.BaseAt(at), realKey, 401},
		{b.BaseAt(alone), b.Key(), 401}, {"http://" + at + "/s/0123456789abcdef", a.Key(), 401}, {"http://" + at, a.Key(), 401},
		{a.BaseAt(at) + "/../" + b.ID(), a.Key(), 404},
	} {
		if got, body := post(t, c.url+"/v1/chat/completions", c.key, question); got != c.want {
			t.Errorf("%s with %s: %d %s", c.url, c.key, got, body)
		}
	}
	// A second key beside the right one does not pass either.
	req, _ := http.NewRequest("POST", a.BaseAt(at)+"/v1/messages", strings.NewReader(question))
	req.Header.Set("X-Api-Key", a.Key())
	req.Header.Set("Authorization", "Bearer "+b.Key())
	if res, err := http.DefaultClient.Do(req); err != nil || res.StatusCode != 401 {
		t.Errorf("two keys: %v %v", res, err)
	}
	if _, err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got, _ := post(t, a.BaseAt(at)+"/v1/chat/completions", a.Key(), question); got != 401 {
		t.Errorf("after close: %d", got)
	}
	if got, _ := post(t, b.BaseAt(at)+"/v1/chat/completions", b.Key(), question); got != 200 {
		t.Errorf("the other one: %d", got)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Events reach the agent when the provider writes them, not when it is done.
func TestStreamIsUnbuffered(t *testing.T) {
	step := make(chan bool)
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			fmt.Fprintf(w, "data: {\"n\":%d}\n\n", i)
			w.(http.Flusher).Flush()
			<-step // until the agent has it
		}
	})
	for _, inside := range []bool{false, true} {
		s := opened(t, gateway(t, Config{}), SessionConfig{Upstream: up})
		url, client := s.Base(), &http.Client{Transport: s.Transport()}
		if !inside {
			url, client = s.BaseAt(relayed(t, s)), http.DefaultClient
		}
		req, _ := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/chat/completions", strings.NewReader(question))
		req.Header.Set("Authorization", "Bearer "+s.Key())
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(res.Body)
		for i := range 5 {
			line, err := r.ReadString('\n')
			if err != nil || line != fmt.Sprintf("data: {\"n\":%d}\n", i) {
				t.Fatalf("event %d: %q %v", i, line, err)
			}
			r.ReadString('\n')
			step <- true
		}
		res.Body.Close()
	}
}

func TestProbes(t *testing.T) {
	up := provider(t, func(w http.ResponseWriter, r *http.Request) { t.Errorf("the provider heard of %s", r.URL) })
	s := opened(t, gateway(t, Config{}), SessionConfig{Upstream: up, Model: "m"})
	base := s.BaseAt(relayed(t, s))
	for _, c := range []struct {
		method, path string
		want         int
		has          string
	}{
		{"HEAD", "/", 200, ""}, {"HEAD", "/api/hello", 200, ""}, {"GET", "/v1/models", 200, `"id":"m"`}, {"GET", "/v1/models/m", 200, `"object":"model"`},
		{"GET", "/v1beta/models", 200, `"id":"m"`}, {"GET", "/v1/files", 404, "not served"}, {"POST", "/v1/embeddings", 404, "not served"},
		{"DELETE", "/v1/responses/1", 404, "not served"}, {"POST", "/v1/models/m:predict", 404, "not served"},
	} {
		req, _ := http.NewRequest(c.method, base+c.path, nil)
		req.Header.Set("Authorization", "Bearer "+s.Key())
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != c.want || !strings.Contains(string(b), c.has) {
			t.Errorf("%s %s: %d %s", c.method, c.path, res.StatusCode, b)
		}
	}
	calls, sum, _ := ended(t, s)
	if len(calls) != 9 || sum.Calls != 0 || sum.Side != 5 || sum.Refused != 4 {
		t.Errorf("%d lines, %+v", len(calls), sum)
	}
}

// badServers are providers at their worst. Each has one clear outcome, and
// another session goes on meanwhile.
func TestBadServers(t *testing.T) {
	forever := func(w http.ResponseWriter, r *http.Request, piece string) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
		}
	}
	stream := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"choices\":[]}\n\n")
		w.(http.Flusher).Flush()
	}
	for _, c := range []struct {
		name   string
		serve  http.HandlerFunc
		status int
		kind   model.ErrorKind
	}{
		{"cut stream", func(w http.ResponseWriter, r *http.Request) { stream(w); panic(http.ErrAbortHandler) }, 200, model.ErrCutStream},
		{"cut before the first byte", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, 502, model.ErrUnreachable},
		{"shorter than promised", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"half":`)
		}, 200, model.ErrCutStream},
		{"stall in the stream", func(w http.ResponseWriter, r *http.Request) { stream(w); <-r.Context().Done() }, 200, model.ErrStalled},
		{"stall before the first byte", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 504, model.ErrStalled},
		{"a page", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, "<html>login</html>")
		}, 502, model.ErrMalformed},
		{"a redirection", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://example.org/", 307) }, 502, model.ErrMalformed},
		{"endless stream", func(w http.ResponseWriter, r *http.Request) {
			stream(w)
			forever(w, r, "data: {\"x\":\"yyyyyyyyyyyyyyyy\"}\n\n")
		}, 200, model.ErrMalformed},
		{"endless arguments", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"choices":[{"message":{"tool_calls":[{"function":{"arguments":"`)
			forever(w, r, strings.Repeat("a", 4096))
		}, 200, model.ErrMalformed},
		{"401", func(w http.ResponseWriter, r *http.Request) { http.Error(w, `{"error":{}}`, 401) }, 401, model.ErrAuth},
		{"429", func(w http.ResponseWriter, r *http.Request) { http.Error(w, `{"error":{}}`, 429) }, 429, model.ErrRate},
		{"500 page", func(w http.ResponseWriter, r *http.Request) { http.Error(w, `<html>`, 500) }, 500, model.ErrServer},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := gateway(t, Config{Limits: Limits{Response: 256 << 10, Stall: 500 * time.Millisecond}})
			well := opened(t, g, SessionConfig{Upstream: provider(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, "{}")
			})})
			s := opened(t, g, SessionConfig{Upstream: provider(t, c.serve)})
			status, body := post(t, s.BaseAt(relayed(t, s))+"/v1/chat/completions", s.Key(), question)
			if status != c.status {
				t.Errorf("the agent got %d %.200s", status, body)
			}
			if status == 200 && !strings.HasSuffix(body, ">") {
				t.Errorf("the agent took the answer for a whole one: %.200s", body)
			}
			if got, _ := post(t, well.BaseAt(relayed(t, well))+"/v1/chat/completions", well.Key(), question); got != 200 {
				t.Errorf("the other trial got %d", got)
			}
			calls, sum, _ := ended(t, s)
			if len(calls) != 1 || calls[0].Err == nil || calls[0].Err.Kind != c.kind {
				b, _ := json.Marshal(calls)
				t.Fatalf("record: %s", b)
			}
			if sum.LastError == nil || sum.LastError.Kind != c.kind || calls[0].Answered > 1<<20 {
				t.Errorf("summary: %+v, %d bytes", sum, calls[0].Answered)
			}
		})
	}
}

func TestAgentGoesAway(t *testing.T) {
	gone := make(chan bool)
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done() // cancellation reaches the provider
		close(gone)
	})
	s := opened(t, gateway(t, Config{}), SessionConfig{Upstream: up})
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", s.BaseAt(relayed(t, s))+"/v1/chat/completions", strings.NewReader(question))
	req.Header.Set("Authorization", "Bearer "+s.Key())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	bufio.NewReader(res.Body).ReadString('\n')
	leave()
	<-gone
	calls, sum, rec := ended(t, s)
	if len(calls) != 1 || !calls[0].Aborted || calls[0].Err.Kind != model.ErrAborted || sum.LastError != nil {
		t.Fatalf("%+v %+v", calls, sum)
	}
	if _, a, err := rec.Raw(1); err != nil || string(a) != "data: 1\n\n" {
		t.Errorf("what came of the answer: %q %v", a, err)
	}
}

// A session that is stopped answers nobody, cuts off what is under way, and
// keeps no connection that outlives it.
func TestStopAndClose(t *testing.T) {
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	var stops []Stop
	s := opened(t, gateway(t, Config{}), SessionConfig{Upstream: up, OnStop: func(w Stop) { stops = append(stops, w) }})
	addr := relayed(t, s)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func() {
		fmt.Fprintf(c, "POST /s/%s/v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", s.ID(), s.Key(), len(question), question)
	}
	ask()
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	s.Stop(Stop{Kind: model.ErrBudget, Message: "the buzzer"})
	s.Stop(Stop{Kind: model.ErrLoop, Message: "too late"})
	if rest, _ := io.ReadAll(c); bytes.Contains(rest, []byte("\r\n0\r\n\r\n")) {
		t.Error("the stream ended as if it were whole")
	}
	status, body := post(t, s.BaseAt(addr)+"/v1/messages", s.Key(), question)
	if status != 400 || !strings.Contains(body, "the buzzer") || !strings.Contains(body, `"type":"error"`) {
		t.Errorf("after the stop: %d %s", status, body)
	}
	if len(stops) != 1 || stops[0].Kind != model.ErrBudget {
		t.Errorf("told of %v", stops)
	}
	idle, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	calls, sum, _ := ended(t, s)
	if len(calls) != 2 || calls[0].Err.Kind != model.ErrBudget || sum.Refused != 1 || sum.Stop == nil {
		t.Errorf("%+v %+v", calls, sum)
	}
	if _, err := io.ReadAll(idle); err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
}

// The key, printed by the agent, is not in what is kept; neither is the
// user's, whoever says it.
func TestSecretsAreNotKept(t *testing.T) {
	var s *Session
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, piece := range []string{"data: " + realKey[:7], realKey[7:] + " " + s.Key()[:9], s.Key()[9:] + "\n\n"} {
			io.WriteString(w, piece)
			w.(http.Flusher).Flush()
		}
	})
	s = opened(t, gateway(t, Config{}), SessionConfig{Upstream: up})
	base := s.BaseAt(relayed(t, s))
	body := `{"model":"` + s.Key() + `","messages":[{"role":"user","content":"my key is ` + s.Key() + `"}]}`
	_, got := post(t, base+"/v1/chat/completions", s.Key(), body)
	if strings.Contains(got, realKey) || !strings.Contains(got, s.Key()) {
		t.Errorf("the agent got %q", got)
	}
	post(t, base+"/"+s.Key(), s.Key(), body)
	_, _, rec := ended(t, s)
	q, a, err := rec.Raw(1)
	if err != nil || len(q) != len(body) || !bytes.Contains(a, []byte("********")) {
		t.Errorf("raw: %q %q %v", q, a, err)
	}
	for _, b := range [][]byte{q, a, readFile(t, filepath.Join(s.conf.Dir, callsName)), readFile(t, filepath.Join(s.conf.Dir, packName))} {
		if strings.Contains(string(b), s.Key()) || strings.Contains(string(b), realKey) {
			t.Errorf("a secret is in %.300q", b)
		}
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// 10,000 connections cost the one who opens them.
func TestTooManyConnections(t *testing.T) {
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	})
	g := gateway(t, Config{Limits: Limits{Conns: 8}})
	bad, good := opened(t, g, SessionConfig{Upstream: up}), opened(t, g, SessionConfig{Upstream: up})
	var mine []net.Conn
	for range 10000 {
		a, b := net.Pipe()
		go bad.Serve(t.Context(), a)
		mine = append(mine, b)
	}
	open := 0
	for _, c := range mine {
		c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			open++
		}
	}
	if open > 8 {
		t.Errorf("%d connections are open", open)
	}
	if got, _ := post(t, good.BaseAt(relayed(t, good))+"/v1/chat/completions", good.Key(), question); got != 200 {
		t.Errorf("the other trial got %d", got)
	}
	if _, err := bad.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range mine {
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Fatalf("a connection outlived its session: %v", err)
		}
	}
}

func TestRetriesAreJoined(t *testing.T) {
	n := 0
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		if n++; n <= 2 {
			http.Error(w, `{"error":{}}`, 500)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	})
	s := opened(t, gateway(t, Config{}), SessionConfig{Upstream: up})
	base := s.BaseAt(relayed(t, s))
	for range 4 {
		post(t, base+"/v1/chat/completions", s.Key(), question)
	}
	calls, _, _ := ended(t, s)
	var of []int
	for _, c := range calls {
		of = append(of, c.RetryOf)
	}
	if fmt.Sprint(of) != "[0 1 1 0]" {
		t.Errorf("retries of %v; the fourth is another sample", of)
	}
}

// Whoever is told of a call may stop the session: a job whose budget is used up.
func TestStopFromWithinACall(t *testing.T) {
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	})
	var s *Session
	told := make(chan Stop, 1)
	s = opened(t, gateway(t, Config{}), SessionConfig{
		Upstream: up, OnCall: func(Call) { s.Stop(Stop{Kind: model.ErrBudget, Message: "the job's budget"}) }, OnStop: func(w Stop) { told <- w },
	})
	url := s.BaseAt(relayed(t, s)) + "/v1/chat/completions"
	if status, got := post(t, url, s.Key(), question); status != 200 {
		t.Errorf("the first: %d %s", status, got)
	}
	<-told
	if status, got := post(t, url, s.Key(), question); status != 401 || !strings.Contains(got, "the job's budget") {
		t.Errorf("the second: %d %s", status, got)
	}
}
