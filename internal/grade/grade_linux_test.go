package grade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

const reward = `"$R/logs/verifier/reward.txt"`

// verifiers are test scripts, most of them hostile or broken, and the one
// cause that each leads to.
var verifiers = []struct {
	name, script string
	cause        trial.Cause
	detail       string
	exit         int // -1: null
	limit        time.Duration
}{
	{"solved", `echo 1 >` + reward, trial.CauseSolved, "", 0, 0},
	{"unsolved", `echo 0 >` + reward, trial.CauseUnsolved, "", 0, 0},
	{"more than one is solved", `echo 1.5 >` + reward, trial.CauseSolved, "", 0, 0},
	{"json wins", `echo 1 >` + reward + `; echo '{"reward": 0}' >"$R/logs/verifier/reward.json"`, trial.CauseUnsolved, "", 0, 0},
	{"no fallback", `echo 1 >` + reward + `; : >"$R/logs/verifier/reward.json"`, trial.CauseRewardEmpty, "reward.json", 0, 0},
	{"exit status beside a reward", `echo 1 >` + reward + `; exit 3`, trial.CauseSolved, "", 3, 0},
	{"crash", `kill -SEGV $$`, trial.CauseRewardMissing, "139", 139, 0},
	{"crash after the reward", `echo 1 >` + reward + `; kill -SEGV $$`, trial.CauseSolved, "", 139, 0},
	{"writes nothing", `exit 0`, trial.CauseRewardMissing, "ended with 0", 0, 0},
	{"empty", `: >` + reward, trial.CauseRewardEmpty, "reward.txt", 0, 0},
	{"NaN", `echo nan >` + reward, trial.CauseRewardMalformed, "not finite", 0, 0},
	{"NaN in json", `echo '{"reward": NaN}' >"$R/logs/verifier/reward.json"`, trial.CauseRewardMalformed, "NaN", 0, 0},
	{"a link as reward", `echo 1 >"$R/app/one"; ln -s ../../app/one ` + reward, trial.CauseRewardMissing, "neither", 0, 0},
	{"an absolute link as reward", `echo 1 >"$R/app/one"; ln -s "$R/app/one" ` + reward, trial.CauseRewardMissing, "neither", 0, 0},
	{"a directory as reward", `mkdir "$R/logs/verifier/reward.json"; echo 1 >"$R/logs/verifier/reward.json/reward.json"; echo 1 >` + reward, trial.CauseRewardMalformed, "directory", 0, 0},
	{"a pipe as reward", `mkfifo ` + reward, trial.CauseRewardMissing, "neither", 0, 0},
	{"a huge reward", `head -c 3000000 /dev/zero | tr '\0' 1 >` + reward, trial.CauseRewardMalformed, "larger", 0, 0},
	{"removes its directory", `rm -rf "$R/logs/verifier"`, trial.CauseRewardMissing, "", 0, 0},
	{"its directory is a link", `rm -rf "$R/logs/verifier"; echo 1 >"$R/app/reward.txt"; ln -s ../app "$R/logs/verifier"`, trial.CauseRewardMissing, "neither", 0, 0},
	{"hangs", `sleep 1000`, trial.CauseVerifierTimeout, "within", -1, 300 * time.Millisecond},
	{"hangs after the reward", `echo 1 >` + reward + `; sleep 1000`, trial.CauseVerifierTimeout, "within", -1, 300 * time.Millisecond},
	{"ignores the end", `trap '' TERM INT HUP; echo 1 >` + reward + `; while :; do sleep 0.05; done`, trial.CauseVerifierTimeout, "within", -1, 300 * time.Millisecond},
	{"a child holds the output", `echo 1 >` + reward + `; setsid sleep 1000 & exit 0`, trial.CauseSolved, "", 0, 0},
	{"many files", `cd "$R/logs/verifier"; seq 300 | xargs touch; echo 1 >` + reward, trial.CauseSolved, "", 0, 0},
	{"a large log", `truncate -s 300M "$R/logs/verifier/core"; echo 1 >` + reward, trial.CauseSolved, "", 0, 0},
}

