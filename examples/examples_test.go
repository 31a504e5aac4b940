package examples_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"assay/examples"
	"assay/task"
)

// demoTasks writes the demo and returns its task directories.
func demoTasks(t *testing.T) (dir string, tasks []string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, examples.Demo()); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(p) != ".sh" {
			return err
		}
		return os.Chmod(p, 0o755)
	})
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "demo", "*", "task.toml"))
	if err != nil || len(found) != 5 {
		t.Fatalf("%d demo tasks: %v", len(found), err)
	}
	for _, f := range found {
		tasks = append(tasks, filepath.Dir(f))
	}
	return dir, tasks
}

// The demo is what people copy from: lint has nothing against it but advice.
func TestDemoLints(t *testing.T) {
	dir, tasks := demoTasks(t)
	for _, f := range task.Lint(dir + "/demo") {
		if f.Severity != task.Note {
			t.Error(f)
		}
	}
	for _, dir := range tasks {
		got, err := task.Load(dir)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, s := range got.Steps {
			if s.Instruction == "" {
				t.Errorf("%s has an empty instruction", dir)
			}
		}
	}
}

// A copy that has drifted from what it copies would judge something else.
func TestHiddenCopiesAreCopies(t *testing.T) {
	_, tasks := demoTasks(t)
	for _, pair := range [][3]string{
		{"relay-config", "environment/app/relay-check", "tests/relay-check"},
		{"config-regression", "environment/app/render.sh", "tests/render.sh"},
	} {
		i := slices.IndexFunc(tasks, func(dir string) bool { return filepath.Base(dir) == pair[0] })
		a, err := os.ReadFile(filepath.Join(tasks[i], pair[1]))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(tasks[i], pair[2]))
		if err != nil {
			t.Fatal(err)
		}
		if string(a) != string(b) {
			t.Errorf("%s: %s and %s differ", pair[0], pair[1], pair[2])
		}
	}
}
