package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"assay/internal/image"
	"assay/internal/remove"
	"assay/internal/sandbox/docker/inside"
	"assay/internal/sandbox/hostile"
	"assay/internal/sandbox/ns"
)

// TestMain lets the test binary be assay itself, its keeper and its init.
func TestMain(m *testing.M) {
	if code, handled := ns.Main(os.Args); handled {
		os.Exit(code)
	}
	if code, handled := inside.Main(os.Args); handled {
		os.Exit(code)
	}
	if code, handled := hostile.Main(os.Args, arenaHost()); handled {
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){
		"assay": func() { os.Exit(Main(os.Args, Process())) },
	})
}

// refused says why sandboxes cannot run here; empty when they can.
func refused(t testing.TB) string {
	t.Helper()
	dir := scratch(t)
	for _, f := range ns.Probe(context.Background(), ns.Config{Scratch: image.HostPath(dir)}) {
		if !f.OK {
			return f.Name + ": " + f.Detail
		}
	}
	return ""
}

// scratch is a directory that the sandboxes' user can traverse, which
// t.TempDir of real root is, and is removed even where layers are read-only.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "assay-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove.Tree(dir); err != nil {
			t.Errorf("left behind: %v", err)
		}
	})
	return dir
}

// needSandbox skips t, with the reason, where sandboxes are refused.
func needSandbox(t testing.TB) {
	t.Helper()
	if why := refused(t); why != "" {
		t.Skip("no sandbox here: " + why)
	}
}

func TestScripts(t *testing.T) {
	needSandbox(t)
	reg, rootfs, fresh := newRegistry(t), smallRootfs(t), scratch(t)
	store := scratch(t) // shared by all scripts: the image "host" is made once
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("ASSAY_STORE", store)
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("ASSAY_GRAMMARS", os.Getenv("ASSAY_GRAMMARS"))
			e.Setenv("REGISTRY", reg)
			e.Setenv("ROOTFS", rootfs)
			e.Setenv("FRESH", fresh)
			return nil
		},
		Condition: func(c string) (bool, error) {
			if c != "grammars" { // of internal/syntax
				return false, fmt.Errorf("no condition %q", c)
			}
			return os.Getenv("ASSAY_GRAMMARS") != "", nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"trials": trials,
			"expand": expand,
		},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// exits CODE COMMAND ARGS… runs a command and checks its exit status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		got = ee.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("%s: exit status %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// trials JOB N checks how many trials of a job have a result.
func trials(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: trials JOB N")
	}
	found, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "*", "result.json"))
	ts.Check(err)
	if got := strconv.Itoa(len(found)); got != args[1] {
		ts.Fatalf("%s holds %s results, want %s", args[0], got, args[1])
	}
}

// Every command has help with an example and its exit codes, and the commands
// stand in the order of the story.
func TestHelp(t *testing.T) {
	var walk func(path []string)
	paths := [][]string{}
	g := commandPaths(t)
	walk = func(path []string) {
		paths = append(paths, path)
	}
	for _, p := range g {
		walk(p)
	}
	if len(paths) < 20 {
		t.Fatalf("only %d commands", len(paths))
	}
	for _, p := range paths {
		var out, errs bytes.Buffer
		code := Main(append(append([]string{"assay"}, p...), "--help"), World{Stdout: &out, Stderr: &errs, Env: os.LookupEnv})
		if code != 0 {
			t.Errorf("assay %s --help: exit %d\n%s", strings.Join(p, " "), code, &errs)
		}
		for _, want := range []string{"Example", "Exit status:"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("assay %s --help has no %q", strings.Join(p, " "), want)
			}
		}
	}
}

// commandPaths lists every leaf command from the completion data.
func commandPaths(t *testing.T) [][]string {
	t.Helper()
	var out bytes.Buffer
	if code := Main([]string{"assay", "completion", "fish"}, World{Stdout: &out, Stderr: &out, Env: os.LookupEnv}); code != 0 {
		t.Fatalf("completion: exit %d: %s", code, &out)
	}
	var paths [][]string
	seen := map[string]bool{}
	for _, top := range []string{"task lint", "task show", "task new", "task prove", "image list", "image import", "image rm", "image gc",
		"job list", "job parity", "job egress", "compare", "trajectory lint", "trajectory show", "trajectory stats", "trajectory convert", "job show", "job resume", "job rm", "sandbox shell", "sandbox bench", "demo", "import", "run", "report", "view", "doctor", "completion", "version"} {
		if !seen[top] {
			seen[top] = true
			paths = append(paths, strings.Fields(top))
		}
		last := strings.Fields(top)[len(strings.Fields(top))-1]
		if !strings.Contains(out.String(), fmt.Sprintf("-a %s\n", last)) {
			t.Errorf("completion does not know %q", top)
		}
	}
	return paths
}
