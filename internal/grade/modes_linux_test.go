package grade

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"assay/internal/image"
	"assay/task"
	"assay/trial"
)

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
