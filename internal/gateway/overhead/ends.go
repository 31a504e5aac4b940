package overhead

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
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"assay/internal/gateway"
	"assay/internal/model"
)

const serverKey = "the-key-of-the-benchmark"

// server streams chat chunks that tell when they were written.
type server struct {
	url    string
	http   *http.Server
	events atomic.Int64
	pace   atomic.Int64
}

func (s *server) set(events int, pace time.Duration) {
	s.events.Store(int64(events))
	s.pace.Store(int64(pace))
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+serverKey {
		http.Error(w, "{}", http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	n, pace := s.events.Load(), time.Duration(s.pace.Load())
	begin := time.Now()
	for i := range n {
		if pace > 0 && i > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(i) * pace)))
		}
		if _, err := fmt.Fprintf(w, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":%d,"model":"m","choices":[{"index":0,"delta":{"content":"some words of text "},"finish_reason":null}]}`+"\n\n", time.Now().UnixNano()); err != nil {
			return
		}
		if err := rc.Flush(); err != nil {
			return
		}
	}
	_, _ = io.WriteString(w, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":10}}`+"\n\ndata: [DONE]\n\n") // a client that left is no failure of the server
}

// start brings up both ends and the gateway.
func (b *bench) start(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b.server = &server{url: "http://" + l.Addr().String()}
	b.server.set(1, 0)
	b.server.http = &http.Server{Handler: b.server}
	go func() { _ = b.server.http.Serve(l) }() // ends with stop
	if b.dir, err = os.MkdirTemp("", "assay-gateway-bench-"); err != nil {
		return err
	}
	if b.gw, err = gateway.New(gateway.Config{Codecs: b.Codecs}); err != nil {
		return err
	}
	up := &gateway.Upstream{Name: "bench", URL: b.server.url, Dialects: []model.Dialect{model.Chat}, Credential: func(context.Context, bool) (string, error) { return serverKey, nil }}
	for i := range b.Sessions {
		s, err := b.gw.Open(gateway.SessionConfig{Trial: fmt.Sprint(i), Dir: b.record(i), Upstream: up})
		if err != nil {
			return err
		}
		b.sessions = append(b.sessions, s)
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b.at = at.Addr().String()
	ctx, end := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- b.gw.Listen(ctx, at) }()
	b.listen = func() error { end(); return <-served }
	b.body, err = json.Marshal(map[string]any{
		"model": "m", "stream": true, "stream_options": map[string]any{"include_usage": true},
		"messages": []any{map[string]any{"role": "user", "content": strings.Repeat("a few words of a prompt ", b.Prompt/24)}},
	})
	return err
}

func (b *bench) stop() error {
	var errs []error
	if b.listen != nil {
		errs = append(errs, b.listen())
	}
	if b.gw != nil {
		errs = append(errs, b.gw.Close())
	}
	if b.server != nil {
		errs = append(errs, b.server.http.Close())
	}
	if b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}

// place is where a request goes.
type place struct{ url, key string }

// client reads streams as an agent does.
type client struct{ http *http.Client }

func newClient() *client {
	return &client{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

func (c *client) ask(ctx context.Context, p place, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.key)
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err == nil && res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 1000)) // for the message
		res.Body.Close()
		return nil, fmt.Errorf("HTTP %d: %s", res.StatusCode, b)
	}
	return res, err
}

// first is the time in milliseconds until a stream's first byte.
func (c *client) first(ctx context.Context, p place, body []byte) (float64, error) {
	begin := time.Now()
	res, err := c.ask(ctx, p, body)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 1)); err != nil {
		return 0, err
	}
	ms := time.Since(begin).Seconds() * 1000
	_, err = io.Copy(io.Discard, res.Body)
	return ms, err
}

// stream reads a whole stream: how many events came, the time from the first
// to the last, and how late, in milliseconds, every tenth of them was.
func (c *client) stream(ctx context.Context, p place, body []byte) (n int, took time.Duration, delays []float64, err error) {
	res, err := c.ask(ctx, p, body)
	if err != nil {
		return 0, 0, nil, err
	}
	var begin time.Time
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	created := []byte(`"created":`)
	for lines.Scan() {
		b := lines.Bytes()
		i := bytes.Index(b, created)
		if i < 0 || bytes.Contains(b, []byte(`"stop"`)) {
			continue
		}
		if n++; n == 1 {
			begin = time.Now()
		}
		took = time.Since(begin)
		if n%10 != 0 {
			continue
		}
		b = b[i+len(created):]
		at, err := strconv.ParseInt(string(b[:bytes.IndexByte(b, ',')]), 10, 64)
		if err != nil {
			return n, took, delays, err
		}
		delays = append(delays, float64(time.Now().UnixNano()-at)/1e6)
	}
	return n, took, delays, lines.Err()
}
