package grade

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

// From inside both runs look the same: the same names, kinds, modes and owners,
// and nothing of the sandbox differs but the content of what has a canary.
func TestRunsLookAlike(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		r := w.planned(w.agent(`echo new >main.txt`), suitePlan)
		var after []func()
		r.Later = func(f func()) { after = append(after, f) }
		w.spy.forget()
		w.judged(r, trial.CauseSolved, trial.Canaried)
		defer func() {
			for _, f := range after {
				f()
			}
		}()
		specs := w.spy.specs
		if len(specs) < 2 {
			t.Fatalf("%d sandboxes", len(specs))
		}
		trees, tops := make([][]string, len(specs)), map[image.LayerID]bool{}
		made := map[image.LayerID]bool{}
		for i, s := range specs {
			top := s.Extra[len(s.Extra)-1]
			if tops[top] {
				t.Errorf("two runs share the layer %s", top)
			}
			tops[top] = true
			if made[top] {
				t.Error("one layer for several runs: its times tell them apart from others")
			}
			made[top] = true
			for e, err := range w.store.Entries(top) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Type == image.TypeWhiteout { // what makes each layer one of its own
					continue
				}
				trees[i] = append(trees[i], fmt.Sprint(e.Path, e.Type, e.Mode, e.UID, e.GID, e.ModTime))
			}
			specs[i].Extra = s.Extra[:len(s.Extra)-1]
		}
		for i := range specs {
			if !slices.Equal(trees[0], trees[i]) {
				t.Errorf("%q\n%q", trees[0], trees[i])
			}
			if a, b := fmt.Sprintf("%+v", specs[0]), fmt.Sprintf("%+v", specs[i]); a != b {
				t.Errorf("%s\n%s", a, b)
			}
		}
	})
}

// What the grader puts there is younger than the work in every run, so that no
// time or inode tells one from the other.
func TestTestsAreYoungerThanTheWork(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		if !w.walls {
			return // there trees are copies, made all at once
		}
		w.planImage()
		plan := strings.Replace(suitePlan, `run = '. "$R/tests/suite.sh"'`,
			`run = '[ "$(stat -c %i /tests/want/main)" != 0 ] || exit 9; w=$(stat -c %z main.txt) t=$(stat -c %z /tests/want/main); [ "$(printf "%s\n%s\n" "$w" "$t" | sort | head -1)" = "$w" ] || exit 9; . /tests/suite.sh'`, 1)
		end := w.agent(`echo new >main.txt; echo x >"$R/etc/dropped"`)
		for i := range 4 {
			r := w.planned(end, plan)
			r.Key.Grade, r.Trial = task.GradePatch, fmt.Sprint("trial-", i)
			r.Key.Protected = []string{"/etc/dropped"}
			w.judged(r, trial.CauseForbiddenChange, trial.Canaried)
			if out := onHost(t, r, EvidenceFile); strings.Contains(out, `"exit": 9`) {
				t.Errorf("%s", out)
			}
		}
	})
}

// A repetition without canaries is one run, and says that it rests on the report.
func TestPlain(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		r := w.planned(w.agent(`echo new >main.txt`), suitePlan)
		r.Plain = true
		w.spy.forget()
		w.judged(r, trial.CauseSolved, trial.SelfReported)
		if n := len(w.spy.specs); n != 1 {
			t.Errorf("%d sandboxes", n)
		}
	})
}

// Which run comes first is drawn, and both orders happen.
func TestOrderOfRuns(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		end := w.agent(`echo new >main.txt`)
		seen := map[string]bool{}
		for i := range 12 {
			r := w.planned(end, suitePlan)
			r.Trial = fmt.Sprint("trial-", i)
			w.judged(r, trial.CauseSolved, trial.Canaried)
			for _, first := range []string{"real", "canary"} {
				seen[first] = seen[first] || strings.Contains(onHost(t, r, EvidenceFile), `"first": "`+first+`"`)
			}
			if len(seen) == 2 && seen["real"] && seen["canary"] {
				return
			}
		}
		t.Errorf("%v", seen)
	})
}

// Files of a size that nobody can read hold nobody up.
func TestEndlessFiles(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		plan := strings.Replace(suitePlan, `run = '. "$R/tests/suite.sh"'`, `run = '. "$R/tests/suite.sh"; truncate -s 4000P big out/big.xml 2>/dev/null || truncate -s 7T big out/big.xml; mkdir big.d; exit $f'`, 1) + `
[[commands]]
name = "other"
run = "exit 1"
report = "pytest"
files = ["out/*.xml"]
pass_to_pass = ["t::other"]
[[state]]
name = "big"
baseline = true
path = "big"
contains = "x"
[[state]]
name = "mode"
baseline = true
path = "big.d"
mode = "0755"
`
		v := w.judged(w.planned(w.agent(`echo new >main.txt; mkdir out`), plan), trial.CauseVoid, trial.SelfReported)
		if !strings.Contains(v.Checks.Void, "other") {
			t.Errorf("%+v", v.Checks)
		}
	})
}

