package label

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"assay/task"
)

// Audit is how a set's tasks are spread over the axes.
type Audit struct {
	Tasks      int            `json:"tasks"`
	Unreadable int            `json:"unreadable"` // directories that are no valid task
	Generators map[string]int `json:"generators"` // "" : foreign
	Languages  map[string]int `json:"languages"`  // "" : not told by the solution
	Levels     map[Level]int  `json:"levels"`
	Tiers      map[Tier]int   `json:"tiers"`
	Layers     map[string]int `json:"layers"` // tasks that touch one
	Faults     map[int]int    `json:"faults"`
	Ambiguous  float64        `json:"ambiguous"`  // share
	MultiFile  float64        `json:"multi_file"` // share, of tasks whose solution is known
	Unknown    float64        `json:"unknown"`    // share of tasks whose solution is commands alone
	Lines      Spread         `json:"lines"`
	Files      Spread         `json:"files"`
	Minutes    Spread         `json:"minutes"`
	Bytes      Spread         `json:"bytes"` // of a task's directory
	Warnings   []string       `json:"warnings"`
}

// Spread is a distribution.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	Max    float64 `json:"max"`
	Sum    float64 `json:"sum"`
}

// Row is a labelled task.
type Row struct {
	Name   string `json:"name"`
	Dir    string `json:"dir"`
	Bytes  int64  `json:"bytes"`
	Labels Labels `json:"labels"`
}

// Label labels a loaded task and weighs its directory.
func Label(t *task.Task) (Row, error) {
	l, err := OfTask(t)
	if err != nil {
		return Row{}, err
	}
	n, err := weigh(t.Dir)
	return Row{Name: t.Name, Dir: t.Dir, Bytes: n, Labels: l}, err
}

func weigh(dir string) (int64, error) {
	n := int64(0)
	err := fs.WalkDir(os.DirFS(dir), ".", func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		fi, err := e.Info()
		if err == nil {
			n += fi.Size()
		}
		return err
	})
	return n, err
}

// Summarize makes an audit of labelled tasks. The warnings say what a set that
// is meant to measure or to train lacks; they are no faults of its tasks.
func Summarize(rows []Row, unreadable int) Audit {
	a := Audit{Tasks: len(rows), Unreadable: unreadable, Generators: map[string]int{}, Languages: map[string]int{}, Levels: map[Level]int{},
		Tiers: map[Tier]int{}, Layers: map[string]int{}, Faults: map[int]int{}, Warnings: []string{}}
	var lines, files, minutes, bytes []float64
	ambiguous, multi, known := 0, 0, 0
	for _, r := range rows {
		l := r.Labels
		a.Generators[l.Generator]++
		a.Languages[l.Language]++
		a.Levels[l.Specification.Level]++
		a.Tiers[l.Process.Tier]++
		a.Faults[l.Environment.Faults]++
		for _, x := range l.Scope.Layers {
			a.Layers[x]++
		}
		if l.Specification.Ambiguous {
			ambiguous++
		}
		if l.Scope.Known {
			known++
			lines, files = append(lines, float64(l.Scope.Lines)), append(files, float64(l.Scope.Files))
			if l.Scope.Files > 1 {
				multi++
			}
		}
		minutes, bytes = append(minutes, l.Process.Minutes), append(bytes, float64(r.Bytes))
	}
	a.Ambiguous, a.MultiFile, a.Unknown = share(ambiguous, len(rows)), share(multi, known), share(len(rows)-known, len(rows))
	a.Lines, a.Files, a.Minutes, a.Bytes = spread(lines), spread(files), spread(minutes), spread(bytes)
	a.warn()
	return a
}

func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

func spread(all []float64) Spread {
	if len(all) == 0 {
		return Spread{}
	}
	slices.Sort(all)
	s := Spread{Min: all[0], Max: all[len(all)-1], Median: all[(len(all)-1)/2], P90: all[(len(all)-1)*9/10]}
	for _, x := range all {
		s.Sum += x
	}
	return s
}

// few is how many tasks a share needs to mean something.
const few = 20

// warn compares the set with what docs/labels.md wants of one.
func (a *Audit) warn() {
	say := func(format string, args ...any) { a.Warnings = append(a.Warnings, fmt.Sprintf(format, args...)) }
	if a.Unreadable > 0 {
		say("%d directories are no valid tasks: assay task lint names the faults", a.Unreadable)
	}
	if a.Tasks < few {
		say("%d tasks: shares of fewer than %d say little, so none is judged", a.Tasks, few)
		return
	}
	switch {
	case a.Ambiguous < 0.2:
		say("%.0f %% of the statements are ambiguous (wanted 20 to 30 %%): nothing asks an agent to find out what is meant", 100*a.Ambiguous)
	case a.Ambiguous > 0.3:
		say("%.0f %% of the statements are ambiguous (wanted 20 to 30 %%): give more hints, or texts of issues", 100*a.Ambiguous)
	}
	if a.MultiFile < 0.2 {
		say("%.0f %% of the solutions touch several files (wanted at least 20 %%)", 100*a.MultiFile)
	}
	if a.Lines.P90 < 3*a.Lines.Median {
		say("no long tail: the 90th percentile of %.0f lines is less than three times the median of %.0f", a.Lines.P90, a.Lines.Median)
	}
	if n := a.Tiers[Long]; share(n, a.Tasks) < 0.05 {
		say("%d tasks of more than an hour (wanted at least 5 %%)", n)
	}
	for _, of := range []struct {
		what string
		n    map[string]int
	}{{"generator", a.Generators}, {"language", a.Languages}} {
		if name, n := most(of.n); name != "" && share(n, a.Tasks) > 0.7 {
			say("%.0f %% of the tasks have one %s, %s", 100*share(n, a.Tasks), of.what, name)
		}
	}
	if a.Unknown > 0.3 {
		say("%.0f %% of the solutions are commands alone: their scope is a guess", 100*a.Unknown)
	}
	if a.Bytes.Median > 50_000 {
		say("the median task has %.0f kB (wanted at most 50): see what its layer holds", a.Bytes.Median/1000)
	}
}

func most(n map[string]int) (string, int) {
	names := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(n[b]-n[a], cmp.Compare(a, b)) })
	if len(names) == 0 {
		return "", 0
	}
	return names[0], n[names[0]]
}