func TestVerifiers(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		end := w.agent("echo new >main.txt")
		for _, c := range verifiers {
			t.Run(c.name, func(t *testing.T) {
				w := w.of(t)
				r := w.request(end, c.script)
				r.Grace, r.LogFiles = 200*time.Millisecond, 200
				if c.limit > 0 {
					r.Key.Timeout = c.limit
				}
				begin := time.Now()
				v := w.grade(r)
				w.want(v, c.cause, c.detail)
				if c.exit < 0 != (v.TestExit == nil) || v.TestExit != nil && *v.TestExit != c.exit {
					t.Errorf("exit status %v, want %d", v.TestExit, c.exit)
				}
				if d := time.Since(begin); d > 15*time.Second {
					t.Errorf("took %v", d)
				}
			})
		}
	})
}

// A verifier that floods its output fills neither memory nor disk, and what it
// says at first is kept.
func TestFlood(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		size := "100000000"
		if w.walls {
			size = "1000000000"
		}
		r := w.request(EndState{}, `echo first; head -c `+size+` /dev/zero; echo 1 >`+reward)
		r.OutputCap = 1 << 20
		v := w.grade(r)
		w.want(v, trial.CauseSolved, "")
		out := onHost(t, r, TestStdout)
		if !strings.HasPrefix(out, "first\n") || len(out) > 2<<20 || !strings.Contains(out[len(out)-200:], "dropped") {
			t.Errorf("%d bytes of output kept, ending %q", len(out), out[max(0, len(out)-100):])
		}
		if len(v.Notes) == 0 || !strings.Contains(strings.Join(v.Notes, "\n"), "cut") {
			t.Errorf("the cut is not said aloud: %q", v.Notes)
		}
	})
}

func TestOutputAndLogsAreKept(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := w.request(EndState{}, `echo one; echo two >&2; echo three; pwd
echo '{"a": 1}' >"$R/logs/verifier/reward-details.json"; mkdir "$R/logs/verifier/sub"; echo x >"$R/logs/verifier/sub/ctrf.json"
echo forged >"$R/logs/verifier/test-stdout.txt"; ln -s /etc/passwd "$R/logs/verifier/link"; echo 1 >`+reward)
		w.want(w.grade(r), trial.CauseSolved, "")
		if got := onHost(t, r, TestStdout); !strings.HasPrefix(got, "one\ntwo\nthree\n") || !strings.HasSuffix(got, "/app\n") {
			t.Errorf("output %q: not in order, or not in the workdir", got)
		}
		if onHost(t, r, Details) != "{\"a\": 1}\n" || onHost(t, r, "sub/ctrf.json") != "x\n" || onHost(t, r, RewardText) != "1\n" {
			t.Error("the verifier's files are not beside the output")
		}
		if _, err := os.Lstat(filepath.Join(string(r.Out), "link")); !os.IsNotExist(err) {
			t.Error("a link of the verifier lies on the host")
		}
	})
}

// A daemon that outlives the test script writes a reward while rewards are
// read. It must be dead by then.
func TestLateWriterIsDeadBeforeRewardsAreRead(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.spy.slow = 1500 * time.Millisecond
		r := w.request(EndState{}, `echo 0 >`+reward+`
setsid sh -c 'sleep 0.7; while :; do echo 1 >`+strings.ReplaceAll(reward, `"`, "")+`; sleep 0.05; done' >/dev/null 2>&1 &
exit 0`)
		w.want(w.grade(r), trial.CauseUnsolved, "")
	})
}

// The order in which everything of grading stands on.
func TestOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		end := w.agent("echo new >main.txt")
		r := w.request(end, `echo 1 >`+reward)
		w.want(w.grade(r), trial.CauseSolved, "")
		at := 0
		for _, what := range []string{"create", "put /tests", "start test.sh", "kill", "get /logs/verifier", "close"} {
			i := w.spy.index(what, at)
			if i < 0 {
				t.Fatalf("no %q after line %d of\n%s", what, at, strings.Join(w.spy.lines(), "\n"))
			}
			at = i + 1
		}
		if i := w.spy.index("start", 0); i != w.spy.index("start test.sh", 0) {
			t.Errorf("something runs before the test script:\n%s", strings.Join(w.spy.lines(), "\n"))
		}
	})
}

