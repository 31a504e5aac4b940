package foreign

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"assay/internal/agent/nop"
	"assay/internal/agent/oracle"
	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/sandbox"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// server gives out what the tasks fetch, at an address that no proxy setting
// takes for local.
func server(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skipf("no second loopback address here: %v", err)
	}
	pages := map[string]string{
		"/install.sh": `#!/bin/sh
mkdir -p "$HOME/.local/bin"
cat >"$HOME/.local/bin/jsoncheck" <<'END'
#!/usr/bin/env python3
import json, sys
sys.exit(0 if json.load(open(sys.argv[1])).get("answer") == int(sys.argv[2]) else 1)
END
chmod +x "$HOME/.local/bin/jsoncheck"
`,
		"/tinycheck.py": "def equal(a, b):\n    if a != b:\n        raise SystemExit(f'{a} != {b}')\n",
		"/data.txt":     "the data\n",
		"/word":         "sesame\n",
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(p))
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// ten loads the tasks of the archive, by name.
func (w *world) ten(at string) map[string]*task.Task {
	w.t.Helper()
	a, err := txtar.ParseFile("testdata/ten.txtar")
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]tree{}
	for _, f := range a.Files {
		name, rel, _ := strings.Cut(f.Name, "/")
		if all[name] == nil {
			all[name] = tree{}
		}
		all[name][rel] = strings.ReplaceAll(string(f.Data), "@AT@", at)
	}
	out := map[string]*task.Task{}
	for name, files := range all {
		out[name] = w.task(name, files)
	}
	return out
}

func (w *world) config(x *task.Task, at string) Config {
	dir := filepath.Join(w.dir, "jobs", filepath.Base(x.Dir))
	return Config{
		Task: x, Dir: dir, Network: sandbox.NetAllowlist, AllowHosts: []string{at}, Write: true,
		Gold: job.Arm{Spec: "oracle", Agent: oracle.New()}, Idle: job.Arm{Spec: "nop", Agent: nop.New()},
		Seal: func(ctx context.Context, im image.Image) error {
			context := filepath.Join(dir, "seal")
			if err := os.MkdirAll(context, 0o755); err != nil {
				return err
			}
			_, err := MakeSeal(ctx, SealConfig{Task: x, Image: im, Store: w.images, Build: w.build(at), Env: func(string) (string, bool) { return "", false }, Dir: image.HostPath(context), By: "test"})
			return err
		},
	}
}

// Ten tasks after the manner of other harnesses: each is pinned to the
// strictest modes in which its gold passes, and there gold scores 1, run as a
// user would run it.
func TestTenForeignTasks(t *testing.T) {
	for _, p := range []string{"curl", "python3", "bash"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("no %s", p)
		}
	}
	w := newWorld(t)
	if !slices.Contains(w.backend.Capabilities().Networks, sandbox.NetAllowlist) {
		t.Skip("no allow-list network here")
	}
	at := server(t)
	want := map[string]struct {
		pair   Pair
		sealed bool
	}{
		"tb1":            {Pair{task.VerifierSealed, Nobody}, false},
		"curl-installer": {Pair{task.VerifierSealed, Nobody}, true},
		"pip-target":     {Pair{task.VerifierSealed, Nobody}, true},
		"live-server":    {Pair{task.VerifierLive, Nobody}, false},
		"separate":       {Pair{task.VerifierSeparate, Nobody}, false},
		"own-reward":     {Pair{task.VerifierSealed, Nobody}, false},
		"multi-step":     {Pair{task.VerifierSealed, Nobody}, false},
		"swe":            {Pair{task.VerifierSealed, Nobody}, false},
		"gold-downloads": {Pair{task.VerifierSealed, Both}, false},
		"fresh-download": {Pair{task.VerifierSealed, Verifier}, false},
	}
	tasks := w.ten(at)
	if len(tasks) != len(want) {
		t.Fatalf("%d tasks", len(tasks))
	}
	for name, c := range want {
		t.Run(name, func(t *testing.T) {
			w := w.on(t)
			x := tasks[name]
			cfg := w.config(x, at)
			cfg.Write = name != "tb1" // it has no task.toml
			before, _ := os.ReadFile(filepath.Join(x.Dir, "task.toml"))
			got, err := Adapt(t.Context(), cfg, w.deps())
			if err != nil {
				t.Fatal(err)
			}
			if got.Pinned == nil || *got.Pinned != c.pair || got.Sealed != c.sealed {
				t.Fatalf("pinned %v, sealed %v, want %v; tried %+v; notes %q", got.Pinned, got.Sealed, c.pair, got.Tried, got.Notes)
			}
			after, _ := os.ReadFile(filepath.Join(x.Dir, "task.toml"))
			if strings.Contains(string(before), "# no tests in it") && !strings.Contains(string(after), "# no tests in it") {
				t.Error("a comment was lost")
			}
			w.passes(cfg, c.pair, c.sealed)
		})
	}
}

