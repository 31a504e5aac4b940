package job

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/agent"
	"assay/internal/sandbox"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// look runs a shell script in an agent's session and returns its output.
func look(ctx context.Context, s agent.Session, script string) (string, error) {
	r, err := sandbox.Exec(ctx, s.Sandbox, sandbox.Command{Args: []string{"/bin/sh", "-c", script + "\n:"}, Env: s.Env, Dir: s.Workdir, User: s.User}, sandbox.ExecOptions{Timeout: 30 * time.Second})
	if err == nil && (r.Exit.Code != 0 || r.TimedOut) {
		err = fmt.Errorf("%q ended with %d: %s", script, r.Exit.Code, r.Stderr)
	}
	return strings.TrimSpace(string(r.Stdout)), err
}

// secret stands in every file of a task's key; no agent but the oracle may
// find it.
const secret = "NobodyMaySeeThis"

// An agent never meets the key: neither in its sandbox, nor as a path or text
// in its session, nor in a later step.
func TestAgentNeverMeetsTheKey(t *testing.T) {
	w := newWorld(t)
	toml := taskTOML + "[[steps]]\nname = \"one\"\n[[steps]]\nname = \"two\"\n"
	x := w.task("x", files{
		"task.toml": toml, "instruction.md": "", "tests/test.sh": "", "solution/solve.sh": "", "tests/" + secret: secret,
		"steps/one/instruction.md": "one", "steps/one/tests/test.sh": testSh + "# " + secret, "steps/one/solution/solve.sh": solveSh + "# " + secret,
		"steps/two/instruction.md": "two", "steps/two/tests/test.sh": testSh + "# " + secret, "steps/two/solution/solve.sh": solveSh + "# " + secret,
	})
	for _, mode := range []task.VerifierMode{task.VerifierSealed, task.VerifierSeparate, task.VerifierLive} {
		var mu sync.Mutex
		saw, session := "", ""
		nosy := acting("nosy-"+string(mode), func(ctx context.Context, s agent.Session) (agent.Report, error) {
			out, err := look(ctx, s, `echo done >answer
ls -d /tests /solution 2>/dev/null; ls -A /logs/verifier
find / \( -path /proc -o -path /sys -o -path /dev -o -path /usr \) -prune -o -type f -size -64k -print0 2>/dev/null | xargs -0 grep -l `+secret+` 2>/dev/null
env | grep -e tests -e solution`)
			mu.Lock()
			defer mu.Unlock()
			saw += out
			session += fmt.Sprintf("%+v %+v %q %s", s.Brief, s.Env, s.Workdir, s.User)
			return agent.Report{}, err
		})
		c := w.config(string(mode), []Arm{nosy}, x)
		c.Verifier = mode
		_, v := w.run(c)
		if tr := v.Trials[0]; len(tr.Steps) != 2 || tr.Record.Modes.Verifier != string(mode) {
			t.Errorf("%s: %s (%s): steps %v, modes %+v", mode, tr.Outcome, tr.Record.Detail, tr.Steps, tr.Record.Modes)
		}
		if saw != "" {
			t.Errorf("%s: the agent saw\n%s", mode, saw)
		}
		if strings.Contains(session, x.Dir) || strings.Contains(session, secret) {
			t.Errorf("%s: the session tells of the key: %s", mode, session)
		}
	}
	if c := slices.IndexFunc(w.spy.lines(), func(l string) bool { return strings.HasSuffix(l, "put /solution") }); c >= 0 {
		t.Error("a solution was put into some sandbox")
	}
}

// Tests arrive only after every process of the agent's sandbox is dead, in
// another sandbox than the agent's.
func TestTestsArriveWhenTheAgentIsDead(t *testing.T) {
	w := newWorld(t)
	marker := fmt.Sprintf("86397.%d", os.Getpid())
	x := w.task("x", files{"task.toml": taskTOML + "[[verifier.collect]]\ncommand = \"true\"\n"})
	seen := 0
	w.spy.fail = func(what string) error {
		box, did, _ := strings.Cut(what, " ")
		if strings.HasPrefix(did, "put /tests") || did == "start /bin/sh -c true" { // the collect hook
			seen++
			if p := living(t, marker); p != "" {
				t.Errorf("%s while the agent's %s lives", what, p)
			}
			if strings.HasPrefix(did, "put /tests") && box == "box1" {
				t.Error("tests go into the agent's sandbox")
			}
		}
		return nil
	}
	arm := shell("leaver", "(setsid sleep "+marker+" >/dev/null 2>&1 &); (trap '' TERM HUP INT; sleep "+marker+" >/dev/null 2>&1 &)\nwhile ! grep -q "+marker+" /proc/[0-9]*/cmdline; do :; done")
	c := w.config("dead", []Arm{arm}, x)
	c.Retries = -1
	_, v := w.run(c)
	w.want(v.Trials[0], trial.CauseUnsolved, "")
	if seen < 2 {
		t.Errorf("looked %d times; the test does not see what it is about", seen)
	}
}