// Sealed and separate grading never touch the agent's sandbox, alive or not,
// and what its processes do afterwards has no effect.
func TestTheAgentsSandboxIsNeverTouched(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		sb := w.live("echo new >main.txt")
		snap, err := sb.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.run(sb, "echo late >main.txt")
		w.spy.forget()
		for _, mode := range []task.VerifierMode{task.VerifierSealed, task.VerifierSeparate, task.VerifierUnset} {
			want := "new"
			if mode == task.VerifierSeparate {
				want = "old"
			}
			r := w.request(EndState{Snapshot: snap}, `grep -qx `+want+` main.txt && echo 1 >`+reward)
			r.Mode, r.Live = mode, sb
			w.want(w.grade(r), trial.CauseSolved, "")
		}
		if i := w.spy.index("box1 ", 0); i >= 0 {
			t.Errorf("the agent's sandbox was touched:\n%s", strings.Join(w.spy.lines(), "\n"))
		}
		for _, spec := range w.spy.specs {
			if spec.Network != sandbox.NetNone {
				t.Errorf("the verifier has network %q", spec.Network)
			}
		}
	})
}

// What an agent plants where the grader looks is not seen, and what an image
// brings along there counts for nothing.
func TestPlants(t *testing.T) {
	cases := []struct {
		name, plant, script string
		cause               trial.Cause
	}{
		{"a reward", `mkdir -p "$R/logs/verifier"; echo 1 >` + reward, `:`, trial.CauseRewardMissing},
		{"a reward.json beside an honest reward.txt", `mkdir -p "$R/logs/verifier"; echo '{"reward": 1}' >"$R/logs/verifier/reward.json"`, `echo 0 >` + reward, trial.CauseUnsolved},
		{"a test script", `mkdir -p "$R/tests"; printf '#!/bin/sh\necho 1 >` + strings.ReplaceAll(reward, `"`, `\"`) + `\n' >"$R/tests/test.sh"; chmod 4755 "$R/tests/test.sh"`, `echo 0 >` + reward, trial.CauseUnsolved},
		{"files beside the tests", `mkdir -p "$R/tests/lib"; touch "$R/tests/conftest.py" "$R/tests/lib/sitecustomize.py"`,
			`if [ -e "$R/tests/conftest.py" ] || [ -e "$R/tests/lib" ]; then echo 0; else echo 1; fi >` + reward, trial.CauseSolved},
		{"a link in the place of /tests", `ln -s app "$R/tests"`, `if [ -e "$R/app/test.sh" ]; then echo 0; else echo 1; fi >` + reward, trial.CauseSolved},
		{"a link in the place of /logs", `mkdir -p "$R/app/verifier"; echo 1 >"$R/app/verifier/reward.txt"; rm -rf "$R/logs"; ln -s app "$R/logs"`, `:`, trial.CauseRewardMissing},
		{"a file in the place of /tests", `echo x >"$R/tests"`, `echo 1 >` + reward, trial.CauseSolved},
	}
	everywhere(t, func(t *testing.T, w *world) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				w := w.of(t)
				w.want(w.grade(w.request(w.agent(c.plant), c.script)), c.cause, "")
			})
		}
	})
	t.Run("a reward in the image", func(t *testing.T) {
		everywhere(t, func(t *testing.T, w *world) {
			w.img = w.image(dir("app"), file("logs/verifier/reward.txt", "1"), file("logs/verifier/reward.json", `{"reward": 1}`))
			w.want(w.grade(w.request(w.agent("echo hi >x"), `:`)), trial.CauseRewardMissing, "")
			r := w.request(EndState{}, `:`)
			r.Mode = task.VerifierSeparate
			w.want(w.grade(r), trial.CauseRewardMissing, "")
		})
	})
	t.Run("an old reward in the trial's directory", func(t *testing.T) {
		everywhere(t, func(t *testing.T, w *world) {
			r := w.request(EndState{}, `:`)
			if err := os.MkdirAll(string(r.Out), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(string(r.Out), RewardJSON), []byte(`{"reward": 1}`), 0o644); err != nil {
				t.Fatal(err)
			}
			w.want(w.grade(r), trial.CauseRewardMissing, "")
		})
	})
}

