// Package swebench turns instances of SWE-bench and of sets in its form into
// task directories: rows (JSON, JSON Lines, Parquet; Verified, Lite,
// Multilingual, Multimodal), the task repositories of SWE-bench 5, and
// SWE-smith's rows, whose patch is the bug.
//
// The agent sees the problem statement and the tree, and nothing else of a
// row: no hints unless they are asked for, no ids of tests, no patch, no
// history. Every task keeps its row as it was, so that [Rows] gives the file
// back byte for byte. Repositories are read by git's plumbing alone, from
// directories that the user names: nothing of them is run, and nothing is
// fetched.
package swebench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"assay/internal/exchange"
	"assay/internal/importer"
)

// Importer implements [importer.Importer]; the zero value imports SWE-bench.
type Importer struct {
	Smith bool // the rows' patch is the bug

	// Repos is a directory of clones (owner__name, owner/name or name): tasks
	// get the tree at base_commit and an image of their own; empty: the tree is
	// the published image's.
	Repos string
	// Clone is what stands before owner/name in a URL: the image's build
	// fetches the one commit from there; empty: it does not.
	Clone string
	Base  string // FROM of those images; empty: "debian:bookworm-slim", with "host" in its place where that is missing

	Hints bool // append hints_text to the instruction
	// TestCommand runs the tests of rows that have no eval_script; the test
	// files are appended. Empty: that of the repository, where it is known.
	TestCommand string
	// Setup runs before it; empty: the conda environment of SWE-bench's images.
	Setup string

	// Found is told of every fault of an expected test id; may be nil.
	Found func(exchange.IDFinding)
	// Note is told of what a user should know of a task; may be nil.
	Note func(task, text string)
}

// layoutFile is beside the task directories: how the file of rows was laid out.
const layoutFile = ".swebench-rows.json"

// Name returns "swebench" or "swe-smith".
func (im Importer) Name() string {
	if im.Smith {
		return "swe-smith"
	}
	return "swebench"
}

// Import writes a task directory for each row of src, which is a file of rows
// or a task repository, below out.
func (im Importer) Import(ctx context.Context, src, out string, opts importer.Options) (importer.Summary, error) {
	fail := func(err error) (importer.Summary, error) {
		return importer.Summary{Dir: out}, fmt.Errorf("import %s: %w", im.Name(), err)
	}
	if im.Repos != "" && im.Clone != "" {
		return fail(errors.New("a directory of clones and a server to clone from: one of them"))
	}
	sources, layout, err := im.sources(src)
	if err != nil {
		return fail(err)
	}
	if len(sources) == 0 {
		return fail(fmt.Errorf("%s: holds no instance", src))
	}
	var dirs []importer.Dir
	for _, s := range sources {
		if err := ctx.Err(); err != nil {
			return fail(err)
		}
		d, err := im.dir(ctx, s)
		if err != nil {
			return fail(fmt.Errorf("%s:%d: %s: %w", s.file, s.row.Line, s.row.ID, err))
		}
		dirs = append(dirs, d)
	}
	sum, err := importer.WriteAll(ctx, out, dirs, opts)
	if err != nil {
		return sum, err
	}
	return sum, writeLayout(out, layout)
}

// source is one instance: its row, and what else its set has of it.
type source struct {
	file   string // where the row stands
	row    *exchange.Row
	assets []importer.File // of tests, by their paths in the repository
	docker []importer.File // of a task repository: what its image is built from
}

func (im Importer) sources(src string) ([]source, exchange.Layout, error) {
	info, err := os.Stat(src)
	if err != nil {
		return nil, exchange.Layout{}, err
	}
	if info.IsDir() {
		return taskRepo(src)
	}
	rows, layout, err := exchange.ReadRows(src)
	if err != nil {
		return nil, layout, err
	}
	var all []source
	for _, r := range rows {
		all = append(all, source{file: src, row: r})
	}
	return all, layout, nil
}

func writeLayout(out string, l exchange.Layout) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(out, layoutFile), append(b, '\n'), 0o644)
}

// dirName is an instance's directory.
func dirName(id string) string {
	return strings.NewReplacer("/", "__", "\\", "__", ":", "_").Replace(id)
}

// Rows gives back the rows that the tasks below dir were imported from: the
// file that was imported, byte for byte, where its tasks are all there and no
// others; else a row a line, by name.
func Rows(dir string) ([]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("rows of %s: %w", dir, err)
	}
	by := map[string][]byte{}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name(), "solution", rowFile))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("rows of %s: %w", dir, err)
		}
		r, err := exchange.ParseRow(b, 1)
		if err != nil {
			return nil, fmt.Errorf("rows of %s: %s: %w", dir, e.Name(), err)
		}
		if err := unchanged(filepath.Join(dir, e.Name()), r); err != nil {
			return nil, err
		}
		by[r.ID] = b
	}
	if len(by) == 0 {
		return nil, fmt.Errorf("rows of %s: no task there was imported from a row of SWE-bench", dir)
	}
	layout, ok := readLayout(dir, by)
	if !ok {
		layout = exchange.Lines(len(by))
		for id := range by {
			layout.IDs = append(layout.IDs, id)
		}
		slices.Sort(layout.IDs)
	}
	var records [][]byte
	for _, id := range layout.IDs {
		records = append(records, by[id])
	}
	return layout.Join(records)
}

// readLayout reads how the imported file was laid out, if it is one of these
// rows and no others.
func readLayout(dir string, by map[string][]byte) (l exchange.Layout, ok bool) {
	b, err := os.ReadFile(filepath.Join(dir, layoutFile))
	if err != nil || json.Unmarshal(b, &l) != nil || len(l.IDs) != len(by) {
		return exchange.Layout{}, false
	}
	for i, id := range l.IDs {
		if by[id] == nil || slices.Contains(l.IDs[:i], id) {
			return exchange.Layout{}, false
		}
	}
	return l, true
}

// unchanged refuses to give out a row that the task beside it has left behind.
func unchanged(task string, r *exchange.Row) error {
	for _, f := range []struct{ file, want string }{{"solution/" + patchName, r.Patch}, {"tests/" + testPatchName, r.TestPatch}} {
		b, err := os.ReadFile(filepath.Join(task, filepath.FromSlash(f.file)))
		if errors.Is(err, os.ErrNotExist) && f.want == "" {
			continue
		}
		if err != nil {
			return fmt.Errorf("row of %s: %w", task, err)
		}
		if string(b) != f.want {
			return fmt.Errorf("%s: it is not what the row in solution/%s says any more: change both, or remove the row", filepath.Join(task, filepath.FromSlash(f.file)), rowFile)
		}
	}
	return nil
}
