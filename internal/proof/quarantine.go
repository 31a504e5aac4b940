package proof

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"assay/internal/grade/checks"
	"assay/task"
)

// Quarantine adds checks to the quarantine.txt of a task's plan, and says how
// many are in it then.
func Quarantine(t *task.Task, ids []string) (int, error) {
	for i := range t.Steps {
		for _, dir := range slices.Backward(t.Key(i).Tests) {
			if _, err := os.Lstat(filepath.Join(dir, checks.File)); err != nil {
				continue
			}
			p, err := checks.Load(dir)
			if err != nil {
				return 0, fmt.Errorf("quarantine of %s: %w", t.Name, err)
			}
			known := map[string]bool{}
			for _, c := range p.Expected() {
				known[c.ID] = true
			}
			all := p.Quarantine()
			for _, id := range ids {
				if known[id] {
					all = append(all, id)
				}
			}
			slices.Sort(all)
			if err := writeFile(dir, checks.QuarantineFile, checks.QuarantineText(slices.Compact(all))); err != nil {
				return 0, fmt.Errorf("quarantine of %s: %w", t.Name, err)
			}
			if _, err := checks.Load(dir); err != nil {
				return len(all), fmt.Errorf("quarantine of %s: %w", t.Name, err)
			}
			return len(all), nil
		}
	}
	return 0, fmt.Errorf("quarantine of %s: it has no check plan", t.Name)
}

// isMissing reports whether a directory of tests has no plan.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