// patch: only the workspace crosses. state: everything does, so that a task
// solved in /etc is solved.
func TestPatchAndState(t *testing.T) {
	work := `echo fixed >"$R/etc/app.conf"; echo new >main.txt; chmod 4755 main.txt; mkfifo pipe; echo mine >tests/unit; ln -s /etc/shadow out`
	check := func(cond string) string {
		return `if ` + cond + `; then echo 1; else ls -laR "$R/app" "$R/etc"; echo 0; fi >` + reward
	}
	cases := []struct {
		name      string
		kind      task.GradeKind
		protected []string
		cond      string
	}{
		{"state: solved in /etc", task.GradeState, nil, `grep -qx fixed "$R/etc/app.conf" && grep -qx new main.txt && grep -qx mine tests/unit`},
		{"state: protected", task.GradeState, []string{"/etc/app.conf", "/app/tests"}, `grep -qx broken "$R/etc/app.conf" && grep -q image tests/unit && grep -qx new main.txt`},
		{"patch: the workspace alone", task.GradePatch, nil, `grep -qx broken "$R/etc/app.conf" && grep -qx new main.txt && grep -qx mine tests/unit`},
		{"patch: no setid bits", task.GradePatch, nil, `[ -x main.txt ] && [ ! -u main.txt ]`},
		{"patch: no pipes", task.GradePatch, nil, `[ ! -e pipe ] && [ -f main.txt ]`},
		{"patch: links are links", task.GradePatch, nil, `[ -L out ] && [ "$(readlink out)" = /etc/shadow ]`},
		{"patch: protected", task.GradePatch, []string{"tests"}, `grep -q image tests/unit && grep -qx new main.txt`},
	}
	everywhere(t, func(t *testing.T, w *world) {
		end := w.agent(work)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				w := w.of(t)
				r := w.request(end, check(c.cond))
				r.Key.Grade, r.Key.Protected = c.kind, c.protected
				v := w.grade(r)
				w.want(v, trial.CauseSolved, "")
				if v.Cause != trial.CauseSolved {
					t.Log(onHost(t, r, TestStdout))
				}
			})
		}
	})
}

// The workspace may be reached by a link of the image's.
func TestLinkedWorkdir(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.img = w.image(link("app", "srv/real"), file("srv/real/main.txt", "old\n"), file("etc/x", "x"))
		r := w.request(w.agent("echo new >main.txt"), `grep -qx new main.txt && echo 1 >`+reward)
		r.Key.Grade = task.GradePatch
		w.want(w.grade(r), trial.CauseSolved, "")
	})
}

// What a broken task does is the task's fault, and never an error.
func TestBrokenTasks(t *testing.T) {
	cases := []struct {
		name   string
		spoil  func(r *Request)
		detail string
	}{
		{"no script", func(r *Request) { os.Remove(filepath.Join(r.Key.Tests[0], "test.sh")) }, "no test.sh"},
		{"no directory", func(r *Request) { r.Key.Tests = []string{"/nonexistent/tests"} }, "no test.sh"},
		{"no tests at all", func(r *Request) { r.Key.Tests = nil }, "no test.sh"},
		{"the script leads out", func(r *Request) { r.Key.Script = "../test.sh" }, "not a path below"},
		{"the script is a link out", func(r *Request) {
			p := filepath.Join(r.Key.Tests[0], "test.sh")
			os.Remove(p)
			os.Symlink("/bin/true", p)
		}, "test script"},
		{"a pipe among the tests", func(r *Request) { syscall.Mkfifo(filepath.Join(r.Key.Tests[0], "fifo"), 0o644) }, "fifo"},
		{"a pipe as the script", func(r *Request) {
			p := filepath.Join(r.Key.Tests[0], "test.sh")
			os.Remove(p)
			syscall.Mkfifo(p, 0o644)
		}, "not a regular file"},
		{"a huge file", func(r *Request) { os.Truncate(filepath.Join(r.Key.Tests[0], "big"), 10<<30) }, "larger than"},
		{"patch without a workspace", func(r *Request) { r.Key.Grade, r.Workdir = task.GradePatch, "/" }, "workdir"},
		{"everything is protected", func(r *Request) { r.Key.Protected = []string{"/"} }, "everything"},
	}
	everywhere(t, func(t *testing.T, w *world) {
		end := w.agent("echo x >x")
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				w := w.of(t)
				r := w.request(end, `echo 1 >`+reward, file("big", ""))
				c.spoil(&r)
				w.want(w.grade(r), trial.CauseTaskMalformed, c.detail)
			})
		}
	})
}

