// Package examples holds the demo tasks inside the program, so that a first
// run needs no download: five small tasks that want nothing but a POSIX shell
// and the usual small tools, and a scripted solver that is right about half of
// the time. It only carries files; it runs nothing and imports nothing of
// assay's own.
package examples

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed all:demo
var demo embed.FS

// PartialSolver is the name, below the directory that [WriteDemo] wrote, of the
// shell steps of the scripted solver.
const PartialSolver = "partial.sh"

// Demo returns the demo directory: one task directory a task, and the solver.
// Files in it have no execute bits; see [WriteDemo].
func Demo() (fs.FS, error) { return fs.Sub(demo, "demo") }

// WriteDemo writes the demo tasks below dir, which is made when it is missing.
// Files that are there already are written anew; others are left alone. Shell
// scripts are executable.
func WriteDemo(dir string) error {
	root, err := Demo()
	if err != nil {
		return err
	}
	err = fs.WalkDir(root, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(p))
		if e.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(p, ".sh") {
			mode = 0o755
		}
		if err := os.WriteFile(to, data, mode); err != nil {
			return err
		}
		return os.Chmod(to, mode) // whatever the umask, and whatever was there
	})
	if err != nil {
		return fmt.Errorf("write demo tasks to %s: %w", dir, err)
	}
	return nil
}
