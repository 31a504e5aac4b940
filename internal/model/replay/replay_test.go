package replay_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"assay/internal/gateway"
	"assay/internal/model"
	"assay/internal/model/anthropic"
	"assay/internal/model/openai"
	"assay/internal/model/replay"
	"assay/internal/model/scripted"
)

func codecs() model.Codecs {
	return model.Codecs{model.Chat: openai.Chat{}, model.Responses: openai.Responses{}, model.Messages: anthropic.Messages{}}
}

// question is one request in each dialect; the text is the user's.
func question(d model.Dialect, text string) (path, body string) {
	switch d {
	case model.Responses:
		return "/v1/responses", fmt.Sprintf(`{"model":"m","stream":true,"input":%q}`, text)
	case model.Messages:
		return "/v1/messages", fmt.Sprintf(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":%q}]}`, text)
	default:
		return "/v1/chat/completions", fmt.Sprintf(`{"model":"m","stream":true,"messages":[{"role":"system","content":"It is 2026-11-21 18:00:01."},{"role":"user","content":%q}]}`, text)
	}
}

type answer struct {
	status int
	kind   string
	body   string
	broken bool
}

func ask(t *testing.T, rt http.RoundTripper, base, key string, d model.Dialect, text string) answer {
	t.Helper()
	path, body := question(d, text)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := (&http.Client{Transport: rt}).Do(req)
	if err != nil {
		return answer{broken: true}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), string(b), err != nil}
}

// record lets a script answer and returns the record's directory and what was
// answered.
func record(t *testing.T, script string, questions ...string) (dir string, got map[string][]answer) {
	t.Helper()
	f, err := scripted.Parse("script", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	s, err := scripted.New(f)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "model")
	got = through(t, dir, s, nil, questions...)
	return dir, got
}

// through asks every question in every dialect through a session.
func through(t *testing.T, dir string, h http.Handler, dialects []model.Dialect, questions ...string) map[string][]answer {
	t.Helper()
	g, err := gateway.New(gateway.Config{Codecs: codecs()})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	defer srv.Close()
	session, err := g.Open(gateway.SessionConfig{Trial: "t", Dir: dir, Upstream: &gateway.Upstream{Name: "up", URL: srv.URL + "/v1", Dialects: dialects}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]answer{}
	for _, d := range []model.Dialect{model.Chat, model.Responses, model.Messages} {
		for _, q := range questions {
			k := string(d) + " " + q
			got[k] = append(got[k], ask(t, session.Transport(), session.Base(), session.Key(), d, q))
		}
	}
	if _, err := session.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	return got
}

// A replay gives the recorded bytes, errors and broken streams, in order.
func TestReplay(t *testing.T) {
	questions := []string{"one", "one", "one", "two", "cut", "page"}
	dir, want := record(t, `
scripts:
  - {when: {task: one}, faults: [{kind: rate-limit, retry_after: 2s, each: 1}], turns: [{text: the first, again: [{text: the second}]}]}
  - {when: {task: two}, turns: [{text: "two lines\nof text"}]}
  - {when: {task: cut}, faults: [{kind: cut, events: 4}], turns: [{text: this is a text that does not come to its end}]}
  - {when: {task: page}, faults: [{kind: html}], turns: [{text: x}]}
`, questions...)
	s, err := replay.Open(dir, codecs())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if len(s.Dialects()) != 3 {
		t.Errorf("dialects %v", s.Dialects())
	}
	again := through(t, filepath.Join(t.TempDir(), "model"), s, s.Dialects(), questions...)
	for k, all := range want {
		for i, a := range all {
			if got := again[k][i]; got != a {
				t.Errorf("%s, %d: %+v, want %+v", k, i, got, a)
			}
		}
	}
	if a := want["chat one"]; a[0].status != 429 || a[1].status != 200 || a[1].body == a[2].body {
		t.Errorf("the record is not what this test is about: %+v", a)
	}
}

func TestDifferences(t *testing.T) {
	dir, _ := record(t, "turns: [{text: done}]", "list the files of /app, please, all of them")
	s, err := replay.Open(dir, codecs())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := httptest.NewServer(s)
	defer h.Close()
	for body, want := range map[string]string{
		`{"model":"other","temperature":1,"stream":true,"messages":[{"role":"system","content":"It is 2027-01-02 03:04:05."},{"role":"user","content":"list the files of /app, please, all of them"}]}`:                                      "",
		`{"model":"m","messages":[{"role":"system","content":"It is 2026-11-21 18:00:01."},{"role":"user","content":"list the files of /app, kindly, all of them"}]}`:                                                                        `user message 2, text is \" the files of /app, kindly, all of them\", recorded is \" the files of /app, please, all of them\"`,
		`{"model":"m","messages":[{"role":"user","content":"list the files of /app, please, all of them"}]}`:                                                                                                                                 `call 2`,
		`{"model":"m","messages":[{"role":"system","content":"It is 2026-11-21 18:00:01."},{"role":"user","content":"list the files of /app, please, all of them"},{"role":"assistant","content":"done"},{"role":"user","content":"more"}]}`: `assistant message 3, text comes after the recorded conversation: \"done\"`,
		`{"model":"m","messages":[{"role":"system","content":"It is 2026-11-21 18:00:01."}]}`:                                                                                                                                                `user message 2, text is missing`,
		`{`: "differs",
	} {
		resp, err := http.Post(h.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if want == "" && resp.StatusCode == 200 && strings.Contains(string(b), "done") {
			continue
		}
		if resp.StatusCode != 400 || !strings.Contains(string(b), want) || want == "" {
			t.Errorf("%s:\n%d %s\nwant %s", body, resp.StatusCode, b, want)
		}
	}
	resp, err := http.Get(h.URL + "/v1/files")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// Several trials replay one record at once.
func TestManyTrials(t *testing.T) {
	dir, want := record(t, "turns: [{text: done}]", "a", "b")
	s, err := replay.Open(dir, codecs())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := httptest.NewServer(s)
	defer h.Close()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for _, q := range []string{"a", "b"} {
				// What the gateway asked for beyond the agent's wishes comes, too.
				got := ask(t, http.DefaultTransport, h.URL, "", model.Chat, q)
				if id := between(want["chat "+q][0].body, `"id":"`, `"`); id == "" || !strings.Contains(got.body, id) || !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
					t.Errorf("%+v", got)
				}
			}
		})
	}
	all.Wait()
}

