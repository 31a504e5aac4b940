package store

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"assay/trial"
)

// harborJob is a finished job with every kind of trial that Harbor's models
// must read.
func harborJob(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "try1")
	started := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	cfg := JobConfig{
		JobName: "try1", JobsDir: "out", Attempts: 2, Concurrent: 2, TimeoutMultiplier: 1.5, Retry: RetryConfig{2},
		Environment: EnvironmentConfig{ImportPath: "assay:ns", MemoryMB: ptr(512), CPUs: ptr(1.5), Kwargs: map[string]any{"image": "host"}},
		Verifier:    VerifierConfig{ImportPath: "assay:sealed", MaxTimeoutSec: ptr(60.0), Kwargs: map[string]any{"mode": "sealed"}},
		Agents:      []AgentConfig{{Name: "oracle"}, {Name: "script", ModelName: "acme/m-1", Kwargs: map[string]any{"file": "a<b.sh"}, Env: map[string]string{"A": "1"}}},
		Datasets:    []DatasetConfig{{Path: "tasks/set", TaskNames: []string{"a*"}, NTasks: ptr(3)}}, Tasks: []TaskConfig{{Path: "tasks/one"}},
	}
	j, err := Create(dir, Meta{Info: trial.JobInfo{Name: "try1", Trials: 5}, Config: cfg}, Options{Now: func() time.Time { return started }})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	lock := JobLock{CreatedAt: started, Version: "assay 0.1.0", Concurrent: 2, Retry: cfg.Retry}
	for i, cause := range []trial.Cause{trial.CauseSolved, trial.CauseUnsolved, trial.CauseAgentTimeout, trial.CauseTaskMalformed, trial.CauseSolved} {
		name := crashName(i)
		if err := j.Announce(trial.TrialPlanned, name, 0, plannedTask(i)); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Begin(name, 1, plannedTask(i)); err != nil {
			t.Fatal(err)
		}
		tc := cfg.Trial(name, "tasks/set/a", "set", j.ID(), cfg.Agents[i%2])
		if i == 4 { // nothing but defaults
			tc.Agent, tc.Environment, tc.Verifier, tc.TimeoutMultiplier = AgentConfig{}, EnvironmentConfig{}, VerifierConfig{}, 0
		}
		tl := tc.Lock(TaskLock{Name: "a", Version: "1.2.0", Digest: Digest(nil), Source: "set", Path: "tasks/set/a"}, []string{"separate", "shared"}[i%2])
		lock.Trials = append(lock.Trials, tl)
		if err := j.WriteTrial(name, tc, tl); err != nil {
			t.Fatal(err)
		}
		r := result(t, j, name, cause, 1)
		if r.Config, err = tc.Full(); err != nil {
			t.Fatal(err)
		}
		shape(r, i)
		if err := j.CommitResult(name, 1, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.WriteLock(lock); err != nil {
		t.Fatal(err)
	}
	passAtK := func(group []*trial.Result) map[int]float64 { return map[int]float64{2: 1, 10: 0.5} }
	if err := j.WriteSummary(started, 0, true, passAtK); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shape varies results: source, model, rewards, exception, steps.
func shape(r *trial.Result, i int) {
	r.Source = ptr("set")
	if r.VerifierResult != nil {
		r.VerifierResult.Rewards["reward"] = "1.0" // Harbor reads a key "1" of reward_stats back as 1.0
	}
	if i%2 == 1 {
		r.AgentInfo.Model = &trial.ModelInfo{Name: "m-1", Provider: ptr("acme")}
	}
	switch i {
	case 1:
		r.VerifierResult = &trial.VerifierResult{Rewards: map[string]json.Number{"reward": "0.0", "speed": "0.25"}}
		r.AgentResult.InputTokens, r.AgentResult.CostUSD = ptr[int64](12), ptr(0.5)
	case 2:
		r.Exception = &trial.Exception{Type: "AgentTimeoutError", Message: "m", Traceback: "t", At: *r.StartedAt}
	case 3:
		r.Exception = &trial.Exception{Type: "ValueError", Message: "m", Traceback: "t", At: *r.StartedAt}
	case 4:
		r.StepResults = []trial.StepResult{{StepName: "one", AgentResult: &trial.AgentResult{}, VerifierResult: r.VerifierResult}}
	}
}

// Harbor's own models load every file of a job without an unknown key, write
// result.json back byte for byte, and its viewer lists the job.
func TestHarborLoadsOurJobs(t *testing.T) {
	python := os.Getenv("HARBOR_PYTHON")
	if python == "" {
		t.Skip("HARBOR_PYTHON is not set: needs a Python with Harbor 0.25 installed")
	}
	dir := harborJob(t)
	const script = `
import sys, json, pathlib
from pydantic import BaseModel
from harbor.models.job.config import JobConfig
from harbor.models.job.lock import JobLock, TrialLock
from harbor.models.job.result import JobResult
from harbor.models.trial.config import TrialConfig
from harbor.models.trial.result import TrialResult

def unknown(model, raw, at):
    if isinstance(model, BaseModel) and isinstance(raw, dict):
        fields = type(model).model_fields
        for k, v in raw.items():
            if k not in fields:
                print("unknown key", at + "." + k)
            else:
                unknown(getattr(model, k), v, at + "." + k)
    elif isinstance(model, list) and isinstance(raw, list):
        for i, (m, r) in enumerate(zip(model, raw)):
            unknown(m, r, f"{at}[{i}]")
    elif isinstance(model, dict) and isinstance(raw, dict):
        for k, v in raw.items():
            if k in model:
                unknown(model[k], v, at + "." + k)

def load(path, cls):
    text = path.read_text()
    m = cls.model_validate_json(text)
    unknown(m, json.loads(text), path.name)
    return m, text

job = pathlib.Path(sys.argv[1])
config, text = load(job / "config.json", JobConfig)
again = config.model_dump(mode="json", exclude_defaults=True)
if json.loads(text) != again: print("config.json holds defaults or lacks values:", text, again)
lock, text = load(job / "lock.json", JobLock)
if json.loads(text) != json.loads(lock.model_dump_json(exclude_none=True)) | {"created_at": json.loads(text)["created_at"], "retry": json.loads(text)["retry"]}:
    print("lock.json differs:", text, lock.model_dump_json(exclude_none=True))
result, text = load(job / "result.json", JobResult)
back = result.model_dump_json(indent=4, exclude={"trial_results"})
if json.loads(back) != json.loads(text) or list(json.loads(back)) != list(json.loads(text)): print("job result differs:", text, back)
n = 0
for d in sorted(job.iterdir()):
    if not d.is_dir() or d.name.startswith("."): continue
    n += 1
    config, text = load(d / "config.json", TrialConfig)
    again = config.model_dump(mode="json", exclude_defaults=True)
    if json.loads(text) != again: print(d.name, "config.json holds defaults or lacks values:", text, again)
    tl, text = load(d / "lock.json", TrialLock)
    if text != tl.model_dump_json(indent=4, exclude_none=True): print(d.name, "lock.json differs:", text, tl.model_dump_json(indent=4, exclude_none=True))
    if tl not in lock.trials: print(d.name, "is not in the job's lock")
    tr, text = load(d / "result.json", TrialResult)
    if text != tr.model_dump_json(indent=4): print(d.name, "result.json differs:", text, tr.model_dump_json(indent=4))
if n != 5: print("trials:", n)
if result.stats.n_completed_trials != 5 or result.stats.n_errored_trials != 2: print("stats:", result.stats)
from harbor.viewer.scanner import JobScanner
s = JobScanner(job.parent)
if s.list_jobs() != [job.name] or len(s.list_trials(job.name)) != 5: print("viewer:", s.list_jobs(), s.list_trials(job.name))
if s.get_job_result(job.name) is None: print("viewer reads no result")
`
	out, err := exec.Command(python, "-c", script, dir).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
