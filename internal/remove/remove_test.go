package remove_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/remove"
)

// Closed directories go, the deepest too, and what a link leads to stays as it
// is. Root is stopped by no mode, so that only an ordinary user sees the
// second try.
func TestTree(t *testing.T) {
	dir := t.TempDir()
	beside, doomed := filepath.Join(dir, "beside"), filepath.Join(dir, "doomed")
	err := errors.Join(os.Mkdir(beside, 0o755), os.MkdirAll(filepath.Join(doomed, "a", "b", "c"), 0o755),
		os.WriteFile(filepath.Join(beside, "stays"), nil, 0o444), os.WriteFile(filepath.Join(doomed, "a", "b", "c", "f"), nil, 0o444),
		os.Symlink(beside, filepath.Join(doomed, "a", "link")),
		os.Chmod(filepath.Join(doomed, "a", "b", "c"), 0), os.Chmod(filepath.Join(doomed, "a", "b"), 0o100), os.Chmod(filepath.Join(doomed, "a"), 0o500),
		os.Chmod(beside, 0o500))
	t.Cleanup(func() { os.Chmod(beside, 0o755) })
	if err != nil {
		t.Fatal(err)
	}
	if err := remove.Tree(doomed); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(doomed); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	if info, err := os.Stat(beside); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("what a link leads to: %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(beside, "stays")); err != nil {
		t.Error(err)
	}
	if err := remove.Tree(doomed); err != nil {
		t.Errorf("nothing there: %v", err)
	}
}