// living names a process of this machine whose command line holds marker.
func living(t *testing.T, marker string) string {
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Error(err)
	}
	for _, p := range procs {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte(marker)) {
			return p + " " + string(bytes.ReplaceAll(b, []byte{0}, []byte{' '}))
		}
	}
	return ""
}

// Work that is done after the agent ended does not exist.
func TestLateWorkDoesNotExist(t *testing.T) {
	w := newWorld(t)
	x := w.task("x", files{"tests/test.sh": "#!/bin/sh\nsleep 1.2\n" + strings.TrimPrefix(testSh, "#!/bin/sh\n")})
	w.want(w.one(shell("late", "(setsid sh -c 'sleep 0.6; echo done >answer' >/dev/null 2>&1 &)"), x), trial.CauseUnsolved, "")
}

// Two trials share nothing, one after another or side by side: what one leaves
// everywhere it can, another does not see, and neither does the host.
func TestTrialsShareNothing(t *testing.T) {
	w := newWorld(t)
	marker := fmt.Sprintf("trace-%d-of-a-trial", os.Getpid())
	var mu sync.Mutex
	var saw []string
	traces := 0
	litter := acting("litter", func(ctx context.Context, s agent.Session) (agent.Report, error) {
		out, err := look(ctx, s, `
cd /
find / \( -path /proc -o -path /sys -o -path /usr \) -prune -o -name 'trace-*-of-a-trial' -print 2>/dev/null
for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline 2>/dev/null | grep 'sleep 6[0]'; done
ls /proc/sysvipc/shm | grep -v shm; [ "$(wc -l </proc/sysvipc/shm)" = 1 ] || echo shm
[ "$(wc -l </proc/net/unix)" = 1 ] || cat /proc/net/unix`)
		if err != nil {
			return agent.Report{}, err
		}
		n, err := look(ctx, s, `n=0
for d in / /app /tmp /var/tmp /dev/shm /run /home /root /root/.cache /root/.config /etc /opt /srv /mnt /logs /logs/agent /logs/artifacts /logs/verifier /usr /usr/local/bin /bin /lib "$HOME" "$HOME/.cache/pip" "$HOME/.memory" "${TMPDIR:-/tmp}" /sys/fs/cgroup /proc/sys/kernel; do
	mkdir -p "$d" 2>/dev/null; echo x 2>/dev/null >"$d/`+marker+`" && n=$((n + 1))
done
(setsid sh -c 'exec sleep 60 `+marker+`' >/dev/null 2>&1 &); (setsid sh -c ': `+marker+`; sleep 60' >/dev/null 2>&1 &)
echo $n`)
		mu.Lock()
		defer mu.Unlock()
		if out != "" {
			saw = append(saw, out)
		}
		if n > "10" && len(n) == 2 {
			traces++
		}
		return agent.Report{}, err
	})
	for _, at := range []int{1, 3} {
		c := w.config(fmt.Sprint("share", at), []Arm{litter}, w.task("x", nil))
		c.Attempts, c.Concurrent, c.Retries = 3, at, -1
		_, v := w.run(c)
		for _, tr := range v.Trials {
			w.want(tr, trial.CauseUnsolved, "")
		}
	}
	if len(saw) > 0 {
		t.Errorf("trials saw of each other:\n%s", strings.Join(saw, "\n"))
	}
	if traces != 6 {
		t.Errorf("%d of 6 trials left traces in many places: the test tests nothing", traces)
	}
	for _, d := range []string{"/", "/usr", "/usr/local/bin", "/bin", "/lib", "/tmp", "/var/tmp", "/dev/shm", "/etc", os.TempDir(), "/root", "/home", "/run"} {
		if _, err := os.Lstat(filepath.Join(d, marker)); err == nil {
			t.Errorf("the host has a trace in %s", d)
		}
	}
}

