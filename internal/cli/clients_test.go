package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/internal/gateway"
	"assay/internal/gateway/atif"
	"assay/internal/image"
	"assay/internal/model/scripted"
	"assay/internal/sandbox/ns"
	"assay/internal/store"
	"assay/trajectory"
	"assay/trial"
)

// usersKey is what a user's credential looks like to these tests.
const usersKey = "real-key-of-the-user"

// clientBed runs unmodified agents, installed in the store that ASSAY_AGENTS
// names, against a scripted model. Their sandboxes have loopback alone.
type clientBed struct {
	t                  testing.TB
	dir, store, models string
}

func newClientBed(t testing.TB) *clientBed {
	t.Helper()
	dir := os.Getenv("ASSAY_AGENTS")
	if dir == "" {
		t.Skip("ASSAY_AGENTS names no store with installed agents: assay --store DIR agent install codex claude-code pi mini-swe-agent")
	}
	needSandbox(t)
	return helloTask(t, scratch(t), dir)
}

// helloTask writes a small task into dir.
func helloTask(t testing.TB, dir, store string) *clientBed {
	t.Helper()
	b := &clientBed{t: t, dir: dir, store: store}
	b.models = b.write("models.toml", "")
	b.write("task/task.toml", "[task]\nname = \"test/hello\"\n[environment]\ndocker_image = \"host\"\nworkdir = \"/project\"\n")
	b.write("task/instruction.md", "Create the file hello.txt in this directory. It holds exactly the text `Hello, world!`\n")
	b.write("task/tests/test.sh", "#!/bin/sh\nif [ \"$(cat /project/hello.txt)\" = 'Hello, world!' ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n")
	git := func(args ...string) {
		args = append([]string{"-C", filepath.Join(b.dir, "task", "environment"), "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	b.write("task/environment/README", "A project.\n")
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "begin")
	return b
}

func (b *clientBed) write(name, text string) string {
	b.t.Helper()
	p := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
		b.t.Fatal(err)
	}
	return p
}

// run runs a job of one trial and returns it. The job itself must not break.
func (b *clientBed) run(job, agent, model string, flags ...string) *store.Trial {
	b.t.Helper()
	var out, errs bytes.Buffer
	args := append([]string{"assay", "--store", b.store, "run", "-q", "--no-report", "-p", filepath.Join(b.dir, "task"), "-a", agent, "-m", model,
		"-o", b.dir, "--job-name", job, "--retries", "0", "--models", b.models}, flags...)
	code := Main(args, World{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: b.env})
	if code != 0 && code != 3 {
		b.t.Fatalf("%q: exit %d\n%s%s", args, code, &out, &errs)
	}
	found, err := filepath.Glob(filepath.Join(b.dir, job, "*", "result.json"))
	if err != nil || len(found) != 1 {
		b.t.Fatalf("%q: exit %d, %d results, %v\n%s%s", args, code, len(found), err, &out, &errs)
	}
	t, err := store.ReadTrial(filepath.Dir(found[0]))
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

// env is that of a user with a credential and little else.
func (b *clientBed) env(name string) (string, bool) {
	switch name {
	case "THE_KEY":
		return usersKey, true
	case "HOME":
		return b.dir, true
	}
	return "", false
}

// agentText is what the agent's program printed, for the reader of a failure.
func agentText(t *store.Trial) string {
	logs, _ := filepath.Glob(filepath.Join(t.Dir, "agent", "*.txt")) // none is no text
	var all string
	for _, l := range logs {
		text, _ := os.ReadFile(l)
		all += string(text[max(0, len(text)-3000):])
	}
	return all
}

const writesHello = `
turns:
  - text: I will write it.
    calls: [{bash: "echo 'Hello, world!' >hello.txt; tr '\\0' '\\n' </proc/self/environ >/tmp/environ; cat /proc/[0-9]*/environ >/tmp/environs 2>/dev/null; echo written"}]
  - text: It is there.
    calls: [{submit: It is there.}]
`

// aider writes files, and has no tools.
const aiderWritesHello = `
turns:
  - text: I will write it.
    calls: [{write: {path: hello.txt, content: "Hello, world!\n"}}]
`

func scriptFor(agent string) string {
	if agent == "aider" {
		return aiderWritesHello
	}
	return writesHello
}

// clients are the agents to be tested: those of the fast tests, or what
// ASSAY_CLIENTS says.
func clients(fast ...string) []string {
	if s := os.Getenv("ASSAY_CLIENTS"); s != "" {
		return strings.Split(s, ",")
	}
	return fast
}

// Every client solves a small task through the gateway; what is recorded equals
// what went over the wire; its own log is kept, and of itself nothing is left.
func TestClients(t *testing.T) {
	b := newClientBed(t)
	for _, agent := range clients("mini-swe-agent", "mini-swe-agent/text", "mini-swe-agent/responses", "codex", "claude-code", "pi") {
		t.Run(agent, func(t *testing.T) {
			b.t = t
			name := strings.ReplaceAll(agent, "/", "-")
			got := b.run(name, agent, "scripted:"+b.write(name+".yaml", scriptFor(agent)))
			solved(t, got)
			equalsTraffic(t, got)
			tidy(t, b, got)
		})
	}
	b.harborTakes(t)
}

// harborTakes asks Harbor's own validator about every trajectory of the bed.
func (b *clientBed) harborTakes(t *testing.T) {
	t.Helper()
	python := os.Getenv("HARBOR_PYTHON")
	if python == "" {
		t.Log("HARBOR_PYTHON is not set: the trajectories are not shown to Harbor")
		return
	}
	files, err := filepath.Glob(filepath.Join(b.dir, "*", "*", "agent", "trajectory.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d trajectories, %v", len(files), err)
	}
	const script = `
import sys, pathlib
from harbor.utils.trajectory_validator import TrajectoryValidator
v = TrajectoryValidator()
for p in sys.argv[1:]:
    if not v.validate(pathlib.Path(p)): print(p, v.get_errors())
`
	out, err := exec.Command(python, append([]string{"-c", script}, files...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("Harbor, of %d trajectories: %v\n%s", len(files), err, out)
	}
}

func solved(t testing.TB, got *store.Trial) {
	t.Helper()
	if got.Record.Outcome != trial.Pass || got.Record.Cause != trial.CauseSolved {
		t.Errorf("%s, cause %s: %s; notes %q\n%s", got.Record.Outcome, got.Record.Cause, got.Record.Detail, got.Record.Notes, agentText(got))
	}
	if got.Record.Calls == nil || *got.Record.Calls < 2 {
		t.Error("less than two model calls are told of")
	}
}

// equalsTraffic compares the trajectory with the record of the wire.
func equalsTraffic(t testing.TB, got *store.Trial) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(got.Dir, "agent", "trajectory.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range trajectory.Validate(text) {
		t.Errorf("trajectory: %s", f)
	}
	doc, err := trajectory.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range atif.Missing(exchanges(t, got), doc) {
		t.Errorf("trajectory and traffic: %s", wrong)
	}
}

func exchanges(t testing.TB, got *store.Trial) []gateway.Exchange {
	t.Helper()
	r, err := gateway.Read(filepath.Join(got.Dir, "agent", "model"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []gateway.Exchange
	for _, c := range r.Calls() {
		x, err := r.Exchange(c.Seq, codecs())
		if errors.Is(err, gateway.ErrNoRecord) && c.Status >= 400 {
			continue // it was turned away after a stop
		}
		if err != nil {
			t.Errorf("call %d: %v", c.Seq, err)
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		t.Error("no call was recorded")
	}
	return all
}

// tidy looks for the agent's own log, and for what the agent left in the tree.
func tidy(t testing.TB, b *clientBed, got *store.Trial) {
	t.Helper()
	kept := 0
	err := filepath.WalkDir(filepath.Join(got.Dir, "agent", "session"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() > 0 {
			kept++
		}
		return err
	})
	if err != nil || kept == 0 {
		t.Errorf("%d files of the agent's own log are kept, %v", kept, err)
	}
	s, err := image.Open(image.HostPath(b.store), image.Options{Owner: ns.Owner()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	allowed := []string{".", "logs", "project", "project/README", "project/hello.txt", "tmp", "tmp/assay", "tmp/assay/brief.md", "tmp/environ", "tmp/environs"}
	for _, end := range got.Record.EndState {
		for e, err := range s.Entries(image.LayerID(end.Layer)) {
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(allowed, e.Path) && !strings.HasPrefix(e.Path, "logs/") && !strings.HasPrefix(e.Path, "project/.git") {
				t.Errorf("the agent left /%s (%v)", e.Path, e.Type)
			}
		}
	}
}

// Agents of other dialects work with a server that speaks chat completions
// alone. The user's key reaches that server, and nothing else.
func TestClientsOverChat(t *testing.T) {
	b := newClientBed(t)
	for _, agent := range clients("codex", "claude-code") {
		t.Run(agent, func(t *testing.T) {
			b.t = t
			f, err := scripted.Parse("hello.yaml", []byte("key: "+usersKey+"\ndialects: [chat]\n"+scriptFor(agent)))
			if err != nil {
				t.Fatal(err)
			}
			model, err := scripted.New(f)
			if err != nil {
				t.Fatal(err)
			}
			srv := httptest.NewServer(model)
			defer srv.Close()
			b.write("models.toml", "[models.far]\nid = \"far-1\"\nurl = \""+srv.URL+"/v1\"\ndialects = [\"chat\"]\ncredential = { env = \"THE_KEY\" }\n")
			name := "chat-" + strings.ReplaceAll(agent, "/", "-")
			got := b.run(name, agent, "far")
			solved(t, got)
			equalsTraffic(t, got)
			for _, r := range model.Requests() {
				if !strings.HasSuffix(r.Path, "/v1/chat/completions") || r.Key != usersKey || r.Model != "far-1" {
					t.Errorf("the server was asked %s %s for %q", r.Method, r.Path, r.Model)
				}
			}
			nowhere(t, b, name, got)
		})
	}
}

// nowhere looks for the user's key in every file of the job and of the end
// state, where the agent's shell put the environment of every process.
func nowhere(t testing.TB, b *clientBed, job string, got *store.Trial) {
	t.Helper()
	dirs := []string{filepath.Join(b.dir, job)}
	for _, end := range got.Record.EndState {
		dirs = append(dirs, filepath.Join(b.store, "layers", strings.TrimPrefix(end.Layer, "sha256:")))
	}
	files, environ := 0, false
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(p)
			files++
			environ = environ || strings.HasSuffix(p, "/tmp/environs") && bytes.Contains(text, []byte("PATH="))
			if bytes.Contains(text, []byte(usersKey)) {
				t.Errorf("%s holds the user's key", p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 10 || !environ && job != "chat-aider" { // which runs no commands
		t.Errorf("only %d files were looked at; the processes' environment among them: %v", files, environ)
	}
}

// Clients tell their models of the host's tools: as tools, or, where they load
// tools when these are needed (qwen-code), by their names.
func TestClientsFindTools(t *testing.T) {
	b := newClientBed(t)
	named := regexp.MustCompile(`host[_-]{1,2}clock\b|"name": ?"clock"`)
	for _, agent := range clients("codex", "claude-code") {
		t.Run(agent, func(t *testing.T) {
			b.t = t
			r, err := recipe(strings.SplitN(agent, "/", 2)[0])
			if err != nil {
				t.Fatal(err)
			}
			if r.MCP.Args == nil && r.MCP.Env == nil && r.MCP.Vars == nil {
				t.Skip("this agent speaks no MCP")
			}
			name := "tools-" + strings.ReplaceAll(agent, "/", "-")
			got := b.run(name, agent, "scripted:"+b.write(name+".yaml", scriptFor(agent)), "--tool", "clock")
			solved(t, got)
			if !named.MatchString(asked(t, got)) {
				t.Errorf("the model does not hear of the tool\n%s", agentText(got))
			}
		})
	}
}

// asked is all that a trial's model was asked.
func asked(t testing.TB, got *store.Trial) string {
	t.Helper()
	r, err := gateway.Read(filepath.Join(got.Dir, "agent", "model"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all strings.Builder
	for _, c := range r.Calls() {
		if body, _, err := r.Raw(c.Seq); err == nil {
			all.Write(body)
		}
	}
	return all.String()
}
