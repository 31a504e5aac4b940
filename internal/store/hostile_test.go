package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/trial"
)

// harborDir makes a job directory of Harbor's shape with the given trials'
// result.json.
func harborDir(t testing.TB, results map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "job")
	write(t, filepath.Join(dir, ConfigFile), "{}")
	write(t, filepath.Join(dir, LogFile), "")
	write(t, filepath.Join(dir, ResultFile), `{"id":"x","started_at":"2026-03-04T05:06:07","n_total_trials":2,"stats":{}}`)
	for name, b := range results {
		write(t, filepath.Join(dir, name, ResultFile), b)
	}
	return dir
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const goodResult = `{"trial_name":"good__1","task_name":"a","agent_info":{"name":"x","version":"1"},"verifier_result":{"rewards":{"reward":1}}}`

// Whatever one trial's directory holds, the others are read, nothing outside
// is opened, and a finding names what is wrong.
func TestHostileTrials(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.json")
	write(t, secret, goodResult)
	for name, c := range map[string]struct {
		make func(t *testing.T, trial string)
		want string // in a finding of the trial, or of the job when it starts with "job:"
	}{
		"result is a link out":    {func(t *testing.T, d string) { link(t, secret, filepath.Join(d, ResultFile)) }, "link"},
		"result is a link inside": {func(t *testing.T, d string) { link(t, "../good__1/result.json", filepath.Join(d, ResultFile)) }, "link"},
		"result is a pipe":        {func(t *testing.T, d string) { pipe(t, filepath.Join(d, ResultFile)) }, "not a regular file"},
		"result is a directory":   {func(t *testing.T, d string) { write(t, filepath.Join(d, ResultFile, "x"), "") }, "not a regular file"},
		"result is huge":          {func(t *testing.T, d string) { sparse1(t, filepath.Join(d, ResultFile), 10<<30) }, "too large"},
		"result is broken":        {func(t *testing.T, d string) { write(t, filepath.Join(d, ResultFile), `{"id":`) }, "unexpected end"},
		"result is deep":          {func(t *testing.T, d string) { write(t, filepath.Join(d, ResultFile), strings.Repeat("[", 1<<20)) }, "depth"},
		"result is another thing": {func(t *testing.T, d string) { write(t, filepath.Join(d, ResultFile), `{"a":1}`) }, "names no trial"},
		"record of a newer version": {func(t *testing.T, d string) {
			write(t, filepath.Join(d, ResultFile), `{"trial_name":"b","agent_result":{"metadata":{"assay":{"v":99}}}}`)
		}, "newer"},
		"unregistered cause": {func(t *testing.T, d string) {
			write(t, filepath.Join(d, ResultFile), `{"trial_name":"b","agent_result":{"metadata":{"assay":{"v":1,"cause":"luck"}}}}`)
		}, "not registered"},
		"agent directory is a link": {func(t *testing.T, d string) {
			write(t, filepath.Join(d, ResultFile), goodResult)
			link(t, filepath.Dir(secret), filepath.Join(d, AgentDir))
		}, "link"},
		"trajectory is a link": {func(t *testing.T, d string) {
			write(t, filepath.Join(d, ResultFile), goodResult)
			write(t, filepath.Join(d, AgentDir, "x"), "")
			link(t, secret, filepath.Join(d, TrajectoryFile))
		}, "link"},
		"test output is a pipe": {func(t *testing.T, d string) {
			write(t, filepath.Join(d, ResultFile), goodResult)
			write(t, filepath.Join(d, VerifierDir, "x"), "")
			pipe(t, filepath.Join(d, TestOutputFile))
		}, "not a regular file"},
		"the trial itself is a link": {func(t *testing.T, d string) { os.Remove(d); link(t, "good__1", d) }, "job:neither"},
		"the trial itself is a pipe": {func(t *testing.T, d string) { os.Remove(d); pipe(t, d) }, "job:neither"},
		"steps is a link": {func(t *testing.T, d string) {
			write(t, filepath.Join(d, ResultFile), goodResult)
			link(t, "/", filepath.Join(d, StepsDir))
		}, ""},
		"a lock that is no JSON": {func(t *testing.T, d string) {
			write(t, filepath.Join(d, ResultFile), goodResult)
			write(t, filepath.Join(d, LockFile), "[")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := harborDir(t, map[string]string{"good__1": goodResult})
			bad := filepath.Join(dir, "bad__1")
			if err := os.Mkdir(bad, 0o755); err != nil {
				t.Fatal(err)
			}
			c.make(t, bad)
			v := readSoon(t, dir)
			var good, other *Trial
			for _, tr := range v.Trials {
				if tr.Name == "good__1" {
					good = tr
				} else {
					other = tr
				}
			}
			if good == nil || good.Outcome != trial.Pass || len(good.Findings) > 0 {
				t.Fatalf("the good trial: %+v", good)
			}
			found := fmt.Sprint(v.Findings)
			if want, ofJob := strings.CutPrefix(c.want, "job:"); ofJob {
				if other != nil || !strings.Contains(found, want) {
					t.Errorf("trial %+v, findings of the job %s", other, found)
				}
				return
			}
			if found = fmt.Sprint(other.Findings); !strings.Contains(found, c.want) || c.want == "" && len(other.Findings) > 0 {
				t.Errorf("findings %s, want %q", found, c.want)
			}
			if doc, err := other.Trajectory(""); doc != nil {
				t.Errorf("a trajectory was read through a link: %+v %v", doc, err)
			}
			for _, name := range []string{"", ".", "/", "..", "agent/"} {
				if f, err := other.Open(name); err == nil {
					f.Close()
					t.Errorf("opened %q", name)
				}
			}
			if f, err := other.Open("../good__1/result.json"); err == nil {
				f.Close()
				t.Error("opened a file outside of the trial")
			}
		})
	}
}

