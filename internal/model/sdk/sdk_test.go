// Package sdk_test lets the official OpenAI and Anthropic clients, Python and
// Node, ask a scripted model: directly, and through whatever stands between.
// ASSAY_SDKS names a directory with both (scripts/sdks makes one); without it
// the tests skip.
package sdk_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/gateway"
	"assay/internal/model"
	"assay/internal/model/anthropic"
	"assay/internal/model/gemini"
	"assay/internal/model/openai"
	"assay/internal/model/scripted"
)

const parallel = 100

// job is one thing for a client to do; see testdata/clients.
type job struct {
	Name     string `json:"name"`
	API      string `json:"api"`
	Base     string `json:"base"`
	Model    string `json:"model"`
	Stream   bool   `json:"stream,omitempty"`
	Tools    bool   `json:"tools,omitempty"`
	Logprobs bool   `json:"logprobs,omitempty"`
	Mode     string `json:"mode,omitempty"` // "": a conversation to its end
	Retries  int    `json:"retries,omitempty"`
	Key      string `json:"key,omitempty"`
	N        int    `json:"n,omitempty"`
}

// result is what the client made of it.
type result struct {
	Name    string   `json:"name"`
	Turns   []turn   `json:"turns,omitempty"`
	Events  int      `json:"events,omitempty"`
	Right   int      `json:"right,omitempty"`
	Models  []string `json:"models,omitempty"`
	Counted bool     `json:"counted,omitempty"`
	Error   string   `json:"error,omitempty"`
	Status  int      `json:"status,omitempty"`
	Code    any      `json:"code,omitempty"`
	Says    string   `json:"says,omitempty"`
}

type turn struct {
	Text      string      `json:"text"`
	Reasoning string      `json:"reasoning"`
	Calls     [][2]string `json:"calls"`
	Stop      string      `json:"stop"`
	Usage     []int64     `json:"usage"`
	Logprobs  int         `json:"logprobs"`
}

// client is one of the two languages.
type client struct {
	name string
	args []string
	env  []string
}

func clients(t *testing.T) []client {
	t.Helper()
	dir := os.Getenv("ASSAY_SDKS")
	if dir == "" {
		t.Skip("ASSAY_SDKS names no directory with the official clients (scripts/sdks DIR makes one)")
	}
	scripts, err := filepath.Abs("testdata/clients")
	if err != nil {
		t.Fatal(err)
	}
	return []client{
		{"python", []string{"python3", filepath.Join(scripts, "client.py")}, []string{"PYTHONPATH=" + filepath.Join(dir, "py")}},
		{"node", []string{"node", filepath.Join(scripts, "client.mjs")}, []string{"SDKS=" + filepath.Join(dir, "node")}},
	}
}

// do lets c do all jobs and returns its results by name.
func (c client) do(t *testing.T, jobs []job) map[string]result {
	t.Helper()
	in, err := json.Marshal(jobs)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PYTHONDONTWRITEBYTECODE=1"}, c.env...)
	cmd.Stdin = bytes.NewReader(in)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", c.name, err, errs.String())
	}
	all := map[string]result{}
	sc := bufio.NewScanner(bytes.NewReader(out))
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var r result
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			t.Fatalf("%s: %s: %v", c.name, sc.Text(), err)
		}
		all[r.Name] = r
	}
	return all
}

