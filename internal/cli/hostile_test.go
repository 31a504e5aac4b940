package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/store"
	"assay/trial"
)

// hostileAgents each have one clear outcome; their witness passes beside them.
// MARK is replaced by a word that no other process of this machine has.
var hostileAgents = []struct {
	name, program string
	outcome       trial.Outcome
	cause         trial.Cause
}{
	{"ignores SIGTERM", `trap "" TERM; while :; do sleep 86398.MARK; done`, trial.Fail, trial.CauseAgentTimeout},
	{"stops itself", `kill -STOP $$; sleep 86398.MARK`, trial.Fail, trial.CauseAgentTimeout},
	{"fills the disk", `cat /dev/zero > /app/fill; cat /dev/zero > /tmp/fill; exit 3`, trial.Fail, trial.CauseAgentExit},
	{"kills its shell", `kill -9 $$`, trial.Fail, trial.CauseAgentCrash},
	{"kills everything", `kill -9 -1; sleep 86398.MARK`, trial.Fail, ""},
	{"leaves processes", `(setsid sleep 86398.MARK >/dev/null 2>&1 &); (setsid sh -c "sleep 1; echo 1 > /app/answer" >/dev/null 2>&1 &); exit 0`, trial.Fail, trial.CauseUnsolved},
	{"holds its output open", `sleep 86398.MARK & exit 0`, trial.Fail, trial.CauseUnsolved},
	{"plants tests and reward", `mkdir -p /tests /logs/verifier; echo 1 > /logs/verifier/reward.txt; echo '{"reward":1}' > /logs/verifier/reward.json; printf '#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n' > /tests/test.sh; chmod 555 /tests /tests/test.sh /logs/verifier; exit 0`, trial.Fail, trial.CauseUnsolved},
	{"plants links", `rm -rf /tests /logs; ln -s /etc /tests; ln -s /app /logs; ln -sf /etc/passwd /app/answer; exit 0`, trial.Inconclusive, trial.CauseRewardMalformed},
	{"forks without end", `f() { f | f & f; }; f; sleep 86398.MARK`, trial.Fail, ""},
	{"floods its output", `head -c 40000000 /dev/zero; exit 0`, trial.Fail, ""}, // how far it comes by its deadline is the machine's
	{"removes everything", `rm -rf --no-preserve-root / 2>/dev/null; exit 0`, "", ""},
}

// An agent that misbehaves has one clear outcome; the host and the other
// trials are untouched.
func TestHostileAgents(t *testing.T) {
	needSandbox(t)
	b := newCrashBed(t)
	dir := filepath.Join(scratch(t), "jobs")
	args := []string{"assay", "--store", b.store, "run", "-q", "-p", b.set, "-o", dir, "--job-name", "hostile",
		"-n", "4", "--agent-timeout", "5s", "--disk-mb", "32", "--retries", "0", "-a", "oracle"}
	specs := map[string]int{}
	for i, h := range hostileAgents {
		spec := "command:" + strings.ReplaceAll(h.program, "MARK", strings.TrimPrefix(b.marker, "86399."))
		specs[spec] = i
		args = append(args, "-a", spec)
	}
	var out, errs bytes.Buffer
	begin := time.Now()
	code := Main(args, World{Stdout: &out, Stderr: &errs, Env: os.LookupEnv})
	if code != exitDone {
		t.Fatalf("exit %d\n%s", code, &errs)
	}
	if d := time.Since(begin); d > 90*time.Second {
		t.Errorf("took %s: something waited for a hostile agent", d)
	}
	b.marker = "86398." + strings.TrimPrefix(b.marker, "86399.")
	b.nobody(t)
	v, err := store.Read(filepath.Join(dir, "hostile"))
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Trials) != len(hostileAgents)+1 {
		t.Fatalf("%d trials, want %d", len(v.Trials), len(hostileAgents)+1)
	}
	for _, tr := range v.Trials {
		if tr.Agent == "oracle" {
			if tr.Record.Outcome != trial.Pass {
				t.Errorf("the witness ended %s (%s) %s", tr.Record.Outcome, tr.Record.Cause, tr.Record.Detail)
			}
			continue
		}
		h := hostileAgents[specs[tr.Agent]]
		got := fmt.Sprintf("%s (%s) %s", tr.Record.Outcome, tr.Record.Cause, tr.Record.Detail)
		if tr.Record.Outcome == trial.Pass || tr.Record.Fault == trial.FaultInfra {
			t.Errorf("%s: ended %s", h.name, got)
		}
		if h.outcome != "" && tr.Record.Outcome != h.outcome || h.cause != "" && tr.Record.Cause != h.cause {
			t.Errorf("%s: ended %s, want %s (%s)", h.name, got, h.outcome, h.cause)
		}
	}
	if n := treeBytes(t, dir); n > 200<<20 {
		t.Errorf("the job directory holds %d bytes: an output was not capped", n)
	}
}

func treeBytes(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
