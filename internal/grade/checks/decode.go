package checks

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"assay/internal/grade/report"
	"assay/internal/strict"
)

// Caps of a plan and of what it names.
const (
	maxPlan     = 16 << 20 // bytes of checks.toml
	maxFile     = 64 << 20 // bytes of one list, cases file or canary's file
	maxCommands = 100
	MaxCanaries = 256    // of a command: as many as there are bits in what draws them
	maxPart     = 10_000 // cases groups, assertions, milestones, spec items, edge cases
	maxText     = 1 << 20
	maxFaults   = 50 // told
)

// Error is a plan that cannot be used, with all that is wrong with it.
type Error struct {
	File   string
	Faults []strict.Fault
}

func (e *Error) Error() string {
	told := e.Faults[:min(len(e.Faults), maxFaults)]
	s := strict.Errors(e.File, told, "a check plan has no key %q; docs/check-plans.md has all of them").Error()
	if n := len(e.Faults) - len(told); n > 0 {
		s += fmt.Sprintf("\n%s: and %d more", e.File, n)
	}
	return s
}

// Load reads the plan in dir, a task's tests directory. What the plan names
// lies below dir; no link out of it is followed. Without a plan the error is
// [fs.ErrNotExist]; with one that is wrong it is an [*Error].
func Load(dir string) (*Plan, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("check plan: %w", err)
	}
	defer root.Close()
	fsys := root.FS()
	b, err := readFile(fsys, File, maxPlan)
	if err != nil {
		return nil, fmt.Errorf("check plan in %s: %w", dir, err)
	}
	p, err := Decode(b, fsys)
	var bad *Error
	if errors.As(err, &bad) {
		bad.File = filepath.Join(dir, File)
	}
	return p, err
}

// Find reads the plan of the last of some tests directories that has one, and
// says which that is. Nil: none has.
func Find(dirs []string) (*Plan, string, error) {
	for _, dir := range slices.Backward(dirs) {
		_, err := os.Lstat(filepath.Join(dir, File))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("check plan: %w", err)
		}
		p, err := Load(dir)
		return p, dir, err
	}
	return nil, "", nil
}

// Decode reads a plan. tests holds what it names, the files below a task's
// tests; nil: there are none. The error is an [*Error].
func Decode(b []byte, tests fs.FS) (*Plan, error) {
	p := &Plan{}
	fail := func(f ...strict.Fault) (*Plan, error) { return nil, &Error{File: File, Faults: f} }
	if len(b) > maxPlan {
		return fail(strict.Fault{Err: fmt.Errorf("larger than %d bytes: keep ids in files (fail_to_pass_file, pass_to_pass_file)", maxPlan)})
	}
	if faults := strict.TOML(b, p); len(faults) > 0 {
		return fail(faults...)
	}
	in := inspector{plan: p, places: strict.Where(b), tests: tests, sum: sha256.New(), read: map[string][]byte{}}
	fmt.Fprintf(in.sum, "checks.toml %d\n%s", len(b), b)
	in.all()
	in.quarantine()
	if len(in.faults) > 0 {
		return fail(in.faults...)
	}
	p.places = in.places
	p.digest = "sha256:" + hex.EncodeToString(in.sum.Sum(nil))
	return p, nil
}

// Encode writes a plan as a checks.toml. The lists of files that it names are
// not written.
func (p *Plan) Encode() ([]byte, error) {
	if p.Version == 0 {
		again := *p
		again.Version = 1
		p = &again
	}
	var b bytes.Buffer
	e := toml.NewEncoder(&b)
	e.SetIndentTables(false)
	if err := e.Encode(p); err != nil {
		return nil, fmt.Errorf("write check plan: %w", err)
	}
	return b.Bytes(), nil
}

// Digest is the sha256 of the plan's file and of the lists and cases it names,
// "sha256:…"; of a plan that was not decoded, of the file that Encode makes.
func (p *Plan) Digest() string {
	if p.digest != "" {
		return p.digest
	}
	b, err := p.Encode()
	if err != nil {
		panic(err) // a Plan holds nothing that TOML has no word for
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "checks.toml %d\n%s", len(b), b)
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// readFile reads a plain file of at most limit bytes.
func readFile(tests fs.FS, name string, limit int64) ([]byte, error) {
	if tests == nil {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	// Lstat first: opening a pipe would wait for a writer.
	fi, err := fs.Stat(tests, name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no plain file", name)
	}
	f, err := tests.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return b, nil
}

// idLines reads a list: one id a line, as it stands; empty lines and those
// that begin with "# " are not ids.
func idLines(b []byte) ([]string, error) {
	var ids []string
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		if err := checkID(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		ids = append(ids, line)
	}
	return ids, nil
}

// caseIDs reads the ids of a cases file; the rest of a case is its runner's.
func caseIDs(b []byte) ([]string, error) {
	var ids []string
	seen := map[string]int{}
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, maxFile+1)
	for n := 1; s.Scan(); n++ {
		line := bytes.TrimSpace(s.Bytes())
		if len(line) == 0 {
			continue
		}
		var c struct {
			ID *string `json:"id"`
		}
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("line %d: no JSON object: %w", n, err)
		}
		if c.ID == nil {
			return nil, fmt.Errorf("line %d: a case needs an \"id\"", n)
		}
		if err := checkID(*c.ID); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if first, twice := seen[*c.ID]; twice {
			return nil, fmt.Errorf("line %d: the id %q stands in line %d already", n, *c.ID, first)
		}
		seen[*c.ID] = n
		ids = append(ids, *c.ID)
	}
	return ids, s.Err()
}

func checkID(id string) error {
	switch {
	case id == "":
		return errors.New("an empty id")
	case len(id) > report.MaxID:
		return fmt.Errorf("an id of %d bytes; at most %d", len(id), report.MaxID)
	case strings.ContainsAny(id, "\n\r\x00"):
		return fmt.Errorf("the id %.80q has a line break or a zero byte in it", id)
	}
	return nil
}