// passes runs gold as `assay run` would, in the task's own modes.
func (w *world) passes(c Config, p Pair, sealed bool) {
	w.t.Helper()
	x, err := task.Load(c.Task.Dir)
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := job.Config{Dir: filepath.Join(c.Dir, "again"), Tasks: []*task.Task{x}, Arms: []job.Arm{c.Gold}, Attempts: 1, Concurrent: 1, Retries: -1}
	if p.Network != Nobody {
		if n := cfg.Unmet(); len(n) == 0 {
			w.t.Error("the job would run without the network that is pinned")
		}
		cfg.Network, cfg.AllowHosts = c.Network, c.AllowHosts
	}
	if n := cfg.Unmet(); len(n) > 0 {
		w.t.Errorf("unmet: %v", n)
	}
	if _, err := job.Run(w.t.Context(), cfg, w.deps()); err != nil {
		w.t.Fatal(err)
	}
	v, err := store.Read(cfg.Dir)
	if err != nil || len(v.Trials) != 1 {
		w.t.Fatal(v, err)
	}
	r := v.Trials[0].Record
	if r.Outcome != trial.Pass || r.Modes.Verifier != string(p.Verifier) || sealed != (r.Modes.Seal != "") {
		w.t.Errorf("gold: %s (%s) %s; modes %+v; notes %q", r.Outcome, r.Cause, r.Detail, r.Modes, r.Notes)
	}
}

// A verifier that does not reach its server says so in the trial, and what to
// do; a seal of another version of the task is not used, aloud.
func TestHints(t *testing.T) {
	w := newWorld(t)
	at := server(t)
	x := w.ten(at)["curl-installer"]
	if err := os.WriteFile(filepath.Join(x.Dir, job.SealFile), []byte(`{"v":1,"task_digest":"sha256:other","layers":["sha256:00"]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := job.Config{Dir: filepath.Join(w.dir, "jobs", "hint"), Tasks: []*task.Task{x}, Arms: []job.Arm{w.config(x, at).Gold}, Attempts: 1, Concurrent: 1, Retries: -1}
	if _, err := job.Run(t.Context(), cfg, w.deps()); err != nil {
		t.Fatal(err)
	}
	v, err := store.Read(cfg.Dir)
	if err != nil || len(v.Trials) != 1 {
		t.Fatal(v, err)
	}
	r := v.Trials[0].Record
	said := strings.Join(r.Notes, "\n")
	if r.Outcome != trial.Fail || !strings.Contains(said, "assay task adapt") || !strings.Contains(said, "another version of the task") {
		t.Errorf("%s: %q", r.Outcome, r.Notes)
	}
}

func TestSetKeys(t *testing.T) {
	for _, c := range []struct{ in, table, key, want string }{
		{"", "verifier", "a", "\n[verifier]\na = \"x\"\n"},
		{"[verifier]", "verifier", "a", "[verifier]\na = \"x\"\n"},
		{"[verifier] # c\nb = 1\n[other]\na = 2\n", "verifier", "a", "[verifier] # c\na = \"x\"\nb = 1\n[other]\na = 2\n"},
		{"[verifier]\r\n  a = 1 # old\r\nb = 2\r\n", "verifier", "a", "[verifier]\r\na = \"x\"\nb = 2\r\n"},
		{"[ metadata . assay ]\n", "metadata.assay", "verifier", "[ metadata . assay ]\nverifier = \"x\"\n"},
		{"[[verifier.collect]]\ncommand = \"x\"\n", "verifier", "a", "[[verifier.collect]]\ncommand = \"x\"\n\n[verifier]\na = \"x\"\n"},
	} {
		if got := set(c.in, c.table, c.key, "x"); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

// A file that is written in another way is left as it is.
func TestPinRefuses(t *testing.T) {
	w := &world{t: t}
	text := "verifier = { timeout_sec = 5.0 }\n[environment]\ndocker_image = \"host\"\n"
	x := w.task("x", tree{"task.toml": text, "instruction.md": "x", "tests/test.sh": "#!/bin/sh\n", "environment/.keep": "\n"})
	if _, err := pinned(x, Pair{task.VerifierSealed, Verifier}); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(filepath.Join(x.Dir, "task.toml")); err != nil || string(b) != text {
		t.Errorf("%q, %v", b, err)
	}
}
