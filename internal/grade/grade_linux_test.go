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

	"assay/internal/image"
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

// A separate verifier sees declared artifacts at their places and nothing else
// of the agent's.
func TestSeparate(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		sb := w.live(`mkdir -p out/sub "$R/logs/artifacts" "$R/logs/verifier"; echo a >out/a; echo s >out/sub/s; echo no >out/x.tmp; chmod 4755 out/a
ln -s sub/s out/in; ln -s /etc/passwd out/abs; ln -s ../../../etc/passwd out/up; mkfifo out/pipe; echo one >single; echo secret >undeclared
echo pub >"$R/logs/artifacts/pub"; echo 1 >` + reward)
		key := task.Key{Artifacts: []task.Artifact{
			{Source: "/app/out", Exclude: []string{"*.tmp"}}, {Source: "/app/single", Destination: "renamed/file"}, {Source: "/app/missing"}, {Source: "/logs/verifier"},
		}}
		at := image.HostPath(filepath.Join(t.TempDir(), "artifacts"))
		if _, err := Collect(t.Context(), CollectRequest{Sandbox: sb, Key: key, Workdir: "/app", Artifacts: at}); err != nil {
			t.Fatal(err)
		}
		script := `
fail() { echo "$1"; echo 0 >` + reward + `; exit 0; }
[ "$(cat out/a)$(cat out/sub/s)$(cat out/in)" = ass ] || fail content
[ ! -u out/a ] && [ -x out/a ] || fail setid
[ ! -e out/abs ] && [ ! -L out/abs ] && [ ! -L out/up ] && [ ! -e out/pipe ] || fail links
[ ! -e out/x.tmp ] || fail exclude
[ ! -e out/image ] || fail "the image's own"
[ "$(cat single)" = one ] || fail single
[ ! -e undeclared ] || fail undeclared
[ "$(cat "$R/logs/artifacts/pub")" = pub ] || fail convention
[ ! -e ` + reward + ` ] || fail "a planted reward"
echo 1 >` + reward
		w.img = w.image(file("app/main.txt", "old\n"), file("app/out/image", "i"))
		r := w.request(EndState{}, script)
		r.Key.Artifacts, r.Mode, r.Artifacts = key.Artifacts, task.VerifierSeparate, at
		v := w.grade(r)
		w.want(v, trial.CauseSolved, "")
		if v.Cause != trial.CauseSolved {
			t.Log(onHost(t, r, TestStdout))
		}

		// An image of the verifier's own brings its tests; the task's stay home.
		own := w.image(dir("app"), exe("tests/test.sh", "#!/bin/sh\n[ -e ../tests/mine ] && [ ! -e ../tests/task ] && [ \"$(cat out/a)\" = a ] && echo 1 >"+reward+"\n"), file("tests/mine", "m"))
		r = w.request(EndState{}, `echo 0 >`+reward, file("task", "t"))
		r.Key.Artifacts, r.Mode, r.Artifacts, r.VerifierImage = key.Artifacts, task.VerifierSeparate, at, &own
		r.Key.Bundled = true
		w.want(w.grade(r), trial.CauseSolved, "")

		empty := w.image(dir("app"))
		r.VerifierImage = &empty
		w.want(w.grade(r), trial.CauseRewardMissing, "127")
	})
}

// An artifacts directory that somebody else filled is cleaned on its way in.
func TestForeignArtifactsAreCleaned(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		at := t.TempDir()
		out := filepath.Join(at, "app", "out")
		verifier := filepath.Join(at, "logs", "verifier")
		for _, d := range []string{filepath.Join(out, "d"), verifier, filepath.Join(at, "tests")} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range []error{
			os.WriteFile(filepath.Join(out, "f"), []byte("f"), 0o755), os.Chmod(filepath.Join(out, "f"), 0o755|os.ModeSetuid|os.ModeSetgid),
			os.Symlink("/etc/passwd", filepath.Join(out, "abs")), os.Symlink("../../../up", filepath.Join(out, "d", "up")),
			os.Symlink("../f", filepath.Join(out, "d", "in")), syscall.Mkfifo(filepath.Join(out, "pipe"), 0o644),
			os.Symlink("/etc", filepath.Join(at, "app", "dir")),
			os.WriteFile(filepath.Join(verifier, RewardText), []byte("1"), 0o644), os.WriteFile(filepath.Join(at, "tests", "test.sh"), []byte("x"), 0o755),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		r := w.request(EndState{}, `
cd out || exit 0
for f in abs d/up pipe ../dir `+reward+`; do [ ! -L "$f" ] && [ ! -e "$f" ] || { echo "$f"; exit 0; }; done
[ "$(cat f d/in)" = ff ] && [ -x f ] && [ ! -u f ] && [ ! -g f ] && echo 1 >`+reward)
		r.Mode, r.Artifacts = task.VerifierSeparate, image.HostPath(at)
		r.Key.Artifacts = []task.Artifact{{Source: "/app/out"}, {Source: "/app/dir"}, {Source: "/logs"}, {Source: "/tests"}}
		v := w.grade(r)
		w.want(v, trial.CauseSolved, "")
		if v.Cause != trial.CauseSolved {
			t.Log(onHost(t, r, TestStdout))
		}
		if len(v.Notes) < 3 {
			t.Errorf("what did not cross is not said: %q", v.Notes)
		}
	})
}

