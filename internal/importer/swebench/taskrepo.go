package swebench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/exchange"
	"assay/internal/importer"
)

// Files of an instance in a task repository of SWE-bench 5.
var inFiles = []struct{ column, file string }{
	{"patch", "gold.patch"}, {"test_patch", "test.patch"}, {"eval_script", "eval.sh"}, {"problem_statement", "problem_statement.md"},
}

const (
	hintsFile   = "hints.md"
	testsFile   = "tests.json"
	taskFile    = "task.yaml"
	maxInFile   = 64 << 20
	maxOfAssets = 512 << 20
)

// taskRepo reads a task repository (sweb.yaml, tasks/ID/…), or one directory of
// its tasks/. Rows are made as its own publisher makes them: the keys of
// task.yaml but split and datasets, the files' texts, the two lists.
func taskRepo(dir string) ([]source, exchange.Layout, error) {
	var dirs []string
	if _, err := os.Stat(filepath.Join(dir, taskFile)); err == nil {
		dirs = []string{dir}
	} else {
		root := filepath.Join(dir, "tasks")
		entries, err := os.ReadDir(root)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, exchange.Layout{}, fmt.Errorf("%s: neither a task repository of SWE-bench (tasks/ID/%s) nor one of its tasks", dir, taskFile)
		}
		if err != nil {
			return nil, exchange.Layout{}, err
		}
		for _, e := range entries {
			if _, err := os.Stat(filepath.Join(root, e.Name(), taskFile)); err == nil && e.IsDir() {
				dirs = append(dirs, filepath.Join(root, e.Name()))
			}
		}
	}
	var all []source
	var ids []string
	for _, d := range dirs {
		s, err := readTask(d)
		if err != nil {
			return nil, exchange.Layout{}, fmt.Errorf("%s: %w", d, err)
		}
		if slices.Contains(ids, s.row.ID) {
			return nil, exchange.Layout{}, fmt.Errorf("%s: instance_id %s stands in two directories", d, s.row.ID)
		}
		ids = append(ids, s.row.ID)
		all = append(all, s)
	}
	layout := exchange.Lines(len(all))
	layout.IDs = ids
	return all, layout, nil
}

// notColumns are keys of task.yaml that no published row has.
var notColumns = []string{"split", "datasets"}

func readTask(dir string) (source, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return source{}, err
	}
	defer root.Close()
	s := source{file: filepath.Join(dir, taskFile)}
	b, err := readIn(root, taskFile)
	if err != nil {
		return s, err
	}
	var fields yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(b, &fields, yaml.UseOrderedMap()); err != nil {
		return s, fmt.Errorf("%s: %w", taskFile, err)
	}
	var row bytes.Buffer
	row.WriteByte('{')
	put := func(key string, v any) error {
		value, err := marshal(v)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", taskFile, key, err)
		}
		name, err := marshal(key)
		if err != nil {
			return err
		}
		if row.Len() > 1 {
			row.WriteString(", ")
		}
		fmt.Fprintf(&row, "%s: %s", name, value)
		return nil
	}
	for _, f := range fields {
		key, ok := f.Key.(string)
		if !ok {
			return s, fmt.Errorf("%s: a key that is no text: %v", taskFile, f.Key)
		}
		if slices.Contains(notColumns, key) {
			continue
		}
		if err := put(key, f.Value); err != nil {
			return s, err
		}
	}
	for _, f := range inFiles {
		b, err := readIn(root, f.file)
		if err != nil {
			return s, err
		}
		if err := put(f.column, string(b)); err != nil {
			return s, err
		}
	}
	hints, err := readIn(root, hintsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if err := put("hints_text", string(hints)); err != nil {
		return s, err
	}
	if b, err = readIn(root, testsFile); err != nil {
		return s, err
	}
	var lists struct {
		F2P []string `json:"FAIL_TO_PASS"`
		P2P []string `json:"PASS_TO_PASS"`
	}
	if err := json.Unmarshal(b, &lists); err != nil {
		return s, fmt.Errorf("%s: %w", testsFile, err)
	}
	if err := errors.Join(put("FAIL_TO_PASS", some(lists.F2P)), put("PASS_TO_PASS", some(lists.P2P))); err != nil {
		return s, err
	}
	row.WriteByte('}')
	if s.row, err = exchange.ParseRow(row.Bytes(), 1); err != nil {
		return s, err
	}
	if s.assets, err = below(root, "test_assets"); err != nil {
		return s, err
	}
	if s.row.Image == "" {
		s.docker, err = dockerContext(root)
	}
	return s, err
}

func some(ids []string) []string {
	if ids == nil {
		return []string{}
	}
	return ids
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(ordered(v))
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// ordered turns YAML's maps into what JSON can hold.
func ordered(v any) any {
	switch v := v.(type) {
	case yaml.MapSlice:
		m := map[string]any{}
		for _, e := range v {
			m[fmt.Sprint(e.Key)] = ordered(e.Value)
		}
		return m
	case []any:
		for i := range v {
			v[i] = ordered(v[i])
		}
	}
	return v
}

func readIn(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxInFile {
		return nil, fmt.Errorf("%s: not a plain file of at most %d MiB", name, maxInFile>>20)
	}
	return root.ReadFile(name)
}

// below lists the plain files below a directory; a link is an error.
func below(root *os.Root, dir string) ([]importer.File, error) {
	if _, err := root.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []importer.File
	total := int64(0)
	err := fs.WalkDir(root.FS(), dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := readIn(root, p)
		if err != nil {
			return err
		}
		if total += int64(len(b)); total > maxOfAssets {
			return fmt.Errorf("%s: more than %d MiB", dir, maxOfAssets>>20)
		}
		all = append(all, importer.File{Path: strings.TrimPrefix(p, dir+"/"), Data: b})
		return nil
	})
	return all, err
}

// secret are files of a task that must not be in an image.
var secret = []string{"gold.patch", "test.patch", "eval.sh", testsFile, taskFile, hintsFile, "problem_statement.md"}

// dockerContext is what an image is built from where none is published: the
// Dockerfile and what lies beside it, but for the answers.
func dockerContext(root *os.Root) ([]importer.File, error) {
	all, err := below(root, ".")
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(f importer.File) bool {
		top, _, _ := strings.Cut(f.Path, "/")
		return slices.Contains(secret, f.Path) || top == "test_assets" || top == "problem_assets"
	})
	if !slices.ContainsFunc(all, func(f importer.File) bool { return f.Path == "Dockerfile" }) {
		return nil, errors.New("no image and no Dockerfile")
	}
	for i := range all {
		all[i].Path = path.Join("environment", all[i].Path)
	}
	return all, nil
}
