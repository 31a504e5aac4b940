package store

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/trial"
)

// edit changes the events of a closed job.
func edit(t *testing.T, j *Job, change func(log []byte) []byte) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(j.Dir(), EventsFile)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, change(b), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTornEndIsCut(t *testing.T) {
	for name, torn := range map[string]string{
		"half a line":            `{"v":1,"seq":99,"time":"2026-03-0`,
		"no line end":            `{"v":1,"seq":99,"time":"2026-03-04T05:06:07Z","kind":"note"}`,
		"zeros":                  strings.Repeat("\x00", 4096),
		"zeros and a line end":   strings.Repeat("\x00", 300) + "\n",
		"two broken lines":       "{\n}\n",
		"a line that is too big": strings.Repeat("x", maxLine+10) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			j, names := makeJob(t, 2, Options{})
			do(t, j, names[0], trial.CauseSolved)
			var whole []byte
			edit(t, j, func(b []byte) []byte { whole = bytes.Clone(b); return append(b, torn...) })
			k, rec, err := Open(j.Dir(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			if rec.CutBytes != int64(len(torn)) || rec.BadLines != 0 {
				t.Errorf("%+v", rec)
			}
			if now, err := os.ReadFile(filepath.Join(j.Dir(), EventsFile)); err != nil || !bytes.Equal(now, whole) {
				t.Errorf("the log is not what it was: %v", err)
			}
			do(t, k, names[1], trial.CauseSolved)
			if v, err := Read(j.Dir()); err != nil || v.Ended != 2 || len(v.Findings) > 0 {
				t.Errorf("%v %+v", err, v)
			}
		})
	}
}