// A directory is looked at by itself, whatever lies beside it or in it.
func TestStateOfDirectories(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		const plan = `version = 1
[[commands]]
name = "c"
run = '(truncate -s 4000P big || truncate -s 7T big) 2>/dev/null; mkdir d empty; chmod 750 d; echo x >d/d; mkfifo pipe; perl -MSocket -e "socket(S, PF_UNIX, SOCK_STREAM, 0) && bind(S, sockaddr_un(q(sock)))"; :'
[[state]]
name = "s"
`
		for state, cause := range map[string]trial.Cause{
			"path = 'd'\ntype = 'dir'\nmode = '0750'": trial.CauseSolved,
			"path = 'empty'\ntype = 'dir'":            trial.CauseSolved,
			"path = 'd/d'\ncontains = 'x'":            trial.CauseSolved,
			"path = 'd'\ntype = 'file'":               trial.CauseTestMismatch,
			"path = 'pipe'\nabsent = true":            trial.CauseTestMismatch,
			"path = 'pipe'\ntype = 'file'":            trial.CauseTestMismatch,
			"path = 'sock'\nabsent = true":            trial.CauseTestMismatch,
		} {
			if _, err := exec.LookPath("perl"); err != nil && strings.Contains(state, "sock") {
				continue
			}
			w.judged(w.planned(w.agent(`echo new >main.txt`), plan+state+"\n"), cause, trial.SelfReported)
		}
	})
}

// Many placed files are compared by the stream of the directory that holds
// them, and each alone where that holds too much.
func TestManyPlaced(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		var files []content
		for i := range 50 {
			files = append(files, file(fmt.Sprintf("repo/many/f%02d", i), fmt.Sprintln(i)))
		}
		for _, c := range []struct {
			run   string
			cause trial.Cause
			host  trial.Cause // where nothing holds files back
		}{
			{`cat many/f07 many/f49 && mkdir many/cache && ln many/f01 many/cache/second`, trial.CauseSolved, trial.CauseSolved},
			{`truncate -s 8T many/a`, trial.CauseSolved, trial.CauseSolved},
			{`echo 1 >many/f07; exit 0`, trial.CauseSolved, trial.CauseVoid},
			{`truncate -s 8T many/a; rm -f many/f30; exit 0`, trial.CauseSolved, trial.CauseVoid},
		} {
			plan := "version = 1\n[place]\nrepo = \".\"\n[[commands]]\nname = \"c\"\nrun = '''" + c.run + "'''\n"
			want := c.host
			if w.spy.Capabilities().ReadOnly {
				want = c.cause
			}
			if strings.Contains(c.run, "ln ") && w.spy.Capabilities().ReadOnly {
				plan = strings.Replace(plan, " && ln many/f01 many/cache/second", "", 1) // a mount has one name
			}
			w.judged(w.planned(w.agent(`echo x >many; echo y >x`), plan, files...), want, trial.SelfReported)
		}
	})
}

// A plan holds in the other modes of verification too, with what they can give.
func TestPlanModes(t *testing.T) {
	plan := strings.Replace(suitePlan, `forbidden = ["*.lock", "/etc/**"]`, "", 1)
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		t.Run("separate", func(t *testing.T) {
			w := w.of(t)
			r := w.planned(EndState{}, plan)
			r.Mode = task.VerifierSeparate
			r.Key.Artifacts = []task.Artifact{{Source: "/app/main.txt"}}
			sb := w.live(`echo new >main.txt`)
			r.Artifacts = image.HostPath(t.TempDir())
			if _, err := Collect(t.Context(), CollectRequest{Sandbox: sb, Key: r.Key, Artifacts: r.Artifacts}); err != nil {
				t.Fatal(err)
			}
			w.judged(r, trial.CauseSolved, trial.Canaried)
		})
		t.Run("live", func(t *testing.T) {
			w := w.of(t)
			r := w.planned(EndState{}, plan+"\n[[state]]\nname = \"server\"\nbaseline = true\nno_process = \"nobody-at-all\"\n")
			r.Mode = task.VerifierLive
			r.Live = w.live(`echo new >main.txt; mkdir -p "$R/tests/want"; echo old >"$R/tests/want/main"; sleep 1000 >/dev/null 2>&1 &`)
			w.judged(r, trial.CauseSolved, trial.SelfReported)
			r.Out = image.HostPath(t.TempDir())
			r.Key.Tests = w.planned(EndState{}, plan+"\n[[state]]\nname = \"server\"\nbaseline = true\nno_process = \"sleep 1000\"\n").Key.Tests
			w.run(r.Live, `sleep 1000 >/dev/null 2>&1 &`)
			if w.walls { // there the host's processes are not to be seen
				w.judged(r, trial.CauseRegression, trial.SelfReported)
			}
			r.Out = image.HostPath(t.TempDir())
			r.Key.Tests = w.planned(EndState{}, "forbidden = [\"main.*\"]\n"+plan).Key.Tests
			if w.walls {
				w.judged(r, trial.CauseForbiddenChange, trial.SelfReported)
			} else if v := w.grade(r); !slices.ContainsFunc(v.Notes, func(n string) bool { return strings.Contains(n, "forbids") }) {
				t.Errorf("that nothing is looked for is not said: %q", v.Notes)
			}
		})
	})
}

var _ sandbox.Backend = (*spy)(nil)

// Output that is to be a report, and holds nothing of one, is a runner that did
// not begin: what was expected is missing. With status 0 it is a lie.
func TestOutputWithoutReport(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		for _, c := range []struct {
			run   string
			cause trial.Cause
		}{
			{"echo 'error: failed to parse lock file'; exit 101", trial.CauseMissingTest},
			{"echo 'error: failed to parse lock file'", trial.CauseVoid},
			{"echo 'running 1 test'; echo 'test a ... ok'; exit 101", trial.CauseVoid},
		} {
			plan := "version = 1\n[[commands]]\nname = \"c\"\nreport = \"cargo-test\"\nrun = \"\"\"" + c.run + "\"\"\"\nfail_to_pass = [\"a\"]\n"
			w.judged(w.planned(w.agent(`echo y >x`), plan), c.cause, trial.SelfReported)
		}
	})
}
