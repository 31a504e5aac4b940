package job

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/grade"
	"assay/internal/image"
	"assay/trial"
)

// maxTold is how many protected paths one event names.
const maxTold = 100

// protected are what the task and its check plans protect, the grader's own
// directories aside: nobody sees those.
func (a *attempt) protected() ([]string, error) {
	var all []string
	for i := range a.p.task.Steps {
		key := a.p.task.Key(i)
		plan, err := grade.Plan(key)
		if err != nil {
			return nil, &endError{trial.CauseTaskMalformed, err}
		}
		all = append(all, grade.Guarded(key, plan)...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// lock lists the paths that the agent's sandbox shows read-only. What set-up
// itself writes to stays writable, and so does all where the backend cannot.
func (a *attempt) lock() ([]image.Path, error) {
	all, err := a.protected()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	a.shielded = all
	if a.p.given != nil {
		return nil, nil // an answer is laid as it was made, and what it changes there is put back
	}
	if !a.r.can.ReadOnly {
		a.note("protected paths are not shown read-only on this backend; they are put back before grading")
		return nil, nil
	}
	paths, err := grade.Locked(a.r.deps.Images, a.image, a.workdir(), all)
	if err != nil {
		return nil, fmt.Errorf("protected paths of %q: %w", a.p.name, err)
	}
	dirs := []string{filepath.Join(a.p.task.Dir, "environment")}
	for i := range a.p.task.Steps {
		if a.p.task.MultiStep() {
			dirs = append(dirs, a.p.task.StepWorkdir(i))
		}
	}
	return slices.DeleteFunc(paths, func(p image.Path) bool {
		rel, below := strings.CutPrefix(string(p), path.Clean(string(a.workdir()))+"/")
		return below && slices.ContainsFunc(dirs, func(dir string) bool { return dir != "" && exists(filepath.Join(dir, rel)) })
	}), nil
}

// touched tells of protected paths that the agent changed all the same. They
// are as the task has them when it is graded.
func (a *attempt) touched(step string, f frozen) error {
	paths, err := grade.Touched(a.r.deps.Images, a.image, f.layer, a.workdir(), a.shielded)
	if err != nil {
		return fmt.Errorf("protected paths of %q: %w", a.p.name, err)
	}
	if len(paths) == 0 {
		return nil
	}
	told := paths[:min(len(paths), maxTold)]
	a.r.emit(a.p.name, a.p.attempt, trial.LockedTouched, trial.TouchMark{Step: step, Paths: told, Count: len(paths)})
	a.note(fmt.Sprintf("the agent changed %d protected paths, which were put back: %s", len(paths), cut(strings.Join(told, ", "), 300)))
	return nil
}