// A result whose event was lost with the torn end is announced again, with its
// own attempt and digest.
func TestResultWithoutEventIsAnnounced(t *testing.T) {
	j, names := makeJob(t, 1, Options{})
	do(t, j, names[0], trial.CauseUnsolved)
	edit(t, j, func(b []byte) []byte { return b[:bytes.LastIndex(b[:len(b)-1], []byte("\n"))+20] })
	k, rec, err := Open(j.Dir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if !slices.Equal(rec.Reannounced, names) || rec.CutBytes == 0 || len(rec.Dropped)+len(rec.Corrupt) > 0 {
		t.Errorf("%+v", rec)
	}
	s, _ := k.State(names[0])
	if s.Finished == nil || s.Finished.Cause != trial.CauseUnsolved || s.Attempt != 1 {
		t.Errorf("%+v", s)
	}
}

func TestEventWithoutResultRunsAgain(t *testing.T) {
	j, names := makeJob(t, 2, Options{})
	do(t, j, names[0], trial.CauseSolved)
	do(t, j, names[1], trial.CauseSolved)
	if err := os.Remove(filepath.Join(j.TrialDir(names[0]), ResultFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(j.TrialDir(names[1])); err != nil {
		t.Fatal(err)
	}
	k, rec := reopen(t, j)
	if len(rec.Corrupt) != 2 || rec.Corrupt[0].Kept != ".attempts/"+names[0]+".1" || rec.Corrupt[1].Kept != "" {
		t.Errorf("%+v", rec)
	}
	for _, name := range names {
		if s, _ := k.State(name); s.Finished != nil || s.Attempt != 1 {
			t.Errorf("%+v", s)
		}
		do(t, k, name, trial.CauseSolved)
	}
}

func TestChangedResultIsCorrupt(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"a verdict turned round": func(b []byte) []byte { return bytes.Replace(b, []byte(`"unsolved"`), []byte(`"solved"`), 1) },
		"cut short":              func(b []byte) []byte { return b[:len(b)/2] },
		"emptied":                func(b []byte) []byte { return nil },
		"a space more":           func(b []byte) []byte { return append(b, ' ') },
	} {
		t.Run(name, func(t *testing.T) {
			j, names := makeJob(t, 1, Options{})
			do(t, j, names[0], trial.CauseUnsolved)
			file := filepath.Join(j.TrialDir(names[0]), ResultFile)
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			changed := change(bytes.Clone(b))
			if err := os.WriteFile(file, changed, 0o644); err != nil {
				t.Fatal(err)
			}
			v, err := Read(j.Dir())
			if err != nil || v.Trials[0].Status != TrialUnreadable || v.Trials[0].Outcome != "" || v.Ended != 0 || len(v.Trials[0].Findings) != 1 {
				t.Errorf("view: %v %+v", err, v.Trials[0])
			}
			k, rec := reopen(t, j)
			if len(rec.Corrupt) != 1 || !strings.Contains(rec.Corrupt[0].Why, "digest") {
				t.Fatalf("%+v", rec)
			}
			kept, err := os.ReadFile(filepath.Join(j.Dir(), rec.Corrupt[0].Kept, ResultFile))
			if err != nil || !bytes.Equal(kept, changed) {
				t.Errorf("the changed result was not kept: %v", err)
			}
			do(t, k, names[0], trial.CauseSolved)
			if s, _ := k.State(names[0]); s.Attempt != 2 || s.Finished == nil {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A crash between making the directory and saying so, and a stray directory.
func TestDirectoriesWithoutEvents(t *testing.T) {
	j, names := makeJob(t, 1, Options{})
	for _, dir := range []string{filepath.Join(j.TrialDir(names[0]), AgentDir), filepath.Join(j.Dir(), "notes")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	k, rec := reopen(t, j)
	if len(rec.Dropped) != 1 || rec.Dropped[0].Attempt != 1 {
		t.Errorf("%+v", rec)
	}
	if _, err := os.Stat(filepath.Join(j.Dir(), "notes")); err != nil {
		t.Errorf("a directory that is no trial was moved: %v", err)
	}
	s, _ := k.State(names[0])
	if _, err := k.Begin(names[0], s.Attempt+1, s.Planned); err != nil || s.Attempt != 1 {
		t.Errorf("%+v %v", s, err)
	}
}

func TestRepeatedAndUnknownEvents(t *testing.T) {
	j, names := makeJob(t, 1, Options{})
	if err := j.Announce("weather", names[0], 1, map[string]int{"rain": 3}); err != nil {
		t.Fatal(err)
	}
	do(t, j, names[0], trial.CauseSolved)
	var n int
	edit(t, j, func(b []byte) []byte {
		all := bytes.SplitAfter(b, []byte("\n"))
		n = len(all) - 1
		// a line twice, rubbish between, a newer version's event at the end
		out := bytes.Join(append(slices.Clone(all[:3]), all[2]), nil)
		out = append(out, "rubbish\n"...)
		out = append(out, bytes.Join(all[3:], nil)...)
		return append(out, `{"v":7,"seq":500,"time":"2026-03-04T05:06:07Z","kind":"judged","data":[1]}`+"\n"...)
	})
	v, err := Read(j.Dir())
	if err != nil || len(v.Events) != n+1 || v.Ended != 1 || len(v.Findings) != 2 {
		t.Fatalf("%v: %d events of %d, findings %v", err, len(v.Events), n, v.Findings)
	}
	if e := v.Events[2]; e.Kind != "weather" || string(e.Data) != `{"rain":3}` {
		t.Errorf("an unknown kind was not kept: %+v", e)
	}
	k, rec, err := Open(j.Dir(), Options{})
	if err != nil || rec.BadLines != 1 || rec.Repeated != 1 || rec.CutBytes != 0 {
		t.Fatalf("%+v %v", rec, err)
	}
	defer k.Close()
	if err := k.Announce(trial.Noted, "", 0, nil); err != nil {
		t.Fatal(err)
	}
	v, err = Read(j.Dir())
	if err != nil || v.Events[len(v.Events)-1].Seq != 501 {
		t.Errorf("seq does not go on after 500: %v", err)
	}
}

// What a commit promises: the attempt's files, then the result, then its
// directory, then the event are made durable, in this order.
func TestCommitSyncsInOrder(t *testing.T) {
	j, names := makeJob(t, 1, Options{})
	dir, err := j.Begin(names[0], 1, plannedTask(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{TestOutputFile, DiffFile} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, ArtifactsDir, "link")); err != nil {
		t.Fatal(err)
	}
	synced := make(chan string, 100)
	record := func(f *os.File) error { synced <- f.Name(); return f.Sync() }
	j.disk.fsync, j.log.disk.fsync = record, record
	if err := j.CommitResult(names[0], 1, result(t, j, names[0], trial.CauseSolved, 1)); err != nil {
		t.Fatal(err)
	}
	close(synced)
	var order []string
	for name := range synced {
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, rel)
	}
	last := []string{"..", tempPrefix + ResultFile, ".", "../" + EventsFile}
	first := order[:len(order)-len(last)]
	if !slices.Equal(order[len(first):], last) {
		t.Errorf("synced %v, want %v at the end", order, last)
	}
	for _, want := range []string{".", AgentDir, VerifierDir, ArtifactsDir, TestOutputFile, DiffFile} {
		if !slices.Contains(first, want) {
			t.Errorf("%s was not synced before the result", want)
		}
	}
	if slices.Contains(first, ArtifactsDir+"/link") {
		t.Error("a link was followed")
	}
}

// Only what commits is synced: a step event is not worth a disk's round trip.
func TestEventsThatAreSynced(t *testing.T) {
	j, names := makeJob(t, 1, Options{})
	n := 0
	j.log.disk.fsync = func(f *os.File) error { n++; return nil }
	for kind, want := range map[trial.Kind]int{trial.StepMade: 0, trial.PhaseStarted: 0, trial.TrialStarted: 0, trial.JobCancelled: 1, trial.JobFinished: 1} {
		n = 0
		if err := j.Announce(kind, names[0], 1, nil); err != nil {
			t.Fatal(err)
		}
		if n != want {
			t.Errorf("%s: %d syncs, want %d", kind, n, want)
		}
	}
}