// script is the model that all clients ask.
func script(t *testing.T) *scripted.Server {
	t.Helper()
	var b strings.Builder
	b.WriteString(`
models: [work, plain, retry, cut, endless, numbers, unauthorized, forbidden, rate-limit, server-error, overloaded, context, in-stream]
scripts:
  - when: {model: ^work}
    turns:
      - {reasoning: I think., text: I look., calls: [{bash: 'echo "<1>" é'}, {bash: echo 2}], usage: {input: 100, output: 20, reasoning: 5}}
      - {text: It is done., usage: {input: 150, output: 7, cached: 40}}
  - {when: {model: ^plain}, turns: [{text: 'Plain words, nothing else.', usage: {input: 11, output: 5}}]}
  - {when: {model: ^retry}, faults: [{kind: rate-limit, retry_after: 10ms, each: 1}], turns: [{text: at last}]}
  - {when: {model: ^cut}, faults: [{kind: cut, events: 5}], turns: [{text: "a long text that is cut off before it is over, word by word"}]}
  - {when: {model: ^endless}, faults: [{kind: endless}], turns: [{pace: 2ms}]}
`)
	for _, k := range []string{"unauthorized", "forbidden", "rate-limit", "server-error", "overloaded", "context", "in-stream"} {
		fmt.Fprintf(&b, "  - {when: {model: ^%s$}, faults: [{kind: %s}], turns: [{text: 'not to be seen, whatever happens here'}]}\n", k, k)
	}
	for i := range parallel {
		fmt.Fprintf(&b, "  - {when: {task: '^number %d\\.'}, turns: [{text: answer %d, pace: 1ms, chunk: 3}]}\n", i, i)
	}
	f, err := scripted.Parse("sdk.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	s, err := scripted.New(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// target is something that answers all three dialects.
type target struct {
	name       string
	base       string
	s          *scripted.Server // behind it
	key        string
	models     int  // that it lists: a gateway's session has one
	translated bool // its server speaks chat completions alone
}

func direct(t *testing.T) target {
	s := script(t)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return target{name: "direct", base: h.URL, s: s, models: 13}
}

// through is a session of a gateway in front of a server that speaks dialects.
func through(t *testing.T, name string, dialects ...model.Dialect) target {
	t.Helper()
	s := script(t)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	codecs := model.Codecs{model.Chat: openai.Chat{}, model.Responses: openai.Responses{}, model.Messages: anthropic.Messages{}, model.Gemini: gemini.Gemini{}}
	g, err := gateway.New(gateway.Config{Codecs: codecs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	up := &gateway.Upstream{Name: "scripted", URL: h.URL + "/v1", Dialects: dialects}
	session, err := g.Open(gateway.SessionConfig{Trial: t.Name(), Dir: filepath.Join(t.TempDir(), "model"), Upstream: up})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Listen(ctx, l) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return target{name: name, base: session.BaseAt(l.Addr().String()), s: s, key: session.Key(), models: 1, translated: len(dialects) > 0}
}

func TestClients(t *testing.T) {
	all := clients(t)
	for _, to := range []target{direct(t), through(t, "gateway"), through(t, "translated", model.Chat)} {
		for _, c := range all {
			t.Run(to.name+"/"+c.name, func(t *testing.T) { conform(t, c, to) })
		}
	}
}

// errors that a client must make of a server's.
type failure struct {
	model, python, node string
	status              int
}

func failures() []failure {
	return []failure{
		{"unauthorized", "AuthenticationError", "AuthenticationError", 401},
		{"forbidden", "PermissionDeniedError", "PermissionDeniedError", 403},
		{"nothing", "NotFoundError", "NotFoundError", 404},
		{"rate-limit", "RateLimitError", "RateLimitError", 429},
		{"server-error", "InternalServerError", "InternalServerError", 500},
		{"overloaded", "OverloadedError|InternalServerError", "OverloadedError|InternalServerError", 529},
		{"context", "BadRequestError", "BadRequestError", 400},
	}
}

func conform(t *testing.T, c client, to target) {
	var jobs []job
	add := func(j job) {
		j.Base, j.Key = to.base, to.key
		jobs = append(jobs, j)
	}
	for _, api := range []string{"chat", "responses", "messages"} {
		for _, stream := range []bool{false, true} {
			name := fmt.Sprintf("%s stream=%v ", api, stream)
			add(job{Name: name + "tools", API: api, Model: "work", Stream: stream, Tools: true})
			add(job{Name: name + "text", API: api, Model: "plain", Stream: stream, Logprobs: api == "chat" && !stream})
			add(job{Name: name + "retry", API: api, Model: "retry", Stream: stream, Retries: 2})
			add(job{Name: name + "cut", API: api, Model: "cut", Stream: stream})
			for _, f := range failures() {
				add(job{Name: name + f.model, API: api, Model: f.model, Stream: stream})
			}
		}
		add(job{Name: api + " in-stream", API: api, Model: "in-stream", Stream: true})
		add(job{Name: api + " abort", API: api, Model: "endless", Mode: "abort"})
		add(job{Name: api + " parallel", API: api, Model: "numbers", Mode: "parallel", N: parallel})
		add(job{Name: api + " others", API: api, Model: "plain", Mode: "others"})
	}
	to.s.Forget()
	got := c.do(t, jobs)
	for _, j := range jobs {
		r, ok := got[j.Name]
		if !ok {
			t.Errorf("%s: no result", j.Name)
			continue
		}
		judge(t, c, to, j, r)
	}
	aborted(t, to)
	for _, r := range to.s.Requests() {
		if to.translated && r.Dialect != model.Chat {
			t.Errorf("a server that speaks chat completions alone was asked for %s", r.Path)
			break
		}
	}
}

func judge(t *testing.T, c client, to target, j job, r result) {
	t.Helper()
	switch {
	case j.Model == "work":
		same(t, j.Name, r, work(j.API, to))
	case j.Model == "plain" && j.Mode == "":
		want := turn{Text: "Plain words, nothing else.", Calls: [][2]string{}, Stop: ends(j.API), Usage: []int64{11, 5}}
		if j.Logprobs {
			want.Logprobs = 2 // pieces of 24 bytes
		}
		same(t, j.Name, r, []turn{want})
	case j.Model == "retry":
		if len(r.Turns) != 1 || r.Turns[0].Text != "at last" {
			t.Errorf("%s: %+v", j.Name, r)
		}
	case j.Model == "cut", j.Model == "in-stream":
		// Where the stream itself says that it failed, one client hands that on as an answer.
		if r.Error == "" && (len(r.Turns) != 1 || r.Turns[0].Stop != "failed") {
			t.Errorf("%s: no error, but %+v", j.Name, r)
		}
	case j.Mode == "abort":
		if r.Events != 6 {
			t.Errorf("%s: %+v", j.Name, r)
		}
	case j.Mode == "parallel":
		if r.Right != parallel {
			t.Errorf("%s: %+v", j.Name, r)
		}
	case j.Mode == "others":
		if len(r.Models) != to.models || !r.Counted {
			t.Errorf("%s: %+v", j.Name, r)
		}
	default:
		for _, f := range failures() {
			if f.model != j.Model {
				continue
			}
			want := f.python
			if c.name == "node" {
				want = f.node
			}
			status := f.status
			if to.translated && r.Status == 503 && status == 529 {
				status = 503 // OpenAI's word for it
			}
			if !strings.Contains("|"+want+"|", "|"+r.Error+"|") || r.Status != status || r.Code == nil {
				t.Errorf("%s: %+v", j.Name, r)
			}
		}
	}
}

func ends(api string) string {
	return map[string]string{"chat": "stop", "responses": "completed", "messages": "end_turn"}[api]
}

// work is the conversation with two calls at once, as each dialect tells it.
func work(api string, to target) []turn {
	calls := map[string]string{"chat": "tool_calls", "responses": "completed", "messages": "tool_use"}[api]
	all := []turn{
		{Text: "I look.", Reasoning: "I think.", Calls: [][2]string{{"bash", `echo "<1>" é`}, {"bash", "echo 2"}}, Stop: calls, Usage: []int64{100, 20}},
		{Text: "It is done.", Calls: [][2]string{}, Stop: ends(api), Usage: []int64{150, 7}},
	}
	if api == "messages" {
		all[1].Usage[0] = 110 // without those from the cache
	}
	return all
}

func same(t *testing.T, name string, r result, want []turn) {
	t.Helper()
	if d := cmp.Diff(want, r.Turns); d != "" {
		t.Errorf("%s: %s %s (-want +got):\n%s", name, r.Error, r.Says, d)
	}
}

// aborted checks that the server saw every client go that left.
func aborted(t *testing.T, to target) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		n, open := 0, 0
		for _, r := range to.s.Requests() {
			if r.Model != "endless" && r.Fault != scripted.Endless {
				if !r.Done {
					open++
				}
				continue
			}
			n++
			if !r.Gone {
				open++
			}
		}
		if n == 3 && open == 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("%d endless answers, of which %d are still being sent", n, open)
			return
		}
	}
}
