package programs

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"assay/internal/grade/checks"
	"assay/internal/grade/program"
	"assay/internal/importer"
)

//go:embed files
var files embed.FS // the parts that all tasks share, with @WORD@ to be filled in

const (
	source    = "solution.py"
	casesFile = "cases.ndjson"
	groupName = "cases"
)

// record is a problem of either set, ready to be laid out.
type record struct {
	set, name, id, license string
	entry                  string
	statement              string // for people, Markdown
	stub                   string // what stands in solution.py at first
	gold                   string
	cases                  []map[string]any
	reference              bool    // the gold solution gives what cases do not say
	absTol, relTol         float64 // of all cases
	script                 string  // Python that asserts in the candidate's own process; empty: cases alone
}

var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,79}$`)

// function matches the definitions at the left margin.
var function = regexp.MustCompile(`(?m)^(def|class)[ \t]+([A-Za-z_][A-Za-z0-9_]*)`)

// defined are the functions and the classes that code defines at its top.
func defined(code string) (funcs, classes []string) {
	for _, m := range function.FindAllStringSubmatch(code, -1) {
		if m[1] == "def" {
			funcs = append(funcs, m[2])
		} else {
			classes = append(classes, m[2])
		}
	}
	return funcs, classes
}

// clean reports texts that no file of a task may hold.
func clean(fields map[string]string) error {
	for _, k := range []string{"prompt", "code", "test"} {
		if strings.ContainsRune(fields[k], 0) || !utf8.ValidString(fields[k]) {
			return fmt.Errorf("%s is not text", k)
		}
		if strings.TrimSpace(fields[k]) == "" {
			return fmt.Errorf("%s is missing or empty", k)
		}
	}
	return nil
}

// lines writes cases, one a line.
func lines(cases []map[string]any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, c := range cases {
		if err := e.Encode(c); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func raw(v program.Value) json.RawMessage { return v.Encode() }

// dir lays a problem out as a task directory.
func (r record) dir() (importer.Dir, error) {
	d := importer.Dir{Name: r.name}
	add := func(path string, data []byte, exec bool) {
		d.Files = append(d.Files, importer.File{Path: path, Data: data, Exec: exec})
	}
	fill := strings.NewReplacer("@SET@", r.set, "@NAME@", r.name, "@ENTRY_POINT@", r.entry, "@TASK_ID@", r.id, "@LICENSE@", r.license, "@STATEMENT@", strings.TrimSpace(r.statement))
	err := fs.WalkDir(files, "files", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := files.ReadFile(path)
		if err == nil {
			add(strings.TrimPrefix(path, "files/"), []byte(fill.Replace(string(data))), strings.HasSuffix(path, ".sh"))
		}
		return err
	})
	if err != nil {
		return d, err
	}
	add("environment/"+source, []byte(r.stub), false)
	add("solution/"+source, []byte(r.gold), false)
	tests, err := r.tests()
	if err != nil {
		return d, err
	}
	d.Files = append(d.Files, tests...)
	return d, nil
}

// tests are the plan, what it names, and the script that is made of it.
func (r record) tests() ([]importer.File, error) {
	p := checks.Plan{Version: 1}
	below := memory{}
	if len(r.cases) > 0 {
		b, err := lines(r.cases)
		if err != nil {
			return nil, err
		}
		below[casesFile] = b
		g := checks.Cases{Name: groupName, File: casesFile, Call: "python", Source: source, AbsTol: r.absTol, RelTol: r.relTol, MemoryMB: 2048}
		if r.reference {
			g.Reference = "reference.py"
			below[g.Reference] = []byte(r.gold)
		}
		if _, err := program.Parse(b, g); err != nil {
			return nil, fmt.Errorf("%s:%w", casesFile, err)
		}
		p.Cases = []checks.Cases{g}
	}
	if r.script != "" {
		below["asserts.py"] = []byte(r.script)
		p.Place = map[string]string{}
		p.Commands = []checks.Command{{Name: "asserts", Run: `PYTHONPATH=. exec python3 -B /tests/asserts.py`, TimeoutSec: 60}}
	}
	plan, err := p.Encode()
	if err != nil {
		return nil, err
	}
	read, err := checks.Decode(plan, below)
	if err != nil {
		return nil, err
	}
	script, err := read.Script()
	if err != nil {
		return nil, err
	}
	all := []importer.File{{Path: "tests/" + checks.File, Data: plan}, {Path: "tests/" + checks.ScriptName, Data: script, Exec: true}}
	for _, n := range []string{casesFile, "reference.py", "asserts.py"} {
		if b, ok := below[n]; ok {
			all = append(all, importer.File{Path: "tests/" + n, Data: b})
		}
	}
	return all, nil
}

// memory is the tests directory of a task that is not on disk yet.
type memory map[string][]byte

func (m memory) Open(name string) (fs.File, error) {
	b, ok := m[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &memoryFile{Reader: bytes.NewReader(b), name: name}, nil
}

type memoryFile struct {
	*bytes.Reader
	name string
}

func (f *memoryFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *memoryFile) Close() error               { return nil }
func (f *memoryFile) Name() string               { return f.name }
func (f *memoryFile) Mode() fs.FileMode          { return 0o644 }
func (f *memoryFile) ModTime() time.Time         { return time.Time{} }
func (f *memoryFile) IsDir() bool                { return false }
func (f *memoryFile) Sys() any                   { return nil }

var errNone = errors.New("holds no problem")