// Tests of a step lie on top of the root's, without ignore files.
func TestStepTestsOnTop(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := w.request(EndState{}, `echo 0 >`+reward, file("lib", "root"), file("common", "c"), file(".harborignore", "x"))
		r.Key.Tests = append(r.Key.Tests, tests(t, `cd "$R/tests"; [ "$(cat lib)" = step ] && [ "$(cat common)" = c ] && [ ! -e .harborignore ] && echo 1 >`+reward, file("lib", "step"))...)
		w.want(w.grade(r), trial.CauseSolved, "")
	})
}

// What an ignore file leaves out stays at home, and single files of the key lie
// on top of the directories.
func TestInputsAndFiles(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := w.request(EndState{}, `echo 0 >`+reward, file("a/keep", "k"), file("a/drop", "d"), file("b/x", "x"))
		r.Inputs = func(dir string) ([]string, error) {
			if dir != r.Key.Tests[0] {
				t.Errorf("asked for %s", dir)
			}
			return []string{"a", "a/keep", "test.sh"}, nil
		}
		r.Key.TestFiles = map[string][]byte{
			"run.sh":    []byte("#!/bin/sh\ncd \"$R/tests\"; [ -e a/keep ] && [ ! -e a/drop ] && [ ! -e b ] && ./lib/check && echo 1 >" + reward + "\n"),
			"lib/check": []byte("#!/bin/sh\nexit 0\n"),
		}
		r.Key.Script = "run.sh"
		w.want(w.grade(r), trial.CauseSolved, "")
		r.Inputs = func(string) ([]string, error) { return nil, errors.New("tests: links form a cycle") }
		w.want(w.grade(r), trial.CauseTaskMalformed, "cycle")
		r.Inputs, r.Key.TestFiles = nil, map[string][]byte{"../x": nil}
		w.want(w.grade(r), trial.CauseTaskMalformed, "not a path below")
	})
}

// A script without a shebang runs, with bash where there is one.
func TestScriptWithoutShebang(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := w.request(EndState{}, "")
		if err := os.WriteFile(filepath.Join(r.Key.Tests[0], "test.sh"), []byte(`a=(1 2); echo "${a[0]}" >`+reward+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat("/bin/bash"); err != nil {
			t.Skip("no bash on this machine")
		}
		w.want(w.grade(r), trial.CauseSolved, "")
	})
}

func TestVerifierEnvironment(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.img.Config.Env = []string{"FROM_IMAGE=i", "BOTH=image"}
		r := w.request(EndState{}, `[ "$FROM_IMAGE$BOTH$MINE" = itaskm ] && echo 1 >`+reward)
		r.Env = []string{"BOTH=task", "MINE=m"}
		w.want(w.grade(r), trial.CauseSolved, "")
	})
}