// Live mode judges in the agent's sandbox while its processes live, after
// removing what the agent left for the grader.
func TestLive(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		sb := w.live(`mkdir -p "$R/logs/verifier" "$R/tests"; echo 1 >` + reward + `; touch "$R/tests/conftest.py"
setsid sh -c 'while :; do echo x >>beat; sleep 0.02; done' >/dev/null 2>&1 &
while [ ! -s beat ]; do sleep 0.01; done`)
		script := `a=$(wc -c <beat); sleep 0.3; [ "$a" != "$(wc -c <beat)" ] && [ ! -e "$R/tests/conftest.py" ] && [ ! -e ` + reward + ` ] && echo 1 >` + reward
		r := w.request(EndState{}, script)
		r.Mode, r.Live, r.KeepAlive = task.VerifierLive, sb, true
		w.want(w.grade(r), trial.CauseSolved, "")
		w.run(sb, `[ ! -e "$R/tests/test.sh" ] && [ ! -e `+reward+` ] && a=$(wc -c <beat) && sleep 0.3 && [ "$a" != "$(wc -c <beat)" ]`)

		r = w.request(EndState{}, script)
		r.Mode, r.Live = task.VerifierLive, sb
		w.want(w.grade(r), trial.CauseSolved, "")
		w.run(sb, `a=$(wc -c <beat); sleep 0.3; [ "$a" = "$(wc -c <beat)" ]`)

		r.Live = nil
		if _, err := Grade(t.Context(), r); err == nil {
			t.Error("live without a sandbox was graded")
		}
	})
}

// A handful of files that is put comes to the very tree that a layer of them
// would: content, kinds, modes and times, whatever lay there before.
func TestHandfulIsTheSameTree(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		if !w.walls {
			return // its links would be this machine's
		}
		w.img = w.image(file("app/main.txt", "old\n"), file("app/dir/inner", "i"), link("app/was-link", "main.txt"), file("app/was-file", "f"), file("etc/x", "x"))
		end := w.agent(`echo new >main.txt; chmod 751 main.txt; touch -d "2001-02-03 04:05:06" main.txt
rm was-link; mkdir was-link; echo a >was-link/a; rm was-file; ln -s /tests was-file; ln -s ../etc out; mkdir -p deep/er; echo d >deep/er/d; chmod 700 deep; : >empty`)
		trees := map[string]bool{}
		for _, limit := range []int64{0, handfulRoom - 1} {
			r := w.request(end, `cd "$R/app" && find . ! -type d -printf '%p %y %m %l %s %T@\n' -o -printf '%p %y %m\n' | sort >`+reward+`.tree; grep -h . main.txt was-link/a deep/er/d >>`+reward+`.tree; echo 1 >`+reward)
			r.Key.Grade, r.Limits.DiskBytes = task.GradePatch, limit
			v := w.grade(r)
			w.want(v, trial.CauseSolved, "")
			tree := onHost(t, r, "reward.txt.tree")
			if !strings.Contains(tree, "main.txt f 751") || !strings.Contains(tree, "was-file l 777 /tests") {
				t.Fatalf("%s\n%s", tree, onHost(t, r, TestStdout))
			}
			trees[tree] = true
		}
		if len(trees) != 1 {
			t.Errorf("two trees: %v", trees)
		}
	})
}
