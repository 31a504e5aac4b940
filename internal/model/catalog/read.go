package catalog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"assay/internal/strict"
)

// maxFile is what a models file may be large.
const maxFile = 1 << 20

// file is the form on disk: [models.NAME] tables.
type file struct {
	Models map[string]Entry `toml:"models"`
}

// Read reads a models file. Paths in it are relative to its directory.
func Read(path string) (*Catalog, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, maxFile)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return parse(path, filepath.Dir(abs), b)
}

func parse(path, dir string, b []byte) (*Catalog, error) {
	var f file
	if err := strict.Errors(path, strict.TOML(b, &f), "no key of a model is called %q"); err != nil {
		return nil, err
	}
	c := &Catalog{Path: path}
	lines := positions(b)
	var all []error
	for name, e := range f.Models {
		e.Name, e.inFile = name, true
		if strings.ContainsAny(name, " \t\n") || name == "" {
			all = append(all, fmt.Errorf("%s:%d: %q cannot be a model's name: it has spaces, or nothing", path, lines[name], name))
		}
		for _, p := range e.problems() {
			line := lines[name+"\x00"+p.key]
			if line == 0 {
				line = lines[name]
			}
			all = append(all, fmt.Errorf("%s:%d: model %s: %s", path, line, name, p.text))
		}
		e.from(dir)
		c.Entries = append(c.Entries, e)
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	slices.SortFunc(c.Entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return c, errors.Join(all...)
}

// from makes the entry's paths absolute.
func (e *Entry) from(dir string) {
	paths := []*string{&e.Scripted, &e.Replay, &e.CA, &e.ClientCert, &e.ClientKey}
	if e.Credential != nil {
		paths = append(paths, &e.Credential.File)
	}
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) && !strings.HasPrefix(*p, "~/") {
			*p = filepath.Join(dir, *p)
		}
	}
}

// positions finds the lines of models and of their keys: "name" and
// "name\x00key".
func positions(b []byte) map[string]int {
	at := map[string]int{}
	var p unstable.Parser
	p.Reset(b)
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		var keys []string
		line := 0
		for it := e.Key(); it.Next(); {
			n := it.Node()
			keys = append(keys, string(n.Data))
			if line == 0 {
				line = p.Shape(n.Raw).Start.Line
			}
		}
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = keys
		case unstable.KeyValue:
			keys = append(slices.Clone(table), keys...)
		}
		if len(keys) < 2 || keys[0] != "models" {
			continue
		}
		note := func(k string) {
			if at[k] == 0 {
				at[k] = line
			}
		}
		note(keys[1])
		if len(keys) > 2 {
			note(keys[1] + "\x00" + keys[2])
		}
	}
	return at
}
