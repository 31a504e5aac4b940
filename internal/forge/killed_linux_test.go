package forge

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// killedDir names the world of a forge that is to be killed, in its environment.
const killedDir = "ASSAY_TEST_KILLED_FORGE"

// few are candidates that all become tasks.
func few(t *testing.T) []Generator {
	b := bugs(t)
	return []Generator{&hand{name: "few", all: func(w *World) []Candidate {
		all := b.all(w)
		return []Candidate{all[0], all[1], all[len(all)-1]} // one of them does not bite
	}}, faults(t)}
}

// TestForgeToBeKilled is the process that TestForgeKilled kills.
func TestForgeToBeKilled(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		return
	}
	cfg := worldIn(t, dir).config(few(t)...)
	cfg.Concurrent = 1
	if _, err := Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// A forge that was killed at any moment goes on: nothing is tried twice, nothing
// is half-written, nothing is left over.
func TestForgeKilled(t *testing.T) {
	w := newWorld(t)
	set := filepath.Join(w.dir, "set")
	for i, sign := range []string{".forge/tmp/look", ".forge/tmp/proof-*", "tiny-*/task.toml"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestForgeToBeKilled$", "-test.timeout=5m")
		cmd.Env = append(os.Environ(), killedDir+"="+w.dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			if seen, _ := filepath.Glob(filepath.Join(set, sign)); len(seen) > 0 {
				break
			}
			select {
			case err := <-ended:
				t.Fatalf("it ended before %s: %v", sign, err)
			default:
			}
			if time.Since(begin) > 4*time.Minute {
				t.Fatalf("no %s", sign)
			}
		}
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-ended
		t.Logf("killed at %s", []string{"its first look", "a proof", "an admission"}[i])
	}
	before := w.digests()
	if len(before) == 0 {
		t.Fatal("nothing was admitted before the last kill")
	}
	var again []string
	cfg := w.config(few(t)...)
	cfg.OnRecord = func(r Record) {
		if before[r.Task] != "" {
			again = append(again, r.Task)
		}
	}
	rep, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(again) > 0 || len(rep.Tasks) != 5 || rep.Lost != 0 {
		t.Errorf("again: %q; %d tasks, %d lost; %+v", again, len(rep.Tasks), rep.Lost, rep.Generators)
	}
	keys := map[string]bool{}
	l, err := openLedger(filepath.Join(set, Home, "ledger.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, r := range l.all {
		if r.Stage != StageRun && keys[r.Key] {
			t.Errorf("%s has two records", r.Name)
		}
		keys[r.Key] = true
	}
	after := w.digests()
	for name, d := range before {
		if after[name] != d {
			t.Errorf("%s has changed", name)
		}
	}
	for name := range after {
		w.sound(name)
	}
	left, err := filepath.Glob(filepath.Join(set, Home, "*"))
	for _, p := range left {
		if name := filepath.Base(p); err == nil && (name == "tmp" || name[0] == '.') {
			t.Errorf("%s is left over", p)
		}
	}
}
