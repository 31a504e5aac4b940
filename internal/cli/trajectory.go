package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"assay/internal/gateway"
	"assay/internal/gateway/atif"
	"assay/internal/store"
	"assay/trajectory"
)

type trajectoryCmd struct {
	Lint    trajectoryLintCmd    `cmd:"" help:"Check trajectories against every rule of the format."`
	Show    trajectoryShowCmd    `cmd:"" help:"Print a trajectory: thoughts, actions, outputs, files."`
	Stats   trajectoryStatsCmd   `cmd:"" help:"Count turns, tools, tokens, files, tests, repeats."`
	Convert trajectoryConvertCmd `cmd:"" help:"Make training rows of jobs: OpenAI messages or ShareGPT."`
}

type trajectoryLintCmd struct {
	Paths   []string `arg:"" name:"path" help:"Trajectory files, trial directories or job directories."`
	Traffic bool     `help:"Compare each with the model calls recorded beside it, too: every answer once, in order, in its words."`
}

func (trajectoryLintCmd) Help() string {
	return `The rules are those of ATIF up to 1.8, as Harbor's own validator applies them. Each finding names its file, the
place in it, the step and the rule.

Examples:
  assay trajectory lint jobs/demo
  assay trajectory lint jobs/demo --traffic
  assay trajectory lint trajectory.json --json | jq -r .rule

Exit status: 0 when all are valid, 1 when one cannot be read, 2 when there is none, 4 when one is not valid.`
}

// lintFinding is a finding as lint prints it.
type lintFinding struct {
	File    string `json:"file"`
	Place   string `json:"place"`
	Step    int    `json:"step,omitempty"`
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

func (c *trajectoryLintCmd) Run(a *app, g *grammar) error {
	files, err := trajectoryFiles(c.Paths)
	if err != nil {
		return err
	}
	bad := 0
	for _, f := range files {
		found, err := c.check(f)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			bad++
		}
		for _, x := range found {
			n := lintFinding{File: f, Place: x.Path, Step: stepOf(x.Path), Rule: string(x.Rule), Message: x.Text}
			if g.JSON {
				if err := a.emit("finding", n); err != nil {
					return err
				}
				continue
			}
			step := ""
			if n.Step > 0 {
				step = fmt.Sprintf(" (step %d)", n.Step)
			}
			fmt.Fprintf(a.Stdout, "%s: %s%s: %s [%s]\n", n.File, shown(n.Place), step, shown(n.Message), n.Rule)
		}
	}
	if g.JSON {
		if err := a.emit("lint", map[string]int{"files": len(files), "invalid": bad}); err != nil {
			return err
		}
	}
	if bad > 0 {
		return gate(fmt.Errorf("%d of %d trajectories are not valid", bad, len(files)))
	}
	a.say("%d valid", len(files))
	return nil
}

// check validates one file.
func (c *trajectoryLintCmd) check(name string) ([]trajectory.Finding, error) {
	found, err := trajectory.ValidateFile(name)
	if err != nil || !c.Traffic {
		return found, err
	}
	dir := filepath.Join(filepath.Dir(name), "model")
	if _, err := os.Lstat(dir); err != nil {
		return found, nil // no model was asked
	}
	missing, err := missingTraffic(name, dir)
	if err != nil {
		return nil, err
	}
	for _, m := range missing {
		found = append(found, trajectory.Finding{Path: "$", Rule: "traffic", Text: m})
	}
	return found, nil
}

// missingTraffic compares a trajectory with the record of its calls.
func missingTraffic(name, dir string) ([]string, error) {
	doc, err := readTrajectory(name)
	if err != nil {
		return nil, err
	}
	rec, err := gateway.Read(dir)
	if err != nil {
		return nil, err
	}
	defer rec.Close()
	return atif.MissingOf(rec, codecs(), doc)
}

var stepAt = regexp.MustCompile(`\.steps\[(\d+)\]`)

// stepOf is the number of the step that a place is in; 0 for none.
func stepOf(place string) int {
	m := stepAt.FindAllStringSubmatch(place, -1)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[len(m)-1][1])
	if err != nil {
		return 0
	}
	return n + 1
}

// trajectoryFiles are the trajectories that paths name: files, and those of
// trials and jobs.
func trajectoryFiles(paths []string) (files []string, err error) {
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, usage(err)
		}
		if !info.IsDir() {
			files = append(files, p)
			continue
		}
		found, err := trajectoriesBelow(p)
		if err != nil {
			return nil, usage(err)
		}
		files = append(files, found...)
	}
	return files, nil
}

func trajectoriesBelow(dir string) (files []string, err error) {
	v, err := store.Read(dir)
	if errors.Is(err, store.ErrNoJob) {
		if files = trialTrajectories(dir); len(files) == 0 {
			return nil, fmt.Errorf("%s holds no job, and no %s of a trial", dir, store.TrajectoryFile)
		}
		return files, nil
	}
	if err != nil {
		return nil, err
	}
	for _, t := range v.Trials {
		for _, s := range t.Steps {
			if s.Trajectory != "" {
				files = append(files, filepath.Join(dir, t.Name, filepath.FromSlash(s.Trajectory)))
			}
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("job %s holds no trajectory", dir)
	}
	return files, nil
}

// trialTrajectories are those of a trial's directory, or of one step's.
func trialTrajectories(dir string) (files []string) {
	for _, pattern := range []string{store.TrajectoryFile, store.StepsDir + "/*/" + store.TrajectoryFile} {
		found, err := fs.Glob(os.DirFS(dir), pattern)
		if err != nil {
			continue
		}
		slices.Sort(found)
		for _, f := range found {
			if info, err := os.Lstat(filepath.Join(dir, f)); err == nil && info.Mode().IsRegular() {
				files = append(files, filepath.Join(dir, filepath.FromSlash(f)))
			}
		}
	}
	return files
}

// readTrajectory reads one file leniently.
func readTrajectory(name string) (*trajectory.Trajectory, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := trajectory.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// readJobs reads several jobs' directories.
func readJobs(dirs []string) ([]*store.View, error) {
	var views []*store.View
	for _, dir := range dirs {
		v, err := store.Read(dir)
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}