func between(s, before, after string) string {
	_, s, _ = strings.Cut(s, before)
	s, _, _ = strings.Cut(s, after)
	return s
}

func TestOpenRefuses(t *testing.T) {
	if _, err := replay.Open(t.TempDir(), codecs()); err == nil || !strings.Contains(err.Error(), "directory of a trial") {
		t.Error(err)
	}
	g, err := gateway.New(gateway.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	dir := filepath.Join(t.TempDir(), "agent", "model")
	s, err := g.Open(gateway.SessionConfig{Dir: dir, Upstream: &gateway.Upstream{Name: "x", URL: "http://127.0.0.1:1", Credential: func(context.Context, bool) (string, error) { return "", nil }}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := replay.Open(filepath.Dir(filepath.Dir(dir)), codecs()); err == nil || !strings.Contains(err.Error(), "no provider answered") {
		t.Error(err)
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"at 2026-11-21T18:00:01.5Z and 2026-11-21":                                "at <time> and <time>",
		"Today is Saturday, November 21, 2026.":                                   "Today is <time>.",
		"Sat Nov 21 18:56:35 UTC 2026":                                            "<time>",
		"-rw-r--r-- 1 root root 5 Nov 21 18:56 f":                                 "-rw-r--r-- 1 root root 5 <time> f",
		"2 passed in 0.03s; took 12ms; epoch 1795288149":                          "2 passed in <duration>; took <duration>; epoch <time>",
		"key assay-abcdefghijklmnopqrstuvwxyz234567 = " + strings.Repeat("*", 38): "key <key> = <key>",
		"jobs/x__9P9zQP8/agent, /tmp/tmp.AbC12/x":                                 "jobs/x__<trial>/agent, /tmp/<tmp>/x",
		"6f1e9c52-0d0b-4b43-9a90-0a5f3d1f6c11 call_s0t1k0n2":                      "<id> <id>",
		"<object at 0x7f3bc0deadbe>":                                              "<object at <address>>",
		"print(42) # may call_it":                                                 "print(42) # may call_it",
	} {
		if got := replay.Plain(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if once := replay.Plain(in); replay.Plain(once) != once {
			t.Errorf("%q changes again", once)
		}
	}
}

// What is plain stays plain, and no document breaks it.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"a":[{"text":"at 12:00:01","duration_ms":5,"session_id":"x"}],"n":1e400}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		once, err := replay.Document(b)
		if err != nil {
			return
		}
		twice, err := replay.Document(once)
		if err != nil || string(twice) != string(once) {
			t.Fatalf("%s became %s: %v", once, twice, err)
		}
	})
}
