package label

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// gold is what a solution changes, as far as its files tell.
type gold struct {
	files    map[string]*touch
	commands int // lines of its script that are neither text nor change
}

// touch is what happens to one file.
type touch struct{ added, removed int }

func (g *gold) add(p string, added, removed int) {
	p = strings.TrimPrefix(path.Clean("/"+strings.TrimSpace(p)), "/")
	if own(p) || p == "" || p == "dev/null" {
		return
	}
	if g.files[p] == nil {
		g.files[p] = &touch{}
	}
	g.files[p].added += added
	g.files[p].removed += removed
}

// gold reads solution/: patches, archives beside the state that they replace,
// texts that a script writes, and what it edits and removes.
func (d *source) gold() (*gold, error) {
	g := &gold{files: map[string]*touch{}}
	before := map[string][]byte{}
	env, err := d.list("environment")
	if err != nil {
		return nil, err
	}
	for _, p := range env {
		if isArchive(p) {
			b, err := d.read(p)
			if err != nil {
				return nil, err
			}
			for name, text := range archive(b) {
				before[name] = text
			}
		}
	}
	for _, dir := range d.parts("solution") {
		files, err := d.list(dir)
		if err != nil {
			return nil, err
		}
		for _, p := range files {
			b, err := d.read(p)
			if err != nil {
				return nil, err
			}
			g.take(strings.TrimPrefix(p, dir+"/"), b, before)
		}
	}
	// Terminal-Bench 1 has its solution at the top.
	if b, err := d.read("solution.sh"); err != nil {
		return nil, err
	} else if b != nil {
		g.take("solution.sh", b, before)
	}
	return g, nil
}

func isArchive(p string) bool {
	return strings.HasSuffix(p, ".tar") || strings.HasSuffix(p, ".tar.gz") || strings.HasSuffix(p, ".tgz")
}

// take adds one file of a solution.
func (g *gold) take(name string, b []byte, before map[string][]byte) {
	ext := strings.ToLower(path.Ext(name))
	switch {
	case isArchive(name):
		for p, text := range archive(b) {
			g.replaced(p, before[p], text)
		}
	case ext == ".patch" || ext == ".diff":
		g.patch(b)
	case ext == ".sh" || bytes.HasPrefix(b, []byte("#!")) && bytes.Contains(b[:min(len(b), 64)], []byte("sh")):
		g.script(string(b), before)
	case ext == ".md" || ext == ".txt":
		// words about the solution
	case looksLikeDiff(b):
		g.patch(b)
	default:
		g.add(name, lineCount(b), 0)
	}
}

func (g *gold) replaced(p string, was, is []byte) {
	if bytes.Equal(was, is) {
		return
	}
	a, r := balance(was, is)
	g.add(p, a, r)
}

func looksLikeDiff(b []byte) bool {
	return bytes.HasPrefix(b, []byte("diff --git ")) || bytes.HasPrefix(b, []byte("--- ")) && bytes.Contains(b, []byte("\n+++ "))
}

// patch counts a unified diff; one that is broken counts as far as it goes.
func (g *gold) patch(b []byte) bool {
	files, _, err := gitdiff.Parse(bytes.NewReader(b))
	if err != nil && len(files) == 0 {
		return false
	}
	for _, f := range files {
		name := f.NewName
		if f.IsDelete || name == "" {
			name = f.OldName
		}
		a, r := 0, 0
		for _, h := range f.TextFragments {
			a, r = a+int(h.LinesAdded), r+int(h.LinesDeleted)
		}
		if f.IsBinary {
			a = max(a, 1)
		}
		g.add(name, a, r)
	}
	return len(files) > 0
}

// balance counts the lines that came and went; a line that moved counts as
// neither.
func balance(was, is []byte) (added, removed int) {
	n := map[string]int{}
	for l := range bytes.Lines(is) {
		n[string(bytes.TrimRight(l, "\r\n"))]++
	}
	for l := range bytes.Lines(was) {
		n[string(bytes.TrimRight(l, "\r\n"))]--
	}
	for _, c := range n {
		if c > 0 {
			added += c
		} else {
			removed -= c
		}
	}
	return added, removed
}

func lineCount(b []byte) int {
	n := bytes.Count(b, []byte("\n"))
	if len(b) > 0 && b[len(b)-1] != '\n' {
		n++
	}
	return n
}

