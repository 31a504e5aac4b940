package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/trajectory"
)

// smallModel is a real model on this machine's processor; its answers are
// worthless, and everything around them is real.
type smallModel struct {
	url string // base, with /v1
	bed *crashBed
	set string // 20 problems of HumanEval
}

// TestSmallModel needs ASSAY_SMALL_MODEL, a directory that scripts/small-model
// made, and ASSAY_HUMANEVAL; ASSAY_SMALL_TOKENS caps an answer (128).
func TestSmallModel(t *testing.T) {
	dir, data := os.Getenv("ASSAY_SMALL_MODEL"), os.Getenv("ASSAY_HUMANEVAL")
	if dir == "" || data == "" {
		t.Skip("ASSAY_SMALL_MODEL names no directory of scripts/small-model, or ASSAY_HUMANEVAL no HumanEval.jsonl.gz")
	}
	needSandbox(t)
	m := &smallModel{url: startSmallModel(t, dir), bed: newCrashBed(t)}
	m.set = filepath.Join(filepath.Dir(m.bed.bin), "humaneval")
	if code, out := m.assay(t, "import", "humaneval", data, "-o", m.set); code != 0 {
		t.Fatalf("import: %d\n%s", code, out)
	}

	t.Run("oneshot", func(t *testing.T) {
		got := m.job(t, 0, "small", "-l", "20", "-a", "oneshot", "-n", "2", "--agent-timeout", "20m")
		m.check(t, got, 20, "solved", "unsolved", "context_limit")
	})
	t.Run("react", func(t *testing.T) {
		got := m.job(t, 0, "small", "-l", "5", "-a", "react:turns=4,idle=2", "--agent-timeout", "20m")
		m.check(t, got, 5, "no_submission", "malformed_call", "loop", "unsolved", "context_limit")
	})
	t.Run("cut", func(t *testing.T) {
		m.check(t, m.job(t, 3, "small-cut", "-l", "1", "-a", "oneshot", "--retries", "0"), 1, "truncated_stream")
	})
	t.Run("stall", func(t *testing.T) {
		got := m.job(t, 3, "small-stall", "-l", "1", "-a", "oneshot", "--agent-timeout", "20s", "--retries", "0")
		m.check(t, got, 1, "model_error")
		m.idle(t)
	})
	t.Run("cancel", func(t *testing.T) {
		cmd := exec.Command(m.bed.bin, m.args("small-stall", "-l", "2", "-a", "oneshot", "-n", "2")...)
		cmd.Env = append(os.Environ(), "ASSAY_STORE="+m.bed.store)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		m.until(t, "a request is being answered", func(s smallStats) bool { return s.Active > 0 })
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != exitInterrupted {
			t.Errorf("exit status %d", got)
		}
		m.idle(t)
	})
}

func startSmallModel(t *testing.T, dir string) (url string) {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "testdata/small-model/server.mjs")
	cmd.Env = append(os.Environ(), "SMALL_MODEL="+dir, fmt.Sprint("MAX_TOKENS=", number("ASSAY_SMALL_TOKENS", 128)))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the small model does not start: %v", err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port) + "/v1"
}

func (m *smallModel) assay(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	cmd := exec.Command(m.bed.bin, args...)
	cmd.Env = append(os.Environ(), "ASSAY_STORE="+m.bed.store)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), b.String()
}

// args of a run in a job directory of its own.
func (m *smallModel) args(model string, more ...string) []string {
	return append([]string{"run", "-q", "-p", m.set, "-m", model + "@" + m.url, "-o", filepath.Dir(m.bed.bin), "--no-report"}, more...)
}

// job runs a job and returns its directory.
func (m *smallModel) job(t *testing.T, want int, model string, more ...string) string {
	t.Helper()
	name := "job-" + filepath.Base(t.Name())
	began := time.Now()
	code, out := m.assay(t, append(m.args(model, more...), "--job-name", name)...)
	if code != want {
		t.Fatalf("exit status %d\n%s", code, out)
	}
	t.Logf("%.1f s\n%s", time.Since(began).Seconds(), out)
	return filepath.Join(filepath.Dir(m.bed.bin), name)
}

// check looks at every trial: its cause, its trajectory and its record.
func (m *smallModel) check(t *testing.T, job string, n int, causes ...string) {
	t.Helper()
	code, out := m.assay(t, "--json", "job", "show", job, "--trials")
	if code != 0 {
		t.Fatalf("job show: %d\n%s", code, out)
	}
	seen := map[string]int{}
	for line := range strings.Lines(out) {
		var v struct {
			Data struct {
				Cause string `json:"cause"`
			} `json:"data"`
			Cause string `json:"cause"`
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if cause := v.Cause + v.Data.Cause; cause != "" {
			seen[cause]++
			if !slices.Contains(causes, cause) {
				t.Errorf("cause %s, want one of %v", cause, causes)
			}
		}
	}
	t.Logf("causes: %v", seen)
	trials, err := filepath.Glob(filepath.Join(job, "*__*", "agent"))
	if err != nil || len(trials) != n {
		t.Errorf("%d trials, want %d", len(trials), n)
	}
	for _, dir := range trials {
		b, err := os.ReadFile(filepath.Join(dir, "trajectory.json"))
		if err != nil {
			t.Error(err)
			continue
		}
		if problems := trajectory.Validate(b); len(problems) > 0 {
			t.Errorf("%s: %v", dir, problems)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "model", "calls.ndjson")); err != nil || !bytes.Contains(b, []byte(`"seq":1`)) {
			t.Errorf("%s: the record: %.200s %v", dir, b, err)
		}
	}
}

// smallStats is what the model's server says of itself.
type smallStats struct{ Begun, Finished, Left, Active, Tokens int }

func (m *smallModel) stats(t *testing.T) (s smallStats) {
	t.Helper()
	resp, err := http.Get(strings.TrimSuffix(m.url, "/v1") + "/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (m *smallModel) until(t *testing.T, what string, ok func(smallStats) bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if s := m.stats(t); ok(s) {
			return
		} else if time.Now().After(end) {
			t.Fatalf("not in two minutes: %s: %+v", what, s)
		}
	}
}

// idle waits until the server works for nobody, and sees that it stays so.
func (m *smallModel) idle(t *testing.T) {
	t.Helper()
	m.until(t, "nothing is being answered", func(s smallStats) bool { return s.Active == 0 })
	before := m.stats(t)
	time.Sleep(time.Second)
	if after := m.stats(t); after.Tokens != before.Tokens || after.Left == 0 {
		t.Errorf("the server still works: %+v, then %+v", before, after)
	}
}
