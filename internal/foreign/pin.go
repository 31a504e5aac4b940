package foreign

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/pelletier/go-toml/v2"

	"assay/task"
)

// pinned writes a pair into the task's task.toml, with Harbor's own keys where
// there are such, and changes nothing else of the file, comments included.
func pinned(t *task.Task, p Pair) (bool, error) {
	if t.Format == task.FormatTerminalBench1 {
		return false, fmt.Errorf("a directory in the form of Terminal-Bench 1 has no task.toml to pin modes in; convert it first (modes: %s)", p)
	}
	file := filepath.Join(t.Dir, "task.toml")
	old, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	text := string(old)
	mode := func(has bool) string {
		if has {
			return string(task.NetworkPublic)
		}
		return string(task.NetworkNone)
	}
	keys := []struct {
		table, key, value string
		now               task.NetworkMode
	}{
		{"metadata.assay", "verifier", string(p.Verifier), ""},
		{"verifier", "network_mode", mode(p.Network != Nobody), t.Config.Verifier.NetworkMode},
		{"environment", "network_mode", mode(p.Network == Both), t.Config.Environment.NetworkMode},
	}
	for _, k := range keys {
		if k.value == string(task.NetworkPublic) && k.now == task.NetworkAllowlist {
			continue // its own list is what it was tried with
		}
		if k.table == "environment" {
			text = without(text, "environment", "allow_internet")
		}
		text = set(text, k.table, k.key, k.value)
	}
	if text == string(old) {
		return false, nil
	}
	if err := onlyThese(string(old), text); err != nil {
		return false, fmt.Errorf("task.toml is written in a way that is not changed by machine (%w); write by hand: [metadata.assay] verifier = %q, [verifier] network_mode = %q, [environment] network_mode = %q",
			err, keys[0].value, keys[1].value, keys[2].value)
	}
	if err := replace(file, []byte(text)); err != nil {
		return false, err
	}
	again, err := task.Load(t.Dir)
	if err != nil {
		return false, errors.Join(fmt.Errorf("task.toml with the pinned keys cannot be read: %w", err), replace(file, old))
	}
	*t = *again
	return true, nil
}

var header = regexp.MustCompile(`^\s*\[`)

// table finds the lines of a table: from after its header to before the next.
func table(lines []string, name string) (from, to int, ok bool) {
	is := regexp.MustCompile(`^\s*\[\s*` + strings.ReplaceAll(regexp.QuoteMeta(name), `\.`, `\s*\.\s*`) + `\s*\]\s*(#.*)?$`)
	for i, l := range lines {
		if !is.MatchString(strings.TrimRight(l, "\r\n")) {
			continue
		}
		to = i + 1
		for to < len(lines) && !header.MatchString(lines[to]) {
			to++
		}
		return i + 1, to, true
	}
	return 0, 0, false
}

func entry(key string) *regexp.Regexp {
	return regexp.MustCompile(`^\s*` + regexp.QuoteMeta(key) + `\s*=`)
}

// set gives a key of a table a text, where it stands or below the header.
func set(text, name, key, value string) string {
	lines := strings.SplitAfter(text, "\n")
	line := fmt.Sprintf("%s = %q\n", key, value)
	from, to, ok := table(lines, name)
	if !ok {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + "\n[" + name + "]\n" + line
	}
	for i := from; i < to; i++ {
		if entry(key).MatchString(lines[i]) {
			lines[i] = line
			return strings.Join(lines, "")
		}
	}
	if !strings.HasSuffix(lines[from-1], "\n") {
		lines[from-1] += "\n"
	}
	lines[from-1] += line
	return strings.Join(lines, "")
}

// without takes a key's line out of a table.
func without(text, name, key string) string {
	lines := strings.SplitAfter(text, "\n")
	from, to, ok := table(lines, name)
	for i := from; ok && i < to; i++ {
		if entry(key).MatchString(lines[i]) {
			lines[i] = ""
		}
	}
	return strings.Join(lines, "")
}

// onlyThese holds two files against each other without the keys that pin.
func onlyThese(old, new string) error {
	var a, b map[string]any
	if err := toml.Unmarshal([]byte(old), &a); err != nil {
		return err
	}
	if err := toml.Unmarshal([]byte(new), &b); err != nil {
		return err
	}
	if !reflect.DeepEqual(bare(a), bare(b)) {
		return fmt.Errorf("other keys would change")
	}
	return nil
}

// bare takes the keys that pin out of a document, and tables that are empty then.
func bare(m map[string]any) map[string]any {
	drop := func(m map[string]any, keys ...string) {
		for _, k := range keys {
			delete(m, k)
		}
	}
	for _, name := range []string{"verifier", "environment"} {
		if t, ok := m[name].(map[string]any); ok {
			if drop(t, "network_mode", "allow_internet"); len(t) == 0 {
				delete(m, name)
			}
		}
	}
	if meta, ok := m["metadata"].(map[string]any); ok {
		if t, ok := meta["assay"].(map[string]any); ok {
			if drop(t, "verifier"); len(t) == 0 {
				delete(meta, "assay")
			}
		}
		if len(meta) == 0 {
			delete(m, "metadata")
		}
	}
	return m
}

// replace puts a file's new text in its place, whole, with the mode it had.
func replace(file string, b []byte) error {
	fi, err := os.Lstat(file)
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", file)
	}
	return renameio.WriteFile(file, b, fi.Mode().Perm())
}
