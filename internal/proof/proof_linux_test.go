package proof

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/sandbox"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// proofFile reads a task's proof.json; nil if it has none.
func proofFile(t *testing.T, x *task.Task) *Proof {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(x.Dir, File))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var p Proof
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

func stale(t *testing.T, x *task.Task) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(x.Dir, File), []byte(`{"v": 1, "proved": true}`), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A solution of some lines, and an image in which they stand.
const (
	longSolve = "#!/bin/sh\ncat >/app/answer.txt <<'END'\nthe quick solution of this problem takes\nseveral long lines of careful text\nEND\necho done >/app/answer\n"
	leaky     = "FROM host\nRUN mkdir -p /app /var/cache/old && printf 'the quick solution of this problem takes\\nseveral long lines of careful text\\ndone\\n' >/var/cache/old/x\n"
)

// A sound task gets a proof that says what was shown, and under which
// conditions; one that is not sound loses a stale one, with the reason.
func TestProve(t *testing.T) {
	w := newWorld(t)
	sound := w.task("sound", nil)
	digest, err := task.Digest(sound.Dir)
	if err != nil {
		t.Fatal(err)
	}
	built := "[environment]\nworkdir = \"/app\"\n[metadata.assay]\ngrade = \"patch\"\n"
	state := strings.Replace(built, "patch", "state", 1)
	const sources = "FROM host\nRUN mkdir /app && echo '/* main */' >/app/main.c\n"
	tasks := []*task.Task{
		sound,
		w.task("gold-fails", files{"solution/solve.sh": "#!/bin/sh\n"}),
		w.task("nop-passes", files{"tests/test.sh": "#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n"}),
		w.task("nop-inconclusive", files{"tests/test.sh": "#!/bin/sh\n[ -e answer ] && echo 1 >/logs/verifier/reward.txt\n"}),
		w.task("live", files{"task.toml": taskTOML + "[verifier]\nenvironment_mode = \"shared\"\n"}),
		w.task("broken", files{"task.toml": "[environment]\nworkdir = \"/app\"\n"}),
		w.task("slow", files{"task.toml": taskTOML + "[verifier]\ntimeout_sec = 4\n", "tests/test.sh": testSh + "sleep 2.2\n"}),
		w.task("loose", files{"task.toml": state, "environment/Dockerfile": sources, "tests/test.sh": "#!/bin/sh\nif [ \"$(cat /app/answer)\" = done ] || [ \"$(wc -l </app/main.c)\" -gt 1 ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n"}),
		w.task("firm", files{"task.toml": state, "environment/Dockerfile": sources}),
		w.task("leaky", files{"task.toml": built, "environment/Dockerfile": leaky, "solution/solve.sh": longSolve}),
	}
	why := map[string]string{"gold-fails": "gold ended fail (unsolved)", "nop-passes": "doing nothing ended pass", "nop-inconclusive": "doing nothing ended inconclusive (reward_missing)",
		"live": "graded live", "broken": "neither Dockerfile nor docker_image", "slow": "% of the verifier's time",
		"loose": "a harmless edit of the sources ended pass (solved) instead of fail", "leaky": "the solution can be read: /var/cache/old/x holds 2 of 2 lines"}
	for _, x := range tasks[1:] {
		if x.Name != "firm" {
			stale(t, x)
		}
	}
	proofs, err := w.prove(t.Context(), "prove", tasks...)
	if err != nil || len(proofs) != len(tasks) {
		t.Fatalf("%d proofs, %v", len(proofs), err)
	}
	for i, p := range proofs {
		onDisk := proofFile(t, tasks[i])
		if reason, bad := why[p.Task]; bad {
			if p.Proved || onDisk != nil || !strings.Contains(p.said(), reason) {
				t.Errorf("%s: proved %v, on disk %v, reasons %q; want %q", p.Task, p.Proved, onDisk != nil, p.Reasons, reason)
			}
			continue
		}
		if d := cmp.Diff(&p, onDisk); d != "" {
			t.Errorf("the proof on disk is another (-returned +read):\n%s", d)
		}
		runs := 4
		if p.Task == "firm" {
			runs, digest = 5, p.Digest
		}
		if !p.Proved || p.V != 2 || p.Level != Quick || !p.Local || p.Digest != digest || p.Image == "" || p.By != "test" || len(p.Runs) != runs || len(p.Reasons) != 0 || p.ProvedAt.IsZero() {
			t.Errorf("%+v", p)
		}
		if m := p.Modes; m.Backend != "ns" || m.UID == "" || m.Verifier != "sealed" || m.Network != "none" || m.VerifierNetwork != "none" {
			t.Errorf("modes %+v", m)
		}
		if h := p.Headroom; h == nil || h.LimitMillis != 600_000 || h.TestsMillis <= 0 || h.TimeShare > 0.5 {
			t.Errorf("headroom %+v", p.Headroom)
		}
		if got, ok := Read(image.HostPath(tasks[i].Dir), digest); !ok || got.Words() != "proved (quick, local)" {
			t.Errorf("read back: %v, %+v", ok, got)
		}
		if _, ok := Read(image.HostPath(tasks[i].Dir), "sha256:other"); ok {
			t.Error("a proof of another task's content counts")
		}
	}
	if now, err := task.Digest(sound.Dir); err != nil || now != proofs[0].Digest {
		t.Errorf("the proof changed the task's digest: %s, %v", now, err)
	}
}

// What infrastructure lost proves nothing and disproves nothing; neither does
// an interruption.
func TestProveKeepsAnOlderProof(t *testing.T) {
	w := newWorld(t)
	x := w.task("x", nil)
	stale(t, x)
	w.lossy.fail = func() error { return sandbox.ErrLost }
	proofs, err := w.prove(t.Context(), "lost", x)
	if err != nil || len(proofs) != 1 || !proofs[0].Lost || proofs[0].Proved || proofFile(t, x) == nil {
		t.Errorf("%+v, %v; proof on disk %v", proofs, err, proofFile(t, x))
	}

	ctx, cancel := context.WithCancel(t.Context())
	w.lossy.fail = func() error { cancel(); return nil }
	if _, err := w.prove(ctx, "stopped", x); !errors.Is(err, context.Canceled) || proofFile(t, x) == nil {
		t.Errorf("%v; proof on disk %v", err, proofFile(t, x))
	}
}

// A verdict that services which the agent had used took part in is no proof.
func TestKeptServicesProveNothing(t *testing.T) {
	x := &task.Task{Dir: t.TempDir(), Name: "shop", Steps: []task.Step{{}}}
	digest, err := task.Digest(x.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for services, want := range map[string]bool{"": true, trial.ServicesKept: false} {
		var trials []*store.Trial
		for agent, o := range map[string]trial.Outcome{"oracle": trial.Pass, "nop": trial.Fail, "empty-diff": trial.Fail} {
			one := &store.Trial{Task: x.Name, Digest: digest, Agent: agent}
			one.Record.Outcome = o
			one.Record.Modes = trial.Modes{Verifier: "sealed", Network: "none", VerifierNetwork: "none", Services: services}
			trials = append(trials, one)
		}
		r := &runs{trials: map[string][]*store.Trial{x.Name: trials}, cfg: Config{Gold: 1, Arms: Arms{Gold: job.Arm{Spec: "oracle"}, Idle: job.Arm{Spec: "nop"}, Empty: job.Arm{Spec: "empty-diff"}}}}
		p, err := r.judge(x)
		if err != nil {
			t.Fatal(err)
		}
		p.conclude()
		if p.Proved != want || !want && !strings.Contains(p.said(), "beside services") {
			t.Errorf("services %q: %+v", services, p)
		}
	}
}
