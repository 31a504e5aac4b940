package proof

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"

	"assay/internal/grade/checks"
	"assay/task"
)

// Quarantine adds checks to the quarantine.txt of a task's plan, and says how
// many are in it then.
func Quarantine(t *task.Task, ids []string) (int, error) {
	for i := range t.Steps {
		p, dir, err := checks.Find(t.Key(i).Tests)
		if err != nil {
			return 0, fmt.Errorf("quarantine of %s: %w", t.Name, err)
		}
		if p == nil {
			continue
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
		all = slices.Compact(all)
		if err := renameio.WriteFile(filepath.Join(dir, checks.QuarantineFile), checks.QuarantineText(all), 0o644); err != nil {
			return 0, fmt.Errorf("quarantine of %s: %w", t.Name, err)
		}
		if _, err := checks.Load(dir); err != nil {
			return len(all), fmt.Errorf("quarantine of %s: %w", t.Name, err)
		}
		return len(all), nil
	}
	return 0, fmt.Errorf("quarantine of %s: it has no check plan", t.Name)
}