// Whatever an agent does to the places where the grader has to work, it is judged:
// else it would choose which of its trials count, and be tried again.
func TestBreakingTheGraderNeverPays(t *testing.T) {
	w := newWorld(t)
	x := w.task("x", files{"task.toml": "artifacts = [\"/app\"]\n" + taskTOML})
	for _, c := range []struct {
		name, does string
		mode       task.VerifierMode
		want       trial.Cause
		detail     string
	}{
		{"shell", "rm -rf /bin /usr/bin/sh 2>/dev/null; exit 0", task.VerifierLive, trial.CauseUnsolved, "/bin/sh"},
		{"logs", "rm -rf /logs; ln -s /proc/self/mem /logs", task.VerifierLive, trial.CauseUnsolved, "/logs"},
		{"names of one file", "truncate -s 600M big; ln big again", task.VerifierSeparate, trial.CauseDiskLimit, "larger than the cap"},
		{"attributes", `python3 -c 'import os; [os.setxattr("/app", b"user." + k, b"v") for k in (b"a=b", b"\xff")]' || exit 9`, task.VerifierSealed, trial.CauseUnsolved, ""},
	} {
		conf := w.config("breaks "+c.name, []Arm{shell("breaker", c.does)}, x)
		conf.Verifier, conf.Retries = c.mode, -1
		_, v := w.run(conf)
		w.want(v.Trials[0], c.want, c.detail)
	}
}

// Verifier modes: sealed judges a tree at rest, live a running server,
// separate only what was declared.
func TestVerifierModes(t *testing.T) {
	w := newWorld(t)
	server := `(setsid sh -c 'while :; do date +%N >/app/beat; sleep 0.02; done' >/dev/null 2>&1 &)
while [ ! -s beat ]; do sleep 0.01; done; echo a >declared; echo u >undeclared`
	x := w.task("x", files{
		"task.toml": "artifacts = [\"/app/declared\"]\n" + taskTOML,
		"tests/test.sh": `#!/bin/sh
beats=0; a=$(cat beat 2>/dev/null)
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.1; [ "$a" = "$(cat beat 2>/dev/null)" ] || { beats=1; break; }; done
[ -e declared ] && declared=1 || declared=0
[ -e undeclared ] && undeclared=1 || undeclared=0
echo "{\"beats\": $beats, \"declared\": $declared, \"undeclared\": $undeclared}" >/logs/verifier/reward.json
`})
	for mode, want := range map[task.VerifierMode]string{
		task.VerifierUnset: "sealed 011", task.VerifierSealed: "sealed 011", task.VerifierLive: "live 111", task.VerifierSeparate: "separate 010",
	} {
		c := w.config("mode-"+string(mode), []Arm{shell("server", server)}, x)
		c.Verifier = mode
		_, v := w.run(c)
		tr := v.Trials[0]
		got := tr.Record.Modes.Verifier + " "
		for _, k := range []string{"beats", "declared", "undeclared"} {
			got += string(tr.Rewards[k])
		}
		if got != want {
			t.Errorf("%s: %s, want %s (%s; %s)", mode, got, want, tr.Record.Detail, w.text(tr, store.TestOutputFile))
		}
		harbors := map[bool]string{true: "shared", false: "separate"}[mode == task.VerifierLive]
		if m := tr.Result.VerifierEnvironmentMode; m == nil || *m != harbors {
			t.Errorf("%s: Harbor's mode %v", mode, m)
		}
		if len(tr.Record.EndState) != 1 || tr.Record.EndState[0].Layer == "" {
			t.Errorf("%s: end states %+v", mode, tr.Record.EndState)
		}
	}
}

// The task's own words for the mode count where the user says nothing.
func TestTasksOwnVerifierMode(t *testing.T) {
	for toml, want := range map[string]string{
		"": "sealed",
		"[verifier]\nenvironment_mode = \"shared\"\n":               "live",
		"[verifier]\nenvironment_mode = \"separate\"\n":             "separate",
		"[metadata.assay]\nverifier = \"live\"\n":                   "live",
		"[verifier.environment]\ndocker_image = \"nowhere/at-all\"": "separate",
	} {
		w := newWorldlessTask(t, taskTOML+toml)
		a := &attempt{r: &run{}}
		if got := a.verifierMode(w.Key(0)); string(got) != want {
			t.Errorf("%q: %s, want %s", toml, got, want)
		}
		a.r.cfg.Verifier = task.VerifierSealed
		if got := a.verifierMode(w.Key(0)); got != task.VerifierSealed {
			t.Errorf("%q: the user's word does not count: %s", toml, got)
		}
	}
}

func newWorldlessTask(t *testing.T, toml string) *task.Task {
	return (&world{t: t}).task("x", files{"task.toml": toml})
}