var (
	hereDoc  = regexp.MustCompile(`<<-?\s*(?:'([A-Za-z_]\w*)'|"([A-Za-z_]\w*)"|\\?([A-Za-z_]\w*))`)
	writesTo = regexp.MustCompile(`(>>?)\s*["']?([^\s"'<>|&;]+)["']?|\btee\s+(?:(-a)\s+)?["']?([^\s"'<>|&;-][^\s"'<>|&;]*)`)
	edits    = regexp.MustCompile(`\b(?:sed\s+(?:-[A-Za-z]*\s+)*-i\S*|perl\s+(?:-\w+\s+)*-\w*i\w*|chmod\s+\S+|chown\s+\S+|patch|truncate|install)\b(.*)`)
	deletes  = regexp.MustCompile(`^\s*(?:sudo\s+)?rm\s+(?:-\w+\s+)*(?:--\s+)?(.+)`)
	pathLike = regexp.MustCompile(`(?:^|\s)["']?((?:/|\./)?[\w@.+-]+(?:/[\w@.+-]+)+|/?[\w@+-]+\.[A-Za-z]\w{0,9})["']?`)
)

// script reads a shell script: a text that it holds is a patch, or is written
// to a file; the rest are commands, some of which name the file that they change.
func (g *gold) script(text string, before map[string][]byte) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		l := strings.TrimSpace(lines[i])
		m := hereDoc.FindStringSubmatch(l)
		if l == "" || strings.HasPrefix(l, "#") || m == nil && plumbing(l) {
			continue
		}
		if m == nil {
			g.command(l, before)
			continue
		}
		end := m[1] + m[2] + m[3]
		var doc []string
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != end; i++ {
			doc = append(doc, lines[i])
		}
		body := strings.Join(doc, "\n") + "\n"
		if looksLikeDiff([]byte(body)) && g.patch([]byte(body)) {
			continue
		}
		if w := writesTo.FindStringSubmatch(hereDoc.ReplaceAllString(l, "")); w != nil {
			p := w[2] + w[4]
			if was, ok := before[path.Clean("/"+p)]; ok && w[1] != ">>" && w[3] == "" {
				g.replaced(p, was, []byte(body))
			} else {
				g.add(p, len(doc), 0)
			}
			continue
		}
		g.commands += max(1, len(doc)) // a program in another language
	}
}

// plumbing are lines of any script.
func plumbing(l string) bool {
	for _, p := range []string{"set -", "set +", "cd ", "export ", "source ", ". ", "tar -x", "git apply", "here=", "PATH=", "fi", "done", "else", "then", "exit", "echo ", "}", "{"} {
		if strings.HasPrefix(l, p) && !strings.Contains(l, ">") {
			return true
		}
	}
	return false
}

func (g *gold) command(l string, before map[string][]byte) {
	g.commands++
	if m := deletes.FindStringSubmatch(l); m != nil {
		for _, p := range words(m[1]) {
			if !strings.HasPrefix(p, "-") {
				g.add(p, 0, max(1, lineCount(before[path.Clean("/"+p)])))
			}
		}
		return
	}
	if m := edits.FindStringSubmatch(l); m != nil {
		if all := pathLike.FindAllStringSubmatch(m[1], -1); len(all) > 0 {
			g.add(all[len(all)-1][1], 1, 1)
		}
		return
	}
	if w := writesTo.FindStringSubmatch(l); w != nil && !strings.HasPrefix(w[2], "/dev/") && !strings.HasPrefix(w[2], "&") && w[2]+w[4] != "" {
		g.add(w[2]+w[4], 1, 0)
	}
}

// words splits what a shell would, for quotes without anything odd in them.
func words(s string) []string {
	var all []string
	for _, w := range strings.Fields(s) {
		if w == "&&" || w == ";" || w == "||" || w == "|" {
			break
		}
		all = append(all, strings.Trim(strings.TrimSuffix(w, ";"), `"'`))
	}
	return all
}

// scope sums up, and names the language of most files.
func (g *gold) scope() (Scope, string) {
	s := Scope{Known: len(g.files) > 0, Files: len(g.files), Layers: []string{}}
	dirs, langs := map[string]bool{}, map[string]int{}
	for p, t := range g.files {
		s.Added += t.added
		s.Removed += t.removed
		dirs[path.Dir(p)] = true
		if l := layer(p); !slices.Contains(s.Layers, l) {
			s.Layers = append(s.Layers, l)
		}
		if l := language(p); l != "" {
			langs[l]++
		}
	}
	slices.Sort(s.Layers)
	s.Lines, s.Modules = s.Added+s.Removed, len(dirs)
	if !s.Known {
		s.Lines = g.commands
	}
	best := ""
	for l, n := range langs {
		if best == "" || n > langs[best] || n == langs[best] && l < best {
			best = l
		}
	}
	return s, best
}
