package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"assay/trial"
)

func TestListAndRemove(t *testing.T) {
	top := t.TempDir()
	var dirs []string
	for i, rel := range []string{"a", "deep/er/b", ".hidden/c", "d"} {
		j, err := Create(filepath.Join(top, rel), Meta{Info: trial.JobInfo{Trials: 2}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Announce(trial.TrialPlanned, "x__1", 0, plannedTask(i)); err != nil {
			t.Fatal(err)
		}
		switch rel {
		case "a":
			do(t, j, "x__1", trial.CauseSolved)
			if err := j.Announce(trial.JobFinished, "", 0, nil); err != nil {
				t.Fatal(err)
			}
		case "deep/er/b":
			if err := j.Announce(trial.JobCancelled, "", 0, nil); err != nil {
				t.Fatal(err)
			}
		}
		if rel != "d" {
			j.Close()
		} else {
			defer j.Close()
		}
		dirs = append(dirs, j.Dir())
	}
	if err := os.Symlink(top, filepath.Join(top, "loop")); err != nil {
		t.Fatal(err)
	}
	jobs, err := List(top)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range jobs {
		got = append(got, fmt.Sprintf("%s %s %d/%d pass %d", j.Name, j.State, j.Finished, j.Planned, j.Outcomes[trial.Pass]))
	}
	if want := "[d running 0/2 pass 0 b cancelled 0/2 pass 0 a finished 1/2 pass 1]"; fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
	if _, err := List(filepath.Join(top, "nothing")); err == nil {
		t.Error("listed nothing")
	}
	// An agent left a directory that nobody may enter.
	locked := filepath.Join(dirs[0], "x__1", ArtifactsDir, "locked")
	write(t, filepath.Join(locked, "f"), "")
	if err := os.Chmod(locked, 0); err != nil {
		t.Fatal(err)
	}
	if err := Remove(dirs[0]); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(top, ".removed*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left %v %v", left, err)
	}
	if jobs, err = List(top); err != nil || len(jobs) != 2 {
		t.Errorf("%d jobs after one was removed, %v", len(jobs), err)
	}
	if err := os.Symlink(dirs[1], filepath.Join(top, "alias")); err != nil {
		t.Fatal(err)
	}
	if err := Remove(filepath.Join(top, "alias")); err == nil {
		t.Error("removed through a link")
	}
}

func TestTrialNames(t *testing.T) {
	for task, stem := range map[string]string{
		"demo/hello-world":                "hello-world",
		"plain":                           "plain",
		"demo/" + strings.Repeat("a", 40): strings.Repeat("a", 32),
		"demo/" + strings.Repeat("a", 31) + "_-b": strings.Repeat("a", 31),
		"demo/ends_-_":                    "ends",
		"demo/..":                         "task",
		"demo/.hidden":                    "hidden",
		"demo/":                           "task",
		"new\nline":                       "new-line",
		"demo/" + strings.Repeat("ä", 40): strings.Repeat("ä", 32),
	} {
		name := TrialName(task)
		at := len(name) - 9
		if name[:at] != stem || name[at:at+2] != "__" || strings.Trim(name[at+2:], trialLetters) != "" {
			t.Errorf("%q → %q, want %q and 7 letters", task, name, stem)
		}
		if err := goodTrialName(name); err != nil || !utf8.ValidString(name) {
			t.Errorf("%q → %q: %v", task, name, err)
		}
		if TrialName(task) == name {
			t.Errorf("%q: the same name twice", task)
		}
	}
}

func TestIDsAndURIs(t *testing.T) {
	id := NewID()
	if len(id) != 36 || id[14] != '4' || !strings.ContainsRune("89ab", rune(id[19])) || id == NewID() {
		t.Errorf("%q is no random UUID", id)
	}
	if got := FileURI("/a b/ü"); got != "file:///a%20b/%C3%BC" {
		t.Errorf("%q", got)
	}
}

// BenchmarkRead reads a job of 1,500 trials with a trajectory each.
func BenchmarkRead(b *testing.B) {
	dir := largeJob(b, 1500)
	for b.Loop() {
		v, err := Read(dir)
		if err != nil || v.Ended != 1500 {
			b.Fatal(err, v.Ended)
		}
	}
}

func largeJob(t testing.TB, n int) string {
	t.Helper()
	j, names := makeJob(t, n, Options{})
	j.disk.fsync = func(*os.File) error { return nil }
	j.log.disk.fsync = j.disk.fsync
	for _, name := range names {
		dir, err := j.Begin(name, 1, plannedTask(1))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []string{TrajectoryFile, TestOutputFile, DiffFile, RewardNotesFile} {
			if err := os.WriteFile(filepath.Join(dir, f), []byte("{}"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range trial.Phases() {
			for _, k := range []trial.Kind{trial.PhaseStarted, trial.PhaseFinished} {
				if err := j.Announce(k, name, 1, trial.PhaseMark{Phase: p, Millis: 1}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := j.CommitResult(name, 1, result(t, j, name, trial.CauseSolved, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return j.Dir()
}
