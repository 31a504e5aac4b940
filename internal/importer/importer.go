// Package importer turns public data sets into task directories.
//
// An [Importer] reads one data set's own files and writes one Harbor task
// directory a problem. What it reads is untrusted: lines, totals and names are
// capped and checked, and every complaint names file and line. It never runs
// anything of a data set, never reaches the network, and never leaves half a
// task behind: each directory is complete under a hidden name before it gets
// its own. The same input always gives the same bytes, so a task's digest says
// which problem it is, and importing again only writes what is missing.
package importer

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// Importer reads one kind of data set.
type Importer interface {
	// Name is the word users type: "humaneval".
	Name() string
	// Import reads src and writes one task directory a problem below out,
	// which is made when it is missing. Nothing is written when src is
	// malformed or, without opts.Force, when a directory of a task's name
	// holds something else ([ConflictError]).
	Import(ctx context.Context, src, out string, opts Options) (Summary, error)
}

// Options are a user's choices; the zero value is the careful one.
type Options struct {
	Force    bool           // replace directories that hold something else
	Progress func(Progress) // called after each task, in order; may be nil
}

// Progress tells of one task that is done.
type Progress struct {
	Done, Total int
	Task        string // directory name
	State       State
}

// State says what became of one task directory.
type State string

const (
	Written   State = "written"
	Unchanged State = "unchanged" // it was there, byte for byte
	Replaced  State = "replaced"  // it held something else, and Options.Force was set
)

// Summary counts what became of all tasks.
type Summary struct {
	Tasks     int    `json:"tasks"`
	Written   int    `json:"written"`
	Unchanged int    `json:"unchanged"`
	Replaced  int    `json:"replaced"`
	Dir       string `json:"dir"`
}

// ConflictError names the directories that hold something else than the import
// would write.
type ConflictError struct {
	Out   string
	Names []string
}

func (e *ConflictError) Error() string {
	const shown = 5
	list := strings.Join(e.Names[:min(shown, len(e.Names))], ", ")
	if len(e.Names) > shown {
		list += fmt.Sprintf(" and %d more", len(e.Names)-shown)
	}
	return fmt.Sprintf("import into %s: %s: already there with other content; nothing was written (choose another directory or force the replacement)", e.Out, list)
}

// WriteAll writes dirs below out, in order. It first compares all of them with
// what is there, so that a conflict is found before anything is written.
func WriteAll(ctx context.Context, out string, dirs []Dir, opts Options) (Summary, error) {
	sum := Summary{Dir: out}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return sum, fmt.Errorf("import into %s: %w", out, err)
	}
	states, err := compareAll(ctx, out, dirs, opts.Force)
	if err != nil {
		return sum, err
	}
	removeStale(out)
	for i, d := range dirs {
		if err := ctx.Err(); err != nil {
			return sum, fmt.Errorf("import into %s: stopped after %d of %d tasks: %w", out, i, len(dirs), err)
		}
		if states[i] != Unchanged {
			if err := d.publish(out, states[i] == Replaced); err != nil {
				return sum, fmt.Errorf("import %s: %w", d.Name, err)
			}
		}
		sum.count(states[i])
		if opts.Progress != nil {
			opts.Progress(Progress{Done: i + 1, Total: len(dirs), Task: d.Name, State: states[i]})
		}
	}
	return sum, nil
}

func compareAll(ctx context.Context, out string, dirs []Dir, force bool) ([]State, error) {
	states := make([]State, len(dirs))
	conflict := &ConflictError{Out: out}
	seen := map[string]bool{}
	for i, d := range dirs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := d.valid(); err != nil {
			return nil, err
		}
		if seen[d.Name] {
			return nil, fmt.Errorf("import %s: two tasks of this name", d.Name)
		}
		seen[d.Name] = true
		var err error
		if states[i], err = d.compare(out); err != nil {
			return nil, fmt.Errorf("import %s: %w", d.Name, err)
		}
		if states[i] == Replaced {
			conflict.Names = append(conflict.Names, d.Name)
		}
	}
	if len(conflict.Names) > 0 && !force {
		return nil, conflict
	}
	return states, nil
}

func (s *Summary) count(state State) {
	s.Tasks++
	switch state {
	case Written:
		s.Written++
	case Unchanged:
		s.Unchanged++
	case Replaced:
		s.Replaced++
	}
}
