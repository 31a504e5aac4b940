package scripted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"assay/internal/model"
)

// Every fault in every dialect, streamed and not: what the client sees.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault  string
		status int
		stream string // in the streamed body; "!" before it: not in it
		whole  string
		broken bool // reading ends in an error
	}{
		{"{kind: unauthorized}", 401, "", "", false},
		{"{kind: forbidden}", 403, "", "", false},
		{"{kind: no-model}", 404, "", "", false},
		{"{kind: rate-limit, retry_after: 1500ms}", 429, "", "", false},
		{"{kind: quota}", 429, "", "", false},
		{"{kind: server-error}", 500, "", "", false},
		{"{kind: unavailable}", 503, "", "", false},
		{"{kind: overloaded}", 529, "", "", false},
		{"{kind: context}", 400, "", "", false},
		{"{kind: filter}", 400, "", "", false},
		{"{status: 418, message: a teapot}", 418, "teapot", "teapot", false},
		{"{kind: refusal}", 200, "cannot help", "cannot help", false},
		{"{kind: empty}", 200, "!few words", "!few words", false},
		{"{kind: malformed-arguments}", 200, "!true\\\"}", "!true\\\"}", false},
		{"{kind: unknown-tool}", 200, "no_such_tool", "no_such_tool", false},
		{"{kind: huge-arguments, bytes: 100000}", 200, strings.Repeat("a", 50_000), strings.Repeat("a", 100_000), false},
		{"{kind: endless, bytes: 20000}", 200, "on and on", " \n", false},
		{"{kind: cut, events: 1}", 200, "", "", true},
		{"{kind: end, events: 1}", 200, "", "", false},
		{"{kind: stall, for: 1ms, events: 1}", 200, "", "", false},
		{"{kind: in-stream, events: 1}", 200, "verloaded", "", false},
		{"{kind: html}", 200, "<html>", "<html>", false},
		{"{kind: half-json, events: 1}", 200, "", "", false},
		{"{kind: reset}", 0, "", "", true},
	} {
		kind, _, _ := strings.Cut(strings.Trim(c.fault, "{}"), ",")
		t.Run(kind, func(t *testing.T) {
			s, h := start(t, "faults: ["+c.fault+"]\nturns: [{text: a few words of text, calls: [{bash: 'true'}]}]\n")
			for _, d := range model.Dialects() {
				for _, stream := range []bool{true, false} {
					s.Forget()
					path, body := question(d, stream)
					got, err := ask1(h.URL+path, body)
					name := fmt.Sprintf("%s, stream %v: %d %.300s %v", d, stream, got.status, got.body, err)
					broken := c.broken || (kind == "kind: in-stream" && !stream)
					if got.status != c.status || (err != nil) != broken {
						t.Error(name)
					}
					want := c.whole
					if stream {
						want = c.stream
					}
					if not, ok := strings.CutPrefix(want, "!"); ok && strings.Contains(got.body, not) || !ok && !strings.Contains(got.body, want) {
						t.Errorf("%s: want %.40q", name, want)
					}
					if c.status >= 400 {
						isError(t, d, got, name)
					}
					logged := s.Requests()
					if len(logged) != 1 || logged[0].Fault == "" || !logged[0].Done {
						t.Errorf("logged %+v", logged)
					}
				}
			}
		})
	}
}

type got struct {
	status int
	header http.Header
	body   string
}

func ask1(url, body string) (got, error) {
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return got{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return got{resp.StatusCode, resp.Header, string(b)}, err
}

// isError looks for the dialect's own shape of an error.
func isError(t *testing.T, d model.Dialect, g got, name string) {
	t.Helper()
	var v struct {
		Type  string `json:"type"`
		Error struct {
			Message, Status, Type string
			Code                  any
		} `json:"error"`
	}
	if err := decode([]byte(g.body), &v); err != nil || v.Error.Message == "" || !strings.HasPrefix(g.header.Get("Content-Type"), "application/json") {
		t.Errorf("%s: %v", name, err)
	}
	switch d {
	case model.Messages:
		if v.Type != "error" || v.Error.Type == "" {
			t.Error(name)
		}
	case model.Gemini:
		if v.Error.Status == "" || v.Error.Code != float64(g.status) {
			t.Error(name)
		}
	default:
		if v.Error.Type == "" {
			t.Error(name)
		}
	}
	if g.status == 429 && strings.Contains(name, "Rate") && g.header.Get("Retry-After") != "2" {
		t.Errorf("%s: retry-after %q", name, g.header.Get("Retry-After"))
	}
}

func TestWhichRequestsFail(t *testing.T) {
	for fault, want := range map[string]string{
		"{kind: server-error}":                            "500 500 500 500",
		"{kind: server-error, first: 1}":                  "500 200 200 200",
		"{kind: server-error, skip: 1, first: 2}":         "200 500 500 200",
		"{kind: server-error, each: 1}":                   "500 200 500 200",
		"{kind: server-error, when: {task: other}}":       "200 200 500 500",
		"{kind: server-error, when: {tools: true}}":       "200 200 200 200",
		"{kind: server-error, when: {model: n}, skip: 1}": "200 200 200 200",
	} {
		_, h := start(t, "faults: ["+fault+"]\n")
		var all []string
		for _, task := range []string{"one", "one", "other", "other"} {
			code, _ := post(t, h.URL+"/chat/completions", `{"model":"m","messages":[{"role":"user","content":"`+task+`"}]}`)
			all = append(all, fmt.Sprint(code))
		}
		if s := strings.Join(all, " "); s != want {
			t.Errorf("%s: %s, want %s", fault, s, want)
		}
	}
}

// A client that leaves ends what would never end, and the log says so.
func TestClientLeaves(t *testing.T) {
	for _, fault := range []string{"{kind: endless}", "{kind: stall, events: 1}", "{kind: huge-arguments}"} {
		for _, stream := range []bool{true, false} {
			s, h := start(t, "faults: ["+fault+"]\npace: 1ms\nturns: [{calls: [{bash: x}]}]\n")
			path, body := question(model.Chat, stream)
			ctx, leave := context.WithCancel(context.Background())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				for len(s.Requests()) == 0 {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(20 * time.Millisecond)
				leave()
			}()
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: %v", fault, err)
			}
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
				if r := s.Requests()[0]; r.Done && r.Gone {
					break
				} else if time.Now().After(end) {
					t.Fatalf("%s: %+v", fault, r)
				}
			}
		}
	}
}