// Faults of the machine are errors, never verdicts: they are retried and not
// counted. A full disk of the agent's is its own.
func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		at   string
		err  error
		want error // nil: a verdict
	}{
		{"create", boom, boom},
		{"create", sandbox.ErrUnsupported, sandbox.ErrUnsupported},
		{"put /logs", sandbox.ErrLost, sandbox.ErrLost},
		{"put /tests", sandbox.ErrLost, sandbox.ErrLost},
		{"start test.sh", sandbox.ErrLost, sandbox.ErrLost},
		{"kill", boom, boom},
		{"get /logs/verifier", sandbox.ErrLost, sandbox.ErrLost},
		{"put /tests", &os.PathError{Op: "write", Path: "/tests", Err: syscall.ENOSPC}, nil},
	} {
		t.Run(c.at+" "+c.err.Error(), func(t *testing.T) {
			s := newStore(t)
			w := &world{t: t, spy: &spy{Backend: newHostBackend(t, s), fail: map[string]error{c.at: c.err}}, store: s}
			w.img = w.image(dir("app"))
			r := w.request(EndState{}, `echo 1 >`+reward)
			v, err := Grade(t.Context(), r)
			if !errors.Is(err, c.want) || c.want == nil && v.Cause != trial.CauseDiskLimit || v.Rewards != nil {
				t.Errorf("got %v, %+v; want error %v", err, v, c.want)
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		stop := errors.New("interrupted by the user")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(300*time.Millisecond, func() { cancel(stop) })
		begin := time.Now()
		r := w.request(EndState{}, `echo 1 >`+reward+`; sleep 1000`)
		_, err := Grade(ctx, r)
		if !errors.Is(err, stop) || time.Since(begin) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		if w.spy.index("close", 0) < 0 {
			t.Error("the sandbox was left behind")
		}
	})
}

// A verifier that cannot be started is the task's fault where nothing of the
// agent's could be it.
func TestNotStarted(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		end := w.agent("echo x >x")
		w.spy.fail = map[string]error{"start test.sh": fmt.Errorf("%w: no user postgres", sandbox.ErrNotStarted)}
		for _, c := range []struct {
			mode task.VerifierMode
			kind task.GradeKind
			want trial.Cause
		}{
			{task.VerifierSealed, task.GradeState, trial.CauseRewardMissing},
			{task.VerifierSealed, task.GradePatch, trial.CauseTaskMalformed},
			{task.VerifierSeparate, task.GradeState, trial.CauseTaskMalformed},
		} {
			r := w.request(end, `echo 1 >`+reward)
			r.Mode, r.Key.Grade = c.mode, c.kind
			v := w.grade(r)
			w.want(v, c.want, "no user postgres")
			if v.TestExit != nil {
				t.Errorf("a script that did not start ended with %d", *v.TestExit)
			}
		}
	})
}

// An agent that left no shell, or no workdir, is not graded by accident.
func TestAgentBrokeItsTree(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		if !w.walls {
			t.Skip("this backend has no root of its own to break")
		}
		for _, plant := range []string{`rm -rf /app`, `rm /bin /usr/bin/sh 2>/dev/null; rm -f /bin`, `chmod 000 /app`, `rm -rf /etc /app /tmp; ln -s /nowhere /app`} {
			v := w.grade(w.request(w.agent(plant), `echo 0 >`+reward))
			if v.Cause != trial.CauseRewardMissing && v.Cause != trial.CauseUnsolved {
				t.Errorf("%s: %s (%s)", plant, v.Cause, v.Detail)
			}
		}
	})
}

// A verifier that fills the disk leaves no reward, and the next one has room.
func TestFullDisk(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		if !w.walls {
			t.Skip("this backend limits no disk")
		}
		r := w.request(EndState{}, `cat /dev/zero >"$R/app/full" 2>/dev/null; echo 1 >`+reward)
		r.Limits.DiskBytes = 8 << 20
		v := w.grade(r)
		if v.Cause != trial.CauseRewardEmpty && v.Cause != trial.CauseRewardMissing {
			t.Errorf("%s (%s)", v.Cause, v.Detail)
		}
		r = w.request(EndState{}, `echo 1 >`+reward, file("big", strings.Repeat("x", 16<<20)))
		r.Limits.DiskBytes = 8 << 20
		w.want(w.grade(r), trial.CauseDiskLimit, "no room")
		w.want(w.grade(w.request(EndState{}, `echo 1 >`+reward)), trial.CauseSolved, "")
	})
}