// readSoon fails instead of hanging.
func readSoon(t *testing.T, dir string) *View {
	t.Helper()
	type answer struct {
		v   *View
		err error
	}
	got := make(chan answer, 1)
	go func() {
		v, err := Read(dir)
		got <- answer{v, err}
	}()
	select {
	case a := <-got:
		if a.err != nil {
			t.Fatal(a.err)
		}
		return a.v
	case <-time.After(10 * time.Second):
		t.Fatal("Read hangs")
	}
	return nil
}

func link(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

func pipe(t *testing.T, name string) {
	t.Helper()
	if err := syscall.Mkfifo(name, 0o644); err != nil {
		t.Fatal(err)
	}
}

func sparse1(t *testing.T, name string, size int64) {
	t.Helper()
	write(t, name, "")
	if err := os.Truncate(name, size); err != nil {
		t.Skipf("no sparse files of %d bytes here: %v", size, err)
	}
}

func TestOddNames(t *testing.T) {
	results := map[string]string{}
	for _, name := range []string{"new\nline__1", "bell\x07__1", "bad\xff\xfe__1", "<script>__1", "täsk__1", "a b__1", strings.Repeat("x", 250)} {
		results[name] = strings.ReplaceAll(goodResult, "good__1", "n")
	}
	dir := harborDir(t, results)
	v := readSoon(t, dir)
	odd := 0
	for _, tr := range v.Trials {
		if tr.Outcome != trial.Pass {
			t.Errorf("%q: %s %v", tr.Name, tr.Status, tr.Findings)
		}
		odd += len(tr.Findings)
	}
	if len(v.Trials) != 7 || odd != 3 {
		t.Errorf("%d trials, %d findings; want 7 and one for each name that no terminal should see", len(v.Trials), odd)
	}
}

// Names that only hostile events give never become paths.
func TestEventsNameNoPaths(t *testing.T) {
	j, _ := makeJob(t, 1, Options{})
	for _, name := range []string{"../../etc", "/etc", "..", ".attempts", "a/../b", "x\x00y"} {
		if err := j.Announce(trial.TrialFinished, name, 1, trial.Finished{Digest: "sha256:0"}); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(j.Dir(), AttemptsDir, ResultFile), goodResult)
	for _, tr := range readSoon(t, j.Dir()).Trials[1:] {
		if tr.Outcome != "" || len(tr.Findings) == 0 {
			t.Errorf("%q: %+v", tr.Name, tr)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	k, rec, err := Open(j.Dir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for _, s := range rec.Corrupt {
		if s.Kept != "" {
			t.Errorf("%q was moved: %+v", s.Trial, s)
		}
	}
	if len(rec.Corrupt) != 6 {
		t.Errorf("%d set back, want 6", len(rec.Corrupt))
	}
}

// Files of a job that are hostile themselves.
func TestHostileJobs(t *testing.T) {
	dir := harborDir(t, map[string]string{"good__1": goodResult})
	write(t, filepath.Join(dir, ResultFile), `{"n_total_trials":1e300,"started_at":[1],"stats":7}`)
	if v := readSoon(t, dir); v.Planned != 1 || v.Ended != 1 || len(v.Findings) != 1 {
		t.Errorf("planned %d, ended %d, %v", v.Planned, v.Ended, v.Findings)
	}
	os.Remove(filepath.Join(dir, ResultFile))
	pipe(t, filepath.Join(dir, ResultFile))
	if v := readSoon(t, dir); v.Ended != 1 || len(v.Findings) != 1 {
		t.Errorf("%v", v.Findings)
	}
	pipe(t, filepath.Join(dir, EventsFile))
	if _, err := Read(dir); err == nil {
		t.Error("a pipe was read as events")
	}
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("an empty directory was read as a job")
	}
	if _, err := Read(filepath.Join(dir, "nothing")); err == nil {
		t.Error("nothing was read as a job")
	}
}
