package builtin

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/task"
)

// maxTargets bounds the files that a task may ask for in one answer.
const maxTargets = 20

// targets are the files that answer a task: those that [metadata.assay] answer
// names, else the only file that the instruction names in backticks, absolute
// or below the working directory. A name that occurs there because it is to be
// read, or run, makes the choice unclear, and so the task must say.
func targets(b task.Brief, workdir string) ([]string, error) {
	if n := len(b.Answer); n > maxTargets {
		return nil, fmt.Errorf("oneshot: the task asks for %d files; %d at most can be answered at once", n, maxTargets)
	}
	if len(b.Answer) > 0 {
		return b.Answer, nil
	}
	if workdir == "" {
		workdir = "/"
	}
	var found []string
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(b.Instruction, -1) {
		name := m[1]
		if !looksLikeFile(name) {
			continue
		}
		if !path.IsAbs(name) {
			name = path.Join(workdir, name)
		}
		if name = path.Clean(name); !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	const remedy = ": name it as answer in [metadata.assay] of task.toml"
	switch len(found) {
	case 1:
		return found, nil
	case 0:
		return nil, errors.New("oneshot: the task names no file that the answer belongs into" + remedy)
	}
	return nil, fmt.Errorf("oneshot: the task names several files (%s), so it is unclear which one is the answer%s", strings.Join(found[:min(5, len(found))], ", "), remedy)
}

// looksLikeFile tells a file's name from code: no blanks, and an extension.
func looksLikeFile(name string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9_./+-]*[A-Za-z0-9_+-]\.[A-Za-z][A-Za-z0-9]{0,9}$`).MatchString(name) && !strings.Contains(name, "..")
}

// answered is a file of an answer.
type answered struct{ path, text string }

// extract finds the files in an answer. In this order:
//
//  1. blocks that name their file, in their info or on the line before: each is
//     that file, if it is one of those asked for; of several the last counts;
//  2. one file asked for: the first block in its language, else the first
//     block; blocks that only show how to call the answer come after it;
//  3. one file asked for and no block at all: the whole answer.
//
// Text that begins indented goes on where the file ends now: models without
// instruction training complete it instead of repeating it.
func extract(text string, files []asked) []answered {
	all := blocks(text)
	var found []answered
	for _, b := range all {
		for _, f := range files {
			if !names(b, f.Path) {
				continue
			}
			found = slices.DeleteFunc(found, func(a answered) bool { return a.path == f.Path })
			found = append(found, answered{f.Path, whole(b.text, f)})
		}
	}
	if len(found) > 0 || len(files) != 1 {
		return found
	}
	f := files[0]
	switch b := inLanguage(all, f.Path); {
	case b != nil && strings.TrimSpace(b.text) != "":
		return []answered{{f.Path, whole(b.text, f)}}
	case b != nil || strings.TrimSpace(text) == "":
		return nil
	}
	return []answered{{f.Path, whole(strings.TrimRight(strings.TrimLeft(text, "\r\n"), " \r\n")+"\n", f)}}
}

// names reports whether a block says that it is a file.
func names(b block, file string) bool {
	is := func(word string) bool {
		word = strings.Trim(word, "`*_#:()[]\"',")
		return word != "" && (word == file || strings.HasSuffix(file, "/"+word) && looksLikeFile(word))
	}
	for word := range strings.FieldsFuncSeq(b.info, func(r rune) bool { return r == ' ' || r == '=' || r == ':' }) {
		if is(word) {
			return true
		}
	}
	// A line of prose may end with a name too ("Now foo.py:"), so it counts
	// only if it is short.
	words := strings.Fields(b.before)
	return len(words) > 0 && len(words) <= 4 && is(words[len(words)-1])
}

// inLanguage is the first block in a file's language, else the first.
func inLanguage(all []block, file string) *block {
	words := map[string][]string{
		".py": {"python", "py", "python3"}, ".js": {"javascript", "js"}, ".ts": {"typescript", "ts"}, ".go": {"go", "golang"},
		".sh": {"sh", "bash", "shell"}, ".rs": {"rust", "rs"}, ".rb": {"ruby", "rb"}, ".c": {"c"}, ".cpp": {"cpp", "c++"},
		".java": {"java"}, ".json": {"json"}, ".toml": {"toml"}, ".yaml": {"yaml", "yml"}, ".yml": {"yaml", "yml"}, ".sql": {"sql"},
	}[path.Ext(file)]
	for i, b := range all {
		lang, _, _ := strings.Cut(strings.ToLower(b.info), " ")
		if slices.Contains(words, lang) {
			return &all[i]
		}
	}
	if len(all) > 0 {
		return &all[0]
	}
	return nil
}

// whole is a file's new text.
func whole(text string, f asked) string {
	if text == "" || text[0] != ' ' && text[0] != '\t' || f.Missing || f.Hidden {
		return text
	}
	return f.Text + text
}
