package store

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/trial"
)

var update = flag.Bool("update", false, "rewrite goldens")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	p := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(p, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

// The files of a job and of a trial, as they stand on disk.
func TestFilesGolden(t *testing.T) {
	dir := harborJob(t)
	b, err := os.ReadFile(filepath.Join(dir, ResultFile))
	if err != nil {
		t.Fatal(err)
	}
	id := struct{ ID string }{}
	if err := json.Unmarshal(b, &id); err != nil {
		t.Fatal(err)
	}
	for golden1, file := range map[string]string{
		"config.golden.json": ConfigFile, "lock.golden.json": LockFile,
		"trial-config.golden.json": filepath.Join(crashName(1), ConfigFile), "trial-lock.golden.json": filepath.Join(crashName(1), LockFile),
	} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, golden1, []byte(strings.ReplaceAll(string(b), id.ID, "00000000-0000-4000-8000-000000000000")))
	}
}

// The smallest config says nothing but the name, and all defaults come back.
func TestConfigDefaults(t *testing.T) {
	j, _ := makeJob(t, 0, Options{})
	if err := j.WriteConfig(JobConfig{JobName: "try1", JobsDir: "jobs", Attempts: 1, Concurrent: 4, TimeoutMultiplier: 1}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(j.Dir(), ConfigFile))
	if err != nil || string(b) != "{\n    \"job_name\": \"try1\"\n}" {
		t.Errorf("%s %v", b, err)
	}
	c, err := ReadConfig(j.Dir())
	if err != nil || c.Attempts != 1 || c.Concurrent != 4 || c.TimeoutMultiplier != 1 || c.JobsDir != "jobs" || len(c.Agents) != 1 || c.Agents[0].Name != "oracle" {
		t.Errorf("%+v %v", c, err)
	}
}

func TestConfigRoundTrip(t *testing.T) {
	c, err := ReadConfig(harborJob(t))
	if err != nil {
		t.Fatal(err)
	}
	again, err := formatModel(&c, sparse)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "config.golden.json", again)
	foreign, err := ReadConfig("testdata/harbor/demo")
	if err != nil || foreign.JobName != "demo" || foreign.Attempts != 2 || len(foreign.Datasets) != 1 || foreign.Datasets[0].Path != "ds" {
		t.Errorf("%+v %v", foreign, err)
	}
	if _, err := ReadConfig(t.TempDir()); err == nil {
		t.Error("read a config that is not there")
	}
}

// The numbers that Harbor 0.25 wrote for the trials of its own job are those
// that Summarize makes of the same trials.
func TestSummarizeAsHarbor(t *testing.T) {
	v, err := Read("testdata/harbor/demo")
	if err != nil {
		t.Fatal(err)
	}
	var results []*trial.Result
	for _, tr := range v.Trials {
		results = append(results, tr.Result)
	}
	s := Summarize(results, nil)
	if s.Completed != 6 || s.Errored != 2 || s.Cancelled != 0 || s.Usage.InputTokens != nil {
		t.Errorf("%+v", s)
	}
	e := s.Evals["oracle__ds"]
	if e == nil || len(s.Evals) != 1 {
		t.Fatalf("groups %v", s.Evals)
	}
	// Equal values share a key, spelled as the first was: 0.0 and 0 are one.
	want := &EvalStats{
		Trials: 5, Errors: 2, Metrics: []map[string]float64{{"reward": 0.5, "speed": 0.125}},
		Rewards: map[string]map[string][]string{
			"reward": {"0.0": {"slow__Mgo3PW3", "wrong__VZgH63d"}, "1": {"right__5ajGNzU", "right__KZHtFLN", "two__8unnKYo"}},
			"speed":  {"0.25": {"right__5ajGNzU", "right__KZHtFLN", "slow__Mgo3PW3"}},
		},
		Exceptions: map[string][]string{"AgentTimeoutError": {"slow__Mgo3PW3"}, "RewardFileNotFoundError": {"norew__9FZuCLX"}},
	}
	for _, names := range e.Rewards {
		for _, list := range names {
			slices.Sort(list)
		}
	}
	if d := cmp.Diff(want, e); d != "" {
		t.Error(d)
	}
}

func TestMeanRewards(t *testing.T) {
	group := func(rewards ...string) (all []*trial.Result) {
		for _, text := range rewards {
			r := &trial.Result{}
			if text != "" {
				r.VerifierResult = &trial.VerifierResult{}
				if err := json.Unmarshal([]byte(text), &r.VerifierResult.Rewards); err != nil {
					t.Fatal(err)
				}
			}
			all = append(all, r)
		}
		return all
	}
	for _, c := range []struct {
		group []*trial.Result
		want  map[string]float64
	}{
		{group(`{"reward":1}`, `{"reward":0}`), map[string]float64{"mean": 0.5}},
		{group(`{"reward":1}`, ``, `{}`, ``), map[string]float64{"mean": 0.25}},
		{group(``), map[string]float64{"mean": 0}},
		{group(`{"a":1}`, `{"b":1}`), map[string]float64{"a": 0.5, "b": 0.5}},
		{group(`{"quality":2}`), map[string]float64{"mean": 2}},
	} {
		if d := cmp.Diff(c.want, meanRewards(c.group)); d != "" {
			t.Error(d)
		}
	}
}
