package external

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/agent"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

// session is a run of r on a sandbox with an empty work directory.
func session(t *testing.T, sb sandbox.Sandbox, a *Agent) agent.Session {
	t.Helper()
	b := task.Brief{Task: "org/name", Instruction: "- Write *42*.\n"}
	needs, err := a.Needs(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range needs.Files {
		put(t, sb, string(f.Path), string(f.Data))
	}
	put(t, sb, "/project/.keep", "")
	return agent.Session{
		Brief: b, Sandbox: sb, Workdir: "/project", Env: []string{"FROM_TASK=yes"},
		Recorder: agent.NewRecorder(a.Info(), b, nil), Logs: image.HostPath(filepath.Join(t.TempDir(), "agent")),
		Model: &agent.Endpoint{URL: "http://127.0.0.1:4180/s/abc/", Model: `a"model`, Key: "trial-key-0123456789", Window: 64_000},
	}
}

func put(t *testing.T, sb sandbox.Sandbox, name, text string) {
	t.Helper()
	sh(t, sb, `mkdir -p "$(dirname "$1")" && cat >"$1"`, text, name)
}

func sh(t *testing.T, sb sandbox.Sandbox, script, stdin string, args ...string) string {
	t.Helper()
	res, err := sandbox.Exec(context.WithoutCancel(t.Context()), sb, sandbox.Command{Args: append([]string{"/bin/sh", "-c", script, "sh"}, args...)},
		sandbox.ExecOptions{Stdin: strings.NewReader(stdin), Timeout: 30 * time.Second})
	if err != nil || res.Exit.Code != 0 {
		t.Fatalf("%s: %v, exit %d: %s", script, err, res.Exit.Code, res.Stderr)
	}
	return string(res.Stdout)
}

func recipe(t *testing.T, text string) Recipe {
	t.Helper()
	r, err := Parse("my.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newAgent(t *testing.T, text string, o Options) *Agent {
	t.Helper()
	a, err := New(recipe(t, text), o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const shown = `
name = "my"
version = "1"
dialects = ["chat", "messages"]
[install]
runtime = "none"
[run]
prepare = [["/bin/sh", "-c", "echo prepared >{{home}}/prepared"]]
command = ["/bin/sh", "{{home}}/.my/run.sh", "{{args}}", "--brief", "{{brief}}"]
env = { KEY = "{{key}}", URL = "{{base}}/v1", TERSE = "{{terse}}" }
memory_mb = 300
[[file]]
path = "{{home}}/.my/run.sh"
content = '''
for a; do printf '<%s>' "$a"; done; echo
cat {{home}}/.my/config.json
echo "$URL $TERSE $FROM_TASK ${ASSAY_BRIEF-none} ${OPENAI_API_KEY-none} $HOME key=$KEY"
cat {{home}}/prepared
read line || echo no input
echo '{"key": "'$KEY'"}' >{{home}}/.my/session.jsonl
echo scratch >{{home}}/.my/cache
echo kept >{{logs}}/own.txt
echo mine >.my.history; mkdir .my.cache; echo x >.my.cache/x; echo again >>.my.config
echo work >out
'''
[[file]]
path = "{{home}}/.my/config.json"
content = '{"model": {{model|json}}, "window": {{context}}, "answer": {{max_output}}}'
[vars]
terse = "no"
[no_retries]
args = ["--tries", "1"]
vars = { terse = "yes" }
[effort.high]
args = ["--think", "{{model}}"]
[logs]
home = [".my/*.jsonl"]
[clean]
workdir = [".my.*"]
[variant.loud]
vars = { terse = "loud" }
`

// Who leaves a tree in which it cannot be started once more has failed that
// step; in the first one nobody has worked yet.
func TestSpoiltTree(t *testing.T) {
	b, host := open(t)
	sb := create(t, b, sandbox.Spec{Image: host})
	a := newAgent(t, shown, Options{})
	s := session(t, sb, a)
	put(t, sb, string(ownList)+"/x", "a directory where one of its own files is to be")
	if report, err := a.Run(t.Context(), s); err == nil {
		t.Errorf("first step: %+v", report)
	}
	s.Brief.Index = 1
	if report, err := a.Run(t.Context(), s); err != nil || report.Exit == nil || *report.Exit == 0 || report.Cause != trial.CauseAgentExit {
		t.Errorf("second step: %+v, %v", report, err)
	}
}

// A recipe's texts reach the program as they are; what it leaves is kept, or
// gone, as the recipe says; and the work stays.
func TestRun(t *testing.T) {
	b, host := open(t)
	sb := create(t, b, sandbox.Spec{Image: host})
	a := newAgent(t, shown, Options{NoRetries: true, Effort: "high", Env: map[string]string{"EXTRA": "1"}})
	s := session(t, sb, a)
	put(t, sb, "/project/.my.config", "of the task\n")
	report, err := a.Run(t.Context(), s)
	if err != nil || *report.Exit != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	notes, err := a.Tidy(t.Context(), s)
	if err != nil || len(notes) > 0 {
		t.Errorf("%v, %v", notes, err)
	}
	out, err := os.ReadFile(filepath.Join(string(s.Logs), "my.txt"))
	want := `<--tries><1><--think><a"model><--brief><
- Write *42*.
>
{"model": "a\"model", "window": 64000, "answer": 16000}http://127.0.0.1:4180/s/abc/v1 yes yes none none /root key=[key-removed]*******
prepared
no input
`
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
	if got := files(t, s.Logs); !slices.Equal(got, []string{
		"my.txt", "session/home/.my/session.jsonl: {\"key\": \"[key-removed]*******\"}\n", "session/logs/own.txt: kept\n"}) {
		t.Errorf("kept %q", got)
	}
	if got := sh(t, sb, "cd /project; ls -A; cat .my.config; ls -d /.assay 2>&1 || true", ""); got !=
		".keep\n.my.config\nout\nof the task\nagain\nls: cannot access '/.assay': No such file or directory\n" {
		t.Errorf("left in the tree: %s", got)
	}
	if text := fmt.Sprintf("%+v", s.Recorder.Document()); strings.Contains(text, "trial-key") {
		t.Errorf("the key is in the trajectory")
	}
	if n, err := a.Needs(s.Brief); err != nil || n.Dialect != "chat,messages" || n.Memory != 300<<20 || len(n.Mounts) != 0 {
		t.Errorf("%+v, %v", n, err)
	}
	loud := newAgent(t, shown, Options{Variant: "loud"})
	if p, err := loud.plan(s); err != nil || !slices.Contains(p.env, "TERSE=loud") || slices.Contains(p.command, "--tries") || loud.Info().Name != "my/loud" {
		t.Errorf("%+v, %v", p, err)
	}
}

// files lists the kept files with their content, the program's output without.
func files(t *testing.T, dir image.HostPath) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(os.DirFS(string(dir)), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !strings.HasPrefix(p, "session/") {
			all = append(all, p)
			return nil
		}
		b, err := os.ReadFile(filepath.Join(string(dir), p))
		all = append(all, p+": "+string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

const hostile = `
name = "evil"
version = "1"
[install]
runtime = "none"
[run]
command = ["/bin/sh", "-c", '''cd {{home}}
mkdir -p log/deep; echo fine >log/fine.jsonl
ln -s /etc/passwd log/link.jsonl; ln -s /etc log/dir.jsonl; mkfifo log/pipe.jsonl
printf x >"log/$(printf 'new\nline').jsonl"; printf x >"log/$(printf 'esc\033').jsonl"; printf x >'log/back\slash.jsonl'
mkdir "log/$(printf '%0250d' 1)"; printf x >"log/$(printf '%0250d' 1)/long.jsonl"
truncate -s 100G log/sparse.jsonl
ln -s {{home}}/log {{workdir}}/.evil-link; mkdir -p {{workdir}}/.evil-dir/sub; touch {{workdir}}/.evil-'$(touch pwned)'
touch -- '{{workdir}}/.evil-x' "{{workdir}}/.evil- --help"
sleep 100 & echo done''']
[logs]
home = ["log/**/*.jsonl", "log/fine.jsonl"]
workdir = [".evil-link/*"]
[clean]
workdir = [".evil-*"]
`

// What an agent leaves for the collector cannot lead it out of its directory,
// hold it up, or make it keep what is no file.
func TestHostileLogs(t *testing.T) {
	b, host := open(t)
	sb := create(t, b, sandbox.Spec{Image: host, Limits: sandbox.Limits{DiskBytes: 1 << 30}})
	a := newAgent(t, hostile, Options{})
	s := session(t, sb, a)
	if r, err := a.Run(t.Context(), s); err != nil || *r.Exit != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	notes, err := a.Tidy(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	told := strings.Join(notes, "\n")
	if !strings.Contains(told, "no plain files") || !strings.Contains(told, "too long") {
		t.Errorf("notes: %s", told)
	}
	var kept []string
	root := filepath.Join(string(s.Logs), "session")
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, e := d.Info()
			kept = append(kept, strings.TrimPrefix(p, root+"/"))
			if e != nil || !info.Mode().IsRegular() || info.Size() > maxLogFile {
				t.Errorf("%s is a %v of %d bytes", p, info.Mode(), info.Size())
			}
		}
		return err
	})
	if err != nil || !slices.Equal(kept, []string{"home/log/fine.jsonl", "home/log/sparse.jsonl"}) {
		t.Errorf("kept %q, %v", kept, err)
	}
	if got := sh(t, sb, "cd /project; ls -A", ""); got != ".keep\n" {
		t.Errorf("left in the work tree: %q", got)
	}
}

// More files than are kept, and a directory deeper than any path, end.
func TestTooManyLogs(t *testing.T) {
	b, host := open(t)
	sb := create(t, b, sandbox.Spec{Image: host})
	a := newAgent(t, strings.Replace(shown, "echo work >out", `
cd {{home}}/.my; i=0; while [ $i -lt 2500 ]; do echo $i >$i.jsonl; i=$((i+1)); done
`, 1), Options{})
	s := session(t, sb, a)
	if r, err := a.Run(t.Context(), s); err != nil || *r.Exit != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	notes, err := a.Tidy(t.Context(), s)
	if err != nil || !strings.Contains(strings.Join(notes, "\n"), "cut at 2000 files") {
		t.Errorf("%v, %v", notes, err)
	}
	if n := len(files(t, s.Logs)); n != maxLogFiles+1 {
		t.Errorf("%d files are kept", n)
	}
}

// What an agent says when it gives up is told; what it said and got over is not.
func TestGaveUp(t *testing.T) {
	a := newAgent(t, "name = \"my\"\nversion = \"1\"\n[install]\nruntime = \"none\"\n[run]\ncommand = [\"x\"]\nexits = { 41 = \"no key\" }\n[logs]\nfailed = ['\"stopReason\":\"error\"']\n", Options{})
	bad := `{"stopReason":"error","errorMessage":"500"}`
	for _, c := range []struct{ out, want string }{
		{"a\n" + bad + "\n", bad},
		{bad + "\na\nb\nc\n", ""},
		{"", ""},
		{strings.Repeat(bad, 1000), strings.Repeat(bad, 1000)[:maxSaid]},
	} {
		if got := a.gaveUp(c.out); got != c.want {
			t.Errorf("%.100q: %.100q", c.out, got)
		}
	}
}

// A run whose time is up leaves what it wrote until then.
func TestTidyAfterDeadline(t *testing.T) {
	b, host := open(t)
	sb := create(t, b, sandbox.Spec{Image: host})
	a := newAgent(t, strings.Replace(shown, "echo work >out", "exec sleep 1000", 1), Options{})
	s := session(t, sb, a)
	ctx, stop := context.WithTimeoutCause(t.Context(), 700*time.Millisecond, agent.ErrDeadline)
	defer stop()
	if r, err := a.Run(ctx, s); err != nil || !r.TimedOut {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := sb.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if notes, err := a.Tidy(t.Context(), s); err != nil || len(notes) > 0 {
		t.Errorf("%v, %v", notes, err)
	}
	if got := files(t, s.Logs); !slices.ContainsFunc(got, func(f string) bool { return strings.HasPrefix(f, "session/home/.my/session.jsonl") }) {
		t.Errorf("kept %q", got)
	}
}

// An instruction that is no argument is named by its file.
func TestHugeBrief(t *testing.T) {
	if got := briefArgument(strings.Repeat("x", maxBriefArgument+1)); !strings.Contains(got, string(agent.BriefFile)) || len(got) > 500 {
		t.Errorf("%.200q", got)
	}
	if got := briefArgument("a\x00b"); got != "ab" {
		t.Errorf("%q", got)
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"a/**/*.jsonl", "a/b/c/x.jsonl", true}, {"a/**/*.jsonl", "a/x.jsonl", true}, {"a/**", "a/b/c", true}, {"**", "x", true},
		{"a/*", "a/b/c", false}, {"a/*.db*", "a/x.db-wal", true}, {"a", "a/b", false}, {"a/**/b/**", "a/x/b/y", true}, {"[", "[", false},
	} {
		if got := matches([]string{c.glob}, c.name); got != c.want {
			t.Errorf("%s of %s: %v", c.name, c.glob, got)
		}
	}
	if got := starts([]string{"a/b/*.x", "a/b/c/*", "d", "a/bc/**"}); !slices.Equal(got, []string{"a/b", "a/bc", "d"}) {
		t.Errorf("%q", got)
	}
	if got := starts([]string{"a/b", "*.x"}); !slices.Equal(got, []string{""}) {
		t.Errorf("%q", got)
	}
	if !bytes.Equal([]byte(tail(strings.Repeat("y", maxTail))), bytes.Repeat([]byte("y"), maxTail)) || len(tail(strings.Repeat("y", 2*maxTail))) > maxTail+100 {
		t.Error("the tail of an output is not what it should be")
	}
}
